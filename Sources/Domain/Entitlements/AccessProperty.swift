/// Something that is known of a user, for those who count and advertise. It has no part in who may use what.
package struct AccessProperty: Equatable, Sendable {
    package let name: String
    package let value: String

    package static let propertiesPerUser = 100

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }

    package static func key(_ person: PersonID) -> DocumentKey { DocumentKey(.accessProperties, of: person) }

    /// Sets properties of a user. Those that there is no room for are left out, and told.
    static func set<V: View>(
        _ properties: [AccessProperty], of identity: Identity, _ stamp: Stamp, _ view: V
    ) throws(AccessRefusal) -> Decision {
        guard let person = view.holder(of: identity) else { throw .noSuchUser }
        var known = view.document(key(person)).flatMap(Attributes.init(packed:)) ?? Attributes()
        var (saved, tooMany): ([AccessProperty], [String]) = ([], [])
        var writes: [Attributes.Write] = []
        var names = Set(known.entries.keys)
        for property in properties {
            if !names.contains(property.name), names.count >= propertiesPerUser {
                tooMany.append(property.name)
                continue
            }
            names.insert(property.name)
            saved.append(property)
            let value = Array(property.value.utf8)
            if known.entries[property.name]?.value != value { writes.append(Attributes.Write(property.name, value)) }
        }
        let reply = Reply.access(.propertiesSet(saved: saved, tooMany: tooMany))
        if writes.isEmpty { return Decision(reply: reply) }
        _ = known.set(writes, stamp)
        let event = AccessEvent.propertiesSet(saved).row(stamp)
        return Decision(
            reply: reply,
            outcome: Outcome(
                kind: .accessProperties, person: person,
                changes: [.documentPut(key(person), person, known.packed), .rowAdded(person, event)]))
    }
}
