/// A fact of a project, as an export of all people has it (docs/moving-out.md).
package enum ExportedFact: Equatable, Sendable {
    case person(PersonID, made: Instant, seen: Instant)
    /// - Parameters:
    ///   - since: the moment at which the link began; nil for a link that began before the export's first call.
    ///   - until: the moment at which the link ended; nil for a link in force.
    case link(PersonID, IdentityType, String, since: Instant?, until: Instant?)
    /// A property; without a value the person has no such property any more.
    case property(PersonID, Dialect, name: String, Attributes.Entry)
    case row(StoredRow)
    /// - Parameter renewal: the state of the renewal, with the last transaction of the purchase.
    case purchase(Principal, Purchase, Purchase.Transaction, renewal: Purchase.RenewalState?)
    case grant(Principal, AccessUser.Grant)
    case install(Install)
    case alias(Alias)
    case merge(Merge, at: Instant, undone: Instant?)
    /// A person that a call erased. The facts about the person leave every copy.
    case erased(PersonID)

    /// The identity that has the access of a user.
    package struct Principal: Equatable, Sendable {
        package let type: IdentityType
        package let value: String
        package let world: AccessWorld

        init(_ user: AccessUser, isOfIdentity: Bool) {
            world = user.isForTrying ? .sandbox : .production
            if isOfIdentity, let identity = user.identity {
                (type, value) = (world.identityType, identity)
            } else {
                (type, value) = (world.userType, user.id)
            }
        }
    }

    /// The kind of a fact. The names are part of the form, and those of an import are the same.
    package enum Kind: String, CaseIterable, Sendable {
        case person, link, property, row, purchase, grant, install, alias, merge, erased
    }

    package var kind: Kind {
        switch self {
        case .person: .person
        case .link: .link
        case .property: .property
        case .row: .row
        case .purchase: .purchase
        case .grant: .grant
        case .install: .install
        case .alias: .alias
        case .merge: .merge
        case .erased: .erased
        }
    }
}

/// A fact in an export, and what the tables of a warehouse say of it beside the fact.
package struct ExportedLine: Equatable, Sendable {
    package let fact: ExportedFact
    /// The call that made the fact. Lines of rows, access, installs and aliases have none.
    package internal(set) var made: RecordedCall?
    /// The call that ended the fact.
    package internal(set) var ended: CallHead?
    /// The place of a link among the links of its call.
    package internal(set) var place = 0
    /// The person that has a purchase or a grant.
    package internal(set) var holder: PersonID?
    /// The entitlements that a purchase gives, by the catalog of the moment of the reading.
    package internal(set) var entitlements: [String] = []
    /// The moment at which the server got a row.
    package internal(set) var receivedAt: Instant?

    init(_ fact: ExportedFact, made: RecordedCall? = nil, ended: CallHead? = nil) {
        (self.fact, self.made, self.ended) = (fact, made, ended)
    }
}
