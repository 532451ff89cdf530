import ClientKit
import Foundation
import Onym
import TestKit
import Testing

/// Random programs of an app, on a scheduler that does one thing after the other: the same seed does the same again.
///
/// The app logs, logs in and out, sets, buys, and is killed and started again; the network is slow, loses answers, and fails.
/// Whatever came to the server must have come under the user who was the current one when it was made, at every try; in the
/// end all of it is there, once; and each callback was called exactly once.
final class Interleaving {
    private let seed: UInt64
    private var dice: SeededGenerator
    private let bench: Bench
    private let server: FakeServer
    private let devices: FakeDeviceServer
    /// Whether the disk is full at times. Then the SDK may lose what it says that it has lost, and nothing else.
    private let hasBadDisk: Bool
    /// The installs that the device has had.
    private var installs: Set<String> = []
    private var calls: [Ends] = []
    private let shop = DeviceShop()
    private var next = 0
    private(set) var faults: [String] = []
    private var trace: [String] = []

    /// How often a callback was called, and whether its process still lives.
    private final class Ends: @unchecked Sendable {
        let name: String
        var count = 0
        var isAlive = true
        init(_ name: String) { self.name = name }
    }

    init(seed: UInt64) {
        self.seed = seed
        dice = SeededGenerator(seed: seed)
        bench = Bench(
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"),
            .linking(appID: "app", secret: "secret"), seed: seed
        ) {
            $0.flushInterval = 2
            $0.batchSize = 5
            $0.safety = .whenever
            $0.retry = seed % 3 == 0 ? .automatic(attempts: 3) : .never
        }
        devices = FakeDeviceServer { [time = bench.time] in time.trueNow }
        hasBadDisk = seed % 7 == 0
        server = FakeServer(isLogoutNew: seed % 2 == 0, isLossy: hasBadDisk, devices)
        watchShop()
    }

    private func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &dice) }

    func run() -> [String] {
        for _ in 0..<10 + roll(40) { step() }
        bench.files.fill(after: nil)
        drain()
        check()
        if seed % 5 == 0 { optOut() }
        return faults
    }

    var story: String { "seed \(seed): \(faults.joined(separator: "; "))\n" + trace.joined(separator: "\n") }

    private func tell(_ line: @autoclosure () -> String) {
        // Only a story that is told again is worth its words.
        if ProcessInfo.processInfo.environment["ONYM_SEED"] != nil { trace.append(line()) }
    }

    // MARK: - What the app does

    private func step() {
        if let install = bench.onym.device.state?.installID { installs.insert(install) }
        switch roll(28) {
        case 0..<5: log()
        case 5: identity(["login", "logout", "identify", "modify"][roll(4)])
        case 6: identity(["login", "logout"][roll(2)])
        case 7: setUser()
        case 8: clearUser()
        case 9: setProperty()
        case 10: access()
        case 11: buy()
        case 12..<17: answer()
        case 17: advance()
        case 18 where roll(3) == 0: kill()
        case 19..<23: device()
        case 23 where hasBadDisk:
            let room = roll(3) == 0 ? nil : roll(600)
            tell("room for \(room ?? .max) bytes")
            bench.files.fill(after: room)
        case 24, 25: sell()
        case 26: useShop()
        case 23:
            let seconds = [-100_000.0, -50, 50, 100_000][roll(4)]
            tell("the clock is set by \(seconds)")
            bench.time.setClock(by: seconds)
        default: bench.settle()
        }
    }

    private func ends(_ name: String) -> Ends {
        let ends = Ends(name)
        calls.append(ends)
        tell(name)
        return ends
    }

    private func log() {
        next += 1
        let name = "event-\(next)"
        let mpid = bench.onym.users.current?.id
        server.expected[name] = FakeServer.Owner(mpid: mpid, claim: bench.onym.claimUser ?? "")
        tell("log \(name) for \(mpid ?? 0) and \(bench.onym.claimUser ?? "")")
        bench.onym.log(name)
    }

    private func identity(_ verb: String) {
        let ends = ends(verb)
        let completion: Identity.Callback = { _ in ends.count += 1 }
        let request = IdentityRequest([.customerID: "\(roll(3))"])
        switch verb {
        case "login": bench.onym.identity.login(request, callback: completion)
        case "logout": bench.onym.identity.logout(callback: completion)
        case "modify": bench.onym.identity.modify(IdentityRequest([.email: "\(roll(3))@x"]), callback: completion)
        default: bench.onym.identity.identify(roll(2) == 0 ? nil : request, callback: completion)
        }
    }

    private func setUser() {
        let (user, anonymous) = ("u\(roll(3))", bench.onym.claimAnonymousUser ?? "")
        let before = server.expected.filter { $0.value.claim == anonymous }.map(\.key)
        server.claims["\(anonymous) \(user)", default: []].append(Set(before))
        tell("setUser \(user)")
        try? bench.onym.setUser(user)
    }

    private func clearUser() {
        tell("clearUser")
        bench.onym.clearUser()
    }

    private func setProperty() {
        next += 1
        if roll(2) == 0 {
            server.properties["p\(next)"] = bench.onym.claimUser
            bench.onym.properties.set(["p\(next)": "v"])
        } else {
            server.properties["q\(next)"] = bench.onym.access.user?.id
            bench.onym.access.setProperties(["q\(next)": "v"])
        }
        tell("property \(next)")
    }

    private func access() {
        switch roll(4) {
        case 0:
            tell("access logout")
            bench.onym.access.logout()
            if let user = bench.onym.access.user, user.identityID != nil || user.id != user.deviceID {
                faults.append("a logout did not count at once")
            }
        case 1:
            let ends = ends("entitlements")
            let user = bench.onym.access.user
            bench.onym.access.entitlements(
                [.cached, .newerThan(300), .fresh][roll(3)],
                callback: { [bench] result in
                    ends.count += 1
                    // Whoever looks gets no other's.
                    if case .success(let list) = result, bench.onym.access.user?.identityID == user?.identityID,
                        list.keys.contains(where: { $0 != user?.identityID ?? "device" })
                    {
                        ends.count += 100
                    }
                })
        default:
            let ends = ends("access identify")
            bench.onym.access.identify("i\(roll(3))", callback: { _ in ends.count += 1 })
        }
    }

    private func device() {
        let device = bench.onym.device
        switch roll(7) {
        case 0, 1:
            let code = devices.code(for: "user-\(roll(3))")
            let (ends, user) = (ends("create by \(code)"), devices.user(of: code))
            device.createUser(
                code,
                callback: { result in
                    ends.count += 1
                    if case .success(let state) = result, state.userID != user { ends.count += 100 }
                })
        case 2:
            let ends = ends("create without a linker")
            device.createUser(linker: nil, callback: { _ in ends.count += 1 })
        case 3:
            let ends = ends("link")
            device.link(devices.code(for: "user-new"), callback: { _ in ends.count += 1 })
        case 4:
            let (ends, user) = (ends("token"), device.state?.userID)
            device.token(callback: { [devices] result in
                ends.count += 1
                if case .success(let token) = result, devices.user(ofToken: token.value) != user { ends.count += 100 }
            })
        case 5:
            let ends = ends("refresh")
            device.refresh(callback: { _ in ends.count += 1 })
        default:
            let ends = ends("reset")
            device.reset(callback: { _ in ends.count += 1 })
        }
    }

    private func buy() {
        next += 1
        let ends = ends("purchase \(next)")
        let user = bench.onym.access.user
        server.purchases["\(next).00"] = "\(user?.id ?? "") \(user?.identityID ?? "")"
        bench.onym.access.purchase(
            Purchase(price: "\(next).00", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "r"),
            callback: { _ in ends.count += 1 })
    }

    // MARK: - The device's shop

    /// Begins as the SDK begins with a shop: it sends what the shop has not finished.
    private func watchShop() {
        bench.onym.entitlements?.setFinish { [shop] id in shop.called.append(id) }
        for transaction in shop.open { send(transaction) }
    }

    private func sell() {
        next += 1
        let transaction = DeviceShop.transaction("\(next)", at: bench.time.now)
        tell("the shop sells \(next)")
        shop.open.append(transaction)
        shop.sold.append(transaction)
        // The person has paid, and the SDK does not know it yet.
        if roll(6) == 0 { kill() } else { send(transaction) }
    }

    private func send(_ transaction: ShopTransaction) {
        let ends = ends("send \(transaction.signed)")
        let user = bench.onym.access.user
        server.allowed[transaction.signed, default: []].insert("\(user?.id ?? "") \(user?.identityID ?? "")")
        bench.onym.access.send(transaction, callback: { _ in ends.count += 1 })
    }

    /// The shop ends transactions, reports one once more, or takes one back.
    private func useShop() {
        switch roll(3) {
        case 0: finish()
        case 1: if let transaction = shop.open.randomElement(using: &dice) { send(transaction) }
        default:
            guard let bought = shop.finished.randomElement(using: &dice) else { return }
            if shop.open.contains(where: { $0.id == bought }) { return }
            let refund = DeviceShop.transaction(bought, isRevoked: true, at: bench.time.now)
            guard !shop.sold.contains(where: { $0.signed == refund.signed }) else { return }
            tell("the shop takes \(bought) back")
            shop.open.append(refund)
            shop.sold.append(refund)
            send(refund)
        }
    }

    private func finish() {
        for id in shop.called {
            let signed = shop.sold.filter { $0.id == id }.map(\.signed)
            if !signed.contains(where: { server.decided[$0] != nil }) {
                faults.append("\(id) was finished before the server had it")
            }
            // A second end of a transaction changes nothing at the shop.
            guard shop.open.contains(where: { $0.id == id }) else { continue }
            shop.open.removeAll { $0.id == id }
            shop.finished.append(id)
        }
        shop.called = []
    }

    private func checkShop() {
        finish()
        if !shop.open.isEmpty { faults.append("the shop still has \(shop.open.map(\.signed))") }
        for transaction in shop.sold {
            let times = shop.finished.count { $0 == transaction.id }
            // A shop knows the id alone: a late end of a purchase may also end its refund.
            if !transaction.isRevoked, server.decided[transaction.signed] == nil {
                faults.append("\(transaction.signed) never came")
            }
            if times != shop.sold.count(where: { $0.id == transaction.id }) {
                faults.append("\(transaction.id) was finished \(times) times")
            }
        }
        for (signed, owners) in server.decided where owners.count(where: { $0.hasPrefix("bought ") }) > 1 {
            faults.append("\(signed) was bought by \(owners.sorted())")
        }
    }

    // MARK: - What the world does

    private func answer() {
        let count = bench.transport.open.count
        guard count > 0, let (request, completion) = bench.transport.take(roll(count)) else { return }
        let path = request.path
        switch roll(8) {
        case 0:
            tell("offline: \(path)")
            ScriptedTransport.complete(completion, .fault(.offline))
        case 1:
            // The server has done it, and nobody hears.
            tell("lost: \(path)")
            _ = server.answer(request)
            ScriptedTransport.complete(completion, .fault(.timeout))
        case 2:
            tell("fault: \(path)")
            let faults: [ScriptedTransport.Answer] = [
                .bytes(500, ""), .bytes(429, "", ["Retry-After": "3"]), .bytes(200, "gar"), .fault(.tls("x")),
                // A firewall, and a proxy without the server behind it.
                .bytes(403, "<html>"), .bytes(404, "{\"message\":\"no\"}", ["X-Request-Id": "r"]),
                // A hotel's network.
                .bytes(200, "{}"), .bytes(204, ""),
            ]
            server.look(request)
            ScriptedTransport.complete(completion, faults[roll(faults.count)])
        default:
            tell("answer: \(path)")
            ScriptedTransport.complete(completion, server.answer(request))
        }
        if roll(3) > 0 { bench.settle() }
    }

    private func advance() {
        let seconds = [0.5, 3, 40][roll(3)]
        tell("advance \(seconds)")
        bench.advance(seconds)
    }

    private func kill() {
        tell("kill")
        // What is lost counts as told, once it was handed over.
        if hasBadDisk { bench.settle() }
        for call in calls { call.isAlive = false }
        // Nobody ends at the shop what the process has not come to.
        shop.called = []
        bench.relaunch()
        watchShop()
    }

    /// The network is well again, until all is sent.
    private func drain() {
        tell("drain")
        // What the full disk could not keep comes at the next start.
        for transaction in shop.open { send(transaction) }
        bench.onym.identity.identify(callback: { _ in })
        for _ in 0..<400 {
            bench.settle()
            while let (request, completion) = bench.transport.take() {
                ScriptedTransport.complete(completion, server.answer(request))
                bench.settle()
            }
            let isEmpty = bench.onym.idsync?.mailbox.count == 0 && bench.onym.claim?.mailbox.count == 0
            if isEmpty, bench.onym.entitlements?.mailbox.count == 0, bench.onym.linking?.mailbox.count == 0,
                bench.onym.device.state?.phase == .idle, calls.allSatisfy({ !$0.isAlive || $0.count > 0 })
            {
                return
            }
            bench.advance(bench.time.nextDelay ?? 1)
        }
        faults.append("it never came to an end")
    }

    /// Whoever opts out in the middle of it all hears the end of each call, is heard of no more, and leaves nothing.
    private func optOut() {
        for _ in 0..<10 { step() }
        tell("opt out")
        bench.files.fill(after: nil)
        bench.onym.optOut()
        let requests = bench.transport.requests.count
        bench.onym.log("event-secret")
        for _ in 0..<5 {
            while let (request, completion) = bench.transport.take() {
                ScriptedTransport.complete(completion, server.answer(request))
            }
            bench.advance(100)
        }
        if bench.transport.requests.count != requests { faults.append("something was sent of one who had opted out") }
        for call in calls where call.isAlive ? call.count != 1 : call.count > 1 {
            faults.append("\(call.name) ended \(call.count) times, after opting out")
        }
        let text = bench.files.contents.values.map { String(decoding: $0, as: UTF8.self) }.joined()
        for trace in ["event-", "token-", "refresh-", "code-"] where text.contains(trace) {
            faults.append("\(trace) is kept of one who had opted out")
        }
    }

    private func check() {
        checkShop()
        faults += server.faults
        let state = bench.onym.device.state
        for call in calls where call.isAlive ? call.count != 1 : call.count > 1 {
            faults.append("\(call.name) ended \(call.count) times")
        }
        let names = Set(server.expected.keys)
        if hasBadDisk {
            let told = bench.notices.filter { $0 == .dropped(1, .storage) }.count
            let lost = names.subtracting(server.events).count + names.subtracting(server.claimed).count
            if lost > told { faults.append("\(lost) were lost, and \(told) told") }
            return
        }
        for install in installs.sorted() where install != state?.installID && !devices.isReset(install) {
            faults.append("the server never heard that \(install) is gone")
        }
        if let reason = state?.deactivation?.reason { faults.append("the install was lost: \(reason)") }
        if server.events != names {
            faults.append("IDSync lacks \(names.subtracting(server.events).sorted())")
        }
        if server.claimed != names { faults.append("Claim lacks \(names.subtracting(server.claimed).sorted())") }
        let lacking = Set(server.properties.keys).subtracting(server.propertiesSeen)
        if !lacking.isEmpty { faults.append("properties \(lacking.sorted()) never came") }
        let unpaid = Set(server.purchases.keys).subtracting(server.purchasesSeen)
        if !unpaid.isEmpty { faults.append("purchases \(unpaid.sorted()) never came") }
    }
}

/// A shop that does one thing after the other, as the program says.
private final class DeviceShop: @unchecked Sendable {
    /// What the shop reports at each start, until it is finished.
    var open: [ShopTransaction] = []
    var sold: [ShopTransaction] = []
    var finished: [String] = []
    /// The ids that the SDK wants to be finished.
    var called: [String] = []

    static func transaction(_ id: String, isRevoked: Bool = false, at time: Date) -> ShopTransaction {
        ShopTransaction(
            id: id, productID: "plus", signed: "shop-\(id)\(isRevoked ? "-revoked" : "")", price: "9.99",
            currency: "EUR", purchased: time, isRevoked: isRevoked)
    }
}

/// The other end: it knows whose everything is, and looks at each request, answered or not.
private final class FakeServer {
    struct Owner {
        let mpid: Int64?
        let claim: String
    }

    var expected: [String: Owner] = [:]
    var properties: [String: String] = [:]
    var purchases: [String: String] = [:]
    /// The users under whom the device has sent each signed text of its shop, and what the server has decided about it for whom.
    var allowed: [String: Set<String>] = [:]
    private(set) var decided: [String: Set<String>] = [:]
    /// What was logged as nobody before each claim of it.
    var claims: [String: [Set<String>]] = [:]
    private(set) var events: Set<String> = []
    private(set) var claimed: Set<String> = []
    private(set) var propertiesSeen: Set<String> = []
    private(set) var purchasesSeen: Set<String> = []
    private(set) var faults: [String] = []

    private let isLogoutNew: Bool
    private var mpids: [String: Int64] = [:]
    private var requests: [String: Int64] = [:]
    private var lastMPID: Int64 = 100
    /// Who was the first that the device heard of; nil while nobody can say.
    private var first: Set<Int64> = []
    private var ids: [String: String] = [:]
    private var users: Set<String> = []
    private var owners: [String: String] = [:]

    private let devices: FakeDeviceServer

    private let isLossy: Bool

    init(isLogoutNew: Bool, isLossy: Bool, _ devices: FakeDeviceServer) {
        (self.isLogoutNew, self.isLossy, self.devices) = (isLogoutNew, isLossy, devices)
    }

    private func fault(_ text: String) { faults.append(text) }

    func answer(_ request: HTTPRequest) -> ScriptedTransport.Answer {
        look(request)
        let path = request.path
        let json = request.json
        if path.hasPrefix("/v1/identity/") || path == "/v1/ingest" { return claim(path, json) }
        if path.hasPrefix("/v3/") { return access(request) }
        if path.hasPrefix("/sdk/") { return devices.answer(request) }
        if path.hasSuffix("/events") {
            for event in json["events"]?.elements ?? [] { take(event["data"]?["event_name"], &events) }
            return .empty(202)
        }
        if path.hasSuffix("/modify") { return .json(200, ["change_results": []]) }
        return .json(200, ["mpid": .string("\(mpid(path, json))"), "is_logged_in": true])
    }

    private func take(_ name: JSON?, _ set: inout Set<String>) { if let name = name?.text { set.insert(name) } }

    private func mpid(_ path: String, _ json: JSON) -> Int64 {
        // The same request is answered the same: one by the same id, with the same body.
        let id = String(decoding: json.bytes, as: UTF8.self)
        if let mpid = requests[id] { return mpid }
        let names = json["known_identities"]
        var key = names?["customerid"]?.text ?? "device"
        if key == "device", path.hasSuffix("logout"), isLogoutNew { key = "logout \(lastMPID)" }
        if mpids[key] == nil {
            lastMPID += 1
            mpids[key] = lastMPID
        }
        if json["previous_mpid"] == nil { first.insert(mpids[key] ?? 0) }
        requests[id] = mpids[key]
        return mpids[key] ?? 0
    }

    private func claim(_ path: String, _ json: JSON) -> ScriptedTransport.Answer {
        switch path {
        case "/v1/ingest":
            for event in json["events"]?.elements ?? [] { take(event["message"], &claimed) }
            return .json(200, ["accepted": 1, "rejected": 0])
        case "/v1/identity/properties":
            propertiesSeen.formUnion(json["properties"]?.texts.keys.map { $0 } ?? [])
            return .json(200, ["updated": true, "properties": [:]])
        default: return .json(200, ["claimed": true, "events_reassigned_count": 0])
        }
    }

    private func access(_ request: HTTPRequest) -> ScriptedTransport.Answer {
        let parts = request.path.split(separator: "/").map(String.init)
        let missing = ScriptedTransport.Answer.json(404, ["error": ["code": "not_found", "message": "no"]])
        let conflict = ScriptedTransport.Answer.json(422, ["error": ["code": "already_exists", "message": "no"]])
        if parts[1] == "identities" {
            if request.method == "GET" {
                return owners[parts[2]].map { .json(200, ["user_id": .string($0)]) } ?? missing
            }
            let user = request.json["user_id"]?.text ?? "QON_\(owners.count)"
            if owners[parts[2]] != nil || owners.values.contains(user) { return conflict }
            owners[parts[2]] = user
            users.insert(user)
            return .json(201, ["user_id": .string(user)])
        }
        switch (request.method, parts.count > 3 ? parts[3] : "") {
        case ("POST", ""): return users.insert(parts[2]).inserted ? .json(201, [:]) : conflict
        case ("GET", "entitlements"):
            let identity = request.fields["Onym-Identity"] ?? ""
            return .json(
                200,
                [
                    "data": [
                        ["id": .string(identity.isEmpty ? "device" : identity), "active": true, "started": 1]
                    ]
                ])
        case ("POST", "properties"):
            if !users.contains(parts[2]) { fault("properties of a user who was not made") }
            for entry in request.json.elements ?? [] { take(entry["key"], &propertiesSeen) }
            return .json(200, ["savedProperties": [], "propertyErrors": []])
        case ("POST", "purchases"):
            guard let signed = FakeServer.signed(request) else {
                take(request.json["price"], &purchasesSeen)
                return .json(201, [:])
            }
            // The purchase is the first user's.
            let isFirst = decided[signed] == nil || decided[signed]?.contains("bought \(parts[2])") == true
            decided[signed, default: []].insert("\(isFirst ? "bought" : "refused") \(parts[2])")
            return isFirst ? .json(201, [:]) : conflict
        default: return users.contains(parts[2]) ? .json(200, [:]) : missing
        }
    }

    // MARK: - What must not be in any request, answered or not

    func look(_ request: HTTPRequest) {
        let (path, json) = (request.path, request.json)
        if path == "/v1/ingest" {
            for event in json["events"]?.elements ?? [] { lookAtClaimed(event) }
        } else if path == "/v1/identity/claim" {
            lookAtClaim(json)
        } else if path == "/v1/identity/properties" {
            for name in json["properties"]?.texts.keys ?? [:].keys
            where properties[name] ?? "none" != json["user_id"]?.text {
                fault("\(name) went to \(json["user_id"]?.text ?? "")")
            }
        } else if path.hasSuffix("/events") {
            for event in json["events"]?.elements ?? [] { lookAtEvent(event, json["mpid"]?.integer) }
        } else if path.hasPrefix("/v3/users/") {
            lookAtAccess(request)
        }
    }

    private func lookAtEvent(_ event: JSON, _ mpid: Int64?) {
        let data = event["data"]
        guard let name = data?["event_name"]?.text, let owner = expected[name] else {
            return fault("an event of nobody's")
        }
        if let expected = owner.mpid {
            if expected != mpid { fault("\(name) of \(expected) went to \(mpid ?? 0)") }
        } else if !first.contains(mpid ?? 0) {
            fault("\(name), from before anybody, went to \(mpid ?? 0)")
        }
        lookAtID("idsync \(name)", data?["source_message_id"]?.text)
    }

    private func lookAtClaimed(_ event: JSON) {
        guard let name = event["message"]?.text, let owner = expected[name] else {
            return fault("an event of nobody's")
        }
        if owner.claim != event["user_id"]?.text {
            fault("\(name) of \(owner.claim) went to \(event["user_id"] ?? .null)")
        }
        lookAtID("claim \(name)", event["client_event_id"]?.text)
    }

    /// A thing has one id, at every try, and no other thing has it.
    private func lookAtID(_ name: String, _ id: String?) {
        guard let id else { return fault("\(name) has no id") }
        if let other = ids[id], other != name { fault("\(name) and \(other) have one id") }
        if ids[id] == nil, ids.values.contains(name) { fault("\(name) has two ids") }
        ids[id] = name
    }

    /// All that was logged as nobody before the claim must be there before it.
    private func lookAtClaim(_ json: JSON) {
        let key = "\(json["anonymous_id"]?.text ?? "") \(json["user_id"]?.text ?? "")"
        guard let before = claims[key]?.first else { return fault("a claim that nobody made: \(key)") }
        // What the disk could not keep never comes.
        if !isLossy, !before.isSubset(of: claimed) {
            fault("\(key) was claimed before \(before.subtracting(claimed).sorted())")
        }
    }

    /// The signed text of a purchase in the device's shop; nil for other calls.
    private static func signed(_ request: HTTPRequest) -> String? {
        request.json["app_store_data"]?["receipt"]?.text.flatMap { $0.hasPrefix("shop-") ? $0 : nil }
    }

    private func lookAtAccess(_ request: HTTPRequest) {
        let parts = request.path.split(separator: "/").map(String.init)
        guard request.method == "POST", parts.count > 3 else { return }
        if parts[3] == "properties" {
            for entry in request.json.elements ?? [] where properties[entry["key"]?.text ?? ""] != parts[2] {
                fault("\(entry["key"] ?? .null) went to \(parts[2])")
            }
        } else if let signed = FakeServer.signed(request) {
            let user = "\(parts[2]) \(request.fields["Onym-Identity"] ?? "")"
            if allowed[signed]?.contains(user) != true { fault("\(signed) went to \(user)") }
            // Each user's call has one key.
            lookAtID("\(signed) of \(user)", request.fields["Idempotency-Key"])
        } else if parts[3] == "purchases" {
            let price = request.json["price"]?.text ?? ""
            if purchases[price] != "\(parts[2]) \(request.fields["Onym-Identity"] ?? "")" {
                fault("what cost \(price) went to \(parts[2])")
            }
            lookAtID("purchase \(price)", request.fields["Idempotency-Key"])
        }
    }
}

@Suite("Random programs of an app")
struct InterleavingTests {
    /// `make check` runs 2,000 of them in release, `make soak` a million.
    private static var seeds: [UInt64] {
        let seeds = Soak.histories(2000)
        return Soak.factor > 1 ? Array(1...UInt64(50_000 * Soak.factor)) : seeds
    }

    @Test("nothing is ever sent as another's, nothing is lost, and each callback is called once", arguments: [0, 1])
    func programs(half: Int) {
        for seed in InterleavingTests.seeds where seed % 2 == half || InterleavingTests.seeds.count == 1 {
            let program = Interleaving(seed: seed)
            if !program.run().isEmpty {
                Issue.record("\(program.story)")
                return
            }
        }
        Soak.report("\(InterleavingTests.seeds.count / 2) random programs of an app")
    }
}
