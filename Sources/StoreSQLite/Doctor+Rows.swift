import Domain
import SQLite

/// Checks of rows, documents and merges.
extension Doctor {
    /// Checks rows: each row has a person, a known kind and its journal row, and follows a row of the same person and kind.
    func examineRows() throws(SQLiteFault) {
        progress("rows")
        let sql = """
            SELECT rows.id, rows.person, rows.kind, rows.made_by, rows.previous, before.person, before.kind
            FROM rows LEFT JOIN rows AS before ON before.id = rows.previous
            WHERE rows.id > ? ORDER BY rows.id LIMIT ?
            """
        try page(sql) { row in
            let (id, person, kind) = (row.integer(0), row.integer(1), row.integer(2))
            guard origin(of: "Row \(id)", "row_origin", row.integer(3)) else { return id }
            // A removed row has no kind, and keeps its position in the chain.
            if kind != RowWriter.removedKind, RowKind(rawValue: UInt8(truncatingIfNeeded: kind)) == nil {
                found("row_kind", "Row \(id) is of kind \(kind), which this version does not know.")
            }
            examine(person, of: "Row \(id)", "row_person")
            // The previous row may be removed. If it exists, it belongs to the same chain.
            if let previous = row.optionalInteger(4), let before = row.optionalInteger(5),
                previous >= id || before != person
                    || row.integer(6) != kind && kind != RowWriter.removedKind
                        && row.integer(6) != RowWriter.removedKind
            {
                found(
                    "row_chain",
                    "Row \(id) follows row \(previous), which is not an earlier row of its kind and person.")
            }
            return id
        }
    }

    /// Checks that each person's row heads agree with the rows.
    func examineRowHeads() throws(SQLiteFault) {
        let last = try connection.integer("SELECT max(id) FROM rows") ?? 0
        let row = try connection.prepare("SELECT person, kind FROM rows WHERE id = ?")
        var heads: [(person: Int64, head: RowHead)] = []
        try page(
            "SELECT id, rows FROM people WHERE rows IS NOT NULL AND id > ? ORDER BY id LIMIT ?", from: .min
        ) { person in
            guard let known = person.blob(1).flatMap([RowHead].init(packed:)) else {
                found("row_heads", "The row heads of person \(person.integer(0)) cannot be read.")
                return person.integer(0)
            }
            for head in known { heads.append((person.integer(0), head)) }
            return person.integer(0)
        }
        for (person, head) in heads {
            row.bind(1, head.last.rawValue)
            defer { row.reset() }
            let isThere = try row.step()
            let isRight =
                isThere && row.integer(0) == person
                && [Int64(head.kind.rawValue), RowWriter.removedKind].contains(row.integer(1))
            if isThere ? !isRight : head.last.rawValue > last {
                found(
                    "row_heads",
                    "The row head of person \(person) names row \(head.last.rawValue), which is not the last row.")
            }
        }
    }

    /// Checks documents: each document is reachable, has a person and its journal row, and follows a version under its key.
    func examineDocuments() throws(SQLiteFault) {
        progress("documents")
        let sql = """
            SELECT documents.id, documents.kind, documents.hash, documents.person, documents.made_by, documents.previous,
                before.kind = documents.kind AND before.hash = documents.hash AND before.id < documents.id
            FROM documents LEFT JOIN documents AS before ON before.id = documents.previous
            WHERE documents.id > ? ORDER BY documents.id LIMIT ?
            """
        try page(sql) { row in
            let id = row.integer(0)
            guard origin(of: "Document \(id)", "document_origin", row.integer(4)) else { return id }
            if DocumentKind(rawValue: UInt8(truncatingIfNeeded: row.integer(1))) == nil {
                found("document_kind", "Document \(id) is of kind \(row.integer(1)), which this version does not know.")
            }
            if row.withBytes(2, { Hash128($0) }) == nil {
                found("document_hash", "Document \(id) has a hash that does not have 16 bytes.")
            }
            if let previous = row.optionalInteger(5), row.optionalInteger(6) != 1 {
                found(
                    "document_chain", "Document \(id) follows document \(previous), which is no earlier version of it.")
            }
            // A document of a project, such as its catalog, has no person.
            if row.integer(3) != 0 { examine(row.integer(3), of: "Document \(id)", "document_person") }
            return id
        }
    }

    /// Checks notes of calls that read groups: each kept act is readable, and has its journal row.
    func examineKeptActs() throws(SQLiteFault) {
        progress("kept acts")
        try page(
            "SELECT sequence, act FROM call_acts WHERE sequence > ? ORDER BY sequence LIMIT ?", from: .min
        ) { row in
            let call = row.integer(0)
            guard origin(of: "The kept act of call \(call)", "kept_act_origin", call) else { return call }
            if row.blob(1).flatMap(KeptCall.init(packed:)) == nil {
                found("kept_act", "The kept act of call \(call) cannot be read.")
            }
            return call
        }
    }

    /// Checks merges: each merge has two different existing people and a known rule, and no rule has merged two people twice.
    func examineMerges() throws(SQLiteFault) {
        progress("merges")
        var inForce: Set<[Int64]> = []
        let sql = """
            SELECT id, source, destination, rule, made_by, EXISTS (SELECT 1 FROM merge_ends WHERE merge = merges.id)
            FROM merges WHERE id > ? ORDER BY id LIMIT ?
            """
        try page(sql, from: .min) { row in
            let (id, source, destination) = (row.integer(0), row.integer(1), row.integer(2))
            guard origin(of: "Merge \(id)", "merge_origin", row.integer(4)) else { return id }
            if Merge.Rule(rawValue: UInt8(truncatingIfNeeded: row.integer(3))) == nil {
                found("merge_rule", "Merge \(id) is by rule \(row.integer(3)), which this version does not know.")
            }
            examine(source, of: "Merge \(id)", "merge_person")
            examine(destination, of: "Merge \(id)", "merge_person")
            if source == destination { found("merge_circle", "Merge \(id) merges person \(source) with itself.") }
            guard row.integer(5) == 0 else { return id }
            let reason = [min(source, destination), max(source, destination), row.integer(3)]
            if !inForce.insert(reason).inserted {
                found(
                    "merge_twice",
                    "Merge \(id) repeats a merge of person \(source) and person \(destination) by its rule.")
            }
            return id
        }
    }

    /// Checks calls that merge two people or undo a merge: each call has made or ended its merge.
    func examineCallsOfMerges() throws(SQLiteFault) {
        let checks: [(kind: ActKind, code: String, facts: String, what: String)] = [
            (.merge, "merge_missing", "made_by FROM merges", "made a merge that does not exist"),
            (.undoMerge, "merge_end_missing", "ended_by FROM merge_ends", "ended a merge, and no merge has this end"),
        ]
        for check in checks {
            let calls = try connection.prepare(
                """
                SELECT sequence FROM journal WHERE kind = ? AND sequence <= ? AND sequence NOT IN (SELECT \(check.facts))
                ORDER BY sequence
                """)
            calls.bind(1, Int64(check.kind.rawValue))
            calls.bind(2, lastSequence)
            while try calls.step() { found(check.code, "Call \(calls.integer(0)) \(check.what).") }
        }
    }

    /// Whether a checked journal row made a thing. Later things are not checked here.
    private func origin(of what: String, _ code: String, _ madeBy: Int64) -> Bool {
        if madeBy > lastSequence {
            later.append((code, what, madeBy))
            return false
        }
        if madeBy < 1 { found(code, "\(what) was made by no journal row.") }
        return true
    }

    private func examine(_ person: Int64, of what: String, _ code: String) {
        if index.place(of: PersonID(rawValue: person)) == nil {
            found(code, "\(what) belongs to person \(person), who does not exist.")
        }
    }
}
