/// A call that makes a project with its apps and keys.
package struct SetUp: Act, Equatable {
    package let project: Project
    package let apps: [App]
    package let keys: [AccessKey]
    /// Whether equal user ids of all dialects belong to one human in the project (spec/rules.md, decision 5).
    package let joinsSameUserIDs: Bool
    /// The master key of the project's secrets; nil for the first key of the store.
    package let masterKey: MasterKeyMark?

    package init(
        project: Project, apps: [App], keys: [AccessKey], joinsSameUserIDs: Bool = false,
        masterKey: MasterKeyMark? = nil
    ) {
        self.masterKey = masterKey
        self.project = project
        self.apps = apps
        self.keys = keys
        self.joinsSameUserIDs = joinsSameUserIDs
    }

    package static var kinds: [ActKind] { [.setUp] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 * (1 + apps.count + keys.count) }

    /// Makes the project, its apps and its keys in one call. Throws nothing, because the call only fills a new store.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        var changes: [Change] = [.projectMade(self.project)]
        changes += apps.map { .appMade($0) } + keys.map { .keyMade($0) }
        if joinsSameUserIDs {
            var edit = StrategyEdit()
            edit.joinsSameUserIDs = true
            changes.append(.strategySet(version: 2, edit.applied(to: StrategyHistory.initial.current.strategy)))
        }
        return Decision(Done(), outcome: Outcome(kind: .setUp, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let setUp = ActKind(1, "set_up", undo: .never(.revokeInstead), changesDirectory: true)
}
