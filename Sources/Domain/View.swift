/// Where documents are to be found, for decisions that need nothing else.
package protocol DocumentView {
    /// The document under a key.
    func document(_ key: DocumentKey) -> [UInt8]?
}

/// What a decision can see of the facts.
///
/// A view answers about single people, as if nobody had ever been merged: decisions are made on members (DESIGN 1).
/// The order in which it goes through things means nothing, so no decision may depend on it.
package protocol View: DocumentView {
    /// How this view points at a person.
    associatedtype Person: Equatable

    /// Goes through the people that hold an identity.
    func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void)

    /// How many people hold an identity.
    func holderCount(of identity: IdentityKey) -> Int

    /// Goes through the identities that a person holds; stops when the body answers false.
    func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool)

    func id(of person: Person) -> PersonID

    /// The person with an id, if that is one of the project.
    func person(_ id: PersonID, in project: ProjectID) -> Person?

    /// Whether there was a person with an id, who was erased.
    func isErased(_ id: PersonID) -> Bool

    /// When something was last heard of a person.
    func lastSeen(of person: Person) -> Instant

    /// A merge that is in force.
    func merge(_ id: MergeID) -> Merge?

    /// Whom a person is read as: itself, or the one that it has become.
    func root(of person: PersonID) -> PersonID

    /// All that are one with a person, itself among them.
    func members(of person: PersonID) -> [PersonID]

    /// The merges in force by which a person is one with others, in the order in which they were made.
    func merges(of person: PersonID) -> [Merge]

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
}

extension View {
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
