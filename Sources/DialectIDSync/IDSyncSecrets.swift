import ByteText
import Crypto
import Domain
import Threads

/// The secrets of IDSync keys. A secret is derived from its key under the server's master key, so that it can be used to
/// check signatures and is kept nowhere.
package final class IDSyncSecrets: Sendable {
    /// A secret, ready for use.
    struct Secret: Sendable {
        let text: [UInt8]
        let signing: HMAC
    }

    private let master: HMAC
    /// By key, for keys that were found to be right; so there are never more than there are keys.
    private let known = Monitor<[KeyHash: Secret]>([:])

    package init(master: [UInt8]) {
        self.master = HMAC(key: master)
    }

    /// The secret that belongs to a key, as it is shown to people.
    package func secret(for key: String) -> String {
        Hexadecimal.encode(master.authenticate(Array("idsync secret\0".utf8), Array(key.utf8)).bytes)
    }

    /// The secret of a key that the directory has, and its text.
    func secret(of key: AccessKey, _ text: borrowing Span<UInt8>) -> Secret {
        if let secret = known.withLock({ $0[key.hash] }) { return secret }
        let derived = Array(self.secret(for: String(copying: text)).utf8)
        let secret = Secret(text: derived, signing: HMAC(key: derived))
        known.withLock { $0[key.hash] = secret }
        return secret
    }
}
