/// The status of an issue. Stores keep the raw values, so a raw value never changes.
package enum IssueStatus: UInt8, CaseIterable, Sendable {
    case new = 0
    case inProgress = 1
    case resolved = 2
    case silenced = 3
    /// A resolved issue that occurred in a later version. Only occurrences lead to it.
    case regressed = 4
    case snoozed = 5

    /// The name of the status in calls and answers.
    package var name: String {
        switch self {
        case .new: "new"
        case .inProgress: "in_progress"
        case .resolved: "resolved"
        case .silenced: "silenced"
        case .regressed: "regressed"
        case .snoozed: "snoozed"
        }
    }

    /// The statuses that a call can set after this status.
    var next: [IssueStatus] {
        switch self {
        case .new, .regressed: [.inProgress, .resolved, .silenced, .snoozed]
        case .inProgress: [.new, .resolved, .silenced, .snoozed]
        case .resolved: [.new, .silenced, .snoozed]
        case .silenced: [.new, .inProgress, .resolved, .snoozed]
        case .snoozed: [.new, .inProgress, .resolved, .silenced]
        }
    }
}

/// The status of an issue, and its place among other issues.
package struct IssueState: Equatable, Sendable {
    package let id: IssueID
    package fileprivate(set) var status = IssueStatus.new
    /// The version with which the issue is resolved.
    package fileprivate(set) var resolvedVersion: String?
    package fileprivate(set) var snoozedAt: Instant?
    /// The moment of the last change by a call; nil before.
    package fileprivate(set) var changedAt: Instant?
    /// The issue of which this issue is a part; nil for an issue of its own.
    package internal(set) var into: IssueID?
    /// The issues that are parts of this issue.
    package internal(set) var parts: [IssueID] = []

    init(_ id: IssueID) { self.id = id }

    private mutating func set(_ status: IssueStatus, version: String?, at moment: Instant?) {
        self.status = status
        if status == .new || status == .inProgress { resolvedVersion = nil }
        if status == .resolved { resolvedVersion = version }
        snoozedAt = status == .snoozed ? moment : nil
    }

    fileprivate mutating func change(to status: IssueStatus, version: String?, at moment: Instant) {
        set(status, version: version, at: moment)
        changedAt = moment
    }

    /// Notes a comment about the issue.
    mutating func noteComment(at moment: Instant) { changedAt = moment }

    /// Follows an occurrence in a version: a resolved issue regresses in a later version, and a snoozed issue is new again. Returns
    /// whether the status changed.
    mutating func occur(in version: String?) -> Bool {
        switch status {
        case .resolved:
            guard let version, let resolvedVersion, AppVersion.isNewer(version, than: resolvedVersion) else {
                return false
            }
            set(.regressed, version: nil, at: nil)
        case .snoozed: set(.new, version: nil, at: nil)
        case .new, .inProgress, .silenced, .regressed: return false
        }
        return true
    }

    var put: Change {
        var packer = Packer()
        packer.add(status.rawValue)
        packer.add(resolvedVersion.map { Array($0.utf8) })
        for moment in [snoozedAt, changedAt] {
            packer.add(moment == nil ? 0 : 1 as UInt8)
            if let moment { packer.add(moment) }
        }
        packer.add(into == nil ? 0 : 1 as UInt8)
        if let into { packer.add(UInt64(bitPattern: into.rawValue)) }
        for part in parts { packer.add(UInt64(bitPattern: part.rawValue)) }
        return .documentPut(id.stateKey, .nobody, packer.bytes)
    }

    init?(_ id: IssueID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self.init(id)
        guard let status = unpacker.byte().flatMap(IssueStatus.init), let version = unpacker.optionalBytes(),
            let isSnoozed = unpacker.byte(), case let snoozedAt = isSnoozed == 1 ? unpacker.instant() : nil,
            let isChanged = unpacker.byte(), case let changedAt = isChanged == 1 ? unpacker.instant() : nil,
            let isPart = unpacker.byte(), case let into = isPart == 1 ? unpacker.integer() : nil
        else { return nil }
        (self.status, self.snoozedAt, self.changedAt) = (status, snoozedAt, changedAt)
        resolvedVersion = version.map { String(decoding: $0, as: UTF8.self) }
        self.into = into.map { IssueID(rawValue: Int64(bitPattern: $0)) }
        while let part = unpacker.integer() { parts.append(IssueID(rawValue: Int64(bitPattern: part))) }
    }
}

/// A call that sets the status of an issue.
package struct SetIssueStatus: Act {
    package let issue: IssueID
    package let status: IssueStatus
    /// The version with which the issue is resolved.
    package let version: String?

    package init(_ issue: IssueID, _ status: IssueStatus, version: String?) {
        self.issue = issue
        self.status = status
        self.version = version
    }

    package static var kinds: [ActKind] { [.setIssueStatus] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 + (version?.utf8.count ?? 0) }

    /// Sets the status of the issue, or of the issue of which it is a part. Throws `noSuchIssue` if the project does not have the
    /// issue, `issueCannotBecome` for a status that cannot follow, and `versionMissing` for a resolved issue without a version: the
    /// version decides which occurrences are new.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard view.issue(issue, in: project) != nil else { throw .noSuchIssue }
        var state = view.issueState(view.issueRoot(issue))
        guard state.status.next.contains(status) else { throw .issueCannotBecome(status, from: state.status) }
        guard status != .resolved || version != nil else { throw .versionMissing }
        state.change(to: status, version: version, at: stamp.at)
        return Decision(Done(), outcome: Outcome(kind: .setIssueStatus, person: nil, changes: [state.put]))
    }
}

/// A call that makes an issue a part of another issue, or an issue of its own again.
package struct MergeIssues: Act {
    package let source: IssueID
    package let target: IssueID
    /// Whether the call takes a merge back.
    package let isUndo: Bool

    package init(_ source: IssueID, into target: IssueID, isUndo: Bool = false) {
        self.source = source
        self.target = target
        self.isUndo = isUndo
    }

    package static var kinds: [ActKind] { [.mergeIssues] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Joins or parts two issues. The occurrences and comments stay where they are, and reads show them with the whole. Throws
    /// `noTargetIssue` and `noSourceIssue` if the project does not have an issue, `issueWithItself` for an issue and its own part,
    /// `issuesOfOtherBuilds` for errors of development and of production, and `tooManyParts` at the limit. Two issues that are joined
    /// or apart already stay so.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard let target = view.issue(target, in: project) else { throw .noTargetIssue }
        guard let source = view.issue(source, in: project) else { throw .noSourceIssue }
        if isUndo {
            var part = view.issueState(source.id)
            // The part may belong to another part of the target.
            guard let into = part.into, view.issueRoot(source.id) == view.issueRoot(target.id) else {
                throw .noSourceIssue
            }
            var whole = view.issueState(into)
            part.into = nil
            whole.parts.removeAll { $0 == part.id }
            return decision(&part, &whole, stamp)
        }
        var whole = view.issueState(view.issueRoot(target.id))
        let root = view.issueRoot(source.id)
        if root == whole.id {
            if source.id == target.id { throw .issueWithItself }
            return Decision(Done())
        }
        guard source.isDevelopment == target.isDevelopment else { throw .issuesOfOtherBuilds }
        guard whole.parts.count < IssueState.partsAtMost else { throw .tooManyParts }
        var part = view.issueState(root)
        part.into = whole.id
        whole.parts.append(part.id)
        return decision(&part, &whole, stamp)
    }

    private func decision(_ part: inout IssueState, _ whole: inout IssueState, _ stamp: Stamp) -> Decision<Done> {
        (part.changedAt, whole.changedAt) = (stamp.at, stamp.at)
        return Decision(
            Done(), outcome: Outcome(kind: .mergeIssues, person: nil, changes: [part.put, whole.put]))
    }
}

extension IssueState {
    /// The limit of parts of an issue, because a read reads all parts.
    static let partsAtMost = 1000
    /// The parts that an issue may have before a burst of errors adds one, and the parts of this one.
    static let partsByBurstsAtMost = 100
    static let partsOfPartAtMost = 16
}

extension DecisionFacts {
    func issueState(_ id: IssueID) -> IssueState {
        document(id.stateKey).flatMap { IssueState(id, packed: $0) } ?? IssueState(id)
    }

    /// The issue that stands for an issue and for all that it is a part of.
    func issueRoot(_ id: IssueID) -> IssueID {
        var root = id
        while let into = issueState(root).into { root = into }
        return root
    }
}

extension Snapshot {
    /// The state of an issue.
    package func issueState(_ id: IssueID) throws(StoreFault) -> IssueState {
        try document(id.stateKey).flatMap { IssueState(id, packed: $0) } ?? IssueState(id)
    }

    /// The issue that stands for an issue and for all that it is a part of.
    package func issueRoot(_ id: IssueID) throws(StoreFault) -> IssueID {
        var root = id
        while let into = try issueState(root).into { root = into }
        return root
    }

    /// The state of an issue, and the ids of the issue and of all its parts.
    package func wholeIssue(_ id: IssueID) throws(StoreFault) -> (state: IssueState, ids: [IssueID]) {
        let state = try issueState(id)
        var ids = [id]
        var next = state.parts
        while let part = next.popLast() {
            ids.append(part)
            next += try issueState(part).parts
        }
        return (state, ids)
    }
}

extension Refusal {
    package static let noTargetIssue = Refusal(.notFound, "not_found", "There is no target issue with this id.")
    package static let noSourceIssue = Refusal(.notFound, "not_found", "There is no source issue with this id.")
    package static let issueWithItself = Refusal(.invalid, "issue_with_itself", "Cannot merge an issue into itself")
    package static let issuesOfOtherBuilds = Refusal(
        .invalid, "issues_of_other_builds",
        "An issue of development builds cannot be merged with an issue of production.")
    package static let tooManyParts = Refusal(
        .invalid, "too_many_parts", "An issue can have at most \(IssueState.partsAtMost) parts.")
    package static let versionMissing = Refusal(
        .invalid, "version_missing",
        "resolved_at_version is required when resolving an issue. Use status='silenced' if you don't want auto-regression."
    )

    package static func issueCannotBecome(_ status: IssueStatus, from former: IssueStatus) -> Refusal {
        Refusal(.invalid, "issue_cannot_become", "Cannot transition from '\(former.name)' to '\(status.name)'")
    }
}

extension ActKind {
    package static let setIssueStatus = ActKind(156, "set_issue_status", undo: .never(.callAgain))
    package static let mergeIssues = ActKind(157, "merge_issues", undo: .never(.callAgain))
}
