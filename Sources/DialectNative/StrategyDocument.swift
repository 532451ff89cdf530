import Domain
import Gateway
import JSON

/// A strategy as a JSON document (spec/native.md).
enum StrategyDocument {
    /// Reads a strategy's changes. Any member may be missing; an unknown member is a fault.
    static func read(_ root: JSONValue) throws(JSONFault) -> StrategyEdit {
        var edit = StrategyEdit()
        var activation = ActivationDocument()
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            // The version and the counts have no meaning here. They are allowed so that a caller can send an answer back
            // unchanged.
            case "version": _ = try value.integer(at: "version")
            case "unmatched_types":
                try value.forEachMember(at: "unmatched_types") { key, value throws(JSONFault) in
                    _ = try value.integer(at: "unmatched_types.\(key.shown)")
                }
            case "preset": edit.preset = try name(value, at: "preset", presets)
            case "hierarchy": edit.hierarchy = try types(value, at: "hierarchy")
            case "login": edit.login = IdentityTypeSet(try types(value, at: "login"))
            case "unique": edit.unique = IdentityTypeSet(try types(value, at: "unique"))
            case "immutable": edit.immutable = IdentityTypeSet(try types(value, at: "immutable"))
            case "on_new_known": edit.onNewKnown = try name(value, at: "on_new_known", onNewKnown)
            case "on_logout": edit.onLogout = try name(value, at: "on_logout", onLogout)
            case "lowercase_email": edit.lowercasesEmail = try value.bool(at: "lowercase_email")
            case "restore":
                try value.forEachMember(at: "restore") { key, value throws(JSONFault) in
                    switch key {
                    case "production":
                        edit.restoreInProduction = try name(value, at: "restore.production", restore)
                    case "sandbox": edit.restoreInSandbox = try name(value, at: "restore.sandbox", restore)
                    default: throw JSONFault(.wrong("is not a field of restore"), at: key.shown)
                    }
                }
            case "limits":
                var limits: [IdentityType: Int] = [:]
                try value.forEachMember(at: "limits") { key, value throws(JSONFault) in
                    guard let type = key.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                        throw JSONFault(.wrong("is not an identity type"), at: "limits.\(key.shown)")
                    }
                    limits[type] = try number(value, at: "limits.\(type.name)", 1...1000)
                }
                edit.limits = limits
            case "on_limit": edit.onLimit = try name(value, at: "on_limit", onLimit)
            case "shared_device_people":
                edit.sharedDevicePeople = try number(value, at: "shared_device_people", 1...Strategy.holdersPerValue)
            case "person_limits":
                try value.forEachMember(at: "person_limits") { key, value throws(JSONFault) in
                    switch key {
                    case "identities":
                        edit.identitiesPerPerson = try number(
                            value, at: "person_limits.identities", Bounds.identitiesPerPersonRange)
                    case "per_device_type":
                        edit.identitiesPerDeviceType = try number(
                            value, at: "person_limits.per_device_type", Bounds.identitiesPerDeviceTypeRange)
                    default: throw JSONFault(.wrong("is not a field of person_limits"), at: key.shown)
                    }
                }
            case "group_limits":
                try value.forEachMember(at: "group_limits") { key, value throws(JSONFault) in
                    switch key {
                    case "members":
                        edit.membersPerGroup = try number(
                            value, at: "group_limits.members", Bounds.membersPerGroupRange)
                    case "identities":
                        edit.identitiesPerGroup =
                            value.kind == .null
                            ? .some(nil)
                            : try number(value, at: "group_limits.identities", Bounds.identitiesPerGroupRange)
                    default: throw JSONFault(.wrong("is not a field of group_limits"), at: key.shown)
                    }
                }
            case "same_user_id": edit.joinsSameUserIDs = try value.bool(at: "same_user_id")
            case "signed_identities":
                edit.signing = try signing(value, at: "signed_identities")
            case "blocked_values": edit.blockedValues = try blockedValues(value, at: "blocked_values")
            default:
                guard try activation.read(key.copy(), value) else {
                    throw JSONFault(.wrong("is not a field of a strategy"), at: key.shown)
                }
            }
        }
        edit.activation = try activation.policy()
        return edit
    }

    /// Writes the whole document.
    ///
    /// - Parameters:
    ///   - strategy: the strategy.
    ///   - version: its version; nil for a strategy that never held.
    ///   - unmatched: the calls that found no person because their types are not in the hierarchy.
    ///   - json: the document.
    static func write(
        _ strategy: Strategy, version: Int?, unmatched: [(type: IdentityType, calls: Int)] = [],
        _ json: inout JSONWriter
    ) {
        json.object { json in
            if let version {
                json.key("version")
                json.integer(version)
            }
            if !unmatched.isEmpty {
                json.key("unmatched_types")
                json.object { json in
                    for (type, calls) in unmatched {
                        json.key(type.name)
                        json.integer(calls)
                    }
                }
            }
            json.key("preset")
            json.string(strategy.preset.rawValue)
            write("hierarchy", strategy.hierarchy.map { "\($0.name)" }, &json)
            write("login", strategy.login.types.map { "\($0.name)" }, &json)
            write("unique", strategy.unique.types.map { "\($0.name)" }, &json)
            write("immutable", strategy.immutable.types.map { "\($0.name)" }, &json)
            json.key("on_new_known")
            json.string(name(of: strategy.onNewKnown, in: onNewKnown))
            json.key("on_logout")
            json.string(name(of: strategy.onLogout, in: onLogout))
            json.key("lowercase_email")
            json.bool(strategy.lowercasesEmail)
            write("blocked_values", strategy.blockedValues.values, &json)
            json.key("restore")
            json.object { json in
                json.key("production")
                json.string("\(strategy.restore.production.name)")
                json.key("sandbox")
                json.string("\(strategy.restore.sandbox.name)")
            }
            (strategy.activation ?? ActivationPolicy()).write(&json)
            json.key("limits")
            json.object { json in
                for (type, limit) in strategy.guards.limits.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                    json.key(type.name)
                    json.integer(limit)
                }
            }
            json.key("on_limit")
            json.string(name(of: strategy.guards.onLimit, in: onLimit))
            json.key("shared_device_people")
            json.integer(strategy.guards.sharedDevicePeople)
            json.key("person_limits")
            json.object { json in
                json.key("identities")
                json.integer(strategy.guards.bounds.identitiesPerPerson)
                json.key("per_device_type")
                json.integer(strategy.guards.bounds.identitiesPerDeviceType)
            }
            json.key("group_limits")
            json.object { json in
                json.key("members")
                json.integer(strategy.guards.bounds.membersPerGroup)
                json.key("identities")
                if let limit = strategy.guards.bounds.identitiesPerGroup { json.integer(limit) } else { json.null() }
            }
            json.key("same_user_id")
            json.bool(strategy.guards.joinsSameUserIDs)
            json.key("signed_identities")
            json.object { json in
                for dialect in signedDialects {
                    json.key(dialect.rawValue)
                    json.string(name(of: strategy.guards.signing(in: dialect), in: signings))
                }
            }
        }
    }

    private static func write(_ key: StaticString, _ values: [String], _ json: inout JSONWriter) {
        json.key(key)
        json.array { json in
            for value in values { json.string(value) }
        }
    }

    // MARK: - Values with names

    private static let presets = StrategyPreset.allCases.map { ($0.rawValue, $0) }
    private static let onNewKnown: [(String, Strategy.OnNewKnown)] = [("keep", .keep), ("create", .create)]
    private static let restore = RestoreStrategy.allCases.map { ("\($0.name)", $0) }
    private static let onLimit: [(String, Guards.OnLimit)] = [("demote", .demote), ("leave", .leave)]
    private static let onLogout: [(String, Strategy.OnLogout)] = [("create", .create), ("return", .return)]

    private static func name<Value>(
        _ json: JSONValue, at path: String, _ values: [(name: String, value: Value)]
    ) throws(JSONFault) -> Value {
        let text = try json.string(at: path)
        guard let value = values.first(where: { $0.name == text })?.value else {
            throw JSONFault(.wrong("must be \(values.map(\.name).joined(separator: ", ")), not \"\(text)\""), at: path)
        }
        return value
    }

    private static func name<Value: Equatable>(of value: Value, in values: [(name: String, value: Value)]) -> String {
        guard let name = values.first(where: { $0.value == value })?.name else {
            preconditionFailure("A value of a strategy has no name.")
        }
        return name
    }

    /// The dialects whose clients carry keys.
    private static let signedDialects: [Dialect] = [.idsync, .claim, .entitlements]
    private static let signings: [(String, Guards.Signing)] = [("off", .off), ("log", .log), ("require", .require)]

    /// Reads one word for all dialects, or one word for each dialect.
    private static func signing(_ json: JSONValue, at path: String) throws(JSONFault) -> [Dialect: Guards.Signing] {
        var signing: [Dialect: Guards.Signing] = [:]
        if case .string = json.kind {
            let all = try name(json, at: path, signings)
            for dialect in signedDialects { signing[dialect] = all }
            return signing
        }
        try json.forEachMember(at: path) { key, value throws(JSONFault) in
            guard let dialect = Dialect(rawValue: key.copy()), signedDialects.contains(dialect) else {
                throw JSONFault(.wrong("is not a dialect with client keys"), at: "\(path).\(key.shown)")
            }
            signing[dialect] = try name(value, at: "\(path).\(dialect.rawValue)", signings)
        }
        return signing
    }

    private static func number(
        _ json: JSONValue, at path: String, _ range: ClosedRange<Int>
    ) throws(JSONFault) -> Int {
        let number = Int(try json.integer(at: path))
        guard range.contains(number) else {
            throw JSONFault(.wrong("must be \(range.lowerBound) to \(range.upperBound)"), at: path)
        }
        return number
    }

    private static func types(_ json: JSONValue, at path: String) throws(JSONFault) -> [IdentityType] {
        var types: [IdentityType] = []
        try json.forEachElement(at: path) { element throws(JSONFault) in
            let text = try element.text(at: "each value of \(path)")
            guard let type = text.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                throw JSONFault(.wrong("has \"\(text.shown)\", which is not an identity type"), at: path)
            }
            guard !types.contains(type) else { throw JSONFault(.wrong("has \(type.name) twice"), at: path) }
            types.append(type)
        }
        return types
    }

    private static func blockedValues(_ json: JSONValue, at path: String) throws(JSONFault) -> BlockedValues {
        var values: [String] = []
        try json.forEachElement(at: path) { element throws(JSONFault) in
            let text = try element.text(at: "each value of \(path)")
            guard BlockedValues.valueBytes.contains(text.byteCount) else {
                let limit = BlockedValues.valueBytes.upperBound
                throw JSONFault(.wrong("must have values of 1 to \(limit) bytes, not \"\(text.shown)\""), at: path)
            }
            guard values.count < BlockedValues.countLimit else {
                throw JSONFault(.wrong("must have at most \(BlockedValues.countLimit) values"), at: path)
            }
            values.append(text.copy())
        }
        return BlockedValues(values)
    }

    // MARK: - What the API's description says

    /// The shape of the document: complete, or with optional members.
    static func schema(isWhole: Bool) -> Schema {
        let types = Schema.array(.string(oneOf: IdentityType.idsync.map { "\($0.name)" }))
        let fields: [(String, Schema)] =
            [
                ("version", .integer("The version, which grows by one with each change.")),
                ("preset", .string(oneOf: presets.map(\.0))),
                ("hierarchy", types), ("login", types), ("unique", types), ("immutable", types),
                ("on_new_known", .string(oneOf: onNewKnown.map(\.0))), ("on_logout", .string(oneOf: onLogout.map(\.0))),
                ("lowercase_email", .boolean("Whether the server changes e-mail addresses to small letters.")),
                ("blocked_values", .array(.string())),
                ("limits", .object([])),
                ("on_limit", .string("The treatment of a call that would exceed a limit.", oneOf: onLimit.map(\.0))),
                ("shared_device_people", .integer("The number of people that may hold a device.")),
                (
                    "person_limits",
                    .object(
                        [
                            .init(
                                "identities",
                                .integer("The number of identities of one dialect that a person may hold.")),
                            .init(
                                "per_device_type",
                                .integer("The number of identities of one device type that a person may hold.")
                            ),
                        ], others: false)
                ),
                (
                    "group_limits",
                    .object(
                        [
                            .init("members", .integer("The number of members that a group may have.")),
                            .init(
                                "identities",
                                .anyOf([.integer("The number of identities that all members may hold."), .null])),
                        ], others: false)
                ),
                ("same_user_id", .boolean("Whether equal user ids in several dialects belong to one human.")),
                (
                    "signed_identities",
                    isWhole ? .object([]) : .anyOf([.object([]), .string(oneOf: signings.map(\.0))])
                ),
                (
                    "restore",
                    .object(
                        ["production", "sandbox"].map {
                            .init($0, .string(oneOf: restore.map(\.0)), required: isWhole)
                        }, others: false)
                ),
            ] + ActivationDocument.fields
        let unmatched = Schema.Property(
            "unmatched_types",
            .object(
                IdentityType.idsync.map {
                    .init(
                        "\($0.name)",
                        .integer("The number of calls since the server's start without a type of the hierarchy."))
                }, others: false))
        return .object(fields.map { .init($0.0, $0.1, required: isWhole) } + [unmatched], others: false)
    }
}
