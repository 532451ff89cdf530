/// The table of spec/rules.md, section 4, a second time.
extension RulesModel.Rules {
    private typealias Matcher = RulesModel.Matcher

    private static let vendorHierarchy =
        ["customerid", "email", "mobile_number", "google", "facebook", "other"]
        + ["ios_idfv", "push_token", "device_application_stamp", "android_uuid"]
    private static let user = Set(["customerid"])
    private static let userAndDevices = user.union(RulesModel.devices)

    /// The rules of a preset by its name; nil for a name that is no preset.
    init?(preset name: String) {
        switch name {
        case "default": self.init(hierarchy: ["customerid"], login: Self.user, unique: Self.user)
        case "profile_conversion":
            self.init(hierarchy: ["customerid"], login: Self.user, unique: ["customerid", "email"])
        case "profile_link", "profile_isolation":
            self.init(hierarchy: ["customerid"], login: ["customerid", "email"], unique: ["customerid", "email"])
            onNewKnown = "create"
            onLogout = name == "profile_link" ? "create" : "return"
        case "best_match": self.init(hierarchy: ["customerid"], login: [], unique: [])
        default:
            self.init(hierarchy: Self.vendorHierarchy, login: Self.user, unique: Self.userAndDevices)
            (decideOn, onLogout) = ("group", "resolve")
            guard setVendor(name) else { return nil }
            return
        }
        // mParticle's default asks for the phone number before the e-mail address.
        hierarchy =
            name == "default"
            ? ["customerid", "mobile_number", "email", "other", "facebook", "google"]
            : ["customerid", "email", "mobile_number", "other", "facebook", "google"]
        hierarchy += ["ios_idfv", "android_uuid", "device_application_stamp"]
        blocked = Self.onym
    }

    private mutating func setVendor(_ name: String) -> Bool {
        blocked = Self.onym
        switch name {
        case "segment":
            (unique, protectsKnown, onLimit, mergeOnMatch, mergeRoot) = ([], false, "demote", "any", "oldest")
            for type in hierarchy { limits[type] = 5 }
            limits["customerid"] = 1
            blocked = [.zerosAndHyphens] + ["-1", "null", "anonymous"].map { .same($0) }
        case "amplitude":
            (unique, limits, onLimit) = (Self.user, ["customerid": 1], "separate")
            (mergeOnMatch, deviceWithoutUser) = ("anonymous_into_known", "last_known")
        case "mixpanel_simplified", "mixpanel_original":
            (limits, onLimit) = (["customerid": 1], "separate")
            (mergeOnMatch, deviceWithoutUser) = ("anonymous_into_known", "first_known")
            let words = [
                "00000000-0000-0000-0000-000000000000", "anon", "anonymous", "nil", "none", "null", "n/a", "na",
                "undefined", "unknown", "<nil>", "0", "-1", "true", "false", "[]", "{}",
            ]
            blocked = words.map { .same($0) }
            if name == "mixpanel_original" {
                (mergeGuards, mergeRoot, identitiesPerGroup) = (["device_is_uuid4"], "oldest", 500)
            }
        case "posthog":
            (protectsKnown, mergeOnMatch) = (false, "anonymous_into_known")
            let anyCase = [
                "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email", "undefined",
                "true", "false",
            ]
            let same = ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"]
            blocked = anyCase.map { .anyCaseAlsoQuoted($0) } + same.map { .sameAlsoQuoted($0) } + [.blank]
        case "rudderstack":
            (unique, protectsKnown, mergeOnMatch, knownIntoKnown, mergeRoot) = ([], false, "any", true, "oldest")
        case "snowplow":
            (unique, protectsKnown, limits, onLimit) = ([], false, ["customerid": 1], "separate")
            (mergeOnMatch, mergeRoot, contestedDevice) = ("any", "oldest", "stable_anonymous")
        case "revenuecat_transfer", "revenuecat_keep":
            (mergeOnMatch, mergeGuards, deviceWithoutUser) = (
                "anonymous_into_known", ["target_without_device"], "first_known"
            )
            let words = [
                "no_user", "null", "none", "nil", "(null)", "NaN", "\u{0}", "", "unidentified", "undefined", "unknown",
                "anonymous", "guest", "-1", "0", "[]", "{}", "[object Object]",
            ]
            blocked = words.map { .same($0) } + [.contains("/")]
        case "sentiance", "owlmetry":
            (protectsKnown, limits, onLimit) = (false, ["customerid": 1], "refuse")
            mergeOnMatch = "anonymous_into_known"
        case "qonversion": (decideOn, onLogout, deviceWithoutUser) = ("member", "return", "first_known")
        case "firebase_link":
            login = ["customerid", "email", "mobile_number", "google", "facebook"]
            unique = login.union(RulesModel.devices)
            for type in login { limits[type] = 1 }
            (protectsKnown, decideOn, onExistingUser) = (false, "member", "refuse")
            (onLimit, onLogout) = ("refuse", "create")
        default: return false
        }
        return true
    }

    /// The blocked values of each new project, as far as the tests send them.
    static let onym: [RulesModel.Matcher] = ["null", "anonymous", "0", "undefined", "nan"].map { .anyCase($0) }
}
