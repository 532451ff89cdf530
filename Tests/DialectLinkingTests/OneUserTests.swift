import TestKit
import Testing

/// That a user has one external id and one list of who is active, whatever administrators do (spec/linking.md 3).
@Suite("Linking, merges and what is done by hand")
struct OneUserTests {
    static let stores = StoreKind.allCases

    private func person(_ client: LinkingClient, _ user: String) throws -> LinkingAnswer {
        try client.administrator("GET", "/onym/v1/people/\(user)")
    }

    private func merge(
        _ client: LinkingClient, _ from: String, _ into: String, isDry: Bool = false
    ) throws -> LinkingAnswer {
        let (one, two) = (try person(client, from)["id"] ?? "", try person(client, into)["id"] ?? "")
        return try client.administrator(
            "POST", "/onym/v1/merges\(isDry ? "?dry_run=true" : "")", #"{"from":"\#(one)","into":"\#(two)"}"#)
    }

    private func undo(_ client: LinkingClient, of user: String) throws -> LinkingAnswer {
        let merges = try person(client, user).json["merges"] as? [[String: Any]]
        let id = merges?.first?["id"] ?? ""
        return try client.administrator("POST", "/onym/v1/merges/\(id)/undo", "{}")
    }

    @Test("where the merge of a link is undone, the install is nobody's again", arguments: stores)
    func undone(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (phone, install) = (try client.user("e1"), try client.makeInstall())
        #expect(try client.link(install.install, "e1").user == phone.user)
        #expect(try undo(client, of: phone.user).status == 200)
        let config = try client.config(install.token)
        #expect(config.state == "unlinked" && config.isActive == true, "\(config)")
        #expect(try client.person(install.token).code == "INSTALL_NOT_LINKED")
        #expect(try client.history(of: phone.user).first == "deactivated unlinked")
        _ = try client.submit(install.token, [("own", client.clock.now)])
        #expect(try client.events(of: phone.user) == [])
        // The user's deletion is none of its business now; and it can be linked again.
        let next = try client.user("e1")
        #expect(next.user == phone.user && next.isActive == true)
        #expect(try client.delete(phone.user).status == 200)
        #expect(try client.config(install.token).state == "unlinked")
        let linked = try client.link(install.install, "e1")
        #expect(linked.status == 200 && linked.user != phone.user)
        #expect(try client.events(of: linked.user) == ["own"])
        #expect(try client.delete(linked.user).status == 200)
        #expect(client.server.store.counts.identities == 0)
        #expect(try client.submit(install.token, [("b", client.clock.now)]).code == "INSTALL_DELETED")
    }

    @Test(
        "a link is a reason of its own: an earlier merge can be undone, and the install stays the user's",
        arguments: stores)
    func supported(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (phone, install) = (try client.user("e1"), try client.makeInstall())
        let merge = try merge(client, "linking_install_id:\(install.install)", "linking_external_id:e1")
        #expect(merge.status == 200, "\(merge)")
        #expect(try client.link(install.install, "e1").user == phone.user)
        #expect(try client.link(install.install, "e1").user == phone.user)
        let id = try #require(merge["id"])
        let undone = try client.administrator("POST", "/onym/v1/merges/\(id)/undo", "{}")
        #expect(undone.status == 200 && undone.json["still_one"] as? [String] == ["linking"], "\(undone)")
        #expect(try client.person(install.token).status == 200)
        #expect(try undo(client, of: phone.user).status == 200)
        #expect(try client.person(install.token).code == "INSTALL_NOT_LINKED")
    }

    @Test("equal user ids join users of this dialect too, by a link, a code and a late code", arguments: stores)
    func sameUserIDOfLinks(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let rules = try client.administrator("PUT", "/onym/v1/strategy", #"{"same_user_id":true}"#)
        #expect(rules.status == 200, "\(rules)")
        for user in ["linked", "coded", "late", "null"] {
            let named = try client.call(
                "POST", "/v1/identity/properties", #"{"user_id":"\#(user)","properties":{"a":"b"}}"#,
                key: client.server.credentials.claimClientKey)
            #expect(named.status == 200, "\(named)")
        }
        let (install, other) = (try client.makeInstall(), try client.makeInstall())
        #expect(try client.link(install.install, "linked").status == 200)
        _ = try client.user("coded")
        #expect(try client.linkHard(other.token).status == 200)
        #expect(try client.linkLate(other.token, try client.code("late")).status == 200)
        _ = try client.user("null")
        for (user, count) in [("linked", 2), ("coded", 2), ("late", 2), ("null", 1)] {
            let shown = try person(client, "linking_external_id:\(user)")
            #expect((shown.json["members"] as? [String])?.count == count, "\(user): \(shown)")
        }
    }

    /// One call of each dialect that names a user by the customer's own id.
    private func name(_ user: String, _ dialect: Int, _ client: LinkingClient) throws {
        let credentials = client.server.credentials
        let answer: LinkingAnswer
        switch dialect {
        case 0:
            answer = try client.call(
                "POST", "/v1/identify", #"{"environment":"development","known_identities":{"customerid":"\#(user)"}}"#,
                fields: [("x-mp-key", credentials.idsyncWebKey)])
        case 1:
            answer = try client.call(
                "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_\#(user)","user_id":"\#(user)"}"#,
                key: credentials.claimClientKey)
        case 2:
            answer = try client.call(
                "POST", "/v3/identities/\(user)", "{}", key: credentials.entitlementsProjectKey)
        default:
            // The answer names a user, and not a status of its own.
            #expect(try !client.user(user).user.isEmpty)
            return
        }
        #expect((200..<300).contains(answer.status), "\(dialect) \(user): \(answer)")
    }

    static let orders: [[Int]] = (0..<24).map { number in
        var (left, order, rest) = ([0, 1, 2, 3], [Int](), number)
        while !left.isEmpty {
            order.append(left.remove(at: rest % left.count))
            rest /= left.count + 1
        }
        return order
    }

    private func members(_ name: String, _ client: LinkingClient) throws -> Set<String> {
        let shown = try person(client, name)
        return Set(shown.json["members"] as? [String] ?? [shown["id"] ?? "none"])
    }

    private static let names = ["customerid", "claim_user_id", "access_identity", "linking_external_id"]

    @Test("equal user ids of four dialects end in one group, in each of the 24 orders")
    func allOrders() throws {
        #expect(Set(OneUserTests.orders).count == 24)
        for order in OneUserTests.orders {
            let client = try LinkingClient(.memory)
            #expect(try client.administrator("PUT", "/onym/v1/strategy", #"{"same_user_id":true}"#).status == 200)
            for dialect in order { try name("ada", dialect, client) }
            let groups = try OneUserTests.names.map { try members("\($0):ada", client) }
            #expect(Set(groups).count == 1 && groups[0].count >= 4, "\(order): \(groups)")
        }
    }

    @Test(
        "values that many apps send by mistake join nobody, in any dialect",
        arguments: ["null", "0", "anonymous", "undefined"])
    func mistakenValues(_ value: String) throws {
        let client = try LinkingClient(.memory)
        #expect(try client.administrator("PUT", "/onym/v1/strategy", #"{"same_user_id":true}"#).status == 200)
        try name("ada", 0, client)
        for dialect in 0..<4 { try? name(value, dialect, client) }
        #expect(client.server.store.counts.merges <= 2, "a claim and a link have merges of their own")
        let known = try OneUserTests.names.map { "\($0):\(value)" }.filter { try person(client, $0).status == 200 }
        let groups = try known.map { try members($0, client) }
        for (index, one) in groups.enumerated() {
            for other in groups[(index + 1)...] { #expect(one.isDisjoint(with: other), "\(known): \(groups)") }
        }
        #expect(try members("customerid:ada", client).count == 1)
    }

    @Test("an install that lost its place is nobody's again, too, and one that was reset stays so", arguments: stores)
    func undoneLater(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let first = try client.user("e1")
        let install = try client.makeInstall()
        _ = try client.link(install.install, "e1")
        _ = try client.user("e1")
        #expect(try client.config(install.token).state == "deactivated")
        #expect(try undo(client, of: first.user).status == 200)
        #expect(try client.config(install.token).state == "unlinked")
        #expect(try client.link(install.install, "e1").status == 200)
        #expect(try client.reset(install.token).status == 204)
        #expect(try undo(client, of: first.user).status == 200)
        #expect(try client.link(install.install, "e1").code == "INSTALL_DEACTIVATED")
    }

    @Test("two users with external ids, or with installs, are not made one", arguments: stores)
    func merged(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (one, two) = (try client.user("e1"), try client.user("e2"))
        for isDry in [true, false] {
            let refused = try merge(client, one.user, two.user, isDry: isDry)
            #expect(refused.status == 409 && refused["code"] == "USERS_HAVE_EXTERNAL_IDS", "\(refused)")
        }
        let install = try client.makeInstall()
        let own = try client.linkHard(install.token).user
        for isDry in [true, false] {
            let active = try merge(client, own, one.user, isDry: isDry)
            #expect(active.status == 409 && active["code"] == "USERS_HAVE_INSTALLS", "\(active)")
        }
        #expect(client.server.store.counts.merges == 0)
    }

    @Test("who was made one by an administrator is one user, with one active install", arguments: stores)
    func oneList(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let phone = try client.user("e1")
        _ = try client.reset(phone.token)
        let install = try client.makeInstall()
        let own = try client.linkHard(install.token).user
        #expect(try merge(client, own, phone.user).status == 200 || merge(client, own, phone.user).status == 201)
        // It has the user's external id now, and can have no other.
        #expect(try client.link(install.install, "e2").code == "INSTALL_LINKED_TO_OTHER_USER")
        #expect(try client.linkLate(install.token, try client.code("e2")).code == "USER_ALREADY_LINKED")
        #expect(try client.link(install.install, "e1").status == 200)
        #expect(try client.config(install.token).isActive == true)
        let next = try client.user("e1")
        #expect(next.isRestored == true && next.isActive == true)
        #expect(try client.config(install.token).reason == "superseded")
        #expect(try client.delete(next.user, key: next.token).status == 200)
        for answer in [try client.config(install.token), try client.config(next.token)] {
            #expect(answer.state == "deleted", "\(answer)")
        }
    }

    @Test("an install of a person who was made one with a user is one of the user's", arguments: stores)
    func unlinked(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let phone = try client.user("e1")
        let install = try client.makeInstall()
        _ = try client.submit(install.token, [("a", client.clock.now)])
        // Nobody is told the id of a person without a user; it holds the install's.
        let name = "linking_install_id:\(install.install)"
        let merged = try client.administrator(
            "POST", "/onym/v1/merges",
            #"{"from":"\#(try person(client, name)["id"] ?? "")","into":"\#(try person(client, phone.user)["id"] ?? "")"}"#
        )
        #expect(merged.status < 300, "\(merged)")
        #expect(try client.link(install.install, "e2").code == "INSTALL_LINKED_TO_OTHER_USER")
        #expect(try client.linkHard(install.token).user == phone.user)
        #expect(try client.config(install.token).isActive == true)
        #expect(try client.config(phone.token).reason == "superseded")
        #expect(try client.link(install.install, "e1").user == phone.user)
        #expect(try undo(client, of: phone.user).status == 200)
        #expect(try client.config(install.token).state == "unlinked")
    }

    @Test("equal user ids in other dialects make one of a user and a human, never of two users", arguments: stores)
    func sameUserID(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        #expect(try client.administrator("PUT", "/onym/v1/strategy", #"{"same_user_id":true}"#).status == 200)
        let (one, two) = (try client.user("ada"), try client.user("bob"))
        let person = try client.call(
            "POST", "/v1/identify", #"{"environment":"development","known_identities":{"customerid":"ada"}}"#,
            fields: [("x-mp-key", client.server.credentials.idsyncWebKey)])
        #expect(person.status == 200)
        func members(_ name: String) throws -> Int {
            (try self.person(client, name).json["members"] as? [Any] ?? []).count
        }
        #expect(try members("customerid:ada") == 2)
        let path = "/onym/v1/people/customerid:ada/identities"
        #expect(try client.administrator("POST", path, #"{"type":"customerid","value":"bob"}"#).status < 300)
        #expect(try members("customerid:ada") == 2)
        for user in [one, two] { #expect(try client.config(user.token).isActive == true) }
        #expect(try client.delete(one.user).status == 200)
        #expect(try client.config(two.token).isActive == true, "a deletion takes one of them")
    }

    @Test("an administrator neither attaches nor detaches the identities that the dialect counts", arguments: stores)
    func kept(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let user = try client.user("e1")
        let path = "/onym/v1/people/\(user.user)/identities"
        for (type, value) in [("linking_external_id", "e2"), ("linking_install_id", "5a18fc4b8962209e0000000d")] {
            let body = #"{"type":"\#(type)","value":"\#(value)"}"#
            #expect(try client.administrator("POST", path, body).status == 400)
        }
        for name in ["linking_external_id/e1", "linking_install_id/\(user.install)"] {
            #expect(try client.administrator("DELETE", "\(path)/\(name)").status == 400)
        }
        #expect(try client.config(user.token).isActive == true)
        #expect(try client.link(user.install, "e1").user == user.user)
    }
}
