import TestKit
import Testing

/// Calls that are sent again, and calls that only look like it (the `Idempotency-Key` field).
@Suite("Repetitions of linking calls")
struct RepetitionTests {
    static let stores = StoreKind.allCases

    private func call(
        _ client: LinkingClient, _ path: String, _ json: String, _ key: String
    ) throws -> LinkingAnswer {
        try client.call("POST", path, json, key: key, fields: [("Idempotency-Key", "one")])
    }

    @Test("an Idempotency-Key is its caller's own: another install's call is another", arguments: stores)
    func installs(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (one, two) = (try client.makeInstall(), try client.makeInstall())
        let body = #"{"events":[{"id":"a","type":"t","captured_at":"2021-01-01T00:00:00Z"}]}"#
        for install in [one, two] {
            for _ in 0..<2 {
                let sent = try call(client, "/sdk/events", body, install.token)
                #expect(sent.json["accepted"] as? Int == 1, "the same answer again: \(sent)")
            }
        }
        #expect(client.server.store.counts.rows == 2)
    }

    @Test("each install that asks for a user of its own has one", arguments: stores)
    func users(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let installs = [try client.makeInstall(), try client.makeInstall()]
        let users = try installs.map { try call(client, "/sdk/link-legacy-install", "{}", $0.token).user }
        #expect(Set(users).count == 2)
    }

    @Test("a reset resets whoever asks for it", arguments: stores)
    func resets(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let installs = [try client.makeInstall(), try client.makeInstall()]
        for install in installs {
            #expect(try call(client, "/sdk/reset", "{}", install.token).status == 204)
            #expect(try client.config(install.token).status == 401)
        }
    }

    @Test("another app's key is told about its own call", arguments: stores)
    func apps(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let app = try client.otherApp()
        let path = "/v2/users/\(try client.makeInstall().install)/link"
        let linked = try call(client, path, #"{"external_id":"e1"}"#, client.key)
        #expect(linked.status == 200)
        #expect(try call(client, path, #"{"external_id":"e1"}"#, client.key).user == linked.user)
        #expect(try call(client, path, #"{"external_id":"e2"}"#, client.key).status == 422)
        let foreign = try call(client, path, #"{"external_id":"e1"}"#, app.key)
        #expect(foreign.status == 403 && foreign.code == "INSTALL_DOES_NOT_BELONG_TO_APP", "\(foreign)")
    }

    @Test("two devices that make installs under one key have two", arguments: stores)
    func made(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let fields = [("Idempotency-Key", "one")]
        let (one, two) = (try client.makeInstall(fields: fields), try client.makeInstall(fields: fields))
        #expect(one.status == 201 && two.status == 201 && one.install != two.install)
        // A code is good once, whatever is sent beside it.
        let code = try client.code("e1")
        #expect(try client.redeem(code, fields: fields).status == 201)
        #expect(try client.redeem(code, fields: fields).code == "INVALID_AUTHENTICATION_CODE")
        let late = try client.code("e2")
        let body = #"{"authentication_code":"\#(late)"}"#
        #expect(try call(client, "/sdk/users/link", body, one.token).status == 200)
        #expect(try call(client, "/sdk/users/link", body, two.token).code == "INVALID_AUTHENTICATION_CODE")
    }

    @Test("a refresh token that was used up is found out, whatever the key", arguments: stores)
    func refreshed(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let first = try client.user("e1")
        let body = #"{"grant_type":"refresh_token","refresh_token":"\#(first.refreshToken)"}"#
        let fields = [("Idempotency-Key", "one")]
        let second = try client.call("POST", "/sdk/token", body, fields: fields)
        #expect(try client.refresh(second.refreshToken).status == 200)
        #expect(try client.call("POST", "/sdk/token", body, fields: fields).code == "REFRESH_TOKEN_REUSED")
    }
}
