/// A note of the server: rows have become a run, or runs have become one run. Runs are derived from rows, so the note changes no
/// fact (docs/decisions/0028).
package struct KeepRuns: Act {
    /// The documents as the server read them. If another server has changed one, the note changes nothing.
    package let before: [DocumentKey: [UInt8]]
    /// The new documents; an empty body removes a document.
    package let after: [(key: DocumentKey, body: [UInt8])]

    package init(before: [DocumentKey: [UInt8]], after: [(key: DocumentKey, body: [UInt8])]) {
        (self.before, self.after) = (before, after)
    }

    package static var kinds: [ActKind] { [.keepRuns] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { after.reduce(256) { $0 + 64 + $1.body.count } }

    /// Puts the documents, and throws nothing.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        for (key, body) in before where view.document(key) ?? [] != body { return Decision(Done()) }
        let changes = after.map { Change.documentPut($0.key, .nobody, $0.body) }
        if changes.isEmpty { return Decision(Done()) }
        return Decision(Done(), outcome: Outcome(kind: .keepRuns, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let keepRuns = ActKind(159, "keep_row_runs", undo: .never(.noteOfServer))
}

/// The rows of a range of numbers that runs have and no read shows: later rows supersede them. A range has 65,536 numbers.
package struct RemovedRows: Equatable, Sendable {
    private var words: [UInt64]
    package private(set) var count = 0

    private static let rangeBits: Int64 = 16
    /// A longer list needs more bytes than a bit for each row.
    private static let listed = 4095

    /// The words of an empty range. Most ranges are empty, and share them.
    private static let noWords: [UInt64] = Array(repeating: 0, count: 1 << rangeBits / 64)

    /// The number of the range with a row.
    package static func range(of row: RowNumber) -> Int64 { row.rawValue >> rangeBits }
    package static func key(of range: Int64) -> DocumentKey { DocumentKey(.removedRows, of: range) }

    /// Reads the document of a range; empty without a document.
    package init(packed: [UInt8]?) {
        words = RemovedRows.noWords
        guard let packed, !packed.isEmpty else { return }
        if packed.count <= 2 * RemovedRows.listed {
            for place in stride(from: 0, to: packed.count - 1, by: 2) {
                insert(Int(packed[place]) | Int(packed[place + 1]) << 8)
            }
        } else {
            for (place, byte) in packed.enumerated() where byte != 0 {
                for bit in 0..<8 where byte & 1 << UInt8(bit) != 0 { insert(place * 8 + bit) }
            }
        }
    }

    private mutating func insert(_ offset: Int) {
        if words[offset >> 6] & 1 << UInt64(offset & 63) != 0 { return }
        words[offset >> 6] |= 1 << UInt64(offset & 63)
        count += 1
    }

    /// Adds a row of the range.
    package mutating func insert(_ row: RowNumber) { insert(RemovedRows.offset(row)) }

    /// Whether the range's row is removed.
    package func contains(_ row: RowNumber) -> Bool {
        let offset = RemovedRows.offset(row)
        return words[offset >> 6] & 1 << UInt64(offset & 63) != 0
    }

    private static func offset(_ row: RowNumber) -> Int { Int(row.rawValue & (1 << rangeBits - 1)) }

    /// The document: two bytes for each row of a short list, or else a bit for each number of the range.
    package var packed: [UInt8] {
        var bytes: [UInt8] = []
        if count <= RemovedRows.listed {
            for offset in 0..<words.count * 64 where words[offset >> 6] & 1 << UInt64(offset & 63) != 0 {
                bytes.append(UInt8(truncatingIfNeeded: offset))
                bytes.append(UInt8(truncatingIfNeeded: offset >> 8))
            }
        } else {
            for word in words {
                for byte in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * byte))) }
            }
        }
        return bytes
    }

    /// The documents to put in addition to the changes of a call: the rows that it supersedes, and the people that it erases.
    package static func changes<V: DecisionFacts>(after changes: [Change], _ view: V) -> [Change] {
        var ranges: [Int64: RemovedRows] = [:]
        var erased: [PersonID] = []
        for change in changes {
            switch change {
            case .rowSuperseded(_, _, let row):
                let range = range(of: row)
                ranges[range, default: RemovedRows(packed: view.document(key(of: range)))].insert(row)
            case .personErased(let person): erased.append(person)
            case .personMade, .linked, .unlinked, .rowAdded, .documentPut, .merged, .mergeUndone, .projectMade,
                .appMade,
                .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        var documents = ranges.sorted { $0.key < $1.key }.map { range, rows in
            Change.documentPut(key(of: range), .nobody, rows.packed)
        }
        if !erased.isEmpty {
            let known = ErasedFromRuns(packed: view.document(ErasedFromRuns.key))
            documents.append(.documentPut(ErasedFromRuns.key, .nobody, known.adding(erased).packed))
        }
        return documents
    }
}

/// The erased people whose rows may still be in runs. No read shows these rows, and the server soon removes them from the runs.
///
///     people      an integer for each person
///     erasures    5 bytes: the number of erasures up to now, in 7 bits of each. The highest bit is set, so that earlier versions of the
///                 server find no person here.
package struct ErasedFromRuns: Equatable, Sendable {
    package let people: Set<PersonID>
    /// The number of erasures up to now. Rows that a process keeps in memory are the rows of the store until the number changes.
    package let erasures: UInt32

    package static let key = DocumentKey(.erasedFromRuns, of: 0)

    private init(people: Set<PersonID>, erasures: UInt32) { (self.people, self.erasures) = (people, erasures) }

    /// Reads the document; without a document, nobody is erased.
    package init(packed: [UInt8]?) {
        let packed = packed ?? []
        var unpacker = Unpacker(packed)
        var people: Set<PersonID> = []
        while let person = unpacker.person() { people.insert(person) }
        // Earlier versions of the server wrote no number.
        let number = packed.reversed().prefix { $0 >= 0x80 }
        self.init(people: people, erasures: number.reduce(0) { $0 << 7 | UInt32($1 & 0x7F) })
    }

    package var packed: [UInt8] {
        var packer = Packer()
        for person in people.sorted() { packer.add(UInt64(bitPattern: person.rawValue)) }
        return packer.bytes + (0..<5).map { UInt8(truncatingIfNeeded: erasures >> UInt32(7 * $0)) | 0x80 }
    }

    /// The document after an erasure of people.
    fileprivate func adding(_ erased: [PersonID]) -> ErasedFromRuns {
        ErasedFromRuns(people: people.union(erased), erasures: erasures &+ 1)
    }

    /// The document when no run has rows of an erased person any more.
    package var withoutPeople: ErasedFromRuns { ErasedFromRuns(people: [], erasures: erasures) }
}
