/// The attributes of a group. If both sides of a merge had a value before the merge, the value of the known side counts. In
/// other cases the newest value counts, and a removal counts as a value.
package struct FoldedAttributes: GroupFold, Equatable {
    /// The present value of a name, and its origin.
    package struct Entry: Equatable, Sendable {
        package let value: [UInt8]
        package let at: Instant
        /// The member with the value.
        package let origin: PersonID
    }

    private struct Candidate: Equatable, Sendable {
        let entry: Attributes.Entry
        let origin: PersonID
    }

    /// The values by name. Removed values are included.
    private var candidates: [String: Candidate] = [:]

    /// The limit of names of a group. Beyond the limit the last written names stay.
    package static let namesPerGroup = 1000

    /// The present attributes.
    package var entries: [String: Entry] {
        candidates.compactMapValues { candidate in
            candidate.entry.value.map { Entry(value: $0, at: candidate.entry.at, origin: candidate.origin) }
        }
    }

    /// The value of one name.
    package subscript(name: String) -> [UInt8]? { candidates[name]?.entry.value }

    package var isEmpty: Bool { candidates.isEmpty }

    package init(_ person: PersonID, _ document: [UInt8]?) {
        guard let attributes = document.flatMap(Attributes.init(packed:)) else { return }
        candidates = attributes.entries.mapValues { Candidate(entry: $0, origin: person) }
        bound()
    }

    package mutating func join(_ joining: FoldedAttributes, by merge: MergeID) {
        for (name, new) in joining.candidates {
            if let known = candidates[name], !FoldedAttributes.replaces(new.entry, known.entry, merge) { continue }
            candidates[name] = new
        }
        bound()
    }

    /// Whether a value of the joining side replaces the value of the other side.
    private static func replaces(_ new: Attributes.Entry, _ known: Attributes.Entry, _ merge: MergeID) -> Bool {
        if new.call.rawValue < merge.rawValue, known.call.rawValue < merge.rawValue { return false }
        return new.call > known.call
    }

    package mutating func change(
        _ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID
    ) -> Bool {
        let known = before.flatMap(Attributes.init(packed:)) ?? Attributes()
        let new = Attributes(packed: after) ?? Attributes()
        for (name, entry) in new.entries where known.entries[name] != entry {
            let shows = candidates[name]?.origin == person
            if entry.call == call || (known.entries[name]?.call == entry.call && shows) {
                candidates[name] = Candidate(entry: entry, origin: person)
            } else if known.entries[name]?.call != entry.call {
                // An earlier value has come back.
                return false
            }
            // A value that a client only repeated replaces no value of another member.
        }
        let gone = known.entries.filter { new.entries[$0.key] == nil && candidates[$0.key]?.origin == person }
        // A removal that is only forgotten stays in the fold.
        if !gone.isEmpty, gone.values.contains(where: { $0.value != nil }) || !new.hasForgotten { return false }
        bound()
        return true
    }

    private mutating func bound() {
        guard candidates.count > FoldedAttributes.namesPerGroup else { return }
        let newest = candidates.sorted { one, other in
            one.value.entry.call != other.value.entry.call
                ? one.value.entry.call > other.value.entry.call : one.key < other.key
        }
        candidates = Dictionary(uniqueKeysWithValues: newest.prefix(FoldedAttributes.namesPerGroup).map { ($0, $1) })
    }

    package var packed: [UInt8] {
        var packer = Packer()
        for (name, candidate) in candidates.sorted(by: { $0.key < $1.key }) {
            packer.add(name)
            packer.add(candidate.entry.at)
            packer.add(candidate.entry.call)
            packer.add(candidate.origin)
            packer.add(candidate.entry.value != nil)
            if let value = candidate.entry.value { packer.add(value) }
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        while !unpacker.isAtEnd {
            guard let name = unpacker.text(), let at = unpacker.instant(), let call = unpacker.person(),
                let origin = unpacker.person(), let hasValue = unpacker.bool()
            else { return nil }
            var value: [UInt8]?
            if hasValue {
                guard let found = unpacker.bytes() else { return nil }
                value = found
            }
            candidates[name] = Candidate(entry: Attributes.Entry(value: value, at: at, call: call), origin: origin)
        }
    }
}
