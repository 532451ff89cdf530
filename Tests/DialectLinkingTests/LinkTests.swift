import Foundation
import TestKit
import Testing

/// `POST /v2/users/:install_id/link`: the table of spec/linking.md 3.1, over HTTP on every store.
@Suite("POST /v2/users/:install_id/link")
struct LinkTests {
    static let stores = StoreKind.allCases

    private func expect(
        _ answer: LinkingAnswer, _ status: Int, _ code: String, _ message: String,
        _ location: SourceLocation = #_sourceLocation
    ) {
        #expect(answer.status == status && answer.code == code, "\(answer)", sourceLocation: location)
        #expect(answer["message"] == message, sourceLocation: location)
        #expect(UUID(uuidString: answer["ref"] ?? "") != nil, "\(answer)", sourceLocation: location)
        #expect(Set(answer.json.keys) == ["message", "errorCode", "ref"], sourceLocation: location)
    }

    @Test("the vendor's worked example: new, the same user, 403 and 404", arguments: stores)
    func workedExample(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let user = try client.link(try client.makeInstall().install, "e1")
        #expect(user.status == 200)
        #expect(try client.link(try client.makeInstall().install, "e1").user == user.user)
        #expect(try client.link(try client.install(of: try client.otherApp()).install, "e1").status == 403)
        #expect(try client.link("5a18fc4b0962209e0000000d", "e1").status == 404)
    }

    @Test("L1: an install that is nobody's makes a new user", arguments: stores)
    func first(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let made = try client.makeInstall()
        #expect(made.status == 201 && made.state == "unlinked" && made.isActive == true, "\(made)")
        let linked = try client.link(made.install, "e1")
        #expect(linked.status == 200)
        #expect(Set(linked.json.keys) == ["id", "person_id"] && linked["id"] == linked["person_id"])
        #expect(linked.user.wholeMatch(of: /[0-9a-f]{24}/) != nil && linked.user != made.install)
        let person = try client.person(made.token)
        #expect(
            person.user == linked.user && person.isActive == true && person.json["third_party_linked"] as? Bool == true)
    }

    @Test("L2: a second install of a user is active, the first is so no longer", arguments: stores)
    func takeover(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (old, new) = (try client.makeInstall(), try client.makeInstall())
        let user = try client.link(old.install, "e1").user
        _ = try client.submit(new.token, [("before", client.clock.now)])
        #expect(try client.events(of: user) == [])
        let second = try client.link(new.install, "e1")
        #expect(second.status == 200 && second.user == user)
        // What the new one gathered before is the user's now, by a merge that can be undone.
        #expect(try client.events(of: user) == ["before"])
        let left = try client.config(old.token)
        #expect(left.isActive == false && left.state == "deactivated" && left.reason == "superseded")
        #expect(left.byDevice == "phone" && left.json["killswitch_action"] as? String == "disable_sdk")
        #expect(left.epoch == 1 && left.currentEpoch == 2)
        #expect(try client.config(new.token).isActive == true)
        #expect(
            try client.history(of: user) == [
                "activated linked", "deactivated superseded", "activated linked",
            ])
        let profile = try client.administrator("GET", "/onym/v1/people/\(user)").json
        let merge = try #require((profile["merges"] as? [[String: Any]])?.first)
        #expect(merge["rule"] as? String == "linking")
        _ = try client.administrator("POST", "/onym/v1/merges/\(merge["id"] ?? "")/undo", "{}")
        #expect(try client.events(of: user) == [])
    }

    @Test("L3: the same link again is the same answer, and changes nothing", arguments: stores)
    func again(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall().install
        let user = try client.link(install, "e1").user
        let before = client.server.store.counts
        let again = try client.link(install, "e1")
        #expect(again.status == 200 && again.user == user)
        #expect(client.server.store.counts == before)
    }

    @Test("L4: an install that lost its place cannot take it back", arguments: stores)
    func deactivated(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (old, new) = (try client.makeInstall(), try client.makeInstall())
        _ = try client.link(old.install, "e1")
        _ = try client.link(new.install, "e1")
        let refused = try client.link(old.install, "e1")
        #expect(refused.status == 403 && refused.code == "INSTALL_DEACTIVATED")
        #expect(try client.config(new.token).isActive == true)
    }

    @Test("L5: an install never changes its user", arguments: stores)
    func otherUser(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall()
        let user = try client.link(install.install, "e1").user
        for external in ["e2", "e3"] {
            if external == "e3" { _ = try client.link(try client.makeInstall().install, "e3") }
            expect(
                try client.link(install.install, external), 403, "INSTALL_LINKED_TO_OTHER_USER",
                "Install linked to another user.")
        }
        #expect(try client.person(install.token).user == user)
    }

    @Test("L6 and L7: a user of its own gets an external id, but is never made another", arguments: stores)
    func hard(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (install, other) = (try client.makeInstall(), try client.makeInstall())
        #expect(try client.person(install.token).status == 404)
        let own = try client.linkHard(install.token)
        #expect(own.status == 200 && own.user.count == 24)
        #expect(try client.linkHard(install.token).user == own.user, "again is the same")
        _ = try client.link(other.install, "e2")
        let person = try client.person(install.token)
        #expect(person.isActive == true && person.json["third_party_linked"] as? Bool == false)
        expect(
            try client.link(install.install, "e2"), 403, "CANNOT_LINK_EXISTING_PERSON_TO_OTHER_PERSON",
            "This install is already in use, linking to another install is not possible.")
        #expect(client.server.store.counts.merges == 0)
        let linked = try client.link(install.install, "e1")
        #expect(linked.status == 200 && linked.user == own.user)
        #expect(try client.person(install.token).json["third_party_linked"] as? Bool == true)
    }

    @Test("L8 and L9: unknown is 404, another app's is 403, or 404 where that is to be hidden", arguments: stores)
    func unknown(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        for name in ["5a18fc4b0962209e0000000d", "x", String(repeating: "0", count: 24), "5A18FC4B0962209E8000000D"] {
            expect(
                try client.link(name, "e1"), 404, "INSTALL_NOT_FOUND",
                "Install was not found by the install ID provided.")
        }
        let app = try client.otherApp()
        let foreign = try client.install(of: app)
        #expect(foreign.status == 201)
        expect(
            try client.link(foreign.install, "e1"), 403, "INSTALL_DOES_NOT_BELONG_TO_APP",
            "Install does not belong to this application.")
        let own = client.server.credentials.linkingAppID
        let gone = try client.install(of: app)
        #expect(try client.delete(try client.link(gone.install, "e9", key: app.key).user).status == 200)
        #expect(try client.link(gone.install, "e1", key: app.key).code == "INSTALL_DELETED")
        expect(
            try client.link(gone.install, "e1"), 403, "INSTALL_DOES_NOT_BELONG_TO_APP",
            "Install does not belong to this application.")
        #expect(try client.set(#"{"apps":{"\#(own)":{"hide_foreign_installs":true}}}"#).status == 200)
        for install in [foreign, gone] {
            expect(
                try client.link(install.install, "e1"), 404, "INSTALL_NOT_FOUND",
                "Install was not found by the install ID provided.")
        }
    }

    @Test("L10: what is off or gone is not linked", arguments: stores)
    func disabled(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (install, gone) = (try client.makeInstall(), try client.makeInstall())
        #expect(try client.disable(install.install).status == 200)
        expect(try client.link(install.install, "e1"), 403, "INSTALL_DISABLED", "Install is disabled.")
        #expect(try client.config(install.token).reason == "disabled")
        _ = try client.disable(install.install, false)
        #expect(try client.link(install.install, "e1").status == 200)
        let user = try client.link(gone.install, "e2").user
        #expect(try client.delete(user).status == 200)
        expect(try client.link(gone.install, "e2"), 403, "INSTALL_DELETED", "Install is deleted.")
        expect(try client.link(gone.install, "e3"), 403, "INSTALL_DELETED", "Install is deleted.")
    }

    @Test("L12: an app that does not link links nothing", arguments: stores)
    func notConfigured(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let app = client.server.credentials.linkingAppID
        let install = try client.makeInstall()
        let code = try client.code("e1")
        _ = try client.set(#"{"apps":{"\#(app)":{"linking":false}}}"#)
        let answers = [
            try client.link(install.install, "e1"), try client.link("nothing", "e1"), try client.requestCode("e1"),
            try client.linkHard(install.token), try client.linkLate(install.token, code), try client.redeem(code),
        ]
        for answer in answers {
            #expect(answer.status == 403 && answer.code == "USERLINKING_NOT_CONFIGURED", "\(answer)")
        }
        _ = try client.set(#"{"apps":{"\#(app)":{"linking":true}}}"#)
        #expect(try client.redeem(code).status == 201, "the code was not used up")
    }

    /// Which of two installs is active in the end, and what the second is.
    static let devices: [(first: String, second: String, state: String)] = [
        ("phone", "phone", "active"),  // L2
        ("phone", "tablet", "blocked"),  // L13
        ("tablet", "phone", "active"),  // L14
        ("tablet", "tablet", "active"),  // L15
        ("watch", "phone", "active"), ("phone", "watch", "active"), ("other", "tablet", "blocked"),
    ]

    @Test("L13 to L15: phones go before tablets, else the newest", arguments: stores, devices)
    func goesFirst(_ kind: StoreKind, _ row: (first: String, second: String, state: String)) throws {
        let client = try LinkingClient(kind)
        let (first, second) = (try client.makeInstall(row.first), try client.makeInstall(row.second))
        let user = try client.link(first.install, "e1").user
        let linked = try client.link(second.install, "e1")
        #expect(linked.status == 200 && linked.user == user)
        let (one, two) = (try client.config(first.token), try client.config(second.token))
        #expect(two.state == row.state && one.state == (row.state == "active" ? "deactivated" : "active"))
        #expect(one.isActive != two.isActive)
        let left = row.state == "active" ? one : two
        #expect(left.byDevice == (row.state == "active" ? row.second : row.first))
        #expect(try client.link(second.install, "e1").status == 200, "the same again")
        // The one that waits gets its turn when it asks after the other has gone.
        if row.state == "blocked" {
            #expect(try client.reset(first.token).status == 204)
            let promoted = try client.config(second.token)
            #expect(promoted.isActive == true && promoted.state == "active" && promoted.reason == nil)
            #expect(try client.history(of: user).first == "activated promoted")
        }
    }

    @Test("L16: neither an install's token nor a key without the scope links", arguments: stores)
    func scopes(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let install = try client.makeInstall()
        let reader = try client.makeKey(#""USER_READ","user.delete""#)["key"] ?? ""
        for key in [install.token, reader] {
            let answers = [try client.link(install.install, "e1", key: key), try client.requestCode("e1", key: key)]
            for answer in answers { #expect(answer.status == 403 && answer.code == "INSUFFICIENT_SCOPE", "\(answer)") }
        }
        let unknown = ["nonsense", client.server.credentials.adminKey, client.server.credentials.claimClientKey]
        for key in unknown {
            let answer = try client.link(install.install, "e1", key: key)
            #expect(answer.status == 401 && answer.code == "UNAUTHORIZED", "\(answer)")
        }
        let none = try client.call("POST", "/v2/users/\(install.install)/link", #"{"external_id":"e1"}"#)
        #expect(none.status == 401 && none.code == "UNAUTHORIZED")
        #expect(none.field("WWW-Authenticate")?.hasPrefix("Bearer") == true)
        #expect(try client.call("GET", "/sdk/person", key: client.key).status == 403)
    }

    @Test("L17: the apps of a project share its users", arguments: stores)
    func shared(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (first, app) = (try client.makeInstall(), try client.otherApp())
        let second = try client.install(of: app)
        let user = try client.link(first.install, "e1").user
        #expect(try client.link(second.install, "e1", key: app.key).user == user)
        #expect(try client.config(first.token).isActive == false)
    }

    @Test("L19: two links that race for one external id make one user", arguments: stores)
    func race(_ kind: StoreKind) async throws {
        let client = try LinkingClient(kind)
        let installs = try (0..<8).map { _ in try client.makeInstall() }
        let clients = installs.map { _ in client.another }
        let users = try await withThrowingTaskGroup(of: String.self) { group in
            for (install, client) in zip(installs.map(\.install), clients.map(Held.init)) {
                group.addTask { try client.value.link(install, "e1").user }
            }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(users.count == 1)
        // Over a connection of its own: the first has waited, perhaps longer than a server does.
        let late = client.another
        let active = try installs.filter { try late.config($0.token).isActive == true }
        #expect(active.count == 1)
    }

    @Test(
        "L20: what is no external id is told before anything else",
        arguments: [
            #"{}"#, #"{"external_id":""}"#, #"{"external_id":7}"#, #"{"external_id":null}"#, "[]", "{", "",
            #"{"external_id":"\u0000"}"#, #"{"external_id":"\#(String(repeating: "x", count: 1025))"}"#,
        ])
    func badRequests(_ body: String) throws {
        let client = try LinkingClient(.memory)
        for path in ["/v2/users/nothing/link", "/users/auth-code"] {
            let answer = try client.call("POST", path, body, key: client.key)
            #expect(answer.status == 400 && answer.code == "BAD_REQUEST", "\(answer)")
        }
    }

    static let refusedCalls: [(path: String, body: String, hasKey: Bool, status: Int)] = [
        ("/users/auth-code", #"{"external_id":7}"#, true, 400),
        ("/users/auth-code", #"{"external_id":"a"}"#, false, 401),
        ("/v2/users/nothing/link", #"{"external_id":"a\",\"errorCode\":"}"#, true, 404),
        ("/users/auth-code", "{", true, 400),
    ]

    @Test(
        "a no is a problem for whoever asks for one, and the vendor's envelope for everybody else",
        arguments: refusedCalls)
    func problems(_ row: (path: String, body: String, hasKey: Bool, status: Int)) throws {
        let client = try LinkingClient(.memory)
        let key = row.hasKey ? client.key : nil
        let plain = try client.call("POST", row.path, row.body, key: key)
        for accept in ["application/problem+json", "text/html, Application/Problem+JSON;q=0.9"] {
            let problem = try client.call("POST", row.path, row.body, key: key, fields: [("Accept", accept)])
            #expect(problem.status == row.status && problem.field("Content-Type") == "application/problem+json")
            #expect(problem.json["type"] as? String == "about:blank" && problem.json["status"] as? Int == row.status)
            #expect(problem["detail"] == problem["message"] && problem["message"] == plain["message"], "\(problem)")
            #expect(problem.code == plain.code && problem["title"]?.isEmpty == false && problem["ref"] != nil)
            #expect(problem.field("WWW-Authenticate") == plain.field("WWW-Authenticate"))
        }
        #expect(plain.status == row.status && plain.field("Content-Type") == "application/json; charset=utf-8")
        #expect(plain.json["type"] == nil && plain.json["detail"] == nil)
    }

    @Test("what is granted is no problem")
    func noProblem() throws {
        let client = try LinkingClient(.memory)
        let code = try client.call(
            "POST", "/users/auth-code", #"{"external_id":"a"}"#, key: client.key,
            fields: [("Accept", "application/problem+json")])
        #expect(code.status == 200 && code["authentication_code"] != nil)
    }

    @Test(
        "takes any external id, byte by byte",
        arguments: ["Ä", " ", "a/b?c", "null", "😀", String(repeating: "x", count: 1024)])
    func odd(_ external: String) throws {
        let client = try LinkingClient(.sqlite)
        let user = try client.link(try client.makeInstall().install, external).user
        #expect(try client.link(try client.makeInstall().install, external).user == user)
        #expect(
            try client.link(
                try client.makeInstall().install, external + "x"[...].prefix(external.utf8.count < 1024 ? 1 : 0)
            ).user != user || external.utf8.count == 1024)
    }
}

/// A client that one task at a time uses.
struct Held<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
