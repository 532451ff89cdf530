import ByteText
package import Crypto
package import Domain
import Threads

extension MasterKeyMark {
    /// The mark of a key.
    package init(of key: [UInt8]) { self.init(HMAC(key: key).authenticate(Array("onym master key".utf8)).bytes) }

    /// The id under which people know the key: eight hexadecimal digits.
    package var id: String { Hexadecimal.encode(Array(bytes.prefix(4))) }
}

/// The master keys of the server, from which all secrets follow (docs/decisions/0059-several-master-keys.md).
///
/// The newest key in use signs tokens and links, and all keys check them. A secret that a customer has, such as the secret of a webhook,
/// follows for ever from the key that was the newest when the secret was made.
package final class MasterKeys: Sendable {
    /// A key with its mark.
    package struct Key: Sendable {
        package let bytes: [UInt8]
        package let mark: MasterKeyMark
        fileprivate let hash: HMAC

        init(_ bytes: [UInt8]) {
            (self.bytes, mark, hash) = (bytes, MasterKeyMark(of: bytes), HMAC(key: bytes))
        }

        /// Derives a key for a purpose. The derived keys say nothing about each other.
        package func derived(for purpose: StaticString) -> [UInt8] {
            hash.authenticate(Array("key\0\(purpose)".utf8)).bytes
        }

        /// Derives a key for one of several things.
        package func derived(for purpose: StaticString, of id: Int64) -> [UInt8] {
            hash.authenticate(Array("key\0\(purpose)\0\(id)".utf8)).bytes
        }

        /// Derives bytes from a text, without the form of the other derived keys.
        package func authenticate(_ pieces: [UInt8], _ more: [UInt8]) -> Digest { hash.authenticate(pieces, more) }
    }

    private struct State {
        /// The keys, the newest last.
        var keys: [Key]
        /// The directory for which `newest` and `missing` are right.
        var directory: Directory?
        var newest: Key
        var missing: [MasterKeyMark] = []

        func lacks(_ marks: Set<MasterKeyMark>) -> Bool { !marks.isSubset(of: Set(keys.map(\.mark))) }
    }

    /// The store's directory. A closure that is read out of a generic type in place is wrapped once more and written back, so that each
    /// call would make the next one slower. Inside this type it stays as it is.
    private struct Source {
        var directory: (@Sendable () -> Directory)?
    }

    /// The mark of the first key of the store.
    package let first: MasterKeyMark
    private let state: Monitor<State>
    private let source = Monitor(Source())
    private let read: @Sendable () -> [[UInt8]]

    /// - Parameters:
    ///   - keys: at least one key, the newest last.
    ///   - first: the mark of the store's first key; nil if it is the first of these keys.
    ///   - read: reads the keys again.
    package init(
        _ keys: [[UInt8]], first: MasterKeyMark? = nil, read: (@Sendable () -> [[UInt8]])? = nil
    ) {
        let all = keys.map(Key.init)
        guard let oldest = all.first else { preconditionFailure("A server has a master key.") }
        self.first = first ?? oldest.mark
        self.read = read ?? { keys }
        let inUse = all.first { [first = self.first] in $0.mark == first } ?? oldest
        state = Monitor(State(keys: all, newest: inUse))
    }

    /// Takes the store's directory, which knows the keys in use.
    package func watch(_ directory: @escaping @Sendable () -> Directory) {
        source.withLock { $0.directory = directory }
    }

    /// Reads the keys again: an operator has added or dropped a key.
    package func reload() {
        let keys = read().map(Key.init)
        guard !keys.isEmpty else { return }
        state.withLock { state in
            state.keys = keys
            state.directory = nil
        }
    }

    /// All keys, the newest last.
    package var all: [Key] { state.withLock { $0.keys } }

    /// The newest key that a project uses. It signs.
    package var newest: Key { current().newest }

    /// The keys that are the newest of a project, and that this server does not have.
    package var missing: [MasterKeyMark] { current().missing }

    /// The reason why the server cannot make secrets; nil if it has the keys for them.
    package var unreadiness: String? {
        guard let mark = missing.first else { return nil }
        reload()
        guard missing.contains(mark) else { return nil }
        return
            "The master key \(mark.id), with which another server makes secrets, is missing. Copy master.key from that server, "
            + "or add the key to ONYM_MASTER_KEY and start again."
    }

    /// The key with a mark, if the server has it; nil stands for the first key of the store.
    package func key(_ mark: MasterKeyMark?) -> Key? {
        let mark = mark ?? first
        return state.withLock { state in state.keys.first { $0.mark == mark } }
    }

    /// The key of a secret of a project that was made at a moment; nil if the server does not have it.
    package func key(at moment: Instant, in project: ProjectID) -> Key? { key(mark(at: moment, in: project)) }

    /// The mark of the key of a secret.
    package func mark(at moment: Instant, in project: ProjectID) -> MasterKeyMark {
        knownDirectory?.masterKeys(of: project).key(at: moment) ?? first
    }

    /// The mark of the newest key of a project.
    package func newest(of project: ProjectID) -> MasterKeyMark {
        knownDirectory?.masterKeys(of: project).newest ?? first
    }

    /// The mark of the key of a project's access root.
    package func root(of project: ProjectID) -> MasterKeyMark {
        guard let directory = knownDirectory else { return first }
        let history = directory.masterKeys(of: project)
        return history.rootKey ?? directory.projects[project].flatMap { history.key(at: $0.madeAt) } ?? first
    }

    private var knownDirectory: Directory? {
        let directory = source.withLock { $0.directory }
        return directory?()
    }

    /// The state for the present directory. Few calls change the directory, so nearly each call finds the state.
    private func current() -> State {
        guard let directory = knownDirectory else { return state.withLock { $0 } }
        return state.withLock { state in
            if state.directory === directory { return state }
            let used = Set(directory.projects.keys.map { directory.masterKeys(of: $0).newest ?? first })
            if state.lacks(used) {
                // Another server uses a key that an operator has copied here since the start.
                let keys = read().map(Key.init)
                if !keys.isEmpty { state.keys = keys }
            }
            state.directory = directory
            state.missing = used.filter { mark in !state.keys.contains { $0.mark == mark } }.sorted { $0.id < $1.id }
            // Without a project, the first key is in use.
            state.newest =
                state.keys.last { used.contains($0.mark) } ?? state.keys.first { $0.mark == first } ?? state.keys[0]
            return state
        }
    }
}

/// A value for each master key, for one purpose.
package final class PerMasterKey<Value: Sendable>: Sendable {
    private let keys: MasterKeys
    private let make: @Sendable (MasterKeys.Key) -> Value
    private let known = Monitor<[MasterKeyMark: Value]>([:])

    /// - Parameter make: makes the value of a key.
    package init(_ keys: MasterKeys, _ make: @escaping @Sendable (MasterKeys.Key) -> Value) {
        (self.keys, self.make) = (keys, make)
    }

    /// - Parameter make: makes the value of a key that follows from a master key for the purpose alone.
    package convenience init(
        _ keys: MasterKeys, for purpose: StaticString, _ make: @escaping @Sendable ([UInt8]) -> Value
    ) {
        self.init(keys) { make($0.derived(for: purpose)) }
    }

    /// The value with which the server signs.
    package var newest: Value { value(keys.newest) }

    /// The values with which the server checks. The first value is the newest one.
    package var all: [Value] {
        let newest = keys.newest
        return [value(newest)] + keys.all.filter { $0.mark != newest.mark }.map(value)
    }

    /// The value of a key; nil if the server does not have the key.
    package func of(_ mark: MasterKeyMark) -> Value? { keys.key(mark).map(value) }

    private func value(_ key: MasterKeys.Key) -> Value {
        if let value = known.withLock({ $0[key.mark] }) { return value }
        let made = make(key)
        return known.withLock { known in
            if let value = known[key.mark] { return value }
            known[key.mark] = made
            return made
        }
    }
}
