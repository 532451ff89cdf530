/// Facts that give documents. Some decisions need nothing else.
package protocol DocumentFacts {
    /// The document under a key.
    func document(_ key: DocumentKey) -> [UInt8]?
}

/// The facts as a decision sees them.
///
/// A view answers about single people, as if no merge existed, because decisions are made on members (DESIGN 1). The order of
/// its answers has no meaning, so a decision must not depend on the order.
package protocol DecisionFacts: DocumentFacts {
    /// The reference to a person in this view.
    associatedtype Person: Equatable

    /// Calls the body for each person that holds an identity.
    func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void)

    /// The number of people that hold an identity.
    func holderCount(of identity: IdentityKey) -> Int

    /// Calls the body for each identity that a person holds, until the body returns false.
    func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool)

    /// An upper bound of the identities that a person holds. It is close to the real number.
    func identityCount(of person: Person) -> Int

    func id(of person: Person) -> PersonID

    /// The person with an id; nil if the project has no such person.
    func person(_ id: PersonID, in project: ProjectID) -> Person?

    /// Whether the person with an id was erased.
    func isErased(_ id: PersonID) -> Bool

    /// The last moment at which a call came from a person.
    func lastSeen(of person: Person) -> SeenAt

    /// The merge with an id; nil if no such merge is in force.
    func merge(_ id: MergeID) -> Merge?

    /// Whether a merge by a rule between two people is in force.
    func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool

    /// The group of a person.
    func group(of person: PersonID) -> Group

    /// The numbers of rows and identities that all members of a group have together.
    func totals(of group: Group) -> GroupTotals

    /// The number of rows of a kind that a person has.
    func rowCount(of person: PersonID, _ kind: RowKind) -> Int

    /// The person with an id, in any project.
    func person(_ id: PersonID) -> Person?

    /// Whether a row with a hash came within the last 48 hours.
    func knowsRow(_ hash: RowHash) -> Bool

    /// The row with a hash that no other row has superseded, from any time; nil if it does not exist. The question costs more than
    /// ``knowsRow(_:)``, so decisions ask it for imported rows and corrections only.
    func namedRow(_ hash: RowHash) -> NamedRow?

    /// The projects, apps, keys and strategies.
    var directory: Directory { get }

    /// The current strategy of a project.
    func strategy(of project: ProjectID) -> Strategy

    /// All strategies of a project.
    func strategies(of project: ProjectID) -> StrategyHistory

    /// Whether the facts have documents. The facts in memory outside a batch have none.
    var hasDocuments: Bool { get }

    /// Whether it is known if a document exists. A store outside memory notes an unknown document and reads it, and then decides
    /// again. A decision asks before it does much work because a document does not exist.
    func knows(_ document: DocumentKey) -> Bool

    /// The holders of an identity, in the order of their links, the oldest first.
    func holdersByAge(of identity: IdentityKey) -> [Person]

    /// Decides a call over these facts. The code is specialized for facts of this type, if such code exists.
    func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply>
}

extension DecisionFacts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        try act.decideBoxed(stamp, in: project, self)
    }

    package var hasDocuments: Bool { true }
    package func knows(_ document: DocumentKey) -> Bool { true }
}

extension DecisionFacts {
    /// Whether two people are in one group.
    func areOne(_ one: PersonID, _ other: PersonID) -> Bool {
        one == other || group(of: one).root == group(of: other).root
    }

    package func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        group(of: one).merges.contains { $0.rule == rule && $0.isBetween(one, other) }
    }

    /// The numbers of rows of each kind and of identities of each type that one person has, without its group.
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

    /// The type under which a person holds an identity; nil if the person does not hold it.
    func type(of identity: IdentityKey, heldBy person: Person) -> IdentityType? {
        var found: IdentityType?
        forEachIdentity(of: person) { type, held in
            if held == identity { found = type }
            return found == nil
        }
        return found
    }

    /// Whether a person holds an identity of one of some types.
    func holds(_ person: Person, anyOf types: IdentityTypeSet) -> Bool {
        var found = false
        forEachIdentity(of: person) { type, _ in
            found = types.contains(type)
            return !found
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
