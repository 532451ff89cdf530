/// The attributes of a person: names, and values that are JSON. A name stays after its value is removed, so the moment of the
/// removal stays known.
package struct Attributes: Equatable, Sendable {
    /// The last write of one name.
    package struct Entry: Equatable, Sendable {
        /// Nil if the value was removed.
        package let value: [UInt8]?
        package let at: Instant
        /// The call that wrote the entry. A later call has a larger id, also within one moment.
        package let call: PersonID
    }

    package private(set) var entries: [String: Entry] = [:]

    /// The limits of names and values (spec/idsync.md 1.8).
    package static let namesPerPerson = 100
    package static let nameCharacters = 1...256
    package static let valueCharacters = 4096
    package static let listElements = 1000
    package static let listElementCharacters = 512

    package init() {}

    /// A new value of a name, or the removal of its value.
    package struct Write: Equatable, Sendable {
        package let name: String
        /// The value as JSON; nil removes the value.
        package let value: [UInt8]?

        package init(_ name: String, _ value: [UInt8]?) {
            self.name = name
            self.value = value
        }
    }

    private var valueCount: Int { entries.values.count { $0.value != nil } }

    /// Applies all writes, without the limit of names. Returns whether an entry changed.
    mutating func set(_ writes: [Write], _ stamp: Stamp) -> Bool {
        for write in writes { entries[write.name] = Entry(value: write.value, at: stamp.at, call: stamp.person) }
        return !writes.isEmpty
    }

    /// Applies writes up to the limit of names, and skips new names over it. Returns whether an entry changed.
    mutating func apply(_ writes: [Write], _ stamp: Stamp) -> Bool {
        var hasChanged = false
        var count = valueCount
        for write in writes {
            let known = entries[write.name]
            if let known, known.value == write.value { continue }
            if write.value == nil, known == nil { continue }
            let (had, has) = (known?.value != nil, write.value != nil)
            if has, !had, count >= Attributes.namesPerPerson { continue }
            count += (has ? 1 : 0) - (had ? 1 : 0)
            entries[write.name] = Entry(value: write.value, at: stamp.at, call: stamp.person)
            hasChanged = true
        }
        return hasChanged
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
