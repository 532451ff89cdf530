/// The end of the rows of a project and kind that retention removes: rows from before a moment, up to a row number. No read of
/// runs shows these rows, and the server soon removes them from the store.
package struct ExpiredRows: Equatable, Sendable {
    package let before: Instant
    /// A row with a later number came after the server set the end. It stays until the next end.
    package let upTo: RowNumber

    package init(before: Instant, upTo: RowNumber) { (self.before, self.upTo) = (before, upTo) }

    package static func key(of kind: RowKind, in project: ProjectID) -> DocumentKey {
        DocumentKey(.expiredRows, of: Int64(project.rawValue) << 8 | Int64(kind.rawValue))
    }

    package init?(packed: [UInt8]?) {
        var unpacker = Unpacker(packed ?? [])
        guard let before = unpacker.integer(), let upTo = unpacker.integer() else { return nil }
        self.before = Instant(milliseconds: Int64(bitPattern: before))
        self.upTo = RowNumber(rawValue: Int64(bitPattern: upTo))
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: before.milliseconds))
        packer.add(UInt64(bitPattern: upTo.rawValue))
        return packer.bytes
    }

    /// The document of this end.
    ///
    /// - Parameter former: the document before. An end that lay in the future has removed rows that are younger than this end, so
    ///   the document also has the latest end of all.
    func packed(after former: [UInt8]?) -> [UInt8] {
        guard let latest = ExpiredRows.latest(packed: former), latest > before else { return packed }
        var packer = Packer()
        packer.add(plain: packed)
        packer.add(latest)
        return packer.bytes
    }

    /// The latest end of all, up to which rows may be gone; nil without an end.
    package static func latest(packed: [UInt8]?) -> Instant? {
        var unpacker = Unpacker(packed ?? [])
        guard let before = unpacker.instant(), unpacker.integer() != nil else { return nil }
        return unpacker.instant() ?? before
    }

    /// Whether another end takes the place of this one: a later one, or any if this one lies in the future. Such an end was set while the
    /// clock was ahead, and would keep all newer rows until the clock came there again.
    package func isEarlier(than other: Instant, at now: Instant) -> Bool { before < other || before > now }

    package func includes(at moment: Instant, _ number: RowNumber) -> Bool { moment < before && number <= upTo }
}

/// The end of a project's history: versions of documents that a call up to this one superseded have no content, so no question
/// about an earlier moment is answered (spec/taking-back.md, section 4). The kinds are in ``DocumentKind/forgetting``.
package struct HistoryEnd: Equatable, Sendable {
    package let call: JournalSequence

    package init(_ call: JournalSequence) { self.call = call }

    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.historyEnd, of: Int64(project.rawValue))
    }

    package init?(packed: [UInt8]?) {
        var unpacker = Unpacker(packed ?? [])
        guard let call = unpacker.integer() else { return nil }
        self.call = JournalSequence(rawValue: Int64(bitPattern: call))
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: call.rawValue))
        return packer.bytes
    }
}

extension Snapshot {
    /// The end of a project's history; zero if it goes back to the first call.
    package func historyEnd(of project: ProjectID) throws(StoreFault) -> JournalSequence {
        HistoryEnd(packed: try document(HistoryEnd.key(of: project)))?.call ?? .zero
    }
}

/// A note of the server: the retention of a project reaches further rows, or further history. The note comes before the server
/// removes the contents, so that no read shows a part of them.
package struct ExpireRows: Act {
    package let ends: [RowKind: ExpiredRows]
    package let history: HistoryEnd?

    package init(_ ends: [RowKind: ExpiredRows], history: HistoryEnd? = nil) {
        (self.ends, self.history) = (ends, history)
    }

    package static var kinds: [ActKind] { [.expireRows] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 + 64 * ends.count }

    /// Keeps the ends that are later than the present ends, and throws nothing. An end goes back only from the future, because the rows
    /// before it are removed.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        var changes: [Change] = []
        for (kind, end) in ends.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            let key = ExpiredRows.key(of: kind, in: project)
            let former = view.document(key)
            if let known = ExpiredRows(packed: former), !known.isEarlier(than: end.before, at: stamp.at) { continue }
            changes.append(.documentPut(key, .nobody, end.packed(after: former)))
        }
        if let history {
            let known = HistoryEnd(packed: view.document(HistoryEnd.key(of: project)))
            if known.map({ $0.call < history.call }) ?? true {
                changes.append(.documentPut(HistoryEnd.key(of: project), .nobody, history.packed))
            }
        }
        if changes.isEmpty { return Decision(Done()) }
        return Decision(Done(), outcome: Outcome(kind: .expireRows, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let expireRows = ActKind(160, "expire_rows", undo: .never(.noteOfServer))
}

/// The rows that a step of retention removes.
package struct OldRows: Equatable, Sendable {
    package let kind: RowKind
    /// Nil for the rows of all projects.
    package let project: ProjectID?
    package let end: ExpiredRows
    /// The place after which a store continues to look for the project's rows.
    package var after: RowsByTime.Place?

    package init(_ kind: RowKind, in project: ProjectID? = nil, _ end: ExpiredRows) {
        (self.kind, self.project, self.end) = (kind, project, end)
    }
}
