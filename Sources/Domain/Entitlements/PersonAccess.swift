/// The access of a person now, with its reasons, and the access that ended, with the reasons why (spec/taking-back.md, section
/// 2). The answer is for support: it shows all members of the group together, although access belongs to principals.
package struct PersonAccess: Sendable {
    /// One reason for which a member has an entitlement.
    package struct Because: Sendable {
        package let member: PersonID
        /// The name of the principal: the identity of the member, or else the id of its install's user.
        package let principal: String
        /// The purchase; nil for a grant.
        package let purchase: Purchase?
        /// The rule by which the member sees the purchase or the grant.
        package let rule: AccessRule
        package let since: Instant
        package let until: Instant?
        /// The kind of the call that gave the member the purchase of somebody else; nil if the member had it first.
        package let movedBy: String?
    }

    /// An entitlement that is active.
    package struct Entitlement: Sendable {
        package let id: String
        package internal(set) var because: [Because] = []

        /// The end of the access; nil for access without an end.
        package var until: Instant? {
            because.contains { $0.until == nil } ? nil : because.compactMap(\.until).max()
        }
    }

    /// An entitlement that a member had, or that it has not.
    package struct Ended: Sendable {
        /// The reason. The raw values are part of the API.
        package enum Why: String, CaseIterable, Sendable {
            case expired, refunded, transferred, replaced
            /// The store account of the member paid, and the purchase belongs to another identity.
            case otherIdentity = "other_identity"
        }

        package let entitlement: String
        package let member: PersonID
        /// The purchase; nil for a grant.
        package let purchase: Purchase?
        package let why: Why
        package let at: Instant?
        /// The names of the present owners, for a purchase of somebody else.
        package let to: [String]
    }

    package private(set) var entitlements: [Entitlement] = []
    package private(set) var ended: [Ended] = []

    /// The greatest number of earlier versions of a member's access that are read.
    private static let versionsAtMost = 200

    /// Reads the access of all members of a person's group.
    package init(
        of person: PersonID, in project: ProjectID, at moment: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        try self.init(of: snapshot.group(of: person).members, in: project, at: moment, snapshot)
    }

    /// Reads the access of some members of a group.
    package init(
        of members: [PersonID], in project: ProjectID, at moment: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let catalog = try snapshot.catalog(of: project)
        for member in members {
            guard let user = try snapshot.accessUser(member) else { continue }
            for grant in user.grants {
                let rule: AccessRule = grant.isOfIdentity ? .grantedToIdentity : .grantedToInstall
                if grant.isActive(at: moment) {
                    add(
                        grant.entitlement,
                        Because(
                            member: member, principal: user.principal, purchase: nil, rule: rule,
                            since: grant.startedAt, until: grant.expiresAt, movedBy: nil))
                } else {
                    ended.append(
                        Ended(
                            entitlement: grant.entitlement, member: member, purchase: nil, why: .expired,
                            at: grant.expiresAt, to: []))
                }
            }
            let past = try PersonAccess.past(of: user, snapshot)
            // A lost purchase may still be one that the store account of the member paid for.
            let present = try user.purchases(snapshot)
            let lost = Set(past.lost.keys).subtracting(present)
            for id in present + lost.sorted(by: { $0.hash.low < $1.hash.low }) {
                guard let purchase = try snapshot.purchase(id), let product = catalog.product(purchase.product) else {
                    continue
                }
                try add(purchase, product, of: user, past, at: moment, snapshot)
            }
        }
        entitlements.sort { $0.id.precedesByBytes($1.id) }
        // An entitlement that ended for one reason and is active for another is active.
        ended.sort { $0.entitlement.precedesByBytes($1.entitlement) }
    }

    private mutating func add(
        _ purchase: Purchase, _ product: Catalog.Product, of user: AccessUser, _ past: Past, at moment: Instant,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let access = purchase.access(at: moment, product)
        let rule = user.rule(for: purchase)
        for entitlement in product.entitlements {
            if let rule, access.isActive {
                add(
                    entitlement,
                    Because(
                        member: user.person, principal: user.principal, purchase: purchase, rule: rule,
                        since: purchase.startedAt, until: access.until, movedBy: past.gained[purchase.id]))
                continue
            }
            let why: Ended.Why
            var at = access.until
            if rule == nil {
                why = past.lost[purchase.id] == nil ? .otherIdentity : .transferred
                at = past.lost[purchase.id]
            } else if purchase.replacedBy != nil {
                why = .replaced
            } else {
                why = purchase.revokedAt == nil ? .expired : .refunded
            }
            var owners: [String] = []
            if rule == nil {
                for owner in purchase.owners {
                    if let owner = try snapshot.accessUser(owner) { owners.append(owner.principal) }
                }
            }
            ended.append(
                Ended(
                    entitlement: entitlement, member: user.person, purchase: purchase, why: why, at: at, to: owners))
        }
    }

    private mutating func add(_ entitlement: String, _ reason: Because) {
        if let place = entitlements.firstIndex(where: { $0.id.hasSameBytes(as: entitlement) }) {
            entitlements[place].because.append(reason)
        } else {
            entitlements.append(Entitlement(id: entitlement, because: [reason]))
        }
    }

    /// The purchases that a user had and lost, and the calls that gave it purchases.
    private struct Past {
        /// The moments at which the user lost purchases.
        var lost: [PurchaseID: Instant] = [:]
        /// The kinds of the calls that moved purchases to the user.
        var gained: [PurchaseID: String] = [:]
    }

    /// Reads the purchases of a user in the earlier versions of its document.
    private static func past(of user: AccessUser, _ snapshot: any Snapshot) throws(StoreFault) -> Past {
        var past = Past()
        var later = Set(user.owned)
        var call: RecordedCall?
        for version in try snapshot.versions(of: AccessUser.key(user.person), since: .zero).prefix(versionsAtMost) {
            let content = try snapshot.content(of: version).flatMap { AccessUser(user.person, packed: $0) }
            let owned = Set(content?.owned ?? [])
            // The version after this one lost or gained what differs.
            for id in owned.subtracting(later) where past.lost[id] == nil && !user.owned.contains(id) {
                past.lost[id] = call?.at
            }
            for id in later.subtracting(owned) where past.gained[id] == nil && user.owned.contains(id) {
                if let call, call.kind != .recordPurchase, call.kind != .accessIdentity {
                    past.gained[id] = call.kind.name
                }
            }
            later = owned
            call = try snapshot.call(version.madeBy)
        }
        for id in later where past.gained[id] == nil && user.owned.contains(id) {
            if let call, call.kind == .restorePurchases || call.kind == .movePurchase {
                past.gained[id] = call.kind.name
            }
        }
        return past
    }
}

extension AccessUser {
    /// The name of the principal: the identity, or else the id of the install's user.
    package var principal: String { identity ?? id }

    /// The purchases of the identity, and those of the install's store accounts, each once.
    fileprivate func purchases(_ snapshot: any Snapshot) throws(StoreFault) -> [PurchaseID] {
        var ids = owned + paid
        for account in accounts {
            ids += NamedAccount(account, packed: try snapshot.document(NamedAccount.key(account))).paid
        }
        var seen: Set<PurchaseID> = []
        return ids.filter { seen.insert($0).inserted }
    }

    /// The rule by which the user sees a purchase; nil for a purchase that it does not see.
    fileprivate func rule(for purchase: Purchase) -> AccessRule? {
        if identity != nil, purchase.owners.contains(person) { return .owner }
        guard purchase.installs.contains(person) || purchase.accounts.contains(where: accounts.contains) else {
            return nil
        }
        if identity == nil { return .storeAccount }
        return purchase.owners.isEmpty ? .unclaimed : nil
    }
}
