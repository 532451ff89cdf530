/// Errors that are one and the same mistake of an app (spec/claim.md 1.7): as many as have one fingerprint.
package struct Issue: Equatable, Sendable {
    package let id: IssueID
    /// SHA-256 of what the errors have in common, as 64 hexadecimal digits.
    package let fingerprint: String
    package let app: AppID
    /// Errors of development builds are issues of their own.
    package let isDevelopment: Bool
    /// What the first of the errors said, unless whose error it was has been erased, and where it arose, if it told.
    package let title: String
    package let sourceModule: String?
    /// When the first of them that came in happened.
    package let madeAt: Instant

    package init(
        id: IssueID, fingerprint: String, app: AppID, isDevelopment: Bool, title: String, sourceModule: String?,
        madeAt: Instant
    ) {
        self.id = id
        self.fingerprint = fingerprint
        self.app = app
        self.isDevelopment = isDevelopment
        self.title = title
        self.sourceModule = sourceModule
        self.madeAt = madeAt
    }

    /// All but the title, which is kept apart.
    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(fingerprint)
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(isDevelopment ? 1 : 0 as UInt8)
        packer.add("")
        packer.add(sourceModule ?? "")
        packer.add(madeAt)
        return packer.bytes
    }

    init?(packed: [UInt8], titled: String?) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let fingerprint = unpacker.text(), let app = unpacker.integer(),
            let isDevelopment = unpacker.byte(), let title = unpacker.text(), let module = unpacker.text(),
            let madeAt = unpacker.instant(), unpacker.isAtEnd
        else { return nil }
        self.init(
            id: IssueID(rawValue: Int64(bitPattern: id)), fingerprint: fingerprint,
            app: AppID(rawValue: Int64(bitPattern: app)), isDevelopment: isDevelopment == 1,
            title: titled ?? title,
            sourceModule: module.isEmpty ? nil : module, madeAt: madeAt)
    }
}

/// An issue's id: 62 bits of a hash of its fingerprint, its app, and whether its builds are development's.
package struct IssueID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.issue, of: rawValue) }
    var titleKey: DocumentKey { DocumentKey(.issueTitle, of: rawValue) }
}

extension Snapshot {
    package func issue(_ id: IssueID) throws(StoreFault) -> Issue? {
        let title = try document(id.titleKey).map { String(decoding: $0, as: UTF8.self) }
        return try document(id.documentKey).flatMap { Issue(packed: $0, titled: title) }
    }
}

/// What an event tells of an error: whose issue it is, and what is kept of it where it is the session's first of that issue.
package struct ErrorReport: Equatable, Sendable {
    package let issue: Issue
    package let at: Instant
    /// Recognized by the issue and the session.
    package let occurrence: Row
    /// The app's session that it happened in.
    package let session: RowHash

    package init(issue: Issue, at: Instant, occurrence: Row, session: RowHash) {
        self.issue = issue
        self.at = at
        self.occurrence = occurrence
        self.session = session
    }

    /// Errors of one session that are no further from its last reported one than this belong to that one's issue: what
    /// broke takes other things with it.
    package static let joiningMilliseconds: Int64 = 5_000
}

/// Finds out which errors of an upload are news.
struct OccurrenceFinder {
    private var lastErrors: [RowHash: Instant] = [:]
    private var issues: Set<IssueID> = []
    private var recognized: Set<RowHash> = []

    /// What changes by an error of a person; nothing where it joins another, or where its session has had that issue.
    mutating func changes<V: DecisionFacts>(by report: ErrorReport, of person: PersonID, _ view: V) -> [Change] {
        let session = DocumentKey(.errorSession, of: Int64(bitPattern: report.session.rawValue))
        let last = lastErrors[report.session] ?? view.document(session).flatMap(OccurrenceFinder.moment)
        if let last, abs(report.at.milliseconds - last.milliseconds) <= ErrorReport.joiningMilliseconds { return [] }
        lastErrors[report.session] = report.at
        var packer = Packer()
        packer.add(report.at)
        var changes: [Change] = [.documentPut(session, person, packer.bytes)]
        if let hash = report.occurrence.recognition, view.knowsRow(hash) || !recognized.insert(hash).inserted {
            return changes
        }
        let id = report.issue.id
        if issues.insert(id).inserted {
            // The issue is all users'; what an error said goes with whose error it was, and the next tells it anew.
            if view.document(id.documentKey) == nil {
                changes.append(.documentPut(id.documentKey, .nobody, report.issue.packed))
            }
            if view.document(id.titleKey) == nil {
                changes.append(.documentPut(id.titleKey, person, Array(report.issue.title.utf8)))
            }
        }
        changes.append(.rowAdded(person, report.occurrence))
        return changes
    }

    private static func moment(_ packed: [UInt8]) -> Instant? {
        var unpacker = Unpacker(packed)
        return unpacker.instant()
    }
}
