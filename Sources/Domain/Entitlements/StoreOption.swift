/// A setting for one of the stores that confirm purchases. A project may have its own value, and otherwise the server's
/// value counts (spec/entitlements-live.md, decision L17).
package struct StoreOption: Sendable {
    /// The values that an option takes.
    package enum Form: Sendable {
        /// A text with as many bytes.
        case text(ClosedRange<Int>)
        case integer(ClosedRange<Int64>)
        case choice([String])
        /// `on` or `off`, which is a boolean in JSON.
        case toggle
        /// A text with as many bytes that nobody reads back.
        case secret(ClosedRange<Int>)
        /// Several secrets, with commas between them.
        case secrets(ClosedRange<Int>)
    }

    /// The store, as a member of the document: `app_store`, `play`, `stripe`, or `poll` for the questions of the server.
    package let store: String
    package let name: String
    package let what: String
    package let form: Form

    /// The name among all options, such as `stripe.grace_days`.
    package var id: String { "\(store).\(name)" }

    package var isSecret: Bool {
        switch form {
        case .secret, .secrets: true
        case .text, .integer, .choice, .toggle: false
        }
    }

    /// The demand that a text does not meet; nil for a valid value.
    package func demand(unmetBy text: String) -> String? {
        let bytes = text.utf8
        switch form {
        case .text(let range):
            return range.contains(bytes.count) && bytes.allSatisfy { (0x21..<0x7F).contains($0) }
                ? nil : "must have \(range.lowerBound) to \(range.upperBound) visible ASCII characters"
        case .integer(let range):
            return Int64(text).map(range.contains) == true
                ? nil : "must be a number from \(range.lowerBound) to \(range.upperBound)"
        case .choice(let all): return all.contains(text) ? nil : "must be \(all.joined(separator: " or "))"
        case .toggle: return ["on", "off"].contains(text) ? nil : "must be on or off"
        case .secret(let range):
            return range.contains(bytes.count) ? nil : "must have \(range.lowerBound) to \(range.upperBound) bytes"
        case .secrets(let range):
            let all = bytes.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
            return (1...StoreOption.secretsAtMost).contains(all.count) && all.allSatisfy { range.contains($0.count) }
                ? nil
                : "must be 1 to \(StoreOption.secretsAtMost) secrets of \(range.lowerBound) to \(range.upperBound) bytes"
        }
    }

    private static let secretsAtMost = 4

    package static let stores = ["app_store", "play", "stripe", "poll"]

    package static let all = [
        StoreOption(
            store: "app_store", name: "bundle_id",
            what: "The bundle id of the app whose receipts the server accepts, for keys without an app of their own.",
            form: .text(1...255)),
        StoreOption(
            store: "app_store", name: "app_id",
            what: "The number of the app at Apple; notifications for another number are ignored.",
            form: .integer(1...Int64.max)),
        StoreOption(
            store: "app_store", name: "device_hash",
            what: """
                Whether the server looks at the device that a receipt names: note says it with the purchase, require takes the \
                receipt only on its device.
                """, form: .choice(["note", "require", "off"])),
        StoreOption(
            store: "app_store", name: "key",
            what: "The key (.p8) with which the server asks Apple about subscriptions.", form: .secret(1...4096)),
        StoreOption(store: "app_store", name: "key_id", what: "Apple's id of that key.", form: .text(1...64)),
        StoreOption(
            store: "app_store", name: "issuer_id", what: "The id of the account at Apple that has the key.",
            form: .text(1...64)),
        StoreOption(
            store: "app_store", name: "offer_key",
            what: "The key (.p8) with which the server signs offers for subscribers.", form: .secret(1...4096)),
        StoreOption(
            store: "app_store", name: "offer_key_id", what: "Apple's id of the key for offers.", form: .text(1...64)),
        StoreOption(
            store: "play", name: "package_name", what: "The name of the app at Google Play.", form: .text(1...255)),
        StoreOption(
            store: "play", name: "service_account",
            what: "Google's service account (the JSON of its file), with which the server asks Google Play.",
            form: .secret(1...16_384)),
        StoreOption(
            store: "play", name: "acknowledge",
            what: "Whether the server tells Google that users have their purchases. Google refunds others.",
            form: .toggle),
        StoreOption(
            store: "play", name: "push_secret", what: "The secret in the address of Google's notifications.",
            form: .secret(32...255)),
        StoreOption(
            store: "play", name: "push_audience",
            what:
                "The audience of Google's push subscription, for notifications that a token proves instead of a secret.",
            form: .text(1...255)),
        StoreOption(
            store: "play", name: "push_email", what: "The service account of Google's push subscription.",
            form: .text(1...255)),
        StoreOption(
            store: "stripe", name: "secret_key", what: "The key for questions to Stripe.", form: .secret(1...255)),
        StoreOption(
            store: "stripe", name: "webhook_secret", what: "The secrets with which Stripe signs events.",
            form: .secrets(1...255)),
        StoreOption(
            store: "stripe", name: "grace_days",
            what: "The days of access while Stripe charges again after a failed payment.", form: .integer(0...90)),
        StoreOption(
            store: "stripe", name: "proof",
            what: """
                Whether a client needs a proof for a subscription that nobody has: required, or id to take its id. \
                Without a value it is required in production, and id in the sandbox.
                """,
            form: .choice(["required", "id"])),
        StoreOption(
            store: "stripe", name: "refund_ends",
            what: "Whether a refund in full and a dispute end the access that the payment was for.", form: .toggle),
        StoreOption(
            store: "poll", name: "enabled", what: "Whether the server asks stores by itself about due purchases.",
            form: .toggle),
    ]

    private static let byID = Dictionary(uniqueKeysWithValues: all.map { ($0.id, $0) })

    /// The option with a name such as `stripe.grace_days`.
    package static func named(_ id: String) -> StoreOption? { byID[id] }
}

/// The values of a project's store options.
package struct StoreOptions: Equatable, Sendable {
    package enum Value: Equatable, Sendable {
        case plain(String)
        /// A secret under the server's master key.
        case sealed([UInt8])
    }

    /// The number of the version; 0 before the first change.
    package internal(set) var version = 0
    /// The moment of the last change; nil before the first change.
    package internal(set) var at: Instant?
    /// The values by the names of the options.
    package internal(set) var values: [String: Value] = [:]

    package init() {}

    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.storeOptions, of: Int64(project.rawValue))
    }

    /// The values with changes; nil removes a value.
    package func changed(_ changes: [String: Value?]) -> StoreOptions {
        var options = self
        for (name, value) in changes { options.values[name] = value }
        return options
    }

    func pack(into packer: inout Packer) {
        packer.add(UInt64(version))
        packer.add(at ?? Instant(milliseconds: 0))
        packer.add(UInt64(values.count))
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            packer.add(name)
            switch value {
            case .plain(let text):
                packer.add(false)
                packer.add(text)
            case .sealed(let bytes):
                packer.add(true)
                packer.add(bytes)
            }
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let version = unpacker.count(), let at = unpacker.instant(), let count = unpacker.integer() else {
            return nil
        }
        self.version = version
        self.at = version == 0 ? nil : at
        for _ in 0..<count {
            guard let name = unpacker.text(), let isSealed = unpacker.bool() else { return nil }
            if isSealed {
                guard let bytes = unpacker.bytes() else { return nil }
                values[name] = .sealed(bytes)
            } else {
                guard let text = unpacker.text() else { return nil }
                values[name] = .plain(text)
            }
        }
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self.init(unpacking: &unpacker)
    }
}

/// A call that changes the values of a project's store options.
package struct SetStoreOptions: Act {
    /// The new values; nil removes a value, so that the server's value counts again.
    package let changes: [String: StoreOptions.Value?]

    package init(_ changes: [String: StoreOptions.Value?]) { self.changes = changes }

    package static var kinds: [ActKind] { [.setStoreOptions] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int {
        changes.reduce(256) { sum, change in
            switch change.value {
            case .plain(let text): sum + 64 + text.utf8.count
            case .sealed(let bytes): sum + 64 + bytes.count
            case nil: sum + 64
            }
        }
    }

    /// Changes the values. Throws nothing. Equal values make no version, so that a repeated call adds nothing: a secret has the
    /// same sealed form each time.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> Decision<StoreOptionsSet> {
        let key = StoreOptions.key(of: project)
        let current = view.document(key).flatMap(StoreOptions.init(packed:)) ?? StoreOptions()
        var options = current.changed(changes)
        guard options != current else { return Decision(StoreOptionsSet(current)) }
        options.version += 1
        options.at = stamp.journalledAt
        var packer = Packer()
        options.pack(into: &packer)
        return Decision(
            StoreOptionsSet(options),
            outcome: Outcome(
                kind: .setStoreOptions, person: nil,
                changes: [.documentPut(key, PersonID(rawValue: 0), packer.bytes)]))
    }
}

/// The answer to ``SetStoreOptions``: the values in force.
package struct StoreOptionsSet: Answer {
    package let options: StoreOptions
    init(_ options: StoreOptions) { self.options = options }

    package static let tags: [UInt8] = [ActKind.setStoreOptions.rawValue]

    package func pack(into packer: inout Packer) { options.pack(into: &packer) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let options = StoreOptions(unpacking: &unpacker) else { return nil }
        self.init(options)
    }
}

extension ActKind {
    package static let setStoreOptions = ActKind(
        113, "set_store_options", undo: .facts(needs: .admin), changesDirectory: true)
}
