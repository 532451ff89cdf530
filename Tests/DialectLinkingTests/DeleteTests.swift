import TestKit
import Testing

/// `DELETE /users/:user_id` (spec/linking.md 1.7, decision 10), on every store.
@Suite("DELETE /users/:user_id")
struct DeleteTests {
    static let stores = StoreKind.allCases

    @Test("takes all that a user is, and frees the external id", arguments: stores)
    func delete(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (first, second) = (try client.makeInstall(), try client.makeInstall())
        _ = try client.submit(first.token, [("a", client.clock.now)])
        _ = try client.submit(second.token, [("b", client.clock.now)])
        let user = try client.link(first.install, "e1").user
        _ = try client.link(second.install, "e1")
        #expect(try client.events(of: user) == ["b", "a"])
        let deleted = try client.delete(user)
        #expect(deleted.status == 200 && deleted.body.isEmpty)
        #expect(try client.events(of: user) == [] && client.history(of: user) == [])
        #expect(try client.administrator("GET", "/onym/v1/people/\(user)").status == 404)
        #expect(client.server.store.counts.identities == 0)
        for install in [first, second] {
            let config = try client.config(install.token)
            #expect(config.status == 200 && config.isActive == false && config.reason == "deleted", "\(config)")
            for answer in [
                try client.person(install.token), try client.submit(install.token, [("late", client.clock.now)]),
                try client.refresh(install.refreshToken), try client.linkHard(install.token),
            ] { #expect(answer.status == 403 && answer.code == "INSTALL_DELETED", "\(answer)") }
        }
        #expect(try client.delete(user).code == "USER_NOT_FOUND")
        let before = client.clock.now
        client.clock.advance(milliseconds: 1000)
        let next = try client.user("e1")
        #expect(next.status == 201 && next.user != user && next.isRestored == false)
        // What was gathered before the deletion, and comes late, is nobody's.
        let late = try client.submit(
            next.token, [("late", before.advanced(byMilliseconds: -1)), ("new", client.clock.now)])
        #expect(late.json["dropped"] as? Int == 1 && late.json["accepted"] as? Int == 1, "\(late)")
    }

    @Test("of one person of a split leaves the rows of the other", arguments: stores)
    func split(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let first = try client.makeInstall()
        _ = try client.submit(first.token, [("a", client.clock.now)])
        let user = try client.link(first.install, "e1").user
        let next = client.server.store.counts.lastSequence.rawValue + 1
        _ = try client.submit(first.token, [("b", client.clock.now)])
        let split = try client.administrator("POST", "/onym/v1/people/\(user)/split", #"{"since":"seq:\#(next)"}"#)
        let other = try #require(split.json["into"] as? String, "\(split)")
        #expect(try client.events(of: user) == ["a"] && client.events(of: other) == ["b"])
        let stranger = try client.user("e2")
        #expect(try client.delete(user, key: stranger.token).status == 403)
        #expect(try client.delete(user).status == 200)
        #expect(try client.events(of: user) == [] && client.events(of: other) == ["b"])
    }

    @Test("is allowed to a key with the scope, and to the user's own install", arguments: stores)
    func allowed(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (user, other) = (try client.user("e1"), try client.user("e2"))
        let linker = try client.makeKey(#""user.link""#)["key"] ?? ""
        for key in [linker, other.token] {
            let refused = try client.delete(user.user, key: key)
            #expect(refused.status == 403 && refused.code == "INSUFFICIENT_SCOPE", "\(refused)")
        }
        #expect(try client.call("DELETE", "/users/\(user.user)").status == 401)
        #expect(try client.delete(user.user, key: user.token).status == 200)
        #expect(try client.delete(other.user).status == 200)
        let unlinked = try client.makeInstall()
        #expect(try client.delete(other.user, key: unlinked.token).code == "INSUFFICIENT_SCOPE")
    }

    @Test("finds no user where there is none", arguments: stores)
    func unknown(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall()
        let person = try client.call(
            "POST", "/v1/identify", #"{"environment":"development","known_identities":{"customerid":"ada"}}"#,
            fields: [("x-mp-key", client.server.credentials.idsyncWebKey)])
        #expect(person.status == 200)
        for name in [install.install, "5a18fc4b0962209e0000000d", "x", "0", String(repeating: "f", count: 24)] {
            let answer = try client.delete(name)
            #expect(answer.status == 404 && answer.code == "USER_NOT_FOUND", "\(answer)")
        }
    }

    @Test("holds after a restart")
    func restart() throws {
        var client = try LinkingClient(.sqlite)
        let users = try ["e1", "e2"].map { external in
            let user = try client.user(external)
            _ = try client.submit(user.token, [(external, client.clock.now)])
            return user.user
        }
        let (deleted, kept) = (users[0], users[1])
        _ = try client.delete(deleted)
        for _ in 0..<2 {
            client = try client.restarted()
            #expect(try client.events(of: deleted) == [] && client.history(of: deleted) == [])
            #expect(try client.events(of: kept) == ["e2"])
        }
    }
}
