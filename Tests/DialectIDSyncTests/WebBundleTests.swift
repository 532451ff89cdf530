import DialectIDSync
import Foundation
import TestKit
import Testing

/// The vendor's web client from a folder of the operator (spec/idsync-clients.md 5). The tests have two stand-ins for it, because the
/// repository has no copy of the vendor's client.
@Suite("The web client of the vendor")
struct WebBundleTests {
    /// A client that waits for its host to start it, and one that starts itself.
    private static let clients = [
        "waiting": """
        var version = "2.71.2";
        window.mParticle = {config: window.mParticle.config, starts: [],
          isInitialized: function () { return this.starts.length > 0 },
          init: function (key, config) { this.starts.push([key, config.domain]) }};
        """,
        "starting itself": """
        window.mParticle = {config: window.mParticle.config, starts: [["own", "own"]],
          isInitialized: function () { return true },
          init: function (key, config) { this.starts.push([key, config.domain]) }};
        """,
        "without isInitialized": """
        window.mParticle = {config: window.mParticle.config, starts: [],
          init: function (key, config) { this.starts.push([key, config.domain]) }};
        """,
    ]

    private static let paths = [
        "/js/v2/KEY/mparticle.js?env=1&plan_id=p&plan_version=2", "/JS/v2/KEY/mparticle.js",
        "/tags/js/v2/KEY/mparticle.js",
        "/Tags/JS/V2/KEY/mParticle.js",
    ]

    private static func server(_ folder: TemporaryFolder?) throws -> TestServer {
        try TestServer(.memory) { $0.webBundle = folder?.path }
    }

    private static func write(_ text: String, in folder: TemporaryFolder, at seconds: Double = 0) throws {
        let path = folder.path + "/mparticle.js"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1_700_000_000 + seconds)], ofItemAtPath: path)
    }

    @Test("is sent whole, and then started once with the key of the page", arguments: clients.keys.sorted())
    func start(_ name: String) throws {
        let folder = TemporaryFolder()
        let client = try #require(Self.clients[name])
        try Self.write(client, in: folder)
        let server = try Self.server(folder)
        let key = server.credentials.idsyncWebKey
        let answer = try server.client.call("GET", "/js/v2/\(key)/mparticle.js?env=1")
        #expect(answer.status == 200 && answer.body.hasPrefix(client))
        // The script runs as a page runs it.
        let script = """
            var window = globalThis; window.mParticle = {config: {domain: "id.example.com"}};
            \(answer.body)
            process.stdout.write(JSON.stringify(window.mParticle.starts));
            """
        let run = try Shell.result(["node", "-e", script])
        let expected = name == "starting itself" ? #"[["own","own"]]"# : #"[["\#(key)","id.example.com"]]"#
        #expect(run.output == expected, "\(run)")
    }

    @Test("has one address without regard to case, and says how long it stays")
    func addresses() throws {
        let folder = TemporaryFolder()
        try Self.write(Self.clients["waiting"] ?? "", in: folder)
        let server = try Self.server(folder)
        let client = server.client
        for key in [server.credentials.idsyncWebKey, server.credentials.idsyncKey] {
            for path in Self.paths.map({ $0.replacing("KEY", with: key) }) {
                for fields in [[], [("Origin", "https://shop.example")]] {
                    let answer = try client.call("GET", path, fields: fields)
                    #expect(answer.status == 200, "\(path)")
                    #expect(answer["Content-Type"] == "application/javascript; charset=utf-8")
                    #expect(answer["Cache-Control"] == "public, max-age=300")
                    let origins = answer.fields.filter { $0.name.lowercased() == "access-control-allow-origin" }
                    #expect(origins.map(\.value) == ["*"])
                    let tag = try #require(answer["ETag"])
                    let again = try client.call("GET", path, fields: fields + [("If-None-Match", tag)])
                    #expect(again.status == 304 && again.body.isEmpty && again["ETag"] == tag)
                }
            }
        }
        let base = "http://127.0.0.1:\(server.port)/js/v2/\(server.credentials.idsyncWebKey)"
        let plain = try Shell.result(["curl", "-s", base + "/mparticle.js"])
        let packed = try Shell.result(["curl", "-s", "--compressed", base + "/mparticle.js"])
        #expect(plain.output == packed.output && plain.output.contains("isInitialized"))
        let head = try client.call(
            "GET", "/js/v2/\(server.credentials.idsyncWebKey)/mparticle.js", fields: [("Accept-Encoding", "br, gzip")])
        #expect(head["Content-Encoding"] == "gzip" && head["Vary"] == "Accept-Encoding")
        #expect(try Int(#require(head["Content-Length"])) ?? 0 < plain.output.utf8.count)
    }

    @Test("is read again when the file has changed")
    func change() throws {
        let folder = TemporaryFolder()
        try Self.write("/* one */", in: folder)
        let server = try Self.server(folder)
        let path = "/js/v2/\(server.credentials.idsyncWebKey)/mparticle.js"
        func get() throws -> Wire.Answer { try server.client.call("GET", path) }
        let first = try get()
        #expect(first.body.hasPrefix("/* one */"))
        try Self.write("/* two */", in: folder, at: 1)
        let second = try get()
        #expect(second.body.hasPrefix("/* two */") && second["ETag"] != first["ETag"])
        try Self.write("/* longer */", in: folder, at: 1)
        #expect(try get().body.hasPrefix("/* longer */"))
        try FileManager.default.removeItem(atPath: folder.path + "/mparticle.js")
        #expect(try get().status == 404)
        try Self.write("/* two */", in: folder, at: 1)
        #expect(try get()["ETag"] == second["ETag"])
    }

    @Test("is not sent without a key, a folder or the file, and no other file is sent")
    func refused() throws {
        let folder = TemporaryFolder()
        let elsewhere = TemporaryFolder()
        try "secret".write(toFile: elsewhere.path + "/mparticle.js", atomically: true, encoding: .utf8)
        try "other".write(toFile: folder.path + "/other.js", atomically: true, encoding: .utf8)
        let server = try Self.server(folder)
        let key = server.credentials.idsyncWebKey
        func get(_ server: TestServer, _ key: String, _ file: String = "mparticle.js") throws -> Wire.Answer {
            try server.client.call("GET", "/js/v2/\(key)/\(file)")
        }
        let missing = try get(server, key)
        #expect(missing.status == 404 && missing.body.contains("web_bundle"), "\(missing)")
        let link = folder.path + "/mparticle.js"
        try FileManager.default.createSymbolicLink(
            atPath: link, withDestinationPath: elsewhere.path + "/mparticle.js")
        #expect(try get(server, key).status == 404, "a link leaves the folder")
        try FileManager.default.removeItem(atPath: link)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "other.js")
        #expect(try get(server, key).body.hasPrefix("other"), "a link stays in the folder")
        try FileManager.default.removeItem(atPath: link)
        try FileManager.default.createDirectory(atPath: link, withIntermediateDirectories: false)
        #expect(try get(server, key).status == 404, "a folder is no file")
        for file in ["other.js", "..%2Fmparticle.js", "mparticle.js.map", "mparticle.js/"] {
            #expect(try get(server, key, file).status == 404, "\(file)")
        }
        for wrong in ["us1-\(String(repeating: "0", count: 32))", "x", server.credentials.claimClientKey] {
            let answer = try get(server, wrong)
            #expect(answer.status == 401 && answer.body.isEmpty, "\(answer)")
        }
        let none = try Self.server(nil)
        #expect(try get(none, none.credentials.idsyncWebKey).status == 404)
    }

    @Test("starts with no text that could be code")
    func keys() {
        for text in ["", "a\"", "a\\", "a;b", "a b", "ä", "</script>", "a\n"] {
            #expect(WebBundle.start(for: text) == nil, "\(text)")
        }
        #expect(WebBundle.start(for: "us1-Ab_9")?.contains(#"init("us1-Ab_9","#) == true)
    }
}
