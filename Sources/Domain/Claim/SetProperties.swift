/// A call that sets and removes properties of an app's user, all or nothing (spec/claim.md 1.4).
package struct SetProperties: Act {
    package let user: Identity
    /// An empty value removes the property.
    package let values: [(name: String, value: String)]
    /// Whether the limit of properties applies. Properties that the server itself finds have no limit.
    package let isLimited: Bool

    package init(user: Identity, values: [(name: String, value: String)], isLimited: Bool = true) {
        self.user = user
        self.values = values
        self.isLimited = isLimited
    }

    /// The limit of properties of a user.
    package static let propertiesPerUser = 50
}

extension SetProperties {
    package static var kinds: [ActKind] { [.setProperties] }
    package var subjects: Subjects { Subjects(readsGroupOf: user) }
    package var byteCount: Int { values.reduce(256) { $0 + 64 + $1.name.utf8.count + $1.value.utf8.count } }

    /// Sets and removes the properties of the user. Throws `tooManyProperties` if a new property exceeds the limit. The limit
    /// counts the properties of the whole group, because reads show all of them. A removal alone makes no person for an
    /// unknown user.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<PropertiesSet> {
        var people = PeopleMaker(stamp)
        guard let holder = view.holder(of: user) else {
            // A removal for an unknown user makes no person.
            let sets = values.filter { !$0.value.isEmpty }
            if sets.isEmpty { return Decision(PropertiesSet([:])) }
            let person = people.make(user)
            return try decide(for: person, Group(alone: person), stamp, people.changes, view)
        }
        return try decide(for: holder, view.group(of: holder), stamp, [], view)
    }

    /// Writes the properties that change for the group of a person. Throws `tooManyProperties` if the group would have more than the
    /// limit.
    private func decide<V: DecisionFacts>(
        for person: PersonID, _ group: Group, _ stamp: Stamp, _ made: [Change], _ view: V
    ) throws(Refusal) -> Decision<PropertiesSet> {
        let folded: FoldedAttributes = view.fold(.properties, of: group)
        let before = folded.entries.mapValues { String(decoding: $0.value, as: UTF8.self) }
        var after = before
        for (name, value) in values { after[name] = value.isEmpty ? nil : value }
        // A claim may bring more properties than the limit. The user can still change these properties.
        let adds = after.keys.contains { before[$0] == nil }
        if isLimited, adds, after.count > SetProperties.propertiesPerUser { throw .tooManyProperties }
        var own =
            view.document(DocumentKey(.properties, of: person)).flatMap(Attributes.init(packed:)) ?? Attributes()
        // The person also stores a value that another member has already. After an undo of the merge the person then still
        // has the value.
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
    package static let setProperties = ActKind(14, "set_properties", undo: .facts(needs: .consoleAct))
}
