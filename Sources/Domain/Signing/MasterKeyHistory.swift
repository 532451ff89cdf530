/// The mark of a master key: 32 bytes that follow from the key, and that do not reveal it.
package struct MasterKeyMark: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// The master keys of a project over time (docs/decisions/0059-several-master-keys.md).
///
/// A secret that follows from a master key keeps the key that was the newest when the secret was made. The first key of the store has
/// no entry.
package struct MasterKeyHistory: Equatable, Sendable {
    /// A master key, and the moment from which new secrets follow from it.
    package struct Entry: Equatable, Sendable {
        package let key: MasterKeyMark
        package let from: Instant
    }

    package internal(set) var entries: [Entry] = []
    /// The key of the project's access root, if the root was made anew; otherwise the key of the project's own moment.
    package internal(set) var rootKey: MasterKeyMark?

    package init() {}

    /// The history of a project that is made now, with a key that is not the store's first.
    package init(beginning key: MasterKeyMark) { entries = [Entry(key: key, from: Instant(milliseconds: 0))] }

    /// The newest key; nil stands for the first key of the store.
    package var newest: MasterKeyMark? { entries.last?.key }

    /// The key of a secret that was made at a moment; nil stands for the first key of the store.
    package func key(at moment: Instant) -> MasterKeyMark? { entries.last { $0.from <= moment }?.key }

    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.masterKeys, of: Int64(project.rawValue))
    }

    func put(for project: ProjectID) -> Change {
        var packer = Packer()
        packer.add(UInt64(entries.count))
        for entry in entries {
            packer.add(entry.key.bytes)
            packer.add(entry.from)
        }
        packer.add(rootKey?.bytes ?? [])
        return .documentPut(MasterKeyHistory.key(of: project), PersonID(rawValue: 0), packer.bytes)
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let count = unpacker.integer(), count <= MasterKeyHistory.entriesAtMost else { return nil }
        for _ in 0..<count {
            guard let key = unpacker.bytes(), let from = unpacker.instant() else { return nil }
            entries.append(Entry(key: MasterKeyMark(key), from: from))
        }
        guard let root = unpacker.bytes() else { return nil }
        rootKey = root.isEmpty ? nil : MasterKeyMark(root)
    }

    /// The keys with which the projects of a store make new secrets.
    ///
    /// - Parameters:
    ///   - histories: the last version of each project's history.
    ///   - projects: the number of projects. A project without a history uses the first key.
    ///   - first: the first key of the store; nil if the store does not know it.
    package static func newest(
        in histories: [[UInt8]], projects: Int64, first: MasterKeyMark?
    ) -> Set<MasterKeyMark> {
        let newest = histories.compactMap { MasterKeyHistory(packed: $0)?.newest }
        var marks = Set(newest)
        if projects == 0 || Int64(newest.count) < projects, let first { marks.insert(first) }
        return marks
    }

    /// More changes of the key than a project has in its life.
    static let entriesAtMost = 1000
}

/// A call that makes a master key the newest one of a project, and replaces the sealed form of the project's secrets.
package struct RotateMasterKey: Act {
    /// The new sealed form of a secret, which replaces one sealed form only.
    package struct Resealed: Equatable, Sendable {
        package let old: [UInt8]
        package let new: [UInt8]

        package init(old: [UInt8], new: [UInt8]) { (self.old, self.new) = (old, new) }
    }

    /// The newest key.
    package let key: MasterKeyMark
    /// The first key of the store.
    package let first: MasterKeyMark
    /// The secrets among the store options, by the names of the options.
    package let sealed: [String: Resealed]
    /// Whether the access root is made anew, from the newest key.
    package let renewsRoot: Bool

    package init(
        to key: MasterKeyMark, first: MasterKeyMark, sealed: [String: Resealed] = [:], renewsRoot: Bool = false
    ) {
        (self.key, self.first, self.sealed, self.renewsRoot) = (key, first, sealed, renewsRoot)
    }

    package static var kinds: [ActKind] { [.rotateMasterKey] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { sealed.values.reduce(512) { $0 + 128 + $1.old.count + $1.new.count } }

    /// Adds the key to the project's history, unless it is the newest already, and replaces sealed secrets that are as the call
    /// knows them. Throws `tooManyRotations` at the limit. A repeated call changes nothing, so that an interrupted rotation is
    /// ended by the same call.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<MasterKeyRotated> {
        var history = view.directory.masterKeys(of: project)
        let before = history
        if history.newest ?? first != key {
            guard history.entries.count < MasterKeyHistory.entriesAtMost else { throw .tooManyRotations }
            let from = history.entries.last.map { max($0.from, stamp.at) } ?? stamp.at
            history.entries.append(MasterKeyHistory.Entry(key: key, from: from))
        }
        if renewsRoot { history.rootKey = key }
        var changes = history == before ? [] : [history.put(for: project)]
        let (options, count) = resealed(view.directory.storeOptions(of: project))
        if count > 0 {
            var packer = Packer()
            options.pack(into: &packer)
            changes.append(.documentPut(StoreOptions.key(of: project), PersonID(rawValue: 0), packer.bytes))
        }
        let answer = MasterKeyRotated(resealed: count)
        if changes.isEmpty { return Decision(answer) }
        return Decision(answer, outcome: Outcome(kind: .rotateMasterKey, person: nil, changes: changes))
    }

    /// The options with new sealed forms, and their number. The options keep their version, because no value changes.
    private func resealed(_ options: StoreOptions) -> (StoreOptions, Int) {
        var (options, count) = (options, 0)
        for (name, secret) in sealed where options.values[name] == .sealed(secret.old) && secret.old != secret.new {
            options.values[name] = .sealed(secret.new)
            count += 1
        }
        return (options, count)
    }
}

/// The answer to ``RotateMasterKey``.
package struct MasterKeyRotated: Answer, Equatable {
    /// The number of secrets that were sealed again.
    package let resealed: Int

    init(resealed: Int) { self.resealed = resealed }

    package static let tags: [UInt8] = [ActKind.rotateMasterKey.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(resealed)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.integer() else { return nil }
        self.init(resealed: Int(clamping: count))
    }
}

extension Refusal {
    /// The project has had as many master keys as the server can tell apart.
    package static let tooManyRotations = Refusal(
        .conflict, "too_many", "The project has had \(MasterKeyHistory.entriesAtMost) master keys, which is the limit.")
}

extension ActKind {
    package static let rotateMasterKey = ActKind(
        179, "rotate_master_key", undo: .never(.secretGone), changesDirectory: true)
}
