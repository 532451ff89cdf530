import ClientKit
import Foundation
import Onym
import TestKit
import Testing

/// One login for all dialects: the answers decide whose the letters after it are.
@Suite("One login", .timeLimit(.minutes(30)))
struct OneLoginTests {
    private let bench = Bench(
        .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"))

    /// The users under whom an event was sent, at any try.
    private func mpids(of name: String) -> Set<String> {
        let uploads = bench.transport.requests.filter { $0.path.hasSuffix("/events") }
        let those = uploads.filter { request in
            (request.json["events"]?.elements ?? []).contains { $0["data"]?["event_name"] == .string(name) }
        }
        return Set(those.map { $0.json["mpid"]?.text ?? "" })
    }

    /// Answers the first open request whose path has this end; false without such a request.
    @discardableResult
    private func answer(_ end: String, _ answer: ScriptedTransport.Answer) -> Bool {
        bench.settle()
        guard let index = bench.transport.open.firstIndex(where: { $0.path.hasSuffix(end) }) else { return false }
        bench.answer(answer, at: index)
        return true
    }

    @Test("counts at once in all dialects, and has a result for each of them")
    func login() throws {
        let ends = Collector<Result<LoginResult, OnymError>>()
        bench.onym.login("ada", email: "ada@example.com", callback: ends.callback)
        #expect(bench.onym.claimUser == "ada" && bench.onym.access.user?.identityID == "ada")
        #expect(bench.onym.users.current == nil)
        let request = try #require(bench.transport.open.first { $0.path == "/v1/login" })
        #expect(request.json["known_identities"]?["customerid"] == "ada")
        #expect(request.json["known_identities"]?["email"] == "ada@example.com")
        answer("/v1/login", .json(200, ["mpid": "7", "is_logged_in": true]))
        answer("\(bench.onym.access.user?.deviceID ?? "")", .json(201, [:]))
        #expect(ends.values.isEmpty)
        answer("/v3/identities/ada", .json(200, ["user_id": "QON_ada"]))
        let result = try #require(ends.values.first).get()
        #expect(ends.values.count == 1 && result.failures.isEmpty)
        #expect(try result.users[.idSync]?.get() == "7" && result.users[.claim]?.get() == "ada")
        #expect(try result.users[.entitlements]?.get() == "QON_ada")
        #expect(bench.onym.users.current?.id == 7 && bench.onym.access.user?.id == "QON_ada")
        #expect(bench.notices.contains(.userChanged(.idSync, from: nil, to: "7")))
        // The same user once more: nothing waits for the answer.
        bench.onym.login("ada", email: "ada@example.com", callback: ends.callback)
        #expect(bench.onym.users.current?.id == 7 && bench.onym.claimUser == "ada")
    }

    @Test("an offline logout gives what follows to nobody of before, also over a crash")
    func offline() throws {
        bench.onym.identity.login(IdentityRequest([.customerID: "ada"]), callback: { _ in })
        answer("/v1/login", .json(200, ["mpid": "7", "is_logged_in": true]))
        bench.onym.log("of ada")
        bench.onym.logout()
        #expect(bench.onym.users.current == nil && !bench.onym.users.isLoggedIn)
        bench.onym.log("of nobody")
        answer("/v1/logout", .fault(.offline))
        bench.relaunch()
        #expect(bench.onym.users.current == nil)
        bench.onym.log("still of nobody")
        bench.onym.login("bob", callback: { _ in })
        bench.onym.log("of bob")
        // The calls come in their order, as they would have with a network.
        bench.advance(1)
        answer("/v1/logout", .json(200, ["mpid": "8"]))
        bench.advance(1)
        answer("/v1/login", .json(200, ["mpid": "9", "is_logged_in": true]))
        for _ in 0..<20 where bench.onym.idsync?.mailbox.count != 0 {
            bench.advance(60)
            answer("/events", .empty(202))
        }
        #expect(mpids(of: "of ada") == ["7"] && mpids(of: "of nobody") == ["8"])
        #expect(mpids(of: "still of nobody") == ["8"] && mpids(of: "of bob") == ["9"])
        #expect(bench.onym.users.current?.id == 9)
    }

    @Test("a login that fails is tried again until the next one, and its failure is told")
    func again() throws {
        let ends = Collector<Result<LoginResult, OnymError>>()
        let bench = Bench(.idSync(key: "k", secret: nil))
        bench.onym.login("ada", callback: ends.callback)
        bench.answer(.fault(.offline))
        #expect(try ends.values.first?.get().failures == [.idSync: .offline])
        bench.advance(3)
        #expect(bench.transport.open.map(\.path) == ["/v1/login"])
        bench.answer(.json(200, ["mpid": "7", "is_logged_in": true]))
        #expect(bench.onym.users.current?.id == 7 && ends.values.count == 1)
        // Nothing waits for the one that the next login follows.
        bench.onym.login("bob", callback: { _ in })
        bench.answer(.fault(.timeout))
        bench.onym.login("carl", callback: { _ in })
        #expect(bench.transport.open.map { $0.json["known_identities"]?["customerid"] } == ["carl"])
    }

    @Test("what was logged under a login that the server refuses for good is dropped when another follows, and told")
    func refused() throws {
        let bench = Bench(.idSync(key: "k", secret: nil))
        bench.onym.login("ada", callback: { _ in })
        bench.onym.log("of a refused login")
        let refusal: JSON = ["errors": [["code": "VALIDATION_ERROR", "message": "no"]]]
        bench.answer(.json(400, refusal))
        #expect(bench.onym.idsync?.mailbox.count == 1)
        bench.onym.login("bob", callback: { _ in })
        bench.answer(.json(400, refusal))
        bench.advance(0)
        #expect(bench.onym.idsync?.mailbox.count == 0)
        #expect(bench.notices.contains { if case .dropped(1, .refused(.http)) = $0 { true } else { false } })
        bench.answer(.json(200, ["mpid": "9", "is_logged_in": true]))
        #expect(bench.onym.users.current?.id == 9)
    }

    @Test("a purchase while a login has no answer tells its caller so, and goes on waiting")
    func purchaseWithoutAnswer() throws {
        let bench = Bench(.entitlements(key: "e"))
        func answerAll() {
            while let request = bench.transport.open.first {
                bench.answer(request.path.hasPrefix("/v3/identities") ? .fault(.offline) : .json(201, [:]))
            }
        }
        bench.onym.login("ada", callback: { _ in })
        answerAll()
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.access.purchase(SettlingTests.purchase, callback: ends.callback)
        bench.advance(0)
        answerAll()
        #expect(ends.values.map { $0.failure != nil } == [true])
        #expect(bench.onym.entitlements?.mailbox.count == 1)
    }

    @Test("a purchase after an offline login goes to the user that the login finds, also after the logout")
    func purchase() throws {
        let bench = Bench(.entitlements(key: "e"))
        let device = try #require(bench.onym.access.user?.deviceID)
        bench.onym.login("ada", callback: { _ in })
        bench.answer(.fault(.offline))
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        bench.onym.logout()
        #expect(bench.onym.access.user == AccessUser(id: device, deviceID: device, identityID: nil))
        bench.relaunch()
        for _ in 0..<50 where bench.onym.entitlements?.mailbox.count != 0 {
            bench.advance(5)
            while let request = bench.transport.open.first {
                switch request.path {
                case "/v3/identities/ada": bench.answer(.json(200, ["user_id": "QON_ada"]))
                default: bench.answer(.json(201, [:]))
                }
            }
        }
        let sent = try #require(bench.transport.requests.last { $0.path.hasSuffix("/purchases") })
        #expect(sent.path == "/v3/users/QON_ada/purchases" && sent.fields["Onym-Identity"] == "ada")
        #expect(bench.onym.access.user?.id == device && bench.onym.access.user?.identityID == nil)
    }

    @Test("a login by a code is tried again after each failure, over launches too, until the logout")
    func code() {
        let bench = Bench(.linking(appID: nil, secret: nil))
        let devices = FakeDeviceServer { [time = bench.time] in time.now }
        bench.onym.login("ada", code: devices.code(for: "linked-ada"), callback: { _ in })
        /// Lets time go on until a request is open.
        func wait() {
            for _ in 0..<100 where bench.transport.open.isEmpty { bench.advance(bench.time.nextDelay ?? 1) }
        }
        bench.answer(.fault(.offline))
        for answer in [.fault(.offline), .bytes(403, "<html>"), .fault(.timeout)] as [ScriptedTransport.Answer] {
            bench.relaunch()
            // The first try after a launch fails, and so does the second one.
            for _ in 0..<2 {
                wait()
                #expect(bench.answer(answer)?.path == "/sdk/users")
            }
        }
        wait()
        if let (request, completion) = bench.transport.take() {
            ScriptedTransport.complete(completion, devices.answer(request))
        }
        bench.settle()
        #expect(bench.onym.device.state?.userID == "linked-ada")
        bench.onym.logout()
        bench.onym.login("bob", code: devices.code(for: "linked-bob"), callback: { _ in })
        bench.onym.logout()
        bench.relaunch()
        while bench.transport.take() != nil {}
        bench.advance(3700)
        #expect(bench.onym.device.state?.userID == nil)
        #expect(!bench.transport.open.contains { $0.path == "/sdk/users" })
    }

    @Test("an id that a dialect would refuse is refused at once", arguments: ["", "owl_anon_x", "a\u{0}b"])
    func invalid(id: String) {
        let ends = Collector<OnymError?>()
        bench.onym.login(id, callback: { ends.callback($0.failure) })
        bench.settle()
        let isInvalid = if case .refused(.invalid) = ends.values.first ?? nil { true } else { false }
        #expect(isInvalid, "\(ends.values)")
        #expect(bench.transport.requests.isEmpty)
    }

    /// What an app does: a login of one of two people, or a logout.
    enum Act: CaseIterable {
        case ada
        case bob
        case logout
    }

    @Test("every order of three acts without a network: each event is at the user of its act", arguments: Act.allCases)
    func orders(first: Act) {
        for second in Act.allCases {
            for third in Act.allCases {
                for crashes in [false, true] { order([first, second, third], crashes) }
            }
        }
    }

    @Test(
        "every order of three acts without a network, in all dialects: events, purchases and the device have their users",
        arguments: Act.allCases)
    func ordersOfAll(first: Act) {
        for second in Act.allCases {
            for third in Act.allCases {
                for (crashes, hasCode) in [(false, false), (false, true), (true, false), (true, true)] {
                    let acts = [first, second, third]
                    let program = OneLoginProgram(seed: 1)
                    let faults = program.run(acts, crashes: crashes, hasCode: hasCode)
                    #expect(faults == [], "\(acts), \(crashes), \(hasCode)\n\(program.story)")
                }
            }
        }
    }

    @Test(
        "every order of three acts without a network, with a key of the server's own call: the last act decides",
        arguments: Act.allCases)
    func ordersOfOwn(first: Act) {
        for second in Act.allCases {
            for third in Act.allCases {
                for crashes in [false, true] { orderOfOwn([first, second, third], crashes) }
            }
        }
    }

    private func orderOfOwn(_ acts: [Act], _ crashes: Bool) {
        let bench = Bench(.onym(key: "onym_client_k"))
        let words: Comment = "\(acts) \(crashes)"
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(.json(200, ["person": "1", "known": false]))
        for act in acts {
            switch act {
            case .ada, .bob: bench.onym.login("\(act)", callback: { _ in })
            case .logout: bench.onym.logout()
            }
            bench.settle()
            #expect(bench.onym.users.current == nil, words)
            while !bench.transport.open.isEmpty { bench.answer(.fault(.offline)) }
            if crashes { bench.relaunch() }
        }
        var kinds: [String] = []
        for _ in 0..<20 where bench.onym.users.current == nil {
            bench.advance(bench.time.nextDelay ?? 1)
            while let request = bench.transport.open.first {
                kinds.append(request.json["kind"]?.text ?? "")
                let person = ["ada": "2", "bob": "3"][request.json["ids"]?["customerid"]?.text ?? ""] ?? "4"
                bench.answer(.json(200, ["person": .string(person), "known": .bool(person != "4")]))
            }
        }
        let last = acts.last ?? .logout
        let expected: Int64 = [.ada: 2, .bob: 3, .logout: 4][last] ?? 0
        #expect(bench.onym.users.current?.id == expected && bench.onym.users.isLoggedIn == (last != .logout), words)
        // Nobody waits for the acts before.
        #expect(kinds == [last == .logout ? "logout" : "login"], words)
    }

    private func order(_ acts: [Act], _ crashes: Bool) {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.flushInterval = 2 }
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(.json(200, ["mpid": "1"]))
        bench.onym.log("event-0")
        for (index, act) in acts.enumerated() {
            switch act {
            case .ada: bench.onym.login("ada", callback: { _ in })
            case .bob: bench.onym.login("bob", callback: { _ in })
            case .logout: bench.onym.logout()
            }
            bench.onym.log("event-\(index + 1)")
            while !bench.transport.open.isEmpty { bench.answer(.fault(.offline)) }
            if crashes { bench.relaunch() }
        }
        var (users, last) = ([String: Int64](), Int64(100))
        var arrived: [String: Set<Int64>] = [:]
        for _ in 0..<100 where bench.onym.idsync?.mailbox.count != 0 {
            bench.advance(bench.time.nextDelay ?? 1)
            while let request = bench.transport.open.first {
                if request.path.hasSuffix("/events") {
                    for event in request.json["events"]?.elements ?? [] {
                        let name = event["data"]?["event_name"]?.text ?? ""
                        arrived[name, default: []].insert(request.json["mpid"]?.integer ?? 0)
                    }
                    bench.answer(.empty(202))
                    continue
                }
                last += 1
                let name = request.json["known_identities"]?["customerid"]?.text
                let user = name.flatMap { users[$0] } ?? last
                if let name { users[name] = user }
                bench.answer(.json(200, ["mpid": .string("\(user)"), "is_logged_in": .bool(name != nil)]))
            }
        }
        #expect(arrived["event-0"] == [1], "\(acts) \(crashes)")
        var anonymous: Set<Int64> = []
        for (index, act) in acts.enumerated() {
            let seen = arrived["event-\(index + 1)"] ?? []
            switch act {
            case .ada: #expect(seen == [users["ada"] ?? 0], "\(acts) \(crashes)")
            case .bob: #expect(seen == [users["bob"] ?? 0], "\(acts) \(crashes)")
            case .logout:
                #expect(seen.count == 1 && !users.values.contains { seen.contains($0) } && !seen.contains(1))
                #expect(anonymous.isDisjoint(with: seen), "\(acts) \(crashes)")
                anonymous.formUnion(seen)
            }
        }
    }

    // MARK: - The server's own call

    @Test("with a key of the server's own call, it says what was merged and left")
    func own() throws {
        let bench = Bench(.onym(key: "onym_client_k"))
        let ends = Collector<Result<IdentityResult, OnymError>>()
        var request = IdentityRequest([.customerID: "ada"])
        request.traits = ["plan": "pro"]
        bench.onym.identity.login(request, callback: ends.callback)
        let sent = try #require(bench.transport.open.first)
        #expect(sent.path == "/onym/v1/identify" && sent.fields["Authorization"] == "Bearer onym_client_k")
        #expect(sent.json["kind"] == "login" && sent.json["ids"]?["customerid"] == "ada")
        #expect(sent.json["ids"]?["device_application_stamp"]?.text?.isEmpty == false)
        #expect(sent.json["traits"] == ["plan": "pro"] && sent.json["previous"] == nil)
        let id = try #require(sent.fields["Idempotency-Key"])
        bench.answer(
            .json(
                200,
                [
                    "person": "-9", "root": "-9", "known": true, "new": false, "matched": ["customerid"],
                    "linked": [], "left": [["type": "email", "rule": "held_elsewhere"]],
                    "merged": [["id": "m_1", "from": "5", "into": "-9"]], "kept_apart": [],
                ]))
        let result = try #require(ends.values.first).get()
        #expect(result.user.id == -9 && result.user.isLoggedIn && result.isKnown == true)
        #expect(result.left == [.init(type: .email, rule: "held_elsewhere")])
        #expect(result.merged == [.init(id: "m_1", from: 5, into: -9)])
        #expect(bench.notices == [.userChanged(.onym, from: nil, to: "-9")])
        // An attribute is a property of the person, and goes with the person's names.
        bench.onym.users.setAttribute("seats", 3, of: result.user)
        bench.onym.users.removeAttribute("plan", of: result.user)
        bench.onym.flush(callback: { _ in })
        let traits = try #require(bench.transport.open.first)
        #expect(traits.json["traits"] == ["seats": 3, "plan": .null] && traits.json["ids"]?["customerid"] == "ada")
        #expect(traits.json["previous"] == "-9" && traits.fields["Idempotency-Key"] != id)
        bench.answer(.json(200, ["person": "-9", "known": true]))
        #expect(bench.onym.idsync?.mailbox.count == 0)
        // The same answers as errors; and what the call does not have.
        bench.onym.identity.identify(callback: ends.callback)
        bench.answer(.json(409, ["code": "identity_in_use", "title": "no"]))
        let failure: HTTPFailure? = if case .failure(.http(let failure)) = ends.values.last { failure } else { nil }
        #expect(failure?.code == "identity_in_use" && failure?.isServersWord == true)
        bench.onym.identity.search(IdentityRequest([.email: "a"]), callback: ends.callback)
        bench.settle()
        #expect(ends.values.last == .failure(.refused(.unavailable)))
        bench.onym.log("nobody takes events")
        bench.settle()
        #expect(bench.notices.last == .dropped(1, .refused(.refused(.notConfigured))))
        bench.relaunch()
        #expect(bench.onym.users.current?.id == -9)
    }

    // MARK: - Warnings

    @Test(
        "contents of a request that have no effect are in the log, without their values",
        arguments: [
            (IdentityRequest([.customerID: "null"]), "login: customerid is a placeholder"),
            (IdentityRequest([.email: ""]), "login: email is empty"),
            (IdentityRequest([.email: nil]), "login: email is nil"),
            (IdentityRequest([.customerID: " secret"]), "login: customerid begins or ends with a space"),
            (IdentityRequest([.deviceApplicationStamp: "secret"]), "login: device_application_stamp is the SDK's own"),
            (IdentityRequest([.other: String(repeating: "secret", count: 700)]), "login: other has more than 4096"),
        ])
    func warnings(request: IdentityRequest, text: String) {
        let lines = Collector<String>()
        let bench = Bench(.idSync(key: "k", secret: nil)) { ($0.log, $0.logger) = (.warnings, lines.callback) }
        bench.onym.identity.login(request, callback: { _ in })
        bench.settle()
        #expect(lines.values.contains { $0.contains(text) }, "\(lines.values)")
        #expect(!lines.values.contains { $0.contains("secret") })
        let before = lines.values.count
        bench.onym.identity.modify(IdentityRequest([.email: nil, .customerID: "ada"]), callback: { _ in })
        bench.settle()
        #expect(lines.values.count == before)
    }
}

/// A kind of network, which does its worst to half of the requests.
enum StormyNetwork: String, CaseIterable {
    case offline, losesAnswers, cutsHeads, timesOut, fails, limits, firewall, login, captivePortal, emptyProxy, garbles
    case distrusted, emptyPortal

    enum Fate {
        /// The server has the request, and nobody hears of the answer.
        case lost(ScriptedTransport.Answer)
        /// The server does not hear of the request.
        case unheard(ScriptedTransport.Answer)
    }

    func fate(_ roll: Int) -> Fate {
        switch self {
        case .offline: .unheard(.fault(.offline))
        case .losesAnswers: .lost(.fault(.timeout))
        case .cutsHeads:
            roll % 2 == 0
                ? .lost(.fault(.connection("the answer ends within its head")))
                : .unheard(.fault(.connection("the answer ends within its head")))
        case .timesOut: .unheard(.fault(.timeout))
        case .fails: .unheard(.bytes([500, 502, 503][roll % 3], ""))
        case .limits: .unheard(.bytes(429, "", ["Retry-After": "3"]))
        case .firewall: .unheard(.bytes(403, "<html>"))
        case .login: .unheard(.bytes(401, "<html>"))
        case .captivePortal: .unheard(.bytes(200, "<html>"))
        case .emptyPortal: .unheard(.bytes([200, 204][roll % 2], ["{}", ""][roll % 2]))
        case .emptyProxy: .unheard(.bytes(404, #"{"message":"no"}"#))
        case .garbles: .lost(.bytes(200, #"{"mp"#))
        case .distrusted: .unheard(.fault(.tls("the certificate is another")))
        }
    }
}

/// Random programs of an app with one login: the network is away, loses answers, and fails; the process is killed.
///
/// What is logged after a login goes to the customer who logged in, what is logged after a logout to a user of that logout
/// alone, and all of it once. The device has the user of the last code, and after a logout none.
final class OneLoginProgram {
    private enum Whose: Hashable {
        case first
        case customer(String)
        case logout(Int)
    }

    private var dice: SeededGenerator
    private let bench: Bench
    private var whose: [String: Whose] = [:]
    private var claims: [String: String] = [:]
    private var bought: [String: String] = [:]
    private var now = Whose.first
    private var next = 0
    private var logouts = 0

    // The server.
    private var customers: [String: Int64] = [:]
    private var lastUser: Int64 = 100
    private var arrived: [String: Set<Int64>] = [:]
    private var arrivedClaim: [String: Set<String>] = [:]
    private var paid: [String: Set<String>] = [:]
    private(set) var faults: [String] = []
    private var trace: [String] = []
    private let devices: FakeDeviceServer
    /// The user of the code of this login; nil without a code since the last logout.
    private var linked: String?
    private let network: StormyNetwork?
    private(set) var kills = 0

    /// - Parameter network: the kind of network; nil for a mixture, in which the process is killed less often.
    init(seed: UInt64, network: StormyNetwork? = nil) {
        dice = SeededGenerator(seed: seed)
        self.network = network
        bench = Bench(
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"),
            .linking(appID: nil, secret: nil), seed: seed
        ) {
            $0.flushInterval = 2
            $0.batchSize = 5
            $0.safety = .whenever
        }
        devices = FakeDeviceServer { [time = bench.time] in time.now }
    }

    var story: String { trace.joined(separator: "\n") }

    private func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &dice) }

    func run() -> [String] {
        for _ in 0..<(network == nil ? 10 + roll(40) : 60) { step() }
        drain()
        check()
        return faults
    }

    /// Does these acts without a network, with an event and a purchase after each; then the network is there.
    func run(_ acts: [OneLoginTests.Act], crashes: Bool, hasCode: Bool) -> [String] {
        log()
        buy()
        for act in acts {
            switch act {
            case .ada: login("ad", hasCode: hasCode)
            case .bob: login("bo", hasCode: hasCode)
            case .logout: logout()
            }
            checkAtOnce(act)
            log()
            buy()
            for _ in 0..<10 {
                bench.settle()
                while bench.answer(.fault(.offline)) != nil {}
            }
            if crashes { kill() }
        }
        drain()
        check()
        return faults
    }

    /// An act counts at once in all dialects.
    private func checkAtOnce(_ act: OneLoginTests.Act) {
        let onym = bench.onym
        let name: String? = [.ada: "ad", .bob: "bo"][act]
        if onym.users.current != nil || onym.users.isLoggedIn { faults.append("\(act) left the user of before") }
        if onym.access.user?.identityID != name {
            faults.append("\(act) left \(onym.access.user?.identityID ?? "nobody")")
        }
        if onym.access.user?.id != onym.access.user?.deviceID { faults.append("\(act) left the user of access") }
        let claim = onym.claimUser ?? ""
        if name.map({ claim != $0 }) ?? (!claim.hasPrefix("owl_anon_") || claims.values.contains(claim)) {
            faults.append("\(act) has the user \(claim)")
        }
        if act == .logout, onym.device.state?.userID != nil { faults.append("a logout left the device its user") }
    }

    private func log() {
        next += 1
        let name = "event-\(next)"
        (whose[name], claims[name]) = (now, bench.onym.claimUser)
        trace.append("log \(name) for \(now)")
        bench.onym.log(name)
    }

    private func login(_ user: String, hasCode: Bool) {
        // A device has one user of a code until the logout.
        let code = linked == nil && hasCode ? devices.code(for: "linked-\(user)") : nil
        if code != nil { linked = "linked-\(user)" }
        trace.append("login \(user), \(code ?? "no code")")
        now = .customer(user)
        bench.onym.login(user, code: code, callback: { _ in })
    }

    private func logout() {
        trace.append("logout")
        logouts += 1
        linked = nil
        now = .logout(logouts)
        bench.onym.logout()
    }

    private func buy() {
        next += 1
        let user = bench.onym.access.user
        bought["\(next).00"] = user?.identityID ?? ""
        trace.append("buy \(next) for \(user?.identityID ?? "the device")")
        let purchase = Purchase(price: "\(next).00", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "r")
        bench.onym.access.purchase(purchase, callback: { _ in })
    }

    private func kill() {
        trace.append("kill")
        kills += 1
        bench.relaunch()
    }

    private func step() {
        switch roll(network == nil ? 16 : 18) {
        case 0..<4: log()
        case 4, 5: login("u\(roll(network == nil ? 3 : 2))", hasCode: roll(2) == 0)
        case 6: logout()
        case 7: buy()
        case 8, 16, 17: kill()
        case 9: bench.advance([0.5, 3, 40][roll(3)])
        case 10: bench.settle()
        default: answer()
        }
    }

    private func answer() {
        let count = bench.transport.open.count
        guard count > 0, let (request, completion) = bench.transport.take(roll(count)) else { return }
        if let network, roll(2) == 0 {
            trace.append("\(network): \(request.path)")
            switch network.fate(roll(6)) {
            case .lost(let answer):
                _ = serve(request)
                ScriptedTransport.complete(completion, answer)
            case .unheard(let answer): ScriptedTransport.complete(completion, answer)
            }
            if roll(3) > 0 { bench.settle() }
            return
        }
        switch roll(6) {
        case 0:
            trace.append("offline: \(request.path)")
            ScriptedTransport.complete(completion, .fault(.offline))
        case 1:
            trace.append("lost: \(request.path)")
            _ = serve(request)
            ScriptedTransport.complete(completion, .fault(.timeout))
        case 2:
            trace.append("fault: \(request.path)")
            ScriptedTransport.complete(completion, [.bytes(500, ""), .bytes(403, "<html>")][roll(2)])
        default:
            trace.append("answer: \(request.path)")
            ScriptedTransport.complete(completion, serve(request))
        }
        if roll(3) > 0 { bench.settle() }
    }

    private func serve(_ request: HTTPRequest) -> ScriptedTransport.Answer {
        let (path, json) = (request.path, request.json)
        if path.hasPrefix("/sdk/") { return devices.answer(request) }
        if path.hasSuffix("/events") {
            let user = json["mpid"]?.integer ?? 0
            for event in json["events"]?.elements ?? [] {
                arrived[event["data"]?["event_name"]?.text ?? "", default: []].insert(user)
            }
            return .empty(202)
        }
        if path == "/v1/ingest" {
            for event in json["events"]?.elements ?? [] {
                arrivedClaim[event["message"]?.text ?? "", default: []].insert(event["user_id"]?.text ?? "")
            }
            return .json(200, ["accepted": 1, "rejected": 0])
        }
        if path.hasSuffix("/purchases") {
            let parts = path.split(separator: "/").map(String.init)
            paid[json["price"]?.text ?? "", default: []].insert(
                "\(parts[2]) \(request.fields["Onym-Identity"] ?? "")")
            return .json(201, [:])
        }
        if path.hasPrefix("/v3/identities/") { return .json(200, ["user_id": .string("QON_" + path.suffix(2))]) }
        if path.hasPrefix("/v1/identity/") || path.hasPrefix("/v3/") { return .json(200, ["claimed": true]) }
        lastUser += 1
        guard let name = json["known_identities"]?["customerid"]?.text else {
            return .json(200, ["mpid": .string("\(lastUser)")])
        }
        let user = customers[name] ?? lastUser
        customers[name] = user
        return .json(200, ["mpid": .string("\(user)"), "is_logged_in": true])
    }

    private func drain() {
        trace.append("drain")
        bench.onym.identity.identify(callback: { _ in })
        for _ in 0..<600 {
            bench.settle()
            while let (request, completion) = bench.transport.take() {
                ScriptedTransport.complete(completion, serve(request))
                bench.settle()
            }
            let onym = bench.onym
            if onym.idsync?.mailbox.count == 0, onym.claim?.mailbox.count == 0, onym.entitlements?.mailbox.count == 0,
                onym.linking?.mailbox.count == 0, onym.device.state?.userID == linked
            {
                return
            }
            bench.advance(bench.time.nextDelay ?? 1)
        }
        faults.append("it never came to an end")
    }

    private func check() {
        var users: [Whose: Set<Int64>] = [:]
        for (name, whose) in whose.sorted(by: { $0.key < $1.key }) {
            guard let user = arrived[name] else {
                faults.append("\(name) of \(whose) never came")
                continue
            }
            if case .customer(let id) = whose, user != [customers[id] ?? 0] {
                faults.append("\(name) of \(id) went to \(user)")
            }
            users[whose, default: []].formUnion(user)
            if arrivedClaim[name] != [claims[name] ?? ""] {
                faults.append("\(name) of \(claims[name] ?? "") was claimed by \(arrivedClaim[name] ?? [])")
            }
        }
        for (whose, ids) in users {
            guard case .logout = whose else { continue }
            if ids.count > 1 { faults.append("\(whose) led to \(ids)") }
            // What was logged before the device had any user belongs to the first one, whoever that is.
            for (other, others) in users where other != whose && other != .first && !others.isDisjoint(with: ids) {
                faults.append("\(whose) and \(other) share \(ids)")
            }
        }
        if bench.onym.device.state?.userID != linked {
            faults.append("the device has \(bench.onym.device.state?.userID ?? "nobody"), not \(linked ?? "nobody")")
        }
        let device = bench.onym.access.user?.deviceID ?? ""
        for (price, identity) in bought {
            let user = identity.isEmpty ? device : "QON_\(identity)"
            if paid[price] != ["\(user) \(identity)"] { faults.append("\(price) of \(identity): \(paid[price] ?? [])") }
        }
    }
}

@Suite("Random programs with one login", .timeLimit(.minutes(30)))
struct OneLoginProgramTests {
    @Test("what is logged and bought goes to whom it is of, whatever the network does, once")
    func programs() {
        let seeds = Soak.histories(1000)
        for seed in seeds {
            let program = OneLoginProgram(seed: seed)
            if !program.run().isEmpty {
                Issue.record("seed \(seed): \(program.faults.joined(separator: "; "))\n\(program.story)")
                return
            }
        }
        Soak.report("\(seeds.count) random programs with one login")
    }

    @Test(
        "storms of two users over thirteen networks: no event is lost, doubled in the count, or another's, through 1,500 kills"
    )
    func storms() {
        let seeds = Soak.seeds(24)
        var (kills, programs) = (0, 0)
        for network in StormyNetwork.allCases {
            for seed in seeds {
                let program = OneLoginProgram(seed: seed, network: network)
                if !program.run().isEmpty {
                    Issue.record(
                        "\(network), seed \(seed): \(program.faults.joined(separator: "; "))\n\(program.story)")
                    return
                }
                (kills, programs) = (kills + program.kills, programs + 1)
            }
        }
        #expect(kills >= 1500 || seeds.count < 24, "there were \(kills) kills")
        Soak.report("\(programs) storms over \(StormyNetwork.allCases.count) networks, \(kills) kills")
    }
}
