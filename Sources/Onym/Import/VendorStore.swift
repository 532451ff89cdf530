import Foundation

#if canImport(Security)
    import Security
#endif

/// The place where a vendor's SDK has kept its ids. Onym never changes or removes anything there, because an app may return
/// to the vendor's SDK.
public protocol VendorStore: Sendable {
    /// Answers a value of the user defaults.
    /// - Parameters:
    ///   - key: the key of the value.
    ///   - suite: the name of a suite; nil for the standard suite.
    func value(_ key: String, suite: String?) -> JSON?
    /// Answers the keys of the user defaults that begin with a text.
    func keys(prefix: String, suite: String?) -> [String]
    /// Answers a text of the keychain.
    func keychain(service: String, account: String) -> String?
    /// Answers the whole content of a file; nil if the file does not exist.
    func file(_ path: VendorPath) -> [UInt8]?
}

/// The path of a file of a vendor's SDK.
public enum VendorPath: Hashable, Sendable {
    /// A path below `Application Support`.
    case applicationSupport(String)
}

/// The device's own user defaults, keychain and files.
public struct DeviceVendorStore: VendorStore {
    /// Makes a store of this device.
    public init() {}

    private func defaults(_ suite: String?) -> UserDefaults? { suite.map { UserDefaults(suiteName: $0) } ?? .standard }

    /// Answers a value of the user defaults.
    public func value(_ key: String, suite: String?) -> JSON? {
        defaults(suite)?.object(forKey: key).flatMap(JSON.init(propertyList:))
    }

    /// Answers the keys of the user defaults that begin with a text.
    public func keys(prefix: String, suite: String?) -> [String] {
        (defaults(suite)?.dictionaryRepresentation() ?? [:]).keys.filter { $0.hasPrefix(prefix) }.sorted()
    }

    /// Answers a text of the keychain; nil on platforms without a keychain.
    public func keychain(service: String, account: String) -> String? {
        #if canImport(Security)
            var found: CFTypeRef?
            let query: [CFString: Any] = [
                kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: account,
                kSecReturnData: true,
            ]
            guard SecItemCopyMatching(query as CFDictionary, &found) == errSecSuccess, let data = found as? Data else {
                return nil
            }
            return String(data: data, encoding: .utf8)
        #else
            return nil
        #endif
    }

    /// Answers the whole content of a file; nil if the file does not exist.
    public func file(_ path: VendorPath) -> [UInt8]? {
        switch path {
        case .applicationSupport(let name):
            let base = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
            return base.flatMap { try? Data(contentsOf: $0.appendingPathComponent(name)) }.map { [UInt8]($0) }
        }
    }
}

extension JSON {
    /// A value of a property list; nil for bytes, which do not exist in JSON. True and false become the numbers 1 and 0.
    package init?(propertyList value: Any) {
        switch value {
        case let text as String: self = .string(text)
        case let date as Date: self = .integer(date.milliseconds)
        case let elements as [Any]: self = .array(elements.compactMap(JSON.init(propertyList:)))
        case let members as [String: Any]: self = .object(members.compactMapValues(JSON.init(propertyList:)))
        case let number as NSNumber:
            let whole = number.int64Value
            self = number == NSNumber(value: whole) ? .integer(whole) : .number(number.doubleValue)
        default: return nil
        }
    }
}
