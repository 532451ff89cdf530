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

    /// Whether a message is a measurement or a step, and so says little about an error.
    static func isDerived(_ message: String) -> Bool {
        ["metric:", "step:", "track:"].contains { message.hasPrefix($0) }
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
    var stateKey: DocumentKey { DocumentKey(.issueState, of: rawValue) }
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
    /// The issue with an id; nil if it does not exist. The title of an erased person is gone at once, and not only after the sweep.
    package func issue(_ id: IssueID) throws(StoreFault) -> Issue? {
        let version = try versions(of: id.titleKey, since: JournalSequence(rawValue: .max)).first
        let title = try version.flatMap { version throws(StoreFault) in try content(of: version) }
            .map { String(decoding: $0, as: UTF8.self) }
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
    /// The version of the app.
    package let version: String?

    package init(issue: Issue, at: Instant, occurrence: Row, session: RowHash, version: String? = nil) {
        self.issue = issue
        self.at = at
        self.occurrence = occurrence
        self.session = session
        self.version = version
    }

    /// The time from the first error of a burst in which further errors of the session belong to the burst.
    package static let joiningMilliseconds: Int64 = 5_000
}

/// A burst of errors of a session: its first moment, and the issue of its first error. One mistake often causes several errors.
private struct ErrorBurst {
    let at: Instant
    /// Nil for a burst that an older version of the server stored.
    var issue: IssueID?
    /// Whether the burst made its issue.
    var isNew: Bool
    /// The recognition hash of the occurrence of the first error. Nil for a burst that an older version of the server stored.
    var occurrence: RowHash?

    init(at moment: Instant, issue: IssueID, isNew: Bool, occurrence: RowHash?) {
        (at, self.issue, self.isNew, self.occurrence) = (moment, issue, isNew, occurrence)
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let at = unpacker.instant() else { return nil }
        self.at = at
        issue = unpacker.isAtEnd ? nil : unpacker.integer().map { IssueID(rawValue: Int64(bitPattern: $0)) }
        isNew = unpacker.isAtEnd ? false : unpacker.byte() == 1
        occurrence = unpacker.isAtEnd ? nil : unpacker.integer().map(RowHash.init(rawValue:))
    }

    func put(_ key: DocumentKey, _ person: PersonID) -> Change {
        var packer = Packer()
        packer.add(at)
        if let issue {
            packer.add(UInt64(bitPattern: issue.rawValue))
            packer.add(isNew ? 1 : 0 as UInt8)
            if let occurrence { packer.add(occurrence.rawValue) }
        }
        return .documentPut(key, person, packer.bytes)
    }
}

/// Finds the new errors of an upload, and groups them into issues.
///
/// Errors of one session within five seconds of the first error are one issue, unless their issues were known before: a new
/// fingerprint becomes a part of the known issue. Two known issues stay apart.
struct OccurrenceFinder {
    private var bursts: [RowHash: ErrorBurst] = [:]
    private var made: Set<IssueID> = []
    private var titles: [IssueID: String] = [:]
    private var states: [IssueID: IssueState] = [:]
    /// The numbers of errors behind occurrences that the call has changed.
    private var counts: [RowHash: Int] = [:]
    private var isChanged: Set<RowHash> = []
    /// Whether the errors may be older than the rows that memory knows.
    private var isOld = false

    /// The changes of a person's error. A repeated issue of the session changes only the session's burst, and the number of errors
    /// behind the occurrence.
    ///
    /// - Parameters:
    ///   - report: the error.
    ///   - person: the person of the error.
    ///   - isOld: whether the error may be older than the rows that memory knows.
    ///   - view: the facts.
    mutating func changes<V: DecisionFacts>(
        by report: ErrorReport, of person: PersonID, isOld: Bool, _ view: V
    ) -> [Change] {
        self.isOld = isOld
        let key = DocumentKey(.errorSession, of: Int64(bitPattern: report.session.rawValue))
        let burst = bursts[report.session] ?? view.document(key).flatMap(ErrorBurst.init(packed:))
        let isKnown = made.contains(report.issue.id) || view.document(report.issue.id.documentKey) != nil
        if let burst, abs(report.at.milliseconds - burst.at.milliseconds) <= ErrorReport.joiningMilliseconds,
            !isOver(burst, view)
        {
            return changes(by: report, in: burst, key, isKnown: isKnown, of: person, view)
        }
        let new = ErrorBurst(
            at: report.at, issue: report.issue.id, isNew: !isKnown, occurrence: report.occurrence.recognition)
        bursts[report.session] = new
        return [new.put(key, person)] + occurrence(of: report, isKnown: isKnown, person, view)
    }

    /// Whether imports have taken all errors of a burst away. A corrected error does not join what it was before.
    private mutating func isOver<V: DecisionFacts>(_ burst: ErrorBurst, _ view: V) -> Bool {
        guard isOld, let occurrence = burst.occurrence else { return false }
        return count(of: occurrence, view) == 0
    }

    private mutating func changes<V: DecisionFacts>(
        by report: ErrorReport, in burst: ErrorBurst, _ key: DocumentKey, isKnown: Bool, of person: PersonID, _ view: V
    ) -> [Change] {
        guard let first = burst.issue else { return [] }
        let id = report.issue.id
        let (root, other) = (root(of: first, view), self.root(of: id, view))
        if !isKnown {
            guard canJoin(id, into: root, view) else { return occurrence(of: report, isKnown: false, person, view) }
            // A new fingerprint becomes a part of the burst's issue.
            return make(report.issue) + join(id, into: root, view) + title(report, of: root, person, view)
                + joined(report, in: burst, person, view)
        }
        if root == other { return joined(report, in: burst, person, view) }
        guard burst.isNew, canJoin(root, into: other, view) else {
            return occurrence(of: report, isKnown: true, person, view)
        }
        // The burst began with a new fingerprint, and this issue is known: the new one becomes a part of it.
        var next = burst
        (next.issue, next.isNew) = (other, false)
        if let occurrence = burst.occurrence { add(1, to: occurrence, view) }
        bursts[report.session] = next
        return [next.put(key, person)] + join(root, into: other, view) + occurred(report, other, view)
    }

    /// The changes by an error of the burst's issue. It counts for the occurrence of the burst, or for an occurrence of its own after an
    /// import has taken the burst's other errors away.
    private mutating func joined<V: DecisionFacts>(
        _ report: ErrorReport, in burst: ErrorBurst, _ person: PersonID, _ view: V
    ) -> [Change] {
        let own = [report.occurrence.recognition, burst.occurrence].compactMap { $0 }
        if let occurrence = own.first(where: { count(of: $0, view) > 0 }) {
            add(1, to: occurrence, view)
            return []
        }
        let isUnknown = burst.occurrence == nil && burst.issue != report.issue.id
        return isUnknown ? [] : occurrence(of: report, isKnown: true, person, view)
    }

    private mutating func occurrence<V: DecisionFacts>(
        of report: ErrorReport, isKnown: Bool, _ person: PersonID, _ view: V
    ) -> [Change] {
        if let hash = report.occurrence.recognition {
            let before = count(of: hash, view)
            if before > 0 {
                add(1, to: hash, view)
                return []
            }
            counts[hash] = 1
            isChanged.insert(hash)
        }
        var changes = isKnown ? [] : make(report.issue)
        let root = root(of: report.issue.id, view)
        changes += title(report, of: root, person, view) + occurred(report, root, view)
        changes.append(.rowAdded(person, report.occurrence))
        return changes
    }

    /// The changes after an import has taken an error away. The occurrence ends with its last error.
    mutating func changes<V: DecisionFacts>(without report: ErrorReport, _ view: V) -> [Change] {
        isOld = true
        guard let hash = report.occurrence.recognition, count(of: hash, view) > 0, let row = view.namedRow(hash)?.stored
        else { return [] }
        add(-1, to: hash, view)
        return count(of: hash, view) > 0 ? [] : [.rowSuperseded(row.person, row.row.kind, row.number)]
    }

    /// The number for an occurrence that an older version of the server stored without one. Such an occurrence never ends.
    private static let unknownCount = Int.max

    /// The number of errors behind an occurrence; 0 if it does not exist.
    private mutating func count<V: DecisionFacts>(of occurrence: RowHash, _ view: V) -> Int {
        if let known = counts[occurrence] { return known }
        guard view.knowsRow(occurrence) || isOld && view.namedRow(occurrence) != nil else { return 0 }
        var unpacker = Unpacker(view.document(OccurrenceFinder.key(occurrence)) ?? [])
        let count = unpacker.count() ?? OccurrenceFinder.unknownCount
        counts[occurrence] = count
        return count
    }

    private mutating func add<V: DecisionFacts>(_ change: Int, to occurrence: RowHash, _ view: V) {
        let before = count(of: occurrence, view)
        if before == OccurrenceFinder.unknownCount { return }
        counts[occurrence] = before + change
        isChanged.insert(occurrence)
    }

    private static func key(_ occurrence: RowHash) -> DocumentKey {
        DocumentKey(.occurrenceErrors, of: Int64(bitPattern: occurrence.rawValue))
    }

    /// The changed numbers of errors.
    var countChanges: [Change] {
        isChanged.sorted { $0.rawValue < $1.rawValue }.map { occurrence in
            var packer = Packer()
            packer.add(UInt64(counts[occurrence] ?? 0))
            return .documentPut(OccurrenceFinder.key(occurrence), .nobody, packer.bytes)
        }
    }

    /// The issue's document. The issue belongs to all users.
    private mutating func make(_ issue: Issue) -> [Change] {
        made.insert(issue.id)
        return [.documentPut(issue.id.documentKey, .nobody, issue.packed)]
    }

    /// Sets the title of an issue: the first message, or the first message that is no measurement and no step. The message belongs
    /// to the person with the error, so after an erasure the next error sets the title again.
    private mutating func title<V: DecisionFacts>(
        _ report: ErrorReport, of issue: IssueID, _ person: PersonID, _ view: V
    ) -> [Change] {
        let known = titles[issue] ?? view.document(issue.titleKey).map { String(decoding: $0, as: UTF8.self) }
        if let known, !Issue.isDerived(known) || Issue.isDerived(report.issue.title) { return [] }
        titles[issue] = report.issue.title
        return [.documentPut(issue.titleKey, person, Array(report.issue.title.utf8))]
    }

    /// Whether a burst may join two issues. Anybody can send errors of any kinds as one burst, so an issue gets no more parts by bursts than
    /// few documents hold, and no long chain of parts.
    private func canJoin<V: DecisionFacts>(_ issue: IssueID, into target: IssueID, _ view: V) -> Bool {
        let parts = state(of: issue, view).parts
        return state(of: target, view).parts.count < IssueState.partsByBurstsAtMost
            && parts.count <= IssueState.partsOfPartAtMost
            && parts.allSatisfy { state(of: $0, view).parts.isEmpty }
    }

    private mutating func join<V: DecisionFacts>(_ issue: IssueID, into target: IssueID, _ view: V) -> [Change] {
        var (part, whole) = (state(of: issue, view), state(of: target, view))
        part.into = target
        whole.parts.append(issue)
        (states[issue], states[target]) = (part, whole)
        return [part.put, whole.put]
    }

    /// The change of the status by an occurrence.
    private mutating func occurred<V: DecisionFacts>(_ report: ErrorReport, _ issue: IssueID, _ view: V) -> [Change] {
        var state = state(of: issue, view)
        guard state.occur(in: report.version) else { return [] }
        states[issue] = state
        return [state.put]
    }

    private func state<V: DecisionFacts>(of issue: IssueID, _ view: V) -> IssueState {
        states[issue] ?? view.issueState(issue)
    }

    private func root<V: DecisionFacts>(of issue: IssueID, _ view: V) -> IssueID {
        var id = issue
        while let into = state(of: id, view).into { id = into }
        return id
    }
}
