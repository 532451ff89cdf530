package import Foundation
package import Onym

/// The device's variants of experiments, in the app's user defaults. The app may ask for a variant before the start.
package final class Experiments: @unchecked Sendable {
    private static let key = "onym.owl.experiments"
    /// Guards `variants`. Who watches the defaults may ask for a variant inside the lock.
    private let lock = NSRecursiveLock()
    private let defaults: UserDefaults
    private let vendor: any VendorStore
    /// The variants by the names of experiments; nil before the first call.
    private var variants: [String: String]?

    package init(_ defaults: UserDefaults, _ vendor: any VendorStore) {
        (self.defaults, self.vendor) = (defaults, vendor)
    }

    /// Answers the variant of an experiment. Without a variant, it chooses an option.
    package func variant(of name: String, _ options: [String]) -> String {
        change { variants in
            let variant = variants[name] ?? options.randomElement()
            variants[name] = variant
            return variant ?? ""
        }
    }

    /// Sets the variant of an experiment.
    package func set(_ variant: String, of name: String) { change { $0[name] = variant } }

    /// Removes all variants, those of the vendor's SDK too.
    package func clear() { change { $0 = [:] } }

    private func change<Value>(_ body: (inout [String: String]) -> Value) -> Value {
        lock.withLock {
            let old = variants ?? kept
            var new = old
            let value = body(&new)
            variants = new
            if new != old || !isKept { defaults.set(new, forKey: Experiments.key) }
            return value
        }
    }

    private var isKept: Bool { defaults.dictionary(forKey: Experiments.key) != nil }

    /// The variants of an earlier launch, or of the vendor's SDK.
    private var kept: [String: String] {
        if let own = defaults.dictionary(forKey: Experiments.key) as? [String: String] { return own }
        let text = vendor.keychain(service: "com.owlmetry.experiments", account: "assignments")
        return text.flatMap { JSON([UInt8]($0.utf8)) }?.members?.compactMapValues(\.text) ?? [:]
    }
}
