package import Domain
import SQLite

extension Doctor {
    /// Makes a check of another part of the server over the rows and documents of one moment.
    ///
    /// - Parameter check: gets the facts and all projects.
    package func examine(
        with check: (any RowFacts, [ProjectID]) throws(StoreFault) -> [Finding]
    ) throws(StoreFault) -> [Finding] {
        progress("runs of rows")
        try file.attempt { () throws(SQLiteFault) in try connection.execute("BEGIN") }
        defer { try? connection.execute("ROLLBACK") }
        let (facts, projects) = try rowFacts()
        return try check(facts, projects)
    }

    private func rowFacts() throws(StoreFault) -> (facts: any RowFacts, projects: [ProjectID]) {
        guard let key = try setting("hash_key").flatMap({ Hash128($0.span) }) else {
            throw StoreFault(.corrupt, "The key of the store's hash is missing.")
        }
        let kinds: [DocumentKind] = [
            .runList, .runsEnd, .runPart, .removedRows, .erasedFromRuns, .expiredRows, .historyEnd, .eventRevision,
        ]
        return try file.attempt { () throws(SQLiteFault) in
            var numbers: [DocumentKey: Int64] = [:]
            let list = kinds.map { String($0.rawValue) }.joined(separator: ", ")
            let documents = try connection.prepare(
                "SELECT id, kind, hash FROM documents WHERE kind IN (\(list)) ORDER BY id")
            while try documents.step() {
                guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: documents.integer(1))),
                    let hash = documents.withBytes(2, { Hash128($0) })
                else { continue }
                numbers[DocumentKey(kind, hash: hash)] = documents.integer(0)
            }
            var projects: [ProjectID] = []
            let found = try connection.prepare("SELECT id FROM projects ORDER BY id")
            while try found.step() { projects.append(ProjectID(rawValue: Int32(truncatingIfNeeded: found.integer(0)))) }
            let facts = DoctorFacts(hash: KeyedHash(key: key), file: file, connection: connection, numbers: numbers)
            return (facts, projects)
        }
    }
}

/// The rows and documents of a store's file.
private struct DoctorFacts: RowFacts {
    let hash: KeyedHash
    let file: StoreFile
    let connection: Connection
    /// The numbers of the last versions of documents.
    let numbers: [DocumentKey: Int64]

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        guard let number = numbers[key] else { return nil }
        return try file.attempt { () throws(SQLiteFault) in
            let row = try connection.prepare("SELECT body FROM documents WHERE id = ?")
            row.bind(1, number)
            // An empty document means that the document was removed.
            return try row.step() ? row.blob(0).flatMap { $0.isEmpty ? nil : $0 } : nil
        }
    }

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        var documents: [DocumentKey: [UInt8]] = [:]
        for key in keys { documents[key] = try document(key) }
        return documents
    }

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        try file.attempt { () throws(SQLiteFault) in
            let rows = try connection.prepare(
                """
                SELECT r.id, r.person, r.previous, r.kind, r.at, r.recognition, r.device, r.body, p.project
                FROM rows AS r JOIN people AS p ON p.id = r.person
                WHERE r.id > ? AND r.superseded_by IS NULL AND p.erased_by IS NULL ORDER BY r.id LIMIT ?
                """)
            rows.bind(1, number.rawValue)
            rows.bind(2, Int64(limit))
            var found: [(project: ProjectID, row: StoredRow)] = []
            while try rows.step() {
                guard let row = rows.storedRow else { continue }
                found.append((ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(8))), row))
            }
            return found
        }
    }
}
