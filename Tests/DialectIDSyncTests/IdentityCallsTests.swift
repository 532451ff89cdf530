import TestKit
import Testing

/// Login, logout and search over HTTP, on every store, under the default strategy.
@Suite("POST /v1/login, logout and search")
struct IdentityCallsTests {
    private func call(_ client: IDSyncClient, _ path: String, _ identities: String, _ more: String = "") throws
        -> IDSyncClient.Answer
    {
        IDSyncClient.Answer(try client.call(path, IDSyncClient.body(identities, more), by: .web))
    }

    @Test("lead a device through its users", arguments: StoreKind.allCases)
    func session(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let launch = try client.identify(#"{"ios_idfv":"9876"}"#)
        let login = try call(client, "/v1/login", #"{"customerid":"ABC123","ios_idfv":"9876"}"#)
        #expect(login.mpid == launch.mpid && login.isLoggedIn == true)
        #expect(login.wire["X-MP-Max-Age"] == "86400")
        let logout = try call(client, "/v1/logout", #"{"ios_idfv":"9876"}"#)
        #expect(logout.wire.status == 200 && logout.mpid != launch.mpid && logout.isLoggedIn == false)
        #expect(logout.matched.isEmpty)
        #expect(try call(client, "/v1/logout", #"{"ios_idfv":"9876"}"#).mpid != logout.mpid, "somebody new each time")
        #expect(try call(client, "/v1/login", #"{"customerid":"ABC123"}"#).mpid == launch.mpid)
        let found = try call(client, "/v1/search?cb=1", #"{"customerid":"ABC123"}"#)
        #expect(found.mpid == launch.mpid && found.matched == ["customerid": "ABC123"])
    }

    @Test("answer a search for nobody with 404, and make nobody", arguments: StoreKind.allCases)
    func searchForNobody(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let nobody = try call(client, "/v1/search", #"{"email":"nobody@example.com"}"#)
        #expect(nobody.wire.status == 404 && nobody.errorCode == "NOT_FOUND_ERROR")
        #expect(nobody.wire.body.contains(#""Errors":[{"code":"NOT_FOUND_ERROR""#))
        #expect(try call(client, "/v1/search", #"{"email":"nobody@example.com"}"#).wire.status == 404)
    }

    @Test("make one person of a logout that is sent twice", arguments: StoreKind.allCases)
    func repeatedLogout(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let more = #""request_id":"ad58a7c1-cf35-4be5-8c42-a09989f85cc1""#
        let first = try call(client, "/v1/logout", #"{"ios_idfv":"1"}"#, more)
        #expect(try call(client, "/v1/logout", #"{"ios_idfv":"1"}"#, more).mpid == first.mpid)
        // The same id at another call is a call of its own.
        #expect(try call(client, "/v1/login", #"{"ios_idfv":"1"}"#, more).mpid == first.mpid)
    }

    @Test("are served under every prefix that clients write, and signed for the default one")
    func prefixes() throws {
        let client = IDSyncClient(try TestServer(.memory))
        for name in ["identify", "login", "logout", "search"] {
            for prefix in ["/v1", "/identity/v1", "/identity", ""] {
                for proof in IDSyncClient.Proof.allCases {
                    let answer = try client.call(
                        "\(prefix)/\(name)", IDSyncClient.body(#"{"customerid":"c"}"#), by: proof,
                        signedPath: "/v1/\(name)")
                    #expect(answer.status == 200, "\(prefix)/\(name) \(proof)")
                }
            }
        }
    }

    @Test("refuse what identify refuses")
    func refusals() throws {
        let client = IDSyncClient(try TestServer(.memory))
        for name in ["login", "logout", "search"] {
            let empty = try call(client, "/v1/\(name)", "{}")
            #expect(empty.wire.status == 400 && empty.errorCode == "LOOKUP_ERROR")
            #expect(empty.message == "knownIdentities is empty.")
            #expect(try client.http.call("POST", "/v1/\(name)", json: "{}").status == 401)
            #expect(try client.http.call("GET", "/v1/\(name)").status == 405)
        }
    }
}
