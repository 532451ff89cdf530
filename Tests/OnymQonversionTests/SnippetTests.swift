import ClientKit
import Foundation
import Onym
import OnymQonversion
import Testing

/// They share the one instance, so they run one after the other.

@Suite("The Swift snippets of seed 003", .serialized, .timeLimit(.minutes(30)))
struct SnippetTests {
    private let transport = ScriptedTransport()
    private let shop = ScriptedShop()
    private let time = ManualTime()
    private let lines = Collector<String>()

    init() {
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.configure = { [transport, shop, time, lines] in
            $0 = Bench.configuration($0.keys)
            $0.transport = transport
            $0.time = time
            ($0.log, $0.logger) = (.warnings, lines.callback)
            $0.files = MemoryFiles()
            $0.callbacks = .background
            $0.flushInterval = 0
            $0.shop = shop
        }
        Qonversion.initWithConfig(configuration)
    }

    private var user: AccessUser? { Qonversion.shared().core?.access.user }

    /// Answers the next request, once it is there.
    @discardableResult
    private func answer(_ status: Int, _ json: JSON) async -> HTTPRequest? {
        await eventually { !transport.open.isEmpty }
        return transport.answer(.json(status, json))
    }

    @Test("goes on with the ids of Qonversion's SDK, in the suite of the app too", arguments: [nil, "group.app"])
    func imports(suite: String?) {
        let store = MemoryVendorStore(
            suites: [suite ?? "qonversion.localstorage.main": ["com.qonversion.keys.originalUserID": "QON_a"]])
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        if let suite { configuration.setCustomUserDefaultsSuitename(suite) }
        configuration.configure = {
            let imports = $0.imports
            $0 = Bench.configuration($0.keys)
            ($0.imports, $0.vendorStore) = (imports, store)
            ($0.transport, $0.time, $0.files) = (ScriptedTransport(), ManualTime(), MemoryFiles())
        }
        Qonversion.initWithConfig(configuration)
        #expect(user?.deviceID == "QON_a")
    }

    @Test("1. Qonversion User ID")
    func userInfo() async throws {
        let ids = Collector<String?>()
        Seed003_QonversionUserID.snippet(ids.callback)
        #expect(await answer(201, [:])?.method == "POST")
        await eventually { !ids.values.isEmpty }
        #expect(ids.values == [user?.id] && ids.values[0]?.hasPrefix("QON_") == true)
    }

    @Test("2. User ID for third-party Integrations")
    func userProperty() async throws {
        Seed003_UserIDForThirdPartyIntegrations.snippet()
        Qonversion.shared().core?.flush(callback: { _ in })
        await answer(201, [:])
        let request = await answer(200, ["savedProperties": [], "propertyErrors": []])
        #expect(request?.path == "/v3/users/\(user?.id ?? "")/properties")
        #expect(request?.json == [["key": "_q_custom_user_id", "value": "yourSideUserId"]])
        #expect(user?.identityID == nil)
    }

    @Test("3. Logging in, and Logging out")
    func identify() async throws {
        let users = Collector<String?>()
        Seed003_LoggingIn.snippet(users.callback)
        await answer(201, [:])
        #expect(
            await answer(404, ["error": ["type": "resource", "code": "not_found", "message": "no"]])?.path
                == "/v3/identities/your_custom_user_id")
        let device = try #require(user?.id)
        let linked = await answer(200, ["id": "your_custom_user_id", "user_id": .string(device)])
        #expect(linked?.json == ["user_id": .string(device)])
        await eventually { !users.values.isEmpty }
        // The two calls of the page are the same, and so they are one.
        #expect(users.values == [device] && transport.requests.count == 3)
        #expect(user?.identityID == "your_custom_user_id")
        Seed003_LoggingOut.snippet()
        #expect(user == AccessUser(id: device, deviceID: device, identityID: nil))
    }

    @Test("what may be used is told by its name")
    func entitlements() async throws {
        let lists = Collector<[String: Qonversion.Entitlement]>()
        Qonversion.shared().checkEntitlements { list, _ in lists.callback(list) }
        await answer(201, [:])
        await answer(
            200,
            [
                "data": [
                    ["id": "plus", "active": true, "started": 1, "source": "stripe"],
                    [
                        "id": "old", "active": false, "started": 1, "expires": 2, "source": "appstore",
                        "product": ["product_id": "p", "subscription": ["renew_state": "billing_issue"]],
                    ],
                ]
            ])
        let asked = await answer("/v1/user/init", 200, launch)
        #expect(asked?.path == "/v1/user/init" && asked?.json == ["q_uid": .string(user?.id ?? "")])
        #expect(asked?.fields["Platform"] == "ios" && asked?.fields["Trigger"] == "Init")
        await eventually { !lists.values.isEmpty }
        let list = lists.values[0]
        let old = list["old"]
        #expect(old?.renewsCount == 3 && old?.lastActivatedOfferCode == "SPRING" && old?.grantType == .offerCode)
        #expect(old?.trialStartDate == Date(timeIntervalSince1970: 10))
        #expect(old?.firstPurchaseDate == Date(timeIntervalSince1970: 11))
        #expect(old?.lastPurchaseDate == Date(timeIntervalSince1970: 12))
        #expect(old?.autoRenewDisableDate == Date(timeIntervalSince1970: 13))
        #expect(old?.transactions.map(\.transactionId) == ["t2", "t1"])
        let (last, first) = (old?.transactions.first, old?.transactions.last)
        #expect(last?.originalTransactionId == "t1" && last?.offerCode == "SPRING" && last?.promoOfferId == nil)
        #expect(last?.transactionDate == Date(timeIntervalSince1970: 12))
        #expect(last?.expirationDate == Date(timeIntervalSince1970: 14))
        #expect(last?.transactionRevocationDate == Date(timeIntervalSince1970: 15))
        #expect(last?.environment == .sandbox && last?.ownershipType == .familySharing)
        #expect(last?.type == .subscriptionRenewed)
        #expect(first?.originalTransactionId == "t1" && first?.expirationDate == nil && first?.type == .unknown)
        #expect(first?.environment == .production && first?.ownershipType == .owner)
        #expect(list["plus"]?.renewsCount == 0 && list["plus"]?.transactions == [])
        #expect(list["plus"]?.isActive == true && list["plus"]?.source == .stripe)
        #expect(list["plus"]?.renewState == .nonRenewable && list["plus"]?.expirationDate == nil)
        #expect(list["old"]?.isActive == false && list["old"]?.renewState == .billingIssue)
        #expect(list["old"]?.productID == "p" && list["plus"]?.productID == "")
        #expect(list["plus"]?.startedDate == Date(timeIntervalSince1970: 1))
        #expect(list["old"]?.source == .appStore && list["plus"]?.grantType == .purchase)
    }

    /// A recorded launch answer, whose offerings are a main offering, another offering, and an offering with a new mark.
    private var launch: JSON {
        let yearly: JSON = ["id": "yearly", "store_id": "com.app.yearly", "type": 1, "duration": 4]
        let once: JSON = ["id": "once", "store_id": "com.app.once", "type": 2]
        return [
            "success": true,
            "data": [
                "uid": "QON_a", "timestamp": 20, "products": [yearly, once], "user_products": [],
                "products_permissions": [:],
                "offerings": [
                    ["id": "sale", "tag": 0, "products": [once]],
                    ["id": "standard", "tag": 1, "products": [yearly, once]], ["id": "new", "tag": 9, "products": []],
                ],
                "permissions": [
                    [
                        "id": "old", "associated_product": "yearly", "active": 0, "renew_state": 3,
                        "source": "appstore", "grant_type": "offer_code", "started_timestamp": 1, "renews_count": 3,
                        "trial_start_timestamp": 10, "first_purchase_timestamp": 11, "last_purchase_timestamp": 12,
                        "auto_renew_disable_timestamp": 13, "last_activated_offer_code": "SPRING",
                        "store_transactions": [
                            [
                                "transaction_id": "t2", "original_transaction_id": "t1", "transaction_timestamp": 12,
                                "expiration_timestamp": 14, "transaction_revoke_timestamp": 15,
                                "environment": "sandbox", "ownership_type": "family_sharing",
                                "type": "subscription_renewed", "offer_code": "SPRING",
                            ], ["transaction_id": "t1"],
                        ],
                    ]
                ],
            ],
        ]
    }

    private func offerings() -> Collector<Result<Qonversion.Offerings, NSError>> {
        let answers = Collector<Result<Qonversion.Offerings, NSError>>()
        Qonversion.shared().offerings { offerings, error in
            if let offerings { answers.callback(.success(offerings)) }
            if let error { answers.callback(.failure(error as NSError)) }
        }
        return answers
    }

    @Test("offerings come with the shop's prices, and count without a network for the same user alone")
    func catalogOfferings() async throws {
        shop.sell([ShopProduct(id: "com.app.yearly", displayPrice: "$9.99", period: .init(count: 1, unit: .year))])
        let first = offerings()
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !first.values.isEmpty }
        let found = try first.values[0].get()
        #expect(found.availableOfferings.map(\.identifier) == ["sale", "standard", "new"])
        #expect(found.availableOfferings.map(\.tag) == [.none, .main, .unknown])
        #expect(found.main?.products.map(\.qonversionID) == ["yearly", "once"])
        #expect(found.main?.product(for: "yearly")?.prettyPrice == "$9.99")
        #expect(found.main?.product(for: "yearly")?.offeringID == "standard")
        #expect(found.offering(for: "sale")?.product(for: "once")?.storeID == "com.app.once")
        let count = transport.requests.count
        let second = offerings()
        await eventually { !second.values.isEmpty }
        #expect(transport.requests.count == count, "an answer of the last five minutes is not asked for again")
        time.advance(301)
        let third = offerings()
        await eventually { !transport.open.isEmpty }
        transport.answer(.fault(.offline))
        await eventually { !third.values.isEmpty }
        #expect(try third.values[0].get().main?.identifier == "standard")
        let users = Collector<String?>()
        Qonversion.shared().identify("me") { user, _ in users.callback(user?.identityId) }
        _ = await answer("/identities/me", 200, ["id": "me", "user_id": "QON_b"])
        await eventually { !users.values.isEmpty }
        let fourth = offerings()
        await eventually { !transport.open.isEmpty }
        transport.answer(.fault(.offline))
        await eventually { !fourth.values.isEmpty }
        #expect(throws: NSError.self) { try fourth.values[0].get() }
    }

    @Test("without the launch answer, entitlements have no history, and stay")
    func noHistory() async {
        let lists = Collector<[String: Qonversion.Entitlement]>()
        Qonversion.shared().checkEntitlements { list, _ in lists.callback(list) }
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 404, ["error": ["code": "not_found", "message": "no"]])
        await eventually { !lists.values.isEmpty }
        let plus = lists.values[0]["plus"]
        #expect(plus?.isActive == true && plus?.renewsCount == 0 && plus?.firstPurchaseDate == nil)
        #expect(plus?.transactions == [] && plus?.grantType == .purchase)
    }

    private var none: JSON { ["data": []] }
    private var plus: JSON { ["data": [["id": "plus", "active": true, "started": 1, "source": "appstore"]]] }

    /// Answers the next request whose path ends so; others before it are answered as if the server had nothing.
    private func answer(_ end: String, _ status: Int, _ json: JSON) async -> HTTPRequest? {
        while true {
            await eventually { !transport.open.isEmpty }
            guard let next = transport.open.first else { continue }
            if next.path.hasSuffix(end) { return transport.answer(.json(status, json)) }
            transport.answer(.json(next.method == "POST" ? 201 : 200, none))
        }
    }

    @Test(
        "a product of the catalog has the shop's price, and is sold by the shop; the server gets the signed transaction"
    )
    func shopping() async throws {
        var sold = ShopProduct(
            id: "com.app.plus", displayPrice: "$9.99", period: .init(count: 1, unit: .month),
            trial: .init(count: 7, unit: .day))
        shop.sell([sold])
        let lists = Collector<[String: Qonversion.Product]>()
        Qonversion.shared().products { list, _ in lists.callback(list) }
        let catalog: JSON = [
            ["qonversionId": "plus_month", "storeId": "com.app.plus"],
            ["qonversionId": "gone", "storeId": "com.app.gone"],
        ]
        _ = await answer("/products/\(user?.id ?? "")", 200, catalog)
        await eventually { !lists.values.isEmpty }
        let product = try #require(lists.values[0]["plus_month"])
        #expect(product.prettyPrice == "$9.99" && product.type == .trial && product.storeID == "com.app.plus")
        #expect(product.subscriptionPeriod?.unit == .month && product.trialPeriod?.unitCount == 7)
        #expect(lists.values[0]["gone"]?.type == .unknown)
        for (mayHave, status) in [(nil, .nonIntroOrTrialProduct), (true, .eligible), (false, .ineligible)]
            as [(Bool?, Qonversion.IntroEligibilityStatus)]
        {
            sold.mayHaveOffer = mayHave
            shop.sell([sold])
            let answers = Collector<[Qonversion.IntroEligibilityStatus?]>()
            let ids = ["plus_month", "gone", "other"]
            Qonversion.shared().checkTrialIntroEligibility(ids) { list, _ in
                answers.callback(ids.map { list[$0]?.status })
            }
            _ = await answer("/products/\(user?.id ?? "")", 200, catalog)
            await eventually { !answers.values.isEmpty }
            #expect(answers.values == [[status, .unknown, .unknown]])
        }
        let results = Collector<Qonversion.PurchaseResult>()
        let options = Qonversion.PurchaseOptions(contextKeys: ["main"])
        options.quantity = 2
        Qonversion.shared().purchase(product, options: options) { results.callback($0) }
        let sent = await answer("/purchases", 201, [:])
        #expect(sent?.json["app_store_data"]?["receipt"] == "signed:com.app.plus:2")
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !results.values.isEmpty }
        #expect(results.values[0].isSuccessful && results.values[0].entitlements?["plus"]?.isActive == true)
        #expect(lines.values.filter { $0.hasSuffix("PurchaseOptions.contextKeys does nothing here") }.count == 1)
        #if !canImport(StoreKit)
            let promoted = Qonversion.PurchaseOptions(promoOffer: Qonversion.PromotionalOffer())
            Qonversion.shared().purchase(product, options: promoted) { results.callback($0) }
            await eventually { results.values.count == 2 }
            #expect((results.values.last?.error as NSError?)?.code == 29 && results.values.last?.isError == true)
            #expect(lines.values.contains { $0.hasSuffix("PurchaseOptions.promoOffer does nothing here") })
            #expect(transport.open.isEmpty, "the shop has sold nothing")
        #endif
        for (outcome, status, code) in [
            (ScriptedShop.Next.pending, Qonversion.PurchaseResultStatus.pending, Qonversion.ErrorCode.purchasePending),
            (.cancelled, .userCanceled, .purchaseCanceled), (.fails, .error, .unknown),
        ] {
            shop.next = outcome
            let count = results.values.count
            Qonversion.shared().purchase(product) { results.callback($0) }
            await eventually { results.values.count != count }
            #expect(results.values.last?.status == status)
            #expect(results.values.last?.isCanceledByUser == (status == .userCanceled))
            #expect(results.values.last?.entitlements == nil)
            #expect((results.values.last?.error as NSError?)?.code == code.rawValue)
        }
    }

    @Test(
        "the SDK finishes the shop's transactions only if the app does not sell by itself",
        arguments: Qonversion.LaunchMode.allCases)
    func finishing(mode: Qonversion.LaunchMode) async throws {
        let shop = ScriptedShop()
        let configuration = QONConfiguration(projectKey: "key", launchMode: mode)
        configuration.setProxyURL("https://onym.test")
        configuration.configure = { [transport] in
            let finishes = $0.finishesTransactions
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.time, $0.files, $0.callbacks) = (transport, ManualTime(), MemoryFiles(), .background)
            ($0.shop, $0.finishesTransactions) = (shop, finishes)
        }
        Qonversion.initWithConfig(configuration)
        let core = try #require(Qonversion.shared().core)
        let reports = Collector<Bool>()
        core.observe { if case .purchaseReported = $0 { reports.callback(true) } }
        shop.report(ScriptedShop.transaction("5", "com.app.plus"))
        let sent = await answer("/purchases", 201, [:])
        #expect(sent?.json["app_store_data"]?["receipt"] == "signed:com.app.plus:5")
        await eventually { !reports.values.isEmpty }
        #expect(core.runtime.configuration.finishesTransactions == (mode == .subscriptionManagement))
        if mode == .subscriptionManagement {
            await eventually { shop.finished == ["5"] }
        } else {
            // A wrong end would come about now.
            try await Task.sleep(for: .milliseconds(50))
            #expect(shop.finished.isEmpty)
        }
    }

    @Test("without a catalog, a shop or offerings, the vendor's errors come")
    func missing() async {
        let codes = Collector<Int>()
        func collect(_ error: (any Error)?) { codes.callback((error as NSError?)?.code ?? -1) }
        Qonversion.shared().products { list, error in collect(list.isEmpty ? error : nil) }
        _ = await answer("/products/\(user?.id ?? "")", 404, ["error": ["code": "not_found", "message": "no"]])
        await eventually { !codes.values.isEmpty }
        Qonversion.shared().offerings { offerings, error in collect(offerings == nil ? error : nil) }
        _ = await answer(
            "/v1/user/init", 200, ["success": true, "data": ["uid": "QON_a", "offerings": [], "permissions": []]])
        await eventually { codes.values.count >= 2 }
        #expect(codes.values == [22, 36])
        let none = Qonversion()
        defer { none.close() }
        var configuration = Bench.configuration([.entitlements(key: "key")])
        (configuration.transport, configuration.time) = (ScriptedTransport(), ManualTime())
        (configuration.files, configuration.callbacks) = (MemoryFiles(), .background)
        none.open(configuration)
        none.restore { _, error in collect(error) }
        await eventually { codes.values.count >= 3 }
        none.handlePurchases([Qonversion.StoreKit2PurchaseModel()]) { isTaken, error in collect(isTaken ? nil : error) }
        await eventually { codes.values.count >= 4 }
        #expect(codes.values.dropFirst(2) == [29, 29])
    }

    @Test("a restore sends what the person owns at the shop")
    func restoring() async {
        shop.own([ScriptedShop.transaction("1", "com.app.plus")])
        let lists = Collector<[String: Qonversion.Entitlement]>()
        Qonversion.shared().restore { list, _ in lists.callback(list) }
        let sent = await answer("/restore", 200, ["transactions": []])
        #expect(sent?.json["transactions"] == ["signed:com.app.plus:1"])
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !lists.values.isEmpty }
        #expect(lists.values[0]["plus"]?.isActive == true)
    }

    @Test("the user's properties come from the server")
    func properties() async {
        let lists = Collector<Qonversion.UserProperties?>()
        Qonversion.shared().userProperties { list, _ in lists.callback(list) }
        _ = await answer("/properties", 200, [["key": "_q_email", "value": "a@x"], ["key": "own", "value": "1"]])
        await eventually { !lists.values.isEmpty }
        #expect(lists.values[0]?.definedProperty(for: .email)?.value == "a@x")
        #expect(lists.values[0]?.customProperties.map(\.key) == ["own"])
        #expect(lists.values[0]?.flatPropertiesMap == ["_q_email": "a@x", "own": "1"])
        #expect(lists.values[0]?.flatDefinedPropertiesMap == [0: "a@x"])
        #expect(lists.values[0]?.flatCustomPropertiesMap == ["own": "1"])
        #expect(lists.values[0]?.property(for: "own")?.value == "1")
    }

    private final class Listener: Qonversion.EntitlementsUpdateListener, Qonversion.DeferredPurchasesListener {
        let updates = Collector<Bool>()
        let purchases = Collector<Bool>()
        func didReceiveUpdatedEntitlements(_ entitlements: [String: Qonversion.Entitlement]) {
            updates.callback(entitlements["plus"]?.isActive == true)
        }
        func deferredPurchaseCompleted(_ purchaseResult: Qonversion.PurchaseResult) {
            purchases.callback(purchaseResult.isSuccessful)
        }
    }

    @Test("listeners hear of changes, and are held weakly; the device answers as long as the app says")
    func listeners() async {
        let listener = Listener()
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.setEntitlementsUpdateListener(listener)
        configuration.setDeferredPurchasesListener(listener)
        configuration.setEntitlementsCacheLifetime(.unlimited)
        let lifetimes = Collector<TimeInterval?>()
        configuration.configure = { [transport, shop] in
            lifetimes.callback($0.accessLifetime)
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.time, $0.files, $0.callbacks) = (transport, ManualTime(), MemoryFiles(), .background)
            $0.shop = shop
        }
        Qonversion.initWithConfig(configuration)
        Qonversion.shared().checkEntitlements { _, _ in }
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !listener.updates.values.isEmpty }
        #expect(listener.updates.values == [true] && listener.purchases.values == [])
        await eventually { shop.isWatched }
        shop.report(ScriptedShop.transaction("5", "com.app.plus"))
        _ = await answer("/purchases", 201, [:])
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !listener.purchases.values.isEmpty }
        #expect(listener.purchases.values == [true])
        #expect(lifetimes.values == [nil])
        #expect(
            Qonversion.EntitlementsCacheLifetime.allCases.map { ($0.seconds ?? 0) / 86_400 }
                == [7, 14, 30, 60, 90, 180, 365, 0])
    }

    @Test("the running instance takes listeners, too")
    func laterListeners() async {
        let listener = Listener()
        Qonversion.shared().setEntitlementsUpdateListener(listener)
        Qonversion.shared().setDeferredPurchasesListener(listener)
        await eventually { shop.isWatched }
        shop.report(ScriptedShop.transaction("5", "com.app.plus"))
        _ = await answer("/purchases", 201, [:])
        _ = await answer("/entitlements", 200, plus)
        _ = await answer("/v1/user/init", 200, launch)
        await eventually { !listener.purchases.values.isEmpty && !listener.updates.values.isEmpty }
        #expect(listener.purchases.values == [true] && listener.updates.values.last == true)
    }

    @Test("purchases of the app's own are the shop's signed transactions, each once")
    func ownPurchases() async {
        shop.own([ScriptedShop.transaction("1", "com.app.plus")])
        let ends = Collector<(Bool, Bool)>()
        let model = Qonversion.StoreKit2PurchaseModel()
        (model.productId, model.transactionId, model.price) = ("com.app.plus", "1", "9.99")
        Qonversion.shared().handlePurchases([model]) { ends.callback(($0, $1 == nil)) }
        let sent = await answer("/purchases", 201, [:])
        #expect(sent?.json["app_store_data"]?["receipt"] == "signed:com.app.plus:1")
        await eventually { !ends.values.isEmpty }
        #expect(ends.values.map(\.0) == [true] && ends.values.map(\.1) == [true])
    }

    private static let mark: DispatchSpecificKey<Bool> = {
        let mark = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: mark, value: true)
        return mark
    }()

    private static var isOnMain: Bool { DispatchQueue.getSpecific(key: mark) == true }

    @Test("completions come on the main queue, before the start and after it, and never inside the call")
    func queue() async {
        // A completion inside the call would come off the main queue.
        #expect(!Self.isOnMain)
        let ends = Collector<(name: String, isOnMain: Bool)>()
        func end(_ name: String) { ends.callback((name, Self.isOnMain)) }
        let none = Qonversion()
        none.userInfo { _, error in end(error == nil ? "" : "userInfo") }
        none.identify("a") { _, error in end(error == nil ? "" : "identify") }
        none.userProperties { _, error in end(error == nil ? "" : "userProperties") }
        none.forceSendProperties { end("forceSendProperties") }
        none.checkEntitlements { _, error in end(error == nil ? "" : "checkEntitlements") }
        none.products { _, error in end(error == nil ? "" : "products") }
        none.offerings { _, error in end(error == nil ? "" : "offerings") }
        none.checkTrialIntroEligibility([]) { _, error in end(error == nil ? "" : "checkTrialIntroEligibility") }
        none.restore { _, error in end(error == nil ? "" : "restore") }
        none.restore([]) { _, error in end(error == nil ? "" : "restore receipts") }
        none.handlePurchases([Qonversion.StoreKit2PurchaseModel]()) { end($0 || $1 == nil ? "" : "handlePurchases") }
        none.remoteConfig { _, error in end(error == nil ? "" : "remoteConfig") }
        let names = [
            "userInfo", "identify", "userProperties", "forceSendProperties", "checkEntitlements", "products",
            "offerings", "checkTrialIntroEligibility", "restore", "restore receipts", "handlePurchases",
            "remoteConfig",
        ]
        await eventually { ends.values.count >= names.count }
        #expect(ends.values.map(\.name).sorted() == names.sorted() && ends.values.allSatisfy(\.isOnMain))

        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.configure = { [transport] in
            let callbacks = $0.callbacks
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.time, $0.files, $0.callbacks) = (transport, ManualTime(), MemoryFiles(), callbacks)
        }
        Qonversion.initWithConfig(configuration).userInfo { user, _ in end(user == nil ? "" : "started") }
        await answer(201, [:])
        await eventually { ends.values.count > names.count }
        #expect(ends.values.last?.name == "started" && ends.values.last?.isOnMain == true)
    }

    @Test("a list of remote settings finds them by their contexts")
    func remoteConfigs() {
        let list = Qonversion.RemoteConfigList()
        #expect(list.remoteConfigForEmptyContextKey() == nil && list.remoteConfig(forContextKey: "main") == nil)
        let configs = ["main", nil].map {
            Qonversion.RemoteConfig(Qonversion.RemoteConfigurationSource(contextKey: $0))
        }
        list.remoteConfigs = configs
        #expect(list.remoteConfig(forContextKey: "main") === configs[0])
        #expect(list.remoteConfigForEmptyContextKey() === configs[1] && configs[1].experiment == nil)
        #expect(list.remoteConfig(forContextKey: "other") == nil)
    }

    private final class Promotions: Qonversion.PromoPurchasesDelegate {
        func shouldPurchasePromoProduct(
            withIdentifier productID: String, executionBlock: @escaping Qonversion.PromoPurchaseCompletionHandler
        ) {}
    }

    @Test("names without an effect answer the vendor's nothing, send nothing, and write one line")
    func inert() async {
        let codes = Collector<Int>()
        func collect(_ error: (any Error)?) { codes.callback((error as NSError?)?.code ?? -1) }
        let sdk = Qonversion.shared()
        sdk.remoteConfig { collect($0 == nil ? $1 : nil) }
        sdk.remoteConfig(contextKey: "a") { collect($0 == nil ? $1 : nil) }
        sdk.remoteConfigList { collect($0 == nil ? $1 : nil) }
        sdk.remoteConfigList(contextKeys: [], includeEmptyContextKey: true) { collect($0 == nil ? $1 : nil) }
        sdk.attachUser(toExperiment: "e", groupId: "g") { collect($0 ? nil : $1) }
        sdk.detachUser(fromExperiment: "e") { collect($0 ? nil : $1) }
        sdk.attachUser(toRemoteConfiguration: "r") { collect($0 ? nil : $1) }
        sdk.detachUser(fromRemoteConfiguration: "r") { collect($0 ? nil : $1) }
        sdk.reissueRedemption(email: "a@x") { collect($0 ? nil : $1) }
        let redemptions = Collector<Qonversion.RedemptionResult>()
        let url = URL(filePath: "/redeem")
        sdk.handleRedemptionLink(url: url, completion: redemptions.callback)
        Qonversion.handleRedemptionLink(url: url, completion: redemptions.callback)
        let data: [String: Any] = ["campaign": "spring"]
        for _ in 0..<2 { sdk.attribution(data, from: .adjust) }
        sdk.setPromoPurchasesDelegate(Promotions())
        sdk.collectAppleSearchAdsAttribution()
        sdk.collectAdvertisingId()
        #expect(!sdk.isFallbackFileAccessible())
        await eventually { codes.values.count >= 9 && redemptions.values.count >= 2 }
        #expect(codes.values == [19, 19, 19, 19, 19, 19, 19, 19, 29] && transport.requests.isEmpty)
        #expect(redemptions.values == [.invalidToken, .invalidToken])
        let calls = [
            "remoteConfig(_:)", "remoteConfig(contextKey:completion:)", "remoteConfigList(_:)",
            "remoteConfigList(contextKeys:includeEmptyContextKey:completion:)",
            "attachUser(toExperiment:groupId:completion:)", "detachUser(fromExperiment:completion:)",
            "attachUser(toRemoteConfiguration:completion:)", "detachUser(fromRemoteConfiguration:completion:)",
            "reissueRedemption(email:completion:)", "handleRedemptionLink(url:completion:)", "attribution(_:from:)",
            "setPromoPurchasesDelegate(_:)", "collectAppleSearchAdsAttribution()", "collectAdvertisingId()",
            "isFallbackFileAccessible()",
        ]
        let notes = { lines.values.filter { $0.hasSuffix(" does nothing here") } }
        await eventually { notes().count >= calls.count }
        for name in calls {
            #expect(notes().filter { $0.hasSuffix(" \(name) does nothing here") }.count == 1, "\(name)")
        }
        #expect(notes().count == calls.count, "\(notes())")
    }

    @Test("settings without an effect write one line at the start")
    func inertSettings() async {
        let configuration = QONConfiguration(projectKey: "key", launchMode: .subscriptionManagement)
        configuration.setProxyURL("https://onym.test")
        configuration.setCustomUserDefaults(.standard)
        configuration.setPromoPurchasesDelegate(Promotions())
        configuration.configure = { [transport, lines] in
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.time, $0.files, $0.callbacks) = (transport, ManualTime(), MemoryFiles(), .background)
            ($0.log, $0.logger) = (.warnings, lines.callback)
        }
        Qonversion.initWithConfig(configuration)
        let notes = { lines.values.filter { $0.hasSuffix(" does nothing here") } }
        await eventually { notes().count >= 2 }
        #expect(
            notes() == [
                "onym: Configuration.setCustomUserDefaults(_:) does nothing here",
                "onym: Configuration.setPromoPurchasesDelegate(_:) does nothing here",
            ])
    }

    @Test("the enums have the vendor's numbers")
    func numbers() {
        #expect(Qonversion.UserPropertyKey.allCases.map(\.rawValue) == Array(0...15))
        #expect(
            Qonversion.UserPropertyKey.allCases == [
                .email, .name, .appsFlyerUserID, .adjustAdID, .kochavaDeviceID, .advertisingID, .userID,
                .firebaseAppInstanceId, .facebookAttribution, .appSetId, .pushWooshUserId, .pushWooshHwId,
                .appMetricaDeviceId, .appMetricaUserProfileId, .tenjinAnalyticsInstallationId, .custom,
            ])
        #expect(Qonversion.EntitlementSource.allCases == [.unknown, .appStore, .playStore, .stripe, .manual])
        #expect(Qonversion.EntitlementSource.allCases.map(\.rawValue) == [-1, 1, 2, 3, 4])
        #expect(Qonversion.EntitlementRenewState.allCases.map(\.rawValue) == [-1, 0, 1, 2, 3])
        #expect(Qonversion.EntitlementGrantType.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(Qonversion.ErrorCode.allCases.map(\.rawValue) == [0, 1, 2, 12, 14, 18, 19, 21, 22, 23, 29, 35, 36])
        #expect(Qonversion.TransactionEnvironment.allCases == [.sandbox, .production])
        #expect(Qonversion.TransactionOwnershipType.allCases.map(\.rawValue) == [0, 1])
        #expect(Qonversion.TransactionType.allCases.map(\.rawValue) == Array(0...6))
        #expect(Qonversion.RedemptionResult.allCases.map(\.rawValue) == Array(0...5))
        #expect(Qonversion.RemoteConfigurationSourceType.allCases.map(\.rawValue) == Array(-1...2))
        #expect(Qonversion.RemoteConfigurationAssignmentType.allCases.map(\.rawValue) == [-1, 0, 1])
        #expect(Qonversion.ExperimentGroupType.allCases.map(\.rawValue) == [-1, 0, 1])
        #expect(Qonversion.PurchaseResultStatus.allCases == [.success, .userCanceled, .pending, .error])
        #expect(Qonversion.PurchaseResultSource.allCases.map(\.rawValue) == [0, 1])
        #expect(Qonversion.ProductType.allCases.map(\.rawValue) == [-1, 0, 1, 2])
        #expect(Qonversion.OfferingTag.allCases.map(\.rawValue) == [-1, 0, 1])
        #expect(Qonversion.EntitlementsCacheLifetime.allCases.map(\.rawValue) == Array(1...8))
        #expect(Qonversion.LaunchMode.allCases.map(\.rawValue) == [0, 1])
        #expect(Qonversion.Environment.allCases.map(\.rawValue) == [0, 1])
    }

    @Test("property keys have the names of the wire")
    func keys() {
        let names = Qonversion.UserPropertyKey.allCases.compactMap(\.wireName)
        #expect(names.count == 15 && Set(names).count == 15 && names.allSatisfy { $0.hasPrefix("_q_") })
    }
}
