import Console
import Docs
import Foundation
import TestKit
import Testing

@Suite("Serving the documentation")
struct DocsRoutesTests {
    private let server: TestServer

    init() throws { server = try TestServer(.memory) }

    @Test("A reader without a key gets pages under the rules of the console")
    func pages() throws {
        let first = try server.client.call("GET", "/docs")
        #expect(first.status == 302 && first["location"] == "/docs/index.html", "\(first)")
        let slash = try server.client.call("GET", "/docs/")
        #expect(slash.status == 302 && slash["location"] == "/docs/index.html", "\(slash)")
        for (path, type, part) in [
            ("index.html", "text/html; charset=utf-8", "<h1>Onym</h1>"),
            ("install.html", "text/html; charset=utf-8", "<h1"),
            ("decisions/index.html", "text/html; charset=utf-8", "<h1"),
            ("style.css", "text/css; charset=utf-8", "body"),
            ("search.js", "text/javascript; charset=utf-8", "search"), ("search.json", "application/json", "sections"),
        ] {
            let answer = try server.client.call("GET", "/docs/\(path)")
            #expect(answer.status == 200 && answer["content-type"] == type, "\(path): \(answer.status)")
            #expect(answer.body.contains(part), "\(path)")
            #expect(answer["content-security-policy"]?.contains("script-src 'self'") == true)
            #expect(answer["content-security-policy"]?.contains("require-trusted-types-for 'script'") == true)
            let tag = try #require(answer["etag"] as String?)
            #expect(try server.client.call("GET", "/docs/\(path)", fields: [("If-None-Match", tag)]).status == 304)
        }
        #expect(try server.client.call("GET", "/docs/console-person.png")["content-type"] == "image/png")
    }

    @Test("A page that does not exist is a page in words, and no path leads out of the site")
    func missing() throws {
        for path in [
            "/docs/none.html", "/docs/missing.html", "/docs/..%2f..%2fetc/passwd", "/docs/decisions/none.html",
        ] {
            let answer = try server.client.call("GET", path)
            #expect(answer.status == 404, "\(path): \(answer.status)")
            #expect(path.contains("%2f") || answer.body.contains("There is no such page"), "\(path)")
        }
    }

    @Test("A browser that takes gzip gets gzip, and a server without a console has no documentation")
    func forms() throws {
        let packed = try server.client.call("GET", "/docs/native.html", fields: [("Accept-Encoding", "gzip, br")])
        #expect(packed["content-encoding"] == "gzip")
        // A weight is none of the digits of a weight of 0.
        for (list, encoding) in [("gzip;q=0.5", "gzip"), ("gzip;q=0", nil), ("GZIP", "gzip"), ("br", nil)] {
            let answer = try server.client.call("GET", "/docs/native.html", fields: [("Accept-Encoding", list)])
            #expect(answer["content-encoding"] == encoding, "\(list)")
        }
        #expect(try server.client.call("GET", "/docs/native.html")["content-encoding"] == nil)
        let without = try TestServer(.memory, configure: { $0.hasConsole = false })
        let answer = try without.client.call("GET", "/docs/index.html")
        #expect(answer.status == 404, "\(answer)")
    }
}
