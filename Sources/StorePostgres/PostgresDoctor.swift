import ByteText
import Crypto
package import Domain
import Leaves
import Postgres

/// Checks the invariants of a store in a database, as it is at one moment.
///
/// It reads beside running servers, and delays no call.
package final class PostgresDoctor {
    private let connection: Connection
    private let progress: (String) -> Void
    private var findings: [Finding] = []
    /// The present moment, after which the journal has no entry; nil to skip this check.
    package var now: Instant?

    private static let describedAtMost = 5

    /// - Parameter progress: gets the name of each check.
    package init(_ settings: PostgresSettings, progress: @escaping (String) -> Void) throws(StoreFault) {
        self.progress = progress
        connection = try settings.connectForWholeTables()
    }

    /// Runs all checks. A healthy store has no findings.
    package func examine() throws(StoreFault) -> [Finding] {
        _ = try ask(Session.beginReading.text)
        guard try ask("SELECT 1 FROM pg_tables WHERE schemaname = current_schema AND tablename = 'state'").count == 1
        else { throw StoreFault(.notFound, "There is no store in that schema of the database.") }
        try PostgresTables.refuseHalf(connection)
        guard let key = try KeptSettings.read("hash_key", connection), let hashKey = Hash128(key.span) else {
            return [Finding(code: "hash_key", description: "The key of the store's hash is missing. Restore a backup.")]
        }
        for (what, checks) in PostgresDoctor.checks {
            progress(what)
            for check in checks { try look(check) }
        }
        try lookAtClock()
        try lookAtGroups()
        try lookAtKinds()
        try lookAtKeptActs()
        try lookAtInputs()
        try lookAtHashes(KeyedHash(key: hashKey))
        try lookAtHolders()
        try compareWithTree(KeyedHash(key: hashKey))
        try lookAtPeopleOfLeaves()
        _ = try ask(Session.rollback.text)
        return findings
    }

    /// Makes a check of another part of the server over the rows and documents of one moment.
    ///
    /// - Parameter check: gets the facts and all projects.
    package func examine(
        with check: (any RowFacts, [ProjectID]) throws(StoreFault) -> [Finding]
    ) throws(StoreFault) -> [Finding] {
        progress("runs of rows")
        guard let key = try KeptSettings.read("hash_key", connection).flatMap({ Hash128($0.span) }) else { return [] }
        let found = try ask("SELECT id FROM projects ORDER BY id")
        let projects = (0..<found.count).map { ProjectID(rawValue: Int32(truncatingIfNeeded: found.integer($0, 0))) }
        let snapshot = PostgresSnapshot(
            connection, hash: KeyedHash(key: key), derived: DerivedValues(bytes: 0, sumBytes: nil), lastRow: 0,
            moment: .seconds(1_000_000_000), .none, .none)
        defer { snapshot.close() }
        let findings = try check(snapshot, projects)
        if let fault = snapshot.fault { throw fault }
        return findings
    }

    /// The marks of the master keys with which the store makes new secrets.
    ///
    /// - Parameter name: the setting with the mark of the first key.
    package func masterKeys(first name: String) throws(StoreFault) -> Set<MasterKeyMark> {
        let first = try KeptSettings.read(name, connection).map { MasterKeyMark($0) }
        let rows = try ask(
            """
            SELECT body FROM documents WHERE id IN (
                SELECT max(id) FROM documents WHERE kind = \(DocumentKind.masterKeys.rawValue) GROUP BY hash
            )
            """)
        let histories = (0..<rows.count).map { rows.blob($0, 0) ?? [] }
        let projects = try ask("SELECT count(*) FROM projects").integer(0, 0)
        return MasterKeyHistory.newest(in: histories, projects: projects, first: first)
    }

    private func lookAtClock() throws(StoreFault) {
        let last = try ask("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
        guard let now, last.count > 0 else { return }
        if let fault = Finding(journalEndingAt: Instant(milliseconds: last.integer(0, 0)), now: now) {
            findings.append(fault)
        }
    }

    /// A question without answers in a healthy store, and the text of a finding. `#0` stands for the first column.
    private struct Check {
        let code: String
        let text: String
        let sql: String

        init(_ code: String, _ text: String, _ sql: String) { (self.code, self.text, self.sql) = (code, text, sql) }

        /// Each row of a table has a call that made it.
        static func origin(_ code: String, of what: String, in table: String) -> Check {
            Check(
                code, "\(what) #0 was made by journal row #1, which does not exist.",
                """
                SELECT id, made_by FROM \(table)
                WHERE NOT EXISTS (SELECT FROM journal WHERE sequence = \(table).made_by)
                """)
        }

        /// Each row of a table has a person; 0 means no person.
        static func person(_ code: String, of what: String, in table: String, _ column: String = "person") -> Check {
            Check(
                code, "\(what) #0 belongs to person #1, who does not exist.",
                """
                SELECT id, \(column) FROM \(table)
                WHERE \(column) <> 0 AND NOT EXISTS (SELECT FROM people WHERE people.id = \(table).\(column))
                """)
        }
    }

    /// The totals of large groups are the sums over their members. A sweep takes the rows of erased members out of both.
    private static func totals(
        _ what: String, _ kind: String, of table: String, in totals: String, _ sum: String, _ person: String
    ) -> Check {
        Check(
            "group_totals", "Group #0 counts #2 \(what) of \(kind) #1, and its members have #3.",
            """
            SELECT coalesce(said.label, found.label), coalesce(said.\(kind), found.\(kind)), coalesce(said.count, 0),
                coalesce(found.count, 0)
            FROM \(totals) AS said FULL JOIN (
                SELECT label, \(kind), (\(sum))::bigint AS count FROM groups JOIN people USING (label)
                JOIN \(table) ON people.id = \(person)
                WHERE size >= \(Group.membersWithFolds) GROUP BY label, \(kind)
            ) AS found ON found.label = said.label AND found.\(kind) = said.\(kind)
            WHERE coalesce(said.count, 0) <> coalesce(found.count, 0) AND NOT EXISTS (
                SELECT FROM people WHERE people.label = coalesce(said.label, found.label) AND erased_by IS NOT NULL
            )
            """)
    }

    /// The facts of a call have numbers behind those of the call before, up to the last number that the call notes.
    private static func numbers(_ code: String, of what: String, in table: String, _ last: String, _ state: String)
        -> Check
    {
        Check(
            code, "\(what) #0 is not among the numbers of its call #1.",
            """
            SELECT \(table).id, made_by FROM (
                SELECT sequence, \(last), lag(\(last), 1, 0::bigint) OVER (ORDER BY sequence) AS before FROM journal
            ) AS calls JOIN \(table) ON made_by = sequence WHERE \(table).id > \(last) OR \(table).id <= before
            UNION ALL SELECT before, sequence FROM (
                SELECT sequence, \(last), lag(\(last), 1, 0::bigint) OVER (ORDER BY sequence) AS before FROM journal
            ) AS calls WHERE \(last) < before
            UNION ALL SELECT \(last), sequence FROM journal WHERE \(last) > (SELECT \(state) FROM state)
            """)
    }

    private static let checks: [(String, [Check])] = [
        (
            "journal",
            [
                Check(
                    "journal_gap", "After journal row #1 comes row #0.",
                    """
                    SELECT sequence, before FROM (
                        SELECT sequence, lag(sequence, 1, 0::bigint) OVER (ORDER BY sequence) AS before, kind FROM journal
                    ) AS calls WHERE sequence <> before + 1
                        AND NOT (sequence > before AND kind = \(ActKind.restored.rawValue))
                    """),
                Check(
                    "leaf", "Call #0 is not in the tree over the journal. Restore a copy.",
                    """
                    SELECT sequence FROM journal WHERE sequence > (SELECT min(sequence) FROM leaves)
                        AND NOT EXISTS (SELECT FROM leaves WHERE leaves.sequence = journal.sequence)
                    """),
                Check(
                    "journal_time",
                    "Journal row #0 has an earlier time than the row before it, and notes no step of the clock.",
                    """
                    SELECT sequence FROM (
                        SELECT sequence, at, lag(at) OVER (ORDER BY sequence) AS before, kind FROM journal
                    ) AS calls WHERE at < before AND kind <> \(ActKind.clockStep.rawValue)
                    """),
                Check(
                    "state", "The store's state has #1 as the last #0, and the last is #2.",
                    """
                    SELECT * FROM (
                        SELECT 'call', sequence, (SELECT coalesce(max(sequence), 0) FROM journal) FROM state
                        UNION ALL SELECT 'link', link, (SELECT coalesce(max(id), 0) FROM links) FROM state
                        UNION ALL SELECT 'document', document, (SELECT coalesce(max(id), 0) FROM documents) FROM state
                    ) AS numbers (what, said, found)
                    -- The last document may have been removed again.
                    WHERE said < found OR said > found AND what <> 'document'
                    """),
                Check(
                    "state", "The store's state counts #1 #0, and the tables have #2.",
                    """
                    SELECT * FROM (
                        SELECT 'people', people, (SELECT count(*) FROM people WHERE erased_by IS NULL) FROM state
                        UNION ALL SELECT 'links', links, (SELECT count(*) FROM links WHERE ended_by IS NULL) FROM state
                        UNION ALL SELECT 'identities', identities,
                            (SELECT count(DISTINCT hash) FROM links WHERE ended_by IS NULL) FROM state
                        UNION ALL SELECT 'merges', merges, (SELECT count(*) FROM merges WHERE ended_by IS NULL) FROM state
                    ) AS numbers (what, said, found) WHERE said <> found
                    """),
            ]
        ),
        (
            "people",
            [
                .origin("person_origin", of: "Person", in: "people"),
                Check("person_id", "A person has the id 0.", "SELECT id FROM people WHERE id = 0"),
                Check(
                    "person_call", "Journal row #1 made person #0, and no read finds the person there.",
                    """
                    SELECT id, made_by FROM people WHERE NOT is_beside AND NOT EXISTS (
                        SELECT FROM journal WHERE sequence = people.made_by AND journal.person = people.id
                    )
                    """),
                Check(
                    "person_project", "Person #0 belongs to project #1, which does not exist.",
                    "SELECT id, project FROM people WHERE project NOT IN (SELECT id FROM projects)"),
            ]
        ),
        (
            "links",
            [
                .origin("link_origin", of: "Link", in: "links"), .person("link_person", of: "Link", in: "links"),
                numbers("link_number", of: "Link", in: "links", "last_link", "link"),
                Check(
                    "link_value", "Link #0 has a value that is empty or too long.",
                    """
                    SELECT id FROM links WHERE ended_by IS NULL AND (value = '' OR length(value) > \(Identity.valueBytes.upperBound))
                    """),
                Check(
                    "link_end", "Link #0 ended before it was made.", "SELECT id FROM links WHERE ended_by < made_by"),
                Check(
                    "link_twice", "Link #0 gives person #1 an identity that it has.",
                    """
                    SELECT max(id), person FROM links WHERE ended_by IS NULL GROUP BY person, type, hash
                    HAVING count(*) > 1
                    """),
            ]
        ),
        (
            "merges",
            [
                .origin("merge_origin", of: "Merge", in: "merges"),
                .person("merge_person", of: "Merge", in: "merges", "source"),
                .person("merge_person", of: "Merge", in: "merges", "destination"),
                // Two people may be merged by several rules, each a reason of its own (decision 22).
                Check(
                    "merge_twice", "Person #0 and person #1 are merged #2 times by one rule.",
                    """
                    SELECT least(source, destination), greatest(source, destination), count(*) FROM merges
                    WHERE ended_by IS NULL GROUP BY 1, 2, rule HAVING count(*) > 1
                    """),
                Check(
                    "merge_circle", "Merge #0 merges person #1 with itself.",
                    "SELECT id, source FROM merges WHERE source = destination"),
            ]
        ),
        (
            "totals of groups",
            [
                totals(
                    "rows", "kind", of: "row_counts", in: "group_rows", "sum(row_counts.count)", "row_counts.person"),
                totals(
                    "identities", "type", of: "links", in: "group_identities", "count(*)",
                    "links.person AND links.ended_by IS NULL"),
                Check(
                    "group_totals", "Group #0 was last seen at #1, and one of its members at #2.",
                    """
                    SELECT label, groups.last_seen, max(people.last_seen) FROM groups JOIN people USING (label)
                    WHERE size >= \(Group.membersWithFolds) GROUP BY label, groups.last_seen
                    HAVING groups.last_seen IS NULL OR groups.last_seen < max(people.last_seen)
                    """),
            ]
        ),
        (
            "rows",
            [
                .origin("row_origin", of: "Row", in: "rows"), .person("row_person", of: "Row", in: "rows"),
                Check(
                    "row_project", "Row #0 is of project #1, and its person of project #2.",
                    """
                    SELECT rows.id, rows.project, people.project FROM rows JOIN people ON people.id = rows.person
                    WHERE rows.project <> people.project
                    """),
                Check(
                    "row_chain", "Row #0 follows row #1, which is not an earlier row of its kind and person.",
                    """
                    SELECT rows.id, rows.previous FROM rows JOIN rows AS before ON before.id = rows.previous
                    WHERE before.id >= rows.id OR before.person <> rows.person OR before.kind <> rows.kind
                    """),
                numbers("row_number", of: "Row", in: "rows", "last_row", "row_number"),
                Check(
                    "row_counts", "The last row of kind #1 of person #0 is said to be row #2, which it is not.",
                    """
                    SELECT person, kind, last FROM row_counts AS said
                    WHERE last > (SELECT row_number FROM state)
                        OR EXISTS (SELECT FROM rows WHERE person = said.person AND kind = said.kind AND id > said.last)
                        OR EXISTS (
                            SELECT FROM rows WHERE id = said.last AND (person <> said.person OR kind <> said.kind)
                        )
                    """),
                Check(
                    "row_counts", "The count for person #0 is #2 rows of kind #1, and the person has #3.",
                    """
                    SELECT * FROM (
                        SELECT coalesce(said.person, found.person) AS person, coalesce(said.kind, found.kind) AS kind,
                            coalesce(said.count, 0) AS said, coalesce(found.count, 0) AS found
                        FROM row_counts AS said FULL JOIN (
                            SELECT person, kind, count(*) AS count FROM rows WHERE superseded_by IS NULL AND NOT EXISTS (
                                -- Those that are to be dropped and are no longer counted.
                                SELECT FROM row_drops WHERE part = rows.tableoid::regclass::text AND rows.id <= counted_to
                            ) GROUP BY person, kind
                        ) AS found ON found.person = said.person AND found.kind = said.kind
                    ) AS counts WHERE said <> found
                        AND NOT EXISTS (SELECT FROM people WHERE id = person AND erased_by IS NOT NULL)
                    """),
            ]
        ),
        (
            "notes of calls",
            [
                Check(
                    "kept_act_origin", "The kept act of call #0 has no journal row.",
                    """
                    SELECT sequence FROM call_acts
                    WHERE NOT EXISTS (SELECT FROM journal WHERE sequence = call_acts.sequence)
                    """)
            ]
        ),
        (
            "documents",
            [
                .origin("document_origin", of: "Document", in: "documents"),
                .person("document_person", of: "Document", in: "documents"),
                numbers("document_number", of: "Document", in: "documents", "last_document", "document"),
            ]
        ),
    ]

    /// Checks that the kept groups are the groups that the merges in force make.
    private func lookAtGroups() throws(StoreFault) {
        progress("groups")
        let unknown = try ask("SELECT count(*) FROM merges WHERE rule <> ALL ($1::bigint[])", knownRules)
        // An unreadable merge is a finding of its own.
        if unknown.integer(0, 0) > 0 { return }
        let made = try GroupTables.forest(connection).groups.sorted { $0.members[0] < $1.members[0] }
        var places: [Int64: Int] = [:]
        for (place, group) in made.enumerated() {
            for member in group.members { places[member.rawValue] = place }
        }
        var labels: [Int?] = made.map { _ in nil }
        var (wrong, last): ([String], Int64) = ([], .min)
        while true {
            let people = try ask(
                "SELECT id, label FROM people WHERE label IS NOT NULL AND id > $1 ORDER BY id LIMIT 10000",
                Parameters(last))
            if people.count == 0 { break }
            for row in 0..<people.count {
                last = people.integer(row, 0)
                let label = people.integer(row, 1)
                guard let place = places.removeValue(forKey: last) else {
                    wrong.append("Person \(last) has no merges, and its row says that it is in group \(label).")
                    continue
                }
                if labels[place] == nil { labels[place] = Int(label) }
                if labels[place] != Int(label) {
                    wrong.append("Person \(last) is in group \(label), and the others of its group are not.")
                }
            }
        }
        wrong += places.keys.sorted().map { "Person \($0) has merges, and its row does not say its group." }
        var kept: [Int: (root: Int64, size: Int64, first: Int64?)] = [:]
        let groups = try ask("SELECT label, root, size, first FROM groups ORDER BY label")
        for row in 0..<groups.count {
            kept[Int(groups.integer(row, 0))] = (
                groups.integer(row, 1), groups.integer(row, 2), groups.optionalInteger(row, 3)
            )
        }
        for (place, group) in made.enumerated() {
            guard let label = labels[place] else { continue }
            let found = kept.removeValue(forKey: label)
            let first = group.members.count < Group.membersWithFolds ? nil : group.members[0].rawValue
            if found?.root != group.root.rawValue || found?.size != Int64(group.members.count) || found?.first != first
            {
                wrong.append(
                    "Group \(label) has \(group.members.count) members with root \(group.root), and its row says otherwise."
                )
            }
        }
        wrong += kept.keys.sorted().map { "Group \($0) has no members." }
        found("group", wrong)
    }

    private var knownRules: Parameters {
        var parameters = Parameters()
        parameters.add(integers: (0...UInt8.max).filter { Merge.Rule(rawValue: $0) != nil }.map(Int64.init))
        return parameters
    }

    private func look(_ check: Check) throws(StoreFault) {
        let rows = try ask(
            "SELECT *, count(*) OVER () FROM (\(check.sql)) AS found LIMIT \(PostgresDoctor.describedAtMost)")
        if rows.count == 0 { return }
        for row in 0..<rows.count {
            var text = check.text
            for column in 0..<rows.columns - 1 {
                text = text.replacing("#\(column)", with: rows.told(row, column))
            }
            findings.append(Finding(code: check.code, description: text))
        }
        more(check.code, Int(rows.integer(0, rows.columns - 1)) - rows.count)
    }

    private func more(_ code: String, _ count: Int) {
        if count > 0 { findings.append(Finding(code: code, description: "… and \(count) more of these.")) }
    }

    /// Adds findings of one kind. Only the first findings are described.
    private func found(_ code: String, _ descriptions: [String]) {
        for text in descriptions.prefix(PostgresDoctor.describedAtMost) {
            findings.append(Finding(code: code, description: text))
        }
        more(code, descriptions.count - PostgresDoctor.describedAtMost)
    }

    /// Compares the calls and their facts with the tree over the journal.
    private func compareWithTree(_ hash: KeyedHash) throws(StoreFault) {
        progress("tree over the journal")
        let tables = try ComparedTables(connection)
        let last = try ask("SELECT coalesce(max(sequence), 0) FROM journal").integer(0, 0)
        guard let first = try tables.tree.rows(from: 0, limit: 1).first, first.place == 0 else {
            findings.append(
                Finding(code: "leaf", description: "The tree over the journal has no first leaf. Restore a copy."))
            return
        }
        let origin = first.sequence
        var found: [Finding] = []
        let report = TreeComparison<ComparedTables>.Report(
            found: { found.append($0) }, differs: { found.append($0.finding(canRepair: false)) },
            thingDiffers: { found.append($0.finding(canRepair: false)) },
            listDiffers: { found.append($0.finding(canRepair: false)) })
        var comparison = try TreeComparison(tables, hash, after: origin, upTo: last, MerkleEdge(), report)
        var after: Int64 = -1
        while let end = try comparison.comparePage(after: after) { after = end }
        try comparison.compareThings()
        let state = try ask("SELECT leaves, edge FROM state")
        if MerkleEdge(count: Int(state.integer(0, 0)), state.blob(0, 1) ?? []) != comparison.edge {
            found.append(
                Finding(
                    code: "head", description: "The kept edge of the tree is not that of its leaves. Restore a copy."))
        }
        for (code, all) in Dictionary(grouping: found, by: \.code).sorted(by: { $0.key < $1.key }) {
            findings += all.prefix(PostgresDoctor.describedAtMost)
            more(code, all.count - PostgresDoctor.describedAtMost)
        }
    }

    /// Checks that this version knows all kinds and types.
    private func lookAtKinds() throws(StoreFault) {
        let columns: [(code: String, table: String, column: String, isKnown: (UInt8) -> Bool)] = [
            ("journal_kind", "journal", "kind", { ActKind(rawValue: $0) != nil }),
            ("link_type", "links", "type", { IdentityType(rawValue: $0) != nil }),
            ("merge_rule", "merges", "rule", { Merge.Rule(rawValue: $0) != nil }),
            ("row_kind", "rows", "kind", { RowKind(rawValue: $0) != nil }),
            ("document_kind", "documents", "kind", { DocumentKind(rawValue: $0) != nil }),
        ]
        for (code, table, column, isKnown) in columns {
            let kinds = try ask("SELECT \(column), count(*) FROM \(table) GROUP BY \(column)")
            for row in 0..<kinds.count where !isKnown(UInt8(truncatingIfNeeded: kinds.integer(row, 0))) {
                let (kind, count) = (kinds.integer(row, 0), kinds.integer(row, 1))
                found(code, ["\(count) of the \(table) are of kind \(kind), which this version does not know."])
            }
        }
    }

    /// Checks notes of calls that read groups: each kept act is readable.
    private func lookAtKeptActs() throws(StoreFault) {
        progress("kept acts")
        var wrong: [String] = []
        var last: Int64 = .min
        while true {
            let acts = try ask(
                "SELECT sequence, act FROM call_acts WHERE sequence > $1 ORDER BY sequence LIMIT 10000",
                Parameters(last))
            for row in 0..<acts.count {
                last = acts.integer(row, 0)
                if acts.blob(row, 1).flatMap(KeptCall.init(packed:)) == nil {
                    wrong.append("The kept act of call \(last) cannot be read.")
                }
            }
            if acts.count == 0 { break }
        }
        found("kept_act", wrong)
    }

    /// Checks that sweeps find the calls that name values.
    private func lookAtInputs() throws(StoreFault) {
        progress("inputs of calls")
        var wrong: [String] = []
        var last: Int64 = .min
        while true {
            let calls = try ask(
                """
                SELECT sequence, inputs, names_values FROM journal
                WHERE sequence > $1 AND (inputs IS NOT NULL OR names_values) ORDER BY sequence LIMIT 10000
                """, Parameters(last))
            for row in 0..<calls.count {
                last = calls.integer(row, 0)
                let namesValues = calls.blob(row, 1).map(JournalCoding.hasValues) ?? false
                if namesValues != (calls.integer(row, 2) == 1) {
                    wrong.append(
                        "Call \(last) \(namesValues ? "names" : "does not name") values, and its row says otherwise.")
                }
            }
            if calls.count == 0 { break }
        }
        found("call_values", wrong)
    }

    /// Checks that an erasure finds the leaves with facts of a person. A sweep removes the person from the list.
    private func lookAtPeopleOfLeaves() throws(StoreFault) {
        progress("people of leaves")
        let listed = try FactStream(
            connection, "listed_leaves", "SELECT sequence, person FROM leaf_people ORDER BY sequence"
        ) { rows, row in StoredFact(rows.integer(row, 0), rows.integer(row, 1), .listed) }
        var wrong: [String] = []
        var last: Int64 = .min
        var isAtEnd = false
        while !isAtEnd {
            let leaves = try ask(
                "SELECT sequence, opening FROM leaves WHERE sequence > $1 AND place > 0 ORDER BY sequence LIMIT 2000",
                Parameters(last))
            var differing: Set<[Int64]> = []
            for row in 0..<leaves.count {
                last = leaves.integer(row, 0)
                for person in LeafOpening.people(packed: leaves.blob(row, 1) ?? []).dropFirst() {
                    differing.insert([last, person])
                }
            }
            isAtEnd = leaves.count == 0
            var entries: [StoredFact] = []
            try listed.move(upTo: isAtEnd ? .max : last, to: &entries)
            for entry in entries { differing.formSymmetricDifference([[entry.call, entry.person]]) }
            for entry in differing.sorted(by: { $0[0] < $1[0] }) where try !isSwept(entry[1]) {
                wrong.append(
                    "The leaf of call \(entry[0]) and the list of its people do not agree about person \(entry[1]).")
            }
        }
        found("leaf_people", wrong)
    }

    private func isSwept(_ person: Int64) throws(StoreFault) -> Bool {
        try ask("SELECT FROM people WHERE id = $1 AND is_swept", Parameters(person)).count == 1
    }

    /// Checks that the hash of each link is the hash of its value.
    private func lookAtHashes(_ hash: KeyedHash) throws(StoreFault) {
        progress("hashes of links")
        var wrong: [String] = []
        var last: Int64 = 0
        while true {
            let rows = try ask(
                """
                SELECT links.id, type, value, hash, project FROM links JOIN people ON people.id = person
                WHERE value <> '' AND links.id > $1 ORDER BY links.id LIMIT 10000
                """, Parameters(last))
            for row in 0..<rows.count {
                last = rows.integer(row, 0)
                guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))) else {
                    continue
                }
                let project = ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 4)))
                let key = rows.withBytes(row, 2) { IdentityKey(type, $0, in: project, hash: hash) }
                if rows.withBytes(row, 3, { Hash128($0) }) != key.hash {
                    wrong.append("The hash of link \(last) is not the hash of its value.")
                }
            }
            if rows.count == 0 { break }
        }
        found("link_hash", wrong)
    }

    /// Checks that a unique value had one holder.
    private func lookAtHolders() throws(StoreFault) {
        progress("unique identities")
        var unique: [Int64: [(since: Int64, types: IdentityTypeSet)]] = [:]
        var current: [Int64: Strategy] = [:]
        let strategies = try ask("SELECT project, made_by, document FROM strategies ORDER BY made_by")
        for row in 0..<strategies.count {
            guard let strategy = strategies.blob(row, 2).flatMap(Strategy.init(packed:)) else {
                found(
                    "strategy_document", ["The strategy of journal row \(strategies.integer(row, 1)) cannot be read."])
                continue
            }
            let project = strategies.integer(row, 0)
            unique[project, default: []].append((strategies.integer(row, 1), strategy.unique))
            current[project] = strategy
        }
        for (project, strategy) in current.sorted(by: { $0.key < $1.key }) {
            let id = ProjectID(rawValue: Int32(truncatingIfNeeded: project))
            if let warning = Finding(strategy, of: id) { findings.append(warning) }
        }
        let rows = try ask(
            """
            SELECT links.id, hash, person, type, project, links.made_by FROM links JOIN people ON people.id = person
            WHERE ended_by IS NULL AND hash IN (
                SELECT hash FROM links WHERE ended_by IS NULL GROUP BY hash HAVING count(DISTINCT person) > 1
            ) ORDER BY links.id
            """)
        // A rule that came between a link and its move by a split or the undo of a call does not count for the moved link.
        let kinds = ActKind.movingLinks.map { String($0.rawValue) }.joined(separator: ", ")
        let moved = try ask(
            """
            SELECT made.id FROM journal JOIN links AS ended ON ended.ended_by = sequence
            JOIN links AS made ON made.hash = ended.hash AND made.made_by = sequence AND made.ended_by IS NULL
            WHERE kind IN (\(kinds))
            """)
        let isMoved = Set((0..<moved.count).map { moved.integer($0, 0) })
        var held: Set<Hash128> = []
        var wrong: [String] = []
        for row in 0..<rows.count {
            guard let hash = rows.withBytes(row, 1, { Hash128($0) }), !held.insert(hash).inserted,
                let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 3)))
            else { continue }
            let rules = unique[rows.integer(row, 4)]?.last { $0.since < rows.integer(row, 5) }?.types
            if (rules ?? Strategy.default.unique).contains(type), !isMoved.contains(rows.integer(row, 0)) {
                wrong.append(
                    "Link \(rows.integer(row, 0)) gives person \(rows.integer(row, 2)) a \(type.name) that another person holds."
                )
            }
        }
        found("link_unique", wrong)
    }

    private func ask(_ sql: String, _ parameters: Parameters = Parameters()) throws(StoreFault) -> Rows {
        try attempt { () throws(PostgresFault) in try connection.run(Connection.Statement(sql), parameters) }
    }
}

extension Rows {
    /// A value in a finding: a number, or a word of the server.
    fileprivate func told(_ row: Int, _ column: Int) -> String {
        isText(column) ? text(row, column) ?? "" : "\(integer(row, column))"
    }
}
