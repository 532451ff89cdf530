/// The members of a group that are users of the Linking dialect, and whether each of them has active or waiting installs.
package struct LinkedMembers: GroupFold, Equatable {
    private var users: [PersonID: Bool] = [:]

    package var isEmpty: Bool { users.isEmpty }

    /// Whether a member has active or waiting installs.
    package var hasLive: Bool { users.values.contains(true) }

    /// The member that keeps the installs of a person: the first member with installs, or else the person, or else the first
    /// user.
    func first(for person: PersonID) -> PersonID? {
        users.filter(\.value).keys.min() ?? (users[person] != nil ? person : users.keys.min())
    }

    package init(_ person: PersonID, _ document: [UInt8]?) {
        if let document { set(person, document) }
    }

    package mutating func join(_ joining: LinkedMembers, by merge: MergeID) { users.merge(joining.users) { $1 } }

    package mutating func change(
        _ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID
    ) -> Bool {
        set(person, after)
        return true
    }

    private mutating func set(_ person: PersonID, _ document: [UInt8]) {
        // An empty document means that the user was removed.
        users[person] = document.isEmpty ? nil : LinkedUser(of: person, packed: document).map { !$0.live.isEmpty }
    }

    package var packed: [UInt8] {
        var packer = Packer()
        for (person, hasLive) in users.sorted(by: { $0.key < $1.key }) {
            packer.add(person)
            packer.add(hasLive)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        while !unpacker.isAtEnd {
            guard let person = unpacker.person(), let hasLive = unpacker.bool() else { return nil }
            users[person] = hasLive
        }
    }
}
