// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation

public enum VerificationResult<SignedType> {
    public enum VerificationError: Error { case invalidSignature }
    case unverified(SignedType, VerificationError)
    case verified(SignedType)
}

extension VerificationResult: Sendable where SignedType: Sendable {}

extension VerificationResult where SignedType == Transaction {
    public var jwsRepresentation: String { "" }
}

public enum StoreKitError: Error {
    case unknown, userCancelled, notAvailableInStorefront, notEntitled
    case networkError(URLError)
    case systemError(any Error)
}

public struct Transaction: Sendable {
    public let id: UInt64
    public let productID: String
    public let purchaseDate: Date
    public let expirationDate: Date?
    public let revocationDate: Date?
    public func finish() async {}

    public struct Transactions: AsyncSequence, Sendable {
        public typealias Element = VerificationResult<Transaction>
        public struct AsyncIterator: AsyncIteratorProtocol {
            public mutating func next() async -> VerificationResult<Transaction>? { nil }
        }
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator() }
    }

    public static var updates: Transactions { Transactions() }
    public static var unfinished: Transactions { Transactions() }
    public static var currentEntitlements: Transactions { Transactions() }
}

public struct Product: Sendable {
    public let id: String
    public let displayPrice: String
    public let price: Decimal
    public let subscription: SubscriptionInfo?
    public var priceFormatStyle: Decimal.FormatStyle.Currency { fatalError("a stub is never run") }

    public static func products<Identifiers: Collection>(
        for identifiers: Identifiers
    ) async throws -> [Product] where Identifiers.Element == String { [] }

    public struct SubscriptionInfo: Sendable {
        public let introductoryOffer: SubscriptionOffer?
        public var isEligibleForIntroOffer: Bool { get async { false } }
        public let subscriptionPeriod: SubscriptionPeriod
    }

    public struct SubscriptionOffer: Sendable {
        public struct PaymentMode: RawRepresentable, Equatable, Sendable {
            public let rawValue: String
            public init(rawValue: String) { self.rawValue = rawValue }
            public static let freeTrial = PaymentMode(rawValue: "FreeTrial")
        }
        public let paymentMode: PaymentMode
        public let period: SubscriptionPeriod
    }

    public struct SubscriptionPeriod: Sendable {
        public enum Unit: Sendable { case day, week, month, year }
        public let unit: Unit
        public let value: Int
    }

    public struct PurchaseOption: Hashable, Sendable {
        public static func appAccountToken(_ token: UUID) -> PurchaseOption { PurchaseOption() }
        public static func quantity(_ quantity: Int) -> PurchaseOption { PurchaseOption() }
    }

    public enum PurchaseResult: Sendable {
        case success(VerificationResult<Transaction>)
        case userCancelled, pending
    }

    public func purchase(options: Set<PurchaseOption> = []) async throws -> PurchaseResult { .pending }
}

public enum AppStore {
    public static func sync() async throws {}
}

/// The older StoreKit.
open class SKProduct: NSObject, @unchecked Sendable {}
open class SKProductDiscount: NSObject, @unchecked Sendable {}
open class SKPaymentDiscount: NSObject, @unchecked Sendable {}
open class SKPaymentTransaction: NSObject, @unchecked Sendable {}

open class SKPaymentQueue: NSObject {
    open class func `default`() -> SKPaymentQueue { SKPaymentQueue() }
    open func presentCodeRedemptionSheet() {}
}
