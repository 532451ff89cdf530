/// Where documents are to be found, for decisions that need nothing else.
package protocol DocumentFacts {
    /// The document under a key.
    func document(_ key: DocumentKey) -> [UInt8]?
}

/// What a decision can see of the facts.
///
/// A view answers about single people, as if nobody had ever been merged: decisions are made on members (DESIGN 1).
/// The order in which it goes through things means nothing, so no decision may depend on it.
package protocol DecisionFacts: DocumentFacts {
    /// How this view points at a person.
    associatedtype Person: Equatable

    /// Goes through the people that hold an identity.
    func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void)

    /// How many people hold an identity.
    func holderCount(of identity: IdentityKey) -> Int

    /// Goes through the identities that a person holds; stops when the body answers false.
    func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool)

    /// How many identities a person holds, or a few more: never fewer.
    func identityCount(of person: Person) -> Int

    func id(of person: Person) -> PersonID

    /// The person with an id, if that is one of the project.
    func person(_ id: PersonID, in project: ProjectID) -> Person?

    /// Whether there was a person with an id, who was erased.
    func isErased(_ id: PersonID) -> Bool

    /// When something was last heard of a person.
    func lastSeen(of person: Person) -> Instant

    /// A merge that is in force.
    func merge(_ id: MergeID) -> Merge?

    /// All that are one with a person.
    func group(of person: PersonID) -> Group

    /// How many rows and identities all people of a group have together.
    func totals(of group: Group) -> GroupTotals

    /// How many rows of a kind are stored under a person.
    func rowCount(of person: PersonID, _ kind: RowKind) -> Int

    /// The person with an id, whatever its project.
    func person(_ id: PersonID) -> Person?

    /// Whether a row with a hash is there already.
    func knowsRow(_ hash: RowHash) -> Bool

    /// Who may call, and with which apps.
    var directory: Directory { get }

    /// The rules of a project.
    func strategy(of project: ProjectID) -> Strategy

    /// The rules that a project has and had.
    func strategies(of project: ProjectID) -> StrategyHistory

    /// Decides a call over these facts, by code that was compiled for them where there is such code.
    func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply>
}

extension DecisionFacts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        try act.decideBoxed(stamp, in: project, self)
    }
}

extension DecisionFacts {
    /// Whether two people are one.
    func areOne(_ one: PersonID, _ other: PersonID) -> Bool {
        one == other || group(of: one).root == group(of: other).root
    }

    /// How many rows of each kind and how many identities of each type a person has.
    func ownTotals(of person: PersonID) -> GroupTotals {
        var totals = GroupTotals()
        totals.first = person
        for kind in RowKind.allCases {
            let count = rowCount(of: person, kind)
            if count > 0 { totals.rows[kind] = count }
        }
        if let place = self.person(person) {
            totals.lastSeen = lastSeen(of: place)
            forEachIdentity(of: place) { type, _ in
                totals.identities[type, default: 0] += 1
                return true
            }
        }
        return totals
    }

    /// The type under which a person holds an identity; nil where it does not.
    func type(of identity: IdentityKey, heldBy person: Person) -> IdentityType? {
        var found: IdentityType?
        forEachIdentity(of: person) { type, held in
            if held == identity { found = type }
            return found == nil
        }
        return found
    }

    /// Whether a person holds an identity.
    @inline(__always)
    func holds(_ person: Person, _ identity: IdentityKey) -> Bool {
        var found = false
        forEachIdentity(of: person) { _, held in
            found = held == identity
            return !found
        }
        return found
    }
}
