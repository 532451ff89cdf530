import ByteText
import Crypto
import DialectIDSync
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import TestKit
import Testing

/// What a call that has its key in its path, and is not open to everybody, demands of each kind of key.
@Suite("Keys in paths")
struct KeyInPathTests {
    private let secrets = IDSyncSecrets(master: [7])
    private let path = "/v1/identity/us1-app/alias"

    private static func key(_ text: String, _ kind: AccessKey.Kind, _ id: Int64) -> AccessKey {
        AccessKey(
            id: KeyID(rawValue: id), project: World.project, app: nil, kind: kind, name: text,
            hash: SHA256.digest(of: Array(text.utf8)).keyHash, scopes: [.identityWrite],
            madeAt: Instant(milliseconds: 0))
    }

    private let directory = Directory(keys: [key("us1-app", .idsync, 1), key("us1-web", .idsyncWeb, 2)])

    /// The id of the key that a call is taken to be made with.
    private func caller(_ key: String, _ fields: [(String, String)]) throws -> Int64? {
        let surface = IDSync.surface(secrets: secrets, dateWindowMinutes: 0, warnings: ClientWarnings())
        let route = Endpoint(
            .post, "/v1/identity/:api_key/alias", otherPaths: ["/:api_key/alias"], scope: .identityWrite,
            keyPlace: .path(isOpen: false), operation: Operation(id: "alias", summary: "", responses: []),
            action: .answer { _, _, _ in Response(.ok) })
        let head = Array(
            ("POST /\(key)/alias HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0): \($1)\r\n" }.joined() + "\r\n").utf8)
        var parser = RequestParser(limits: .init())
        var offset = 0
        _ = try parser.next(in: head.span, from: &offset)
        let request = Request(
            id: RequestID(high: 0, low: 0), head: parser.head, headBytes: head, parameters: [key],
            body: Array("{}".utf8))
        do throws(Rejection) {
            let (now, directory) = (Instant(milliseconds: 1), directory)
            let tools = LoopTools(hash: World.hash) { .init(now: now, directory: directory) }
            return try surface.authenticate(request, route, directory, now, tools).key?.id.rawValue
        } catch {
            #expect(error.response == Response(.unauthorized))
            return nil
        }
    }

    private func signature(_ path: String, _ body: String = "{}") -> (String, String) {
        let head = IDSyncSignature.head("POST", date: Array("d".utf8), path: path)
        let secret = Array(secrets.secret(for: "us1-app").utf8)
        return ("x-mp-signature", Hexadecimal.encode(HMAC(key: secret).authenticate(head, Array(body.utf8)).bytes))
    }

    @Test("are enough for web keys, and need a signature or the secret for others")
    func proofs() throws {
        let basic = Base64.encode(Array("us1-app:\(secrets.secret(for: "us1-app"))".utf8))
        let date = ("Date", "d")
        #expect(try caller("us1-web", []) == 2)
        #expect(try caller("us1-app", []) == nil)
        #expect(try caller("us1-app", [("x-mp-key", "us1-app")]) == nil)
        #expect(try caller("us1-app", [date, signature(path)]) == 1)
        #expect(try caller("us1-app", [date, signature(path), ("x-mp-key", "us1-app")]) == 1)
        #expect(try caller("us1-app", [("Authorization", "Basic \(basic)")]) == 1)
        #expect(try caller("us1-web", [("Authorization", "Basic \(basic)")]) == nil)
        #expect(try caller("us1-app", [date, signature(path), ("x-mp-key", "us1-web")]) == nil)
        #expect(try caller("us1-app", [date, signature(path, "{} ")]) == nil)
        #expect(
            try caller("us1-app", [date, signature("/us1-app/alias")]) == nil, "what was called is not what is signed")
        #expect(try caller("us1-web", [date, signature(path)]) == nil)
        #expect(try caller("us1-none", []) == nil)
    }
}
