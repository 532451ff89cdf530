package import Crypto
package import Domain
package import Gateway
package import Outbound
import Threads

/// The stores of all projects. Each option has the project's own value, or else the server's value.
package final class ProjectStores: Sendable {
    /// The settings of the server for all projects.
    package struct Server: Sendable {
        /// Whether the server also accepts test receipts in production, for trials. It then also asks stores without TLS.
        package var isForTrying = false
        /// The root of App Store transactions; nil if the server accepts none.
        package var appStoreRoot: Certificate?
        /// The root of App Store receipts; nil if the server accepts none.
        package var appStoreReceiptRoot: Certificate?
        package var addresses = StoreAddresses()
        /// The server's values, by the names of the options.
        package var options: [String: String] = [:]
        /// The time for which a subscription that would renew gives access after its end while its store does not answer.
        package var graceMilliseconds: Int64 = 0

        package init() {}

        /// The mistakes in the server's options.
        package var faults: [StoreOptionFault] {
            let stores = StoreValidators(
                self, TestReceipts(master: []), isProjects: { _ in false }, { options[$0] })
            return stores.faults.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    private struct Entry {
        let options: StoreOptions
        let stores: StoreValidators
    }

    private let server: Server
    private let tests: TestReceipts
    private let seals: PerMasterKey<Seal>
    /// The last words of the stores.
    package let activity = StoreActivity()
    /// Tells of notices that wait for a question.
    let notices = NoticeBell()
    private let entries = Monitor<[ProjectID: Entry]>([:])

    /// - Parameters:
    ///   - server: the settings of the server.
    ///   - tests: the receipts of `onym receipt`.
    ///   - keys: the master keys, under which the projects' secrets are sealed.
    package init(_ server: Server, tests: TestReceipts, _ keys: MasterKeys) {
        self.server = server
        self.tests = tests
        seals = PerMasterKey(keys, for: "store options") { Seal(key: $0) }
    }

    /// The stores of a project. They are made once for each version of the project's options.
    func of(_ project: ProjectID, _ directory: Directory) -> StoreValidators {
        let options = directory.storeOptions(of: project)
        let entry = entries.withLock { $0[project] }
        if let entry, entry.options == options { return entry.stores }
        if entry != nil { activity.forgetFaults(of: project) }
        let stores = self.stores(options, project)
        entries.withLock { $0[project] = Entry(options: options, stores: stores) }
        return stores
    }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        of(place.project, tools.directory).check(claim, place, tools)
    }

    private func stores(_ options: StoreOptions, _ project: ProjectID) -> StoreValidators {
        func value(_ name: String) -> String? {
            switch options.values[name] {
            case nil: server.options[name]
            case .plain(let text): text
            case .sealed(let bytes):
                // A value under another master key counts as missing, and the faults of the stores name it.
                open(bytes, name, project).map { String(decoding: $0, as: UTF8.self) }
            }
        }
        return StoreValidators(server, tests, isProjects: { options.values[$0] != nil }, value)
    }

    // MARK: - For the calls about options

    /// The faults of a project's stores, by store.
    package func faults(_ options: StoreOptions, of project: ProjectID) -> [String: String] {
        stores(options, project).faults.mapValues { $0.message { $0 } }
    }

    /// The names of the options that the server's settings have.
    package var serverOptions: Set<String> { Set(server.options.keys) }

    /// The sealed form of a secret.
    package func sealed(_ text: String, as name: String, in project: ProjectID) -> [UInt8] {
        seals.newest.seal(Array(text.utf8), for: ProjectStores.context(name, project))
    }

    /// The secret of a sealed form; nil if no master key of this server opens it.
    private func open(_ sealed: [UInt8], _ name: String, _ project: ProjectID) -> [UInt8]? {
        let context = ProjectStores.context(name, project)
        return seals.all.lazy.compactMap { $0.open(sealed, for: context) }.first
    }

    /// The sealed forms under a master key of a project's secrets, by the names of the options. A secret that no key opens stays as it
    /// is.
    package func resealed(
        _ options: StoreOptions, of project: ProjectID, under key: MasterKeyMark
    ) -> [String: RotateMasterKey.Resealed] {
        guard let seal = seals.of(key) else { return [:] }
        var resealed: [String: RotateMasterKey.Resealed] = [:]
        for case (let name, .sealed(let old)) in options.values {
            guard let plain = open(old, name, project) else { continue }
            let new = seal.seal(plain, for: ProjectStores.context(name, project))
            if new != old { resealed[name] = RotateMasterKey.Resealed(old: old, new: new) }
        }
        return resealed
    }

    /// The number of a project's secrets that are sealed under a master key.
    package func sealedCount(_ options: StoreOptions, of project: ProjectID, under key: MasterKeyMark) -> Int {
        guard let seal = seals.of(key) else { return 0 }
        return options.values.count { name, value in
            guard case .sealed(let bytes) = value else { return false }
            return seal.open(bytes, for: ProjectStores.context(name, project)) != nil
        }
    }

    private static func context(_ name: String, _ project: ProjectID) -> String {
        "store option\0\(project.rawValue)\0\(name)"
    }

    /// Notes whether a store has answered.
    func note(
        _ result: Result<[Receipt], StoreProblem>, of source: Purchase.Source, _ project: ProjectID, at now: Instant
    ) {
        switch result {
        case .failure(.unavailable(let outage)): activity.note(outage, project, at: now)
        case .success, .failure(.bad): activity.note(answerOf: source, project, at: now)
        }
    }

    /// Whether the server can check purchases of a store.
    package func isSetUp(_ source: Purchase.Source, _ project: ProjectID, _ directory: Directory) -> Bool {
        let stores = of(project, directory)
        return switch source {
        case .appStore: stores.appStore != nil
        case .playStore: stores.play != nil
        case .stripe: stores.stripe != nil
        case .paddle: false
        }
    }

    /// Whether the server can ask a store about purchases by itself.
    package func asks(_ source: Purchase.Source, _ project: ProjectID, _ directory: Directory) -> Bool {
        let stores = of(project, directory)
        return switch source {
        case .appStore: stores.appStore?.server != nil
        case .playStore: stores.play != nil
        case .stripe: stores.stripe != nil
        case .paddle: false
        }
    }

    /// Asks the store of a purchase now, and stores the answer. The call continues with the reason if the store has not
    /// answered.
    ///
    /// - Parameters:
    ///   - purchase: a known purchase.
    ///   - catalog: the products of the project.
    ///   - project: the project of the purchase.
    ///   - now: the present moment.
    ///   - directory: the apps of the project.
    ///   - next: the next step of the call; nil stands for an answer of the store.
    package func ask(
        about purchase: Purchase, _ catalog: Catalog, in project: ProjectID, at now: Instant, _ directory: Directory,
        then next: @escaping @Sendable (_ fault: String?) -> Step
    ) -> Step {
        of(project, directory).question(
            about: purchase, catalog, in: project, at: now, directory, withRefunds: true
        ).step { result in
            self.note(result, of: purchase.source, project, at: now)
            return switch result {
            case .success(let receipts): .decide(TakeStoreNews(receipts, asked: purchase.id)) { _, _ in next(nil) }
            case .failure(.unavailable(let outage)): next(outage.message)
            case .failure(.bad(.foreign)): next("The store's answer is for another app or another world")
            case .failure(.bad(.unreadable)): next("The store cannot be asked about this purchase alone")
            case .failure(.bad): next("The store does not know this purchase any more")
            }
        }
    }
}

/// The addresses of the stores; tests use other addresses.
package struct StoreAddresses: Sendable {
    package var appStore = OutboundURL(AppStoreServer.standardURL)
    package var appStoreSandbox = OutboundURL(AppStoreServer.standardSandboxURL)
    package var play = OutboundURL(PlayStore.standardURL)
    /// The keys with which Google signs the tokens of pushes.
    package var googleKeys = OutboundURL(GooglePushTokens.standardURL)
    package var stripe = OutboundURL(Stripe.standardURL)

    package init() {}
}

/// A mistake in the options of a store, which keeps the store from being used.
package enum StoreOptionFault: Error, Equatable {
    /// The option needs the other one.
    case needs(String, beside: String)
    /// The value of the option has another content.
    case wrong(String, String)
    /// The master key of the server does not open the project's secrets.
    case sealedOtherwise([String])

    /// - Parameter name: the name of an option, as the reader knows it.
    package func message(_ name: (String) -> String) -> String {
        switch self {
        case .needs(let other, let option): "\(name(other)) must be set beside \(name(option))."
        case .wrong(let option, let what): "\(name(option)) is \(what)."
        case .sealedOtherwise(let options):
            options.map { "\(name($0)) is sealed under another master key; set it again." }.joined(separator: " ")
        }
    }
}

extension StoreValidators {
    /// Makes the stores of the options. A store with a fault is missing.
    ///
    /// - Parameters:
    ///   - server: the settings of the server.
    ///   - tests: the receipts of `onym receipt`.
    ///   - isProjects: whether a project has set an option itself.
    ///   - value: the value of an option.
    init(
        _ server: ProjectStores.Server, _ tests: TestReceipts, isProjects: (String) -> Bool,
        _ value: (String) -> String?
    ) {
        self.init(tests: tests)
        takesTestsInProduction = server.isForTrying
        do throws(StoreOptionFault) {
            appStore = try StoreValidators.appStore(server, value)
        } catch {
            faults["app_store"] = error
        }
        do throws(StoreOptionFault) {
            offers = try StoreValidators.offers(value)
        } catch {
            faults["app_store"] = faults["app_store"] ?? error
        }
        do throws(StoreOptionFault) {
            play = try StoreValidators.play(server, isProjects, value)
        } catch {
            faults["play"] = error
        }
        if let key = value("stripe.secret_key"), let url = server.addresses.stripe {
            if key.utf8.allSatisfy({ (0x21..<0x7F).contains($0) }) {
                stripe = Stripe(
                    url, key: key,
                    webhookSecrets: (value("stripe.webhook_secret") ?? "").split(separator: ",").map(String.init),
                    graceDays: value("stripe.grace_days").flatMap(Int64.init) ?? Stripe.standardGraceDays,
                    proof: value("stripe.proof").flatMap(Stripe.ProofRule.init(rawValue:)),
                    refundEnds: value("stripe.refund_ends") == "on",
                    graceMilliseconds: server.graceMilliseconds)
            } else {
                faults["stripe"] = .wrong("stripe.secret_key", "no key of Stripe: it has other than visible characters")
            }
        }
        for store in StoreOption.stores {
            let names = StoreOption.all.filter { $0.store == store && $0.isSecret }.map(\.id)
            let sealed = names.filter { isProjects($0) && value($0) == nil }
            if !sealed.isEmpty { faults[store] = .sealedOtherwise(sealed) }
        }
        isAsked = value("poll.enabled") != "off"
    }

    private static func appStore(
        _ server: ProjectStores.Server, _ value: (String) -> String?
    ) throws(StoreOptionFault) -> AppStore? {
        var asking: AppStoreServer?
        if let text = value("app_store.key") {
            let key = try appleKey(text, "app_store.key")
            guard let keyID = value("app_store.key_id") else {
                throw .needs("app_store.key_id", beside: "app_store.key")
            }
            guard let issuer = value("app_store.issuer_id") else {
                throw .needs("app_store.issuer_id", beside: "app_store.key")
            }
            guard server.appStoreRoot != nil else { throw .needs("app_store_root", beside: "app_store.key") }
            if let url = server.addresses.appStore, let sandbox = server.addresses.appStoreSandbox {
                asking = AppStoreServer(url, sandboxURL: sandbox, issuer: issuer, keyID: keyID, key: key)
            }
        }
        if server.appStoreRoot == nil, server.appStoreReceiptRoot == nil { return nil }
        return AppStore(
            root: server.appStoreRoot, receiptRoot: server.appStoreReceiptRoot, bundleID: value("app_store.bundle_id"),
            deviceRule: value("app_store.device_hash").flatMap(AppStore.DeviceRule.init) ?? .note,
            appID: value("app_store.app_id").flatMap(Int64.init), server: asking,
            graceMilliseconds: server.graceMilliseconds)
    }

    /// The key of Apple that an option has.
    private static func appleKey(_ text: String, _ name: String) throws(StoreOptionFault) -> PrivateKey {
        guard let key = PrivateKey(pem: Array(text.utf8)), "\(key.algorithm)" == "ES256" else {
            throw .wrong(name, "no key of Apple: a private key of P-256 in PEM is needed")
        }
        return key
    }

    private static func offers(
        _ value: (String) -> String?
    ) throws(StoreOptionFault) -> OfferSigner? {
        let name = "app_store.offer_key"
        guard let text = value(name) else { return nil }
        let key = try appleKey(text, name)
        guard let keyID = value("app_store.offer_key_id") else { throw .needs("app_store.offer_key_id", beside: name) }
        guard let bundleID = value("app_store.bundle_id") else { throw .needs("app_store.bundle_id", beside: name) }
        return OfferSigner(keyID: keyID, key: key, bundleID: bundleID)
    }

    private static func play(
        _ server: ProjectStores.Server, _ isProjects: (String) -> Bool, _ value: (String) -> String?
    ) throws(StoreOptionFault) -> PlayStore? {
        let name = "play.service_account"
        guard let text = value(name) else { return nil }
        guard let account = PlayStore.ServiceAccount(json: Array(text.utf8)) else {
            throw .wrong(name, "no service account of Google: client_email and private_key are needed")
        }
        // The address of a token comes from a project, so it must not lead to a service inside the operator's network.
        guard !isProjects(name) || server.isForTrying || account.isAtGoogle else {
            throw .wrong(name, "a service account whose token_uri is not at https://oauth2.googleapis.com/")
        }
        guard let package = value("play.package_name") else { throw .needs("play.package_name", beside: name) }
        var pushTokens: GooglePushTokens?
        if let audience = value("play.push_audience") {
            guard let email = value("play.push_email") else {
                throw .needs("play.push_email", beside: "play.push_audience")
            }
            pushTokens = server.addresses.googleKeys.map { GooglePushTokens($0, audience: audience, email: email) }
        }
        return server.addresses.play.map {
            PlayStore(
                $0, package: package, account: account, pushSecret: value("play.push_secret"), pushTokens: pushTokens,
                acknowledges: value("play.acknowledge") != "off", graceMilliseconds: server.graceMilliseconds)
        }
    }
}
