import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls about a project's stores: their options, and what they have said (spec/entitlements-live.md, decision L17).
enum StoreCalls {
    static func routes(_ tools: StoreTools) -> [Endpoint] {
        [
            show(tools),
            set(tools),
            showStatus(tools),
            showAccessRoot(tools),
        ]
    }

    private static func show(_ tools: StoreTools) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/stores", scope: .admin,
            operation: Operation(
                id: "stores_get", summary: "Shows the project's options for the stores that confirm purchases.",
                description: """
                    A secret is shown as {"set":true}. from_server has the options whose values come from the \
                    server's settings. faults has the mistakes, by store: a store with a mistake is not used.
                    """,
                responses: [document] + Native.problems([])),
            action: .answer { _, caller, loop in
                guard let project = caller?.project else { preconditionFailure("The route has a scope.") }
                return answer(loop.directory.storeOptions(of: project), project, tools)
            })
    }

    private static func set(_ tools: StoreTools) -> Endpoint {
        Endpoint(
            .put, "/onym/v1/stores", scope: .admin,
            operation: Operation(
                id: "stores_set", summary: "Changes options for the stores that confirm purchases.",
                description: """
                    The call changes only the members that it has. null removes a value, and the value of the \
                    server's settings counts again. {"set":true} leaves a secret as it is. Secrets are kept under \
                    the server's master key, and no call shows them.
                    """,
                request: .object(StoreOption.stores.map { .init($0, .object(properties(of: $0), others: false)) }),
                responses: [document] + Native.problems([.badRequest, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, loop throws(Rejection) in
                    let project = caller.project
                    return PreparedCall(try changes(request, project, loop, tools)) { set, _ in
                        answer(set.options, project, tools)
                    }
                }))
    }

    private static func showStatus(_ tools: StoreTools) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/stores/status", scope: .consoleRead,
            operation: Operation(
                id: "stores_status", summary: "Shows what each store has said since the server started.",
                responses: [.init(.ok, "The stores.", schema: statusSchema)] + Native.problems([])),
            action: .answer { _, caller, loop in
                guard let project = caller?.project else { preconditionFailure("The route has a scope.") }
                return status(project, loop, tools)
            })
    }

    private static func showAccessRoot(_ tools: StoreTools) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/access-root", scope: .admin,
            operation: Operation(
                id: "access_root", summary: "Shows the public key with which an app checks answers about access.",
                description: """
                    The key stays the same until an operator makes it anew. An app has it as accessRoot of its \
                    configuration, and then refuses answers that this server has not signed. next is the key that \
                    comes if an operator makes it anew after the master key was changed.
                    """,
                responses: [
                    .init(
                        .ok, "The key.",
                        schema: .object([
                            .init("project", .string(), required: true),
                            .init("root", .string("32 bytes of Ed25519 in Base64 for addresses."), required: true),
                            .init("next", .string("Only if it differs from root.")),
                        ]))
                ] + Native.problems([])),
            action: .answer { request, caller, _ in
                guard let project = caller?.project else { preconditionFailure("The route has a scope.") }
                guard let root = tools.accessRoot(project) else {
                    return Native.problem(
                        .serviceUnavailable, code: "master_key_missing",
                        "The server does not have the master key of the project's access root.", request.id)
                }
                let next = tools.nextAccessRoot(project)
                return Native.json(.ok) { json in
                    json.key("project")
                    json.string(String(project.rawValue))
                    json.key("root")
                    json.string(root)
                    if next != root {
                        json.key("next")
                        json.string(next)
                    }
                }
            })
    }

    // MARK: - Options

    private static func changes(
        _ request: borrowing Request, _ project: ProjectID, _ loop: LoopTools, _ tools: StoreTools
    ) throws(Rejection) -> SetStoreOptions {
        var changes: [String: StoreOptions.Value?] = [:]
        try AdminText.read(request, loop) { key, value throws(JSONFault) in
            let store = key.copy()
            // These have no meaning here. They are allowed so that a caller can send an answer back.
            if ["version", "at", "from_server", "faults"].contains(store) { return true }
            guard StoreOption.stores.contains(store) else { return false }
            try value.forEachMember(at: store) { key, value throws(JSONFault) in
                let path = "\(store).\(key.copy())"
                guard let option = StoreOption.named(path) else {
                    throw JSONFault(.wrong("is not an option of this store"), at: path)
                }
                if value.isNull {
                    changes[path] = .some(nil)
                    return
                }
                // A secret as the server shows it.
                if option.isSecret, value.kind == .object { return try forbidOtherMembers(of: value, at: path) }
                let text = try text(value, option)
                if let demand = option.demand(unmetBy: text) { throw JSONFault(.wrong(demand), at: path) }
                changes[path] = option.isSecret ? .sealed(tools.sealed(text, path, project)) : .plain(text)
            }
            return true
        }
        // A mistake that a call makes is refused. A call may still change other stores beside a store with an old mistake.
        let options = loop.directory.storeOptions(of: project)
        let known = tools.faults(options, project)
        let faults = tools.faults(options.changed(changes), project)
        for (store, fault) in faults.sorted(by: { $0.key < $1.key }) where known[store] != fault {
            throw AdminText.wrong(fault, request.id)
        }
        return SetStoreOptions(changes)
    }

    private static func forbidOtherMembers(of value: JSONValue, at path: String) throws(JSONFault) {
        try value.forEachMember(at: path) { key, value throws(JSONFault) in
            guard case "set" = key, try value.bool(at: path) else {
                throw JSONFault(.wrong(#"must be a text, null, or {"set":true} to stay as it is"#), at: path)
            }
        }
    }

    /// The value of an option as the text that the store keeps.
    private static func text(_ value: JSONValue, _ option: StoreOption) throws(JSONFault) -> String {
        switch option.form {
        case .toggle: return try value.bool(at: option.id) ? "on" : "off"
        case .integer: return String(try value.integer(at: option.id))
        case .secrets where value.kind == .array:
            var all: [String] = []
            try value.forEachElement(at: option.id) { element throws(JSONFault) in
                all.append(try element.string(at: option.id))
            }
            return all.joined(separator: ",")
        case .text, .choice, .secret, .secrets: return try value.string(at: option.id)
        }
    }

    private static func answer(_ options: StoreOptions, _ project: ProjectID, _ tools: StoreTools) -> Response {
        Native.json(.ok) { json in
            json.key("version")
            json.integer(options.version)
            json.key("at")
            json.moment(options.at)
            for store in StoreOption.stores {
                json.key(store)
                json.object { json in
                    for option in StoreOption.all where option.store == store {
                        guard let value = options.values[option.id] else { continue }
                        json.key(option.name)
                        write(value, option, &json)
                    }
                }
            }
            json.key("from_server")
            json.array { json in
                for name in tools.serverOptions.sorted() where options.values[name] == nil { json.string(name) }
            }
            json.key("faults")
            json.object { json in
                for (store, fault) in tools.faults(options, project).sorted(by: { $0.key < $1.key }) {
                    json.key(store)
                    json.string(fault)
                }
            }
        }
    }

    private static func write(_ value: StoreOptions.Value, _ option: StoreOption, _ json: inout JSONWriter) {
        guard case .plain(let text) = value else {
            return json.object { json in
                json.key("set")
                json.bool(true)
            }
        }
        switch option.form {
        case .toggle: json.bool(text == "on")
        case .integer: json.integer(Int64(text) ?? 0)
        case .text, .choice, .secret, .secrets: json.string(text)
        }
    }

    private static func properties(of store: String) -> [Schema.Property] {
        StoreOption.all.filter { $0.store == store }.map { option in
            switch option.form {
            case .toggle: .init(option.name, .anyOf([.boolean(option.what), .null]))
            case .integer: .init(option.name, .anyOf([.integer(option.what), .null]))
            case .choice(let all): .init(option.name, .anyOf([.string(option.what, oneOf: all), .null]))
            case .text: .init(option.name, .anyOf([.string(option.what), .null]))
            case .secret: .init(option.name, .anyOf([.string(option.what), .object([]), .null]))
            case .secrets:
                .init(option.name, .anyOf([.string(option.what), .array(.string()), .object([]), .null]))
            }
        }
    }

    private static let document = Operation.Answer(
        .ok, "The options.",
        schema: .object(
            [
                .init("version", .integer("The version; 0 before the first change."), required: true),
                .init("at", .anyOf([.string(), .null]), required: true),
            ] + StoreOption.stores.map { .init($0, .object([]), required: true) } + [
                .init("from_server", .array(.string()), required: true), .init("faults", .object([]), required: true),
            ]))

    // MARK: - Status

    private static func status(_ project: ProjectID, _ loop: LoopTools, _ tools: StoreTools) -> Response {
        let faults = tools.faults(loop.directory.storeOptions(of: project), project)
        let due = tools.due()
        return Native.json(.ok) { json in
            json.key("stores")
            json.array { json in
                for state in tools.states(project, loop.directory) {
                    json.object { json in
                        json.key("store")
                        json.string(state.store)
                        json.key("set_up")
                        json.bool(state.isSetUp)
                        json.key("fault")
                        json.string(faults[state.store] ?? state.fault)
                        json.key("fault_at")
                        json.moment(state.faultAt)
                        json.key("answered_at")
                        json.moment(state.answeredAt)
                        json.key("notified_at")
                        json.moment(state.notifiedAt)
                    }
                }
            }
            json.key("due")
            json.integer(due.count)
            json.key("due_since")
            json.moment(due.since)
            json.key("problems")
            json.array { json in
                for problem in problems(tools.states(project, loop.directory), faults, due.since, at: loop.now) {
                    json.string(problem)
                }
            }
        }
    }

    /// A question that is due for longer is a problem.
    private static let lateMilliseconds: Int64 = 3_600_000

    /// Sentences about what keeps access from being right by itself.
    private static func problems(
        _ states: [StoreTools.State], _ faults: [String: String], _ dueSince: Instant?, at now: Instant
    ) -> [String] {
        var problems = states.compactMap { state in
            (faults[state.store] ?? (state.isSetUp ? state.fault : nil)).map { "\(state.store): \($0)." }
        }
        for state in states where state.isSetUp && !state.isAsked && faults[state.store] == nil {
            problems.append(
                "\(state.store): the server has no key with which it may ask, so only notifications and apps tell of renewals."
            )
        }
        if let dueSince, now.milliseconds - dueSince.milliseconds > lateMilliseconds {
            problems.append("Questions to stores wait for more than an hour; see purchase_poll_per_second.")
        }
        return problems
    }

    private static let moment = Schema.anyOf([.string(), .null])

    private static let statusSchema = Schema.object([
        .init(
            "stores",
            .array(
                .object([
                    .init("store", .string(oneOf: ["app_store", "play", "stripe"]), required: true),
                    .init("set_up", .boolean("Whether the server can check purchases of the store."), required: true),
                    .init(
                        "fault", .anyOf([.string("A mistake in the options, or the store's last fault."), .null]),
                        required: true),
                    .init("fault_at", moment, required: true), .init("answered_at", moment, required: true),
                    .init("notified_at", moment, required: true),
                ])), required: true),
        .init("due", .integer("The purchases of all projects about which the server has to ask now."), required: true),
        .init("due_since", moment, required: true),
        .init("problems", .array(.string("What keeps access from being right by itself.")), required: true),
    ])
}
