/// Who looks, as a call says it.
package struct AccessSession: Sendable {
    /// What the call says of the install and of who is signed in there.
    package enum Form: Sendable {
        /// Nothing but the user (the uid-switch view of plain clients).
        case plain
        /// All of it: the install's own user, and who is signed in, if anybody is.
        case exact(install: Identity?, identity: Identity?)
    }

    package let user: Identity
    package let form: Form

    package init(_ user: Identity, _ form: Form = .plain) {
        self.user = user
        self.form = form
    }

    package var identities: [Identity] {
        switch form {
        case .plain: [user]
        case .exact(let install, let identity): [user, install, identity].compactMap { $0 }
        }
    }
}

/// Who looks, as it was found out: the two principals that decide what is seen (spec/entitlements.md 2.4).
package struct AccessPrincipals: Equatable, Sendable {
    /// The user that the call names.
    package let user: AccessUser
    /// The install that the call comes from; nil where it is none.
    package let install: AccessUser?
    /// The user that the signed-in identity is linked to; nil where nobody is signed in.
    package let identity: AccessUser?
    /// Whether the call told all of that, so that what is bought by it is surely paid by the install's store account.
    package let isExact: Bool

    /// Finds out who looks.
    ///
    /// - Throws: `.noSuchUser`, or `.sessionMismatch` where the call contradicts itself.
    package init<Failure>(
        _ session: AccessSession, holder: (Identity) -> PersonID?, document: (DocumentKey) throws(Failure) -> [UInt8]?
    ) throws(AccessFault<Failure>) {
        func find(_ identity: Identity) throws(AccessFault<Failure>) -> AccessUser? {
            guard let person = holder(identity) else { return nil }
            do throws(Failure) {
                return try document(AccessUser.key(person)).flatMap { AccessUser(person, packed: $0) }
            } catch {
                throw .store(error)
            }
        }
        guard let user = try find(session.user) else { throw .refused(.noSuchUser) }
        self.user = user
        switch session.form {
        case .plain:
            install = user
            identity = user.identity == nil ? nil : user
            isExact = user.identity == nil
        case .exact(let install, let identity):
            var found: AccessUser?
            if let install {
                found = try find(install)
                guard found != nil else { throw .refused(.sessionMismatch) }
            }
            var signedIn: AccessUser?
            if let identity {
                // Whoever is signed in is the one that the path names.
                signedIn = try find(identity)
                guard let signedIn, signedIn.person == user.person else { throw .refused(.sessionMismatch) }
            } else {
                // Where nobody is signed in, the install's own user is the one that the path names.
                if let found, found.person != user.person { throw .refused(.sessionMismatch) }
                found = user
            }
            self.install = found
            self.identity = signedIn
            isExact = true
        }
    }

    /// The install whose store account pays now; nil where nobody can tell.
    var payer: AccessUser? { isExact ? install : nil }

    /// Whether a store account is the install's.
    func pays(_ account: StoreAccount?) -> Bool {
        guard let install, let account else { return false }
        switch account {
        case .install(let person): return person == install.person
        case .named(let hash): return install.accounts.contains(hash)
        }
    }

    /// By which rule a purchase is seen; nil where it is not (rule 4).
    package func rule(for purchase: Purchase) -> AccessRule? {
        if let identity, purchase.owners.contains(identity.person) { return .owner }
        guard pays(purchase.account) else { return nil }
        if identity == nil { return .storeAccount }
        return purchase.owners.isEmpty ? .unclaimed : nil
    }

    /// By which rule access that was given by hand is seen; nil where it is not (rule 7).
    func grants() -> [(AccessUser.Grant, AccessRule)] {
        let own = install?.grants.filter { !$0.isOfIdentity }.map { ($0, AccessRule.grantedToInstall) } ?? []
        let identitys = identity?.grants.filter(\.isOfIdentity).map { ($0, AccessRule.grantedToIdentity) } ?? []
        return own + identitys
    }
}

/// Why an entitlement is seen.
package enum AccessRule: Sendable {
    /// The purchase belongs to whoever is signed in.
    case owner
    /// Nobody is signed in, and the install's store account paid.
    case storeAccount
    /// Somebody is signed in, the install's store account paid, and the purchase belongs to nobody.
    case unclaimed
    case grantedToInstall
    case grantedToIdentity

    package var name: StaticString {
        switch self {
        case .owner: "owner"
        case .storeAccount: "store_account"
        case .unclaimed: "unclaimed"
        case .grantedToInstall: "granted_to_user"
        case .grantedToIdentity: "granted_to_identity"
        }
    }
}

/// Why principals were not found, or could not be read.
package enum AccessFault<Failure: Error>: Error {
    case refused(Refusal)
    case store(Failure)
}

/// What somebody may use, and may have used before.
package struct Access: Equatable, Sendable {
    package let entitlement: String
    package let startedAt: Instant
    /// Nil for ever.
    package let expiresAt: Instant?
    package let isActive: Bool
    /// The purchase that gives it; nil where it was given by hand.
    package let purchase: Purchase?
    package let isSubscription: Bool
    package let rule: AccessRule

    /// Whether it says more than another about the same entitlement: what is active goes first, then what lasts longer.
    fileprivate func precedes(_ other: Access) -> Bool {
        if isActive != other.isActive { return isActive }
        let (own, others) = (expiresAt?.milliseconds ?? .max, other.expiresAt?.milliseconds ?? .max)
        if own != others { return own > others }
        return startedAt < other.startedAt
    }

    /// All that the principals see, each entitlement once, in the order of their ids.
    package static func all(_ reasons: [Access]) -> [Access] {
        var best: [Access] = []
        for reason in reasons.sorted(by: { $0.entitlement.precedesByBytes($1.entitlement) }) {
            if let known = best.last, known.entitlement.hasSameBytes(as: reason.entitlement) {
                if reason.precedes(known) { best[best.count - 1] = reason }
            } else {
                best.append(reason)
            }
        }
        return best
    }

    /// Each reason for which the principals see an entitlement.
    package static func reasons<Failure>(
        for principals: AccessPrincipals, _ catalog: Catalog, at moment: Instant,
        document: (DocumentKey) throws(Failure) -> [UInt8]?
    ) throws(Failure) -> [Access] {
        var reasons = principals.grants().map { grant, rule in
            Access(
                entitlement: grant.entitlement, startedAt: grant.startedAt, expiresAt: grant.expiresAt,
                isActive: grant.isActive(at: moment), purchase: nil, isSubscription: false, rule: rule)
        }
        for purchase in try principals.purchases(document: document) {
            guard let rule = principals.rule(for: purchase) else { continue }
            guard let product = catalog.product(purchase.product) else { continue }
            for entitlement in product.entitlements {
                reasons.append(
                    Access(
                        entitlement: entitlement, startedAt: purchase.startedAt,
                        expiresAt: purchase.revokedAt ?? purchase.expiry(product),
                        isActive: purchase.isActive(at: moment, product), purchase: purchase,
                        isSubscription: purchase.isSubscription(product), rule: rule))
            }
        }
        return reasons
    }
}

extension AccessPrincipals {
    /// The purchases that may be seen, each once.
    func purchases<Failure>(document: (DocumentKey) throws(Failure) -> [UInt8]?) throws(Failure) -> [Purchase] {
        var ids = identity?.owned ?? []
        if let install {
            ids += install.paid
            for account in install.accounts {
                ids += NamedAccount(account, packed: try document(NamedAccount.key(account))).paid
            }
        }
        var seen: Set<PurchaseID> = []
        var purchases: [Purchase] = []
        for id in ids where seen.insert(id).inserted {
            guard let purchase = try document(id.key).flatMap({ Purchase(id, packed: $0) }) else { continue }
            purchases.append(purchase)
        }
        return purchases
    }
}
