import ByteText
import Crypto

/// A public key in text: PEM (RFC 7468) of a SubjectPublicKeyInfo (RFC 5280 4.1).
///
///     Ed25519  30 2A 30 05 06 03 2B 65 70 03 21 00 | 32 bytes
///     P-256    30 59 30 13 06 07 2A 86 48 CE 3D 02 01 06 08 2A 86 48 CE 3D 03 01 07 03 42 00 04 | x | y
enum PublicKeyText {
    private static let begin = "-----BEGIN PUBLIC KEY-----"
    private static let end = "-----END PUBLIC KEY-----"
    private static let ed25519: [UInt8] = [0x30, 0x2A, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 3, 0x21, 0]
    private static let p256: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 6, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 6, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7,
        3,
        0x42, 0, 4,
    ]

    /// Reads a key; nil for an invalid text, or for another kind of key.
    static func read(_ pem: String) -> PublicKey? {
        let lines = pem.split(whereSeparator: \.isNewline).map { $0.filter { $0 != " " && $0 != "\t" } }
            .filter { !$0.isEmpty }
        let edges = [begin, end].map { $0.filter { $0 != " " } }
        guard lines.count > 2, lines.first == edges[0], lines.last == edges[1] else { return nil }
        let text = lines.dropFirst().dropLast().joined()
        guard let der = Base64.decode(text.utf8.span) else { return nil }
        if der.starts(with: ed25519), der.count == ed25519.count + 32 {
            return .ed25519(Array(der[ed25519.count...]))
        }
        guard der.starts(with: p256), der.count == p256.count + 64 else { return nil }
        return .p256(x: Array(der[p256.count..<p256.count + 32]), y: Array(der[(p256.count + 32)...]))
    }
}
