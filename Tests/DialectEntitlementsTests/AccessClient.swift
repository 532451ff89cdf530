import Domain
import Foundation
import Gateway
import Program
import TestKit
import Threads

/// Calls the Entitlements dialect as its clients do, against a server whose clock the test sets, and which sells the
/// products X and Y: each is a subscription of a month that gives the entitlement of its name.
final class AccessClient {
    private(set) var server: TestServer
    private(set) var http: HTTPClient
    private let configure: (inout RunningServer.Configuration) -> Void
    let clock: TestClock
    /// Before the key: `test_` in the sandbox.
    var world = "test_"

    /// A clock that goes only when the test says so.
    final class TestClock: Sendable {
        private let milliseconds: Monitor<Int64>

        init(seconds: Int64) { milliseconds = Monitor(seconds * 1000) }

        var seconds: Int64 { milliseconds.withLock { $0 } / 1000 }
        func set(seconds: Int64) { milliseconds.withLock { $0 = seconds * 1000 } }
        func advance(days: Int64) { milliseconds.withLock { $0 += days * 86_400_000 } }
        var now: @Sendable () -> Instant { { [milliseconds] in milliseconds.withLock { Instant(milliseconds: $0) } } }
    }

    init(
        _ kind: StoreKind, restore: String = "copy", at seconds: Int64 = 1_750_000_000,
        configure: @escaping (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        self.configure = configure
        let clock = TestClock(seconds: seconds)
        self.clock = clock
        server = try TestServer(kind) { configuration in
            configuration.clock = clock.now
            configure(&configuration)
        }
        http = server.client
        for name in ["X", "Y", "Z"] {
            try define(name)
            try sell(name, #"{"type":"subscription","duration_seconds":2592000,"entitlements":["\#(name)"]}"#)
        }
        try self.restore(by: restore)
    }

    /// Stops the server, and starts another one over its store.
    func restart() throws {
        server = try TestServer(restarting: server) { configuration in
            configuration.clock = clock.now
            configure(&configuration)
        }
        http = server.client
    }

    var projectKey: String { world + server.credentials.entitlementsProjectKey }
    var secretKey: String { world + server.credentials.entitlementsSecretKey }

    func call(
        _ method: String, _ path: String, _ json: String? = nil, key: String? = nil, fields: [(String, String)] = []
    ) throws -> Wire.Answer {
        let fields = [("Authorization", "Bearer \(key ?? projectKey)")] + fields
        guard let json else { return try http.call(method, path, fields: fields) }
        return try http.call(method, path, fields: fields, json: json)
    }

    // MARK: - As an administrator

    @discardableResult
    func administrator(_ method: String, _ path: String, _ json: String? = nil) throws -> Wire.Answer {
        try call(method, "/onym/v1" + path, json, key: server.credentials.adminKey)
    }

    func define(_ entitlement: String) throws { try administrator("PUT", "/entitlements/\(entitlement)", "{}") }
    func sell(_ product: String, _ json: String) throws { try administrator("PUT", "/products/\(product)", json) }

    func restore(by strategy: String) throws {
        try administrator(
            "PUT", "/strategy", #"{"restore":{"production":"\#(strategy)","sandbox":"\#(strategy)"}}"#)
    }

    /// The kinds of what a user was told, the last first.
    func events(_ user: String) throws -> [String] {
        let type = world.isEmpty ? "access_user_id" : "sandbox_user_id"
        let kinds = "entitlement_granted,entitlement_lost,entitlement_transferred,properties_changed"
        let answer = try administrator("GET", "/people/\(type):\(user)/timeline?kinds=\(kinds)")
        let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return (page?["rows"] as? [[String: Any]] ?? []).compactMap { $0["kind"] as? String }
    }

    /// Waits until the server has asked about all notifications that it has taken. One without an answer does not count: its next
    /// question is a minute later.
    func settled(_ answer: Wire.Answer) throws -> Wire.Answer {
        guard answer.status == 200 else { return answer }
        let (store, soon) = (server.store, clock.now().advanced(byMilliseconds: 30_000))
        let isSettled = try Patience.until {
            try store.read { snapshot throws(StoreFault) in
                for source in StoreNotice.sources {
                    let due = try DueNotices(
                        in: ProjectID(rawValue: 1), of: source, at: soon, limit: 1, snapshot
                    ) { _ in true }
                    if !due.items.isEmpty { return false }
                }
                return true
            }
        }
        if !isSettled { throw Unexpected(answer: answer) }
        return answer
    }

    // MARK: - Users, and what they buy

    private static let receipts = TestReceipts(master: [UInt8](repeating: 7, count: 32))

    func receipt(
        _ product: String, _ transaction: String, account: String? = nil, purchased: Int64? = nil,
        expires: Int64? = nil, original: String? = nil, signed: Int64? = nil
    ) -> String {
        var payload = TestReceipts.Payload(
            project: ProjectID(rawValue: 1), product: product, transaction: transaction,
            purchasedAt: Instant(milliseconds: (purchased ?? clock.seconds) * 1000))
        payload.account = account
        payload.expiresAt = expires.map { Instant(milliseconds: $0 * 1000) }
        payload.signedAt = signed.map { Instant(milliseconds: $0 * 1000) }
        payload.originalTransaction = original ?? transaction
        return AccessClient.receipts.receipt(payload)
    }

    @discardableResult
    func makeUser(_ id: String) throws -> Wire.Answer {
        try call("POST", "/v3/users/\(id)", #"{"environment":"sandbox"}"#)
    }

    func purchase(_ user: String, _ receipt: String, fields: [(String, String)] = []) throws -> Wire.Answer {
        try call(
            "POST", "/v3/users/\(user)/purchases",
            #"{"price":"9.99","currency":"usd","purchased":1750000000,"app_store_data":{"receipt":"\#(receipt)"}}"#,
            fields: fields)
    }

    /// The entitlements that are active, in the order of their names.
    func active(_ user: String, fields: [(String, String)] = []) throws -> [String] {
        let answer = try call("GET", "/v3/users/\(user)/entitlements", fields: fields)
        guard answer.status == 200 else { throw Unexpected(answer: answer) }
        let list = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return (list?["data"] as? [[String: Any]] ?? []).filter { $0["active"] as? Bool == true }
            .compactMap { $0["id"] as? String }
    }

    struct Unexpected: Error { let answer: Wire.Answer }
}

/// An install of an app, with an SDK that does as the vendor's do (spec/entitlements.md 2.1), or as ours.
final class Install {
    enum DecisionFacts: String, CaseIterable, Sendable {
        /// The user alone is said, as the vendor's SDKs do.
        case plain
        /// The install's own user and who is signed in are said, as ours does.
        case exact
    }

    let client: AccessClient
    let view: DecisionFacts
    let original: String
    private(set) var current: String
    private(set) var identity: String?

    init(_ name: String, _ view: DecisionFacts, _ client: AccessClient) throws {
        self.client = client
        self.view = view
        original = "QON_\(name)"
        current = original
        try client.makeUser(original)
    }

    var fields: [(String, String)] {
        view == .plain ? [] : [("Onym-Device-User", original), ("Onym-Identity", identity ?? "")]
    }

    func identify(_ name: String) throws {
        var answer = try client.call("GET", "/v3/identities/\(name)")
        if answer.status == 404 {
            let fields = view == .plain ? [] : [("Onym-Device-User", original)]
            answer = try client.call(
                "POST", "/v3/identities/\(name)", #"{"user_id":"\#(current)"}"#, fields: fields)
            // The user stands for somebody else: another is made.
            if answer.status == 422 { answer = try client.call("POST", "/v3/identities/\(name)", "{}", fields: fields) }
        }
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        guard let user = object?["user_id"] as? String else { throw AccessClient.Unexpected(answer: answer) }
        current = user
        identity = name
    }

    func logOut() {
        current = original
        identity = nil
    }

    @discardableResult
    func buy(_ product: String, _ transaction: String? = nil, account: String? = nil) throws -> Wire.Answer {
        try client.purchase(
            current, client.receipt(product, transaction ?? "\(product)1", account: account), fields: fields)
    }

    func restore(
        _ receipts: [String], strategy: String? = nil, isDryRun: Bool = false, isServer: Bool = false
    ) throws -> Wire.Answer {
        let list = receipts.map { "\"\($0)\"" }.joined(separator: ",")
        let strategy = strategy.map { #","strategy":"\#($0)""# } ?? ""
        return try client.call(
            "POST", "/v3/users/\(current)/restore\(isDryRun ? "?dry_run=true" : "")",
            #"{"transactions":[\#(list)]\#(strategy)}"#, key: isServer ? client.secretKey : nil, fields: fields)
    }

    func active() throws -> [String] { try client.active(current, fields: fields) }
}
