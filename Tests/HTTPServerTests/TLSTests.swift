import Foundation
import HTTPServer
import TLS
import TestKit
import Testing

@Suite("The HTTP server over TLS", .timeLimit(.minutes(30)))
struct TLSTests {
    private func curl(_ fixture: ServerFixture, _ certificate: Certificate, _ arguments: String...) throws
        -> Shell.Result
    {
        try Shell.result(
            ["curl", "-sS", "--max-time", "\(Patience.seconds)", "--cacert", certificate.certificate] + arguments
                + ["https://127.0.0.1:\(fixture.port)/hello"])
    }

    @Test("answers over TLS 1.2 and 1.3, and by HTTP/1.1")
    func versions() throws {
        let certificate = try Certificate(name: "one")
        let fixture = try ServerFixture(tls: TLSIdentity(try certificate.context()))
        for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]] {
            let result = try Shell.result(
                ["curl", "-sS", "--max-time", "\(Patience.seconds)", "--cacert", certificate.certificate] + version
                    + ["-w", " %{http_version}", "https://127.0.0.1:\(fixture.port)/hello"])
            #expect(result.output == "hello 1.1", "\(result.errors)")
        }
    }

    @Test("refuses older versions")
    func oldVersions() throws {
        let certificate = try Certificate(name: "one")
        let fixture = try ServerFixture(tls: TLSIdentity(try certificate.context()))
        #expect(
            try curl(fixture, certificate, "--tlsv1.1", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0").code != 0
        )
    }

    @Test("carries large answers and bodies")
    func large() throws {
        let certificate = try Certificate(name: "one")
        let fixture = try ServerFixture(tls: TLSIdentity(try certificate.context()))
        let base = "https://127.0.0.1:\(fixture.port)"
        let download = try Shell.result(
            [
                "curl", "-sS", "--cacert", certificate.certificate, "-o", "/dev/null", "-w", "%{size_download}",
                "\(base)/large",
            ])
        #expect(download.output == "\(8 << 20)", "\(download.errors)")
        let file = certificate.folder.path + "/body"
        try Data(repeating: 7, count: 1_000_000).write(to: URL(filePath: file))
        let upload = try Shell.result(
            ["curl", "-sS", "--cacert", certificate.certificate, "-T", file, "\(base)/upload"])
        #expect(upload.output == "1000000", "\(upload.errors)")
    }

    @Test("answers a request that comes together with the end of the session")
    func requestWithEnd() throws {
        let certificate = try Certificate(name: "one")
        let fixture = try ServerFixture(tls: TLSIdentity(try certificate.context()))
        let result = try Shell.result(["python3", "-c", TLSTests.requestWithEnd, "\(fixture.port)"])
        #expect(result.output.contains("200 OK"), "\(result)")
    }

    /// A client that puts its request and its close_notify into one segment, and prints what comes back.
    private static let requestWithEnd = """
        import socket, ssl, sys
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing)
        wire = socket.create_connection(("127.0.0.1", int(sys.argv[1])), \(Patience.seconds))
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                wire.sendall(outgoing.read())
                incoming.write(wire.recv(65536))
        session.write(b"GET /hello HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        try:
            session.unwrap()
        except ssl.SSLWantReadError:
            pass
        wire.sendall(outgoing.read())
        while True:
            bytes = wire.recv(65536)
            if not bytes:
                break
            incoming.write(bytes)
            try:
                print(session.read(65536).decode())
            except ssl.SSLError:
                pass
        """

    @Test("closes on bytes that are not TLS, and goes on for others")
    func notTLS() throws {
        let certificate = try Certificate(name: "one")
        let fixture = try ServerFixture(tls: TLSIdentity(try certificate.context()))
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(wire.isClosedByPeer)
        #expect(try curl(fixture, certificate).output == "hello")
    }

    @Test("uses another certificate once it is given one")
    func reload() throws {
        let (one, other) = (try Certificate(name: "one"), try Certificate(name: "other"))
        let identity = TLSIdentity(try one.context())
        let fixture = try ServerFixture(tls: identity)
        #expect(try curl(fixture, one).output == "hello")
        identity.replace(with: try other.context())
        #expect(try curl(fixture, other).output == "hello")
        #expect(try curl(fixture, one).code != 0)
    }

    @Test("says what is wrong with a certificate or a key")
    func badFiles() throws {
        let (one, other) = (try Certificate(name: "one"), try Certificate(name: "other"))
        func message(_ certificate: String, _ key: String) -> String {
            do throws(TLSFault) {
                _ = try TLSContext(certificateFile: certificate, keyFile: key)
                return ""
            } catch {
                return error.description
            }
        }
        #expect(message("/nonexistent", one.key).hasSuffix("from /nonexistent: No such file or directory."))
        #expect(message(one.certificate, "/nonexistent").hasSuffix("from /nonexistent: No such file or directory."))
        #expect(message(one.certificate, other.key).contains("key"))
        #expect(message(one.key, one.key).contains(one.key))
    }
}
