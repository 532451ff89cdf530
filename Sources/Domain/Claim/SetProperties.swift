/// A call that sets and takes away properties of an app's user, all of them or none (spec/claim.md 1.4).
package struct SetProperties: Act {
    package let user: Identity
    /// An empty value takes a property away.
    package let values: [(name: String, value: String)]
    /// Whether the user may get more properties than calls may set: what the server itself finds out is not turned away.
    package let isLimited: Bool

    package init(user: Identity, values: [(name: String, value: String)], isLimited: Bool = true) {
        self.user = user
        self.values = values
        self.isLimited = isLimited
    }

    /// As many properties as a user may have.
    package static let propertiesPerUser = 50
}

extension SetProperties {
    package static var kinds: [ActKind] { [.setProperties] }
    package var subjects: Subjects { Subjects(readsGroupOf: user) }
    package var byteCount: Int { values.reduce(256) { $0 + 64 + $1.name.utf8.count + $1.value.utf8.count } }

    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<PropertiesSet> {
        var people = PeopleMaker(stamp)
        guard let holder = view.holder(of: user) else {
            // Taking something away from somebody who is not there makes nobody.
            let sets = values.filter { !$0.value.isEmpty }
            if sets.isEmpty { return Decision(PropertiesSet([:])) }
            let person = people.make(user)
            return try decide(for: person, Group(alone: person), stamp, people.changes, view)
        }
        return try decide(for: holder, view.group(of: holder), stamp, [], view)
    }

    private func decide<V: DecisionFacts>(
        for person: PersonID, _ group: Group, _ stamp: Stamp, _ made: [Change], _ view: V
    ) throws(Refusal) -> Decision<PropertiesSet> {
        let folded: FoldedAttributes = view.fold(.properties, of: group)
        let before = folded.entries.mapValues { String(decoding: $0.value, as: UTF8.self) }
        var after = before
        for (name, value) in values { after[name] = value.isEmpty ? nil : value }
        // Whoever has more than that by a claim can still change what is there.
        let adds = after.keys.contains { before[$0] == nil }
        if isLimited, adds, after.count > SetProperties.propertiesPerUser { throw .tooManyProperties }
        var own =
            view.document(DocumentKey(.properties, of: person)).flatMap(Attributes.init(packed:)) ?? Attributes()
        // Also what has the value already by another of the members: should they part, it is this one's word as well.
        let writes = values.map { Attributes.Write($0.name, $0.value.isEmpty ? nil : Array($0.value.utf8)) }
            .filter { write in
                before[write.name].map { Array($0.utf8) } != write.value
                    || own.entries[write.name]?.value != write.value
            }
        var changes = made
        if own.set(writes, stamp) {
            changes.append(.documentPut(DocumentKey(.properties, of: person), person, own.packed))
        }
        if !made.isEmpty { changes.append(AppUser(of: person, at: stamp.at).put) }
        let reply = PropertiesSet(after)
        guard !changes.isEmpty else { return Decision(reply) }
        return Decision(reply, outcome: Outcome(kind: .setProperties, person: person, changes: changes))
    }
}

/// The answer to ``SetProperties``: all properties that the user has now.
package struct PropertiesSet: Answer {
    package let properties: [String: String]
    package init(_ properties: [String: String]) { self.properties = properties }

    package static let tags: [UInt8] = [ActKind.setProperties.rawValue]

    package func pack(into packer: inout Packer) {
        for (name, value) in properties.sorted(by: { $0.key < $1.key }) {
            packer.add(name)
            packer.add(value)
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        var properties: [String: String] = [:]
        while !unpacker.isAtEnd {
            guard let name = unpacker.text(), let value = unpacker.text() else { return nil }
            properties[name] = value
        }
        self.properties = properties
    }
}

extension Refusal {
    package static let tooManyProperties = Refusal(
        .invalid, "too_many_properties",
        "A user has at most \(SetProperties.propertiesPerUser) properties; remove some first.", isJournalled: true)
}

extension ActKind {
    package static let setProperties = ActKind(14, "set_properties")
}
