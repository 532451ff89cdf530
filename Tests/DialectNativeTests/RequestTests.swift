import Foundation
import TestKit
import Testing

@Suite("The log of requests")
struct RequestTests {
    @Test("shows a request with the call that it made, and by the id of its answer", arguments: StoreKind.allCases)
    func one(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let person = try client.identify(#"{"customerid":"ada"}"#)
        let call = try #require(client.get("/onym/v1/people/\(person)/journal").list("calls").first)
        let id = try #require(call["request_id"] as? String)

        let answer = try client.get("/onym/v1/requests/\(id)")
        #expect(answer.status == 200 && answer.text("request_id") == id, "\(answer)")
        #expect(answer.text("route") == "POST /v1/identify" && answer.number("status") == 200, "\(answer)")
        #expect(answer.text("person") == person && answer.number("seq") == call["seq"] as? Int, "\(answer)")
        #expect(answer.list("calls").map { $0["kind"] as? String } == ["identify"], "\(answer)")
        let key = try #require(call["key"] as? String)
        #expect(answer.text("key") == key && (answer.number("bytes_in") ?? 0) > 100, "\(answer)")
        #expect((answer.number("bytes_out") ?? 0) > 100 && (answer["ms"] as? Double ?? -1) >= 0, "\(answer)")

        let found = try client.get("/onym/v1/search?q=\(id)").list("results")
        #expect(found.map { $0["kind"] as? String } == ["request"] && found[0]["request_id"] as? String == id)
        let unknown = try client.get("/onym/v1/requests/\(String(repeating: "0", count: 32))")
        #expect(unknown.status == 404 && unknown.code == "no_such_request", "\(unknown)")
    }

    @Test("lists the newest first, by route, status, key and time, page by page")
    func list() throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(.memory, loops: 1) { $0.clock = { clock.now } })
        try client.identify(#"{"customerid":"ada"}"#)
        clock.advance(milliseconds: 60_000)
        #expect(try client.get("/onym/v1/people/77").status == 404)
        #expect(try client.get("/onym/v1/nowhere").status == 404)
        try client.identify(#"{"customerid":"bob"}"#)

        func routes(_ query: String) throws -> [String?] {
            let answer = try client.get("/onym/v1/requests?limit=10&\(query)")
            #expect(answer.status == 200 && answer.text("kept_since") == "2027-01-15T08:00:00.000Z", "\(answer)")
            return answer.list("requests").map { $0["route"] as? String }
        }
        #expect(try routes("route=/v1/identify") == ["POST /v1/identify", "POST /v1/identify"])
        #expect(try routes("route=POST%20/v1/identify&since=2027-01-15T08:00:30Z") == ["POST /v1/identify"])
        #expect(try routes("status=404") == [nil, "GET /onym/v1/people/:id"])
        #expect(try routes("status=4xx&route=/onym/v1/people/:id") == ["GET /onym/v1/people/:id"])
        #expect(try routes("key=999").isEmpty)
        let codes = try client.get("/onym/v1/requests?status=404").list("requests").map { $0["code"] as? String }
        #expect(codes == ["not_found", "not_found"], "\(codes)")

        var (pages, cursor): ([String], String?) = ([], nil)
        repeat {
            let place = cursor.map { "&cursor=\($0)" } ?? ""
            let page = try client.get("/onym/v1/requests?limit=1&route=/v1/identify\(place)")
            pages += page.list("requests").compactMap { $0["person"] as? String }
            cursor = page.text("next_cursor")
        } while cursor != nil
        #expect(pages.count == 2 && Set(pages).count == 2, "\(pages)")
        for query in ["status=4x", "status=999", "key=x", "since=then", "cursor=-1", "limit=0"] {
            #expect(try client.get("/onym/v1/requests?\(query)").status == 400, "\(query)")
        }
    }

    @Test("has no value, no secret and no address: an id of the client is known by its hash")
    func secrets() throws {
        let folder = TemporaryFolder()
        let server = try TestServer(.sqlite, in: folder)
        let client = NativeClient(server)
        let answer = try server.client.call(
            "POST", "/v1/identify",
            fields: [("x-mp-key", server.credentials.idsyncWebKey), ("X-Request-Id", "of-grace@example.com")],
            json: #"{"environment":"development","known_identities":{"email":"grace@example.com"}}"#)
        #expect(answer.status == 200)
        let refused = try client.get("/onym/v1/people?type=email&value=grace@example.com&x=secret-word")
        #expect(refused.status == 400)
        let shown = try client.get("/onym/v1/requests/of-grace@example.com")
        #expect(shown.status == 200 && shown.text("route") == "POST /v1/identify", "\(shown)")
        let hash = try #require(shown.text("request_id"))
        #expect(hash.count == 32 && !hash.contains("grace"))
        #expect(try client.get("/onym/v1/requests/\(hash)").number("seq") == shown.number("seq"))

        let logs = folder.path + "/requests"
        var bytes: [UInt8] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: logs) {
            bytes += [UInt8](try Data(contentsOf: URL(filePath: "\(logs)/\(name)")))
        }
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.contains("POST /v1/identify") && text.contains("validation_error"), "\(text.prefix(500))")
        let secrets = [
            "grace", "example.com", "secret-word", "127.0.0.1", server.credentials.adminKey,
            server.credentials.idsyncWebKey,
        ]
        for secret in secrets { #expect(!text.contains(secret), "\(secret)") }
    }

    @Test("tells what became of the changes at webhooks")
    func deliveries() throws {
        let client = try NativeClient(.memory)
        let hook = try client.post("/onym/v1/webhooks", #"{"url":"https://hooks.example.com/onym"}"#)
        #expect(hook.status == 201, "\(hook)")
        let person = try client.identify(#"{"customerid":"ada"}"#)
        let call = try #require(client.get("/onym/v1/people/\(person)/journal").list("calls").first)
        let answer = try client.get("/onym/v1/requests/\(try #require(call["request_id"] as? String))")
        let delivery = try #require(answer.list("deliveries").first, "\(answer)")
        #expect(delivery["webhook"] as? String == hook.text("id"), "\(answer)")
        let states = ["waiting", "parked", "sent", "unread"]
        #expect(states.contains(delivery["state"] as? String ?? ""), "\(answer)")
    }

    @Test("another project and another server do not see a request")
    func others() throws {
        let client = try NativeClient(.memory)
        let person = try client.identify(#"{"customerid":"ada"}"#)
        let call = try #require(client.get("/onym/v1/people/\(person)/journal").list("calls").first)
        let id = try #require(call["request_id"] as? String)
        let project = try client.post("/onym/v1/projects", #"{"name":"Other"}"#)
        let key = try #require(project.text("admin_key"), "\(project)")
        let fields = [("Authorization", "Bearer \(key)")]
        #expect(try client.server.client.call("GET", "/onym/v1/requests/\(id)", fields: fields).status == 404)
        let list = JSONAnswer(try client.server.client.call("GET", "/onym/v1/requests", fields: fields))
        #expect(list.list("requests").allSatisfy { $0["route"] as? String != "POST /v1/identify" }, "\(list)")

        let without = NativeClient(try TestServer(.memory) { $0.requestLog = nil })
        let off = try without.get("/onym/v1/requests")
        #expect(off.status == 404 && off.code == "no_request_log", "\(off)")
    }
}
