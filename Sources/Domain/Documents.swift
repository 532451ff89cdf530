/// What a document is about. The raw values are stored: they never change.
package enum DocumentKind: UInt8, Sendable {
    /// The attributes of a person in IDSync.
    case attributes = 1
    /// An alias, by its id.
    case alias = 2
    /// The ids of a person's aliases.
    case aliasesOfPerson = 3
    /// What the Claim dialect keeps of a user.
    case appUser = 4
    /// The properties of a user in Claim.
    case properties = 5
}

/// By what a document is found.
///
/// A document is something small that belongs together and is kept whole: a decision reads it, and puts another in its
/// place. The earlier ones stay as history.
package struct DocumentKey: Hashable, Sendable {
    package let kind: DocumentKind
    package let hash: Hash128

    package init(_ kind: DocumentKind, hash: Hash128) {
        self.kind = kind
        self.hash = hash
    }

    /// The document of a kind that something with an id has.
    package init(_ kind: DocumentKind, of id: Int64) {
        self.init(kind, hash: Hash128(high: 0, low: UInt64(bitPattern: id)))
    }

    package init(_ kind: DocumentKind, of person: PersonID) { self.init(kind, of: person.rawValue) }
}
