import ByteText
import Crypto
package import Domain
package import Gateway
import Threads

/// The secrets of IDSync keys. The server derives a secret from its key and the master key. So the server can check
/// signatures without keeping any secret.
package final class IDSyncSecrets: Sendable {
    /// A secret in the form for checking signatures.
    struct Secret: Sendable {
        let text: [UInt8]
        let signing: HMAC
    }

    /// The master keys of the server.
    package let keys: MasterKeys
    /// The secrets of valid keys. So the table has at most as many entries as keys exist.
    private let known = Monitor<[KeyHash: Secret]>([:])

    package init(_ keys: MasterKeys) { self.keys = keys }

    /// Makes the secrets of a server with one master key.
    package convenience init(master: [UInt8]) { self.init(MasterKeys([master])) }

    /// The secret of a key that is made now in a new project, in the form that people see.
    package func secret(for key: String) -> String { IDSyncSecrets.secret(for: key, keys.newest) }

    /// The secret of a key of a project, in the form that people see; nil if the server does not have its master key.
    package func secret(for key: String, madeAt moment: Instant, in project: ProjectID) -> String? {
        keys.key(at: moment, in: project).map { IDSyncSecrets.secret(for: key, $0) }
    }

    private static func secret(for key: String, _ master: MasterKeys.Key) -> String {
        Hexadecimal.encode(master.authenticate(Array("idsync secret\0".utf8), Array(key.utf8)).bytes)
    }

    /// The secret of a key in the directory, from the key's text; nil if the server does not have its master key.
    func secret(of key: AccessKey, _ text: borrowing Span<UInt8>) -> Secret? {
        if let secret = known.withLock({ $0[key.hash] }) { return secret }
        guard let shown = secret(for: String(copying: text), madeAt: key.madeAt, in: key.project) else { return nil }
        let derived = Array(shown.utf8)
        let secret = Secret(text: derived, signing: HMAC(key: derived))
        known.withLock { $0[key.hash] = secret }
        return secret
    }
}
