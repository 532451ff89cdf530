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

    /// A key for something else, which nobody can tell from another.
    package func derivedKey(for purpose: StaticString) -> [UInt8] {
        master.authenticate(Array("key\0\(purpose)".utf8)).bytes
    }

    /// A key for one of several things.
    package func derivedKey(for purpose: StaticString, of id: Int64) -> [UInt8] {
        master.authenticate(Array("key\0\(purpose)\0\(id)".utf8)).bytes
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
