import Foundation
import Onym
import TestKit
import Testing

@Suite("Pins of public keys")
struct PinTests {
    @Test(
        "a key with its algorithm has the bytes that OpenSSL writes",
        arguments: ["rsa:2048", "rsa:4096", "P-256", "P-384", "P-521"])
    func info(name: String) throws {
        let folder = TemporaryFolder()
        let (key, whole, inner) = (folder.path + "/key.pem", folder.path + "/spki.der", folder.path + "/pkcs1.der")
        let isRSA = name.hasPrefix("rsa")
        let make =
            isRSA
            ? ["openssl", "genrsa", "-out", key, String(name.dropFirst(4))]
            : ["openssl", "ecparam", "-name", name, "-genkey", "-noout", "-out", key]
        try #require(try Shell.result(make).code == 0)
        let wrote = try Shell.result(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER", "-out", whole])
        try #require(wrote.code == 0)
        let expected = [UInt8](try Data(contentsOf: URL(filePath: whole)))
        var bytes = Array(expected.suffix(["P-256": 65, "P-384": 97, "P-521": 133][name] ?? 0))
        if isRSA {
            let words = ["openssl", "rsa", "-in", key, "-RSAPublicKey_out", "-outform", "DER", "-out", inner]
            try #require(try Shell.result(words).code == 0)
            bytes = [UInt8](try Data(contentsOf: URL(filePath: inner)))
        }
        #expect(PublicKeyInfo.bytes(of: bytes, isRSA ? .rsa : .ellipticCurve) == expected)
    }

    /// A server with TLS, and a certificate of its own.
    private struct TLSServer {
        let folder = TemporaryFolder()
        let port: Int
        var certificate: String { folder.path + "/cert.pem" }
        private let life: Pipe

        init() throws {
            let (key, certificate) = (folder.path + "/key.pem", folder.path + "/cert.pem")
            let made = try Shell.result([
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
            ])
            try #require(made.code == 0, "\(made)")
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            // It ends with its standard input, so with this process.
            process.arguments = [
                "sh", "-c",
                #"openssl s_server -www -accept 127.0.0.1:0 -key "$1/key.pem" -cert "$1/cert.pem" </dev/null >"$1/log" 2>&1 & "#
                    + #"read -r life; kill -9 $!"#, "sh", folder.path,
            ]
            (process.standardOutput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
            let pipe = Pipe()
            process.standardInput = pipe
            life = pipe
            try process.run()
            var found: Int?
            let log = folder.path + "/log"
            _ = Patience.until {
                let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
                found = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") }
                    .flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
                return found != nil
            }
            port = try #require(found, "the server does not listen")
        }

        func end() { try? life.fileHandleForWriting.close() }

        /// The pin of the certificate's key, as OpenSSL computes it.
        func pin() throws -> [UInt8] {
            let script =
                #"openssl x509 -in "$1" -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -r"#
            let result = try Shell.result(["sh", "-c", script, "sh", certificate])
            let digits = Array(result.output.prefix(64))
            return stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
        }
    }

    private func send(_ server: TLSServer, _ pins: [Pin], trusting authorities: String?) async throws
        -> Result<Int, TransportFault>
    {
        let transport = try #require(CurlTransport(timeout: 20, pins: pins, authorities: authorities))
        let url = try #require(URL(string: "https://127.0.0.1:\(server.port)/"))
        return await withCheckedContinuation { continuation in
            _ = transport.send(HTTPRequest(method: "GET", url: url)) {
                continuation.resume(returning: $0.map(\.status))
            }
        }
    }

    @Test("libcurl talks to a server with a pinned key, and to no other")
    func curl() async throws {
        let server = try TLSServer()
        defer { server.end() }
        let pin = try server.pin()
        try #require(pin.count == 32)
        let other = [UInt8](repeating: 7, count: 32)
        let trusted = server.certificate
        #expect(try await send(server, [], trusting: trusted) == .success(200))
        #expect(try await send(server, [.spki(pin)], trusting: trusted) == .success(200))
        // One of several pins is enough: a key that is to come has its pin already.
        #expect(try await send(server, [.spki(other), .spki(pin)], trusting: trusted) == .success(200))
        for (pins, authorities) in [([Pin.spki(other)], trusted), ([.spki(pin)], nil)] as [([Pin], String?)] {
            guard case .failure(.tls) = try await send(server, pins, trusting: authorities) else {
                Issue.record("a server without the pin, or with a certificate of nobody, was trusted")
                continue
            }
        }
    }

    @Test("a point of an unknown curve has no such form")
    func unknown() {
        #expect(PublicKeyInfo.bytes(of: [4, 1, 2], .ellipticCurve) == nil)
    }
}
