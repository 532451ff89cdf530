import Foundation

#if canImport(Security)
    import Security
#endif

/// Keeps a few ids where they outlive the app: on Apple's platforms, the keychain.
public protocol Keepsakes: Sendable {
    /// A kept text.
    func text(_ name: String) -> String?
    /// Keeps a text, or with nil removes it.
    func keep(_ text: String?, as name: String)
    /// Whether what is kept is still there when the app was deleted and comes back.
    var outlivesApp: Bool { get }
}

extension Keepsakes {
    /// It is.
    public var outlivesApp: Bool { true }
}

/// The app's user defaults: ids there survive that the system empties the app's folder, and go with the app. On tvOS, where apps
/// have only folders that the system may empty, it is the default.
public struct UserDefaultsKeepsakes: Keepsakes {
    private let suite: String?

    /// - Parameter suite: the name of a suite; nil for the standard one.
    public init(suite: String? = nil) { self.suite = suite }

    private var defaults: UserDefaults? { suite.map { UserDefaults(suiteName: $0) } ?? .standard }

    /// A kept text.
    public func text(_ name: String) -> String? { defaults?.string(forKey: "onym.\(name)") }
    /// Keeps a text, or with nil removes it.
    public func keep(_ text: String?, as name: String) {
        if let text {
            defaults?.set(text, forKey: "onym.\(name)")
        } else {
            defaults?.removeObject(forKey: "onym.\(name)")
        }
    }
    /// It goes with the app.
    public var outlivesApp: Bool { false }
}

#if canImport(Security)
    /// The keychain: what is kept there survives that the app is deleted. It never leaves the device.
    public struct KeychainKeepsakes: Keepsakes {
        private let service: String
        private let accessGroup: String?

        /// - Parameters:
        ///   - service: what the entries are filed under; nobody else's are touched.
        ///   - accessGroup: the keychain access group that apps of one team share; nil for the app's own.
        public init(service: String = "onym", accessGroup: String? = nil) {
            (self.service, self.accessGroup) = (service, accessGroup)
        }

        private func query(_ name: String) -> [CFString: Any] {
            var query: [CFString: Any] = [
                kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: name,
                // On macOS, the keychain of the user's files asks the person, and knows no access groups.
                kSecUseDataProtectionKeychain: true,
            ]
            if let accessGroup { query[kSecAttrAccessGroup] = accessGroup }
            return query
        }

        /// A kept text.
        public func text(_ name: String) -> String? {
            var found: CFTypeRef?
            let query = query(name).merging([kSecReturnData: true]) { $1 }
            guard SecItemCopyMatching(query as CFDictionary, &found) == errSecSuccess, let data = found as? Data else {
                return nil
            }
            return String(data: data, encoding: .utf8)
        }

        /// Keeps a text, or with nil removes it.
        public func keep(_ text: String?, as name: String) {
            guard let text else {
                SecItemDelete(query(name) as CFDictionary)
                return
            }
            let value: [CFString: Any] = [
                kSecValueData: Data(text.utf8),
                kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
            ]
            // A process that ends between a removal and an addition would lose the id.
            if SecItemUpdate(query(name) as CFDictionary, value as CFDictionary) == errSecItemNotFound {
                SecItemAdd(query(name).merging(value) { $1 } as CFDictionary, nil)
            }
        }
    }
#endif

/// Gives the token by which an ad network says where an install came from.
public protocol AttributionTokens: Sendable {
    /// A fresh token. Throws where there is none.
    func token() async throws -> String
}
