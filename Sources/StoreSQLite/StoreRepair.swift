package import Domain
import Glibc
import Leaves
import SQLite

/// Puts facts right that differ from the leaves of their calls: people, links, merges and their ends. No other process may have the store.
package final class StoreRepair {
    /// One change of the store.
    struct Step {
        let sql: String
        let values: [WholeValue]
        let description: String
    }

    private let file: StoreFile
    private let lock: StoreLock
    private let connection: Connection
    private let hash: KeyedHash
    private let hasCopy: Bool
    private var steps: [Step] = []
    /// The changes, in words.
    package var descriptions: [String] { steps.map(\.description) }
    /// What cannot be put right without a copy.
    package private(set) var left: [String] = []

    /// Plans the repair of what a doctor has found.
    ///
    /// - Parameter copy: a copy of the store that has what the store lost.
    package init(_ file: StoreFile, after doctor: Doctor, from copy: StoreFile? = nil) throws(StoreFault) {
        self.file = file
        lock = try StoreLock(for: file)
        let connection = try file.open(.use)
        self.connection = connection
        let move: StoreMove?
        (hash, move) = try file.attempt { () throws(SQLiteFault) in
            (KeyedHash(key: try SQLiteStore.hashKey(connection)), try SQLiteStore.move(connection))
        }
        if let move {
            throw StoreFault(
                .readOnly,
                "A move of \(file.path) to \(move.target) has begun or is done, so a repair changes nothing here.")
        }
        hasCopy = copy != nil
        if let copy { try CopiedFacts.attach(copy, to: connection, of: file) }
        try file.attempt { () throws(SQLiteFault) in
            try plan(doctor.differences)
            try planThings(doctor.thingDifferences)
            planLists(doctor.listDifferences, areFactsRight: doctor.differences.isEmpty)
        }
    }

    /// Copies the store to a path. The copy is a file for its owner only, as the store is.
    package func keep(at path: String) throws(StoreFault) {
        let descriptor = unsafe open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
        try file.attempt { () throws(SQLiteFault) in
            let copy = try connection.prepare("VACUUM INTO ?")
            copy.bind(1, text: path)
            try copy.run()
        }
    }

    /// Makes all changes, or none.
    package func apply() throws(StoreFault) {
        try file.attempt { () throws(SQLiteFault) in
            try connection.transaction { () throws(SQLiteFault) in
                for step in steps {
                    let statement = try connection.prepare(step.sql)
                    for (place, value) in step.values.enumerated() {
                        switch value {
                        case .integer(let value): statement.bind(Int32(place + 1), value)
                        case .text(let text): statement.bind(Int32(place + 1), text: text)
                        case .bytes(let bytes): statement.bind(Int32(place + 1), blob: bytes)
                        case .none: statement.bindNull(Int32(place + 1))
                        }
                    }
                    try statement.run()
                }
            }
            _ = try connection.checkpoint(.truncate)
        }
    }

    // MARK: - The plan

    private func plan(_ differences: [LeafDifference]) throws(SQLiteFault) {
        let (missing, added) = (differences.filter(\.isMissing), differences.filter { !$0.isMissing })
        try planCopied(differences.filter { $0.remedy != .leaf })
        let missingLinks = missing.filter { if case .linked = $0.fact { true } else { false } }
            .sorted { ($0.call, $0.order) < ($1.call, $1.order) }
        var addedLinks = added.filter { if case .linked = $0.fact { true } else { false } }
        let values = try values(of: missingLinks)
        try planPeople(missing, added)
        var gaps = try gaps(missingLinks.count)
        // The ends of links name them by their numbers, so links come first.
        var numbers: [Key: [Int64]] = [:]
        for link in missingLinks {
            guard case .linked(let type, let hash) = link.fact else { continue }
            guard let value = values[Value(type: type, hash: hash)] else {
                left.append(
                    "Call \(link.call): nothing in the store has the value of a lost link of person \(link.person).")
                // A changed link stays as it is, and a lost one keeps its number for a copy.
                if changed(into: link, of: &addedLinks) == nil { gaps = gaps.dropFirst() }
                continue
            }
            let number: Int64
            if let changed = changed(into: link, of: &addedLinks) {
                number = changed
            } else if let gap = gaps.popFirst() {
                number = gap
            } else {
                left.append("Call \(link.call): the store has no number for a lost link of person \(link.person).")
                continue
            }
            let row: [WholeValue] = [
                .integer(number), .integer(link.person), .integer(Int64(type)), .text(value), .integer(link.call),
            ]
            numbers[Key(person: link.person, type: type, hash: hash), default: []].append(number)
            steps.append(
                Step(
                    sql: "INSERT OR REPLACE INTO links (id, person, type, value, made_by) VALUES (?, ?, ?, ?, ?)",
                    values: row,
                    description: "Gives person \(link.person) link \(number) of call \(link.call)."))
        }
        for link in addedLinks {
            guard let number = link.link else { continue }
            steps.append(
                Step(
                    sql: "DELETE FROM links WHERE id = ?", values: [.integer(number)],
                    description: "Removes link \(number), which no call made."))
        }
        try planEnds(missing, added, numbers)
        planMerges(missing, added)
        for row in missing {
            guard case .rowSuperseded(_, let number) = row.fact else { continue }
            steps.append(
                Step(
                    sql: "UPDATE rows SET superseded_by = ? WHERE id = ?",
                    values: [.integer(row.call), .integer(number)],
                    description: "Notes that call \(row.call) replaced row \(number)."))
        }
    }

    /// Takes what only a copy has from the copy.
    private func planCopied(_ differences: [LeafDifference]) throws(SQLiteFault) {
        let missing = differences.filter(\.isMissing)
        var copied = hasCopy ? try CopiedFacts(connection, hash, of: missing) : nil
        var mended: Set<Int64> = []
        for lost in missing {
            if let step = copied?.step(for: lost) {
                steps.append(step)
                mended.insert(lost.call)
            } else {
                let source = hasCopy ? "the copy does not have" : "only a copy has"
                left.append("Call \(lost.call): \(source) what the store lost.")
            }
        }
        // A changed row is a lost one and an added one, and the row of the copy takes its place.
        for added in differences where !added.isMissing && !mended.contains(added.call) {
            left.append("Call \(added.call): the store has what no call made.")
        }
    }

    /// Puts projects, apps and keys right. What the leaves have only hashes of comes from the store or from the copy.
    private func planThings(_ differences: [ThingDifference]) throws(SQLiteFault) {
        if differences.isEmpty { return }
        let own = try StoredThing.all(connection)
        let copied = hasCopy ? try StoredThing.all(connection, in: CopiedFacts.name) : []
        // The hash of a key is in one row only, so what nobody made goes first.
        for thing in differences where thing.state == .added {
            steps.append(
                Step(
                    sql: "DELETE FROM \(thing.kind.table) WHERE id = ?", values: [.integer(thing.id)],
                    description: "Removes \(thing.title), which no call made."))
        }
        for thing in differences where thing.state != .added {
            let present = own.first(thing)
            let candidates = [present, copied.first(thing)].compactMap { $0 }
            guard let whole = candidates.first(where: { thing.content ?? $0.content(hash) == $0.content(hash) }),
                let name = candidates.first(where: { thing.name ?? $0.nameHash(hash) == $0.nameHash(hash) })?.name
            else {
                let source =
                    hasCopy ? "the copy does not have it as its call made it" : "only a copy has it as its call made it"
                left.append("\(thing.title): \(source). Name another copy, or make a new one.")
                continue
            }
            var set: [(column: String, value: WholeValue)] = [("name", .text(name))]
            if let call = thing.madeBy { set.append(("made_by", .integer(call))) }
            if thing.kind != .project { set.append(("revoked_at", thing.revokedAt.map { .integer($0) } ?? .none)) }
            if present?.content(hash) == whole.content(hash) {
                let columns = set.map { "\($0.column) = ?" }.joined(separator: ", ")
                steps.append(
                    Step(
                        sql: "UPDATE \(thing.kind.table) SET \(columns) WHERE id = ?",
                        values: set.map(\.value) + [.integer(thing.id)],
                        description: "Makes \(thing.title) as its calls left it."))
            } else {
                let others = try CopiedFacts.columns(of: thing.kind.table, connection).filter { column in
                    !set.contains { $0.column == column }
                }
                let columns = set.map(\.column) + others
                let values = set.map { _ in "?" } + others
                steps.append(
                    Step(
                        sql: """
                            INSERT OR REPLACE INTO main.\(thing.kind.table) (\(columns.joined(separator: ", ")))
                            SELECT \(values.joined(separator: ", ")) FROM \(CopiedFacts.name).\(thing.kind.table) WHERE id = ?
                            """,
                        values: set.map(\.value) + [.integer(thing.id)],
                        description: "Takes \(thing.title) from the copy."))
            }
        }
    }

    /// Puts the lists of people's calls right by the facts of the calls.
    private func planLists(_ differences: [ListDifference], areFactsRight: Bool) {
        if differences.isEmpty { return }
        guard areFactsRight else {
            left.append(
                "The lists of people's calls are compared with the facts again: repeat the command after this repair.")
            return
        }
        for difference in differences {
            let values: [WholeValue] = [.integer(difference.person), .integer(difference.call)]
            steps.append(
                difference.isMissing
                    ? Step(
                        sql: "INSERT INTO call_people (person, sequence) VALUES (?, ?)", values: values,
                        description: "Adds call \(difference.call) to the calls of person \(difference.person).")
                    : Step(
                        sql: "DELETE FROM call_people WHERE person = ? AND sequence = ?", values: values,
                        description: "Removes call \(difference.call) from the calls of person \(difference.person)."))
        }
    }

    /// Takes the link out of a list that a lost link was changed into: the same fact of another call, or another fact of the same call.
    private func changed(into link: LeafDifference, of added: inout [LeafDifference]) -> Int64? {
        let place =
            added.firstIndex { $0.link != nil && $0.person == link.person && $0.fact == link.fact }
            ?? added.firstIndex { $0.link != nil && $0.call == link.call }
        return place.flatMap { added.remove(at: $0).link }
    }

    /// The row heads of a person, up to the rows that the stored heads of all people include.
    private func heads(of person: Int64) throws(SQLiteFault) -> WholeValue {
        let folded = try connection.prepare("SELECT value FROM settings WHERE name = 'rows_folded'")
        guard try folded.step(),
            let last = folded.blob(0).flatMap({ bytes in
                var unpacker = Unpacker(bytes)
                return unpacker.integer()
            })
        else { return .none }
        let rows = try connection.prepare(
            """
            SELECT kind, max(id), sum(superseded_by IS NULL) FROM rows WHERE person = ? AND id <= ? GROUP BY kind ORDER BY kind
            """)
        rows.bind(1, person)
        rows.bind(2, Int64(bitPattern: last))
        var heads: [RowHead] = []
        while try rows.step() {
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(0))) else { continue }
            heads.append(
                RowHead(kind: kind, last: RowNumber(rawValue: rows.integer(1)), count: Int(rows.integer(2))))
        }
        return heads.isEmpty ? .none : .bytes(heads.packed)
    }

    private func planPeople(_ missing: [LeafDifference], _ added: [LeafDifference]) throws(SQLiteFault) {
        let call = try connection.prepare("SELECT project, at FROM journal WHERE sequence = ?")
        let made = missing.filter { $0.fact == .personMade }
        let kept = Set(made.map(\.person))
        for person in added where person.fact == .personMade && !kept.contains(person.person) {
            steps.append(
                Step(
                    sql: "DELETE FROM people WHERE id = ? AND made_by = ?",
                    values: [.integer(person.person), .integer(person.call)],
                    description: "Removes person \(person.person), whom call \(person.call) did not make."))
        }
        // No call says when a person was last seen. A changed person keeps the moment, and a lost one has that of the copy.
        let copied = hasCopy ? "(SELECT last_seen FROM \(CopiedFacts.name).people WHERE id = ?1)" : "NULL"
        for person in made {
            call.bind(1, person.call)
            defer { call.reset() }
            guard try call.step() else {
                left.append("Call \(person.call) is not in the journal, so person \(person.person) has no project.")
                continue
            }
            steps.append(
                Step(
                    sql: """
                        INSERT INTO people (id, project, made_by, last_seen, rows) VALUES (?1, ?2, ?3, coalesce(\(copied), ?4), ?5)
                        ON CONFLICT (id) DO UPDATE SET project = excluded.project, made_by = excluded.made_by
                        """,
                    values: [
                        .integer(person.person), .integer(call.integer(0)), .integer(person.call),
                        .integer(SeenAt(Instant(milliseconds: call.integer(1))).rawValue), try heads(of: person.person),
                    ], description: "Makes person \(person.person) as call \(person.call) did."))
        }
        for person in added where person.fact == .personErased {
            steps.append(
                Step(
                    sql: "UPDATE people SET erased_by = NULL WHERE id = ?", values: [.integer(person.person)],
                    description: "Person \(person.person) counts as a person again: no call erased the person."))
        }
        for person in missing where person.fact == .personErased {
            steps.append(
                Step(
                    sql: "UPDATE people SET erased_by = ? WHERE id = ?",
                    values: [.integer(person.call), .integer(person.person)],
                    description: "Erases person \(person.person) as call \(person.call) did."))
        }
    }

    private func planEnds(
        _ missing: [LeafDifference], _ added: [LeafDifference], _ numbers: [Key: [Int64]]
    ) throws(SQLiteFault) {
        for end in added {
            guard case .unlinked = end.fact, let link = end.link else { continue }
            steps.append(
                Step(
                    sql: "DELETE FROM link_ends WHERE link = ? AND ended_by = ?",
                    values: [.integer(link), .integer(end.call)],
                    description: "Removes the end of link \(link), which call \(end.call) did not make."))
        }
        let find = try connection.prepare(
            """
            SELECT links.id, value FROM links LEFT JOIN link_ends ON link = links.id
            WHERE person = ? AND type = ? AND made_by <= ? AND ended_by IS NULL ORDER BY links.id
            """)
        for end in missing {
            guard case .unlinked(let type, let hash) = end.fact else { continue }
            var number = numbers[Key(person: end.person, type: type, hash: hash)]?.first
            find.bind(1, end.person)
            find.bind(2, Int64(type))
            find.bind(3, end.call)
            while number == nil, try find.step() {
                if self.hash(of: find.text(1) ?? "", type, try project(of: end.call)) == hash {
                    number = find.integer(0)
                }
            }
            find.reset()
            guard let number else {
                left.append("Call \(end.call): the link that it ended is not there.")
                continue
            }
            steps.append(
                Step(
                    sql: "INSERT OR REPLACE INTO link_ends (link, ended_by) VALUES (?, ?)",
                    values: [.integer(number), .integer(end.call)],
                    description: "Ends link \(number) as call \(end.call) did."))
        }
    }

    private func planMerges(_ missing: [LeafDifference], _ added: [LeafDifference]) {
        for difference in added {
            switch difference.fact {
            case .merged(let id, _, _, _):
                steps.append(
                    Step(
                        sql: "DELETE FROM merges WHERE id = ? AND made_by = ?",
                        values: [.integer(id), .integer(difference.call)],
                        description: "Removes merge \(id), which call \(difference.call) did not make."))
            case .mergeUndone(let id):
                steps.append(
                    Step(
                        sql: "DELETE FROM merge_ends WHERE merge = ? AND ended_by = ?",
                        values: [.integer(id), .integer(difference.call)],
                        description: "Removes the end of merge \(id), which call \(difference.call) did not make."))
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .personErased, .made,
                .revoked,
                .named, .strategySet:
                break
            }
        }
        for difference in missing {
            switch difference.fact {
            case .merged(let id, let from, let into, let rule):
                steps.append(
                    Step(
                        sql:
                            "INSERT OR REPLACE INTO merges (id, source, destination, rule, made_by) VALUES (?, ?, ?, ?, ?)",
                        values: [
                            .integer(id), .integer(from), .integer(into), .integer(Int64(rule)),
                            .integer(difference.call),
                        ], description: "Makes merge \(id) of call \(difference.call) again."))
            case .mergeUndone(let id):
                steps.append(
                    Step(
                        sql: "INSERT OR REPLACE INTO merge_ends (merge, ended_by) VALUES (?, ?)",
                        values: [.integer(id), .integer(difference.call)],
                        description: "Ends merge \(id) as call \(difference.call) did."))
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .personErased, .made,
                .revoked,
                .named, .strategySet:
                break
            }
        }
    }

    // MARK: - Values

    private struct Value: Hashable {
        let type: UInt8
        let hash: Hash128
    }

    private struct Key: Hashable {
        let person: Int64
        let type: UInt8
        let hash: Hash128
    }

    private func hash(of value: String, _ type: UInt8, _ project: Int64) -> Hash128 {
        hash.hash(tag: UInt64(UInt32(truncatingIfNeeded: project)) << 8 | UInt64(type), value)
    }

    private func project(of call: Int64) throws(SQLiteFault) -> Int64 {
        let row = try connection.prepare("SELECT project FROM journal WHERE sequence = ?")
        row.bind(1, call)
        return try row.step() ? row.integer(0) : 0
    }

    /// The numbers that links lack, in their order, and the numbers behind the last link.
    private func gaps(_ count: Int) throws(SQLiteFault) -> ArraySlice<Int64> {
        if count == 0 { return [] }
        var (gaps, expected) = ([Int64](), Int64(1))
        let links = try connection.prepare("SELECT id FROM links ORDER BY id")
        while try links.step() {
            let id = links.integer(0)
            // A number below 1, and one far behind the others, are no numbers of the store.
            if id < expected { continue }
            if id - expected > Int64(count) { break }
            gaps += Array(expected..<id)
            expected = id + 1
        }
        while gaps.count < count {
            gaps.append(expected)
            expected += 1
        }
        return gaps[...]
    }

    /// The values with some hashes: other links and the journal may have them.
    private func values(of lost: [LeafDifference]) throws(SQLiteFault) -> [Value: String] {
        var wanted: Set<Value> = []
        var projects: Set<Int64> = []
        for link in lost {
            guard case .linked(let type, let hash) = link.fact else { continue }
            wanted.insert(Value(type: type, hash: hash))
            projects.insert(try project(of: link.call))
        }
        if wanted.isEmpty { return [:] }
        var found: [Value: String] = [:]
        func look(_ type: UInt8, _ text: String) {
            for project in projects {
                let value = Value(type: type, hash: hash(of: text, type, project))
                if wanted.contains(value) { found[value] = text }
            }
        }
        let types = Set(wanted.map(\.type))
        for store in hasCopy ? ["main", CopiedFacts.name] : ["main"] {
            let links = try connection.prepare("SELECT type, value FROM \(store).links")
            while try links.step() {
                let type = UInt8(truncatingIfNeeded: links.integer(0))
                if types.contains(type) { look(type, links.text(1) ?? "") }
            }
            if found.count == wanted.count { return found }
            let inputs = try connection.prepare("SELECT inputs FROM \(store).journal WHERE inputs IS NOT NULL")
            while try inputs.step() {
                _ = JournalCoding.dropping(inputs.blob(0) ?? []) { type, text in
                    look(type, text)
                    return false
                }
            }
        }
        return found
    }
}

extension LeafFact.Thing {
    /// The table of the store.
    fileprivate var table: String {
        switch self {
        case .project: "projects"
        case .app: "apps"
        case .key: "keys"
        }
    }
}

extension ThingDifference {
    fileprivate var title: String { "\(kind.title.lowercased()) \(id)" }
}

extension [StoredThing] {
    fileprivate func first(_ thing: ThingDifference) -> StoredThing? {
        first { $0.kind == thing.kind && $0.id == thing.id }
    }
}
