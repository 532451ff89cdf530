import Domain
import Leaves
import Postgres
import Threads

/// The facts that were committed at the first question. Each question goes to the database.
final class PostgresSnapshot: Snapshot {
    let hash: KeyedHash
    let derived: DerivedValues?
    private let connection: Connection
    let lastRow: RowNumber
    private let moment: Duration
    let readLimit: ReadLimit
    private let sightings: Sightings
    /// The fault of a question that cannot throw.
    private(set) var fault: StoreFault?
    /// The beginning of the transaction: the first question.
    private var openSince: MonotonicMoment?
    /// The groups of earlier questions.
    private var groups: [PersonID: Group] = [:]
    private var isClosed = false
    /// The number of database rows and keys in the questions and answers so far.
    private(set) var rowsRead = 0

    private typealias Statement = Connection.Statement

    /// The sightings that are not stored yet.
    struct Sightings {
        /// The last sighting of a person.
        let person: (PersonID) -> SeenAt?
        /// The last sighting in a large group with a label.
        let group: (PersonID) -> SeenAt?

        static var none: Sightings { Sightings(person: { _ in nil }, group: { _ in nil }) }
    }

    /// - Parameters:
    ///   - hash: the hash of the store.
    ///   - derived: the values that reads have derived.
    ///   - lastRow: an existing row, the last row if possible.
    ///   - moment: the longest duration of the transaction.
    ///   - limit: the condition that ends the read.
    ///   - sightings: the sightings that are not stored yet.
    init(
        _ connection: Connection, hash: KeyedHash, derived: DerivedValues, lastRow: Int64, moment: Duration,
        _ limit: ReadLimit, _ sightings: Sightings
    ) {
        self.connection = connection
        self.moment = moment
        readLimit = limit
        self.hash = hash
        self.derived = derived
        self.lastRow = RowNumber(rawValue: lastRow)
        self.sightings = sightings
    }

    private func ask(_ statement: Connection.Statement, _ parameters: Parameters) throws(StoreFault) -> Rows {
        precondition(!isClosed, "A group was used after the read that found the group.")
        if let fault { throw fault }
        try readLimit.check()
        if let since = openSince, MonotonicMoment.now - since > moment { endTransaction() }
        if openSince == nil {
            connection.send(Session.beginReading)
            openSince = .now
        }
        let rows = try attempt { () throws(PostgresFault) in try connection.run(statement, parameters) }
        rowsRead += rows.count
        return rows
    }

    /// Asks a question about many keys.
    private func ask(_ statement: Connection.Statement, _ keys: [Int64]) throws(StoreFault) -> Rows {
        var parameters = Parameters()
        parameters.add(integers: keys)
        rowsRead += keys.count
        return try ask(statement, parameters)
    }

    /// Ends the read. No caller waits for a round trip.
    func close() {
        endTransaction()
        isClosed = true
    }

    /// The next question begins a new transaction at a later moment.
    private func endTransaction() {
        if openSince != nil { connection.leave(Session.rollback) }
        // The groups refer to the snapshot.
        (openSince, groups) = (nil, [:])
    }

    /// Asks a question and notes a fault. After a fault the whole read has no result.
    private func quietly<Result>(
        _ nothing: Result, _ body: () throws(StoreFault) -> Result
    ) -> Result {
        do throws(StoreFault) {
            return try body()
        } catch {
            fault = fault ?? error
            return nothing
        }
    }

    // MARK: - People

    private static let person = Statement(
        """
        SELECT last_seen, kind, count FROM people LEFT JOIN row_counts ON row_counts.person = people.id
        WHERE people.id = $1 AND project = $2::bigint AND erased_by IS NULL
        """)

    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        quietly(nil) { () throws(StoreFault) in
            let rows = try ask(PostgresSnapshot.person, Parameters(id.rawValue, Int64(project.rawValue)))
            if rows.count == 0 { return nil }
            var counts: [RowKind: Int] = [:]
            for row in 0..<rows.count {
                guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))) else { continue }
                counts[kind] = Int(rows.integer(row, 2))
            }
            let kept = SeenAt(rawValue: rows.integer(0, 0))
            return PersonSummary(id: id, lastSeen: max(kept, sightings.person(id) ?? kept).moment, counts: counts)
        }
    }

    private static let holders = Statement("SELECT person FROM links WHERE hash = $1 AND ended_by IS NULL")

    private static let formerHolders = Statement(
        "SELECT DISTINCT person FROM links WHERE hash = $1 AND ended_by IS NOT NULL")

    func holders(of identity: IdentityKey) -> [PersonID] {
        quietly([]) { () throws(StoreFault) in try people(PostgresSnapshot.holders, identity) }
    }

    func formerHolders(of identity: IdentityKey) throws(StoreFault) -> [PersonID]? {
        try people(PostgresSnapshot.formerHolders, identity)
    }

    private func people(_ statement: Statement, _ identity: IdentityKey) throws(StoreFault) -> [PersonID] {
        var parameters = Parameters()
        parameters.add(identity.hash.uuid)
        let rows = try ask(statement, parameters)
        return (0..<rows.count).map { PersonID(rawValue: rows.integer($0, 0)) }
    }

    // MARK: - Groups

    private static let groupsOf = Statement(
        """
        SELECT asked.person, root, size FROM unnest($1::bigint[]) AS asked (person) CROSS JOIN LATERAL (
            SELECT label FROM people WHERE id = asked.person AND label IS NOT NULL OFFSET 0
        ) AS own CROSS JOIN LATERAL (
            SELECT root, size FROM groups WHERE groups.label = own.label OFFSET 0
        ) AS found
        """)

    func group(of person: PersonID) -> Group {
        if let known = groups[person] { return known }
        let group = quietly(nil) { () throws(StoreFault) in try groups(of: [person])[person] } ?? Group(alone: person)
        groups[person] = group
        return group
    }

    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] {
        let rows = try ask(PostgresSnapshot.groupsOf, people.map(\.rawValue))
        var found: [PersonID: Group] = [:]
        for row in 0..<rows.count {
            let person = PersonID(rawValue: rows.integer(row, 0))
            let root = PersonID(rawValue: rows.integer(row, 1))
            found[person] = Group(root: root, count: Int(rows.integer(row, 2)), PostgresGroups(self, of: person))
        }
        groups.merge(found) { _, last in last }
        return found
    }

    /// The members of the group of a person, in the order of their ids. A page of them costs no more in a larger group.
    private static let members = Statement(
        """
        SELECT id FROM people
        WHERE label = (SELECT label FROM people WHERE id = $1) AND id > $2 ORDER BY id LIMIT $3
        """)

    fileprivate func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        quietly(after == nil ? [person] : []) { () throws(StoreFault) in
            let rows = try ask(
                PostgresSnapshot.members, Parameters(person.rawValue, after?.rawValue ?? .min, Int64(limit)))
            // A later moment of a long read may find the person alone.
            if rows.count == 0, after == nil { return [person] }
            return (0..<rows.count).map { PersonID(rawValue: rows.integer($0, 0)) }
        }
    }

    private static func mergesOfGroup(_ end: String) -> Statement {
        Statement(
            """
            SELECT found.* FROM (
                SELECT id FROM people WHERE label = (SELECT label FROM people WHERE id = $1) OFFSET 0
            ) AS members CROSS JOIN LATERAL (
                SELECT id, source, destination, rule FROM merges WHERE source = members.id AND ended_by IS NULL OFFSET 0
            ) AS found \(end)
            """)
    }

    private static let (allMerges, someMerges) = (mergesOfGroup("ORDER BY id"), mergesOfGroup("LIMIT $2"))

    fileprivate func merges(ofGroupWith person: PersonID, limit: Int?) -> [Merge] {
        quietly([]) { () throws(StoreFault) in
            guard let limit else { return try merges(ask(PostgresSnapshot.allMerges, Parameters(person.rawValue))) }
            return try merges(ask(PostgresSnapshot.someMerges, Parameters(person.rawValue, Int64(limit))))
        }
    }

    private static let mergesOf = Statement(
        """
        SELECT found.* FROM unnest($1::bigint[]) AS asked (person) CROSS JOIN LATERAL (
            SELECT id, source, destination, rule FROM merges WHERE source = asked.person AND ended_by IS NULL
            UNION ALL
            SELECT id, source, destination, rule FROM merges WHERE destination = asked.person AND ended_by IS NULL
        ) AS found LIMIT $2
        """)

    /// The way from one member to another. The whole group is read only if a search over few merges finds no way.
    fileprivate func path(from start: PersonID, to end: PersonID) -> [Merge] {
        var path = GroupPath { [self] people, limit in
            quietly([]) { () throws(StoreFault) in
                var parameters = Parameters()
                parameters.add(integers: people.map(\.rawValue))
                parameters.add(Int64(limit))
                return try merges(try ask(PostgresSnapshot.mergesOf, parameters))
            }
        }
        return path.way(from: start, to: end)
            ?? ListedGroup.path(merges(ofGroupWith: start, limit: nil), from: start, to: end)
    }

    private func merges(_ rows: Rows) throws(StoreFault) -> [Merge] {
        var merges: [Merge] = []
        for row in 0..<rows.count { merges.append(try Merge(rows, row)) }
        return merges
    }

    /// The numbers of a large group.
    private static let storedTotals = Statement(
        """
        SELECT groups.label, first, groups.last_seen FROM people JOIN groups ON groups.label = people.label
        WHERE people.id = $1 AND size >= \(Group.membersWithFolds)
        """)
    private static let storedRows = Statement("SELECT kind, count FROM group_rows WHERE label = ANY ($1::bigint[])")
    private static let storedIdentities = Statement(
        "SELECT type, count FROM group_identities WHERE label = ANY ($1::bigint[])")

    private static let lastSeen = Statement("SELECT max(last_seen) FROM people WHERE id = ANY ($1::bigint[])")
    private static let rowsOfMembers = Statement(
        "SELECT kind, sum(count)::bigint FROM row_counts WHERE person = ANY ($1::bigint[]) GROUP BY kind")
    private static let identitiesOfMembers = Statement(
        "SELECT type, count(*) FROM links WHERE person = ANY ($1::bigint[]) AND \(Loader.linkInForce) GROUP BY type")

    func totals(of group: Group) throws(StoreFault) -> GroupTotals {
        let stored = group.keepsFolds ? try ask(PostgresSnapshot.storedTotals, Parameters(group.root.rawValue)) : nil
        guard let stored, stored.count > 0 else { return try totals(ofMembers: group.members) }
        let label = PersonID(rawValue: stored.integer(0, 0))
        var totals = PostgresSnapshot.totals(
            try ask(PostgresSnapshot.storedRows, [label.rawValue]),
            try ask(PostgresSnapshot.storedIdentities, [label.rawValue]))
        totals.first = stored.optionalInteger(0, 1).map(PersonID.init)
        let kept = stored.optionalInteger(0, 2).map(SeenAt.init(rawValue:))
        totals.lastSeen = [kept, sightings.group(label)].compactMap(\.self).max()
        return totals
    }

    private func totals(ofMembers members: [PersonID]) throws(StoreFault) -> GroupTotals {
        let keys = members.map(\.rawValue)
        let seen = try ask(PostgresSnapshot.lastSeen, keys)
        var totals = PostgresSnapshot.totals(
            try ask(PostgresSnapshot.rowsOfMembers, keys), try ask(PostgresSnapshot.identitiesOfMembers, keys))
        totals.first = members.first
        let kept = seen.optionalInteger(0, 0).map(SeenAt.init(rawValue:))
        totals.lastSeen = ([kept] + members.map(sightings.person)).compactMap(\.self).max()
        return totals
    }

    private static func totals(_ rows: Rows, _ identities: Rows) -> GroupTotals {
        var totals = GroupTotals()
        for row in 0..<rows.count {
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 0))) else { continue }
            totals.rows[kind] = Int(rows.integer(row, 1))
        }
        for row in 0..<identities.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: identities.integer(row, 0))) else {
                continue
            }
            totals.identities[type] = Int(identities.integer(row, 1))
        }
        return totals
    }

    private static let identities = Statement(
        """
        SELECT type, value, journal.at, journal.key, journal.request_id, journal.sequence, links.person
        FROM links JOIN journal ON journal.sequence = links.made_by
        WHERE links.person = ANY ($1::bigint[]) AND \(Loader.linkInForce) ORDER BY links.id
        """)

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        try identities(of: [person])[person] ?? []
    }

    func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]] {
        if people.isEmpty { return [:] }
        var parameters = Parameters()
        parameters.add(integers: people.map(\.rawValue))
        let rows = try ask(PostgresSnapshot.identities, parameters)
        var identities: [PersonID: [HeldIdentity]] = [:]
        for row in 0..<rows.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 0))) else { continue }
            identities[PersonID(rawValue: rows.integer(row, 6)), default: []].append(
                HeldIdentity(
                    type: type, value: rows.text(row, 1) ?? "", since: Instant(milliseconds: rows.integer(row, 2)),
                    call: JournalSequence(rawValue: rows.integer(row, 5)),
                    key: rows.optionalInteger(row, 3).map(KeyID.init), requestID: rows.text(row, 4) ?? ""))
        }
        return identities
    }

    private static let holdersOfTypes = Statement(
        """
        SELECT links.id, person, type, value FROM links JOIN people ON people.id = person
        WHERE links.id < $1 AND type = ANY ($2::bigint[]) AND ended_by IS NULL AND project = $3::bigint
        ORDER BY links.id DESC LIMIT $4
        """)

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        var parameters = Parameters(before ?? .max)
        parameters.add(integers: types.types.map { Int64($0.rawValue) })
        parameters.add(Int64(project.rawValue))
        parameters.add(Int64(limit))
        let rows = try ask(PostgresSnapshot.holdersOfTypes, parameters)
        return (0..<rows.count).compactMap { row in
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 2))) else { return nil }
            return (rows.integer(row, 0), PersonID(rawValue: rows.integer(row, 1)), type, rows.text(row, 3) ?? "")
        }
    }

    // MARK: - Documents

    private static let document = Statement(
        "SELECT body FROM documents WHERE hash = $1 AND kind = $2::bigint::smallint ORDER BY id DESC LIMIT 1")

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        var parameters = Parameters()
        parameters.add(key.hash.uuid)
        parameters.add(Int64(key.kind.rawValue))
        let rows = try ask(PostgresSnapshot.document, parameters)
        // An empty document means that the document was removed.
        return rows.count == 0 ? nil : rows.blob(0, 0).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The sweep empties documents of erased people later, and until then nobody may read them.
    private static let contentOfVersion = Statement("SELECT body FROM documents WHERE id = $1 AND \(isOfNobodyErased)")
    private static let versionsSince = Statement(
        """
        SELECT id, made_by FROM documents WHERE hash = $1 AND kind = $2::bigint::smallint AND id >= coalesce((
            SELECT id FROM documents WHERE hash = $1 AND kind = $2::bigint::smallint AND made_by < $3
            ORDER BY id DESC LIMIT 1
        ), 0) ORDER BY id DESC
        """)

    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion] {
        var parameters = Parameters()
        parameters.add(key.hash.uuid)
        parameters.add(Int64(key.kind.rawValue))
        parameters.add(sequence.rawValue)
        let rows = try ask(PostgresSnapshot.versionsSince, parameters)
        return (0..<rows.count).map { row in
            DocumentVersion(
                key, number: rows.integer(row, 0), madeBy: JournalSequence(rawValue: rows.integer(row, 1)))
        }
    }

    private static let documentsOfCall = Statement(
        """
        SELECT facts.id, facts.kind, facts.hash, facts.person FROM journal
        LEFT JOIN journal AS before ON before.sequence = journal.sequence - 1
        JOIN documents AS facts
            ON facts.id <= journal.last_document AND facts.id > coalesce(before.last_document, 0)
        WHERE journal.sequence = $1 ORDER BY facts.id
        """)

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        let rows = try ask(PostgresSnapshot.documentsOfCall, Parameters(call.rawValue))
        return (0..<rows.count).compactMap { row in
            guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))), !kind.isDerived,
                let hash = rows.withBytes(row, 2, { Hash128($0) })
            else { return nil }
            let version = DocumentVersion(DocumentKey(kind, hash: hash), number: rows.integer(row, 0), madeBy: call)
            return WrittenDocument(version, person: PersonID(rawValue: rows.integer(row, 3)))
        }
    }

    func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]? {
        let rows = try ask(PostgresSnapshot.contentOfVersion, Parameters(version.number))
        return rows.count == 0 ? nil : rows.blob(0, 0).flatMap { $0.isEmpty ? nil : $0 }
    }

    private static let bytesOfOldVersions = Statement(
        """
        WITH page AS MATERIALIZED (SELECT id, hash, kind FROM documents WHERE id > $1 ORDER BY id LIMIT $2)
        SELECT coalesce(sum(octet_length(superseded.body)), 0)::bigint, coalesce(max(page.id), $1) FROM page
        LEFT JOIN LATERAL (
            SELECT before.body FROM documents AS before
            WHERE before.hash = page.hash AND before.kind = page.kind AND before.id < page.id
            ORDER BY before.id DESC LIMIT 1
        ) AS superseded ON true
        """)

    func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        let rows = try ask(PostgresSnapshot.bytesOfOldVersions, Parameters(place, Int64(limit)))
        return OldVersions(bytes: rows.integer(0, 0), end: rows.integer(0, 1))
    }

    private static let documentsOfKeys = Statement(
        """
        SELECT DISTINCT ON (hash) hash, body FROM documents
        WHERE hash = ANY ($1::uuid[]) AND kind = $2::bigint::smallint ORDER BY hash, id DESC
        """)

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        guard let kind = keys.first?.kind else { return [:] }
        precondition(keys.allSatisfy { $0.kind == kind }, "The documents have several kinds.")
        var parameters = Parameters()
        parameters.add(uuids: keys.map(\.hash.uuid))
        parameters.add(Int64(kind.rawValue))
        let rows = try ask(PostgresSnapshot.documentsOfKeys, parameters)
        var documents: [DocumentKey: [UInt8]] = [:]
        for row in 0..<rows.count {
            guard let hash = rows.withBytes(row, 0, { Hash128($0) }), let body = rows.blob(row, 1), !body.isEmpty else {
                continue
            }
            documents[DocumentKey(kind, hash: hash)] = body
        }
        return documents
    }

    // MARK: - Many people

    private static let keysOfPeople = Statement(
        """
        SELECT person, type, hash FROM links
        WHERE person = ANY ($1::bigint[]) AND type = ANY ($2::bigint[]) AND \(Loader.linkInForce)
        ORDER BY person, id
        """)

    func keys(
        of types: [IdentityType], heldBy people: [PersonID]
    ) throws(StoreFault) -> [HeldKey] {
        var parameters = Parameters()
        parameters.add(integers: people.map(\.rawValue))
        parameters.add(integers: types.map { Int64($0.rawValue) })
        let rows = try ask(PostgresSnapshot.keysOfPeople, parameters)
        var held: [HeldKey] = []
        for row in 0..<rows.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))),
                let hash = rows.withBytes(row, 2, { Hash128($0) })
            else { continue }
            held.append((PersonID(rawValue: rows.integer(row, 0)), type, IdentityKey(hash: hash)))
        }
        return held
    }

    // MARK: - Rows

    private static let columns = "id, person, previous, kind, at, recognition, device, body"
    /// The sweep removes rows of erased people later, and until then nobody may read them.
    private static let isOfNobodyErased = "NOT EXISTS (SELECT FROM people WHERE id = person AND erased_by IS NOT NULL)"
    private static let row = Statement(
        "SELECT \(columns) FROM rows WHERE id = $1 AND superseded_by IS NULL AND \(isOfNobodyErased)")
    private static let rowsOfPerson = Statement(
        """
        SELECT \(columns) FROM rows WHERE person = $1 AND kind = $2::bigint::smallint AND id <= $3
            AND superseded_by IS NULL
        ORDER BY id DESC LIMIT $4
        """)
    private static let recent = Statement(
        """
        SELECT \(columns) FROM rows WHERE recognition = $1 AND id > $2 AND superseded_by IS NULL AND \(isOfNobodyErased)
        ORDER BY id DESC LIMIT 1
        """)

    private static func byTime(_ isAscending: Bool) -> Statement {
        let (sign, order) = isAscending ? (">", "ASC") : ("<", "DESC")
        return Statement(
            """
            SELECT \(columns) FROM rows
            WHERE kind = $1::bigint::smallint AND at >= $2 AND at < $3 AND (at, id) \(sign) ($4, $5)
                AND project = $6::bigint AND superseded_by IS NULL AND \(isOfNobodyErased)
            ORDER BY at \(order), id \(order) LIMIT $7
            """)
    }

    private static let (upwards, downwards) = (byTime(true), byTime(false))

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        stored(try ask(PostgresSnapshot.row, Parameters(number.rawValue))).first
    }

    private static let rowsOfNumbers = Statement(
        "SELECT \(columns) FROM rows WHERE id = ANY ($1::bigint[]) AND superseded_by IS NULL AND \(isOfNobodyErased)")

    func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] {
        var parameters = Parameters()
        parameters.add(integers: numbers.map(\.rawValue))
        return stored(try ask(PostgresSnapshot.rowsOfNumbers, parameters))
    }

    private static let arrivals = Statement(
        """
        SELECT rows.id, journal.at, journal.key, journal.sequence FROM rows JOIN journal ON journal.sequence = rows.made_by
        WHERE rows.id = ANY ($1::bigint[])
        """)

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        if rows.isEmpty { return [:] }
        var parameters = Parameters()
        parameters.add(integers: rows.map(\.rawValue))
        let found = try ask(PostgresSnapshot.arrivals, parameters)
        var arrivals: [RowNumber: RowArrival] = [:]
        for row in 0..<found.count {
            arrivals[RowNumber(rawValue: found.integer(row, 0))] = RowArrival(
                at: Instant(milliseconds: found.integer(row, 1)), key: found.optionalInteger(row, 2).map(KeyID.init),
                call: JournalSequence(rawValue: found.integer(row, 3)))
        }
        return arrivals
    }

    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        stored(
            try ask(
                PostgresSnapshot.rowsOfPerson,
                Parameters(person.rawValue, Int64(kind.rawValue), from?.rawValue ?? .max, Int64(limit))))
    }

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        let outside = range.isAscending ? Int64.min : Int64.max
        return stored(
            try ask(
                range.isAscending ? PostgresSnapshot.upwards : PostgresSnapshot.downwards,
                Parameters(
                    Int64(kind.rawValue), range.since?.milliseconds ?? .min, range.until?.milliseconds ?? .max,
                    range.after?.at.milliseconds ?? outside, range.after?.number.rawValue ?? outside,
                    Int64(project.rawValue), Int64(range.limit))))
    }

    private static let inOrder = Statement(
        """
        SELECT \(columns), project FROM rows WHERE id > $1 AND superseded_by IS NULL AND \(isOfNobodyErased)
        ORDER BY id LIMIT $2
        """)

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        let rows = try ask(PostgresSnapshot.inOrder, Parameters(number.rawValue, Int64(limit)))
        var projects: [RowNumber: ProjectID] = [:]
        for row in 0..<rows.count {
            projects[RowNumber(rawValue: rows.integer(row, 0))] =
                ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 8)))
        }
        return stored(rows).compactMap { row in projects[row.number].map { ($0, row) } }
    }

    func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? {
        let parameters = Parameters(
            Int64(bitPattern: recognition.rawValue), lastRow.rawValue - Int64(RowsByTime.lately))
        return stored(try ask(PostgresSnapshot.recent, parameters)).first
    }

    private func stored(_ rows: Rows) -> [StoredRow] {
        func hash(_ row: Int, _ column: Int) -> RowHash? {
            rows.optionalInteger(row, column).map { RowHash(rawValue: UInt64(bitPattern: $0)) }
        }
        return (0..<rows.count).compactMap { row in
            guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 3))) else { return nil }
            let body = Row(
                kind, at: Instant(milliseconds: rows.integer(row, 4)), recognition: hash(row, 5), device: hash(row, 6),
                body: rows.blob(row, 7) ?? [])
            return StoredRow(
                number: RowNumber(rawValue: rows.integer(row, 0)), person: PersonID(rawValue: rows.integer(row, 1)),
                row: body, previous: rows.optionalInteger(row, 2).map(RowNumber.init))
        }
    }

    // MARK: - Calls

    private static let callsAfter = Statement(
        "SELECT sequence FROM journal WHERE sequence > $1 ORDER BY sequence LIMIT $2")
    private static let headsAfter = Statement(
        "SELECT sequence, at, project, person, request_id FROM journal WHERE sequence > $1 ORDER BY sequence LIMIT $2")
    private static let heads = Statement(
        "SELECT sequence, at, project, person, request_id FROM journal WHERE sequence = ANY ($1::bigint[])")
    private static let callsOfPerson = Statement(
        """
        (SELECT sequence FROM journal WHERE person = $1 AND sequence < $2 ORDER BY sequence DESC LIMIT $3)
        UNION (SELECT sequence FROM call_people WHERE person = $1 AND sequence < $2 ORDER BY sequence DESC LIMIT $3)
        UNION SELECT made_by FROM people WHERE id = $1 AND made_by < $2
        ORDER BY sequence DESC LIMIT $3
        """)
    private static let callOfMerge = Statement("SELECT made_by FROM merges WHERE id = $1")
    private static let mergesBefore = Statement("SELECT id FROM merges WHERE id < $1 ORDER BY id DESC LIMIT $2")
    private static let callsOnMerge = Statement(
        "SELECT sequence FROM call_merges WHERE merge = $1 ORDER BY sequence")
    private static let notedCalls = Statement(
        """
        SELECT sequence, act FROM call_acts WHERE sequence IN (
            SELECT sequence FROM call_groups WHERE person = ANY ($1::bigint[]) AND sequence > $2
        ) ORDER BY sequence LIMIT $3
        """)
    private static let loggedCalls = Statement(
        """
        SELECT id, last, at, kind, body FROM call_log WHERE project = $1 AND kind = \(LogSegment.callsKind) AND id > $2
        ORDER BY id LIMIT $3
        """)
    private static let logNotes = Statement(
        """
        SELECT id, last, at, kind, body FROM call_log WHERE project = $1 AND kind > \(LogSegment.callsKind) ORDER BY id
        """)
    private static let erased = Statement(
        "SELECT id FROM people WHERE erased_by IS NOT NULL AND project = $1::bigint")
    private static let journalEnd = Statement("SELECT max(sequence) FROM journal")
    private static let linksEnded = Statement(
        """
        SELECT ended_by, id, person, type, value FROM links
        WHERE ended_by >= $1 AND (ended_by > $1 OR id > $2) ORDER BY ended_by, id LIMIT $3
        """)
    private static let rowBefore = Statement(
        "SELECT last_row FROM journal WHERE sequence < $1 ORDER BY sequence DESC LIMIT 1")

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try calls(try ask(PostgresSnapshot.callsAfter, Parameters(sequence.rawValue, Int64(limit))))
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        heads(try ask(PostgresSnapshot.headsAfter, Parameters(sequence.rawValue, Int64(limit))))
    }

    func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        heads(try ask(PostgresSnapshot.heads, sequences.map(\.rawValue)))
    }

    private func heads(_ rows: Rows) -> [CallHead] {
        (0..<rows.count).map { row in
            CallHead(
                sequence: JournalSequence(rawValue: rows.integer(row, 0)),
                at: Instant(milliseconds: rows.integer(row, 1)),
                project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 2))),
                person: rows.optionalInteger(row, 3).map(PersonID.init), requestID: rows.text(row, 4) ?? "")
        }
    }

    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        try calls(
            try ask(
                PostgresSnapshot.callsOfPerson,
                Parameters(person.rawValue, before?.rawValue ?? .max, Int64(limit))))
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        if let fault { throw fault }
        return try JournalReader(connection).calls(sequences.map(\.rawValue))
    }

    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        if let fault { throw fault }
        return try JournalReader(connection).spans(of: calls.lowerBound.rawValue...calls.upperBound.rawValue)
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        try calls(try ask(PostgresSnapshot.callOfMerge, Parameters(merge.rawValue))).first
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        let rows = try ask(PostgresSnapshot.mergesBefore, Parameters(merge?.rawValue ?? .max, Int64(limit)))
        return (0..<rows.count).map { MergeID(rawValue: rows.integer($0, 0)) }
    }

    func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] {
        let rows = try ask(PostgresSnapshot.callsOnMerge, Parameters(merge.rawValue))
        return (0..<rows.count).map { JournalSequence(rawValue: rows.integer($0, 0)) }
    }

    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        var parameters = Parameters()
        parameters.add(integers: people.map(\.rawValue))
        parameters.add(sequence.rawValue)
        parameters.add(Int64(limit))
        let rows = try ask(PostgresSnapshot.notedCalls, parameters)
        return (0..<rows.count).map { row in
            NotedCall(call: JournalSequence(rawValue: rows.integer(row, 0)), act: rows.blob(row, 1) ?? [])
        }
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        let rows = try ask(PostgresSnapshot.erased, Parameters(Int64(project.rawValue)))
        return Set((0..<rows.count).map { PersonID(rawValue: rows.integer($0, 0)) })
    }

    func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment] {
        segments(of: project, try ask(PostgresSnapshot.logNotes, Parameters(Int64(project.rawValue)))).map(\.segment)
    }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        let parameters = Parameters(Int64(project.rawValue), number, Int64(limit))
        return segments(of: project, try ask(PostgresSnapshot.loggedCalls, parameters))
    }

    private func segments(of project: ProjectID, _ rows: Rows) -> [LogSegment.Stored] {
        (0..<rows.count).map { row in
            LogSegment.Stored(
                number: rows.integer(row, 0),
                LogSegment(
                    project: project, last: JournalSequence(rawValue: rows.integer(row, 1)),
                    at: Instant(milliseconds: rows.integer(row, 2)), kind: rows.integer(row, 3),
                    body: rows.blob(row, 4) ?? []))
        }
    }

    /// The tree over the journal.
    private var tree: TreeTables {
        TreeTables { (statement, parameters) throws(StoreFault) in try self.ask(statement, parameters) }
    }

    private var name: [UInt8] { PostgresStore.name(hash).bytes }

    func journalHead() throws(StoreFault) -> JournalHead? { try tree.head(name) }

    func journalReceipt(of call: JournalSequence) throws(StoreFault) -> JournalReceipt? {
        try tree.receipt(of: call, name)
    }

    func journalExtension(from call: JournalSequence) throws(StoreFault) -> JournalExtension? {
        try tree.growth(from: call, name)
    }

    func lastCall() throws(StoreFault) -> JournalSequence {
        let rows = try ask(PostgresSnapshot.journalEnd, Parameters())
        return JournalSequence(rawValue: rows.isNull(0, 0) ? 0 : rows.integer(0, 0))
    }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        let rows = try ask(
            PostgresSnapshot.linksEnded, Parameters(place.call.rawValue, place.link, Int64(limit)))
        var links: [EndedLink] = []
        for row in 0..<rows.count {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 3))) else {
                throw StoreFault(
                    .corrupt,
                    "Link \(rows.integer(row, 1)) has type \(rows.integer(row, 3)), which this version does not know.")
            }
            let place = EndedLink.Place(
                call: JournalSequence(rawValue: rows.integer(row, 0)), link: rows.integer(row, 1))
            links.append(
                EndedLink(
                    place: place, person: PersonID(rawValue: rows.integer(row, 2)), type: type,
                    value: rows.text(row, 4) ?? ""))
        }
        return links
    }

    func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        let rows = try ask(PostgresSnapshot.rowBefore, Parameters(sequence.rawValue))
        return RowNumber(rawValue: rows.count == 0 ? 0 : rows.integer(0, 0))
    }

    private func calls(_ sequences: Rows) throws(StoreFault) -> [RecordedCall] {
        if let fault { throw fault }
        return try JournalReader(connection).calls((0..<sequences.count).map { sequences.integer($0, 0) })
    }
}

/// The members of the groups of a snapshot, read when they are asked for.
private final class PostgresGroups: GroupSource, @unchecked Sendable {
    // Unchecked: a group is used in the read that found the group, and by the thread of the read.
    private let snapshot: PostgresSnapshot
    /// The member that was asked for. A later moment of a long read may have the root in another group.
    private let asked: PersonID
    /// The members, after they were read.
    private var members: [PersonID]?

    init(_ snapshot: PostgresSnapshot, of asked: PersonID) { (self.snapshot, self.asked) = (snapshot, asked) }

    func members(ofGroupWith _: PersonID) -> [PersonID] {
        if let members { return members }
        let all = snapshot.members(ofGroupWith: asked, after: nil, limit: .max)
        members = all
        return all
    }

    func members(ofGroupWith _: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        snapshot.members(ofGroupWith: asked, after: after, limit: limit)
    }

    func merges(ofGroupWith _: PersonID) -> [Merge] { snapshot.merges(ofGroupWith: asked, limit: nil) }

    func merges(ofGroupWith _: PersonID, limit: Int) -> [Merge] { snapshot.merges(ofGroupWith: asked, limit: limit) }

    func path(from start: PersonID, to end: PersonID) -> [Merge] { snapshot.path(from: start, to: end) }
}
