import Domain
import Leaves
import SQLite

/// Removes the rows and documents of erased people from all tables, in small steps.
///
/// The rows with the values of identities are removed last, so that a sweep can begin again after a crash. SQLite overwrites
/// deleted bytes, so the file does not contain these bytes. The log loses its bytes when it is next cut.
struct Sweep {
    private enum Phase { case heads, values, journal, keys, documents, rows, links, done }

    let people: [PersonID]
    private let ids: Set<Int64>
    private var phase = Phase.heads
    /// The position in the table of the present phase.
    private var after: Int64 = 0
    /// The values of the erased people, to find the calls of other people that named them.
    private var values: Set<Value> = []
    private var links: [Int64] = []
    /// The attachments that belong or belonged to the erased people, by the hash of their key.
    private var attachments: Set<Hash128> = []
    /// The rows to remove: the next row of each chain.
    private var chains: [(person: PersonID, heads: [RowHead])] = []

    private struct Value: Hashable {
        let type: UInt8
        let value: String
    }

    /// The limits of rows that one step reads, and of rows that it removes or writes anew. Other calls wait for a step.
    private static let lookedAt: Int64 = 1000
    private static let takenOut = 100

    /// - Parameter heads: the row heads of a person, by kind.
    init(_ people: [PersonID], heads: (PersonID) -> [RowHead]) {
        self.people = people
        ids = Set(people.map(\.rawValue))
        chains = people.map { ($0, heads($0)) }
    }

    /// Runs one step in its own transaction; false after the last step.
    mutating func step(
        _ connection: Connection, _ rows: RowWriter
    ) throws(SQLiteFault) -> Bool {
        switch phase {
        case .heads:
            // From here on only this table has the heads of the rows.
            for (person, heads) in chains { try rows.write(heads, of: person) }
            run(step: .values)
        case .values: try collectValues(connection)
        case .journal: try sweepJournal(connection)
        case .keys: try collectKeys(connection)
        case .documents: try sweepDocuments(connection)
        case .rows: try sweepRows(connection, rows)
        case .links: try sweepLinks(connection)
        case .done: return false
        }
        return phase != .done
    }

    private mutating func run(step next: Phase) { (phase, after) = (next, 0) }

    private mutating func collectValues(_ connection: Connection) throws(SQLiteFault) {
        let row = try connection.prepare(
            "SELECT id, person, type, value FROM links WHERE id > ? ORDER BY id LIMIT \(Sweep.lookedAt * 10)")
        row.bind(1, after)
        let start = after
        while try row.step() {
            after = max(after, row.integer(0))
            guard ids.contains(row.integer(1)) else { continue }
            links.append(row.integer(0))
            values.insert(Value(type: UInt8(truncatingIfNeeded: row.integer(2)), value: row.text(3) ?? ""))
        }
        if after == start { run(step: .journal) }
    }

    /// Removes the contents of the people's own calls, and their values from calls of other people.
    private mutating func sweepJournal(_ connection: Connection) throws(SQLiteFault) {
        let row = try connection.prepare(
            """
            SELECT sequence, person, kind, inputs FROM journal WHERE sequence > ? ORDER BY sequence LIMIT \(Sweep.lookedAt)
            """)
        row.bind(1, after)
        var theirs: [Int64] = []
        var others: [(sequence: Int64, inputs: [UInt8]?)] = []
        let start = after
        while try row.step() {
            after = max(after, row.integer(0))
            if row.integer(2) == Int64(ActKind.erase.rawValue) { continue }
            if ids.contains(row.integer(1)) {
                theirs.append(row.integer(0))
            } else if let inputs = row.blob(3), let left = without(inputs) {
                others.append((row.integer(0), left.isEmpty ? nil : left))
            }
            if theirs.count + others.count == Sweep.takenOut { break }
        }
        // A leaf is sealed while the row of the journal is still whole.
        if start < after {
            let tree = try TreeReader(connection)
            let (own, rewritten) = (Set(theirs), Set(others.map(\.sequence)))
            var sealed = 0
            for (call, people) in try tree.people(start + 1...after) {
                let losesContent = own.contains(call) || rewritten.contains(call)
                guard losesContent || !people.isDisjoint(with: ids) else { continue }
                if sealed == Sweep.takenOut {
                    after = call - 1
                    break
                }
                try tree.seal(call, ids, andCall: losesContent, connection)
                sealed += 1
            }
        }
        let forget = try connection.prepare(
            """
            UPDATE journal SET request_id = '', note = NULL, replay = NULL, body = NULL, inputs = NULL, reply = x''
            WHERE sequence = ?
            """)
        let forgetAct = try connection.prepare("DELETE FROM call_acts WHERE sequence = ?")
        for sequence in theirs where sequence <= after {
            forget.bind(1, sequence)
            try forget.run()
            forgetAct.bind(1, sequence)
            try forgetAct.run()
        }
        let rewrite = try connection.prepare("UPDATE journal SET inputs = ? WHERE sequence = ?")
        for (sequence, inputs) in others where sequence <= after {
            rewrite.bind(1, blob: inputs)
            rewrite.bind(2, sequence)
            try rewrite.run()
        }
        if after == start, try forgetGroups(connection) { run(step: .keys) }
    }

    /// Removes notes of calls that read the people's groups, and their acts. Returns true if there are no more.
    private func forgetGroups(_ connection: Connection) throws(SQLiteFault) -> Bool {
        let notes = try connection.prepare("SELECT sequence FROM call_groups WHERE person = ? LIMIT ?")
        let act = try connection.prepare("DELETE FROM call_acts WHERE sequence = ?")
        let note = try connection.prepare("DELETE FROM call_groups WHERE person = ? AND sequence = ?")
        var left = Sweep.takenOut
        for person in ids {
            notes.bind(1, person)
            notes.bind(2, Int64(left))
            var calls: [Int64] = []
            while try notes.step() { calls.append(notes.integer(0)) }
            notes.reset()
            for call in calls {
                act.bind(1, call)
                try act.run()
                note.bind(1, person)
                note.bind(2, call)
                try note.run()
            }
            left -= calls.count
            if left <= 0 { return false }
        }
        return true
    }

    /// Inputs without the erased values; nil if the inputs have no erased values.
    private func without(_ inputs: [UInt8]) -> [UInt8]? {
        let values = values
        return JournalCoding.dropping(inputs) { type, value in values.contains(Value(type: type, value: value)) }
    }

    /// An attachment may have had no owner before it belonged to an erased person.
    private mutating func collectKeys(_ connection: Connection) throws(SQLiteFault) {
        let row = try connection.prepare(
            "SELECT id, person, kind, hash FROM documents WHERE id > ? ORDER BY id LIMIT \(Sweep.lookedAt * 10)")
        row.bind(1, after)
        let start = after
        while try row.step() {
            after = max(after, row.integer(0))
            if row.integer(2) == Int64(DocumentKind.attachment.rawValue), ids.contains(row.integer(1)),
                let hash = row.withBytes(3, { Hash128($0) })
            {
                attachments.insert(hash)
            }
        }
        if after == start { run(step: .documents) }
    }

    private mutating func sweepDocuments(_ connection: Connection) throws(SQLiteFault) {
        let row = try connection.prepare(
            "SELECT id, person, kind, hash, made_by FROM documents WHERE id > ? ORDER BY id LIMIT \(Sweep.lookedAt)")
        row.bind(1, after)
        var theirs: [Int64] = []
        var calls: [Int64] = []
        let start = after
        while try row.step() {
            after = max(after, row.integer(0))
            if ids.contains(row.integer(1)) {
                if row.integer(2) != Int64(DocumentKind.tombstone.rawValue) { theirs.append(row.integer(0)) }
            } else if row.integer(2) == Int64(DocumentKind.attachment.rawValue),
                row.withBytes(3, { Hash128($0) }).map(attachments.contains) ?? false
            {
                theirs.append(row.integer(0))
                calls.append(row.integer(4))
            }
            if theirs.count == Sweep.takenOut { break }
        }
        // The answers of calls also describe the attachment.
        let tree = try TreeReader(connection)
        for call in calls { try tree.seal(call, ids, andCall: true, connection) }
        let forget = try connection.prepare(
            "UPDATE journal SET replay = NULL, body = NULL, reply = x'' WHERE sequence = ?")
        for call in calls {
            forget.bind(1, call)
            try forget.run()
        }
        let empty = try connection.prepare("UPDATE documents SET body = x'' WHERE id = ? AND body <> x''")
        for document in theirs {
            empty.bind(1, document)
            try empty.run()
        }
        if after == start { run(step: .rows) }
    }

    /// Removes rows along the chains. Its position is stored with the people, so that no row is missed after a crash.
    private mutating func sweepRows(
        _ connection: Connection, _ rows: RowWriter
    ) throws(SQLiteFault) {
        guard let chain = chains.popLast() else {
            run(step: .links)
            return
        }
        let person = chain.person
        var heads = chain.heads
        let find = try connection.prepare("SELECT previous, recognition FROM rows WHERE id = ? AND person = ?")
        let earlier = try connection.prepare(
            "SELECT id FROM rows INDEXED BY rows_superseded WHERE recognition = ? AND superseded_by IS NOT NULL")
        let last = try connection.integer("SELECT max(id) FROM rows") ?? 0
        // The number of the last row of the store stays, so that no number is used twice.
        let empty = try connection.prepare(
            "UPDATE rows SET kind = \(RowWriter.removedKind), body = x'', recognition = NULL, device = NULL WHERE id = ?"
        )
        let delete = try connection.prepare("DELETE FROM rows WHERE id = ?")
        var taken = 0
        while let head = heads.last, taken < Sweep.takenOut {
            heads.removeLast()
            var next: Int64? = head.last.rawValue
            while let number = next, taken < Sweep.takenOut {
                find.bind(1, number)
                find.bind(2, person.rawValue)
                defer { find.reset() }
                guard try find.step() else {
                    next = nil
                    break
                }
                next = find.optionalInteger(0)
                if let hash = find.rowHash(1) { try emptySuperseded(hash, earlier, connection) }
                let statement = number == last ? empty : delete
                statement.bind(1, number)
                try statement.run()
                taken += 1
            }
            if let next { heads.append(RowHead(kind: head.kind, last: RowNumber(rawValue: next), count: 0)) }
        }
        try rows.write(heads, of: person)
        if !heads.isEmpty { chains.append((person, heads)) }
    }

    /// Removes the contents of the superseded rows with a hash: earlier versions of the person's rows can be with other people.
    private func emptySuperseded(
        _ hash: RowHash, _ find: Statement, _ connection: Connection
    ) throws(SQLiteFault) {
        find.bind(1, Int64(bitPattern: hash.rawValue))
        var numbers: [Int64] = []
        while try find.step() { numbers.append(find.integer(0)) }
        find.reset()
        if numbers.isEmpty { return }
        let empty = try connection.prepare(
            """
            UPDATE rows SET body = x''
            WHERE superseded_by IS NOT NULL AND (id = ?1 OR id = ?1 + 1 AND recognition IS NULL)
            """)
        for number in numbers {
            empty.bind(1, number)
            try empty.run()
        }
    }

    private mutating func sweepLinks(_ connection: Connection) throws(SQLiteFault) {
        let empty = try connection.prepare("UPDATE links SET value = '' WHERE id = ?")
        for _ in 0..<Sweep.takenOut {
            guard let link = links.popLast() else { break }
            empty.bind(1, link)
            try empty.run()
        }
        guard links.isEmpty else { return }
        let done = try connection.prepare("UPDATE people SET swept = 1, rows = NULL WHERE id = ?")
        for person in people {
            done.bind(1, person.rawValue)
            try done.run()
        }
        phase = .done
    }
}
