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

    @Test("a point of an unknown curve has no such form")
    func unknown() {
        #expect(PublicKeyInfo.bytes(of: [4, 1, 2], .ellipticCurve) == nil)
    }
}
