/// The rules of spec/idsync.md 3 and 1.6, written down a second time, as plainly as can be: arrays, sets and loops. It
/// shares nothing with the server that it judges, not even its types.
struct IDSyncModel {
    /// What a person is called: a wire name and a value.
    struct Name: Hashable {
        let type: String
        let value: String
    }

    /// A strategy (3.1).
    struct Rules: Equatable {
        var hierarchy: [String]
        var unique: Set<String>
        var login: Set<String>
        var immutable: Set<String> = []
        /// Link and Isolation: whoever is known for the first time is somebody new.
        var makesNewKnown = false
        /// Isolation: who logs out is whom the device was before.
        var returnsOnLogout = false
        /// In small letters.
        var blocked: Set<String> = []
    }

    enum Occasion { case identify, login, logout }

    struct Item {
        let type: String
        let old: String?
        let new: String?
    }

    enum Call {
        case identify(Occasion, [Name], previous: Int64?, isReadOnly: Bool)
        case search([Name])
        case modify(Int64, [Item])
        case event(Int64, id: Int, at: Int64, device: String?)
        case alias(from: Int64, into: Int64, start: Int64, end: Int64, device: String?)
        case undoAlias(Int64)
        case setRules(Rules)
    }

    struct Touch: Hashable {
        let person: Int64
        let type: String
    }

    enum Answer: Equatable {
        case person(Int64, matched: Set<String>, isLoggedIn: Bool)
        case changed(Set<Touch>)
        case aliased(Int64)
        case aliasIgnored(String)
        case refused(String)
        case done
    }

    struct Person {
        let id: Int64
        var names: [Name] = []
        var seenAt: Int64
    }

    struct Event {
        let id: Int
        let person: Int64
        let at: Int64
        let device: String?
    }

    struct Alias {
        let id: Int64
        let from: Int64
        let into: Int64
        let start: Int64
        let end: Int64
        let device: String?
        var isUndone = false
    }

    private(set) var rules: Rules
    private(set) var people: [Person] = []
    private(set) var aliases: [Alias] = []
    private var events: [Event] = []
    /// The number of the call: of two calls in one millisecond the later sees its person later.
    private var calls: Int64 = 0

    init(_ rules: Rules) { self.rules = rules }

    // MARK: - Calls

    /// What a call has to be answered with.
    ///
    /// - Parameter fresh: the id of whatever is made, because it is the server that chooses it.
    mutating func answer(_ call: Call, at now: Int64, fresh: Int64) -> Answer {
        calls += 1
        switch call {
        case .identify(let occasion, let names, let previous, let isReadOnly):
            return identify(occasion, names, previous, isReadOnly, fresh)
        case .search(let names): return search(names)
        case .modify(let id, let items): return modify(id, items)
        case .event(let person, let id, let at, let device):
            guard let index = index(of: person) else { return .refused("not_found") }
            events.append(Event(id: id, person: person, at: at, device: device))
            people[index].seenAt = calls
            return .done
        case .alias(let from, let into, let start, let end, let device):
            return alias(from, into, start, end, device, now, fresh)
        case .undoAlias(let id):
            guard let index = aliases.firstIndex(where: { $0.id == id }) else { return .refused("not_found") }
            aliases[index].isUndone = true
            return .done
        case .setRules(let rules):
            self.rules = rules
            return .done
        }
    }

    // MARK: - 3.2 Look-up

    private func usable(_ names: [Name]) -> [Name] { names.filter { !isBlocked($0.value) } }

    private func isBlocked(_ value: String) -> Bool { rules.blocked.contains(value.lowercased()) }

    private func isEligible(_ person: Person, _ names: [Name]) -> Bool {
        for set in [rules.immutable, rules.login] {
            let held = person.names.filter { set.contains($0.type) }
            if !held.isEmpty, !held.contains(where: names.contains) { return false }
        }
        return true
    }

    private func resolution(_ names: [Name], _ previous: Int64?) -> Person? {
        var candidates: [Person]?
        for type in rules.hierarchy {
            guard let name = names.first(where: { $0.type == type }) else { continue }
            let hits = people.filter { $0.names.contains(name) && isEligible($0, names) }
            if hits.isEmpty { continue }
            if let earlier = candidates {
                let both = earlier.filter { one in hits.contains { $0.id == one.id } }
                if !both.isEmpty { candidates = both }
            } else {
                candidates = hits
            }
            if let candidates, candidates.count == 1 { return candidates[0] }
        }
        // Decision 1.
        guard let candidates else { return nil }
        if let before = candidates.first(where: { $0.id == previous }) { return before }
        let last = candidates.map(\.seenAt).max()
        return candidates.filter { $0.seenAt == last }.min { $0.id < $1.id }
    }

    // MARK: - 3.3 Operations

    private mutating func identify(
        _ occasion: Occasion, _ names: [Name], _ previous: Int64?, _ isReadOnly: Bool, _ fresh: Int64
    ) -> Answer {
        let usable = usable(names)
        let logins = usable.filter { rules.login.contains($0.type) }
        // Where nobody is ever known, nobody logs in or out: Best Match.
        if !rules.login.isEmpty, rules.makesNewKnown, occasion == .login, logins.isEmpty {
            return .refused("no_login_identity")
        }
        let isNewUser = !logins.isEmpty && !people.contains { $0.names.contains(where: logins.contains) }
        // Decision 2: a logout that names a login identity says who comes.
        let leaves = occasion == .logout && logins.isEmpty && !rules.login.isEmpty && !rules.returnsOnLogout
        let isMade = isNewUser && rules.makesNewKnown || leaves
        let before = isMade ? nil : resolution(usable, previous)
        var person = before ?? Person(id: isReadOnly ? 0 : fresh, seenAt: calls)
        attach(usable, to: &person)
        if !isReadOnly {
            person.seenAt = calls
            if let index = index(of: person.id) { people[index] = person } else { people.append(person) }
        }
        return answer(person, names, before)
    }

    private func attach(_ names: [Name], to person: inout Person) {
        for name in names where !person.names.contains(name) {
            if rules.immutable.contains(name.type), person.names.contains(where: { $0.type == name.type }) { continue }
            if rules.unique.contains(name.type), people.contains(where: { $0.names.contains(name) }) { continue }
            person.names.append(name)
        }
    }

    private func search(_ names: [Name]) -> Answer {
        guard let person = resolution(usable(names), nil) else { return .refused("not_found") }
        let matched = usable(names).filter(person.names.contains)
        if !rules.immutable.isEmpty, !matched.contains(where: { rules.immutable.contains($0.type) }) {
            return .refused("not_found")
        }
        return answer(person, names, person)
    }

    /// Decision 8: known is who holds a login identity; matched is what was there before.
    private func answer(_ person: Person, _ names: [Name], _ before: Person?) -> Answer {
        let matched = names.filter { before?.names.contains($0) ?? false }.map(\.type)
        let isLoggedIn = person.names.contains { rules.login.contains($0.type) }
        return .person(person.id, matched: Set(matched), isLoggedIn: isLoggedIn)
    }

    // MARK: - 3.4 Modify

    private mutating func modify(_ id: Int64, _ items: [Item]) -> Answer {
        guard let index = index(of: id) else { return .refused("not_found") }
        let before = people
        var touched: Set<Touch> = []
        for item in items where item.old != nil || item.new != nil {
            let held = people[index].names
            let new = item.new.map { Name(type: item.type, value: $0) }
            // A value to itself: nothing where it is held, and an addition where it is not.
            if item.old == item.new, let new, held.contains(new) { continue }
            let old = item.old == item.new ? nil : item.old.map { Name(type: item.type, value: $0) }
            var names = held
            names.removeAll { $0 == old }
            if let new, !isBlocked(new.value), !names.contains(new) { names.append(new) }
            if Set(names) != Set(held) {
                if rules.immutable.contains(item.type), held.contains(where: { $0.type == item.type }) {
                    people = before
                    return .refused("immutable_identity")
                }
                people[index].names = names
                touched.insert(Touch(person: id, type: item.type))
            }
            guard let new, rules.unique.contains(item.type), !isBlocked(new.value) else { continue }
            for other in people.indices where other != index && people[other].names.contains(new) {
                if rules.immutable.contains(item.type) {
                    people = before
                    return .refused("immutable_identity")
                }
                people[other].names.removeAll { $0 == new }
                touched.insert(Touch(person: people[other].id, type: item.type))
            }
        }
        people[index].seenAt = calls
        return .changed(touched)
    }

    // MARK: - 1.6 Alias

    private mutating func alias(
        _ from: Int64, _ into: Int64, _ start: Int64, _ end: Int64, _ device: String?, _ now: Int64, _ fresh: Int64
    ) -> Answer {
        if rules.returnsOnLogout || rules.login.isEmpty { return .refused("aliases_not_allowed") }
        let start = max(start, now - 90 * 24 * 3600 * 1000)
        if from == into || index(of: from) == nil || index(of: into) == nil || start > end {
            return .refused("invalid_alias")
        }
        let inForce = aliases.filter { !$0.isUndone }
        if inForce.contains(where: { $0.from == from && $0.start <= end && start <= $0.end }) {
            return .aliasIgnored("overlaps")
        }
        if inForce.contains(where: { $0.into == from }) { return .aliasIgnored("source_was_destination") }
        if inForce.contains(where: { $0.from == into }) { return .aliasIgnored("destination_was_source") }
        aliases.append(Alias(id: fresh, from: from, into: into, start: start, end: end, device: device))
        return .aliased(fresh)
    }

    // MARK: - What there is in the end

    func index(of person: Int64) -> Int? { people.firstIndex { $0.id == person } }

    /// The events of a person, the last that came in first.
    func timeline(of person: Int64) -> [Int] {
        let aliases = aliases.filter { !$0.isUndone && $0.into == person }
        return events.reversed().filter { event in
            event.person == person
                || aliases.contains { alias in
                    alias.from == event.person && alias.start <= event.at && event.at <= alias.end
                        && (alias.device == nil || alias.device == event.device)
                }
        }.map(\.id)
    }
}
