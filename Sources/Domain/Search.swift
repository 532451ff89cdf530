/// A call that finds a person and changes nothing: IDSync's `search` (spec/idsync.md 3.3).
package struct Search: Act {
    /// The identities of the search: at most one value of each type.
    package let identities: [Identity]
    package let inspection: Inspection

    package init(identities: [Identity], inspection: Inspection = []) {
        precondition(identities.count <= Identified.identitiesAtMost, "An identity type was named twice.")
        self.identities = identities
        self.inspection = inspection
    }
}

extension Search {
    package static var kinds: [ActKind] { [] }
    package static var isDecidedInMemory: Bool { true }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(limitedBy: identities, speaksFor: identities) }
    package var byteCount: Int { identities.reduce(64) { $0 + $1.value.utf8.count } }

    /// Finds the person of the identities. Throws `nobodyFound` if no person fits. If the strategy has immutable types, the
    /// call must name an immutable identity of the person: a weaker identity must not reveal a known user.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Identified> {
        let strategy = view.strategy(of: project)
        guard strategy.isPlain else { return try decideWithRules(stamp, in: project, view) }
        // A search knows no proof of its caller.
        var resolution = Resolution(
            identities: identities, strategy: strategy, joining: strategy.guards.requiresProof ? nil : project)
        resolution.setAside(in: view)
        var explanation = Explanation()
        explanation.setsAside(resolution.inputsSetAside)
        let found =
            inspection.isEmpty
            ? resolution.find(previous: nil, in: view) : resolution.find(previous: nil, in: view, &explanation)
        guard let person = found else { throw .nobodyFound }
        let (matched, held) = resolution.match(person, in: view)
        // A strategy with immutable types finds a person only by an immutable identity.
        if !strategy.immutable.isEmpty {
            let isNamed = identities.indices.contains { index in
                matched & 1 << UInt64(index) != 0 && strategy.immutable.contains(identities[index].type)
            }
            guard isNamed else { throw .nobodyFound }
        }
        return Decision(
            Identified(
                person: view.id(of: person), matched: matched, isKnown: !held.isDisjoint(with: strategy.login),
                isReadOnly: true, explanation: inspection.isEmpty ? nil : explanation.sorted),
            restsOnSightings: resolution.restsOnSightings)
    }
}

extension Search {
    /// The decision under a strategy with further rules. Throws the refusals of ``Procedure``.
    private func decideWithRules<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Identified> {
        let immutable = view.strategy(of: project).immutable
        let call = Identify(.start, identities: identities)
        var procedure = Procedure(
            view.strategy(of: project).guards.requiresProof ? call.mergingNobody : call, stamp, in: project, view)
        guard let found = try procedure.search() else {
            // The writer has documents that may name a person.
            if !view.hasDocuments { return Decision(call.nobody, restsOnSightings: true) }
            throw .nobodyFound
        }
        let isNamed = identities.indices.contains { index in
            found.matched & 1 << UInt64(index) != 0 && immutable.contains(identities[index].type)
        }
        guard immutable.isEmpty || isNamed else { throw .nobodyFound }
        return Decision(
            Identified(
                person: found.person, matched: found.matched, isKnown: found.isKnown, isReadOnly: true,
                explanation: inspection.isEmpty ? nil : procedure.explanation.sorted),
            restsOnSightings: procedure.restsOnSightings)
    }
}

extension Identify {
    /// The answer of a decision that only the writer can make.
    fileprivate var nobody: Identified {
        Identified(person: PersonID(rawValue: 0), matched: 0, isKnown: false, isReadOnly: true)
    }
}

extension Refusal {
    package static let nobodyFound = Refusal(.notFound, "not_found", "Nobody was found by these identities.")
}
