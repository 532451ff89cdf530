import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show and change a project's settings of linking, and that disable or enable an install (spec/native.md,
/// Administration).
enum LinkingCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/linking", scope: .admin,
            operation: Operation(
                id: "linking_get", summary: "Shows the project's settings of linking.",
                responses: [.init(.ok, "The settings.", schema: settingsSchema)] + Native.problems([])),
            action: .query { _, caller, tools in
                let apps = tools.directory.linkingApps(of: caller.project)
                return { snapshot throws(StoreFault) in
                    let key = LinkingSettings.key(of: caller.project)
                    return answer(LinkingSettings(document: try snapshot.document(key)), apps)
                }
            }),
        Endpoint(
            .put, "/onym/v1/linking", scope: .admin,
            operation: Operation(
                id: "linking_set", summary: "Changes the project's settings of linking. Other settings stay.",
                request: settingsSchema,
                responses: [.init(.ok, "The settings in force.", schema: settingsSchema)]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let apps = tools.directory.linkingApps(of: caller.project)
                    let edit: EditLinking
                    do throws(JSONFault) {
                        edit = try LinkingSettingsReader(apps).read(request.body, tools.json)
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                    return PreparedCall(edit) { reply, _ in
                        guard case .settings(let settings) = reply.plain else { return nil }
                        return answer(settings, apps)
                    }
                })),
        Endpoint(
            .get, "/onym/v1/installs/:id", scope: .consoleRead,
            operation: Operation(
                id: "install_get", summary: "Shows an install.",
                responses: [.init(.ok, "The install.", schema: installSchema)] + Native.problems([.notFound])),
            action: .query { request, caller, _ in
                let (id, name) = (request.id, request.parameters[0])
                return { snapshot throws(StoreFault) in
                    guard let install = try snapshot.install(name, in: caller.project) else {
                        return Native.problem(.refused(.installNotFound), id)
                    }
                    return Native.json(.ok) { write(install, &$0) }
                }
            }),
        Endpoint(
            .put, "/onym/v1/installs/:id", scope: .admin,
            operation: Operation(
                id: "install_set", summary: "Disables or enables an install.",
                request: .object([.init("disabled", .boolean(), required: true)]),
                responses: [
                    .init(
                        .ok, "The state of the install.",
                        schema: .object([
                            .init("install_id", .string(), required: true),
                            .init("disabled", .boolean(), required: true),
                        ]))
                ] + Native.problems([.badRequest, .notFound, .forbidden, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    var isDisabled: Bool?
                    do throws(JSONFault) {
                        try tools.json.read(request.body) { root throws(JSONFault) in
                            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                                guard key.copy() == "disabled" else {
                                    throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                                }
                                isDisabled = try value.bool(at: "disabled")
                            }
                        }
                        guard isDisabled != nil else {
                            throw JSONFault(.wrong("must be true or false"), at: "disabled")
                        }
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                    let install = InstallID(text: request.parameters[0]) ?? InstallID(rawValue: 0)
                    let command = DisableInstall(
                        install, isDisabled: isDisabled ?? false, in: caller.project, hash: tools.hash)
                    return PreparedCall(command) { reply, _ in
                        guard case .status(let status) = reply.plain else { return nil }
                        return Native.json(.ok) { json in
                            json.key("install_id")
                            json.string(status.install.text)
                            json.key("disabled")
                            json.bool(status.isDisabled)
                        }
                    }
                })),
    ]

    // MARK: - Settings

    private static func answer(_ settings: LinkingSettings, _ apps: [App]) -> Response {
        Native.json(.ok) { json in
            json.key("code_seconds")
            json.integer(settings.codeSeconds)
            json.key("token_seconds")
            json.integer(settings.tokenSeconds)
            json.key("grace_seconds")
            json.integer(settings.graceSeconds)
            json.key("apps")
            json.object { json in
                for app in apps {
                    let own = settings[app.id]
                    json.key(app.publicID ?? String(app.id.rawValue))
                    json.object { json in
                        json.key("linking")
                        json.bool(own.isOn)
                        json.key("app_secret")
                        json.bool(own.takesSecret && app.secretHash != nil)
                        json.key("require_proof")
                        json.bool(own.requiresProof)
                        json.key("hide_foreign_installs")
                        json.bool(own.hidesForeignInstalls)
                    }
                }
            }
        }
    }

    private static let settingsSchema = Schema.object([
        .init("code_seconds", .integer("60 to 900.")), .init("token_seconds", .integer("60 to 900.")),
        .init("grace_seconds", .integer()), .init("apps", .object([])),
    ])

    // MARK: - Installs

    static func write(_ install: Install, _ json: inout JSONWriter) {
        json.key("install_id")
        json.string(install.id.text)
        json.key("person")
        json.decimalString(install.person.rawValue)
        json.key("user_id")
        json.string(install.user?.linkingText)
        json.key("state")
        json.string("\(install.state.name)")
        json.key("disabled")
        json.bool(install.isDisabled)
        json.key("device_class")
        json.string(install.device.deviceClass.name)
        let names: [(String, Install.Device.Field)] = [
            ("os", .os), ("os_version", .osVersion), ("model", .model), ("locale", .locale), ("sdk_name", .sdkName),
            ("sdk_version", .sdkVersion),
        ]
        for (name, field) in names {
            guard let value = install.device.fields[field] else { continue }
            json.key(name)
            json.string(value)
        }
        json.key("made_at")
        json.moment(install.madeAt)
        json.key("last_seen")
        json.moment(install.lastSeen)
        json.key("has_key")
        json.bool(install.thumbprint != nil)
    }

    static let installSchema = Schema.object(
        [
            .init("install_id", .string(), required: true), .init("person", .string(), required: true),
            .init("user_id", .anyOf([.string(), .null]), required: true), .init("state", .string(), required: true),
            .init("disabled", .boolean(), required: true), .init("device_class", .string(), required: true),
            .init("made_at", .string(), required: true), .init("last_seen", .string(), required: true),
            .init("has_key", .boolean(), required: true),
        ] + ["os", "os_version", "model", "locale", "sdk_name", "sdk_version"].map { .init($0, .string()) })
}

extension Directory {
    /// The project's apps of the Linking dialect, the oldest first.
    func linkingApps(of project: ProjectID) -> [App] {
        apps.values.filter { $0.project == project && $0.dialect == .linking }
            .sorted { $0.id.rawValue < $1.id.rawValue }
    }
}

/// Reads a change of a project's settings of linking.
private struct LinkingSettingsReader {
    private let apps: [App]

    init(_ apps: [App]) { self.apps = apps }

    func read(_ body: [UInt8], _ parser: JSONParser) throws(JSONFault) -> EditLinking {
        var edit = EditLinking()
        try parser.read(body) { root throws(JSONFault) in
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "activation", "active_limit", "device_order":
                    throw JSONFault(.wrong("belongs to the strategy: set it with PUT /onym/v1/strategy"), at: key.shown)
                case "code_seconds":
                    edit.codeSeconds = try integer(value, "code_seconds", LinkingSettings.codeSecondsRange)
                case "token_seconds":
                    edit.tokenSeconds = try integer(value, "token_seconds", LinkingSettings.tokenSecondsRange)
                case "grace_seconds":
                    edit.graceSeconds = try integer(value, "grace_seconds", LinkingSettings.graceSecondsRange)
                case "apps": edit.apps = try read(apps: value)
                default: throw JSONFault(.wrong("is not a setting of linking"), at: key.shown)
                }
            }
        }
        return edit
    }

    private func integer(
        _ value: JSONValue, _ name: String, _ range: ClosedRange<Int64>
    ) throws(JSONFault) -> Int64 {
        let number = try value.integer(at: name)
        guard range.contains(number) else {
            throw JSONFault(.wrong("must be from \(range.lowerBound) to \(range.upperBound)"), at: name)
        }
        return number
    }

    private func read(apps value: JSONValue) throws(JSONFault) -> [AppID: EditLinking.OfApp] {
        var edits: [AppID: EditLinking.OfApp] = [:]
        try value.forEachMember(at: "apps") { key, value throws(JSONFault) in
            let name = key.copy()
            guard let app = apps.first(where: { $0.publicID == name }) else {
                throw JSONFault(.wrong("is not a Linking app of this project"), at: "apps.\(key.shown)")
            }
            var edit = EditLinking.OfApp()
            try value.forEachMember(at: "apps.\(name)") { key, value throws(JSONFault) in
                switch key {
                case "linking": edit.isOn = try value.bool(at: "linking")
                case "app_secret": edit.takesSecret = try value.bool(at: "app_secret")
                case "require_proof": edit.requiresProof = try value.bool(at: "require_proof")
                case "hide_foreign_installs": edit.hidesForeignInstalls = try value.bool(at: "hide_foreign_installs")
                default: throw JSONFault(.wrong("is not a setting of an app"), at: "apps.\(name).\(key.shown)")
                }
            }
            edits[app.id] = edit
        }
        return edits
    }
}
