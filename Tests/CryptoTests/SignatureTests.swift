import ByteText
import Crypto
import Testing

@Suite("Signatures")
struct SignatureTests {
    private static func bytes(_ hexadecimal: String) -> [UInt8] {
        Hexadecimal.decode(Array(hexadecimal.utf8).span) ?? []
    }

    /// RFC 8032 7.1, the first two.
    static let ed25519: [(seed: String, key: String, message: String, signature: String)] = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ]

    @Test("Ed25519 is that of RFC 8032", arguments: ed25519)
    func edwards(_ row: (seed: String, key: String, message: String, signature: String)) {
        let key = Ed25519Key(seed: SignatureTests.bytes(row.seed))
        #expect(key.publicKey == SignatureTests.bytes(row.key))
        let message = SignatureTests.bytes(row.message)
        let signature = key.sign(message)
        #expect(signature == SignatureTests.bytes(row.signature))
        // What is prepared for a signature stays as it is.
        #expect(key.sign([1]) == Ed25519Key(seed: SignatureTests.bytes(row.seed)).sign([1]))
        #expect(key.sign(message) == signature)
        let publicKey = PublicKey.ed25519(key.publicKey)
        #expect(publicKey.verifies(signature, of: message))
        #expect(!publicKey.verifies(signature, of: message + [0]))
        #expect(!publicKey.verifies(Array(signature.dropLast()), of: message))
        #expect(!PublicKey.ed25519([1, 2, 3]).verifies(signature, of: message))
    }

    @Test("ES256 is that of RFC 7515 A.3")
    func es256() {
        func part(_ text: String) -> [UInt8] { Base64.decodeForAddresses(Array(text.utf8).span) ?? [] }
        let x = part("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
        let y = part("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
        let message = Array(
            "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
                .utf8)
        let signature = part(
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
        let key = PublicKey.p256(x: x, y: y)
        #expect(key.verifies(signature, of: message))
        for index in [0, 31, 32, 63] {
            var wrong = signature
            wrong[index] ^= 1
            #expect(!key.verifies(wrong, of: message))
        }
        #expect(!key.verifies(signature, of: Array(message.dropLast())))
        #expect(!key.verifies([UInt8](repeating: 0, count: 64), of: message))
        // What is no point of the curve is no key.
        #expect(!PublicKey.p256(x: x, y: x).verifies(signature, of: message))
        #expect(!PublicKey.p256(x: [], y: []).verifies(signature, of: message))
    }
}
