import Crypto
import Foundation
import TestKit
import Testing

@Suite("Private keys")
struct PrivateKeyTests {
    @Test("sign so that another program finds the signature good", arguments: ["rsa", "ec"])
    func signs(_ kind: String) throws {
        let folder = TemporaryFolder()
        func run(_ words: String) throws -> Shell.Result {
            let words = words.split(separator: " ").map { String($0).replacing("DIR", with: folder.path) }
            return try Shell.result(["openssl"] + words)
        }
        let making =
            kind == "rsa"
            ? "genrsa -out DIR/key 2048" : "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out DIR/key"
        #expect(try run(making).code == 0)
        let key = try #require(PrivateKey(pem: [UInt8](try Data(contentsOf: URL(filePath: folder.path + "/key")))))
        #expect("\(key.algorithm)" == (kind == "rsa" ? "RS256" : "ES256"))
        for message in ["", "a message", String(repeating: "long", count: 10_000)] {
            let signature = key.sign(Array(message.utf8))
            #expect(signature.count == (kind == "rsa" ? 256 : 64))
            if kind == "ec" { continue }
            try Data(signature).write(to: URL(filePath: folder.path + "/signature"))
            try Data(message.utf8).write(to: URL(filePath: folder.path + "/message"))
            #expect(try run("rsa -in DIR/key -pubout -out DIR/public").code == 0)
            #expect(try run("dgst -sha256 -verify DIR/public -signature DIR/signature DIR/message").code == 0)
        }
    }

    @Test(
        "are nothing else",
        arguments: ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
    func others(_ text: String) { #expect(PrivateKey(pem: Array(text.utf8)) == nil) }

    @Test("of other kinds or with a password are not taken")
    func kinds() throws {
        let folder = TemporaryFolder()
        for words in [
            "genpkey -algorithm ED25519 -out", "genrsa -out",
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out",
            "genrsa -aes256 -passout pass:x -out",
        ] {
            let path = folder.path + "/key"
            let size = words.hasPrefix("genrsa -out") ? ["1024"] : []
            let result = try Shell.result(["openssl"] + words.split(separator: " ").map(String.init) + [path] + size)
            #expect(result.code == 0, "\(result.errors)")
            #expect(PrivateKey(pem: [UInt8](try Data(contentsOf: URL(filePath: path)))) == nil, "\(words)")
        }
    }
}
