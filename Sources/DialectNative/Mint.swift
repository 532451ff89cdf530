package import Domain
import Gateway
import HTTPMessage
import HTTPServer

/// Makes keys and secrets. The server keeps only their hashes, or derives them from its master key.
package struct Mint: Sendable {
    /// A key, in the form that a person sees once.
    package struct Key: Sendable {
        package let text: String
        /// The key's secret, if the key has a secret, for the moment and the project in which the key was made.
        package let secret: @Sendable (Instant, ProjectID) -> String?
        package let hash: KeyHash

        package init(text: String, hash: KeyHash, secret: @escaping @Sendable (Instant, ProjectID) -> String?) {
            self.text = text
            self.secret = secret
            self.hash = hash
        }
    }

    /// A project with its apps and keys, and the credentials that a person sees once.
    package struct Project: Sendable {
        package let setUp: SetUp
        /// The document of `onym init --json`, for the project's new id.
        package let credentials: @Sendable (ProjectID) -> [UInt8]

        package init(setUp: SetUp, credentials: @escaping @Sendable (ProjectID) -> [UInt8]) {
            self.setUp = setUp
            self.credentials = credentials
        }
    }

    /// The reason why no secret can be made now; nil if secrets can be made.
    package let unreadiness: @Sendable () -> String?
    package let key: @Sendable (AccessKey.Kind) -> Key
    /// The public id and the secret of an app; nil for a dialect whose apps have neither.
    package let app: @Sendable (Dialect) -> Key?
    package let project: @Sendable (String, Instant) -> Project
    /// The secret that signs a webhook's calls, in the form that people see.
    package let webhookSecret: @Sendable (Int64, Instant, ProjectID) -> String?
    /// The secret with which a customer signs tokens for known users, in the form that people see.
    package let identitySecret: @Sendable (SigningKey, ProjectID) -> String?

    package init(
        unreadiness: @escaping @Sendable () -> String?,
        key: @escaping @Sendable (AccessKey.Kind) -> Key, app: @escaping @Sendable (Dialect) -> Key?,
        project: @escaping @Sendable (String, Instant) -> Project,
        webhookSecret: @escaping @Sendable (Int64, Instant, ProjectID) -> String?,
        identitySecret: @escaping @Sendable (SigningKey, ProjectID) -> String?
    ) {
        self.unreadiness = unreadiness
        self.identitySecret = identitySecret
        self.webhookSecret = webhookSecret
        self.key = key
        self.app = app
        self.project = project
    }
    /// Refuses a call that would make a secret from a master key that the server does not have.
    func checkReadiness(_ id: RequestID) throws(Rejection) {
        guard let reason = unreadiness() else { return }
        throw Rejection(Native.problem(.serviceUnavailable, code: "master_key_missing", reason, id))
    }
}
