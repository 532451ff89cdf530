import Domain

/// Who is linked to whom, in plain lists and by the words of spec/linking.md: no epochs, no documents, no merges.
struct LinkingModel {
    struct ModelInstall {
        let name: String
        let device: DeviceClass
        /// Whose rows it sends until it is linked.
        let own: String
        var user: String?
        /// The external id that it was linked by.
        var external: String?
        var state = "unlinked"
        var isDisabled = false
        var generation = 0
        var isRevoked = false
        /// The order in which installs became active.
        var turn = 0
        /// Whether what it gathers now is nobody's.
        var isSilent = false
        var events: Set<Int> = []
    }

    struct ModelCode {
        let external: String
        let expiresAt: Int64
        var install: String?
        var installKey: Int?
        var isRestored = false
        var redeemedAt: Int64 = 0
    }

    /// What a call comes to: a text, in which installs and users go by the names of the model.
    struct Answer: Equatable {
        var text: String
        var install: String?
        var user: String?

        init(_ text: String, install: String? = nil, user: String? = nil) {
            self.text = text
            self.install = install
            self.user = user
        }
    }

    let policy: ActivationPolicy
    private(set) var installs: [String: ModelInstall] = [:]
    private(set) var codes: [Int: ModelCode] = [:]
    /// The users that have external ids.
    private(set) var users: [String: String] = [:]
    private(set) var deleted: Set<String> = []
    /// External ids whose users were deleted: what was gathered before is nobody's.
    private var deletedExternals: Set<String> = []
    /// How often each code has made an install, which may be once.
    private(set) var redemptions: [Int: Int] = [:]
    private var installsMade = 0
    private var usersMade = 0
    private var turns = 0

    init(_ policy: ActivationPolicy) { self.policy = policy }

    var now: Int64 = 0

    mutating func answer(_ ask: LinkingAsk) -> Answer {
        switch ask {
        case .make(let device):
            installsMade += 1
            let name = "i\(installsMade)"
            installs[name] = ModelInstall(name: name, device: device, own: "own \(name)")
            return Answer("made", install: name)
        case .link(let install, let external): return link(install, external)
        case .hard(let install): return device(install) { model, name in model.hard(name) }
        case .issue(let code, let external):
            codes[code] = ModelCode(external: external, expiresAt: now + 600_000)
            return Answer("issued")
        case .redeem(let code, let key, let device): return redeem(code, key, device)
        case .late(let install, let code): return device(install) { model, name in model.late(name, code) }
        case .refresh(let install, let generation):
            return device(install) { model, name in model.refresh(name, generation) }
        case .check(let install): return check(install)
        case .submit(let install, let event, let isEarly):
            return device(install) { model, name in model.submit(name, event, isEarly) }
        case .reset(let install):
            if installs[install]?.state == "reset", !isDeleted(install) { return Answer("reset") }
            return device(install) { model, name in
                model.installs[name]?.state = "reset"
                model.installs[name]?.isRevoked = true
                return Answer("reset")
            }
        case .delete(let user):
            guard !deleted.contains(user) else { return Answer("USER_NOT_FOUND") }
            deleted.insert(user)
            for (external, holder) in users where holder == user {
                users[external] = nil
                deletedExternals.insert(external)
            }
            return Answer("deleted")
        case .disable(let install, let isDisabled):
            if self.isDeleted(install) { return Answer("INSTALL_DELETED") }
            installs[install]?.isDisabled = isDisabled
            if let user = installs[install]?.user { trim(user) }
            return Answer(isDisabled ? "disabled" : "enabled")
        }
    }

    private func isDeleted(_ install: String) -> Bool {
        guard let install = installs[install] else { return false }
        return deleted.contains(install.user ?? install.own)
    }

    /// A call by an install's own token.
    private mutating func device(_ name: String, _ body: (inout LinkingModel, String) -> Answer) -> Answer {
        if isDeleted(name) { return Answer("INSTALL_DELETED") }
        if installs[name]?.isRevoked == true { return Answer("INVALID_TOKEN") }
        return body(&self, name)
    }

    private mutating func link(_ name: String, _ external: String) -> Answer {
        guard let install = installs[name] else { return Answer("INSTALL_NOT_FOUND") }
        if isDeleted(name) { return Answer("INSTALL_DELETED") }
        if install.isDisabled { return Answer("INSTALL_DISABLED") }
        let holder = users[external]
        if install.external != nil, holder != install.user { return Answer("INSTALL_LINKED_TO_OTHER_USER") }
        if install.state == "deactivated" || install.state == "reset" { return Answer("INSTALL_DEACTIVATED") }
        if install.external != nil { return Answer("linked", user: install.user) }
        if let user = install.user {
            if holder != nil { return Answer("CANNOT_LINK_EXISTING_PERSON_TO_OTHER_PERSON") }
            users[external] = user
            installs[name]?.external = external
            return Answer("linked", user: user)
        }
        let user = holder ?? install.own
        users[external] = user
        installs[name]?.external = external
        join(name, user)
        return Answer("linked", user: user)
    }

    private mutating func hard(_ name: String) -> Answer {
        guard let install = installs[name] else { return Answer("") }
        if install.isDisabled { return Answer("INSTALL_DISABLED") }
        if let user = install.user { return Answer("linked", user: user) }
        join(name, install.own)
        return Answer("linked", user: install.own)
    }

    private mutating func redeem(_ number: Int, _ key: Int, _ device: DeviceClass) -> Answer {
        guard let code = codes[number] else { return Answer("INVALID_AUTHENTICATION_CODE") }
        if let name = code.install {
            guard let install = installs[name], code.installKey == key, install.state != "reset", !isDeleted(name),
                install.generation == 0, !install.isRevoked, now < max(code.expiresAt, code.redeemedAt + 3_600_000)
            else { return Answer("INVALID_AUTHENTICATION_CODE") }
            return redeemed(code, install)
        }
        guard now < code.expiresAt else { return Answer("INVALID_AUTHENTICATION_CODE") }
        let holder = users[code.external]
        if holder == nil {
            usersMade += 1
            users[code.external] = "user \(usersMade)"
        }
        let user = users[code.external] ?? ""
        installsMade += 1
        let name = "i\(installsMade)"
        installs[name] = ModelInstall(name: name, device: device, own: user)
        installs[name]?.external = code.external
        join(name, user)
        redemptions[number, default: 0] += 1
        codes[number]?.install = name
        codes[number]?.installKey = key
        codes[number]?.isRestored = holder != nil
        codes[number]?.redeemedAt = now
        guard let spent = codes[number], let install = installs[name] else { return Answer("") }
        return redeemed(spent, install)
    }

    private func redeemed(_ code: ModelCode, _ install: ModelInstall) -> Answer {
        Answer(
            "redeemed \(install.state)\(code.isRestored ? " restored" : "")", install: install.name, user: install.user)
    }

    private mutating func late(_ name: String, _ number: Int) -> Answer {
        guard let install = installs[name] else { return Answer("") }
        if install.isDisabled || install.state == "deactivated" { return Answer("INSTALL_DISABLED") }
        if let code = codes[number], code.install == name, code.installKey == nil,
            now < max(code.expiresAt, code.redeemedAt + 3_600_000)
        {
            return Answer("linked", user: install.user)
        }
        if install.external != nil { return Answer("USER_ALREADY_LINKED") }
        guard let code = codes[number], code.install == nil, now < code.expiresAt else {
            return Answer("INVALID_AUTHENTICATION_CODE")
        }
        if users[code.external] != nil { return Answer("EXTERNAL_ID_ALREADY_HAS_A_USER") }
        users[code.external] = install.own
        redemptions[number, default: 0] += 1
        codes[number]?.install = name
        codes[number]?.redeemedAt = now
        installs[name]?.external = code.external
        if install.user == nil { join(name, install.own) }
        return Answer("linked", user: install.own)
    }

    private mutating func refresh(_ name: String, _ generation: Int) -> Answer {
        guard let install = installs[name] else { return Answer("") }
        switch install.generation - generation {
        case 0:
            installs[name]?.generation += 1
            return Answer("refreshed \(install.generation + 1)")
        case 1: return Answer("refreshed \(install.generation)")
        default:
            installs[name]?.isRevoked = true
            return Answer("REFRESH_TOKEN_REUSED")
        }
    }

    private mutating func check(_ name: String) -> Answer {
        if isDeleted(name) { return Answer("deleted") }
        return device(name) { model, name in
            guard let install = model.installs[name] else { return Answer("") }
            if install.state == "blocked", !install.isDisabled, let user = install.user,
                model.active(user).count < model.policy.limit
            {
                model.activate(name)
            }
            let state = install.isDisabled ? "disabled" : model.installs[name]?.state ?? ""
            return Answer(state, user: install.user)
        }
    }

    private mutating func submit(_ name: String, _ event: Int, _ isEarly: Bool) -> Answer {
        guard let install = installs[name] else { return Answer("") }
        if install.isDisabled { return Answer("INSTALL_DISABLED") }
        if install.isSilent, !isEarly { return Answer("dropped") }
        if isEarly, install.external.map(deletedExternals.contains) == true { return Answer("dropped") }
        if install.events.contains(event) { return Answer("repeated") }
        installs[name]?.events.insert(event)
        return Answer("accepted")
    }

    // MARK: - Who is active

    func active(_ user: String) -> [ModelInstall] {
        installs.values.filter { $0.user == user && $0.state == "active" && !$0.isDisabled }
    }

    private func strength(_ device: DeviceClass) -> Int { device == .tablet ? 1 : 2 }

    private func weakest(_ installs: [ModelInstall]) -> ModelInstall? {
        installs.min { one, two in
            let (a, b) = (strength(one.device), strength(two.device))
            return a != b ? a < b : one.turn < two.turn
        }
    }

    /// Has those wait who are active beyond the limit, because one is back that was turned off.
    private mutating func trim(_ user: String) {
        while active(user).count > policy.limit {
            let newest = active(user).max { $0.turn < $1.turn }
            guard let leaving = policy.order == .firstWins ? newest : weakest(active(user)) else { return }
            block(leaving.name)
        }
    }

    private mutating func join(_ name: String, _ user: String) {
        installs[name]?.user = user
        guard let device = installs[name]?.device else { return }
        let others = active(user).filter { $0.name != name }
        if others.count < policy.limit {
            activate(name)
        } else if policy.order == .firstWins {
            block(name)
        } else {
            guard let weakest = weakest(others), strength(weakest.device) <= strength(device) else {
                return block(name)
            }
            installs[weakest.name]?.state = "deactivated"
            installs[weakest.name]?.isSilent = true
            activate(name)
        }
    }

    private mutating func activate(_ name: String) {
        turns += 1
        installs[name]?.state = "active"
        installs[name]?.isSilent = false
        installs[name]?.turn = turns
    }

    private mutating func block(_ name: String) {
        installs[name]?.state = "blocked"
        installs[name]?.isSilent = true
    }

    // MARK: - What can be read

    /// The events of a user.
    func events(_ user: String) -> Set<String> {
        if deleted.contains(user) { return [] }
        return Set(
            installs.values.filter { $0.user == user }.flatMap { install in
                install.events.map { "\(install.name) \($0)" }
            })
    }
}

/// What somebody may ask.
enum LinkingAsk: Sendable {
    case make(DeviceClass)
    case link(String, String)
    case hard(String)
    case issue(Int, String)
    case redeem(Int, key: Int, DeviceClass)
    case late(String, Int)
    case refresh(String, generation: Int)
    case check(String)
    case submit(String, Int, isEarly: Bool)
    case reset(String)
    case delete(String)
    case disable(String, Bool)
}
