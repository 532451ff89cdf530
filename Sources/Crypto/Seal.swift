import COpenSSL

/// Seals short secrets for a store (AES-256-GCM). Only the holder of the key can read them or change them.
///
/// Equal secrets in the same context have the same sealed form, because the nonce is a MAC of both. So a repeated write
/// changes nothing, and no nonce is used for two texts.
package struct Seal: Sendable {
    private let key: [UInt8]
    private let nonces: HMAC

    private static let nonceBytes = 12
    private static let tagBytes = 16

    /// - Parameter key: 32 bytes that nothing else uses.
    package init(key: [UInt8]) {
        let keys = HMAC(key: key)
        self.key = keys.authenticate(Array("seal".utf8)).bytes
        nonces = HMAC(key: keys.authenticate(Array("nonce".utf8)).bytes)
    }

    /// - Parameter context: the purpose and the place of the secret; another context cannot open it.
    package func seal(_ plain: [UInt8], for context: String) -> [UInt8] {
        let context = Array(context.utf8)
        let length = (0..<8).map { UInt8(truncatingIfNeeded: context.count >> ($0 * 8)) }
        let nonce = Array(nonces.authenticate(length, context, plain).bytes.prefix(Seal.nonceBytes))
        var sealed = [UInt8](repeating: 0, count: plain.count)
        var tag = [UInt8](repeating: 0, count: Seal.tagBytes)
        let made = unsafe onym_seal(key, nonce, context, context.count, plain, plain.count, &sealed, &tag) == 1
        precondition(made, "OpenSSL could not seal.")
        return nonce + tag + sealed
    }

    /// The secret; nil for bytes of another key or context, and for changed bytes.
    package func open(_ sealed: [UInt8], for context: String) -> [UInt8]? {
        let start = Seal.nonceBytes + Seal.tagBytes
        guard sealed.count >= start else { return nil }
        let context = Array(context.utf8)
        let (nonce, tag) = (Array(sealed[..<Seal.nonceBytes]), Array(sealed[Seal.nonceBytes..<start]))
        let body = Array(sealed[start...])
        var plain = [UInt8](repeating: 0, count: body.count)
        let opened = unsafe onym_unseal(key, nonce, context, context.count, body, body.count, &plain, tag) == 1
        return opened ? plain : nil
    }
}
