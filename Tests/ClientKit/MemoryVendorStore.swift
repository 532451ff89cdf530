package import Onym

/// What a vendor's SDK has left, in a dictionary.
package struct MemoryVendorStore: VendorStore {
    /// Values by suite; the standard one's name is empty.
    package var values: [String: [String: JSON]] = [:]
    /// Texts by `service/account`.
    package var keychain: [String: String] = [:]
    package var files: [VendorPath: [UInt8]] = [:]

    package init(
        _ standard: [String: JSON] = [:], suites: [String: [String: JSON]] = [:], keychain: [String: String] = [:],
        files: [VendorPath: [UInt8]] = [:]
    ) {
        values = suites
        values[""] = standard
        (self.keychain, self.files) = (keychain, files)
    }

    package func value(_ key: String, suite: String?) -> JSON? { values[suite ?? ""]?[key] }

    package func keys(prefix: String, suite: String?) -> [String] {
        (values[suite ?? ""] ?? [:]).keys.filter { $0.hasPrefix(prefix) }.sorted()
    }

    package func keychain(service: String, account: String) -> String? { keychain["\(service)/\(account)"] }
    package func file(_ path: VendorPath) -> [UInt8]? { files[path] }
}
