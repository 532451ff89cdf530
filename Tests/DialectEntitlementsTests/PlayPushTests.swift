import ByteText
import Crypto
import DialectEntitlements
import Domain
import Foundation
import Outbound
import TestKit
import Testing
import Threads

/// Pushes that a token of Google proves, and refunds that only a list tells (spec/entitlements-live.md 5), against a stand-in.
@Suite("Google's pushes and refunds")
struct PlayPushTests {
    /// A key of the stand-in for Google's signer.
    private struct Signer {
        let key: PrivateKey
        /// The key's entry in Google's list, without the name.
        let numbers: String

        init() throws {
            let folder = TemporaryFolder()
            let path = folder.path + "/key"
            let made = try Shell.result(["openssl", "genrsa", "-out", path, "2048"])
            guard made.code == 0 else { throw Shell.Failed(description: made.errors) }
            let said = try Shell.result(["openssl", "rsa", "-in", path, "-noout", "-modulus"]).output
            let digits = try #require(said.split(separator: "=").last).trimmingCharacters(in: .whitespacesAndNewlines)
            let modulus = Hexadecimal.decode(Array(digits.lowercased().utf8).span) ?? []
            key = try #require(PrivateKey(pem: try Array(Data(contentsOf: URL(filePath: path)))))
            numbers = #""kty":"RSA","alg":"RS256","use":"sig","e":"AQAB","n":"\#(Base64.encodeForAddresses(modulus))""#
        }

        func token(_ claims: [String: Any], kid: String = "k1", algorithm: String = "RS256") throws -> String {
            let signed = try [["alg": algorithm, "kid": kid, "typ": "JWT"], claims].map { part in
                Base64.encodeForAddresses(Array(try JSONSerialization.data(withJSONObject: part)))
            }.joined(separator: ".")
            return signed + "." + Base64.encodeForAddresses(key.sign(Array(signed.utf8)))
        }
    }

    private static let signer = Result { try Signer() }
    private static let stranger = Result { try Signer() }
    private static let audience = "https://onym.example.com/push"
    private static let email = "push@example.iam.gserviceaccount.com"

    private func scene() throws -> PlayScene {
        let scene = try PlayScene {
            $0.stores.options["play.push_audience"] = PlayPushTests.audience
            $0.stores.options["play.push_email"] = PlayPushTests.email
        }
        let numbers = try PlayPushTests.signer.get().numbers
        scene.google.keys.withLock { $0 = #"{"keys":[{"kid":"k1",\#(numbers)}]}"# }
        return scene
    }

    private func claims(_ scene: PlayScene, _ changes: [String: Any] = [:]) -> [String: Any] {
        let standard: [String: Any] = [
            "iss": "https://accounts.google.com", "aud": PlayPushTests.audience, "email": PlayPushTests.email,
            "email_verified": true, "exp": scene.client.clock.seconds + 3600, "iat": scene.client.clock.seconds,
        ]
        return standard.merging(changes) { $1 }
    }

    private func push(_ scene: PlayScene, _ token: String?) throws -> Int {
        let text =
            #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1","subscriptionNotification":{"version":"1.0","notificationType":2,"purchaseToken":"tok-1"}}"#
        return try scene.client.settled(
            scene.client.http.call(
                "POST", "/onym/v1/stores/google/1",
                fields: token.map { [("Authorization", "Bearer \($0)")] } ?? [],
                json: #"{"message":{"data":"\#(Base64.encode(Array(text.utf8)))","messageId":"1"},"subscription":"s"}"#)
        ).status
    }

    private func keyQuestions(_ scene: PlayScene) -> Int {
        scene.google.stand.received.count { $0.line.hasPrefix("GET /certs ") }
    }

    @Test("a push with a token of the subscription counts, and others are refused")
    func tokens() throws {
        let scene = try scene()
        let signer = try PlayPushTests.signer.get()
        scene.google.says("tok-1", scene.subscription())
        #expect(try scene.buy("A", "tok-1").status == 200)
        scene.google.says("tok-1", scene.subscription("ON_HOLD"))
        scene.client.clock.set(seconds: scene.client.clock.seconds + 1)
        let wrong: [[String: Any]] = [
            ["iss": "https://example.com"], ["aud": "https://other.example.com"], ["email": "x@example.com"],
            ["email_verified": false], ["exp": scene.client.clock.seconds - 301], ["exp": "soon"],
        ]
        for changes in wrong {
            #expect(try push(scene, signer.token(claims(scene, changes))) == 401, "\(changes)")
        }
        for token in [nil, "", "a.b.c", try signer.token(claims(scene), algorithm: "none")] {
            #expect(try push(scene, token) == 401, "\(token ?? "no token")")
        }
        #expect(keyQuestions(scene) == 0, "nobody is asked about a token that names another place")
        #expect(try push(scene, PlayPushTests.stranger.get().token(claims(scene))) == 401)
        #expect(try scene.client.active("A") == ["X"])
        #expect(try push(scene, signer.token(claims(scene))) == 200)
        #expect(try scene.client.active("A") == [])
        #expect(keyQuestions(scene) == 1, "the keys are kept")
    }

    @Test("Google's keys are kept for an hour, and an unknown one is looked for once in five minutes")
    func keys() throws {
        let scene = try scene()
        let signer = try PlayPushTests.signer.get()
        let clock = scene.client.clock
        scene.google.says("tok-1", scene.subscription())
        #expect(try push(scene, signer.token(claims(scene))) == 200)
        clock.set(seconds: clock.seconds + 3599)
        #expect(try push(scene, signer.token(claims(scene))) == 200)
        #expect(keyQuestions(scene) == 1)
        clock.set(seconds: clock.seconds + 1)
        #expect(try push(scene, signer.token(claims(scene))) == 200)
        #expect(keyQuestions(scene) == 2)
        // Google changes the key.
        clock.set(seconds: clock.seconds + 301)
        for _ in 0..<3 { #expect(try push(scene, signer.token(claims(scene), kid: "k2")) == 401) }
        #expect(keyQuestions(scene) == 3)
        scene.google.keys.withLock { $0 = #"{"keys":[{"kid":"k2",\#(signer.numbers)}]}"# }
        #expect(try push(scene, signer.token(claims(scene), kid: "k2")) == 401)
        clock.set(seconds: clock.seconds + 301)
        #expect(try push(scene, signer.token(claims(scene), kid: "k2")) == 200)
        // Without an answer Pub/Sub sends the push again, and Google is asked once in ten seconds.
        clock.set(seconds: clock.seconds + 3600)
        let before = keyQuestions(scene)
        scene.google.keys.withLock { $0 = "[]" }
        for _ in 0..<3 { #expect(try push(scene, signer.token(claims(scene), kid: "k2")) == 503) }
        #expect(keyQuestions(scene) == before + 1)
        scene.google.keys.withLock { $0 = #"{"keys":[{"kid":"k2",\#(signer.numbers)}]}"# }
        clock.set(seconds: clock.seconds + 10)
        #expect(try push(scene, signer.token(claims(scene), kid: "k2")) == 200)
    }

    @Test("a refund that only the list tells ends what it was for (G23)", arguments: StoreKind.allCases)
    func listed(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind) {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.refundPauseMilliseconds = 5
        }
        let (client, google) = (scene.client, scene.google)
        for token in ["tok-1", "tok-2", "tok-3"] {
            google.says(token, scene.subscription(order: "GPA.\(token)", until: 60))
        }
        for (user, token) in [("A", "tok-1"), ("B", "tok-2"), ("C", "tok-3")] { _ = try scene.buy(user, token) }
        client.clock.set(seconds: client.clock.seconds + 60)
        let at = client.clock.seconds
        google.refunds.withLock {
            $0 = [
                [("unknown", "GPA.9", at), ("tok-2", "GPA.other", at)], [("tok-1", "GPA.tok-1", at)],
            ]
        }
        #expect(try Patience.until { try client.active("A") == [] }, "a refund on the second page")
        #expect(try client.active("B") == ["X"], "a refund of an order that the purchase does not have")
        #expect(try client.active("C") == ["X"])
        client.clock.set(seconds: at + 100_060)
        google.refunds.withLock { $0.append([("tok-3", "GPA.tok-3", at + 100_000)]) }
        #expect(try Patience.until { try client.active("C") == [] })
        #expect(try client.events("A") == ["entitlement_lost", "entitlement_granted"], "a refund counts once")
        // After an outage the list is asked again.
        google.isDown.withLock { $0 = true }
        google.refunds.withLock { $0 = [[("tok-2", "GPA.tok-2", at + 100_000)]] }
        let asked = google.stand.received.count
        #expect(Patience.until { google.stand.received.count > asked })
        google.isDown.withLock { $0 = false }
        #expect(try Patience.until { try client.active("B") == [] })
    }

    private func refundScene(isServers: Bool = true) throws -> PlayScene {
        try PlayScene(isServers: isServers) {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.refundPauseMilliseconds = 5
        }
    }

    @Test("full pages of refunds are read")
    func fullPages() throws {
        let scene = try refundScene()
        scene.google.says("tok", scene.subscription(order: "GPA.tok"))
        _ = try scene.buy("A", "tok")
        let at = scene.client.clock.seconds
        let others = (0..<299).map { number in
            (token: "\(number)" + String(repeating: "t", count: 300), order: "GPA.\(number)", at: at)
        }
        scene.google.refunds.withLock {
            $0 = [Array(others[..<100]), Array(others[100..<200]), others[200...] + [("tok", "GPA.tok", at)]]
        }
        #expect(try Patience.until { try scene.client.active("A") == [] })
    }

    @Test("a refund counts after a long outage, after a clock that was ahead, and for all products of its order")
    func lateRefunds() throws {
        let scene = try refundScene()
        let (client, google) = (scene.client, scene.google)
        let start = client.clock.seconds
        google.says("late", scene.subscription(order: "GPA.late", until: 400))
        google.says(
            "bundle",
            scene.subscription(order: "GPA.bundle", until: 400).replacing(
                #""lineItems":["#,
                with:
                    #""lineItems":[{"productId":"Y","expiryTime":"2026-12-01T00:00:00Z","latestSuccessfulOrderId":"GPA.bundle","autoRenewingPlan":{"autoRenewEnabled":true}},"#
            ))
        google.says("ahead", scene.subscription(order: "GPA.ahead", until: 400))
        for (user, token) in [("A", "late"), ("B", "bundle")] { _ = try scene.buy(user, token) }
        client.clock.set(seconds: start + 86_400)
        _ = try scene.buy("C", "ahead")
        client.clock.set(seconds: start + 60)
        #expect(try client.active("B") == ["X", "Y"] && client.active("C") == ["X"])
        google.refunds.withLock { $0 = [[("bundle", "GPA.bundle", start), ("ahead", "GPA.ahead", start)]] }
        #expect(try Patience.until { try client.active("B") == [] })
        #expect(try Patience.until { try client.active("C") == [] })
        // Searches of an outage of 40 days are too late for their beginning.
        google.isDown.withLock { $0 = true }
        client.clock.advance(days: 40)
        let at = client.clock.seconds
        google.refunds.withLock { $0 = [[("late", "GPA.late", at - 20 * 86_400)]] }
        google.isDown.withLock { $0 = false }
        #expect(try Patience.until { try client.active("A") == [] })
    }

    @Test("an account that may not read the list keeps its token, and the fault ends with the next answer")
    func refusedList() throws {
        let scene = try refundScene()
        scene.google.refusesList.withLock { $0 = true }
        func fault() throws -> Bool {
            try scene.client.administrator("GET", "/stores/status").body.contains("is not set up for the store")
        }
        func lists() -> Int { scene.google.stand.received.count { $0.line.contains("/voidedpurchases?") } }
        #expect(try Patience.until { try fault() })
        let before = lists()
        #expect(Patience.until { lists() > before + 5 })
        #expect(scene.google.tokens.withLock { $0 } == 1)
        scene.google.refusesList.withLock { $0 = false }
        #expect(try Patience.until { try !fault() })
    }

    @Test("searches of many projects keep to Google's limits, and other settings begin anew")
    func searches() {
        let second: UInt64 = 1_000_000_000
        let now = Instant(milliseconds: 1_750_000_000_000)
        let projects = (1...21).map { ProjectID(rawValue: $0) }
        var searches = RefundSearches(pauseMilliseconds: 300_000)
        for (place, project) in projects.enumerated() {
            let monotonic = UInt64(place) * second
            #expect(searches.due(of: projects, at: monotonic) == project)
            let search = searches.begin(project, of: 21, "app a", at: now, monotonic)
            #expect(search.since == nil, "Google lists all that it has")
            searches.end(search, next: nil, at: monotonic)
            #expect(searches.due(of: projects, at: monotonic + second - 1) == nil, "one page in a second")
        }
        #expect(searches.due(of: projects, at: 599 * second) == nil)
        let first = projects[0]
        #expect(searches.due(of: projects, at: 600 * second) == first)
        let again = searches.begin(first, of: 21, "app a", at: now, 600 * second)
        #expect(again.since == now.advanced(byMilliseconds: -3_600_000))
        searches.end(again, next: "2", at: 600 * second)
        #expect(searches.due(of: [first], at: 601 * second) == first)
        let other = searches.begin(first, of: 21, "app b", at: now, 601 * second)
        #expect(other.page == nil && other.since == nil)
    }
}
