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
            if try isOfAnswersOnly(key, value) { return }
            if try readRule(key, value, &edit) { return }
            switch key {
            case "preset": edit.preset = try name(value, at: "preset", presetNames)
            case "hierarchy": edit.hierarchy = try types(value, at: "hierarchy")
            case "login": edit.login = IdentityTypeSet(try types(value, at: "login"))
            case "unique": edit.unique = IdentityTypeSet(try types(value, at: "unique", knowsDevice: true))
            case "immutable": edit.immutable = IdentityTypeSet(try types(value, at: "immutable"))
            case "on_new_known": edit.onNewKnown = try name(value, at: "on_new_known", onNewKnown)
            case "on_logout": edit.onLogout = try name(value, at: "on_logout", onLogout)
            case "lowercase_email": edit.lowercasesEmail = try value.bool(at: "lowercase_email")
            case "restore": try readRestore(value, &edit)
            case "limits": try readLimits(value, &edit)
            case "on_limit": edit.onLimit = try name(value, at: "on_limit", onLimit)
            case "shared_device_people":
                edit.sharedDevicePeople = try number(value, at: "shared_device_people", 1...Strategy.holdersPerValue)
            case "person_limits": try readPersonLimits(value, &edit)
            case "group_limits": try readGroupLimits(value, &edit)
            case "same_user_id": edit.joinsSameUserIDs = try value.bool(at: "same_user_id")
            case "strategy_dry_run_days":
                edit.dryRunDays = try number(value, at: "strategy_dry_run_days", Guards.dryRunDaysRange)
            case "signed_identities": edit.signing = try signing(value, at: "signed_identities")
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

    /// Checks a member that only answers have; false for another member. Such a member has no meaning in a change, and is allowed
    /// so that a caller can send an answer back unchanged.
    private static func isOfAnswersOnly(_ key: JSONText, _ value: JSONValue) throws(JSONFault) -> Bool {
        switch key {
        case "version": _ = try value.integer(at: "version")
        case "unmatched_types":
            try value.forEachMember(at: "unmatched_types") { key, value throws(JSONFault) in
                _ = try value.integer(at: "unmatched_types.\(key.shown)")
            }
        case "order_free":
            if value.isNull { return true }
            try value.forEachElement(at: "order_free") { element throws(JSONFault) in
                _ = try element.integer(at: "each value of order_free")
            }
        default: return false
        }
        return true
    }

    /// Reads a rule about finding and merging people; false for another member.
    private static func readRule(
        _ key: JSONText, _ value: JSONValue, _ edit: inout StrategyEdit
    ) throws(JSONFault) -> Bool {
        switch key {
        case "protect_known": edit.protectsKnown = try value.bool(at: "protect_known")
        case "decide_on": edit.decideOn = try name(value, at: "decide_on", decideOn)
        case "merge_on_match": edit.mergeOnMatch = try name(value, at: "merge_on_match", mergeOnMatch)
        case "merge_guards":
            var guards: [MatchRules.MergeGuard] = []
            try value.forEachElement(at: "merge_guards") { element throws(JSONFault) in
                let condition = try name(element, at: "each value of merge_guards", mergeGuards)
                if !guards.contains(condition) { guards.append(condition) }
            }
            edit.mergeGuards = guards
        case "known_into_known": edit.mergesKnownIntoKnown = try value.bool(at: "known_into_known")
        case "merge_root": edit.mergeRoot = try name(value, at: "merge_root", mergeRoot)
        case "device_without_user":
            edit.deviceWithoutUser = try name(value, at: "device_without_user", deviceWithoutUser)
        case "contested_device": edit.contestedDevice = try name(value, at: "contested_device", contestedDevice)
        case "on_existing_user": edit.onExistingUser = try name(value, at: "on_existing_user", onExistingUser)
        default: return false
        }
        return true
    }

    private static func readRestore(_ root: JSONValue, _ edit: inout StrategyEdit) throws(JSONFault) {
        try root.forEachMember(at: "restore") { key, value throws(JSONFault) in
            switch key {
            case "production": edit.restoreInProduction = try name(value, at: "restore.production", restore)
            case "sandbox": edit.restoreInSandbox = try name(value, at: "restore.sandbox", restore)
            case "joins_anonymous": edit.restoreJoinsAnonymous = try value.bool(at: "restore.joins_anonymous")
            default: throw JSONFault(.wrong("is not a field of restore"), at: key.shown)
            }
        }
    }

    private static func readLimits(_ root: JSONValue, _ edit: inout StrategyEdit) throws(JSONFault) {
        var limits: [IdentityType: Int] = [:]
        try root.forEachMember(at: "limits") { key, value throws(JSONFault) in
            if case "@device" = key {
                let (count, window) = try limit(value, at: "limits.@device")
                for type in IdentityType.idsync where type.isDevice && limits[type] == nil {
                    (limits[type], edit.windows[type]) = (count, window)
                }
                return
            }
            guard let type = key.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                throw JSONFault(.wrong("is not an identity type"), at: "limits.\(key.shown)")
            }
            (limits[type], edit.windows[type]) = try limit(value, at: "limits.\(type.name)")
        }
        edit.limits = limits
    }

    private static func readPersonLimits(_ root: JSONValue, _ edit: inout StrategyEdit) throws(JSONFault) {
        try root.forEachMember(at: "person_limits") { key, value throws(JSONFault) in
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
    }

    private static func readGroupLimits(_ root: JSONValue, _ edit: inout StrategyEdit) throws(JSONFault) {
        try root.forEachMember(at: "group_limits") { key, value throws(JSONFault) in
            switch key {
            case "members":
                edit.membersPerGroup = try number(value, at: "group_limits.members", Bounds.membersPerGroupRange)
            case "identities":
                edit.identitiesPerGroup =
                    value.kind == .null
                    ? .some(nil)
                    : try number(value, at: "group_limits.identities", Bounds.identitiesPerGroupRange)
            default: throw JSONFault(.wrong("is not a field of group_limits"), at: key.shown)
            }
        }
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
            json.key("order_free")
            if let shapes = strategy.orderFree {
                json.array { json in for shape in shapes { json.integer(shape) } }
            } else {
                json.null()
            }
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
            write(strategy.blockedValues, &json)
            write(strategy.restore, &json)
            (strategy.activation ?? ActivationPolicy()).write(&json)
            writeLimits(strategy.guards, &json)
            write(strategy.rules, &json)
            json.key("same_user_id")
            json.bool(strategy.guards.joinsSameUserIDs)
            json.key("strategy_dry_run_days")
            json.integer(strategy.guards.dryRunDays)
            json.key("signed_identities")
            json.object { json in
                for dialect in signedDialects {
                    json.key(dialect.rawValue)
                    json.string(name(of: strategy.guards.signing(in: dialect), in: signings))
                }
            }
        }
    }

    private static func write(_ restore: RestoreStrategies, _ json: inout JSONWriter) {
        json.key("restore")
        json.object { json in
            json.key("production")
            json.string("\(restore.production.name)")
            json.key("sandbox")
            json.string("\(restore.sandbox.name)")
            json.key("joins_anonymous")
            json.bool(restore.joinsAnonymous)
        }
    }

    private static func writeLimits(_ guards: Guards, _ json: inout JSONWriter) {
        json.key("limits")
        json.object { json in
            for (type, limit) in guards.limits.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                json.key(type.name)
                guard let window = guards.windows[type] else {
                    json.integer(limit)
                    continue
                }
                json.object { json in
                    json.key("count")
                    json.integer(limit)
                    json.key("per")
                    json.string(name(of: window, in: windows))
                }
            }
        }
        json.key("on_limit")
        json.string(name(of: guards.onLimit, in: onLimit))
        json.key("shared_device_people")
        json.integer(guards.sharedDevicePeople)
        json.key("person_limits")
        json.object { json in
            json.key("identities")
            json.integer(guards.bounds.identitiesPerPerson)
            json.key("per_device_type")
            json.integer(guards.bounds.identitiesPerDeviceType)
        }
        json.key("group_limits")
        json.object { json in
            json.key("members")
            json.integer(guards.bounds.membersPerGroup)
            json.key("identities")
            if let limit = guards.bounds.identitiesPerGroup { json.integer(limit) } else { json.null() }
        }
    }

    private static func write(_ rules: MatchRules, _ json: inout JSONWriter) {
        json.key("protect_known")
        json.bool(rules.protectsKnown)
        json.key("decide_on")
        json.string(name(of: rules.decideOn, in: decideOn))
        json.key("merge_on_match")
        json.string(name(of: rules.mergeOnMatch, in: mergeOnMatch))
        write("merge_guards", rules.mergeGuards.map { name(of: $0, in: mergeGuards) }, &json)
        json.key("known_into_known")
        json.bool(rules.mergesKnownIntoKnown)
        json.key("merge_root")
        json.string(name(of: rules.mergeRoot, in: mergeRoot))
        json.key("device_without_user")
        json.string(name(of: rules.deviceWithoutUser, in: deviceWithoutUser))
        json.key("contested_device")
        json.string(name(of: rules.contestedDevice, in: contestedDevice))
        json.key("on_existing_user")
        json.string(name(of: rules.onExistingUser, in: onExistingUser))
    }

    private static func write(_ blocked: BlockedValues, _ json: inout JSONWriter) {
        json.key("blocked_values")
        json.array { json in
            for matcher in blocked.matchers {
                if let plain = matcher.plain { json.string(plain) } else { json.object { write(matcher, &$0) } }
            }
        }
    }

    private static func write(_ matcher: BlockedValues.Matcher, _ json: inout JSONWriter) {
        func text(_ key: StaticString, _ text: String, isAlsoQuoted: Bool = false) {
            json.key(key)
            json.string(text)
            if isAlsoQuoted {
                json.key("quoted")
                json.bool(true)
            }
        }
        switch matcher.test {
        case .same(let value, let isAlsoQuoted): text("is", value, isAlsoQuoted: isAlsoQuoted)
        case .anyCase(let value, let isAlsoQuoted): text("any_case", value, isAlsoQuoted: isAlsoQuoted)
        case .pattern(let pattern): text("pattern", pattern.text)
        case .contains(let part): text("contains", part)
        case .blank:
            json.key("blank")
            json.bool(true)
        case .shorterThan(let count):
            json.key("shorter_than")
            json.integer(count)
        case .longerThan(let count):
            json.key("longer_than")
            json.integer(count)
        case .list(let list): text("list", list.rawValue)
        }
        if let types = matcher.types { write("types", types.types.map { "\($0.name)" }, &json) }
    }

    private static func write(_ key: StaticString, _ values: [String], _ json: inout JSONWriter) {
        json.key(key)
        json.array { json in
            for value in values { json.string(value) }
        }
    }

    // MARK: - Values with names

    private static let presets = StrategyPreset.allCases.map { ($0.rawValue, $0) }
    private static let presetNames = presets + StrategyPreset.otherNames.map { ($0.name, $0.preset) }
    private static let decideOn: [(String, MatchRules.DecideOn)] = [("member", .member), ("group", .group)]
    private static let mergeOnMatch: [(String, MatchRules.MergeOnMatch)] = [
        ("never", .never), ("anonymous_into_known", .anonymousIntoKnown), ("any", .any),
    ]
    private static let mergeGuards: [(String, MatchRules.MergeGuard)] = [
        ("target_without_device", .targetWithoutDevice), ("device_is_uuid4", .deviceIsUUID4),
    ]
    private static let mergeRoot: [(String, MatchRules.MergeRoot)] = [("known", .known), ("oldest", .oldest)]
    private static let deviceWithoutUser: [(String, MatchRules.DeviceWithoutUser)] = [
        ("resolve", .resolve), ("last_known", .lastKnown), ("first_known", .firstKnown), ("always_new", .alwaysNew),
    ]
    private static let contestedDevice: [(String, MatchRules.ContestedDevice)] = [
        ("resolve", .resolve), ("stable_anonymous", .stableAnonymous),
    ]
    private static let onExistingUser: [(String, MatchRules.OnExistingUser)] = [
        ("switch", .switch), ("refuse", .refuse),
    ]
    private static let onNewKnown: [(String, Strategy.OnNewKnown)] = [("keep", .keep), ("create", .create)]
    private static let restore = RestoreStrategy.allCases.map { ("\($0.name)", $0) }
    private static let onLimit: [(String, Guards.OnLimit)] = [
        ("demote", .demote), ("separate", .separate), ("refuse", .refuse), ("leave", .leave),
    ]
    private static let windows: [(name: String, value: LimitWindow)] = [
        ("week", .week), ("month", .month), ("year", .year),
    ]
    private static let onLogout: [(String, Strategy.OnLogout)] = [
        ("create", .create), ("return", .return), ("resolve", .resolve),
    ]

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
    private static let signedDialects: [Dialect] = [.idsync, .claim, .entitlements, .onym]
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

    /// Reads the limit of one type: a number, or an object with a count and maybe a window.
    private static func limit(_ json: JSONValue, at path: String) throws(JSONFault) -> (Int, LimitWindow?) {
        guard case .object = json.kind else { return (try number(json, at: path, 1...1000), nil) }
        var count: Int?
        var window: LimitWindow?
        try json.forEachMember(at: path) { key, value throws(JSONFault) in
            switch key {
            case "count": count = try number(value, at: "\(path).count", 1...1000)
            case "per":
                window = try name(value, at: "\(path).per", [("ever", nil)] + windows.map { ($0.name, $0.value) })
            default: throw JSONFault(.wrong("is not a field of a limit"), at: "\(path).\(key.shown)")
            }
        }
        guard let count else { throw JSONFault(.wrong("is required"), at: "\(path).count") }
        return (count, window)
    }

    /// - Parameters:
    ///   - json: the list.
    ///   - path: the place of the list.
    ///   - knowsDevice: whether `@device` stands for all types of devices.
    private static func types(
        _ json: JSONValue, at path: String, knowsDevice: Bool = false
    ) throws(JSONFault) -> [IdentityType] {
        var types: [IdentityType] = []
        try json.forEachElement(at: path) { element throws(JSONFault) in
            let text = try element.text(at: "each value of \(path)")
            if knowsDevice, case "@device" = text {
                types += IdentityType.idsync.filter { $0.isDevice && !types.contains($0) }
                return
            }
            guard let type = text.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                throw JSONFault(.wrong("has \"\(text.shown)\", which is not an identity type"), at: path)
            }
            guard !types.contains(type) else { throw JSONFault(.wrong("has \(type.name) twice"), at: path) }
            types.append(type)
        }
        return types
    }

    private static func blockedValues(_ json: JSONValue, at path: String) throws(JSONFault) -> BlockedValues {
        var matchers: [BlockedValues.Matcher] = []
        var patterns = 0
        try json.forEachElement(at: path) { element throws(JSONFault) in
            guard matchers.count < BlockedValues.countLimit else {
                throw JSONFault(.wrong("must have at most \(BlockedValues.countLimit) values"), at: path)
            }
            guard case .object = element.kind else {
                let value = try blockedText(element, at: "each value of \(path)", of: path)
                matchers.append(BlockedValues.Matcher(.anyCase(value, isAlsoQuoted: false)))
                return
            }
            let matcher = try matcher(element, at: "\(path)[\(matchers.count)]", of: path)
            if case .pattern = matcher.test { patterns += 1 }
            guard patterns <= BlockedValues.patternsAtMost else {
                throw JSONFault(.wrong("must have at most \(BlockedValues.patternsAtMost) patterns"), at: path)
            }
            matchers.append(matcher)
        }
        return BlockedValues(matchers)
    }

    /// The problem of a pattern that breaks the grammar or a limit; its refusal has a code of its own.
    static let badPattern = "is not a pattern that this server accepts"

    private static func blockedText(
        _ json: JSONValue, at place: String, of path: String
    ) throws(JSONFault) -> String {
        let text = try json.text(at: place)
        guard BlockedValues.valueBytes.contains(text.byteCount) else {
            let limit = BlockedValues.valueBytes.upperBound
            throw JSONFault(.wrong("must have values of 1 to \(limit) bytes, not \"\(text.shown)\""), at: path)
        }
        return text.copy()
    }

    /// Reads a matcher: an object with one test.
    private static func matcher(
        _ json: JSONValue, at place: String, of path: String
    ) throws(JSONFault) -> BlockedValues.Matcher {
        var tests: [BlockedValues.Matcher.Test] = []
        var isAlsoQuoted = false
        var types: IdentityTypeSet?
        try json.forEachMember(at: place) { key, value throws(JSONFault) in
            let at = "\(place).\(key.shown)"
            switch key {
            case "is": tests.append(.same(try blockedText(value, at: at, of: at), isAlsoQuoted: false))
            case "any_case": tests.append(.anyCase(try blockedText(value, at: at, of: at), isAlsoQuoted: false))
            case "quoted": isAlsoQuoted = try value.bool(at: at)
            case "pattern":
                guard let pattern = BlockedPattern(try value.text(at: at).copy()) else {
                    throw JSONFault(.wrong(badPattern), at: at)
                }
                tests.append(.pattern(pattern))
            case "contains": tests.append(.contains(try blockedText(value, at: at, of: at)))
            case "blank":
                guard try value.bool(at: at) else { throw JSONFault(.wrong("must be true"), at: at) }
                tests.append(.blank)
            case "shorter_than": tests.append(.shorterThan(try number(value, at: at, BlockedValues.lengthRange)))
            case "longer_than": tests.append(.longerThan(try number(value, at: at, BlockedValues.lengthRange)))
            case "list": tests.append(.list(try name(value, at: at, BlockedList.allCases.map { ($0.rawValue, $0) })))
            case "types": types = IdentityTypeSet(try self.types(value, at: at, knowsDevice: true))
            default: throw JSONFault(.wrong("is not a field of a matcher"), at: at)
            }
        }
        guard tests.count == 1 else { throw JSONFault(.wrong("must have one test"), at: place) }
        switch tests[0] {
        case .same(let text, _): return BlockedValues.Matcher(.same(text, isAlsoQuoted: isAlsoQuoted), types: types)
        case .anyCase(let text, _):
            return BlockedValues.Matcher(.anyCase(text, isAlsoQuoted: isAlsoQuoted), types: types)
        case .pattern, .contains, .blank, .shorterThan, .longerThan, .list:
            guard !isAlsoQuoted else { throw JSONFault(.wrong("needs is or any_case"), at: "\(place).quoted") }
            return BlockedValues.Matcher(tests[0], types: types)
        }
    }

    // MARK: - What the API's description says

    /// The shape of the document: complete, or with optional members.
    static func schema(isWhole: Bool) -> Schema {
        let types = Schema.array(.string(oneOf: IdentityType.idsync.map { "\($0.name)" }))
        let fields: [(String, Schema)] =
            [
                ("version", .integer("The version, which grows by one with each change.")),
                ("preset", .string(oneOf: (isWhole ? presets : presetNames).map(\.0))),
                (
                    "order_free",
                    .anyOf([.array(.integer("A shape of calls whose order has no effect: 1, 2 or 3.")), .null])
                ),
                ("hierarchy", types), ("login", types),
                ("unique", isWhole ? types : .array(.string())), ("immutable", types),
                ("on_new_known", .string(oneOf: onNewKnown.map(\.0))), ("on_logout", .string(oneOf: onLogout.map(\.0))),
                ("lowercase_email", .boolean("Whether the server changes e-mail addresses to small letters.")),
                ("blocked_values", .array(.anyOf([.string(), .object([])]))),
                ("limits", .object([])),
                ("protect_known", .boolean("Whether a known group is found only by one of its login identities.")),
                ("decide_on", .string(oneOf: decideOn.map(\.0))),
                ("merge_on_match", .string(oneOf: mergeOnMatch.map(\.0))),
                ("merge_guards", .array(.string(oneOf: mergeGuards.map(\.0)))),
                ("known_into_known", .boolean("Whether a rule may merge two known users.")),
                ("merge_root", .string(oneOf: mergeRoot.map(\.0))),
                ("device_without_user", .string(oneOf: deviceWithoutUser.map(\.0))),
                ("contested_device", .string(oneOf: contestedDevice.map(\.0))),
                ("on_existing_user", .string(oneOf: onExistingUser.map(\.0))),
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
                (
                    "strategy_dry_run_days",
                    .integer("The days for which the server keeps calls that changed nothing, for dry runs.")
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
                        } + [
                            .init(
                                "joins_anonymous",
                                .boolean("Whether a restore merges the anonymous person that bought."),
                                required: isWhole)
                        ], others: false)
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
