import Crypto
import Domain
import Leaves
import Postgres

/// The rows of a batch, as columns: one statement for each table, for any number of calls.
struct BatchWriter {
    private let facts: LoadingBatchFacts
    private(set) var state: StoreState
    private let batch: Hash128
    /// The groups as the batch leaves them.
    private(set) var groups: GroupTables

    private var tables = Tables.empty
    /// The derived documents, with the number of the last version of each. Earlier versions are deleted.
    private var derived: [DocumentKey: Int64] = [:]
    private var heads: [Chain: RowHead] = [:]
    private var directory: [(entry: JournalEntry, call: Int64)] = []
    private var packed: [PackedCall] = []

    private struct Chain: Hashable {
        let person: PersonID
        let kind: RowKind
    }

    private static let deleteSuperseded = Connection.Statement(
        """
        DELETE FROM documents USING unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS kept (hash, kind, id)
        WHERE documents.hash = kept.hash AND documents.kind = kept.kind::smallint AND documents.id < kept.id
        """)

    /// - Parameters:
    ///   - facts: the batch facts that decided the entries.
    ///   - leaves: makes the leaves of the tree over the journal.
    init(
        _ entries: [JournalEntry], _ facts: LoadingBatchFacts, after state: StoreState, batch: Hash128,
        _ leaves: inout LeafMaker, _ hash: KeyedHash
    ) throws(StoreFault) {
        guard let edge = state.edge else {
            throw StoreFault(.corrupt, "The store is damaged: its state does not have the edge of the tree.")
        }
        self.facts = facts
        self.state = state
        self.batch = batch
        groups = GroupTables(facts.index.changedGroups, label: facts.group(of:))
        let ended = facts.index.endedLinks
        var endedCount = 0
        for (place, entry) in entries.enumerated() { add(entry, isFirst: place == 0, ended, &endedCount) }
        self.state.identities += Int64(facts.identityChange)
        let tree = leaves.addition(of: entries, packed, after: state.sequence.rawValue, to: edge, hash)
        self.state.edge = tree.edge
        add(tree)
        for (chain, head) in heads {
            tables.counts.add(
                .integer(chain.person.rawValue), .integer(Int64(chain.kind.rawValue)), .integer(head.last.rawValue),
                .integer(Int64(head.count)))
        }
    }

    private mutating func add(_ entry: JournalEntry, isFirst: Bool, _ ended: [Int64], _ endedCount: inout Int) {
        state.sequence = state.sequence.next
        let call = state.sequence.rawValue
        state.moment = max(state.moment ?? entry.at, entry.at)
        state.lastMoment = entry.at
        // A call's own id counts, also behind a step of the clock.
        let given = entry.lastGiven(upTo: state.moment ?? entry.at)
        state.person = max(state.person ?? given, given)
        for change in entry.changes {
            switch change {
            case .personMade(let id, let moment):
                tables.people.add(
                    .integer(id.rawValue), .integer(Int64(entry.project.rawValue)), .integer(call),
                    .integer(moment.rawValue), .integer(groups.takeLabel(ofNew: id)),
                    .integer(entry.person == id ? 0 : 1))
                state.people += 1
            case .linked(let person, let identity):
                state.link += 1
                state.links += 1
                tables.links.add(
                    .integer(state.link), .integer(person.rawValue), .integer(Int64(identity.type.rawValue)),
                    .blob(identity.key.hash.uuid), .text(identity.value), .integer(call))
            case .unlinked:
                tables.endedLinks.add(ended[endedCount], call)
                endedCount += 1
                state.links -= 1
            case .rowAdded(let person, let row): add(row, of: person, in: entry.project, call)
            case .rowSuperseded(let person, let kind, let row):
                supersede(row, in: Chain(person: person, kind: kind), isSettled: entry.kind == .settleRows, call)
            case .merged(let merge):
                tables.merges.add(
                    .integer(merge.id.rawValue), .integer(merge.from.rawValue), .integer(merge.into.rawValue),
                    .integer(Int64(merge.rule.rawValue)), .integer(call))
                state.merges += 1
            case .mergeUndone(let merge):
                tables.endedMerges.add(merge.id.rawValue, call)
                state.merges -= 1
            case .personErased(let person):
                tables.erased.add(person.rawValue, call)
                state.people -= 1
            case .documentPut(let key, let person, let body):
                state.document += 1
                if key.isKept(body) {
                    tables.documents.add(
                        .integer(state.document), .integer(Int64(key.kind.rawValue)), .blob(key.hash.uuid),
                        .integer(person.rawValue), .integer(call), .blob(body))
                }
                if key.kind.isDerived { derived[key] = state.document }
            case .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet: break
            }
        }
        addCall(entry, isFirst: isFirst)
    }

    private mutating func add(_ tree: TreeAddition) {
        for leaf in tree.leaves {
            tables.leaves.add(
                .integer(leaf.sequence), .integer(Int64(leaf.place)), .blob(leaf.mark), .blob(leaf.opening))
            for person in leaf.others { tables.leafPeople.add(.integer(person), .integer(leaf.sequence)) }
        }
        for (number, root) in tree.roots { tables.tree.add(.integer(Int64(number)), .blob(root.bytes)) }
    }

    private mutating func supersede(_ row: RowNumber, in chain: Chain, isSettled: Bool, _ call: Int64) {
        // Another person has the content of a settled row, or an erasure takes it.
        if isSettled {
            tables.settledRows.add(row.rawValue, call)
        } else {
            tables.supersededRows.add(row.rawValue, call)
        }
        guard let before = heads[chain] ?? facts.index.head(of: chain.person, chain.kind) else {
            preconditionFailure("A superseded row of no chain.")
        }
        heads[chain] = RowHead(kind: chain.kind, last: before.last, count: max(0, before.count - 1))
    }

    /// Adds a call after its changes, whose last numbers the call has.
    private mutating func addCall(_ entry: JournalEntry, isFirst: Bool) {
        let call = state.sequence.rawValue
        if let note = entry.groupNote {
            for root in note.roots { tables.callGroups.add(.integer(root.rawValue), .integer(call)) }
            tables.callActs.add(.integer(call), .blob(note.act))
        }
        for person in entry.otherPeople { tables.callPeople.add(.integer(person.rawValue), .integer(call)) }
        if entry.changesDirectory {
            directory.append((entry, call))
            state.directory = call
        }
        let inputs = JournalCoding.pack(entry.inputs, linkNumber: facts.index.linkNumber)
        let reply = entry.reply.packed
        packed.append(PackedCall(inputs: inputs, reply: reply))
        tables.journal.add(
            .integer(call), .integer(entry.at.milliseconds), .integer(Int64(entry.project.rawValue)),
            .integer(entry.key?.rawValue), .integer(Int64(entry.kind.rawValue)), .integer(entry.person?.rawValue),
            .text(entry.requestID), .blob(entry.replay?.key.hash.uuid), .blob(entry.replay?.body.uuid), .blob(inputs),
            .integer(inputs.map(JournalCoding.hasValues) == true ? 1 : 0), .blob(reply), .text(entry.note),
            .integer(state.link), .integer(state.row), .integer(state.document), .blob(isFirst ? batch.uuid : nil))
    }

    private mutating func add(_ row: Row, of person: PersonID, in project: ProjectID, _ call: Int64) {
        let chain = Chain(person: person, kind: row.kind)
        let before = heads[chain] ?? facts.index.head(of: person, row.kind)
        state.row += 1
        tables.rows.add(
            .integer(state.row), .integer(Int64(project.rawValue)), .integer(person.rawValue),
            .integer(before?.last.rawValue), .integer(Int64(row.kind.rawValue)), .integer(row.at.milliseconds),
            .integer(row.recognition.map { Int64(bitPattern: $0.rawValue) }),
            .integer(row.device.map { Int64(bitPattern: $0.rawValue) }), .integer(call), .blob(row.body))
        heads[chain] = RowHead(
            kind: row.kind, last: RowNumber(rawValue: state.row), count: (before?.count ?? 0) + 1)
    }

    /// Sends all statements except the commit.
    func send(to connection: Connection) {
        tables.send(to: connection)
        groups.send(to: connection)
        if !derived.isEmpty {
            var parameters = Parameters()
            parameters.add(uuids: derived.keys.map(\.hash.bytes))
            parameters.add(integers: derived.keys.map { Int64($0.kind.rawValue) })
            parameters.add(integers: derived.values)
            connection.send(BatchWriter.deleteSuperseded, parameters)
        }
        for (entry, call) in directory { DirectoryTables.send(entry, madeBy: call, to: connection) }
        state.send(to: connection)
    }
}

/// The facts that end, with the calls that end them.
private struct Ends {
    private let update: Connection.Statement
    private var ids: [Int64] = []
    private var calls: [Int64] = []

    init(_ update: String, _ condition: String) {
        self.update = Connection.Statement(
            "\(update) FROM unnest($1::bigint[], $2::bigint[]) AS ended (id, call) WHERE \(condition)")
    }

    mutating func add(_ id: Int64, _ call: Int64) {
        ids.append(id)
        calls.append(call)
    }

    func send(to connection: Connection) {
        if ids.isEmpty { return }
        var parameters = Parameters()
        parameters.add(integers: ids)
        parameters.add(integers: calls)
        connection.send(update, parameters)
    }
}

extension Hash128 {
    /// The bytes of a `uuid`.
    var uuid: [UInt8] { bytes }
}

/// The statements of each table.
private struct Tables {
    /// The tables without rows. The statements are built once.
    static let empty = Tables()

    var people = TableInsert(
        "people",
        [
            .integer("id"), .integer("project"), .integer("made_by"), .integer("last_seen"), .integer("label"),
            .boolean("is_beside"),
        ])
    var links = TableInsert(
        "links",
        [.integer("id"), .integer("person"), .integer("type"), .uuid("hash"), .blob("value"), .integer("made_by")])
    var merges = TableInsert(
        "merges",
        [.integer("id"), .integer("source"), .integer("destination"), .integer("rule"), .integer("made_by")])
    var rows = TableInsert(
        "rows",
        [
            .integer("id"), .integer("project"), .integer("person"), .integer("previous"), .integer("kind"),
            .integer("at"), .integer("recognition"), .integer("device"), .integer("made_by"), .blob("body"),
        ])
    var documents = TableInsert(
        "documents",
        [
            .integer("id"), .integer("kind"), .uuid("hash"), .integer("person"), .integer("made_by"), .blob("body"),
        ])
    var journal = TableInsert(
        "journal",
        [
            .integer("sequence"), .integer("at"), .integer("project"), .integer("key"), .integer("kind"),
            .integer("person"), .blob("request_id"), .uuid("replay"), .uuid("body"), .blob("inputs"),
            .boolean("names_values"), .blob("reply"), .blob("note"), .integer("last_link"), .integer("last_row"),
            .integer("last_document"), .uuid("batch"),
        ])
    var leaves = TableInsert(
        "leaves", [.integer("sequence"), .integer("place"), .blob("mark"), .blob("opening")])
    var tree = TableInsert("tree", [.integer("number"), .blob("root")])
    var leafPeople = TableInsert("leaf_people", [.integer("person"), .integer("sequence")])
    var callPeople = TableInsert("call_people", [.integer("person"), .integer("sequence")])
    var callGroups = TableInsert("call_groups", [.integer("person"), .integer("sequence")])
    var callActs = TableInsert("call_acts", [.integer("sequence"), .blob("act")])
    var counts = TableInsert(
        "row_counts", [.integer("person"), .integer("kind"), .integer("last"), .integer("count")],
        conflict: "ON CONFLICT (person, kind) DO UPDATE SET last = excluded.last, count = excluded.count")
    var endedLinks = Ends("UPDATE links SET ended_by = ended.call", "links.id = ended.id")
    var endedMerges = Ends("UPDATE merges SET ended_by = ended.call", "merges.id = ended.id")
    var supersededRows = Ends("UPDATE rows SET superseded_by = ended.call", "rows.id = ended.id")
    var settledRows = Ends("UPDATE rows SET superseded_by = ended.call, body = ''", "rows.id = ended.id")
    var erased = Ends("UPDATE people SET erased_by = ended.call", "people.id = ended.id")

    func send(to connection: Connection) {
        for table in [
            people, links, merges, rows, counts, documents, journal, callPeople, callGroups, callActs, leaves, tree,
            leafPeople,
        ] {
            table.send(to: connection)
        }
        for ends in [endedLinks, endedMerges, supersededRows, settledRows, erased] { ends.send(to: connection) }
    }
}
