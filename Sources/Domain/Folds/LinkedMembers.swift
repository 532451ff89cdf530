/// The members of a group that are users of the Linking dialect, and whether each has installs that are active or wait.
package struct LinkedMembers: GroupFold, Equatable {
    private var users: [PersonID: Bool] = [:]

    package var isEmpty: Bool { users.isEmpty }

    /// Whether a member has installs that are active or wait.
    package var hasLive: Bool { users.values.contains(true) }

    /// The member that keeps the installs of a person: the first that has some, else the person, else the first that is a user.
    func first(for person: PersonID) -> PersonID? {
        users.filter(\.value).keys.min() ?? (users[person] != nil ? person : users.keys.min())
    }

    package init(_ person: PersonID, _ document: [UInt8]?) {
        if let document { set(person, document) }
    }

    package mutating func join(_ joining: LinkedMembers, by merge: MergeID) { users.merge(joining.users) { $1 } }

    package mutating func change(_ person: PersonID, from before: [UInt8]?, to after: [UInt8]) { set(person, after) }

    private mutating func set(_ person: PersonID, _ document: [UInt8]) {
        // An empty document stands where there is no user any more.
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
