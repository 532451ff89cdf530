import Foundation
import TestKit
import Testing

/// A filter that the server ignores answers wrong numbers with 200, so a call refuses each parameter that it does not have
/// (docs/decisions/0040).
@Suite("Parameters of queries")
struct QueryTests {
    /// The calls with one answer for every query.
    private static let open: Set<String> = [
        // Fixed answers and files.
        "GET /", "GET /console", "GET /console/{set}/{file}", "GET /console/{set}/pages/{file}", "GET /favicon.ico",
        "GET /health", "GET /healthz", "GET /readyz", "GET /openapi.json", "GET /.well-known/jwks.json",
        // Clients name their versions, and a page keeps an upload that gets 400.
        "GET /v4/{api_key}/config", "GET /JS/v2/{api_key}/config", "GET /v1/{api_key}/audience",
        "GET /js/v2/{api_key}/mparticle.js", "POST /v3/JS/{api_key}/events", "GET /docs", "GET /docs/",
        "GET /docs/{file}",
        "GET /docs/{folder}/{file}",
        // Calls of vendors that Onym does not have.
        "GET /v3/remote-config", "GET /v3/remote-configs", "GET /v3/screens", "GET /v3/screens/{id}",
        "GET /v3/contexts/{key}/screens", "GET /v3/products/permissions", "POST /v3/users/{id}/screen-events",
        "POST /v3/experiments/{id}/users/{user}", "DELETE /v3/experiments/{id}/users/{user}",
        "POST /v3/remote-configurations/{id}/users/{user}", "DELETE /v3/remote-configurations/{id}/users/{user}",
        "POST /v3/device/{id}", "PUT /v3/device/{id}", "POST /v3/appleads/{id}", "POST /v4/web/redeem",
        "POST /v4/web/redeem/status", "POST /v4/web/redeem/reissue", "POST /v1/user/push-token",
        "POST /v2/screens/{id}/views", "GET /v2/users/{id}/action-points", "GET /v2/screens/{id}",
        // The scene calls it with a key of another dialect, whose clients get a fixed answer.
        "POST /v2/events",
    ]

    /// The calls that need more than a key of the scene: an install, a signature or the secret of an address.
    private static let guarded: Set<String> = [
        "POST /sdk/installs", "POST /sdk/users", "POST /sdk/token", "POST /sdk/users/link",
        "POST /sdk/link-legacy-install", "POST /sdk/reset", "GET /sdk/person", "GET /sdk/config", "POST /sdk/events",
        "POST /onym/v1/console/session", "GET /v1/attachments/download", "GET /v1/questionnaires/{slug}",
        "POST /v1/questionnaires/{slug}/responses", "POST /v1/questionnaires/dismiss",
        "GET /v1/apple-s2s/{key}", "POST /v1/apple-s2s/{key}", "GET /onym/v1/stores/apple/{project}",
        "POST /onym/v1/stores/apple/{project}", "POST /onym/v1/stores/google/{project}",
        "POST /onym/v1/stores/google/{project}/{secret}", "POST /onym/v1/stores/stripe/{project}",
    ]

    @Test("that a call does not have are refused by their names, on every route")
    func unknown() throws {
        let scene = try NumberScene(.memory)
        var others: Set<String> = []
        for route in scene.routes {
            let answer = try scene.answer(route, query: "onym_unknown=1")
            if answer?.body.contains("onym_unknown") == true {
                #expect(answer?.status == 400, "\(route.name): \(String(describing: answer))")
            } else {
                others.insert(route.name)
            }
        }
        let known = Self.open.union(Self.guarded)
        #expect(others == known, "\(others.symmetricDifference(known).sorted())")
    }

    @Test("that a call does not have are refused where a call needs a client, an app or a link")
    func guarded() throws {
        let server = try TestServer(.memory)
        let credentials = server.credentials
        let client = [("Authorization", "Bearer \(credentials.claimClientKey)")]
        let basic = Data("\(credentials.idsyncKey):\(credentials.idsyncSecret)".utf8).base64EncodedString()
        let calls: [(String, String, [(String, String)], String?)] = [
            ("GET", "/v1/attachments/download?t=x&", [], nil), ("GET", "/v1/questionnaires/nps?", client, nil),
            ("POST", "/v1/questionnaires/nps/responses?", client, "{}"),
            ("POST", "/v1/questionnaires/dismiss?", client, "{}"),
            ("PUT", "/v1/ingest/attachment/x?", client + [("Content-Type", "application/octet-stream")], "{}"),
            ("POST", "/v2/events?", [("Authorization", "Basic \(basic)")], "{}"),
        ]
        for (method, path, fields, body) in calls {
            let hasType = fields.contains { $0.0 == "Content-Type" } || body == nil
            let answer = try server.client.call(
                method, "\(path)onym_unknown=1",
                fields: fields + (hasType ? [] : [("Content-Type", "application/json")]),
                body: body.map { Array($0.utf8) })
            #expect(answer.status == 400 && answer.body.contains("onym_unknown"), "\(method) \(path): \(answer)")
        }
    }

    @Test("that occur twice are refused by their names")
    func repeated() throws {
        let scene = try NumberScene(.memory)
        var count = 0
        for route in scene.routes where !Self.open.contains(route.name) && !Self.guarded.contains(route.name) {
            for name in route.query {
                let answer = try #require(try scene.answer(route, query: "\(name)=1&\(name)=2"))
                let says = #"The parameter \"\#(name)\" must occur once."#
                #expect(answer.status == 400 && answer.body.contains(says), "\(route.name): \(answer)")
                count += 1
            }
        }
        #expect(count > 100)
    }
}
