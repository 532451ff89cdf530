/// The Claim state of the members of a group: the newest value of each field.
///
/// The order of the merges does not affect the result.
package struct FoldedAppUser: GroupFold, Equatable {
    private struct Said: Equatable, Sendable {
        let value: String
        let at: Instant
        let origin: PersonID

        func goesBefore(_ other: Said?) -> Bool {
            guard let other, origin != other.origin else { return true }
            return (at, origin) > (other.at, other.origin)
        }
    }

    package private(set) var firstSeen = Instant(milliseconds: .max)
    package private(set) var lastSeen = Instant(milliseconds: .min)
    package private(set) var apps: [AppID: AppUser.Use] = [:]
    private var said: [AppUser.Field: Said] = [:]
    private var saidDevelopment: Said?

    package var fields: [AppUser.Field: String] { said.mapValues(\.value) }
    package var development: Bool? { saidDevelopment.map { $0.value == "1" } }
    package var isEmpty: Bool { lastSeen == Instant(milliseconds: .min) }

    package init(_ person: PersonID, _ document: [UInt8]?) {
        if let document { add(person, document) }
    }

    package mutating func change(
        _ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID
    ) -> Bool {
        add(person, after)
        return true
    }

    private mutating func add(_ person: PersonID, _ document: [UInt8]) {
        guard let user = AppUser(of: person, packed: document) else { return }
        func said(_ value: String) -> Said { Said(value: value, at: user.lastSeen, origin: person) }
        add(user.firstSeen, user.lastSeen, user.apps)
        for (field, value) in user.fields { add(said(value), of: field) }
        if let isDevelopment = user.development { addDevelopment(said(isDevelopment ? "1" : "0")) }
    }

    package mutating func join(_ joining: FoldedAppUser, by merge: MergeID) {
        add(joining.firstSeen, joining.lastSeen, joining.apps)
        for (field, said) in joining.said { add(said, of: field) }
        if let said = joining.saidDevelopment { addDevelopment(said) }
    }

    private mutating func add(_ first: Instant, _ last: Instant, _ uses: [AppID: AppUser.Use]) {
        firstSeen = min(firstSeen, first)
        lastSeen = max(lastSeen, last)
        apps.merge(uses) { one, two in
            AppUser.Use(first: min(one.first, two.first), last: max(one.last, two.last))
        }
    }

    private mutating func add(_ new: Said, of field: AppUser.Field) {
        if new.goesBefore(said[field]) { said[field] = new }
    }

    private mutating func addDevelopment(_ new: Said) {
        if new.goesBefore(saidDevelopment) { saidDevelopment = new }
    }

    package var packed: [UInt8] {
        var packer = Packer()
        func add(_ said: Said?) {
            packer.add(said != nil)
            guard let said else { return }
            packer.add(said.value)
            packer.add(said.at)
            packer.add(said.origin)
        }
        packer.add(firstSeen)
        packer.add(lastSeen)
        add(saidDevelopment)
        packer.add(UInt64(apps.count))
        for (app, use) in apps.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(UInt64(bitPattern: app.rawValue))
            packer.add(use.first)
            packer.add(use.last)
        }
        for (field, value) in said.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(field.rawValue)
            add(value)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        func said() -> Kept<Said>? {
            unpacker.kept { unpacker in
                guard let value = unpacker.text(), let at = unpacker.instant(), let origin = unpacker.person() else {
                    return nil
                }
                return Said(value: value, at: at, origin: origin)
            }
        }
        guard let firstSeen = unpacker.instant(), let lastSeen = unpacker.instant(), let development = said(),
            let count = unpacker.integer()
        else { return nil }
        (self.firstSeen, self.lastSeen, saidDevelopment) = (firstSeen, lastSeen, development.value)
        for _ in 0..<count {
            guard let app = unpacker.integer(), let first = unpacker.instant(), let last = unpacker.instant() else {
                return nil
            }
            apps[AppID(rawValue: Int64(bitPattern: app))] = AppUser.Use(first: first, last: last)
        }
        while !unpacker.isAtEnd {
            guard let field = unpacker.byte().flatMap(AppUser.Field.init), let value = said()?.value else { return nil }
            self.said[field] = value
        }
    }
}
