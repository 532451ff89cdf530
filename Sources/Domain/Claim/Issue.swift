/// The errors of an app with one fingerprint (spec/claim.md 1.7). The server treats them as one mistake in the app.
package struct Issue: Equatable, Sendable {
    package let id: IssueID
    /// The SHA-256 of the common parts of the errors, as 64 hexadecimal digits.
    package let fingerprint: String
    package let app: AppID
    /// Errors of development builds make separate issues.
    package let isDevelopment: Bool
    /// The message of the first error, and its place in the app if known. It is missing after an erasure of the person with
    /// that error.
    package let title: String
    package let sourceModule: String?
    /// The moment of the first received error.
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

    /// The issue without its title, which is a document of its own.
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

/// An issue's id: 62 bits of a hash of its fingerprint, its app, and the kind of build.
package struct IssueID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.issue, of: rawValue) }
    var titleKey: DocumentKey { DocumentKey(.issueTitle, of: rawValue) }
}

extension DecisionFacts {
    /// The issue with an id; nil if the project does not have it.
    func issue(_ id: IssueID, in project: ProjectID) -> Issue? {
        guard let issue = document(id.documentKey).flatMap({ Issue(packed: $0, titled: nil) }),
            directory.apps[issue.app]?.project == project
        else { return nil }
        return issue
    }
}

extension Refusal {
    package static let noSuchIssue = Refusal(.notFound, "not_found", "There is no issue with this id.")
}

extension Snapshot {
    /// The issue with an id; nil if it does not exist.
    package func issue(_ id: IssueID) throws(StoreFault) -> Issue? {
        let title = try document(id.titleKey).map { String(decoding: $0, as: UTF8.self) }
        return try document(id.documentKey).flatMap { Issue(packed: $0, titled: title) }
    }
}

/// The error report of an event: its issue, and the row for the first error of this issue in the session.
package struct ErrorReport: Equatable, Sendable {
    package let issue: Issue
    package let at: Instant
    /// The row of the first error. Its recognition hash is made from the issue and the session.
    package let occurrence: Row
    /// The session of the app.
    package let session: RowHash

    package init(issue: Issue, at: Instant, occurrence: Row, session: RowHash) {
        self.issue = issue
        self.at = at
        self.occurrence = occurrence
        self.session = session
    }

    /// The time from the last reported error of a session in which further errors belong to the same issue. One mistake often
    /// causes several errors.
    package static let joiningMilliseconds: Int64 = 5_000
}

/// Finds the new errors of an upload.
struct OccurrenceFinder {
    private var lastErrors: [RowHash: Instant] = [:]
    private var issues: Set<IssueID> = []
    private var recognized: Set<RowHash> = []

    /// The changes of a person's error. An error that joins an earlier error of its session changes nothing. A repeated issue
    /// of the session changes only the session's document.
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
            // The issue belongs to all users. The message belongs to the person with the error, so after an erasure the next
            // error sets the title again.
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
