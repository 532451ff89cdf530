package import Foundation

/// The server's answer to the start of an app: the project's offerings, and the history of the user's entitlements
/// (spec/entitlements-live.md 1.2). The answer has no signature, so it never decides whether the user may use something.
package struct Launch: Hashable, Sendable {
    /// The offerings, in the server's order.
    package let offerings: [Offering]
    /// The histories of the entitlements by name.
    package let histories: [String: History]

    /// Products that an app shows together.
    package struct Offering: Hashable, Sendable {
        /// The offering's id.
        package let id: String
        /// The server's number for the offering's mark: 1 for the main offering, 0 for others.
        package let tag: Int
        /// The products, in the order in which the app shows them.
        package let products: [CatalogProduct]
    }

    /// The history of an entitlement's purchase.
    package struct History: Hashable, Sendable {
        /// The number of renewals.
        package let renewals: Int
        /// The start of the trial.
        package let trialStarted: Date?
        /// The time of the first purchase.
        package let firstPurchased: Date?
        /// The time of the last purchase.
        package let lastPurchased: Date?
        /// The code of the last offer.
        package let offerCode: String?
        /// The server's word for the way in which the person got the entitlement.
        package let grantType: String?
        /// The time at which the person ended the renewal.
        package let renewalEnded: Date?
        /// The latest transactions, the latest first.
        package let transactions: [Transaction]
    }

    /// A transaction of a shop.
    package struct Transaction: Hashable, Sendable {
        /// The shop's id of the transaction.
        package let id: String
        /// The shop's id of the first transaction of the same purchase.
        package let original: String
        /// The time of the transaction.
        package let at: Date
        /// The time at which the paid time ends.
        package let expires: Date?
        /// The time at which the shop took the transaction back.
        package let revoked: Date?
        /// The code of the offer.
        package let offerCode: String?
        /// The server's word for the environment: `sandbox` or `production`.
        package let environment: String?
        /// The server's word for the person's right to the transaction: `owner` or `family_sharing`.
        package let ownership: String?
        /// The server's word for the kind of transaction: `subscription_renewed`, …
        package let kind: String?
    }

    /// Reads the part `data` of the answer; nil for another answer.
    init?(_ data: JSON) {
        guard let offerings = data["offerings"]?.elements, let permissions = data["permissions"]?.elements else {
            return nil
        }
        self.offerings = offerings.compactMap(Offering.init)
        let pairs = permissions.compactMap { entry in entry["id"]?.text.map { ($0, History(entry)) } }
        histories = Dictionary(pairs, uniquingKeysWith: { $1 })
    }
}

extension Launch.Offering {
    fileprivate init?(_ json: JSON) {
        guard let id = json["id"]?.text else { return nil }
        self.id = id
        tag = Int(json["tag"]?.integer ?? -1)
        products = (json["products"]?.elements ?? []).compactMap { product in
            product["id"]?.text.map {
                CatalogProduct(id: $0, storeID: product["store_id"]?.text, offeringID: id)
            }
        }
    }
}

extension JSON {
    /// A time in seconds since 1970.
    fileprivate func date(_ name: String) -> Date? {
        self[name]?.integer.map { Date(timeIntervalSince1970: Double($0)) }
    }
}

extension Launch.Transaction {
    fileprivate init?(_ json: JSON) {
        guard let id = json["transaction_id"]?.text else { return nil }
        (self.id, original) = (id, json["original_transaction_id"]?.text ?? id)
        at = json.date("transaction_timestamp") ?? Date(timeIntervalSince1970: 0)
        (expires, revoked) = (json.date("expiration_timestamp"), json.date("transaction_revoke_timestamp"))
        (offerCode, kind) = (json["offer_code"]?.text, json["type"]?.text)
        (environment, ownership) = (json["environment"]?.text, json["ownership_type"]?.text)
    }
}

extension Launch.History {
    fileprivate init(_ json: JSON) {
        renewals = Int(json["renews_count"]?.integer ?? 0)
        (trialStarted, renewalEnded) = (json.date("trial_start_timestamp"), json.date("auto_renew_disable_timestamp"))
        firstPurchased = json.date("first_purchase_timestamp")
        lastPurchased = json.date("last_purchase_timestamp")
        (offerCode, grantType) = (json["last_activated_offer_code"]?.text, json["grant_type"]?.text)
        transactions = (json["store_transactions"]?.elements ?? []).compactMap(Launch.Transaction.init)
    }
}

/// The last launch answer that a device keeps, with the user of the answer.
struct KeptLaunch {
    let user: AccessUser
    let at: Date
    /// The number of purchases and restores before the answer; nil for an answer from an earlier process.
    let grants: Int?
    let data: JSON
    let launch: Launch

    init?(_ data: JSON, of user: AccessUser, at: Date, grants: Int?) {
        guard let launch = Launch(data) else { return nil }
        (self.user, self.at, self.grants, self.launch) = (user, at, grants, launch)
        self.data = .sparse(["offerings": data["offerings"] ?? .null, "permissions": data["permissions"] ?? .null])
    }

    init?(kept: JSON?) {
        guard let kept, let data = kept["l"], let id = kept["u"]?.text, let device = kept["d"]?.text else { return nil }
        self.init(
            data, of: AccessUser(id: id, deviceID: device, identityID: kept["i"]?.text),
            at: Date(milliseconds: kept["t"]?.integer ?? 0), grants: nil)
    }

    var kept: JSON {
        .sparse([
            "u": .string(user.id), "d": .string(user.deviceID), "i": .optional(user.identityID),
            "t": .integer(at.milliseconds), "l": data,
        ])
    }
}

extension Access {
    /// Answers the project's offerings and the histories of the user's entitlements. If the server cannot answer, the last answer
    /// for this user counts, as long as ``Configuration/accessLifetime`` says.
    /// - Parameters:
    ///   - seconds: the greatest age of the answer; nil to ask the server.
    ///   - callback: a callback for the answer.
    package func launch(newerThan seconds: TimeInterval?, callback: @escaping Callback<Launch>) {
        perform(.launch(seconds), \.launch, callback)
    }

    /// The last launch answer for the user, without waiting.
    package var knownLaunch: Launch? { onym.entitlements?.knownLaunch }
}
