import Domain

/// The people and the users of found rows, each with some values, of which the lowest counts.
///
/// Rows in runs have people. Their users are found at the end, and one reading finds the users of some people only: other readings run
/// in between.
struct FoundUsers: Sendable {
    private var people: NumberTable
    /// The users by the number of their id.
    private(set) var users: NumberTable
    /// The people whose users are found, as a place in ``people``.
    private var place = 0

    /// The people whose users one reading finds.
    static var peopleInOneReading: Int { 1 << 13 }

    /// - Parameter width: the number of values of each person.
    init(width: Int = 0) { (people, users) = (NumberTable(width: width), NumberTable(width: width)) }

    /// Inserts the user of a row.
    mutating func insert(_ user: ShownUser, _ values: [Int64] = []) { users.insert(user.key.number, values) }

    /// Inserts different people of a run, in the order of their numbers.
    mutating func insert(people numbers: [UInt64]) { people.insert(sorted: numbers) }

    /// Inserts people of rows, in any order.
    mutating func insert(unsorted numbers: [UInt64], _ values: [Int64]) { people.insert(unsorted: numbers, values) }

    /// Inserts the people of other rows.
    mutating func add(_ other: FoundUsers) { people.add(other.people) }

    mutating func settle() { people.settle() }

    var byteCount: Int { people.byteCount + users.byteCount }

    /// Finds the users of further people.
    ///
    /// - Parameter left: the people whose users this reading may still find.
    /// - Returns: whether the users of all people are found.
    mutating func find(
        _ left: inout Int, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool {
        while left > 0 {
            let part = people.numbers(from: place, atMost: left)
            if part.numbers.isEmpty { return true }
            let shown = try snapshot.shownUsers(of: part.numbers.map(PersonID.init(number:)), in: project)
            var values: [Int64] = []
            if people.width > 0 {
                for (person, _) in shown {
                    guard let found = part.place(of: UInt64(bitPattern: person.rawValue)) else {
                        preconditionFailure("The store names a person that nobody has asked for.")
                    }
                    values += part.values[found * people.width..<(found + 1) * people.width]
                }
            }
            users.insert(unsorted: shown.map(\.user.number), values)
            place += part.numbers.count
            left -= part.numbers.count
        }
        return people.numbers(from: place, atMost: 1).numbers.isEmpty
    }
}

extension IdentityKey {
    /// The number by which users are counted: 64 bits of the keyed hash, as texts in columns.
    var number: UInt64 { hash.low }
}

extension Snapshot {
    /// The user ids that readers see for people, as hashes. People without a user id are left out.
    fileprivate func shownUsers(
        of people: [PersonID], in project: ProjectID
    ) throws(StoreFault) -> [(person: PersonID, user: IdentityKey)] {
        let groups = try groups(of: people)
        var shown: [(person: PersonID, user: IdentityKey)] = []
        shown.reserveCapacity(people.count)
        var names = UserNames(project)
        var known: [PersonID: IdentityKey] = [:]
        let asked = Set(groups.keys).union(groups.values.map(\.root))
        for held in try keys(of: [.claimUserID], heldBy: Array(asked)) where known[held.person] == nil {
            known[held.person] = held.key
        }
        for (person, group) in groups {
            if let user = known[group.root] ?? known[person] {
                shown.append((person, user))
            } else if let user = try names.user(of: person, self) {
                shown.append((person, user.key))
            }
        }
        // People alone in their groups are most people, and show an id of their own.
        let alone = groups.isEmpty ? people : people.filter { groups[$0] == nil }
        var last: (person: PersonID, type: IdentityType)?
        for held in try keys(of: [.claimUserID, .claimAnonymousID], heldBy: alone) {
            if last?.person == held.person {
                guard (held.type, last?.type) == (.claimUserID, .claimAnonymousID) else { continue }
                shown.removeLast()
            }
            shown.append((held.person, held.key))
            last = (held.person, held.type)
        }
        return shown
    }
}
