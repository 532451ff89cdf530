public import Foundation
import Onym

// Transactions and purchases of the app's own, and the vendor's names of callbacks.

extension Qonversion {
    /// A transaction of a shop.
    public struct Transaction: Hashable, Sendable {
        /// The shop's id of the first transaction of the same purchase.
        public let originalTransactionId: String
        /// The shop's id of the transaction.
        public let transactionId: String
        /// The code of the offer.
        public let offerCode: String?
        /// The time of the transaction; the beginning of 1970 if the server does not say it.
        public let transactionDate: Date
        /// The time at which the paid time ends; nil for a purchase without an end.
        public let expirationDate: Date?
        /// The time at which the shop took the transaction back.
        public let transactionRevocationDate: Date?
        /// Inert: the id of the offer for one user. The server does not know it: nil.
        public var promoOfferId: String? {
            Qonversion.shared().note("Transaction.promoOfferId")
            return nil
        }
        /// The environment of the transaction.
        public let environment: TransactionEnvironment
        /// The person's right to the transaction.
        public let ownershipType: TransactionOwnershipType
        /// The kind of transaction.
        public let type: TransactionType

        init(_ transaction: Launch.Transaction) {
            (transactionId, originalTransactionId) = (transaction.id, transaction.original)
            (transactionDate, expirationDate) = (transaction.at, transaction.expires)
            (transactionRevocationDate, offerCode) = (transaction.revoked, transaction.offerCode)
            environment = transaction.environment == "sandbox" ? .sandbox : .production
            ownershipType = transaction.ownership == "family_sharing" ? .familySharing : .owner
            type = TransactionType(wireName: transaction.kind)
        }
    }

    /// The environments of transactions. The raw values are the vendor's.
    public enum TransactionEnvironment: Int, CaseIterable, Sendable {
        /// The environment of developers.
        case sandbox = 0
        /// The environment of customers.
        case production = 1
    }

    /// The rights to a transaction. The raw values are the vendor's.
    public enum TransactionOwnershipType: Int, CaseIterable, Sendable {
        /// The person has bought the product.
        case owner = 0
        /// A member of the person's family has bought the product.
        case familySharing = 1
    }

    /// The kinds of transactions. The raw values are the vendor's.
    public enum TransactionType: Int, CaseIterable, Sendable {
        /// The kind is unknown.
        case unknown = 0
        /// The start of a subscription.
        case subscriptionStarted = 1
        /// The renewal of a subscription.
        case subscriptionRenewed = 2
        /// The start of a free trial.
        case trialStarted = 3
        /// The start of a time with a lower price.
        case introStarted = 4
        /// The renewal of a time with a lower price.
        case introRenewed = 5
        /// The purchase of a product that the person keeps.
        case nonConsumablePurchase = 6

        init(wireName: String?) {
            switch wireName {
            case "subscription_started": self = .subscriptionStarted
            case "subscription_renewed": self = .subscriptionRenewed
            case "trial_started": self = .trialStarted
            case "intro_started": self = .introStarted
            case "intro_renewed": self = .introRenewed
            case "nonconsumable_purchase": self = .nonConsumablePurchase
            default: self = .unknown
            }
        }
    }

    /// A purchase that the app has made itself with StoreKit 2.
    public final class StoreKit2PurchaseModel {
        /// The shop's id of the product.
        public var productId = ""
        /// The price.
        public var price = ""
        /// The currency.
        public var currency = ""
        /// The shop's id of the transaction.
        public var transactionId = ""
        /// The shop's id of the first transaction of the same purchase.
        public var originalTransactionId = ""
        /// The unit of a subscription's period.
        public var subscriptionPeriodUnit: String?
        /// The number of units of a subscription's period.
        public var subscriptionPeriodNumberOfUnits: String?
        /// The introductory price.
        public var introductoryPrice: String?
        /// The number of periods with the introductory price.
        public var introductoryNumberOfPeriods: String?
        /// The unit of the periods with the introductory price.
        public var introductoryPeriodUnit: String?
        /// The number of units of the periods with the introductory price.
        public var introductoryPeriodNumberOfUnits: String?
        /// The way to pay the introductory price.
        public var introductoryPaymentMode: String?
        /// The country of the shop.
        public var storefrontCountryCode: String?

        /// Makes a purchase.
        public init() {}
    }

    // MARK: - Callbacks

    /// A callback for entitlements.
    public typealias EntitlementsCompletionHandler = ([String: Entitlement], (any Error)?) -> Void
    /// A callback for the end of a purchase: the entitlements, the error, and whether the person has canceled the purchase.
    public typealias PurchaseCompletionHandler = ([String: Entitlement], (any Error)?, Bool) -> Void
    /// A function that goes on with a purchase of the App Store.
    public typealias PromoPurchaseCompletionHandler = (@escaping PurchaseCompletionHandler) -> Void
    /// A callback for entitlements after a restore.
    public typealias RestoreCompletionHandler = ([String: Entitlement], (any Error)?) -> Void
    /// A callback for products.
    public typealias ProductsCompletionHandler = ([String: Product], (any Error)?) -> Void
    /// A callback for the right to introductory offers.
    public typealias EligibilityCompletionHandler = ([String: IntroEligibility], (any Error)?) -> Void
    /// A callback for offerings.
    public typealias OfferingsCompletionHandler = (Offerings?, (any Error)?) -> Void
    /// A callback for a user.
    public typealias UserInfoCompletionHandler = (User?, (any Error)?) -> Void
    /// A callback for properties of a user.
    public typealias UserPropertiesCompletionHandler = (UserProperties?, (any Error)?) -> Void
    /// A callback for remote settings.
    public typealias RemoteConfigCompletionHandler = (RemoteConfig?, (any Error)?) -> Void
    /// A callback for several remote settings.
    public typealias RemoteConfigListCompletionHandler = (RemoteConfigList?, (any Error)?) -> Void
    /// A callback for a call about an experiment.
    public typealias ExperimentAttachCompletionHandler = (Bool, (any Error)?) -> Void
    /// A callback for a call about a configuration.
    public typealias RemoteConfigurationAttachCompletionHandler = (Bool, (any Error)?) -> Void
    /// A callback for the end of a call.
    public typealias DefaultCompletionHandler = (Bool, (any Error)?) -> Void
    /// A callback for the end of a call, as earlier versions of the vendor's SDK spell it.
    @available(*, deprecated, renamed: "DefaultCompletionHandler")
    public typealias DefaulthCompletionHandler = DefaultCompletionHandler
    /// A callback for the result of a purchase.
    public typealias PurchaseResultCompletionHandler = (PurchaseResult) -> Void
    /// A callback for the end of a call without a result.
    public typealias EmptyCompletionHandler = () -> Void
}
