/// Makes a project with its apps and keys, all at once.
package struct SetUp: Equatable, Sendable {
    package let project: Project
    package let apps: [App]
    package let keys: [AccessKey]

    package init(project: Project, apps: [App], keys: [AccessKey]) {
        self.project = project
        self.apps = apps
        self.keys = keys
    }

    func decide(_ stamp: Stamp) -> Decision {
        Decision(
            reply: .setUp,
            outcome: Outcome(
                kind: .setUp, person: nil,
                changes: [.projectMade(project)] + apps.map { .appMade($0) } + keys.map { .keyMade($0) }))
    }
}
