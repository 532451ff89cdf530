import ByteText
import Crypto
import Domain
import Foundation
import Gateway
import TestKit
import Testing

/// The tokens of installs, and the keys they are signed with.
@Suite("Tokens of installs")
struct TokenTests {
    static let stores = StoreKind.allCases

    private func parts(_ token: String) throws -> (
        header: [String: Any], payload: [String: Any], valid: (PublicKey) -> Bool
    ) {
        let parts = token.split(separator: ".").map { Base64.decodeForAddresses(Array($0.utf8).span) ?? [] }
        func object(_ bytes: [UInt8]) throws -> [String: Any] {
            try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        }
        let signed = Array(token.split(separator: ".").dropLast().joined(separator: ".").utf8)
        return (try object(parts[0]), try object(parts[1]), { $0.verifies(parts[2], of: signed) })
    }

    private func keys(_ client: LinkingClient) throws -> [String: PublicKey] {
        let answer = try client.call("GET", "/.well-known/jwks.json")
        #expect(answer.status == 200)
        // The page also has the keys that sign answers about access; these name no algorithm of tokens.
        let keys = try #require(answer.json["keys"] as? [[String: Any]]).filter { $0["alg"] != nil }
            .map { $0.compactMapValues { $0 as? String } }
        return Dictionary(
            uniqueKeysWithValues: keys.map {
                ($0["kid"] ?? "", .ed25519(Base64.decodeForAddresses(Array(($0["x"] ?? "").utf8).span) ?? []))
            })
    }

    @Test("can be checked by anybody who has the published keys", arguments: stores)
    func jwt(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let user = try client.user("e1")
        let token = try parts(user.token)
        #expect(token.header["alg"] as? String == "EdDSA" && token.header["typ"] as? String == "at+jwt")
        let keys = try keys(client)
        // The keys of tokens, of signed answers, and of heads of the journal.
        #expect(keys.count == 4)
        let key = try #require(keys[token.header["kid"] as? String ?? ""])
        #expect(token.valid(key))
        #expect(keys.values.count { token.valid($0) } == 1)
        #expect(token.payload["sub"] as? String == user.install && token.payload["user_id"] as? String == user.user)
        #expect(token.payload["exp"] as? Int == 1_610_000_600 && token.payload["iat"] as? Int == 1_610_000_000)
        #expect(token.payload["cnf"] == nil)
    }

    @Test("are good until their last second, and no longer")
    func expiry() throws {
        let client = try LinkingClient(.memory)
        let user = try client.user("e1")
        client.clock.advance(milliseconds: 599_999)
        #expect(try client.person(user.token).status == 200)
        client.clock.advance(milliseconds: 1)
        let refused = try client.person(user.token)
        #expect(refused.status == 401 && refused.code == "INVALID_TOKEN")
        #expect(try client.refresh(user.refreshToken).status == 200)
    }

    @Test("keys follow each other, and each is published before and after its time")
    func rotation() throws {
        let client = try LinkingClient(.memory) { $0.signingKeyDays = 1 }
        let first = try client.user("e1")
        let kid = { (token: String) in try self.parts(token).header["kid"] as? String ?? "" }
        let published = try keys(client)
        client.clock.advance(milliseconds: 86_400_000)
        let second = try client.refresh(first.refreshToken)
        #expect(try kid(second.token) != kid(first.token))
        #expect(published[try kid(second.token)] != nil, "it was published a turn ahead")
        #expect(try keys(client)[kid(first.token)] != nil, "and the last one is for a turn more")
        // A token that was made just before the turn is good after it.
        client.clock.advance(milliseconds: 86_400_000 - 1000 - 1_610_000_000_000 % 86_400_000)
        let late = try client.refresh(second.refreshToken)
        client.clock.advance(milliseconds: 2000)
        #expect(try kid(client.refresh(late.refreshToken).token) != kid(late.token))
        #expect(try client.person(late.token).status == 200)
        client.clock.advance(milliseconds: 2 * 86_400_000)
        #expect(try keys(client)[kid(late.token)] == nil)
    }

    @Test("a refresh token is good once; a lost answer can be had again; an old one ends them all", arguments: stores)
    func refresh(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let user = try client.user("e1")
        let second = try client.refresh(user.refreshToken)
        #expect(second.status == 200 && second.refreshToken != user.refreshToken && second.install == user.install)
        #expect(second.isActive == true && second.user == user.user)
        // The answer was lost: the predecessor is taken until the successor is used.
        for _ in 0..<2 { #expect(try client.refresh(user.refreshToken).refreshToken == second.refreshToken) }
        let third = try client.refresh(second.refreshToken)
        #expect(third.status == 200)
        // Now somebody else has the first.
        let stolen = try client.refresh(user.refreshToken)
        #expect(stolen.status == 401 && stolen.code == "REFRESH_TOKEN_REUSED", "\(stolen)")
        for token in [third.refreshToken, second.refreshToken, user.refreshToken] {
            #expect(try client.refresh(token).code == "INVALID_TOKEN")
        }
        for token in [third.token, second.token, user.token] {
            #expect(try client.person(token).code == "INVALID_TOKEN")
            #expect(try client.submit(token, [("x", client.clock.now)]).status == 401)
        }
        // The way back is a new code.
        #expect(try client.user("e1").user == user.user)
    }

    @Test("many refreshes at once with one token come to one next token", arguments: stores)
    func race(_ kind: StoreKind) async throws {
        let client = try LinkingClient(kind)
        let token = try client.user("e1").refreshToken
        let next = try await withThrowingTaskGroup(of: String.self) { group in
            for client in (0..<8).map({ _ in Held(client.another) }) {
                group.addTask { try client.value.refresh(token).refreshToken }
            }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(next.count == 1 && next.first?.isEmpty == false)
    }

    @Test("a reset ends them; it can be told again", arguments: stores)
    func reset(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let user = try client.user("e1")
        for _ in 0..<2 { #expect(try client.reset(user.token).status == 204) }
        for answer in [
            try client.person(user.token), try client.config(user.token), try client.refresh(user.refreshToken),
            try client.submit(user.token, [("x", client.clock.now)]), try client.linkHard(user.token),
        ] { #expect(answer.status == 401 && answer.code == "INVALID_TOKEN", "\(answer)") }
        #expect(try client.history(of: user.user) == ["deactivated reset", "activated code_redeemed"])
        let refused = try client.link(user.install, "e1")
        #expect(refused.status == 403 && refused.code == "INSTALL_DEACTIVATED")
    }

    @Test("tokens and installs are there after a restart")
    func restart() throws {
        var client = try LinkingClient(.sqlite)
        let user = try client.user("e1")
        let refresh = try client.refresh(user.refreshToken).refreshToken
        client = try client.restarted()
        #expect(try client.config(user.token).isActive == true)
        #expect(try client.refresh(refresh).status == 200)
    }

    @Test(
        "what is sent is kept under the install's person, once, and only what it gathered in its time",
        arguments: stores)
    func grace(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let old = try client.user("e1")
        let before = client.clock.now
        #expect(try client.submit(old.token, [("a", before), ("a", before)]).json["repeated"] as? Int == 1)
        #expect(try client.submit(old.token, [("a", before)]).json["accepted"] as? Int == 0)
        client.clock.advance(milliseconds: 60_000)
        let new = try client.user("e1")
        let after = client.clock.now.advanced(byMilliseconds: 1)
        let late = try client.submit(old.token, [("b", before), ("c", after)])
        #expect(late.status == 200 && late.json["accepted"] as? Int == 1 && late.json["dropped"] as? Int == 1)
        #expect(late.isActive == false && late.reason == "superseded", "it learns it by any call")
        #expect(try client.submit(new.token, [("d", after)]).json["accepted"] as? Int == 1)
        #expect(try client.events(of: old.user) == ["d", "b", "a"])
        // The edge of the grace window, a day.
        let token = { try client.refresh(old.refreshToken).token }
        client.clock.advance(milliseconds: 86_399_999)
        #expect(try client.submit(token(), [("e", before)]).status == 200)
        client.clock.advance(milliseconds: 1)
        let refused = try client.submit(token(), [("f", before)])
        #expect(refused.status == 403 && refused.code == "INSTALL_DEACTIVATED")
    }

    @Test("what an install gathers while it waits is nobody's", arguments: stores)
    func silence(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let phone = try client.user("e1")
        let tablet = try client.user("e1", "tablet")
        let waiting = client.clock.now.advanced(byMilliseconds: 10)
        client.clock.advance(milliseconds: 20)
        #expect(try client.submit(tablet.token, [("a", waiting)]).json["dropped"] as? Int == 1)
        _ = try client.reset(phone.token)
        #expect(try client.config(tablet.token).isActive == true)
        let now = client.clock.now
        let sent = try client.submit(tablet.token, [("a", waiting), ("b", now)])
        #expect(sent.json["dropped"] as? Int == 1 && sent.json["accepted"] as? Int == 1)
    }

    static let badEvents = [
        #"{"events":[{"id":"a","type":"t","captured_at":"2027-01-01T00:00:00Z","data":{"a":1},"data":{"b":2}}]}"#,
        "{}", #"{"events":[]}"#, #"{"events":{}}"#, #"{"events":[1]}"#, #"{"events":[{"id":"a"}]}"#,
        #"{"events":[{"id":"a","type":"t","captured_at":"yesterday"}]}"#,
        #"{"events":[{"id":"","type":"t","captured_at":"2027-01-01T00:00:00Z"}]}"#,
        #"{"events":[{"id":"a","type":"t","captured_at":"2027-01-01T00:00:00Z","data":1}]}"#,
    ]

    @Test("events that are none are refused, and told where", arguments: badEvents)
    func events(_ body: String) throws { try expectRefused(body) }

    @Test("more events than a call may bring are refused, and told so")
    func manyEvents() throws {
        let event = #"{"id":"a","type":"t","captured_at":"2027-01-01T00:00:00Z"}"#
        try expectRefused("{\"events\":[\(Array(repeating: event, count: 501).joined(separator: ","))]}")
    }

    private func expectRefused(_ body: String) throws {
        let client = try LinkingClient(.memory)
        let answer = try client.call("POST", "/sdk/events", body, key: try client.user("e1").token)
        #expect(answer.status == 400 && answer.code == "BAD_REQUEST" && answer["message"]?.contains("events") == true)
    }

    @Test("are not given without a limit to whoever has an app's secret")
    func withoutKey() throws {
        let rates = RateLimits(key: RateLimit(perSecond: 1, burst: 3), identity: .off)
        let client = try LinkingClient(.memory) { $0.rates = rates }
        let answers = try (0..<4).map { _ in try client.makeInstall().status }
        #expect(answers == [201, 201, 201, 429])
        client.clock.advance(milliseconds: 1000)
        #expect(try client.makeInstall().status == 201)
    }
}
