/// A record of an import: one line of the form `facts` (docs/moving-in.md).
package struct ImportRecord: Sendable {
    /// The name of a person in a file: the person's id, or the name that another vendor had for the person.
    package enum Owner: Sendable {
        case id(PersonID)
        /// An identity of the type ``IdentityType/importedID``, or the principal of a purchase.
        case key(Identity)
    }

    /// The kind of a record. The names are part of the form.
    package enum Kind: String, CaseIterable, Sendable {
        case person, link, property, row, purchase, grant, install, alias, merge, split
    }

    package enum Content: Sendable {
        case person(made: Instant?, seen: Instant?)
        case link(Identity, since: Instant?, until: Instant?)
        case property(DocumentKind, Attributes.Write, at: Instant?)
        /// - Parameter isNamedAlone: whether the row's hash recognizes it without its person.
        case row(Row, isNamedAlone: Bool)
        case purchase(Receipt)
        case grant(entitlement: String, from: Instant, until: Instant?)
        case merge(into: Owner, Merge.Rule)
        case alias(into: Owner, start: Instant, end: Instant)
        /// A record that cannot be imported, with the reason.
        case unfit(ImportOutcome.Reason)
    }

    package let line: Int
    package let kind: Kind
    /// The person of the record; the source of a merge and of an alias.
    package let owner: Owner
    package let content: Content
    /// The id of the user of access that the record may make, for a record with an identity of access.
    package let user: Identity?
    /// Whether the record counts although an erasure has left a tombstone of its value.
    package let isAgain: Bool

    package init(
        line: Int, kind: Kind, owner: Owner, content: Content, user: Identity? = nil, isAgain: Bool = false
    ) {
        self.line = line
        self.kind = kind
        self.owner = owner
        self.content = content
        self.user = user
        self.isAgain = isAgain
    }

    /// The moment since which the fact of the record holds, by the file.
    var since: Instant? {
        switch content {
        case .person(let made, _): made
        case .link(_, let since, _): since
        case .property(_, _, let at): at
        case .row(let row, _): row.at
        case .purchase(let receipt): receipt.told.startedAt
        case .grant(_, let from, _): from
        case .merge, .unfit: nil
        case .alias(_, let start, _): start
        }
    }
}

/// The result of a record.
package enum ImportOutcome: Equatable, Sendable {
    /// The store has the fact now.
    case taken
    /// The store had the fact already, or a newer one.
    case same
    /// Another person holds the identity, and the import merged the two people.
    case joined
    case refused(Reason)

    /// The reason why a record was refused. The names are part of the API, and stores keep the numbers.
    package enum Reason: UInt8, CaseIterable, Error {
        case idTaken = 16
        case erased = 17
        case held = 18
        case twoOwners = 19
        case limit = 20
        case tooLong = 21
        case blocked = 22
        case malformed = 23
        case tooCommon = 24
        case noSuchPerson = 25
        case noSuchEntitlement = 26
        case otherIdentity = 27
        case keptApart = 28
        case groupFull = 29
        case past = 30
        case unsupported = 31

        package var name: StaticString {
            switch self {
            case .idTaken: "id_taken"
            case .erased: "erased"
            case .held: "held"
            case .twoOwners: "two_owners"
            case .limit: "limit"
            case .tooLong: "too_long"
            case .blocked: "blocked"
            case .malformed: "malformed"
            case .tooCommon: "too_common"
            case .noSuchPerson: "no_such_person"
            case .noSuchEntitlement: "no_such_entitlement"
            case .otherIdentity: "other_identity"
            case .keptApart: "kept_apart"
            case .groupFull: "group_full"
            case .past: "past"
            case .unsupported: "unsupported"
            }
        }
    }

    package var isRefused: Bool { if case .refused = self { true } else { false } }

    var number: UInt8 {
        switch self {
        case .taken: 0
        case .same: 1
        case .joined: 2
        case .refused(let reason): reason.rawValue
        }
    }

    init?(number: UInt8) {
        switch number {
        case 0: self = .taken
        case 1: self = .same
        case 2: self = .joined
        default:
            guard let reason = Reason(rawValue: number) else { return nil }
            self = .refused(reason)
        }
    }

    package var name: StaticString {
        switch self {
        case .taken: "taken"
        case .same: "same"
        case .joined: "joined"
        case .refused(let reason): reason.name
        }
    }
}

extension IdentityType {
    /// Whether one person at most can hold a value, whatever the strategy says.
    var isAlwaysUnique: Bool { dialect != .idsync }
}
