/// The session of a call: the user, the install and the signed-in identity that the call names.
package struct AccessSession: Sendable {
    /// The data of a call about the install and the signed-in identity.
    package enum Form: Sendable {
        /// Only the user. Vendor's clients name no more.
        case plain
        /// Only the user, whose receipts come from its own install, also while it has an identity (the first two generations).
        /// The user of an identity has several devices, and only the first of them is its own install.
        ///
        /// - Parameter device: the hash of the device; nil if the call does not name one.
        case install(device: Hash128?)
        /// The install's own user, and the signed-in identity if there is one.
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
        case .plain, .install: [user]
        case .exact(let install, let identity): [user, install, identity].compactMap { $0 }
        }
    }
}

/// The two principals of a session, which decide what the session sees (spec/entitlements.md 2.4).
package struct AccessPrincipals: Equatable, Sendable {
    /// The user of the call.
    package let user: AccessUser
    /// The install of the call; nil if the call has no install.
    package let install: AccessUser?
    /// The user with the signed-in identity; nil if nobody is signed in.
    package let identity: AccessUser?
    /// Whether the call named all principals. Then the install's store account pays for purchases of the call.
    package let isExact: Bool
    /// The purchases that the call itself has proven. They count for its answer, also if the install has not joined their
    /// account.
    package var proven: Set<PurchaseID> = []

    /// Finds the principals of a session.
    ///
    /// - Throws: `.noSuchUser`, or `.sessionMismatch` if the call contradicts itself.
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
        case .install(let device):
            install = user
            identity = user.identity == nil ? nil : user
            let isOther = device.map { device in user.device.map { $0 != device } ?? false } ?? false
            isExact = user.identity == nil || !isOther
        case .exact(let install, let identity):
            var found: AccessUser?
            if let install {
                found = try find(install)
                guard found != nil else { throw .refused(.sessionMismatch) }
            }
            var signedIn: AccessUser?
            if let identity {
                // The signed-in user is the user of the path.
                signedIn = try find(identity)
                guard let signedIn, signedIn.person == user.person else { throw .refused(.sessionMismatch) }
            } else {
                // Without a signed-in user, the install's own user is the user of the path.
                if let found, found.person != user.person { throw .refused(.sessionMismatch) }
                found = user
            }
            self.install = found
            self.identity = signedIn
            isExact = true
        }
    }

    /// The install whose store account pays now; nil if the install is unknown.
    var payer: AccessUser? { isExact ? install : nil }

    /// Whether the install has joined the store account that paid, by any name of the account.
    func pays(_ purchase: Purchase) -> Bool {
        guard let install else { return false }
        return purchase.installs.contains(install.person) || proven.contains(purchase.id)
            || purchase.accounts.contains { install.accounts.contains($0) }
    }

    /// The rule by which the principals see a purchase; nil for a purchase that they do not see (rule 4).
    package func rule(for purchase: Purchase) -> AccessRule? {
        if let identity, purchase.owners.contains(identity.person) { return .owner }
        guard pays(purchase) else { return nil }
        if identity == nil { return .storeAccount }
        return purchase.owners.isEmpty ? .unclaimed : nil
    }

    /// The grants that the principals see, with their rules (rule 7).
    func grants() -> [(AccessUser.Grant, AccessRule)] {
        let own = install?.grants.filter { !$0.isOfIdentity }.map { ($0, AccessRule.grantedToInstall) } ?? []
        let identitys = identity?.grants.filter(\.isOfIdentity).map { ($0, AccessRule.grantedToIdentity) } ?? []
        return own + identitys
    }
}

/// The rule by which an entitlement is visible.
package enum AccessRule: Sendable {
    /// The purchase belongs to the signed-in identity.
    case owner
    /// Nobody is signed in, and the install's store account paid.
    case storeAccount
    /// A user is signed in, the install's store account paid, and the purchase has no owner.
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

/// The reason why principals were not found or not readable.
package enum AccessFault<Failure: Error>: Error {
    case refused(Refusal)
    case store(Failure)
}

/// An entitlement that the principals have or had.
package struct Access: Equatable, Sendable {
    package let entitlement: String
    package let startedAt: Instant
    /// The end of the access; nil for access without an end.
    package let expiresAt: Instant?
    package let isActive: Bool
    /// The purchase that gives the access; nil for a grant.
    package let purchase: Purchase?
    /// The product of the purchase; nil for a grant.
    package let product: Catalog.Product?
    package let isSubscription: Bool
    package let rule: AccessRule

    /// Whether this access is better than another access of the same entitlement: active access first, then the later end.
    fileprivate func precedes(_ other: Access) -> Bool {
        if isActive != other.isActive { return isActive }
        let (own, others) = (expiresAt?.milliseconds ?? .max, other.expiresAt?.milliseconds ?? .max)
        if own != others { return own > others }
        return startedAt < other.startedAt
    }

    /// All entitlements of the principals, each once, in the order of their ids.
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

    /// All reasons for which the principals see an entitlement.
    package static func reasons<Failure>(
        for principals: AccessPrincipals, _ catalog: Catalog, at moment: Instant,
        document: (DocumentKey) throws(Failure) -> [UInt8]?
    ) throws(Failure) -> [Access] {
        var reasons = principals.grants().map { grant, rule in
            Access(
                entitlement: grant.entitlement, startedAt: grant.startedAt, expiresAt: grant.expiresAt,
                isActive: grant.isActive(at: moment), purchase: nil, product: nil,
                isSubscription: false, rule: rule)
        }
        for purchase in try principals.purchases(document: document) {
            guard let rule = principals.rule(for: purchase) else { continue }
            guard let product = catalog.product(purchase.product) else { continue }
            for entitlement in product.entitlements {
                reasons.append(
                    Access(
                        entitlement: entitlement, startedAt: purchase.startedAt,
                        expiresAt: purchase.end(shownAt: moment, product),
                        isActive: purchase.isActive(at: moment, product), purchase: purchase,
                        product: product, isSubscription: purchase.isSubscription(product), rule: rule))
            }
        }
        return reasons
    }
}

extension AccessPrincipals {
    /// The visible purchases, each once.
    package func purchases<Failure>(document: (DocumentKey) throws(Failure) -> [UInt8]?) throws(Failure) -> [Purchase] {
        var ids = identity?.owned ?? []
        if let install {
            ids += install.paid
            for account in install.accounts {
                ids += NamedAccount(account, packed: try document(NamedAccount.key(account))).paid
            }
        }
        ids += proven.sorted { ($0.hash.high, $0.hash.low) < ($1.hash.high, $1.hash.low) }
        var seen: Set<PurchaseID> = []
        var purchases: [Purchase] = []
        for id in ids where seen.insert(id).inserted {
            guard let purchase = try document(id.key).flatMap({ Purchase(id, packed: $0) }) else { continue }
            purchases.append(purchase)
        }
        return purchases
    }
}

extension AccessSession {
    /// The signed-in user of the session. A session that does not name its principals counts as signed in.
    package var userSignedIn: Identity? {
        if case .exact(_, nil) = form { nil } else { user }
    }
}
