import Console
import Foundation
import TestKit
import Testing

@Suite("Serving the console")
struct ConsoleRoutesTests {
    private let server: TestServer
    private let set = ConsoleFiles().set

    init() throws { server = try TestServer(.memory) }

    private func get(_ path: String, _ fields: [(String, String)] = [], method: String = "GET") throws -> Wire.Answer {
        try server.client.call(method, path, fields: fields)
    }

    @Test("A browser gets the page at / and /console; another program gets addresses at /")
    func page() throws {
        for (path, fields) in [("/", [("Accept", "text/html,*/*;q=0.8")]), ("/console", [])] {
            let answer = try get(path, fields)
            #expect(answer.status == 200 && answer["Content-Type"] == "text/html; charset=utf-8")
            #expect(answer["Cache-Control"] == "no-store")
            #expect(answer.body.contains("/console/\(set)/main.js"))
            #expect(!answer.body.contains("{set}"))
        }
        for fields in [[], [("Accept", "application/json")], [("Accept", "text/html;q=0")]] {
            let answer = try get("/", fields)
            #expect(answer.status == 200 && answer["Content-Type"] == "application/json")
            #expect(answer.body.contains(#""console":"/console","openapi":"/openapi.json""#))
        }
    }

    @Test("A file may stay in a cache for ever, and has a tag")
    func caching() throws {
        let answer = try get("/console/\(set)/main.js")
        #expect(answer.status == 200 && answer["Content-Type"] == "text/javascript; charset=utf-8")
        #expect(answer["Cache-Control"] == "public, max-age=31536000, immutable")
        let tag = try #require(answer["ETag"])
        let again = try get("/console/\(set)/main.js", [("If-None-Match", tag)])
        #expect(again.status == 304 && again.body.isEmpty)
        #expect(try get("/console/\(set)/main.js", [("If-None-Match", "\"other\"")]).status == 200)
        let head = try get("/console/\(set)/pages/home.js", method: "HEAD")
        #expect(head.status == 200 && head.body.isEmpty)
        #expect(try get("/favicon.ico")["Content-Type"] == "image/svg+xml")
    }

    @Test("A browser that takes gzip gets gzip")
    func compression() throws {
        #expect(
            try get("/console/\(set)/icon.svg", [("Accept-Encoding", "br, gzip;q=0.5")])["Content-Encoding"] == "gzip")
        for coding in ["br", "gzip;q=0", "gzip; q=0.0"] {
            #expect(try get("/console/\(set)/icon.svg", [("Accept-Encoding", coding)])["Content-Encoding"] == nil)
        }
    }

    @Test(
        "Each answer with a file carries the rules for browsers",
        arguments: ["/console", "/favicon.ico", "main.js", "pages/home.js", "style.css"])
    func rules(_ path: String) throws {
        let answer = try get(path.hasPrefix("/") ? path : "/console/\(set)/\(path)")
        let policy = try #require(answer["Content-Security-Policy"])
        #expect(!policy.contains("unsafe") && !policy.contains("*"))
        #expect(policy.contains("default-src 'self'") && policy.contains("require-trusted-types-for 'script'"))
        #expect(policy.contains("frame-ancestors 'none'"))
        #expect(answer["X-Content-Type-Options"] == "nosniff" && answer["Referrer-Policy"] == "no-referrer")
        #expect(answer["Cross-Origin-Opener-Policy"] == "same-origin")
        #expect(answer["Cross-Origin-Resource-Policy"] == "same-origin")
    }

    @Test("A file of another version does not exist, and the answer says why")
    func changed() throws {
        for path in [
            "0000000000000000/main.js", "\(set)/nothing.js", "\(set)/index.html", "\(set)/pages/main.js",
            "\(set)/..%2fmain.js",
        ] {
            let answer = try get("/console/\(path)")
            #expect(answer.status == 404, "\(path)")
            #expect(answer.body.contains(#""code":"console_changed""#), "\(path)")
        }
    }
}
