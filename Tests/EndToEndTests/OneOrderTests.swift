import Domain
import Foundation
import StorePostgres
import TestKit
import Testing
import Threads

/// Several servers over one database, with many clients whose calls meet: there is one order of all calls in which the model
/// gives each of them the answer that it got, and which no client can have seen to be wrong.
@Suite(
    "Servers over one database, and the model", .serialized,
    .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct OneOrderTests {
    private static let clients = 64
    private static let callsOfEach = 5

    @Test("every answer follows from one order of all calls", arguments: Soak.seeds(3))
    func order(_ seed: UInt64) throws {
        let way = PostgresWay.allCases[Int(seed) % PostgresWay.allCases.count]
        let settings = try way.newSchema()
        let flags = [
            "--store", settings.address, "--store-schema", settings.schema, "--store-prepared",
            settings.preparesStatements ? "on" : "off",
        ]
        let store = try Store(flags: flags)
        let rules = ["customerid", "email", "other", "ios_idfv"].map { "\"\($0)\"" }.joined(separator: ",")
        let servers = try (0..<2 + Int(seed % 2)).map { number in
            try ServerProcess(data: try store.another(number), flags: flags)
        }
        // One value belongs to one person: then no answer depends on when somebody was seen last, which servers tell each
        // other now and then only.
        let set = try servers[0].client.call(
            "PUT", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(store.adminKey)")],
            json: #"{"unique":[\#(rules)]}"#)
        #expect(set.status == 200, "\(set)")

        let crowd = Crowd(store, servers.map(\.port), seed)
        let calls = crowd.run(clients: OneOrderTests.clients * servers.count, OneOrderTests.callsOfEach)
        for server in servers { #expect(server.stop() == 0) }
        #expect(calls.count == OneOrderTests.clients * servers.count * OneOrderTests.callsOfEach)
        #expect(calls.filter { $0.answer.hasPrefix("?") }.map(\.answer) == [])

        let unexplained = try Order(calls, settings).unexplained()
        #expect(unexplained == [], "ONYM_SEED=\(seed)")
        Soak.report("seed \(seed): \(calls.count) calls of \(servers.count) servers follow from one order")
    }
}

/// A call of a client, and what it was answered.
private struct MadeCall {
    let id: String
    let act: any Act
    var answer = ""
    /// The answer's body, where the call was refused.
    var refusal = ""
    var start = ContinuousClock.now
    var end = ContinuousClock.now
}

/// The clients.
private final class Crowd: Sendable {
    private let store: Store
    private let ports: [UInt16]
    private let seed: UInt64
    /// Who was answered, and which merges were made.
    private let known = Monitor<(people: [PersonID], merges: [MergeID])>(([], []))
    private let made = Monitor<[MadeCall]>([])

    private static let types: [(type: IdentityType, values: Int)] = [
        (.customerID, 30), (.email, 30), (.other, 20), (.iosIDFV, 40),
    ]

    init(_ store: Store, _ ports: [UInt16], _ seed: UInt64) {
        (self.store, self.ports, self.seed) = (store, ports, seed)
    }

    func run(clients: Int, _ count: Int) -> [MadeCall] {
        let threads = (0..<clients).map { number in
            WorkerThread(name: "client-\(number)") { [self] in
                var generator = SeededGenerator(seed: seed &* 7919 &+ UInt64(number))
                let client = HTTPClient(port: ports[number % ports.count])
                for round in 0..<count {
                    let call = make("c\(number)-\(round)", client, &generator)
                    made.change { $0.append(call) }
                }
            }
        }
        for thread in threads { thread.join() }
        return made.withLock { $0 }
    }

    private func make(_ id: String, _ client: HTTPClient, _ generator: inout SeededGenerator) -> MadeCall {
        let (people, merges) = known.withLock { ($0.people.suffix(40), $0.merges.suffix(10)) }
        var (path, body, act): (String, String, any Act)
        let names = names(&generator)
        let person = people.randomElement(using: &generator)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<2: (path, body, act) = ("/v1/search", named(names), Search(identities: identities(names)))
        case 2..<6 where person != nil:
            guard let person else { preconditionFailure() }
            let (type, values) = Crowd.types.randomElement(using: &generator) ?? Crowd.types[0]
            let old = generator.oneIn(2) ? nil : "v\(Int.random(in: 0..<values, using: &generator))"
            let new = old != nil && generator.oneIn(3) ? nil : "v\(Int.random(in: 0..<values, using: &generator))"
            path = "/v1/\(person.rawValue)/modify"
            body = #"""
                {"environment":"development","identity_changes":[{"identity_type":"\#(type.name)",\#
                "old_value":\#(json(old)),"new_value":\#(json(new))}]}
                """#
            let item = Modify.Item(
                type, old: old.map { World.identity(type, $0) }, new: new.map { World.identity(type, $0) })
            act = Modify(person: person, items: [item])
        case 6..<8 where people.count > 1:
            let pair = people.shuffled(using: &generator)
            (path, act) = ("/onym/v1/merges", MergePeople(from: pair[0], into: pair[1]))
            body = #"{"from":"\#(pair[0].rawValue)","into":"\#(pair[1].rawValue)"}"#
        case 8 where !merges.isEmpty:
            guard let merge = merges.randomElement(using: &generator) else { preconditionFailure() }
            (path, body) = ("/onym/v1/merges/m_\(merge.rawValue)/undo", "{}")
            act = UndoMerge(merge)
        case 9..<12:
            (path, body) = ("/v1/login", named(names))
            act = Identify(.login, identities: identities(names))
        case 12:
            (path, body) = ("/v1/logout", named(names))
            act = Identify(.logout, identities: identities(names))
        default:
            (path, body) = ("/v1/identify", named(names))
            act = Identify(.start, identities: identities(names))
        }
        var call = MadeCall(id: id, act: act)
        call.start = .now
        do {
            let answer = try client.call(
                "POST", path,
                fields: [
                    path.hasPrefix("/onym")
                        ? ("Authorization", "Bearer \(store.adminKey)") : ("x-mp-key", store.webKey),
                    ("X-Request-Id", id),
                ], json: body)
            call.end = .now
            call.answer = read(answer, path)
            if call.answer == "refused" { call.refusal = answer.body }
        } catch {
            call.answer = "? \(error)"
        }
        return call
    }

    /// What a call was answered, as the model says it.
    private func read(_ answer: Wire.Answer, _ path: String) -> String {
        let object = JSONAnswer(answer).object
        guard answer.status == 200 else {
            return answer.status < 500 ? "refused" : "? \(answer.status) \(answer.body)"
        }
        if path.hasSuffix("/undo") { return "undone" }
        if path == "/onym/v1/merges" {
            guard let merge = (object["id"] as? String).flatMap({ Int64($0.dropFirst(2)) }) else {
                return "? \(answer.body)"
            }
            known.change { $0.merges.append(MergeID(rawValue: merge)) }
            return "merged \(merge)"
        }
        if path.hasSuffix("/modify") { return "modified" }
        guard let person = (object["mpid"] as? String).flatMap(Int64.init) else { return "? \(answer.body)" }
        known.change { $0.people.append(PersonID(rawValue: person)) }
        let matched = (object["matched_identities"] as? [String: Any] ?? [:]).keys.sorted()
        return "\(person) \(matched) \(object["is_logged_in"] as? Bool == true)"
    }

    private func names(_ generator: inout SeededGenerator) -> [IdentityType: String] {
        var names: [IdentityType: String] = [:]
        while names.isEmpty {
            for (type, values) in Crowd.types where generator.oneIn(3) {
                names[type] = "v\(Int.random(in: 0..<values, using: &generator))"
            }
        }
        return names
    }

    private func identities(_ names: [IdentityType: String]) -> [Identity] { World.identities(names) }

    private func named(_ names: [IdentityType: String]) -> String {
        let list = names.map { "\"\($0.key.name)\":\"\($0.value)\"" }.joined(separator: ",")
        return #"{"environment":"development","known_identities":{\#(list)}}"#
    }

    private func json(_ text: String?) -> String { text.map { "\"\($0)\"" } ?? "null" }
}

/// The order of the calls, as the journal has it, and the model that goes along.
private struct Order {
    private let calls: [MadeCall]
    private let journal: [RecordedCall]
    private var world: World

    init(_ calls: [MadeCall], _ settings: PostgresSettings) throws {
        let store = try StoreFixture.openPostgres(settings)
        defer { store.close() }
        self.calls = calls
        journal = try store.read { snapshot throws(StoreFault) in
            var journal: [RecordedCall] = []
            while true {
                let page = try snapshot.calls(after: journal.last?.sequence ?? .zero, limit: 500)
                if page.isEmpty { return journal }
                journal += page
            }
        }
        let project = try #require(store.directory.projects.keys.first)
        world = World(store.directory.strategies(of: project).current.strategy)
    }

    /// Calls whose answers follow from no place that they can have in the order.
    func unexplained() throws -> [String] {
        var world = world
        let made = Dictionary(calls.map { ($0.id, $0) }) { one, _ in one }
        var places: [String: Int] = [:]
        var wrong: [String] = []
        for (place, recorded) in journal.enumerated() where made[recorded.requestID] != nil {
            if places.updateValue(place, forKey: recorded.requestID) != nil {
                wrong.append("\(recorded.requestID) is in the journal twice")
            }
        }
        // Those that changed something have their place; what was answered before a call began stands before it.
        let placed = calls.filter { places[$0.id] != nil }
        for call in placed {
            let place = places[call.id] ?? 0
            for other in placed where other.end < call.start && (places[other.id] ?? 0) > place {
                wrong.append("\(other.id) was answered before \(call.id) began, and stands behind it")
            }
        }
        var open = calls.filter { places[$0.id] == nil }.map { call in
            let before = placed.filter { $0.end < call.start }.compactMap { places[$0.id] }.max() ?? -1
            let after = placed.filter { $0.start > call.end }.compactMap { places[$0.id] }.min() ?? journal.count
            return (call: call, states: before + 1...max(before + 1, after))
        }
        for place in 0...journal.count {
            open.removeAll { $0.states.contains(place) && answer($0.call.act, in: world) == $0.call.answer }
            guard place < journal.count else { break }
            let recorded = journal[place]
            guard let call = made[recorded.requestID] else { continue }
            let stamp = stamp(of: recorded)
            let expected = answer(call.act, stamp, in: world)
            if expected != call.answer { wrong.append("\(call.id): \(call.act): \(call.answer), not \(expected)") }
            if let decision = try? world.decide(call.act, stamp) { world.keep(decision, stamp) }
        }
        return wrong
            + open.map { "\($0.call.id) in \($0.states): \($0.call.act): \($0.call.answer) \($0.call.refusal)" }
    }

    /// When a call was decided, and the id that it was given for whatever it makes.
    private func stamp(of recorded: RecordedCall) -> Stamp {
        var person = PersonID(rawValue: 0)
        for fact in recorded.facts {
            switch fact {
            case .personMade(let id): person = id
            case .merged(let merge): person = PersonID(rawValue: merge.id.rawValue)
            default: break
            }
        }
        return Stamp(at: recorded.at, person: person)
    }

    /// What a call that changes nothing is answered.
    private func answer(_ act: any Act, in world: World) -> String {
        let stamp = Stamp(at: Instant(milliseconds: 0), person: PersonID(rawValue: 0))
        let decision = try? world.decide(act, stamp)
        return decision?.outcome == nil || decision == nil ? answer(act, stamp, in: world) : "a change"
    }

    private func answer(_ act: any Act, _ stamp: Stamp, in world: World) -> String {
        do throws(Refusal) {
            switch try world.decide(act, stamp).answer.answer {
            case let identified as Identified:
                let identities = act.subjects.limitedBy
                let matched = identities.indices.filter { identified.matched & 1 << UInt64($0) != 0 }
                let names = matched.map { "\(identities[$0].type.name)" }.sorted()
                return "\(identified.person.rawValue) \(names) \(identified.isKnown)"
            case is Modified: return "modified"
            case let merge as Merge: return "merged \(merge.id.rawValue)"
            case is MergeUndone: return "undone"
            case let other: return "? \(other)"
            }
        } catch {
            return "refused"
        }
    }
}
