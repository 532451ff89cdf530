import ByteText
import Crypto
import Testing

@Suite("Cryptography")
struct CryptoTests {
    @Test(
        "makes SHA-256 digests (FIPS 180-4)",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ])
    func sha256(_ text: String, _ expected: String) {
        let hasher = SHA256()
        // Twice with one hasher: it keeps its state.
        for _ in 0..<2 {
            let digest = hasher.digest(of: Array(text.utf8).span)
            #expect(Hexadecimal.encode(digest.bytes) == expected)
        }
        #expect(Hexadecimal.encode(SHA256.digest(of: Array(text.utf8)).bytes) == expected)
    }

    @Test("seals secrets for one place, and opens nothing else")
    func seals() {
        let seal = Seal(key: [UInt8](repeating: 1, count: 32))
        for text in ["", "a", String(repeating: "long ", count: 1000)] {
            let plain = Array(text.utf8)
            let sealed = seal.seal(plain, for: "place")
            #expect(seal.open(sealed, for: "place") == plain)
            #expect(seal.seal(plain, for: "place") == sealed, "equal secrets have one form")
            #expect(seal.seal(plain, for: "other") != sealed && seal.open(sealed, for: "other") == nil)
            #expect(Seal(key: [UInt8](repeating: 2, count: 32)).open(sealed, for: "place") == nil)
            for place in sealed.indices.prefix(64) {
                var changed = sealed
                changed[place] ^= 1
                #expect(seal.open(changed, for: "place") == nil)
            }
            #expect(seal.open(Array(sealed.dropLast()), for: "place") == nil && seal.open([], for: "place") == nil)
        }
    }

    @Test("authenticates with HMAC-SHA256 (RFC 4231)")
    func hmac() {
        let one = HMAC(key: [UInt8](repeating: 0x0B, count: 20))
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        #expect(Hexadecimal.encode(one.authenticate(Array("Hi There".utf8)).bytes) == expected)
        #expect(Hexadecimal.encode(one.authenticate(Array("Hi ".utf8), [], Array("There".utf8)).bytes) == expected)
        #expect(
            Hexadecimal.encode(
                HMAC(key: Array("Jefe".utf8)).authenticate(Array("what do ya want for nothing?".utf8)).bytes)
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        let long = HMAC(key: [UInt8](repeating: 0xAA, count: 131))
        #expect(
            Hexadecimal.encode(
                long.authenticate(Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8)).bytes)
                == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }

    @Test("compares digests by all their bytes")
    func digests() throws {
        let bytes = (0..<32).map { UInt8($0) }
        let digest = try #require(Digest(bytes))
        #expect(digest.bytes == bytes)
        #expect(digest == Digest(bytes))
        for index in bytes.indices {
            var other = bytes
            other[index] ^= 0x80
            #expect(digest != Digest(other))
        }
        #expect(Digest([1, 2, 3]) == nil)
        #expect(Digest([UInt8](repeating: 0, count: 33)) == nil)
    }

    @Test("compares secrets by all their bytes")
    func constantTime() {
        func equal(_ one: String, _ other: String) -> Bool {
            equalsInConstantTime(Array(one.utf8).span, Array(other.utf8).span)
        }
        #expect(equal("secret", "secret"))
        #expect(!equal("secret", "secreT"))
        #expect(!equal("Secret", "secret"))
        #expect(!equal("secret", "secre"))
        #expect(equal("", ""))
    }

    @Test("draws letters evenly, and differently each time")
    func randomText() {
        let text = SecureRandom.text(48_000, from: "abcdefghijkl")
        var counts: [Character: Int] = [:]
        for letter in text { counts[letter, default: 0] += 1 }
        #expect(text.count == 48_000)
        #expect(counts.count == 12)
        // Each about 4,000 times; ten standard deviations are 600.
        #expect(counts.values.allSatisfy { (3400...4600).contains($0) })
        #expect(SecureRandom.text(32, from: "0123456789abcdef") != SecureRandom.text(32, from: "0123456789abcdef"))
        #expect(SecureRandom.bytes(16) != SecureRandom.bytes(16))
    }
}
