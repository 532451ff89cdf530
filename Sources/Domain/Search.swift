/// A call that asks who somebody is and changes nothing: IDSync's `search` (spec/idsync.md 3.3).
package struct Search: Sendable {
    /// What the person is called: at most one value of each type.
    package let identities: [Identity]
    package let inspection: Inspection

    package init(identities: [Identity], inspection: Inspection = []) {
        precondition(identities.count <= IdentityType.allCases.count, "An identity type was named twice.")
        self.identities = identities
        self.inspection = inspection
    }
}

extension Search {
    func decide<V: View>(in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        let strategy = view.strategy(of: project)
        var lookUp = LookUp(identities: identities, strategy: strategy)
        lookUp.setAside(in: view)
        var explanation = Explanation()
        explanation.setsAside(lookUp.inputsSetAside)
        let found =
            inspection.isEmpty
            ? lookUp.find(previous: nil, in: view) : lookUp.find(previous: nil, in: view, &explanation)
        guard let person = found else { throw .nobodyFound }
        let (matched, held) = lookUp.match(person, in: view)
        // Where there are identities that never change, nobody is found by less.
        if !strategy.immutable.isEmpty {
            let isNamed = identities.indices.contains { index in
                matched & 1 << UInt64(index) != 0 && strategy.immutable.contains(identities[index].type)
            }
            guard isNamed else { throw .nobodyFound }
        }
        let identified = Identified(
            person: view.id(of: person), matched: matched, isKnown: !held.isDisjoint(with: strategy.login))
        guard !inspection.isEmpty else {
            return Decision(reply: .found(identified), restsOnSightings: lookUp.restsOnSightings)
        }
        return Decision(
            reply: .inspected(Inspected(identified: identified, isReadOnly: true, explanation: explanation.sorted)),
            restsOnSightings: lookUp.restsOnSightings)
    }
}
