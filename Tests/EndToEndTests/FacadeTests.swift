import Foundation
import Onym
import OnymMParticle
import OnymOwl
import OnymQonversion
import TestKit
import Testing

/// Apps of the vendors against the built server. Some facades have one instance in a process, so tests run one after the other.
@Suite("Facades", .serialized, .timeLimit(.minutes(30)))
struct FacadeTests {
    private let scene: SDKScene

    init() throws { scene = try SDKScene() }

    /// Sends calls for hosts of `https` to the server of the test, which has no certificate.
    private struct Plain: Transport {
        let inner = URLSessionTransport()
        let log: (@Sendable (String) -> Void)

        func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            var request = request
            let text = request.url.absoluteString.replacing("https://", with: "http://")
            request.url = URL(string: text) ?? request.url
            log(request.url.path)
            return inner.send(request, completion: completion)
        }
    }

    private final class Log: @unchecked Sendable {
        private let lock = NSLock()
        private var list: [String] = []
        var lines: [String] { lock.withLock { list } }
        func add(_ line: String) { lock.withLock { list.append(line) } }
    }

    private func options(_ name: String) -> MParticleOptions {
        let options = MParticleOptions(key: scene.store.key, secret: scene.store.secret)
        options.environment = .development
        options.networkOptions = MPNetworkOptions()
        options.networkOptions?.customBaseURL = URL(string: scene.server.base)
        let folder = URL(filePath: scene.store.folder.path + "/" + name)
        options.configure = {
            ($0.folder, $0.callbacks) = (folder, .background)
            $0.imports = []
            $0.device.platform = "ios"
        }
        return options
    }

    /// Starts an app, and answers its user.
    private func start(_ app: MParticle, _ options: MParticleOptions) async -> String {
        await withCheckedContinuation { continuation in
            options.onIdentifyComplete = { result, error in
                continuation.resume(returning: result?.user.userId.stringValue ?? "\(error as Any)")
            }
            app.start(with: options)
        }
    }

    /// A person's events as the server has them, the first first.
    private func rows(_ person: String) throws -> [[String: Any]] {
        let page = try scene.administrator("/onym/v1/people/\(person)/timeline?limit=200&kinds=event")
        return (page["rows"] as? [[String: Any]] ?? []).reversed().compactMap { $0["body"] as? [String: Any] }
    }

    @Test("mParticle: a timed event, sessions, tags, removals and a purchase arrive as the app made them")
    func mParticle() async throws {
        let app = MParticle()
        let user = await start(app, options("shop"))
        let session = try #require(app.currentSession)
        let video = try #require(MPEvent(name: "Video", type: .media))
        app.beginTimedEvent(video)
        app.endTimedEvent(video)
        let current = try #require(app.identity.currentUser)
        current.setUserTag("vip")
        current.setUserAttribute("plan", value: "pro")
        current.setUserAttribute("old", value: "x")
        try await app.core?.flush()
        current.removeUserAttribute("old")
        let purchase = MPCommerceEvent(
            action: .purchase, product: MPProduct(name: "Room", sku: "s1", quantity: 2, price: 10.5))
        purchase.currency = "EUR"
        app.logEvent(purchase)
        app.endSession()
        try await app.core?.flush()
        let events = try rows(user)
        #expect(
            events.map { $0["event_type"] as? String }
                == ["session_start", "custom_event", "commerce_event", "session_end"])
        let data = events.compactMap { $0["data"] as? [String: Any] }
        #expect(data.allSatisfy { $0["session_uuid"] as? String == session.uuid })
        #expect((data[1]["custom_attributes"] as? [String: Any])?["EventLength"] != nil)
        let action = data[2]["product_action"] as? [String: Any]
        #expect(action?["action"] as? String == "purchase" && data[2]["currency_code"] as? String == "EUR")
        #expect((action?["products"] as? [[String: Any]])?.first?["total_product_amount"] as? Double == 21)
        let person = try scene.administrator("/onym/v1/people/\(user)")
        let properties = (person["properties"] as? [String: [String: Any]])?["idsync"]
        #expect(Set(properties?.keys ?? [:].keys) == ["vip", "plan"])
    }

    @Test("mParticle: the app's own hosts work, also without a version in their paths")
    func hosts() async throws {
        let app = MParticle()
        let options = options("hosts")
        let network = MPNetworkOptions()
        let host = scene.server.base.replacing("http://", with: "")
        (network.identityHost, network.eventsHost, network.aliasHost) = (host, host, host)
        (network.overridesIdentitySubdirectory, network.overridesAliasSubdirectory) = (true, true)
        options.networkOptions = network
        let paths = Log()
        let prepare = options.configure
        options.configure = {
            prepare?(&$0)
            $0.transport = Plain(log: paths.add)
        }
        let first = await start(app, options)
        var users: [String] = []
        for customer in ["1", "2"] {
            let user: String = await withCheckedContinuation { continuation in
                let request = MPIdentityApiRequest.withEmptyUser()
                request.customerId = customer
                app.identity.login(request) { result, error in
                    continuation.resume(returning: result?.user.userId.stringValue ?? "\(error as Any)")
                }
            }
            users.append(user)
        }
        #expect(([first] + users).allSatisfy { Int64($0) != nil } && users[0] != users[1])
        let known = app.identity.getAllUsers()
        try #require(known.count > 1)
        #expect(app.identity.aliasUsers(MPAliasRequest(sourceUser: known[1], destinationUser: known[0])))
        try await app.core?.flush()
        let key = scene.store.key
        #expect(Set(paths.lines) == ["/identify", "/login", "/\(key)/alias", "/v2/\(key)/events"])
    }

    @Test("mParticle: a reset leaves no file on the device, and the next start is a new person")
    func reset() async throws {
        let app = MParticle()
        let first = await start(app, options("reset"))
        try await app.core?.flush()
        let folder = scene.store.folder.path + "/reset"
        #expect(!(try FileManager.default.contentsOfDirectory(atPath: folder)).isEmpty)
        await withCheckedContinuation { continuation in app.reset { continuation.resume() } }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
        #expect(await start(app, options("reset")) != first)
    }

    /// Loses the connection in the middle of the first upload of a file.
    private final class Cut: Transport, @unchecked Sendable {
        private let inner = URLSessionTransport()
        private let lock = NSLock()
        private var count = 0
        private var answered: [Int] = []
        var uploads: Int { lock.withLock { count } }
        /// The statuses of the uploads that the server has answered.
        var statuses: [Int] { lock.withLock { answered } }

        func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            let isFirst = lock.withLock {
                if request.method == "PUT" { count += 1 }
                return request.method == "PUT" && count == 1
            }
            guard isFirst else {
                return inner.send(request) { result in
                    if request.method == "PUT", let status = try? result.get().status {
                        self.lock.withLock { self.answered.append(status) }
                    }
                    completion(result)
                }
            }
            completion(.failure(.connection("cut")))
            return {}
        }
    }

    @Test("Qonversion: the catalog's offerings and the history of a purchase are in the vendor's classes")
    func qonversion() async throws {
        try scene.administrator("/onym/v1/entitlements/plus", "PUT", "{}")
        for id in ["monthly", "yearly"] {
            try scene.administrator(
                "/onym/v1/products/\(id)", "PUT",
                #"{"type":"subscription","store_id":"com.app.\#(id)","duration_seconds":2592000,"entitlements":["plus"]}"#
            )
        }
        let app = Qonversion()
        defer { app.close() }
        let key = try #require(scene.store.entitlements["project_key"])
        app.open(try scene.configuration("qonversion", .entitlements(key: key)))
        let missing: Int? = await withCheckedContinuation { continuation in
            app.offerings { continuation.resume(returning: $0 == nil ? ($1 as NSError?)?.code : nil) }
        }
        #expect(missing == Qonversion.ErrorCode.offeringsNotAvailable.rawValue)
        try scene.administrator("/onym/v1/offerings/standard", "PUT", #"{"products":["yearly","monthly"],"main":true}"#)
        try scene.administrator("/onym/v1/offerings/sale", "PUT", #"{"products":["monthly"]}"#)
        let made = try Shell.result([
            ServerProcess.program, "receipt", "--product", "com.app.yearly", "--transaction", "t-1", "--data",
            scene.store.data,
        ])
        let receipt = try #require(made.output.split(separator: "\n").first.map(String.init), "\(made)")
        let purchase = Purchase(price: "9.99", currency: "EUR", purchased: Date(), appStoreReceipt: receipt)
        let list: [String: Qonversion.Entitlement] = await withCheckedContinuation { continuation in
            app.purchase(purchase) { list, _ in continuation.resume(returning: list) }
        }
        let plus = try #require(list["plus"])
        #expect(plus.isActive && plus.grantType == .purchase && plus.renewsCount == 0)
        let transaction = try #require(plus.transactions.first)
        #expect(transaction.transactionId == "t-1" && transaction.originalTransactionId == "t-1")
        #expect(transaction.transactionDate == plus.firstPurchaseDate && plus.transactions.count == 1)
        // The receipt does not say an end: the entitlement ends by the product's duration.
        #expect(transaction.expirationDate == nil && plus.expirationDate != nil)
        #expect(transaction.type == .subscriptionStarted && transaction.ownershipType == .owner)
        #expect(transaction.environment == .sandbox && transaction.transactionRevocationDate == nil)
        #expect(plus.firstPurchaseDate != nil && plus.lastPurchaseDate == plus.firstPurchaseDate)
        #expect(plus.trialStartDate == nil && plus.autoRenewDisableDate == nil)
        let found: Qonversion.Offerings? = await withCheckedContinuation { continuation in
            app.offerings { offerings, _ in continuation.resume(returning: offerings) }
        }
        let offerings = try #require(found)
        #expect(offerings.main?.identifier == "standard" && offerings.availableOfferings.count == 2)
        #expect(offerings.main?.products.map(\.qonversionID) == ["yearly", "monthly"])
        #expect(offerings.main?.product(for: "yearly")?.storeID == "com.app.yearly")
        #expect(offerings.offering(for: "sale")?.tag == Qonversion.OfferingTag.none)
    }

    @Test("OwlMetry: a file of several megabytes arrives over a connection that was lost once")
    func attachment() async throws {
        let file = URL(filePath: scene.store.folder.path + "/trace.log")
        let bytes = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 * 31) })
        try bytes.write(to: file)
        let key = try #require(scene.store.claim["client_key"])
        let cut = Cut()
        let folder = URL(filePath: scene.store.folder.path + "/owl")
        try Owl.configure(
            endpoint: scene.server.base, apiKey: key, bundleID: "com.example.demo", attributionEnabled: false
        ) {
            ($0.folder, $0.callbacks, $0.transport, $0.environment) = (folder, .background, cut, .development)
            ($0.keepsakes, $0.imports) = (nil, [])
        }
        Owl.error("failed", attachments: [OwlAttachment(fileURL: file), OwlAttachment(data: Data(), name: "empty")])
        try await Owl.flush()
        let user = try #require(Owl.currentUserId)
        while cut.statuses.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
        // The server compares the size and the sum of the file with what the device announced.
        #expect(cut.uploads == 2 && cut.statuses == [200])
        let page = try scene.administrator("/onym/v1/people/claim_anonymous_id:\(user)/timeline?kinds=attachment")
        #expect((page["rows"] as? [[String: Any]])?.isEmpty == false)
        await Owl.shutdown()
    }
}
