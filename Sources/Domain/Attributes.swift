/// The names of attributes that a call changed.
package struct ChangedNames: Equatable, Sendable {
    /// The names with new values.
    package var written: [String] = []
    package var removed: [String] = []

    package init(written: [String] = [], removed: [String] = []) {
        (self.written, self.removed) = (written, removed)
    }

    package var isEmpty: Bool { written.isEmpty && removed.isEmpty }
}

/// The attributes of a person: names, and values that are JSON. A name stays after its value is removed, so the moment of the
/// removal stays known.
package struct Attributes: Equatable, Sendable {
    /// The last write of one name.
    package struct Entry: Hashable, Sendable {
        /// Nil if the value was removed. JSON's null is a value: a tag.
        package let value: [UInt8]?
        /// The last moment at which a client wrote the value.
        package let at: Instant
        /// The call that wrote the entry. A later call has a larger id, also within one moment.
        package let call: PersonID
    }

    package private(set) var entries: [String: Entry] = [:]

    /// The value of a tag.
    package static let tag = Array("null".utf8)

    /// The limits of names and values (spec/idsync.md 1.8).
    package static let namesPerPerson = 100
    /// The greatest size of all names and values of a person. Each change writes all of them.
    package static let bytesPerPerson = 1 << 20
    /// The greatest number of removed names that stay known. Beyond it the names that were removed first are forgotten.
    package static let removedNamesPerPerson = 1000
    package static let nameCharacters = 1...256
    package static let valueCharacters = 4096
    package static let listElements = 1000
    package static let listElementCharacters = 512

    package init() {}

    /// A new value of a name, or the removal of its value.
    package struct Write: Equatable, Sendable {
        package let name: String
        /// The value as JSON, where null is a tag; nil removes the value.
        package let value: [UInt8]?

        package init(_ name: String, _ value: [UInt8]?) {
            self.name = name
            self.value = value
        }
    }

    /// The number of names with a value.
    package var valueCount: Int { entries.values.count { $0.value != nil } }

    /// Applies all writes, without the limit of names. Returns whether an entry changed.
    mutating func set(_ writes: [Write], _ stamp: Stamp) -> Bool {
        for write in writes { entries[write.name] = Entry(value: write.value, at: stamp.at, call: stamp.person) }
        return !writes.isEmpty
    }

    /// The effect of some writes.
    struct Applied: Equatable {
        /// Whether an entry changed, so that the document has to be stored.
        var hasChanged = false
        /// The names for readers of the journal.
        var names = ChangedNames()
    }

    /// Applies the writes of one batch: of several writes of a name the last counts. A write that is older than the known
    /// write of its name changes nothing, because a batch can arrive late. New names and values over the limits are skipped.
    ///
    /// - Parameters:
    ///   - writes: the writes, in their order.
    ///   - at: the moment of the batch.
    ///   - stamp: the stamp of the call.
    mutating func apply(_ writes: [Write], at: Instant, _ stamp: Stamp) -> Applied {
        var applied = Applied()
        var last: [String: Int] = [:]
        for (place, write) in writes.enumerated() { last[write.name] = place }
        let final = writes.enumerated().filter { last[$1.name] == $0 }.map(\.element)
        var count = valueCount
        var bytes = entries.reduce(0) { $0 + $1.key.utf8.count + ($1.value.value?.count ?? 0) }
        // A removal makes room for another name of the same batch.
        for write in final.filter({ $0.value == nil }) + final.filter({ $0.value != nil }) {
            let known = entries[write.name]
            // A moment in the future is from before the clock went back.
            let isFuture = known.map { $0.at > stamp.journalledAt } ?? false
            if let known, known.at > at, !isFuture { continue }
            if let known, known.value == write.value {
                // The value stays, and only its moment changes: an older batch must not replace it.
                if known.at < at || isFuture {
                    entries[write.name] = Entry(value: known.value, at: at, call: known.call)
                    applied.hasChanged = true
                }
                continue
            }
            let (had, has) = (known?.value != nil, write.value != nil)
            if has, !had, count >= Attributes.namesPerPerson { continue }
            let more =
                (write.value?.count ?? 0) - (known?.value?.count ?? 0) + (known == nil ? write.name.utf8.count : 0)
            if more > 0, has, bytes + more > Attributes.bytesPerPerson { continue }
            bytes += more
            count += (has ? 1 : 0) - (had ? 1 : 0)
            entries[write.name] = Entry(value: write.value, at: at, call: stamp.person)
            applied.hasChanged = true
            if has { applied.names.written.append(write.name) } else if had { applied.names.removed.append(write.name) }
        }
        forgetRemovals()
        return applied
    }

    /// Forgets the writes of one call that no later write has replaced, and returns their number.
    mutating func forget(writtenBy call: PersonID) -> Int {
        let before = entries.count
        entries = entries.filter { $0.value.call != call }
        return before - entries.count
    }

    /// These attributes with those of another person. Of two writes of a name the later counts.
    package func joined(with other: Attributes?) -> Attributes {
        var joined = self
        for (name, entry) in other?.entries ?? [:] {
            if let known = entries[name], (known.at, known.call) > (entry.at, entry.call) { continue }
            joined.entries[name] = entry
        }
        return joined
    }

    /// Replaces the entry of a name; nil removes the entry.
    mutating func replace(_ name: String, with entry: Entry?) { entries[name] = entry }

    /// Whether a write may have forgotten names that were removed.
    var hasForgotten: Bool { entries.values.count { $0.value == nil } >= Attributes.removedNamesPerPerson }

    private mutating func forgetRemovals() {
        guard entries.count > Attributes.namesPerPerson + Attributes.removedNamesPerPerson else { return }
        let removed = entries.filter { $0.value.value == nil }
            .sorted { ($0.value.at, $0.value.call, $0.key) < ($1.value.at, $1.value.call, $1.key) }
        for (name, _) in removed.dropLast(Attributes.removedNamesPerPerson) { entries[name] = nil }
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(entries.count))
        for (name, entry) in entries.sorted(by: { $0.key < $1.key }) {
            packer.add(name)
            packer.add(entry.at)
            packer.add(UInt64(bitPattern: entry.call.rawValue))
            packer.add(entry.value == nil ? 0 : 1 as UInt8)
            if let value = entry.value { packer.add(value) }
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let count = unpacker.integer() else { return nil }
        for _ in 0..<count {
            guard let name = unpacker.text(), let at = unpacker.instant(), let call = unpacker.person(),
                let hasValue = unpacker.byte()
            else { return nil }
            if hasValue == 1 {
                guard let value = unpacker.bytes() else { return nil }
                entries[name] = Entry(value: value, at: at, call: call)
            } else {
                entries[name] = Entry(value: nil, at: at, call: call)
            }
        }
        guard unpacker.isAtEnd else { return nil }
    }
}
