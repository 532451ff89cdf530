#if canImport(Security)
    import Foundation
    import Security
#endif

/// Keeps a few ids where they outlive the app: on Apple's platforms, the keychain.
public protocol Keepsakes: Sendable {
    /// A kept text.
    func text(_ name: String) -> String?
    /// Keeps a text, or with nil removes it.
    func keep(_ text: String?, as name: String)
}

#if canImport(Security)
    /// The keychain: what is kept there survives that the app is deleted. It never leaves the device.
    public struct KeychainKeepsakes: Keepsakes {
        private let service: String

        /// - Parameter service: what the entries are filed under; nobody else's are touched.
        public init(service: String = "onym") { self.service = service }

        private func query(_ name: String) -> [CFString: Any] {
            [kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: name]
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
            SecItemDelete(query(name) as CFDictionary)
            guard let text else { return }
            let entry = query(name).merging([
                kSecValueData: Data(text.utf8),
                kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
            ]) { $1 }
            SecItemAdd(entry as CFDictionary, nil)
        }
    }
#endif

/// Gives the token by which an ad network says where an install came from.
public protocol AttributionTokens: Sendable {
    /// A fresh token. Throws where there is none.
    func token() async throws -> String
}
