/// A property of a user, for analytics and advertising. It does not affect access.
package struct AccessProperty: Equatable, Sendable {
    package let name: String
    package let value: String

    package static let propertiesPerUser = 100

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }

    /// The key of the document with a user's properties.
    package static func key(_ person: PersonID) -> DocumentKey { DocumentKey(.accessProperties, of: person) }
}

/// A call that sets properties of a user.
package struct SetAccessProperties: Act {
    package let user: Identity
    package let properties: [AccessProperty]

    package init(_ properties: [AccessProperty], of user: Identity) {
        self.user = user
        self.properties = properties
    }

    package static var kinds: [ActKind] { [.accessProperties] }
    package var subjects: Subjects { Subjects(speaksFor: [user], signedIn: user) }
    package var byteCount: Int { properties.reduce(256) { $0 + 64 + $1.name.utf8.count + $1.value.utf8.count } }

    /// Sets the properties. Throws `noSuchUser` if the user does not exist. Properties over the limit are left out and named
    /// in the answer, so that one property over the limit does not lose the others.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard let person = view.holder(of: user) else { throw .noSuchUser }
        let key = AccessProperty.key(person)
        var known = view.document(key).flatMap(Attributes.init(packed:)) ?? Attributes()
        var (saved, tooMany): ([AccessProperty], [String]) = ([], [])
        var writes: [Attributes.Write] = []
        var names = Set(known.entries.keys)
        for property in properties {
            if !names.contains(property.name), names.count >= AccessProperty.propertiesPerUser {
                tooMany.append(property.name)
                continue
            }
            names.insert(property.name)
            saved.append(property)
            let value = Array(property.value.utf8)
            if known.entries[property.name]?.value != value { writes.append(Attributes.Write(property.name, value)) }
        }
        let reply = AccessReply.propertiesSet(saved: saved, tooMany: tooMany)
        if writes.isEmpty { return Decision(reply) }
        _ = known.set(writes, stamp)
        let event = AccessEvent.propertiesSet(saved).row(stamp)
        return Decision(
            reply,
            outcome: Outcome(
                kind: .accessProperties, person: person,
                changes: [.documentPut(key, person, known.packed), .rowAdded(person, event)]))
    }
}

extension ActKind {
    package static let accessProperties = ActKind(47, "set_access_properties", undo: .facts(needs: .consoleAct))
}
