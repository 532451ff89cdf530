import Foundation
import TestKit
import Testing

/// Codes, and what installs do with them: the tables of spec/linking.md 3.2 and 3.3, over HTTP on every store.
@Suite("Authentication codes")
struct CodeTests {
    static let stores = StoreKind.allCases

    private func refused(_ answer: LinkingAnswer, _ location: SourceLocation = #_sourceLocation) {
        #expect(
            answer.status == 400 && answer.code == "INVALID_AUTHENTICATION_CODE", "\(answer)", sourceLocation: location)
    }

    @Test("are 128 digits, good for ten minutes", arguments: stores)
    func form(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let answer = try client.requestCode("e1")
        #expect(answer.status == 200 && Set(answer.json.keys) == ["authentication_code", "expires_at"])
        #expect(answer["authentication_code"]?.wholeMatch(of: /[0-9a-f]{128}/) != nil)
        #expect(answer["expires_at"] == "2021-01-07T06:23:20.000Z")
        // With an Idempotency-Key, too, each is another: the first is kept nowhere.
        let fields = [("Idempotency-Key", "one"), ("Authorization", "Bearer \(client.key)")]
        let one = try client.call("POST", "/users/auth-code", #"{"external_id":"e1"}"#, fields: fields)
        let two = try client.call("POST", "/users/auth-code", #"{"external_id":"e1"}"#, fields: fields)
        #expect(one["authentication_code"] != two["authentication_code"])
        for code in [one, two] { #expect(try client.redeem(code["authentication_code"] ?? "").status < 202) }
    }

    @Test("C1 to C3: a code makes a user, or restores it", arguments: stores)
    func redeem(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let first = try client.user("e1")
        #expect(first.status == 201 && first.isRestored == false && first.isActive == true && first.state == "active")
        #expect(first.user.count == 24 && first.install.count == 24 && first["token_type"] == "Bearer")
        let second = try client.user("e1")
        #expect(second.status == 200 && second.isRestored == true && second.user == first.user)
        #expect(second.install != first.install && second.epoch == 2)
        let left = try client.config(first.token)
        #expect(left.isActive == false && left.reason == "superseded" && left.currentEpoch == 2)
        // C3: the same device, after a reset.
        #expect(try client.reset(second.token).status == 204)
        let third = try client.user("e1")
        #expect(third.user == first.user && third.isActive == true)
    }

    @Test("C4 to C6: a tablet waits for a phone, and only for that", arguments: stores)
    func tablets(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let phone = try client.user("e1")
        let tablet = try client.user("e1", "tablet")
        #expect(
            tablet.status == 200 && tablet.isActive == false && tablet.state == "blocked" && tablet.reason == "blocked")
        #expect(tablet.byDevice == "phone")
        #expect(try client.config(phone.token).isActive == true)
        // C5, of another user.
        let other = try client.user("e2", "tablet")
        #expect(other.isActive == true)
        #expect(try client.user("e2").isActive == true)
        #expect(try client.config(other.token).byDevice == "phone")
        // C6
        _ = try client.reset(phone.token)
        #expect(try client.user("e1", "tablet").isActive == true)
    }

    @Test("C9: a code is good until its last millisecond, and no longer", arguments: stores)
    func expiry(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (one, two) = (try client.code("e1"), try client.code("e1"))
        client.clock.advance(milliseconds: 599_999)
        #expect(try client.redeem(one).status == 201)
        client.clock.advance(milliseconds: 1)
        refused(try client.redeem(two))
        #expect(try client.set(#"{"code_seconds":60}"#).status == 200)
        let short = try client.code("e1")
        client.clock.advance(milliseconds: 60_000)
        refused(try client.redeem(short))
    }

    @Test("a clock that was ahead once makes no code last longer", arguments: stores)
    func clockAhead(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let days: Int64 = 5 * 86_400_000
        client.clock.advance(milliseconds: days)
        #expect(try client.user("e1").status == 201)
        client.clock.advance(milliseconds: -days)
        let (late, good) = (try client.code("e2"), try client.code("e3"))
        #expect(try client.redeem(good).status == 201, "the clock's ten minutes have begun")
        client.clock.advance(milliseconds: 601_000)
        refused(try client.redeem(late))
        // A code that was made while the clock was ahead waits for five days, and is good at its time.
        client.clock.advance(milliseconds: days)
        let future = try client.code("e4")
        client.clock.advance(milliseconds: -days)
        refused(try client.redeem(future))
        client.clock.advance(milliseconds: days)
        #expect(try client.redeem(future).status == 201)
    }

    @Test("what a clock gave that was ahead is not valid before the clock comes there", arguments: stores)
    func givenAhead(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let days: Int64 = 5 * 86_400_000
        client.clock.advance(milliseconds: days)
        let (code, key) = (try client.code("e1"), UUID().uuidString)
        let ahead = try client.redeem(code, installKey: key)
        #expect(try client.person(ahead.token).status == 200)
        client.clock.advance(milliseconds: -days)
        #expect(try client.person(ahead.token).status == 401, "an access token of ten minutes")
        refused(try client.redeem(code, installKey: key))
        // The refresh token has no time, so the install goes on.
        let fresh = try client.refresh(ahead.refreshToken)
        #expect(try client.person(fresh.token).status == 200)
    }

    @Test("C10 and C11: a code is good once; whose answer was lost may ask again", arguments: stores)
    func once(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let code = try client.code("e1")
        let key = UUID().uuidString
        let first = try client.redeem(code, installKey: key)
        let again = try client.redeem(code, installKey: key.lowercased())
        #expect(again.status == first.status && again.install == first.install && again.user == first.user)
        #expect(again.refreshToken == first.refreshToken)
        #expect(client.server.store.counts.people == 1)
        refused(try client.redeem(code))
        // Even after the code's time, for a while.
        client.clock.advance(milliseconds: 3_599_999)
        #expect(try client.redeem(code, installKey: key).install == first.install)
        // Whoever has gone on has had the answer.
        #expect(try client.refresh(first.refreshToken).status == 200)
        refused(try client.redeem(code, installKey: key))
    }

    @Test("C10: of many that redeem one code at once, one has it", arguments: stores)
    func race(_ kind: StoreKind) async throws {
        let client = try LinkingClient(kind)
        let code = try client.code("e1")
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for client in (0..<8).map({ _ in Held(client.another) }) {
                group.addTask { try client.value.redeem(code).status }
            }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(statuses.sorted() == [201] + Array(repeating: 400, count: 7))
        #expect(client.server.store.counts.people == 1)
    }

    @Test("C12: what is no code, or another app's, is refused alike", arguments: stores)
    func unknown(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let code = try client.code("e1")
        let flipped = String(code.dropLast()) + (code.hasSuffix("0") ? "1" : "0")
        let bodies = ["", "x", String(repeating: "0", count: 128), flipped, String(code.dropLast(2))]
        for body in bodies.dropFirst() { refused(try client.redeem(body)) }
        #expect(try client.redeem("").status == 400)
        let app = try client.otherApp()
        let foreign = try client.requestCode("e1", key: app.key)["authentication_code"] ?? ""
        let install = try client.makeInstall()
        refused(try client.linkLate(install.token, foreign))
        #expect(try client.redeem(foreign).status == 201)
        let noKey = try client.call("POST", "/sdk/users", #"{"authentication_code":"\#(code)","install_key":"me"}"#)
        #expect(noKey.status == 400 && noKey.code == "BAD_REQUEST")
        #expect(try client.redeem(code).status == 200, "none of that used it up")
    }

    @Test("C13: two codes of one new external id make one user", arguments: stores)
    func two(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (one, two) = (try client.code("e1"), try client.code("e1"))
        let first = try client.redeem(one)
        let second = try client.redeem(two)
        #expect(first.user == second.user && second.isRestored == true)
        #expect(try client.config(first.token).isActive == false)
    }

    @Test("C14 and C15: whose a code is, is found out when it is redeemed", arguments: stores)
    func late(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let code = try client.code("e1")
        let linked = try client.link(try client.makeInstall().install, "e1").user
        #expect(try client.redeem(code).user == linked)
        let other = try client.code("e1")
        #expect(try client.delete(linked).status == 200)
        let made = try client.redeem(other)
        #expect(made.status == 201 && made.user != linked && made.isRestored == false)
    }

    @Test("C16: a code dies with the key that asked for it", arguments: stores)
    func revoked(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let key = try client.makeKey(#""user.link""#)
        let code = try client.requestCode("e1", key: key["key"])["authentication_code"] ?? ""
        #expect(try client.administrator("POST", "/onym/v1/linking/keys/\(key["id"] ?? "")/revoke", "{}").status == 200)
        refused(try client.redeem(code))
        let answer = try client.requestCode("e1", key: key["key"])
        #expect(answer.status == 401 && answer.code == "UNAUTHORIZED")
    }

    @Test("say what redeeming them would come to", arguments: stores)
    func preview(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        func preview(_ more: String = "") throws -> [String: Any] {
            try client.requestCode("e1", more: #","preview":true\#(more)"#).json["preview"] as? [String: Any] ?? [:]
        }
        let nobody = try preview()
        #expect(nobody["user_id"] is NSNull && nobody["would_be_active"] as? Bool == true)
        let phone = try client.user("e1")
        let leaving = try preview()["would_deactivate"] as? [[String: Any]]
        #expect(leaving?.count == 1 && leaving?.first?["install_id"] as? String == phone.install)
        #expect(leaving?.first?["device_class"] as? String == "phone")
        let tablet = try preview(#","device_class":"tablet""#)
        #expect(tablet["would_be_active"] as? Bool == false && (tablet["would_deactivate"] as? [Any])?.isEmpty == true)
        let asked = try client.call("POST", "/users/auth-code?preview=true", #"{"external_id":"e1"}"#, key: client.key)
        #expect(asked.json["preview"] != nil)
        let wrong = try client.call("POST", "/users/auth-code?preview=1", #"{"external_id":"e1"}"#, key: client.key)
        #expect(wrong.status == 400 && wrong.code == "BAD_REQUEST", "\(wrong)")
        #expect(try client.config(phone.token).isActive == true, "nothing has happened yet")
    }

    @Test("K2 to K5: a code gives a user its external id, if nobody has that", arguments: stores)
    func lateLink(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall()
        _ = try client.submit(install.token, [("early", client.clock.now)])
        let taken = try client.user("e2").user
        // K4: the code is not used up, because after a reset it would restore that user.
        let other = try client.code("e2")
        let refusal = try client.linkLate(install.token, other)
        #expect(refusal.status == 409 && refusal.code == "EXTERNAL_ID_ALREADY_HAS_A_USER", "\(refusal)")
        #expect(try client.redeem(other).user == taken)
        // K5
        let code = try client.code("e1")
        _ = try client.disable(install.install)
        #expect(try client.linkLate(install.token, code).code == "INSTALL_DISABLED")
        _ = try client.disable(install.install, false)
        // K3
        let linked = try client.linkLate(install.token, code)
        #expect(linked.status == 200)
        #expect(try client.events(of: linked.user) == ["early"])
        #expect(try client.linkLate(install.token, code).user == linked.user, "the answer may have been lost")
        #expect(try client.person(install.token).isActive == true)
        #expect(try client.user("e1").user == linked.user)
        // K2
        let fresh = try client.makeInstall()
        _ = try client.link(fresh.install, "e3")
        let again = try client.linkLate(fresh.token, try client.code("e4"))
        #expect(again.status == 409 && again.code == "USER_ALREADY_LINKED")
        for code in ["nonsense", String(repeating: "0", count: 128), String(repeating: "x", count: 4096)] {
            let none = try client.linkLate(fresh.token, code)
            #expect(none.status == 409 && none.code == "USER_ALREADY_LINKED", "whatever the code: \(none)")
        }
        #expect(try client.linkLate(fresh.token, "").code == "BAD_REQUEST")
    }

    @Test("K3: a user of its own keeps its id and what it has", arguments: stores)
    func lateLinkHard(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall()
        let own = try client.linkHard(install.token).user
        #expect(try client.linkLate(install.token, try client.code("e1")).user == own)
        #expect(client.server.store.counts.people == 1)
        refused(try client.linkLate(try client.makeInstall().token, "nonsense"))
    }
}
