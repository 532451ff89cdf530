#if canImport(StoreKit)
    import Foundation
    import StoreKit
#endif

/// The platform's own shop.
enum PlatformShop {
    /// The App Store; nil on platforms without StoreKit.
    static var available: (any Shop)? {
        #if canImport(StoreKit)
            AppStoreShop()
        #else
            nil
        #endif
    }
}

#if canImport(StoreKit)
    /// The App Store. Transactions that StoreKit cannot verify are omitted.
    private struct AppStoreShop: Shop {
        func products(_ ids: [String]) async throws -> [ShopProduct] {
            var products: [ShopProduct] = []
            for product in try await Product.products(for: ids) {
                let offer = product.subscription?.introductoryOffer
                var sold = ShopProduct(
                    id: product.id, displayPrice: product.displayPrice,
                    period: product.subscription.map { AppStoreShop.period($0.subscriptionPeriod) },
                    trial: offer?.paymentMode == .freeTrial ? offer.map { AppStoreShop.period($0.period) } : nil)
                if offer != nil { sold.mayHaveOffer = await product.subscription?.isEligibleForIntroOffer }
                products.append(sold)
            }
            return products
        }

        func buy(_ id: String, quantity: Int, account: UUID) async throws -> ShopOutcome {
            guard let product = try await Product.products(for: [id]).first else {
                throw StoreKitError.notAvailableInStorefront
            }
            #if os(visionOS)
                // A purchase needs a view of the app there.
                throw StoreKitError.notAvailableInStorefront
            #else
                let options: Set<Product.PurchaseOption> = [.appAccountToken(account), .quantity(quantity)]
                switch try await product.purchase(options: options) {
                case .success(let result):
                    guard let transaction = await AppStoreShop.read(result) else { throw StoreKitError.unknown }
                    return .bought(transaction)
                case .pending: return .pending
                case .userCancelled: return .cancelled
                @unknown default: throw StoreKitError.unknown
                }
            #endif
        }

        func finish(_ id: String) async {
            for await result in Transaction.unfinished {
                if case .verified(let transaction) = result, "\(transaction.id)" == id { await transaction.finish() }
            }
        }

        func unfinished() async -> [ShopTransaction] { await AppStoreShop.all(Transaction.unfinished) }

        func owned() async -> [ShopTransaction] { await AppStoreShop.all(Transaction.currentEntitlements) }

        func synchronize() async throws { try await AppStore.sync() }

        func updates() -> AsyncStream<ShopTransaction> {
            AsyncStream { continuation in
                let task = Task {
                    for await result in Transaction.updates {
                        if let transaction = await AppStoreShop.read(result) { continuation.yield(transaction) }
                    }
                    continuation.finish()
                }
                continuation.onTermination = { _ in task.cancel() }
            }
        }

        private static func all(_ results: Transaction.Transactions) async -> [ShopTransaction] {
            var list: [ShopTransaction] = []
            for await result in results {
                if let transaction = await read(result) { list.append(transaction) }
            }
            return list
        }

        private static func read(_ result: VerificationResult<Transaction>) async -> ShopTransaction? {
            guard case .verified(let transaction) = result else { return nil }
            let product = try? await Product.products(for: [transaction.productID]).first
            return ShopTransaction(
                id: "\(transaction.id)", productID: transaction.productID, signed: result.jwsRepresentation,
                price: "\(product?.price ?? 0)", currency: product?.priceFormatStyle.currencyCode ?? "USD",
                purchased: transaction.purchaseDate, expires: transaction.expirationDate,
                isRevoked: transaction.revocationDate != nil)
        }

        private static func period(_ period: Product.SubscriptionPeriod) -> ShopProduct.Period {
            let unit: ShopProduct.Period.Unit =
                switch period.unit {
                case .day: .day
                case .week: .week
                case .month: .month
                case .year: .year
                @unknown default: .day
                }
            return ShopProduct.Period(count: period.value, unit: unit)
        }
    }
#endif
