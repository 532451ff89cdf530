import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that make and remove the demo data, for people who try the server (spec/console.md 4).
enum DemoCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        let isForTrying = sources.isForTrying
        return [
            show(isForTrying: isForTrying),
            make(isForTrying: isForTrying),
            remove(),
        ]
    }

    private static func show(isForTrying: Bool) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/demo", scope: .consoleRead,
            operation: Operation(
                id: "demo_show", summary: "Answers whether the project has the demo data.",
                responses: [
                    .init(
                        .ok, "Whether the data is there, and whether a call can make it.",
                        schema: .object([
                            .init("made", .boolean(), required: true),
                            .init("possible", .boolean(), required: true),
                        ]))
                ] + Native.problems([])),
            action: .query { _, caller, _ throws(Rejection) in
                let project = caller.project
                return { snapshot throws(StoreFault) in
                    let isMade = !DemoPeople(in: project, snapshot).people.isEmpty
                    let isPossible = isForTrying && !isMade
                    return Native.json(.ok) { json in
                        json.key("made")
                        json.bool(isMade)
                        json.key("possible")
                        json.bool(isPossible)
                    }
                }
            })
    }

    private static func make(isForTrying: Bool) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/demo", scope: .admin,
            operation: Operation(
                id: "demo_make", summary: "Makes 200 people who do not exist, beside the people of the project.",
                description: """
                    The people are of all dialects. They have devices, events, purchases and installs, a tablet that \
                    four people share, \(DemoData.mergeCount) merges of which one is wrong, and a refused call. The \
                    names are the same each time. The server must run in development mode, and the project must not \
                    have these people already; otherwise the answer is 409 not_empty. Identities that a person of \
                    the project holds stay with that person. If another call erases people of the demo data in the \
                    meantime, the answer is 409 changed_meanwhile. With ?dry_run=true nothing changes.
                    """,
                query: [
                    .init("dry_run", .boolean("Whether the call only answers the result, and changes nothing."))
                ],
                responses: [
                    .init(.created, "The numbers of what was made.", schema: made),
                    .init(.ok, "The same numbers, of a dry run.", schema: made),
                ]
                    + Native.problems([.badRequest, .conflict])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let (isDry, id, project, now) = (try request.isDryRun(), request.id, caller.project, caller.now)
                    guard isForTrying else {
                        throw Rejection(
                            Native.problem(
                                .conflict, code: notEmpty,
                                "The server runs in production mode, which takes no demo data. Start it with "
                                    + "--mode development.", id))
                    }
                    let (directory, hash) = (tools.directory, tools.hash)
                    return .read { snapshot throws(StoreFault) in
                        let found = DemoPeople(in: project, snapshot)
                        guard found.people.isEmpty else {
                            return .answer(
                                Native.problem(
                                    .conflict, code: notEmpty,
                                    found.groups.isEmpty
                                        ? "Demo people are here, and merges join them with other people. Undo these "
                                            + "merges, then onym demo --remove removes the demo people."
                                        : "The demo data is here already. onym demo --remove removes it.", id))
                        }
                        let making = DemoMaking(
                            in: project, directory, hash, at: now, since: try snapshot.lastCall(), id)
                        return isDry ? .answer(making.answer(.ok, isDry: true)) : making.begin()
                    }
                }))
    }

    private static func remove() -> Endpoint {
        Endpoint(
            .delete, "/onym/v1/demo", scope: .admin,
            operation: Operation(
                id: "demo_remove", summary: "Erases the people of the demo data, and nobody else.",
                description: """
                    The call also releases the tombstones of these people, so that the data can be made again. A group \
                    that also has other people stays, and left names its root. With ?dry_run=true nothing changes.
                    """,
                query: [
                    .init("dry_run", .boolean("Whether the call only answers the result, and changes nothing."))
                ],
                responses: [.init(.ok, "The number of erased people, and the groups that stay.", schema: removed)]
                    + Native.problems([.badRequest])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let (isDry, project, id) = (try request.isDryRun(), caller.project, request.id)
                    return .read { snapshot throws(StoreFault) in
                        let found = DemoPeople(in: project, snapshot)
                        let removing = DemoRemoving(found, id)
                        return isDry
                            ? .answer(
                                removing.answer(found.groups.reduce(0) { $0 + $1.members.count }, isDry: true))
                            : removing.erase()
                    }
                }))
    }

    private static let notEmpty = "not_empty"

    private static let made = Schema.object([
        .init("dry_run", .boolean(), required: true), .init("people", .integer(), required: true),
        .init("merges", .integer(), required: true), .init("purchases", .integer(), required: true),
        .init("installs", .integer(), required: true),
        .init("wrong_merge", .anyOf([.string("The merge of two people who are not one."), .null]), required: true),
        .init("shared_tablet", .string("The identity that four people hold."), required: true),
    ])

    private static let removed = Schema.object([
        .init("dry_run", .boolean(), required: true), .init("erased", .integer(), required: true),
        .init("left", .array(.string("The root of a group that also has other people.")), required: true),
    ])
}

/// The people of the demo data that a project has.
private struct DemoPeople: Sendable {
    let people: Set<PersonID>
    /// The groups that have no other people.
    var groups: [Group] = []
    /// The roots of the groups that also have other people.
    var left: [PersonID] = []

    init(in project: ProjectID, _ snapshot: any Snapshot) {
        people = Set((0..<DemoData.people).flatMap { DemoPeople.find($0, in: project, snapshot) })
        var seen: Set<PersonID> = []
        for person in people.sorted() {
            let group = snapshot.group(of: person)
            guard seen.insert(group.root).inserted else { continue }
            // The people of installs have no names in the import; their links joined them with people that have.
            let linked = group.merges.filter { $0.rule == .linking }.map(\.from)
            if group.members.allSatisfy({ people.contains($0) || linked.contains($0) }) {
                groups.append(group)
            } else {
                left.append(group.root)
            }
        }
    }

    static func find(_ person: Int, in project: ProjectID, _ snapshot: any Snapshot) -> [PersonID] {
        snapshot.holders(
            of: IdentityKey(.importedID, DemoData.key(person).utf8.span, in: project, hash: snapshot.hash))
    }
}

/// The steps of several acts, one after the other.
private enum Acts {
    /// Does acts, and continues with the replies of those that were not refused.
    ///
    /// - Parameter mayBeRefused: whether the call goes on after a refusal. Otherwise a refusal is its answer.
    static func run(
        _ acts: [any Act], mayBeRefused: Bool = false, _ id: RequestID, from place: Int = 0, replies: [Reply] = [],
        then: @escaping @Sendable ([Reply]) -> Step
    ) -> Step {
        guard place < acts.count else { return then(replies) }
        return .decide(acts[place]) { result, _ in
            var replies = replies
            switch result {
            case .success(let reply): replies.append(reply)
            case .failure(let refusal):
                guard mayBeRefused else { return .answer(Native.problem(.refused(refusal), id)) }
            }
            return run(acts, mayBeRefused: mayBeRefused, id, from: place + 1, replies: replies, then: then)
        }
    }
}

/// The steps that make the demo data.
private struct DemoMaking: Sendable {
    private let project: ProjectID
    private let hash: KeyedHash
    private let id: RequestID
    private let records: [ImportRecord]
    private let byteCount: Int
    private let since: JournalSequence
    /// The app of the installs; nil if the project has no app of the Linking dialect.
    private let app: AppID?
    private var wrongMerge: MergeID?
    /// The number of installs.
    private var installs: Int

    init(
        in project: ProjectID, _ directory: Directory, _ hash: KeyedHash, at now: Instant, since: JournalSequence,
        _ id: RequestID
    ) {
        (self.project, self.hash, self.since, self.id) = (project, hash, since, id)
        let (lines, form) = (DemoData(now: now).lines, FactsForm(project, directory, hash))
        byteCount = lines.reduce(0) { $0 + $1.utf8.count + 1 }
        records = lines.enumerated().map { place, line in
            guard case .record(let record) = form.read(Array(line.utf8), number: place + 1) else {
                preconditionFailure("A line of the demo data is no record: \(line)")
            }
            return record
        }
        app = directory.apps.values.filter { $0.project == project && $0.dialect == .linking }.map(\.id)
            .min { $0.rawValue < $1.rawValue }
        installs = app == nil ? 0 : DemoData.ownersOfInstalls.count
    }

    func begin() -> Step {
        let acts: [any Act] = [
            CatalogEdit.putEntitlement(DemoData.entitlement), CatalogEdit.putProduct(DemoData.product),
            StartImport(name: "demo", form: "facts", onConflict: .refuse, since: since),
        ]
        return Acts.run(acts, id) { [self] replies in
            guard let started = replies.last?.as(ImportShown.self) else {
                preconditionFailure("An import was begun, and something else was answered.")
            }
            return bring(started.progress.id)
        }
    }

    /// Imports the people with their past.
    private func bring(_ importID: ImportID) -> Step {
        let end = Import.Place(position: UInt64(byteCount), line: UInt64(records.count))
        return Acts.run([ImportRecords(importID, from: 0, to: end, records), FinishImport(importID)], id) { [self] _ in
            makeInstalls()
        }
    }

    /// Makes the installs, links them to their users, and lets another user try to get one of them.
    private func makeInstalls() -> Step {
        guard let app else { return merge() }
        let models = ["iPhone15,2", "Pixel 8", "iPad13,1", "SM-S911B"]
        let acts = models.map { model in
            MakeInstall(app: app, device: .init(fields: [.model: model]), thumbprint: nil, hash: hash)
        }
        // The settings of the project may forbid installs with a secret.
        return Acts.run(acts, mayBeRefused: true, id) { [self] replies in
            let installs = replies.compactMap { reply -> InstallID? in
                guard case .installMade(let session, _) = reply.as(LinkingReply.self) else { return nil }
                return session.install
            }
            var links: [any Act] = zip(installs, DemoData.ownersOfInstalls).map { install, owner in
                LinkInstall(install, app: app, to: external(owner), in: project, hash: hash)
            }
            // The refused call: the first install has a user already.
            if let first = installs.first {
                links.append(LinkInstall(first, app: app, to: external(DemoData.refused), in: project, hash: hash))
            }
            return Acts.run(links, mayBeRefused: true, id) { [self] _ in
                var making = self
                making.installs = installs.count
                return making.merge()
            }
        }
    }

    private func external(_ person: Int) -> Identity {
        Identity(.linkingExternalID, DemoData.userID(person), in: project, hash: hash)
    }

    /// Merges people as a support team does.
    private func merge() -> Step {
        .read { [self] snapshot throws(StoreFault) in
            var acts: [any Act] = []
            for merge in DemoData.merges {
                guard let from = DemoPeople.find(merge.from, in: project, snapshot).first,
                    let into = DemoPeople.find(merge.into, in: project, snapshot).first
                else {
                    // Another call has erased the person since the import.
                    return .answer(
                        Native.problem(
                            .conflict, code: "changed_meanwhile",
                            "People of the demo data were erased meanwhile. onym demo --remove removes the others.", id)
                    )
                }
                acts.append(MergePeople(from: from, into: into, reason: merge.reason))
            }
            return Acts.run(acts, id) { [self] replies in
                var making = self
                making.wrongMerge = replies[DemoData.wrong].as(Merge.self)?.id
                return .answer(making.answer(.created, isDry: false))
            }
        }
    }

    func answer(_ status: Status, isDry: Bool) -> Response {
        Native.json(status) { json in
            json.key("dry_run")
            json.bool(isDry)
            json.key("people")
            json.integer(DemoData.people + installs)
            json.key("merges")
            json.integer(DemoData.mergeCount - DemoData.ownersOfInstalls.count + installs)
            json.key("purchases")
            json.integer(DemoData.purchases)
            json.key("installs")
            json.integer(installs)
            json.key("wrong_merge")
            json.string(wrongMerge.map { "m_\($0.rawValue)" })
            json.key("shared_tablet")
            json.string("\(DemoData.tablet.type.name):\(DemoData.tablet.value)")
        }
    }
}

/// The steps that remove the demo data.
private struct DemoRemoving: Sendable {
    private let found: DemoPeople
    private let id: RequestID

    init(_ found: DemoPeople, _ id: RequestID) { (self.found, self.id) = (found, id) }

    /// Erases the people, releases their tombstones, and removes the product, if nobody has changed what uses it.
    func erase() -> Step {
        // Another call may have erased a person meanwhile, and nothing of the data needs the refused steps.
        Acts.run(found.groups.map { ErasePerson($0.root) }, mayBeRefused: true, id) { [self] replies in
            let erased = replies.compactMap { $0.as(Erased.self) }
            var acts: [any Act] = erased.flatMap(\.tombstones).map { ReleaseTombstone($0.hash) }
            acts += [
                CatalogEdit.removeProduct(DemoData.product.id), CatalogEdit.removeEntitlement(DemoData.entitlement.id),
            ]
            return Acts.run(acts, mayBeRefused: true, id) { [self] _ in
                .answer(answer(erased.reduce(0) { $0 + $1.people.count }, isDry: false))
            }
        }
    }

    func answer(_ count: Int, isDry: Bool) -> Response {
        Native.json(.ok) { json in
            json.key("dry_run")
            json.bool(isDry)
            json.key("erased")
            json.integer(count)
            json.key("left")
            json.array { json in
                for root in found.left { json.decimalString(root.rawValue) }
            }
        }
    }
}
