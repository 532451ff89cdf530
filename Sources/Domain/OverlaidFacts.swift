/// Facts of another view with other groups.
package protocol OverlaidFacts: DecisionFacts where Person == Base.Person {
    associatedtype Base: DecisionFacts
    var base: Base { get }
}

extension OverlaidFacts {
    package func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void) {
        base.forEachHolder(of: identity, body)
    }
    package func holderCount(of identity: IdentityKey) -> Int { base.holderCount(of: identity) }
    package func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool) {
        base.forEachIdentity(of: person, body)
    }
    package func identityCount(of person: Person) -> Int { base.identityCount(of: person) }
    package func id(of person: Person) -> PersonID { base.id(of: person) }
    package func person(_ id: PersonID, in project: ProjectID) -> Person? { base.person(id, in: project) }
    package func person(_ id: PersonID) -> Person? { base.person(id) }
    package func isErased(_ id: PersonID) -> Bool { base.isErased(id) }
    package func lastSeen(of person: Person) -> SeenAt { base.lastSeen(of: person) }
    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int { base.rowCount(of: person, kind) }
    package func document(_ key: DocumentKey) -> [UInt8]? { base.document(key) }
    package func knowsRow(_ hash: RowHash) -> Bool { base.knowsRow(hash) }
    package func namedRow(_ hash: RowHash) -> NamedRow? { base.namedRow(hash) }
    package var hasDocuments: Bool { base.hasDocuments }
    package func holdersByAge(of identity: IdentityKey) -> [Person] { base.holdersByAge(of: identity) }
    package var directory: Directory { base.directory }
    package func strategy(of project: ProjectID) -> Strategy { base.strategy(of: project) }
    package func strategies(of project: ProjectID) -> StrategyHistory { base.strategies(of: project) }
    package func merge(_ id: MergeID) -> Merge? { base.merge(id) }
    package func knows(_ document: DocumentKey) -> Bool { base.knows(document) }
}
