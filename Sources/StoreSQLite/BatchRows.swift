import Domain

/// The changes of a batch, in the order of their tables, so that one statement writes many rows.
struct BatchRows {
    typealias SupersededRow = (row: RowNumber, call: Int64, isEmptied: Bool)
    typealias AddedRow = (person: PersonID, row: Row, madeBy: Int64)
    typealias PutDocument = (key: DocumentKey, person: PersonID, body: [UInt8], madeBy: Int64)

    private(set) var people: [(id: PersonID, project: ProjectID, madeBy: Int64, seen: SeenAt)] = []
    private(set) var links: [(id: Int64, person: PersonID, identity: Identity, madeBy: Int64)] = []
    private(set) var endedLinks: [(link: Int64, endedBy: Int64)] = []
    private(set) var merges: [(merge: Merge, madeBy: Int64)] = []
    private(set) var endedMerges: [(merge: MergeID, endedBy: Int64)] = []
    private(set) var rows: [AddedRow] = []
    private(set) var supersededRows: [SupersededRow] = []
    private(set) var documents: [PutDocument] = []
    private(set) var erasures: [(person: PersonID, call: Int64)] = []
    /// The roots of the groups that calls read, and the calls themselves in the form in which an undo decides them again.
    private(set) var groupsRead: [(root: PersonID, call: Int64)] = []
    private(set) var acts: [(act: [UInt8], call: Int64)] = []
    /// The people of a call beside the person that the call is about.
    private(set) var touched: [(person: PersonID, call: Int64)] = []

    /// - Parameters:
    ///   - entries: the calls of the batch.
    ///   - numbers: the last numbers before the batch.
    ///   - ended: the numbers of the links that the calls end, in their order.
    init(_ entries: [JournalEntry], after numbers: LastNumbers, endedLinks ended: [Int64]) {
        people.reserveCapacity(entries.count)
        links.reserveCapacity(entries.count * 4)
        var (call, link) = (numbers.sequence.rawValue, numbers.link)
        for entry in entries {
            call += 1
            for change in entry.changes { add(change, of: entry, call, &link, ended) }
            if let note = entry.groupNote {
                for root in note.roots { groupsRead.append((root, call)) }
                acts.append((note.act, call))
            }
            for person in entry.otherPeople { touched.append((person, call)) }
        }
    }

    private mutating func add(
        _ change: Change, of entry: JournalEntry, _ call: Int64, _ link: inout Int64, _ ended: [Int64]
    ) {
        switch change {
        case .personMade(let id, let moment): people.append((id, entry.project, call, moment))
        case .linked(let person, let identity):
            link += 1
            links.append((link, person, identity, call))
        case .unlinked: endedLinks.append((ended[endedLinks.count], call))
        case .rowAdded(let person, let row): rows.append((person, row, call))
        case .rowSuperseded(_, _, let row):
            // Another person has the content of a settled row, or an erasure takes it.
            supersededRows.append((row, call, entry.kind == .settleRows))
        case .merged(let merge): merges.append((merge, call))
        case .personErased(let person): erasures.append((person, call))
        case .mergeUndone(let merge): endedMerges.append((merge.id, call))
        case .documentPut(let key, let person, let body): documents.append((key, person, body, call))
        case .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet: break
        }
    }
}
