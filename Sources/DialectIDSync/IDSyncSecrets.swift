import ByteText
import Crypto
import Domain
import Threads

/// The secrets of IDSync keys. The server derives a secret from its key and the master key. So the server can check
/// signatures without keeping any secret.
package final class IDSyncSecrets: Sendable {
    /// A secret in the form for checking signatures.
    struct Secret: Sendable {
        let text: [UInt8]
        let signing: HMAC
    }

    private let master: HMAC
    /// The secrets of valid keys. So the table has at most as many entries as keys exist.
    private let known = Monitor<[KeyHash: Secret]>([:])

    package init(master: [UInt8]) {
        self.master = HMAC(key: master)
    }

    /// Derives a key for another purpose. The derived keys say nothing about each other.
    package func derivedKey(for purpose: StaticString) -> [UInt8] {
        master.authenticate(Array("key\0\(purpose)".utf8)).bytes
    }

    /// Derives a key for one of several things.
    package func derivedKey(for purpose: StaticString, of id: Int64) -> [UInt8] {
        master.authenticate(Array("key\0\(purpose)\0\(id)".utf8)).bytes
    }

    /// The secret of a key, in the form that people see.
    package func secret(for key: String) -> String {
        Hexadecimal.encode(master.authenticate(Array("idsync secret\0".utf8), Array(key.utf8)).bytes)
    }

    /// The secret of a key in the directory, from the key's text.
    func secret(of key: AccessKey, _ text: borrowing Span<UInt8>) -> Secret {
        if let secret = known.withLock({ $0[key.hash] }) { return secret }
        let derived = Array(self.secret(for: String(copying: text)).utf8)
        let secret = Secret(text: derived, signing: HMAC(key: derived))
        known.withLock { $0[key.hash] = secret }
        return secret
    }
}
