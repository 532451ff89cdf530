import Domain
import Postgres

/// The groups of people, so that a batch reads of a large group only what the batch changes.
///
/// Each person of a group has the group's label, the id of any of its members. `groups` has the root and the number of members,
/// and of a large group the oldest member and the last sighting. `group_rows` and `group_identities` have the other totals of
/// large groups.
struct GroupTables {
    private typealias Statement = Connection.Statement

    /// The labels that replace other labels, and the labels of single people.
    private var moved: (from: [Int64], to: [Int64]) = ([], [])
    private var labelled: [PersonID: PersonID?] = [:]
    /// The labels whose groups or totals are written anew.
    private(set) var ended: Set<Int64> = []
    /// The labels of the large groups, by their roots.
    private(set) var labels: [PersonID: PersonID] = [:]
    private var groups = GroupTables.emptyGroups
    private var rows = GroupTables.emptyRows
    private var identities = GroupTables.emptyIdentities

    private static let emptyGroups = TableInsert(
        "groups",
        [.integer("label"), .integer("root"), .integer("size"), .integer("first"), .integer("last_seen")],
        conflict: """
            ON CONFLICT (label) DO UPDATE
            SET root = excluded.root, size = excluded.size, first = excluded.first, last_seen = excluded.last_seen
            """)
    private static let emptyRows = TableInsert(
        "group_rows", [.integer("label"), .integer("kind"), .integer("count")],
        conflict: "ON CONFLICT (label, kind) DO UPDATE SET count = excluded.count")
    private static let emptyIdentities = TableInsert(
        "group_identities", [.integer("label"), .integer("type"), .integer("count")],
        conflict: "ON CONFLICT (label, type) DO UPDATE SET count = excluded.count")

    init() {}

    /// - Parameters:
    ///   - changed: the groups as a batch leaves them.
    ///   - label: the label of a person's group before the batch.
    init(_ changed: [ChangedGroup], label: (PersonID) -> PersonID?) {
        for group in changed { add(group, label) }
    }

    /// Adds a group. Its largest part keeps the label, so that a merge costs the smaller side.
    private mutating func add(_ group: ChangedGroup, _ label: (PersonID) -> PersonID?) {
        var stored: [PersonID] = []
        var people: [PersonID] = []
        for part in group.parts {
            switch part {
            case .person(let person): people.append(person)
            case .stored(let root): if let label = label(root) { stored.append(label) }
            case .listed(let members):
                people += members
                // The totals of a group that was split are written anew, with fewer kinds.
                ended.formUnion(members.compactMap { label($0)?.rawValue })
            }
        }
        guard group.count > 1 else {
            set(nil, of: people)
            return
        }
        let own = stored.first ?? people.first { label($0) == $0 } ?? people.min() ?? group.root
        for label in stored where label != own {
            moved.from.append(label.rawValue)
            moved.to.append(own.rawValue)
            ended.insert(label.rawValue)
        }
        set(own, of: people.filter { label($0) != own })
        let totals = group.totals
        if totals != nil { labels[group.root] = own }
        groups.add(
            .integer(own.rawValue), .integer(group.root.rawValue), .integer(Int64(group.count)),
            .integer(totals?.first?.rawValue), .integer(totals?.lastSeen?.rawValue))
        for (kind, count) in totals?.rows ?? [:] {
            rows.add(.integer(own.rawValue), .integer(Int64(kind.rawValue)), .integer(Int64(count)))
        }
        for (type, count) in totals?.identities ?? [:] {
            identities.add(.integer(own.rawValue), .integer(Int64(type.rawValue)), .integer(Int64(count)))
        }
    }

    private mutating func set(_ label: PersonID?, of people: [PersonID]) {
        for person in people { labelled[person] = .some(label) }
    }

    /// The label of a person that the batch makes. The person is stored with it, and not updated afterwards.
    mutating func takeLabel(ofNew person: PersonID) -> Int64? {
        labelled.isEmpty ? nil : labelled.removeValue(forKey: person)??.rawValue
    }

    private static let move = Statement(
        """
        UPDATE people SET label = moved.label FROM unnest($1::bigint[], $2::bigint[]) AS moved (ended, label)
        WHERE people.label = moved.ended
        """)

    private static let labelPeople = Statement(
        """
        UPDATE people SET label = nullif(new.label, 0) FROM unnest($1::bigint[], $2::bigint[]) AS new (id, label)
        WHERE people.id = new.id
        """)

    private static let end = ["groups", "group_rows", "group_identities"].map { table in
        Statement("DELETE FROM \(table) WHERE label = ANY ($1::bigint[])")
    }

    /// Sends the statements. The people of the batch were sent before.
    func send(to connection: Connection) {
        let labels = (labelled.keys.map(\.rawValue), labelled.values.map { $0?.rawValue ?? 0 })
        for (statement, values) in [
            (GroupTables.move, (moved.from, moved.to)), (GroupTables.labelPeople, labels),
        ] where !values.0.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: values.0)
            parameters.add(integers: values.1)
            connection.send(statement, parameters)
        }
        if !ended.isEmpty {
            var parameters = Parameters()
            parameters.add(integers: ended)
            for statement in GroupTables.end { connection.send(statement, parameters) }
        }
        for table in [groups, rows, identities] { table.send(to: connection) }
    }

    // MARK: - All groups

    /// Makes all groups from the merges in force, inside a transaction: for a store of an older version, and for a moved store.
    static func make(_ connection: Connection) throws(StoreFault) {
        var made = GroupTables()
        for (number, group) in try forest(connection).groups.enumerated() {
            let label = group.members[0]
            made.set(label, of: group.members)
            made.groups.add(
                .integer(label.rawValue), .integer(group.root.rawValue), .integer(Int64(group.members.count)),
                .integer(group.members.count < Group.membersWithFolds ? nil : label.rawValue), .integer(nil))
            if number % page == page - 1 {
                made.send(to: connection)
                made = GroupTables()
            }
        }
        made.send(to: connection)
        for statement in count { connection.send(statement) }
        _ = try attempt { () throws(PostgresFault) in try connection.answers() }
    }

    private static let page = 10_000

    /// The totals of all large groups.
    private static let count = [
        """
        UPDATE groups SET last_seen = (SELECT max(last_seen) FROM people WHERE people.label = groups.label)
        WHERE size >= \(Group.membersWithFolds)
        """,
        """
        INSERT INTO group_rows (label, kind, count)
        SELECT label, kind, sum(row_counts.count) FROM groups JOIN people USING (label)
            JOIN row_counts ON row_counts.person = people.id
        WHERE size >= \(Group.membersWithFolds) GROUP BY label, kind
        """,
        """
        INSERT INTO group_identities (label, type, count)
        SELECT label, type, count(*) FROM groups JOIN people USING (label)
            JOIN links ON links.person = people.id AND links.ended_by IS NULL
        WHERE size >= \(Group.membersWithFolds) GROUP BY label, type
        """,
    ].map(Statement.init)

    private static let merges = Statement(
        """
        SELECT id, source, destination, rule FROM merges WHERE ended_by IS NULL AND id > $1 ORDER BY id LIMIT \(page)
        """)

    /// The groups that the merges in force make.
    static func forest(_ connection: Connection) throws(StoreFault) -> MergeForest {
        var forest = MergeForest()
        var last: Int64 = .min
        while true {
            let rows = try attempt { () throws(PostgresFault) in try connection.run(merges, Parameters(last)) }
            if rows.count == 0 { return forest }
            for row in 0..<rows.count { forest.join(try Merge(rows, row)) }
            last = rows.integer(rows.count - 1, 0)
        }
    }
}
