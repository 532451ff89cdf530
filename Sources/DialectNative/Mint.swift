package import Domain

/// What makes keys and secrets, which the server then knows by their hashes alone, or derives from its master key.
package struct Mint: Sendable {
    /// A key, as it is shown once.
    package struct Key: Sendable {
        package let text: String
        /// What goes with it, where something does.
        package let secret: String?
        package let hash: KeyHash

        package init(text: String, secret: String?, hash: KeyHash) {
            self.text = text
            self.secret = secret
            self.hash = hash
        }
    }

    /// A project with its apps and keys, and what is shown of them, once.
    package struct Project: Sendable {
        package let setUp: SetUp
        /// The document of `onym init --json`, for the id that the project has been given.
        package let credentials: @Sendable (ProjectID) -> [UInt8]

        package init(setUp: SetUp, credentials: @escaping @Sendable (ProjectID) -> [UInt8]) {
            self.setUp = setUp
            self.credentials = credentials
        }
    }

    package let key: @Sendable (AccessKey.Kind) -> Key
    /// The public id and the secret of an app; nil for a dialect whose apps have none.
    package let app: @Sendable (Dialect) -> Key?
    package let project: @Sendable (String, Instant) -> Project
    /// What a webhook's calls are signed with, as it is shown to people.
    package let webhookSecret: @Sendable (Int64) -> String
    /// What a customer signs tokens for known users with, as it is shown to people.
    package let identitySecret: @Sendable (Int64) -> String

    package init(
        key: @escaping @Sendable (AccessKey.Kind) -> Key, app: @escaping @Sendable (Dialect) -> Key?,
        project: @escaping @Sendable (String, Instant) -> Project,
        webhookSecret: @escaping @Sendable (Int64) -> String, identitySecret: @escaping @Sendable (Int64) -> String
    ) {
        self.identitySecret = identitySecret
        self.webhookSecret = webhookSecret
        self.key = key
        self.app = app
        self.project = project
    }
}
