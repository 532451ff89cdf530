/// A call that makes a project with its apps and keys.
package struct SetUp: Act, Equatable {
    package let project: Project
    package let apps: [App]
    package let keys: [AccessKey]

    package init(project: Project, apps: [App], keys: [AccessKey]) {
        self.project = project
        self.apps = apps
        self.keys = keys
    }

    package static var kinds: [ActKind] { [.setUp] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 * (1 + apps.count + keys.count) }

    /// Makes the project, its apps and its keys in one call. Throws nothing, because the call only fills a new store.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        Decision(
            Done(),
            outcome: Outcome(
                kind: .setUp, person: nil,
                changes: [.projectMade(self.project)] + apps.map { .appMade($0) } + keys.map { .keyMade($0) }))
    }
}

extension ActKind {
    package static let setUp = ActKind(1, "set_up", changesDirectory: true)
}
