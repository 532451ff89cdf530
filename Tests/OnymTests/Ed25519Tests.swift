import ClientKit
import Crypto
import Foundation
import Onym
import TestKit
import Testing

@Suite("Ed25519 and SHA-512 of the SDK")
struct Ed25519Tests {
    private func bytes(_ hexadecimal: String) -> [UInt8] {
        var rest = hexadecimal[...]
        var bytes: [UInt8] = []
        while !rest.isEmpty {
            bytes.append(UInt8(rest.prefix(2), radix: 16) ?? 0)
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    @Test(
        "agree with the standards",
        arguments: [
            // RFC 8032, 7.1: tests 1 to 3.
            (
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
            (
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
            (
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
            ),
        ])
    func standards(_ key: String, _ message: String, _ signature: String) {
        #expect(Ed25519.verifies(bytes(signature), of: bytes(message), by: bytes(key)))
        #expect(!Ed25519.verifies(bytes(signature), of: bytes(message) + [0], by: bytes(key)))
        // FIPS 180-4, the example of "abc".
        let digest = SHA512.digest(Array("abc".utf8))
        #expect(
            digest.prefix(8) == bytes("ddaf35a193617aba")[...] && digest.suffix(8) == bytes("2a9ac94fa54ca49f")[...])
    }

    @Test("agree with OpenSSL about random signatures and their changes")
    func random() {
        var chance = SeededGenerator(seed: 7)
        for round in 0..<40 {
            let key = Ed25519Key(seed: (0..<32).map { _ in UInt8.random(in: 0...255, using: &chance) })
            let message = (0..<(round * 7)).map { _ in UInt8.random(in: 0...255, using: &chance) }
            let signature = key.sign(message)
            #expect(Ed25519.verifies(signature, of: message, by: key.publicKey), "round \(round)")
            var changed = signature
            changed[Int.random(in: 0..<64, using: &chance)] ^= 1 << UInt8.random(in: 0..<8, using: &chance)
            #expect(!Ed25519.verifies(changed, of: message, by: key.publicKey), "round \(round)")
            var other = key.publicKey
            other[Int.random(in: 0..<32, using: &chance)] ^= 1 << UInt8.random(in: 0..<8, using: &chance)
            #expect(!Ed25519.verifies(signature, of: message, by: other), "round \(round)")
        }
    }

    @Test("refuse a scalar above the order, and bytes that are no point")
    func forms() {
        let key = Ed25519Key(seed: [UInt8](repeating: 3, count: 32))
        let signature = key.sign([1, 2, 3])
        // The same scalar plus the order of the base point.
        let order = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
        var sum = signature
        var carry = 0
        for place in 0..<32 {
            let digit = Int(sum[32 + place]) + Int(order[place]) + carry
            sum[32 + place] = UInt8(digit & 255)
            carry = digit >> 8
        }
        #expect(carry == 0 && !Ed25519.verifies(sum, of: [1, 2, 3], by: key.publicKey))
        #expect(!Ed25519.verifies(signature, of: [1, 2, 3], by: [UInt8](repeating: 0xFF, count: 32)))
        #expect(!Ed25519.verifies(signature, of: [1, 2, 3], by: []))
        #expect(!Ed25519.verifies([], of: [1, 2, 3], by: key.publicKey))
    }
}
