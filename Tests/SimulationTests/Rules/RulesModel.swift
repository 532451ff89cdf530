/// The rules of spec/rules.md, sections 1 to 3, written down a second time, as plainly as possible: arrays, sets and loops. The
/// model finds the groups again from all merges at each question. It shares no code and no type with the server that it judges.
struct RulesModel {
    /// An identity: the name of a type and a value.
    struct Name: Hashable {
        let type: String
        let value: String
    }

    /// A strategy document.
    struct Rules: Equatable {
        var hierarchy: [String]
        var login: Set<String>
        var unique: Set<String>
        var immutable: Set<String> = []
        var onNewKnown = "keep"
        var onLogout = "create"
        var protectsKnown = true
        var limits: [String: Int] = [:]
        /// The days for which a limit counts a value, for limits that do not count for ever.
        var windowDays: [String: Int] = [:]
        var onLimit = "demote"
        var decideOn = "member"
        var mergeOnMatch = "never"
        var mergeGuards: Set<String> = []
        var knownIntoKnown = false
        var mergeRoot = "known"
        var deviceWithoutUser = "resolve"
        var contestedDevice = "resolve"
        var onExistingUser = "switch"
        var sharedDevicePeople = 1000
        var membersPerGroup = 10_000
        var identitiesPerGroup: Int?
        var identitiesPerPerson = 1000
        var identitiesPerDeviceType = 100
        var blocked: [Matcher] = []
        var joinsSameUserIDs = false

        var mergesPeople: Bool { mergeOnMatch != "never" }
    }

    /// A matcher of blocked values.
    enum Matcher: Equatable {
        case same(String)
        case sameAlsoQuoted(String)
        case anyCase(String)
        case anyCaseAlsoQuoted(String)
        /// Only zeros and hyphens, which is the pattern of the list `segment`.
        case zerosAndHyphens
        case contains(Character)
        case blank
        case shorterThan(Int)
        case longerThan(Int)

        func blocks(_ value: String) -> Bool {
            func quoted(_ value: String) -> String? {
                for quote in ["'", "\""] where value.count > 1 && value.hasPrefix(quote) && value.hasSuffix(quote) {
                    return String(value.dropFirst().dropLast())
                }
                return nil
            }
            switch self {
            case .same(let text): return value == text
            case .sameAlsoQuoted(let text): return value == text || quoted(value) == text
            case .anyCase(let text): return value.lowercased() == text.lowercased()
            case .anyCaseAlsoQuoted(let text):
                return value.lowercased() == text.lowercased() || quoted(value)?.lowercased() == text.lowercased()
            case .zerosAndHyphens: return value.allSatisfy { $0 == "0" || $0 == "-" }
            case .contains(let part): return value.contains(part)
            case .blank: return value.allSatisfy(\.isWhitespace)
            case .shorterThan(let count): return value.unicodeScalars.count < count
            case .longerThan(let count): return value.unicodeScalars.count > count
            }
        }
    }

    struct Call {
        /// `identify`, `login` or `logout`.
        let kind: String
        /// At most one value of each type.
        let names: [Name]
        let previous: Int64?
    }

    /// The answer to a call. All lists are sorted.
    struct Answer: Equatable {
        var refusal: String?
        var person: Int64 = 0
        var root: Int64 = 0
        var isKnown = false
        var isNew = false
        var matched: [String] = []
        var linked: [String] = []
        var left: [String] = []
        var merged: [String] = []
        var keptApart: [String] = []
        var ground = ""
    }

    /// A person, or a group where the strategy decides on groups.
    private struct Holder: Equatable {
        let id: Int64
        let members: Set<Int64>
    }

    private struct Merge {
        let id: Int64
        let from: Int64
        let into: Int64
        /// `administrator`, `match` or `same_user_id`.
        let rule: String
    }

    static let devices: Set<String> = [
        "ios_idfa", "ios_idfv", "push_token", "device_application_stamp", "android_aaid", "android_uuid", "amp_id",
        "roku_aid", "roku_publisher_id", "fire_aid", "microsoft_aid", "microsoft_publisher_id",
    ]

    /// The types with which the dialects name a user by the customer's own id.
    static let userTypes = ["customerid", "claim_user_id", "access_identity", "linking_external_id"]
    private static let otherUsers = Set(userTypes.dropFirst())

    private(set) var rules: Rules
    /// The people and their identities, both in the order in which calls made them.
    private var people: [Int64] = []
    private var links: [(person: Int64, name: Name, at: Int64)] = []
    /// The time of the present call, in milliseconds.
    private var now: Int64 = 0
    private var merges: [Merge] = []
    private var seenAt: [Int64: Int] = [:]
    private var parted: Set<Set<Int64>> = []
    private var lastUsers: [Name: Int64] = [:]
    private var neutrals: [Name: Int64] = [:]
    private var standIns: [Set<Name>: Int64] = [:]
    private var clock = 0

    init(_ rules: Rules) { self.rules = rules }

    // MARK: - Groups

    func group(of person: Int64) -> Set<Int64> {
        var group: Set<Int64> = [person]
        while true {
            let size = group.count
            for merge in merges where group.contains(merge.from) || group.contains(merge.into) {
                group.formUnion([merge.from, merge.into])
            }
            if group.count == size { return group }
        }
    }

    /// The root of a group: each merge of two groups gives both the root of the second.
    func root(of person: Int64) -> Int64 {
        var roots: [Int64: Int64] = [:]
        func current(_ id: Int64) -> Int64 { roots[id] ?? id }
        for merge in merges {
            let (from, into) = (current(merge.from), current(merge.into))
            if from == into { continue }
            for other in people where current(other) == from { roots[other] = into }
        }
        return current(person)
    }

    func holders(of name: Name) -> [Int64] { links.filter { $0.name == name }.map(\.person) }

    private func names(of people: Set<Int64>) -> [Name] { links.filter { people.contains($0.person) }.map(\.name) }

    private func holder(_ person: Int64) -> Holder {
        rules.decideOn == "group"
            ? Holder(id: root(of: person), members: group(of: person)) : Holder(id: person, members: [person])
    }

    private func madeFirst(_ holder: Holder) -> Int64 { holder.members.min() ?? holder.id }

    /// The holders of an identity, the first made first.
    private func parties(_ name: Name) -> [Holder] {
        var parties: [Holder] = []
        for person in holders(of: name) {
            let holder = holder(person)
            if !parties.contains(holder) { parties.append(holder) }
        }
        return parties.sorted { madeFirst($0) < madeFirst($1) }
    }

    private func holds(_ holder: Holder, _ name: Name) -> Bool { names(of: holder.members).contains(name) }

    /// Known is a question about the whole group, also where calls decide on people (decision 3).
    private func isKnown(_ holder: Holder) -> Bool {
        names(of: group(of: holder.id)).contains { makesKnown($0.type) }
    }

    /// A user id of another dialect makes known too.
    private func makesKnown(_ type: String) -> Bool { rules.login.contains(type) || Self.otherUsers.contains(type) }

    private func rank(_ type: String) -> Int { rules.hierarchy.firstIndex(of: type) ?? rules.hierarchy.count }

    // MARK: - Calls of an administrator

    /// Merges two people; the code of a refusal, or nil.
    mutating func merge(_ from: Int64, into: Int64, id: Int64) -> String? {
        clock += 1
        let isMerged = merges.contains { $0.rule == "administrator" && Set([$0.from, $0.into]) == Set([from, into]) }
        if from == into || isMerged { return "one_already" }
        let union = group(of: from).union(group(of: into))
        if !group(of: from).contains(into), isFull(union.count, identities: names(of: union).count) {
            return "group_full"
        }
        merges.append(Merge(id: id, from: from, into: into, rule: "administrator"))
        return nil
    }

    /// Links a user id of another dialect to a person, as a call of that dialect does.
    mutating func link(_ name: Name, to person: Int64, id: Int64, at moment: Int64) {
        clock += 1
        links.append((person, name, moment))
        _ = joinSameUserIDs(of: [name], person, id)
    }

    /// Equal user ids of several dialects belong to one human: the person of a new link is merged with each holder of the same
    /// value in another dialect, once. An undone merge stays undone, whoever of the two groups it connected, and a group that would be too large stays apart.
    private mutating func joinSameUserIDs(of linked: [Name], _ person: Int64, _ id: Int64) -> [String] {
        guard rules.joinsSameUserIDs else { return [] }
        var (made, next): ([String], Int64) = ([], id)
        for name in linked
        where Self.userTypes.contains(name.type) && !rules.blocked.contains(where: { $0.blocks(name.value) }) {
            for type in Self.userTypes where type != name.type {
                for holder in holders(of: Name(type: type, value: name.value)).sorted() where holder != person {
                    let pair = Set([person, holder])
                    let isMade = merges.contains { $0.rule == "same_user_id" && Set([$0.from, $0.into]) == pair }
                    if isMade || parted.contains(pair) { continue }
                    let union = group(of: person).union(group(of: holder))
                    let areOne = group(of: person).contains(holder)
                    let areParted = group(of: person).contains { one in
                        group(of: holder).contains { parted.contains([one, $0]) }
                    }
                    if !areOne, areParted { continue }
                    if !areOne, isFull(union.count, identities: names(of: union).count) { continue }
                    merges.append(Merge(id: next, from: person, into: holder, rule: "same_user_id"))
                    made.append("\(person) \(holder)")
                    next += 1
                }
            }
        }
        return made
    }

    private func isFull(_ members: Int, identities: Int) -> Bool {
        members > rules.membersPerGroup || identities > rules.identitiesPerGroup ?? .max
    }

    /// Undoes a merge. No rule merges the two people again.
    mutating func undo(_ id: Int64) -> String? {
        clock += 1
        guard let merge = merges.first(where: { $0.id == id }) else { return "not_found" }
        merges.removeAll { $0.id == id }
        if merge.rule != "administrator" || rules.mergesPeople { parted.insert([merge.from, merge.into]) }
        return nil
    }

    var mergeIDs: [Int64] { merges.map(\.id) }

    // MARK: - The procedure

    /// A call while it is decided.
    private struct Search {
        let call: Call
        /// The reasons why identities take no part.
        var aside: [Name: String] = [:]
        var separated: [Holder] = []
        /// Pairs of a rule and a root.
        var apart: [(rule: String, root: Int64)] = []
        var ground = "nobody_found"
        var protectsKnown: Bool

        var taking: [Name] { call.names.filter { aside[$0] == nil } }

        mutating func keepApart(_ holder: Holder, _ rule: String, _ root: Int64) {
            if !apart.contains(where: { $0.rule == rule && $0.root == root }) { apart.append((rule, root)) }
        }
    }

    private enum Target {
        case found(Holder)
        case new
        case neutral(Name)
    }

    private struct Refused: Error { let code: String }

    /// Decides a call.
    ///
    /// - Parameters:
    ///   - fresh: the id of a person that the call makes.
    ///   - isReadOnly: whether the call is a dry run.
    mutating func answer(_ call: Call, fresh: Int64, at moment: Int64 = 0, isReadOnly: Bool = false) -> Answer {
        now = moment
        let before = self
        clock += 1
        var answer: Answer
        do {
            answer = try decide(call, fresh)
        } catch {
            self = before
            clock += 1
            return Answer(refusal: (error as? Refused)?.code ?? "unknown")
        }
        if isReadOnly {
            self = before
            clock += 1
            if answer.isNew {
                // A dry run makes no person, so no id exists.
                (answer.person, answer.root) = (0, answer.root == fresh ? 0 : answer.root)
                answer.merged = answer.merged.map { merge in
                    merge.split(separator: " ").map { $0 == "\(fresh)" ? "0" : $0 }.joined(separator: " ")
                }.sorted()
            }
        } else {
            seenAt[answer.person] = clock
        }
        return answer
    }

    private mutating func decide(_ call: Call, _ fresh: Int64) throws -> Answer {
        var search = Search(call: call, protectsKnown: rules.protectsKnown)
        // Step 1.
        for name in call.names {
            let isShared = RulesModel.devices.contains(name.type)
            if rules.blocked.contains(where: { $0.blocks(name.value) }) {
                search.aside[name] = "blocked_value"
            } else if holders(of: name).count >= (isShared ? rules.sharedDevicePeople : 1000) {
                search.aside[name] = "too_common"
            }
        }
        func namesLogin() -> Bool { search.taking.contains { rules.login.contains($0.type) } }
        // Who logs out is given no known person, unless the call names the person.
        if call.kind == "logout", rules.onLogout == "return", !namesLogin() { search.protectsKnown = true }
        // Step 2.
        if rules.onNewKnown == "create", !rules.login.isEmpty, call.kind == "login", !namesLogin() {
            throw Refused(code: "no_login_identity")
        }
        // Steps 3 and 4.
        if let target = withoutSearch(&search) { return settle(target, [], &search, fresh) }
        while true {
            guard let target = try self.target(&search) else { continue }
            guard let others = try self.others(target, &search) else { continue }
            return settle(target, others, &search, fresh)
        }
    }

    /// The identities that take part and find people, by hierarchy.
    private func searched(_ search: Search) -> [Name] {
        rules.hierarchy.compactMap { type in search.taking.first { $0.type == type } }
    }

    private func isPrevious(_ holder: Holder, _ search: Search) -> Bool {
        search.call.previous.map { holder.id == self.holder($0).id } ?? false
    }

    private func withoutSearch(_ search: inout Search) -> Target? {
        let call = search.call
        let devices = searched(search).filter { RulesModel.devices.contains($0.type) }
        if !devices.isEmpty, call.names.allSatisfy({ RulesModel.devices.contains($0.type) }) {
            switch rules.deviceWithoutUser {
            case "last_known":
                for device in devices {
                    guard let user = lastUsers[device] else { continue }
                    search.ground = "last_known_user"
                    return .found(holder(user))
                }
            case "first_known":
                for device in devices {
                    guard let user = holders(of: device).map({ holder($0) }).first(where: isKnown) else { continue }
                    search.ground = "first_known_user"
                    return .found(user)
                }
            case "always_new":
                search.ground = "always_new"
                for device in devices {
                    let before = parties(device).first { isPrevious($0, search) && !isKnown($0) }
                    if let before { return .found(before) }
                }
                return .new
            default: break
            }
        }
        let namesLogin = search.taking.contains { rules.login.contains($0.type) }
        if call.kind == "logout", rules.onLogout == "create", !rules.login.isEmpty, !namesLogin {
            search.ground = "strategy"
            return .new
        }
        return nil
    }

    /// Steps 5 to 8; nil where an identity was demoted.
    private func target(_ search: inout Search) throws -> Target? {
        // Step 5.
        let namesLogin = search.taking.contains { rules.login.contains($0.type) }
        if rules.contestedDevice == "stable_anonymous", !namesLogin {
            var first: Name?
            let others = search.taking.filter { !rules.hierarchy.contains($0.type) }
            for device in searched(search) + others where RulesModel.devices.contains(device.type) {
                guard parties(device).filter(isKnown).count >= 2 else { continue }
                search.aside[device] = "contested_device"
                first = first ?? device
            }
            if let first, search.taking.isEmpty {
                search.ground = "contested_device"
                return .neutral(first)
            }
        }
        // Step 7, the first part: the question is about groups.
        if rules.onExistingUser == "refuse" {
            let held = searched(search).map { Set(holders(of: $0).map(root)) }.filter { !$0.isEmpty }
            if let first = held.first, held.dropFirst().reduce(first, { $0.intersection($1) }).isEmpty {
                throw Refused(code: "identity_in_use")
            }
        }
        let logins = search.taking.filter { rules.login.contains($0.type) }
        if rules.onNewKnown == "create", !logins.isEmpty, logins.allSatisfy({ holders(of: $0).isEmpty }) {
            search.ground = "strategy"
            return .new
        }
        // Steps 6 and 8.
        while let found = find(&search) {
            let over = typesOver([found], search)
            if over.isEmpty || rules.onLimit == "leave" { return .found(found) }
            switch rules.onLimit {
            case "demote":
                demote(over, [found], &search)
                return nil
            case "separate":
                search.separated.append(found)
                for type in over { search.keepApart(found, "limit_reached:\(type)", root(of: found.id)) }
            default: throw Refused(code: "limit_reached")
            }
        }
        search.ground = "nobody_found"
        return .new
    }

    /// Step 6.
    private func find(_ search: inout Search) -> Holder? {
        var candidates: [Holder] = []
        for name in searched(search) {
            let holders = parties(name)
            if candidates.isEmpty {
                candidates = holders.filter { holder in
                    !search.separated.contains { $0.id == holder.id } && reasonToExclude(holder, search) == nil
                }
            } else {
                let both = candidates.filter(holders.contains)
                if !both.isEmpty { candidates = both }
            }
            if candidates.count == 1 {
                search.ground = name.type
                return candidates[0]
            }
        }
        if candidates.isEmpty { return nil }
        if let previous = candidates.first(where: { isPrevious($0, search) }) {
            search.ground = "previous_mpid"
            return previous
        }
        search.ground = "last_seen"
        func seen(_ holder: Holder) -> Int { holder.members.compactMap { seenAt[$0] }.max() ?? 0 }
        let last = candidates.map(seen).max()
        return candidates.filter { seen($0) == last }.min { madeFirst($0) < madeFirst($1) }
    }

    /// The rule that protects a group from a call. It is always about the whole group (decision 3).
    private func reasonToExclude(_ holder: Holder, _ search: Search) -> String? {
        let group = group(of: holder.id)
        let held = names(of: group)
        func isProtected(_ types: Set<String>, by others: Set<String> = []) -> Bool {
            held.contains { types.contains($0.type) || others.contains($0.type) }
                && !search.taking.contains { types.contains($0.type) && held.contains($0) }
        }
        /// An equal user id of another dialect is a match too, unless somebody else has the call's user id.
        let matchesEqualID =
            rules.joinsSameUserIDs
            && search.taking.contains { name in
                name.type == "customerid" && holders(of: name).isEmpty
                    && held.contains { Self.otherUsers.contains($0.type) && $0.value == name.value }
            }
        if search.protectsKnown, !matchesEqualID {
            if !rules.login.isEmpty {
                if isProtected(rules.login, by: Self.otherUsers) { return "no_login_identity_matches" }
            } else if group.count > 1, search.taking.contains(where: { $0.type == "customerid" }) {
                // A strategy without login types protects merged people from other users alone (spec/taking-back.md).
                if isProtected(["customerid"], by: Self.otherUsers) { return "no_login_identity_matches" }
            }
        }
        return isProtected(rules.immutable) ? "no_immutable_identity_matches" : nil
    }

    /// The types with too many values. One group is over only by a value of the call; several are over by all values.
    private func typesOver(_ holders: [Holder], _ search: Search) -> [String] {
        let groups = holders.map { group(of: $0.id) }
        let held = Set(groups.flatMap { names(of: $0) })
        return rules.limits.keys.sorted().filter { type in
            let added = search.taking.filter { $0.type == type && !held.contains($0) }
            if holders.count < 2, added.isEmpty { return false }
            let members = Set(groups.flatMap(\.self))
            let counted = links.filter { link in
                let isRecent = rules.windowDays[type].map { link.at > now - Int64($0) * 86_400_000 } ?? true
                return link.name.type == type && members.contains(link.person) && isRecent
            }
            return Set(counted.map(\.name)).count + added.count > rules.limits[type] ?? 0
        }
    }

    private func demote(_ over: [String], _ holders: [Holder], _ search: inout Search) {
        func isHeld(_ name: Name) -> Bool { holders.contains { names(of: group(of: $0.id)).contains(name) } }
        let weakest = search.taking.filter { over.contains($0.type) || isHeld($0) }.max {
            rank($0.type) < rank($1.type)
        }
        guard let weakest else { preconditionFailure("Nothing is left to demote.") }
        search.aside[weakest] = over.contains(weakest.type) && !isHeld(weakest) ? "limit_reached" : "demoted"
    }

    /// Step 9; nil where an identity was demoted.
    private func others(_ target: Target, _ search: inout Search) throws -> [Holder]? {
        if rules.mergeOnMatch == "never" { return [] }
        let own: Holder?
        switch target {
        case .found(let holder): own = holder
        case .new: own = nil
        case .neutral: return []
        }
        var others: [Holder] = []
        for party in searched(search).flatMap({ parties($0) })
        where party.id != own?.id && !others.contains(party) && !search.separated.contains(where: { $0.id == party.id })
        {
            others.append(party)
        }
        let becomesKnown = search.taking.contains { name in
            rules.login.contains(name.type)
                && (!rules.unique.contains(name.type) || holders(of: name).isEmpty
                    || own.map { holds($0, name) } == true)
        }
        let isKnownTarget = own.map(isKnown) ?? false || becomesKnown
        var merging: [Holder] = []
        for other in others {
            func keepApart(_ rule: String) { search.keepApart(other, rule, root(of: other.id)) }
            let together = [own].compactMap(\.self) + merging + [other]
            let over = typesOver(together, search)
            if rules.mergeOnMatch == "anonymous_into_known" {
                if isKnown(other) {
                    if rules.onLimit == "refuse", !over.isEmpty { throw Refused(code: "limit_reached") }
                    keepApart("known_into_known")
                    continue
                }
                if !isKnownTarget { continue }
            } else if let rule = reasonToExclude(other, search) {
                keepApart(rule)
                continue
            } else if !rules.knownIntoKnown, isKnown(other), together.dropLast().contains(where: isKnown),
                together.contains(where: { names(of: group(of: $0.id)).contains { Self.otherUsers.contains($0.type) } })
            {
                // Limits keep the users of IDSync apart, and user ids of other dialects have no limits.
                keepApart("known_into_known")
                continue
            }
            if let rule = guardAgainst(other, own, search) {
                keepApart(rule)
                continue
            }
            let isParted = together.dropLast().contains { one in
                one.members.contains { member in other.members.contains { parted.contains([member, $0]) } }
            }
            if isParted {
                keepApart("parted")
                continue
            }
            let members = together.reduce(own == nil ? 1 : 0) { $0 + $1.members.count }
            if isFull(members, identities: together.reduce(0) { $0 + names(of: $1.members).count }) {
                keepApart("group_full")
                continue
            }
            if !over.isEmpty {
                switch rules.onLimit {
                case "demote":
                    demote(over, [own].compactMap(\.self) + [other], &search)
                    return nil
                case "refuse": throw Refused(code: "limit_reached")
                default:
                    for type in over { keepApart("limit_reached:\(type)") }
                    continue
                }
            }
            merging.append(other)
        }
        return merging
    }

    private func guardAgainst(_ other: Holder, _ own: Holder?, _ search: Search) -> String? {
        if rules.mergeGuards.contains("target_without_device"), let own,
            names(of: own.members).contains(where: { RulesModel.devices.contains($0.type) })
        {
            return "target_has_device"
        }
        let ways = search.taking.filter { RulesModel.devices.contains($0.type) && holds(other, $0) }
        if rules.mergeGuards.contains("device_is_uuid4"), !ways.allSatisfy({ RulesModel.isUUID4($0.value) }) {
            return "device_not_uuid4"
        }
        return nil
    }

    /// The first id after the merges of a call.
    private func nextID(after made: [String], _ fresh: Int64) -> Int64 {
        made.isEmpty ? fresh : (merges.map(\.id).max() ?? fresh) + 1
    }

    static func isUUID4(_ value: String) -> Bool {
        let parts = value.split(separator: "-", omittingEmptySubsequences: false)
        return parts.map(\.count) == [8, 4, 4, 4, 12] && parts.allSatisfy { $0.allSatisfy(\.isHexDigit) }
            && parts[2].hasPrefix("4") && "89abAB".contains(parts[3].first ?? "-")
    }

    // MARK: - Steps 10 to 12

    private mutating func settle(_ target: Target, _ merging: [Holder], _ search: inout Search, _ fresh: Int64)
        -> Answer
    {
        switch target {
        case .neutral(let device):
            let known = neutrals[device].flatMap { isNobody($0) ? $0 : nil }
            neutrals[device] = known ?? fresh
            return kept(known, search, fresh)
        case .new:
            let isStandIn =
                merging.isEmpty && search.ground == "nobody_found"
                && search.call.names.allSatisfy { name in
                    [nil, "demoted"].contains(search.aside[name]) && rules.unique.contains(name.type)
                        && !holders(of: name).isEmpty
                }
            guard isStandIn else { return attach(nil, merging, search, fresh) }
            search.ground = "stand_in"
            let key = Set(search.call.names)
            let known = standIns[key].flatMap { isNobody($0) ? $0 : nil }
            standIns[key] = known ?? fresh
            for name in search.call.names where search.aside[name] == nil { search.aside[name] = "held_elsewhere" }
            return kept(known, search, fresh)
        case .found(let holder): return attach(holder, merging, search, fresh)
        }
    }

    /// Whether a person holds nothing and is alone. Only such a person is a stand-in or a neutral person.
    private func isNobody(_ person: Int64) -> Bool {
        names(of: [person]).isEmpty && group(of: person).count == 1
    }

    private mutating func kept(_ known: Int64?, _ search: Search, _ fresh: Int64) -> Answer {
        if known == nil { people.append(fresh) }
        var answer = Answer(person: known ?? fresh, root: known ?? fresh, isNew: known == nil, ground: search.ground)
        answer.left = search.aside.map { "\($0.key.type) \($0.value)" }.sorted()
        answer.keptApart = search.apart.map(\.rule).sorted()
        return answer
    }

    private mutating func attach(_ target: Holder?, _ merging: [Holder], _ search: Search, _ fresh: Int64) -> Answer {
        let parties = [target].compactMap(\.self) + merging
        var answer = Answer(isNew: target == nil, ground: search.ground)
        answer.keptApart = search.apart.map(\.rule).sorted()
        var winner = target
        if rules.mergeRoot == "oldest", target != nil {
            winner = parties.min { (madeFirst($0), $0.id) < (madeFirst($1), $1.id) }
        }
        let person = winner?.id ?? fresh
        if target == nil { people.append(fresh) }
        let own = target.map { names(of: $0.members) } ?? []
        let held = Set(parties.flatMap { names(of: $0.members) })
        let over = target == nil ? [] : typesOver(parties, search)
        // Step 11.
        for name in search.call.names {
            if held.contains(name) {
                if own.contains(name) { answer.matched.append(name.type) }
            } else if let reason = search.aside[name] {
                answer.left.append("\(name.type) \(reason)")
            } else if rules.immutable.contains(name.type), own.contains(where: { $0.type == name.type }) {
                answer.left.append("\(name.type) immutable")
            } else if over.contains(name.type) {
                answer.left.append("\(name.type) limit_reached")
            } else if rules.unique.contains(name.type), !holders(of: name).isEmpty {
                answer.left.append("\(name.type) held_elsewhere")
            } else if names(of: [person]).count(where: { !Self.otherUsers.contains($0.type) })
                >= rules.identitiesPerPerson
                || RulesModel.devices.contains(name.type)
                    && names(of: [person]).count(where: { $0.type == name.type }) >= rules.identitiesPerDeviceType
            {
                answer.left.append("\(name.type) person_full")
            } else {
                links.append((person, name, now))
                answer.linked.append(name.type)
            }
        }
        // Step 12.
        answer.merged = join(parties, winner, person, search, fresh)
        if rules.deviceWithoutUser == "last_known" {
            let nowHeld = held.union(search.call.names.filter { answer.linked.contains($0.type) })
            if search.taking.contains(where: { rules.login.contains($0.type) && nowHeld.contains($0) }) {
                for device in search.taking where RulesModel.devices.contains(device.type) {
                    // The fact follows the group, so the same group is no change.
                    let user = lastUsers[device]
                    if user.map({ group(of: person).contains($0) }) != true { lastUsers[device] = person }
                }
            }
        }
        // The answer knows the merges of equal user ids. The person is the one that the search found or that the call made.
        let linked = search.call.names.filter { answer.linked.contains($0.type) }
        let isOfGroup = rules.decideOn == "group"
        let becomesKnown = linked.contains { rules.login.contains($0.type) }
        answer.isKnown =
            becomesKnown
            || (isOfGroup
                ? isKnown(Holder(id: person, members: [person]))
                : names(of: [person]).contains { rules.login.contains($0.type) })
        let next = max(nextID(after: answer.merged, fresh), target == nil ? fresh + 1 : fresh)
        answer.merged = (answer.merged + joinSameUserIDs(of: linked, person, next)).sorted()
        (answer.person, answer.root) = (person, root(of: person))
        answer.matched.sort()
        answer.linked.sort()
        answer.left.sort()
        return answer
    }

    /// Each member that holds an identity of the call has one merge by rule with the member that holds the strongest one, once
    /// (decision 7).
    private mutating func join(
        _ parties: [Holder], _ winner: Holder?, _ person: Int64, _ search: Search, _ fresh: Int64
    ) -> [String] {
        guard rules.mergesPeople else { return [] }
        let all = Set(parties.flatMap(\.members)).union([person])
        var holding: [Int64] = []
        for name in searched(search) {
            for holder in Set(holders(of: name)).sorted() where all.contains(holder) && !holding.contains(holder) {
                holding.append(holder)
            }
        }
        guard let hub = holding.first, holding.count > 1 else { return [] }
        var made: [String] = []
        var next = winner == nil ? fresh + 1 : fresh
        func add(_ from: Int64, _ into: Int64, _ model: inout RulesModel) {
            model.merges.append(Merge(id: next, from: from, into: into, rule: "match"))
            made.append("\(from) \(into)")
            next += 1
        }
        // The root of the last merge stands for all, so the group of the strongest holder joins the winner first.
        let winners = winner?.members ?? [person]
        if !winners.contains(hub) { add(hub, holding.first(where: winners.contains) ?? person, &self) }
        for holder in holding where !group(of: hub).contains(holder) { add(holder, hub, &self) }
        for holder in holding where holder != hub && !parted.contains([hub, holder]) {
            let isNoted = merges.contains { $0.rule == "match" && Set([$0.from, $0.into]) == [hub, holder] }
            if !isNoted { add(holder, hub, &self) }
        }
        return made.sorted()
    }
}
