import ByteText
import Crypto
import Domain
import Foundation
import StoreSQLite
import TestKit
import Testing

/// What of this dialect's goes with a person who is erased, and what stays with the others.
@Suite("Erasing users")
struct ErasureTests {
    /// A server with a folder that can be looked through.
    private struct Scene {
        let folder = TemporaryFolder()
        let client: OwlClient

        init(_ kind: StoreKind, projectBytes: Int = 1000) throws {
            client = OwlClient(
                try TestServer(kind, in: folder) { $0.attachmentQuotas.projectBytes = projectBytes })
        }

        func reserve(
            _ content: String, name: String = "a.txt", user: String? = nil, event: String = UUID().uuidString
        ) throws -> Wire.Answer {
            let user = user.map { #","user_id":"\#($0)""# } ?? ""
            let digest = Hexadecimal.encode(SHA256.digest(of: Array(content.utf8)).bytes)
            return try client.call(
                "POST", "/v1/ingest/attachment",
                #"""
                {"client_event_id":"\#(event)","original_filename":"\#(name)","content_type":"text/plain",\#
                "size_bytes":\#(content.utf8.count),"sha256":"\#(digest)"\#(user)}
                """#)
        }

        func put(_ id: String, _ content: String) throws -> Wire.Answer {
            try client.http.call(
                "PUT", "/v1/ingest/attachment/\(id)",
                fields: [
                    ("Authorization", "Bearer \(client.clientKey)"), ("Content-Type", "application/octet-stream"),
                ], body: Array(content.utf8))
        }

        static func member(_ name: String, _ answer: Wire.Answer) throws -> String {
            let json = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
            let link = json?[name] as? [String: Any]
            return try #require(json?[name] as? String ?? link?["url"] as? String, "\(answer)")
        }

        /// Announces a file and sends it; answers its id.
        @discardableResult
        func send(_ content: String, name: String = "a.txt", user: String? = nil, event: String = UUID().uuidString)
            throws
            -> String
        {
            let id = try Scene.member("attachment_id", try reserve(content, name: name, user: user, event: event))
            #expect(try put(id, content).status == 200)
            return id
        }

        func read(_ path: String) throws -> Wire.Answer {
            try client.call("GET", path, key: client.server.credentials.claimAgentKey)
        }

        func erase(_ user: String) throws {
            let type = user.hasPrefix("owl_anon_") ? "claim_anonymous_id" : "claim_user_id"
            let answer = try client.call(
                "DELETE", "/onym/v1/people/\(type):\(user)", key: client.server.credentials.adminKey)
            #expect(answer.status == 200, "\(answer)")
        }

        /// Whether some bytes are in any file, or are the name of one.
        func isSomewhere(_ text: String) -> Bool {
            let names = (try? FileManager.default.subpathsOfDirectory(atPath: folder.path)) ?? []
            return names.contains { name in
                if name.contains(text) { return true }
                let data = try? Data(contentsOf: URL(filePath: "\(folder.path)/\(name)"))
                return data?.range(of: Data(text.utf8)) != nil
            }
        }

        /// Waits until nothing is left of some texts; compactions follow an erasure by themselves.
        func areGone(_ texts: [String]) throws -> Bool {
            _ = try client.call("POST", "/onym/v1/compact", "{}", key: client.server.credentials.adminKey)
            return try Patience.until {
                if !texts.contains(where: isSomewhere) { return true }
                _ = try client.properties("somebody", #"{"a":"\#(UUID())"}"#)
                return false
            }
        }
    }

    @Test("takes the bytes of their files away, and leaves those that others have", arguments: StoreKind.allCases)
    func files(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let theirs = try scene.send("only ada's", name: "adas-secret.txt", user: "ada")
        try scene.send("both have this", user: "owl_anon_1")
        let shared = try scene.send("both have this", user: "grace")
        let waiting = try Scene.member("attachment_id", try scene.reserve("yet to come", user: "ada"))
        _ = try scene.client.claim("owl_anon_1", "ada")
        try scene.erase("ada")
        #expect(try scene.areGone(["only ada's"]))
        #expect(try scene.read("/v1/attachments/\(theirs)").status == 404)
        #expect(try scene.put(waiting, "yet to come").status == 404)
        let link = try Scene.member("download_url", try scene.read("/v1/attachments/\(shared)"))
        #expect(
            try scene.client.http.call("GET", String(link.dropFirst("http://127.0.0.1".count))).body == "both have this"
        )
        #expect(try scene.read("/v1/attachments?data_mode=all").body.contains(#""has_more":false"#))
        if kind == .sqlite { #expect(try scene.areGone(["adas-secret"])) }
        // What they had counts no more: all but the 14 bytes of the other's is free.
        let left = String(repeating: "x", count: 986)
        #expect(try scene.reserve(left + "y", user: "joan").status == 413)
        #expect(try scene.reserve(left, user: "joan").status == 201)
        // The last who has it takes it along.
        try scene.erase("grace")
        #expect(try scene.areGone(["both have this"]))
    }

    @Test("takes files along that only their event made theirs", arguments: StoreKind.allCases, [false, true])
    func told(_ kind: StoreKind, _ eventFirst: Bool) throws {
        let scene = try Scene(kind)
        let (one, other) = (UUID().uuidString, UUID().uuidString)
        func ingest() throws {
            _ = try scene.client.ingest([OwlClient.event("ada", id: one), OwlClient.event("grace", id: other)])
        }
        if eventFirst { try ingest() }
        try scene.send("of ada's event", name: "adas-secret.txt", event: one)
        try scene.send("of ada's event, too", name: "adas-other.txt", event: one)
        let kept = try scene.send("of grace's event", name: "graces.txt", event: other)
        if !eventFirst { try ingest() }
        for (user, count) in [("ada", 2), ("grace", 1)] {
            let list = try scene.read("/v1/attachments?data_mode=all&user_id=\(user)").body
            #expect(list.components(separatedBy: #""user_id":"\#(user)""#).count == count + 1, "\(list)")
        }
        try scene.erase("ada")
        #expect(try scene.areGone(["of ada's event"]))
        #expect(try scene.read("/v1/attachments/\(kept)").status == 200)
        if kind == .sqlite {
            #expect(try scene.areGone(["adas-secret", "adas-other"]))
            #expect(scene.isSomewhere("graces.txt"))
            scene.client.server.stop()
            (scene.client.server.store as? SQLiteStore)?.close()
            let findings = try Doctor(StoreFile(folder: scene.folder.path)) { _ in }.examine()
            #expect(findings.isEmpty, "\(findings.map(\.description))")
        }
    }

    @Test("takes along as many files as they have", arguments: StoreKind.allCases)
    func many(_ kind: StoreKind) throws {
        let scene = try Scene(kind, projectBytes: 100_000)
        for number in 0..<130 { try scene.send("file \(number) of hers", user: "ada") }
        try scene.send("not hers", user: "grace")
        try scene.erase("ada")
        #expect(try scene.areGone(["of hers"]))
        #expect(scene.isSomewhere("not hers"))
    }

    @Test("files that nothing has any more go when the server starts", arguments: StoreKind.allCases)
    func leftBehind(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let digest = Hexadecimal.encode(SHA256.digest(of: Array("left".utf8)).bytes)
        let path = "\(folder.path)/attachments/\(digest.prefix(2))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Data("left".utf8).write(to: URL(filePath: "\(path)/\(digest)"))
        let server = try TestServer(kind, in: folder)
        #expect(Patience.until { !FileManager.default.fileExists(atPath: "\(path)/\(digest)") })
        server.stop()
    }

    @Test("leaves issues to the others who had them, and takes what their error said", arguments: StoreKind.allCases)
    func issues(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        func fail(_ user: String, _ message: String, _ session: String) throws {
            let event = OwlClient.event(user, message).replacing(#""level":"info""#, with: #""level":"error""#)
                .replacing(OwlClient.session, with: session)
            #expect(try scene.client.ingest([event]).body == #"{"accepted":1,"rejected":0}"#)
        }
        let project = try #require(try scene.read("/v1/projects").body.firstMatch(of: /"id":"([^"]+)"/)?.1)
        func titles() throws -> [String] {
            try scene.read("/v1/projects/\(project)/issues?data_mode=all").body.matches(of: /"title":"([^"]*)"/)
                .map { String($0.1) }
        }
        try fail("ada", "order 4711001 is lost", UUID().uuidString)
        try fail("grace", "order 12 is lost", UUID().uuidString)
        #expect(try titles() == ["order 4711001 is lost"])
        try scene.erase("ada")
        #expect(try titles() == [""])
        if kind == .sqlite { #expect(try scene.areGone(["4711001"])) }
        try fail("joan", "order 13 is lost", UUID().uuidString)
        if kind == .sqlite { #expect(try titles() == ["order 13 is lost"]) } else { #expect(try titles().count == 1) }
    }
}
