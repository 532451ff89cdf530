import Foundation
import TestKit
import Testing
import Threads

/// Two servers on one PostgreSQL, of which one asks Google about purchases, while the one that asks is killed again and again
/// (spec/entitlements-live.md 7).
@Suite(
    "Questions to a store, and servers that are killed", .timeLimit(.minutes(20)),
    .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct PurchaseTurnTests {
    private struct Question {
        let token: String
        /// The server that asks: its service account.
        let server: Int
        let at: ContinuousClock.Instant
    }

    /// Ten minutes of kills in a long soak.
    private static let seconds = Soak.factor > 1 ? min(600, 60 * Soak.factor) : 0
    private static let kills = 3
    private static let perSecond = 10
    private static let purchases = max(100, 10 * seconds)
    /// The greatest number of questions between two kills.
    private static let questionsBetween = 5
    /// The time in which the other server takes over, with some more for a busy machine.
    private static let takeOver = Duration.seconds(2 + 1)

    private static func account(_ number: Int, key: String, at google: StandIn) throws -> String {
        let file = try JSONSerialization.data(withJSONObject: [
            "client_email": "server\(number)@example.iam.gserviceaccount.com", "private_key": key,
            "private_key_id": "k1", "token_uri": google.url + "token",
        ])
        return String(decoding: file, as: UTF8.self)
    }

    @Test("one of two servers asks; none is asked about twice in 30 seconds, and the other takes over")
    func turns() throws {
        let log = Monitor<[Question]>([])
        let end = Date(timeIntervalSinceNow: 30 * 86_400).ISO8601Format()
        let start = Date(timeIntervalSinceNow: -60).ISO8601Format()
        let google = StandIn { request in
            let path = request.line.split(separator: " ")[1]
            if path == "/token" {
                let claims = request.body.split(separator: ".").dropFirst().first.map(String.init) ?? ""
                let padded = claims.replacing("-", with: "+").replacing("_", with: "/")
                let data = Data(base64Encoded: padded + String(repeating: "=", count: (4 - padded.count % 4) % 4))
                let text = String(decoding: data ?? Data(), as: UTF8.self)
                let server = text.firstMatch(of: /server(\d)@/).map { String($0.1) } ?? "?"
                return .status(200, #"{"access_token":"ya29.\#(server)","expires_in":3599}"#)
            }
            // Google waits for an acknowledgement, which makes a question due at once, and takes none.
            if path.hasSuffix(":acknowledge") { return .status(500, "") }
            guard path.contains("/subscriptionsv2/tokens/") else { return .status(404, "{}") }
            let server = request.fields.compactMap { $0.firstMatch(of: /ya29\.(\d)/).flatMap { Int($0.1) } }.first
            let token = String(path.split(separator: "/").last ?? "")
            log.withLock { $0.append(Question(token: token, server: server ?? -1, at: .now)) }
            // The answer takes a while, so that a kill meets open questions.
            _ = Patience.until(milliseconds: 200) { false }
            return .status(
                200,
                #"{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","startTime":"\#(start)","acknowledgementState":"ACKNOWLEDGEMENT_STATE_PENDING","testPurchase":{},"lineItems":[{"productId":"X","expiryTime":"\#(end)","latestSuccessfulOrderId":"GPA.\#(token)","autoRenewingPlan":{"autoRenewEnabled":true}}]}"#
            )
        }
        let cluster = try PostgresCluster.shared.get()
        let flags = ["--store", cluster.address, "--store-schema", cluster.newSchema().schema]
        let store = try Store(flags: flags)
        let data = [store.data, try store.another(1)]
        let key = try Shell.run("openssl", "genrsa", "2048")
        for number in data.indices {
            try Self.account(number, key: key, at: google).write(
                toFile: "\(store.folder.path)/account\(number)", atomically: true, encoding: .utf8)
        }
        func serve(_ number: Int, perSecond: Int = PurchaseTurnTests.perSecond) throws -> ServerProcess {
            try ServerProcess(
                data: data[number], flags: flags + ["--mode", "development"],
                environment: [
                    "ONYM_PLAY_URL=\(google.url)", "ONYM_PLAY_PACKAGE_NAME=com.example.app",
                    "ONYM_PLAY_SERVICE_ACCOUNT=\(store.folder.path)/account\(number)",
                    "ONYM_PURCHASE_POLL_PER_SECOND=\(perSecond)",
                ])
        }
        // Clients report purchases while no server asks by itself.
        let first = try serve(0, perSecond: 0)
        let access = [
            ("Authorization", "Bearer test_\(try #require(store.entitlements["project_key"]))"),
            ("Platform", "android"),
            ("Trigger", "Purchase"),
        ]
        let (failures, port, reporters) = (Monitor(0), first.port, 8)
        DispatchQueue.concurrentPerform(iterations: reporters) { place in
            let client = HTTPClient(port: port)
            for number in stride(from: place, to: Self.purchases, by: reporters) {
                let answer = try? client.call(
                    "POST", "/v1/user/purchase", fields: access,
                    json:
                        #"{"q_uid":"QON_\#(number)","version":"9.6.0","purchase":{"purchase_token":"tok-\#(number)","product":"X"}}"#
                )
                if answer?.status != 200 { failures.withLock { $0 += 1 } }
            }
        }
        try #require(failures.withLock { $0 } == 0)
        #expect(first.stop() == 0)
        log.withLock { $0 = [] }

        var servers = try [0, 1].map { try serve($0) }
        let clock = ContinuousClock()
        let begun = clock.now
        var longest = Duration.zero
        var kills = 0
        while kills < Self.kills || begun.duration(to: clock.now) < .seconds(Self.seconds) {
            let before = log.withLock { $0.count }
            guard Patience.until({ log.withLock { $0.count } >= before + Self.questionsBetween }) else {
                Issue.record("nobody asks after \(kills) kills")
                break
            }
            let asking = try #require(log.withLock { $0.last?.server })
            servers[asking].kill()
            kills += 1
            let killedAt = clock.now
            let tookOver = Patience.until { log.withLock { $0.contains { $0.server != asking && $0.at > killedAt } } }
            try #require(tookOver, "the other server does not ask")
            let at = log.withLock { $0.first { $0.server != asking && $0.at > killedAt }?.at } ?? killedAt
            longest = max(longest, killedAt.duration(to: at))
            servers[asking] = try serve(asking)
        }
        #expect(longest <= Self.takeOver, "the other server asks \(longest) after a kill")
        if Self.seconds > 0 {
            // What a killed server was asking about comes again after a minute.
            #expect(
                Patience.until(milliseconds: 120_000 + 1000 * Self.purchases / Self.perSecond) {
                    Set(log.withLock { $0.map(\.token) }).count == Self.purchases
                })
        }
        for server in servers { #expect(server.stop() == 0) }
        var last: [String: ContinuousClock.Instant] = [:]
        for question in log.withLock({ $0 }) {
            if let earlier = last[question.token] {
                #expect(earlier.duration(to: question.at) >= .seconds(30), "\(question.token)")
            }
            last[question.token] = question.at
        }
        #expect(last.count >= Self.kills * Self.questionsBetween)
        Soak.report(
            "\(kills) kills, \(last.count) purchases asked about, the other server asks at most \(longest) later")
    }
}
