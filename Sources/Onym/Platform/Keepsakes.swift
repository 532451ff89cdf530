import Foundation

#if canImport(Security)
    import Security
#endif

/// Keeps a few ids in a place that outlives the app: on Apple's platforms, the keychain.
public protocol Keepsakes: Sendable {
    /// Answers a kept text.
    func text(_ name: String) -> String?
    /// Keeps a text; nil removes the text.
    func keep(_ text: String?, as name: String)
    /// Whether the kept texts survive the deletion of the app.
    var outlivesApp: Bool { get }
}

extension Keepsakes {
    /// The default: the kept texts survive the deletion of the app.
    public var outlivesApp: Bool { true }
}

/// Keeps ids in the app's user defaults. The ids survive when the system empties the app's folder, and are removed with the
/// app. It is the default on tvOS, where the system may empty all folders of an app.
public struct UserDefaultsKeepsakes: Keepsakes {
    private let suite: String?

    /// - Parameter suite: the name of a suite; nil for the standard suite.
    public init(suite: String? = nil) { self.suite = suite }

    private var defaults: UserDefaults? { suite.map { UserDefaults(suiteName: $0) } ?? .standard }

    /// Answers a kept text.
    public func text(_ name: String) -> String? { defaults?.string(forKey: "onym.\(name)") }
    /// Keeps a text; nil removes the text.
    public func keep(_ text: String?, as name: String) {
        if let text {
            defaults?.set(text, forKey: "onym.\(name)")
        } else {
            defaults?.removeObject(forKey: "onym.\(name)")
        }
    }
    /// False: the texts are removed with the app.
    public var outlivesApp: Bool { false }
}

#if canImport(Security)
    /// Keeps ids in the keychain. The ids survive the deletion of the app, and never leave the device.
    public struct KeychainKeepsakes: Keepsakes {
        private let service: String
        private let accessGroup: String?

        /// - Parameters:
        ///   - service: the service of the entries; entries of other services stay untouched.
        ///   - accessGroup: the keychain access group of several apps of one team; nil for the app's own group.
        public init(service: String = "onym", accessGroup: String? = nil) {
            (self.service, self.accessGroup) = (service, accessGroup)
        }

        private func query(_ name: String) -> [CFString: Any] {
            var query: [CFString: Any] = [
                kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: name,
                // On macOS, the file-based keychain asks the person for permission, and has no access groups.
                kSecUseDataProtectionKeychain: true,
            ]
            if let accessGroup { query[kSecAttrAccessGroup] = accessGroup }
            return query
        }

        /// Answers a kept text.
        public func text(_ name: String) -> String? {
            var found: CFTypeRef?
            let query = query(name).merging([kSecReturnData: true]) { $1 }
            guard SecItemCopyMatching(query as CFDictionary, &found) == errSecSuccess, let data = found as? Data else {
                return nil
            }
            return String(data: data, encoding: .utf8)
        }

        /// Keeps a text; nil removes the text.
        public func keep(_ text: String?, as name: String) {
            guard let text else {
                SecItemDelete(query(name) as CFDictionary)
                return
            }
            let value: [CFString: Any] = [
                kSecValueData: Data(text.utf8),
                kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
            ]
            // An update loses no id: a removal and an addition would, if the process ended in between.
            if SecItemUpdate(query(name) as CFDictionary, value as CFDictionary) == errSecItemNotFound {
                SecItemAdd(query(name).merging(value) { $1 } as CFDictionary, nil)
            }
        }
    }
#endif

/// Gets the token with which an ad network finds the source of an install.
public protocol AttributionTokens: Sendable {
    /// Gets a new token. Throws if no token is available.
    func token() async throws -> String
}
