/// A note of the server that notifications of Apple may be missing from a moment on, or that none are missing any more
/// (spec/entitlements-live.md 4.5). So a server that ends while it reads them begins again.
package struct NoteMissedNews: Act {
    /// The moment; nil if none are missing.
    package let since: Instant?

    package init(since: Instant?) { self.since = since }

    package static var kinds: [ActKind] { [.missedNews] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 128 }

    /// Keeps the moment, and throws nothing. A moment that is known already stays if it is earlier.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        let key = DocumentKey.missedNews(of: project)
        let known = view.document(key)
        var packer = Packer()
        if let since { packer.add(min(since, known.flatMap(NoteMissedNews.moment) ?? since)) }
        if packer.bytes == known ?? [] { return Decision(Done()) }
        return Decision(
            Done(),
            outcome: Outcome(
                kind: .missedNews, person: nil, changes: [.documentPut(key, .nobody, packer.bytes)]))
    }

    fileprivate static func moment(_ packed: [UInt8]) -> Instant? {
        var unpacker = Unpacker(packed)
        return unpacker.instant()
    }
}

extension DocumentKey {
    fileprivate static func missedNews(of project: ProjectID) -> DocumentKey {
        DocumentKey(.missedNews, of: Int64(project.rawValue))
    }
}

extension Snapshot {
    /// The moment from which on a project's notifications of Apple may be missing; nil if none are.
    package func missedNews(of project: ProjectID) throws(StoreFault) -> Instant? {
        try document(.missedNews(of: project)).flatMap(NoteMissedNews.moment)
    }
}

extension ActKind {
    package static let missedNews = ActKind(117, "note_missed_notifications", undo: .never(.noteOfServer))
}
