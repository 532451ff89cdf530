package import Foundation

/// The client of the Entitlements dialect (spec/entitlements.md 3). Two users count: the device's first user, which the
/// device keeps for ever, and the user who is logged in.
package final class EntitlementsClient: DialectClient, @unchecked Sendable {
    package enum Call: Equatable, Sendable {
        case userInfo
        case identify(String)
        /// The greatest age of the answer in seconds; nil to ask the server.
        case entitlements(TimeInterval?)
        case restore([String], String?)
        case properties
        case catalog
        /// The greatest age of the answer in seconds; nil to ask the server.
        case launch(TimeInterval?)
        /// Finds the user of a login that has no answer yet, by its number.
        case turn(Int64)
    }

    package enum Outcome: Sendable {
        case user(AccessUser)
        case entitlements([String: Entitlement])
        case restored([RestoredPurchase])
        case properties([String: String])
        case catalog([CatalogProduct])
        case launch(Launch)

        var launch: Launch? { if case .launch(let launch) = self { launch } else { nil } }
        var properties: [String: String]? { if case .properties(let list) = self { list } else { nil } }
        var catalog: [CatalogProduct]? { if case .catalog(let list) = self { list } else { nil } }
        var user: AccessUser? { if case .user(let user) = self { user } else { nil } }
        var entitlements: [String: Entitlement]? { if case .entitlements(let list) = self { list } else { nil } }
        var restored: [RestoredPurchase]? { if case .restored(let list) = self { list } else { nil } }
    }

    private let key: String
    private var configuration: Configuration { runtime.configuration }

    // The kept state.
    private var device = ""
    private var current = ""
    private var identity: String?
    /// The users that the server may not know yet: the device's user, and after an import the user who was logged in.
    private var unmade: [String] = []
    private var isOptedOut = false
    /// The last answer for each user who was logged in; the empty text stands for no user.
    private var cache: [String: Cached] = [:]
    private var launch: KeptLaunch?
    private var refusedPurchases: [RefusedPurchase] = []
    private var local = LocalAccess(kept: nil)
    /// The logins of ``OnymClient/login(_:email:code:)`` without an answer yet, in order.
    private var turns: [Turn] = []
    /// The users that such logins have led to, as long as letters wait for them.
    private var led: [Int64: String] = [:]
    private var lastTurn: Int64 = 0
    /// The login of the user who is logged in now, if it has no answer yet.
    private var pending: Int64?
    /// The vendor's user of the imported identity, until the server has named the identity's user.
    private var importedUser: String?
    private var turnTimer = 0
    private var turnFailures = 0

    private struct Turn {
        let number: Int64
        let id: String
    }

    private let queue: CallQueue<Call, Outcome>
    private let check: AnswerCheck?
    /// Rises with each change of the user. An answer to an earlier call does not count after a change.
    private var epoch = 0
    /// The time of the last answer in this process, for each user who was logged in.
    private var asked: [String: Date] = [:]
    /// The number of purchases and restores that the server has got.
    private var grants = 0
    /// The value of `grants` at the server's last answer.
    private var grantsAsked = 0
    /// Purchases whose user the server had lost, and for which this client has made the user again.
    private var retold: Set<Int64> = []
    private var buyers: [Int64: @Sendable (Result<Void, OnymError>) -> Void] = [:]

    /// An answer that is younger than this is not asked for again.
    package static let freshness: TimeInterval = 300
    /// Without a network an answer counts for this long, until its entitlements expire.
    private var lifetime: TimeInterval { configuration.accessLifetime ?? .infinity }
    /// Finishes a transaction of the device's shop, when the server has decided about its purchase.
    private var finishTransaction: (@Sendable (String) -> Void)?
    /// The client keeps the answers of at most this many users.
    private static let cacheLimit = 10
    /// The codes with which the server refuses a purchase for good: it is invalid, it belongs to another user, or the server
    /// takes none of its store (spec/entitlements.md 1.5).
    private static let finalCodes: Set<String> = [
        "invalid_data", "purchase_fraud", "not_found", "already_exists", "not_implemented",
    ]
    /// The greatest number of kept refused purchases; the oldest are removed first.
    package static let refusedLimit = 100
    private static let property = "p"
    private static let purchase = "b"
    /// The number of the login that stands for an imported identity: an import comes before all logins.
    private static let importedTurn: Int64 = 1

    private struct Cached {
        var at: Date
        var list: JSON
        /// The proof of a checked answer, with the answer's body.
        var signed: (proof: AnswerCheck.Proof, body: [UInt8])?
        /// Whether the proof is valid; nil if nobody has checked it since the start.
        var isProven: Bool?

        init(at: Date, list: JSON) { (self.at, self.list) = (at, list) }

        init(kept: JSON) {
            at = Date(milliseconds: kept["t"]?.integer ?? 0)
            guard let body = kept["b"]?.text, let proof = AnswerCheck.Proof(kept: kept["p"]) else {
                list = kept["l"] ?? .array([])
                return
            }
            signed = (proof, Array(body.utf8))
            list = JSON(Array(body.utf8))?["data"] ?? .array([])
        }

        /// Whether the answer counts without the server.
        /// - Parameters:
        ///   - user: the present user.
        ///   - now: the present moment.
        ///   - lifetime: the time for which each answer counts, in seconds.
        ///   - check: the check that the answer has to pass; nil if the answer needs no proof.
        mutating func counts(
            for user: AccessUser, at now: Date, within lifetime: TimeInterval, by check: AnswerCheck?
        ) -> Bool {
            guard now.timeIntervalSince(at) < lifetime else { return false }
            guard let check else { return true }
            guard let signed, signed.proof.isUsable(at: now), signed.proof.isAbout(user) else { return false }
            // Somebody may have changed the file.
            let isProven = isProven ?? check.verifies(signed.proof, signed.body)
            self.isProven = isProven
            return isProven
        }

        var kept: JSON {
            guard let signed else { return ["t": .integer(at.milliseconds), "l": list] }
            return [
                "t": .integer(at.milliseconds), "b": .string(String(decoding: signed.body, as: UTF8.self)),
                "p": signed.proof.kept,
            ]
        }
    }

    package init(_ runtime: Runtime, key: String) throws(FileFault) {
        // The sandbox has the same key with a prefix (spec/entitlements.md 1.1).
        let isSandbox = runtime.configuration.environment == .development && !key.hasPrefix("test_")
        self.key = isSandbox ? "test_\(key)" : key
        let settings = runtime.configuration
        check = AnswerCheck(settings, key: key, files: runtime.files) { [chance = runtime.chance] in
            [chance(), chance()].flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) }
            }
        }
        if settings.accessRoot == nil {
            runtime.log.writeOnce(.warnings, "answers about access are not checked, because accessRoot is not set")
        } else if check?.hasRoot == false {
            runtime.log.writeOnce(.errors, "no answer about access can count, because accessRoot is not a key")
        }
        var callback: (@escaping @Sendable () -> Void) -> Void = { _ in }
        queue = CallQueue { callback($0) }
        var state: JSON = .null
        try super.init("entitlements", runtime) { if case .state(let kept) = $0 { state = kept } }
        callback = { [unowned self] in call($0) }
        device = state["device"]?.text ?? ""
        current = state["current"]?.text ?? device
        identity = state["identity"]?.text
        importedUser = state["imported"]?.text
        isOptedOut = state["out"]?.bool ?? false
        for (name, entry) in state["cache"]?.members ?? [:] {
            cache[name] = Cached(kept: entry)
        }
        launch = KeptLaunch(kept: state["launch"])
        refusedPurchases = (state["refused"]?.elements ?? []).map(RefusedPurchase.init(kept:))
        local = LocalAccess(kept: state["local"])
        for (number, id) in state["turns"]?.members ?? [:] {
            if let number = Int64(number), let id = id.text { turns.append(Turn(number: number, id: id)) }
        }
        turns.sort { $0.number < $1.number }
        for (number, user) in state["led"]?.members ?? [:] { led[Int64(number) ?? 0] = user.text }
        lastTurn = state["turn"]?.integer ?? 0
        pending = state["pending"]?.integer
        if device.isEmpty {
            let imported = state == .null ? importVendor() : nil
            device = runtime.keepsake("entitlements.user") { imported?.device ?? newUser() }
            current = device
            unmade = [device]
            if let imported, device == imported.device { take(imported) }
        } else if state["created"]?.bool != true {
            unmade = state["unmade"]?.elements?.compactMap(\.text) ?? [device]
        }
        save()
        queue.run = { [unowned self] in run($0) }
        if mailbox.count > 0 { deliverSoon() }
        if !turns.isEmpty { planTurn(after: 0) }
    }

    /// Reads the user of the vendor's SDK.
    private func importVendor() -> QonversionImport? {
        for vendor in runtime.imports {
            guard case .qonversion(let suite) = vendor else { continue }
            let found = QonversionImport(runtime.vendorStore, suite: suite)
            runtime.announce(vendor, found.tally)
            return found
        }
        return nil
    }

    /// Takes over who the user is. The vendor's SDK has made the device's user. An identity counts at once, and the server names
    /// its user: the server may know neither the identity nor both users, because the vendor's files name buyers only.
    private func take(_ imported: QonversionImport) {
        guard let identity = imported.identity else {
            unmade = []
            return
        }
        self.identity = identity
        current = imported.current ?? device
        if current != device { unmade.append(current) }
        importedUser = current
        lastTurn = EntitlementsClient.importedTurn
        turns = [Turn(number: lastTurn, id: identity)]
        pending = lastTurn
    }

    private func newUser() -> String { "QON_\(runtime.digits(1))" }

    package override var kept: JSON {
        .sparse([
            "device": .string(device), "current": .string(current), "identity": .optional(identity),
            "created": .bool(unmade.isEmpty), "unmade": unmade.isEmpty ? .null : .array(unmade.map(JSON.string)),
            "imported": .optional(importedUser), "out": .bool(isOptedOut),
            "lifetime": configuration.accessLifetime.map { .integer(Int64($0)) } ?? .null,
            "cache": .object(cache.mapValues(\.kept)), "launch": launch?.kept ?? .null,
            "local": local.kept, "grants": EntitlementsClient.table(configuration.entitlementsOfProducts),
            "refused": refusedPurchases.isEmpty ? .null : .array(refusedPurchases.map(\.kept)),
            "turns": EntitlementsClient.table(turns.map { ($0.number, $0.id) }),
            "led": EntitlementsClient.table(led.map { ($0.key, $0.value) }),
            "turn": lastTurn == 0 ? .null : .integer(lastTurn), "pending": pending.map { .integer($0) } ?? .null,
        ])
    }

    private static func table(_ entries: [(Int64, String)]) -> JSON {
        entries.isEmpty ? .null : .texts(Dictionary(entries.map { ("\($0.0)", $0.1) }, uniquingKeysWith: { $1 }))
    }

    private static func table(_ entries: [String: [String]]) -> JSON {
        entries.isEmpty ? .null : .object(entries.mapValues { .array($0.map(JSON.string)) })
    }

    package override var answerCheck: AnswerCheck? { check }

    package override func isEnvelope(_ body: JSON) -> Bool {
        body["error"]?["code"]?.text != nil && body["error"]?["message"]?.text != nil
            || body["success"]?.bool == false && body["data"]?["message"]?.text != nil
    }

    /// The purchases that the server will never accept.
    package var refused: [RefusedPurchase] { enter { refusedPurchases } }

    package func forgetRefused() {
        enter {
            guard !refusedPurchases.isEmpty, !isShutDown else { return }
            refusedPurchases = []
            save()
        }
    }

    package override var isOut: Bool { enter { isOptedOut } }
    package var user: AccessUser { enter { userNow } }
    private var userNow: AccessUser { AccessUser(id: current, deviceID: device, identityID: identity) }

    // MARK: - Calls

    package func perform(_ job: Call, _ completion: @escaping CallQueue<Call, Outcome>.Completion) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            if case .identify(let id) = job, id.isEmpty || id.utf8.count > 255 {
                return call { completion(.failure(.refused(.invalid("an identity has 1 to 255 bytes")))) }
            }
            queue.add(job, configuration.overlap, completion)
        }
    }

    package func logout() {
        enter {
            guard !isShutDown, !isOptedOut else { return }
            leave()
            become(device, nil)
        }
    }

    /// Ends all calls from before a change of the user: none of them may undo the change.
    private func leave() {
        epoch += 1
        queue.close(.refused(.superseded))
        pending = nil
        // Nobody waits for what the other logins would lead to.
        let waiting = Set(mailbox.letters.lazy.map(\.owner))
        turns.removeAll { !waiting.contains(EntitlementsClient.owner(ofTurn: $0.number)) }
        led = led.filter { waiting.contains(EntitlementsClient.owner(ofTurn: $0.key)) }
        turnFailures = 0
        if !turns.isEmpty { planTurn(after: 0) }
    }

    // MARK: - One login

    /// Logs a user in, at once: all letters from now on belong to the user that the server finds. The client asks again until it
    /// has an answer, over launches too, or until the next login or logout.
    package func login(_ id: String, _ completion: @escaping CallQueue<Call, Outcome>.Completion) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            if id == identity {
                guard let pending else { return queue.add(.identify(id), .queue, completion) }
                return queue.add(.turn(pending), .queue, completion)
            }
            leave()
            lastTurn += 1
            turns.append(Turn(number: lastTurn, id: id))
            pending = lastTurn
            become(device, id)
            if let first = turns.first, first.number != lastTurn { queue.add(.turn(first.number), .queue) { _ in } }
            queue.add(.turn(lastTurn), .queue, completion)
        }
    }

    /// The owner of letters whose user is the one that a login leads to.
    private static func owner(ofTurn number: Int64) -> String { "@\(number)" }

    /// The owner of a letter that is made now.
    private var ownerNow: String { pending.map(EntitlementsClient.owner) ?? current }

    /// The user of a letter's owner; nil while nobody knows.
    private func user(ofOwner owner: String) -> String? {
        guard owner.hasPrefix("@"), let number = Int64(owner.dropFirst()) else { return owner }
        if let user = led[number] { return user }
        // The state with the login was damaged: what was bought is still the device's.
        return turns.contains { $0.number == number } ? nil : device
    }

    private func planTurn(after delay: TimeInterval) {
        turnTimer += 1
        let number = turnTimer
        later(delay) { client in
            guard let client = client as? EntitlementsClient, client.turnTimer == number else { return }
            client.takeTurn()
        }
    }

    /// Finds the user of the first login without an answer.
    private func takeTurn() {
        guard let turn = turns.first, !isOptedOut, !queue.calls.contains(.turn(turn.number)) else { return }
        queue.add(.turn(turn.number), .queue) { _ in }
    }

    package override func networkIsBack() {
        if !turns.isEmpty { planTurn(after: runtime.part(of: DialectClient.longestReturn)) }
    }

    package override func willFlush() { if !turns.isEmpty { planTurn(after: 0) } }

    /// Finds the user of a login; `then` gets the failure, if nobody knows the user after it.
    private func settle(_ number: Int64, _ then: @escaping (OnymError?) -> Void) {
        guard let turn = turns.first(where: { $0.number == number }) else { return then(nil) }
        find(turn.id) { [unowned self] result in
            switch result {
            case .success(let owner): settled(turn, owner)
            case .failure(let error):
                // A login that others have followed, and that the server has refused, leads to nobody but the device's own user.
                let isOver = !error.isPassing && error.serversStatus.map { ![401, 403].contains($0) } ?? false
                guard isOver, pending != number else {
                    turnFailures += 1
                    planTurn(after: delay(after: turnFailures, error))
                    // Purchases go on waiting for the login; their callers get the error now.
                    endBuyers(error)
                    return then(error)
                }
                settled(turn, device)
            }
            then(nil)
        }
    }

    private func settled(_ turn: Turn, _ owner: String) {
        turns.removeAll { $0.number == turn.number }
        if turn.number == EntitlementsClient.importedTurn { importedUser = nil }
        led[turn.number] = owner
        turnFailures = 0
        if pending == turn.number {
            // The waiting calls came after the login, and belong to the user that it finds.
            epoch += 1
            pending = nil
            become(owner, turn.id)
        } else {
            save()
        }
        if !turns.isEmpty { planTurn(after: 0) }
        if mailbox.count > 0 { deliver() }
    }

    package override func setOptedOut(_ isOut: Bool) {
        enter {
            guard isOut != isOptedOut, !isShutDown else { return }
            isOptedOut = isOut
            guard isOut else { return save() }
            epoch += 1
            queue.close(.refused(.optedOut))
            endBuyers(.refused(.optedOut))
            device = newUser()
            (current, identity, unmade, cache, asked) = (device, nil, [device], [:], [:])
            (turns, led, pending, importedUser) = ([], [:], nil, nil)
            turnTimer += 1
            (refusedPurchases, local, launch) = ([], LocalAccess(kept: nil), nil)
            configuration.keepsakes?.keep(nil, as: "entitlements.user")
            wipe(.optedOut)
        }
    }

    package override func close(_ error: OnymError) {
        queue.close(error)
        endBuyers(error)
    }

    package override var droppable: Set<String> { [EntitlementsClient.property] }

    /// Purchases go on waiting; their callers get the error now.
    package override func held(_ error: OnymError) { endBuyers(error) }

    private func endBuyers(_ error: OnymError) {
        let ended = buyers.sorted { $0.key < $1.key }.map(\.value)
        buyers = [:]
        for completion in ended { call { completion(.failure(error)) } }
    }

    private func run(_ call: Call) {
        if case .identify(let id) = call, id == identity, pending == nil { return finish(.success(.user(userNow))) }
        if case .entitlements(let seconds?) = call, let known = fresh(within: seconds) {
            return finish(.success(.entitlements(known)))
        }
        if case .launch(let seconds?) = call, let known = freshLaunch(within: seconds) {
            return finish(.success(.launch(known)))
        }
        ensureUser { [unowned self] result in
            if case .failure(let error) = result {
                if case .turn = call {
                    turnFailures += 1
                    planTurn(after: delay(after: turnFailures, error))
                }
                return end(call, error)
            }
            switch call {
            case .identify, .turn: make(call)
            case .userInfo, .entitlements, .restore, .properties, .catalog, .launch:
                guard let pending else { return make(call) }
                // Each of these is about the user who is logged in.
                settle(pending) { [unowned self] error in
                    if let error { end(call, error) } else { make(call) }
                }
            }
        }
    }

    private func end(_ call: Call, _ error: OnymError) {
        if case .entitlements = call { return finish(fallBack(error)) }
        if case .launch = call { return finish(launchWithoutServer(error)) }
        finish(.failure(error))
    }

    private func make(_ call: Call) {
        switch call {
        case .userInfo: finish(.success(.user(userNow)))
        case .identify(let id):
            guard let pending, id == identity else { return identify(id) }
            settle(pending) { [unowned self] error in finish(error.map { .failure($0) } ?? .success(.user(userNow))) }
        case .turn(let number):
            settle(number) { [unowned self] error in
                finish(error.map { .failure($0) } ?? .success(.user(userNow)))
            }
        case .entitlements: fetch()
        case .restore(let receipts, let strategy): restore(receipts, strategy)
        case .properties:
            list("/v3/users/\(current.escaped)/properties") { entries in
                let pairs = entries.compactMap { entry in
                    entry["key"]?.text.map { ($0, entry["value"]?.text ?? "") }
                }
                return .properties(Dictionary(pairs, uniquingKeysWith: { $1 }))
            }
        case .catalog:
            list("/v3/products/\(current.escaped)") { [unowned self] entries in
                let products = entries.compactMap(CatalogProduct.init)
                know(products)
                return .catalog(products)
            }
        case .launch: start()
        }
    }

    private func finish(_ result: Result<Outcome, OnymError>) { queue.finish(result) }

    /// Asks for a list.
    private func list(_ path: String, _ read: @escaping ([JSON]) -> Outcome) {
        ask(request("GET", path)) { [unowned self] result in
            finish(
                result.flatMap { answer in
                    JSON(answer.body)?.elements.map { .success(read($0)) } ?? .failure(answer.malformed)
                })
        }
    }

    /// Sends a request. The answer counts only if the user has not changed.
    private func ask(_ request: HTTPRequest, then: @escaping (Result<HTTPAnswer, OnymError>) -> Void) {
        let epoch = epoch
        exchange(request) { [unowned self] result in if epoch == self.epoch { then(result) } }
    }

    // MARK: - The device's user

    private func ensureUser(_ then: @escaping (Result<Void, OnymError>) -> Void) {
        guard let user = unmade.first else { return then(.success(())) }
        ask(creation(of: user)) { [unowned self] result in
            switch result.flatMap({ $0.object }) {
            case .success:
                created(user)
                ensureUser(then)
            // An earlier answer was lost: the user exists already (spec/entitlements.md, decision 7).
            case .failure(let error) where error.serversStatus == 422:
                ask(request("GET", "/v3/users/\(user.escaped)")) { [unowned self] result in
                    if case .failure(let error) = result.flatMap({ $0.object }) { return then(.failure(error)) }
                    created(user)
                    ensureUser(then)
                }
            case .failure(let error): then(.failure(error))
            }
        }
    }

    private func creation(of user: String) -> HTTPRequest {
        let environment = configuration.environment == .production ? "prod" : "sandbox"
        return request("POST", "/v3/users/\(user.escaped)", ["environment": .string(environment)])
    }

    private func created(_ user: String) {
        guard unmade.contains(user) else { return }
        unmade.removeAll { $0 == user }
        save()
        if mailbox.count > 0 { deliver() }
    }

    // MARK: - Identify

    private func identify(_ id: String) {
        find(id) { [unowned self] result in
            switch result {
            case .success(let owner): identified(id, owner)
            case .failure(let error): finish(.failure(error))
            }
        }
    }

    /// Finds the user of an identity, or gives this identity to the user of the vendor's SDK, else to the device's user.
    private func find(_ id: String, _ then: @escaping (Result<String, OnymError>) -> Void) {
        ask(request("GET", path(id))) { [unowned self] result in
            let found = result.flatMap(EntitlementsClient.owner)
            if case .failure(let error) = found, error.serversStatus == 404 { return link(id, then) }
            then(found)
        }
    }

    private func link(_ id: String, _ then: @escaping (Result<String, OnymError>) -> Void) {
        let isImported = turns.first?.number == EntitlementsClient.importedTurn && turns.first?.id == id
        let user = isImported ? importedUser ?? device : device
        ask(request("POST", path(id), ["user_id": .string(user)])) { [unowned self] result in
            let linked = result.flatMap(EntitlementsClient.owner)
            if case .failure(let error) = linked, let status = error.serversStatus, status == 422 || status == 409 {
                return look(id, then)
            }
            then(linked)
        }
    }

    /// Another device was faster, or this device's user already belongs to another user.
    private func look(_ id: String, _ then: @escaping (Result<String, OnymError>) -> Void) {
        ask(request("GET", path(id))) { [unowned self] result in
            let found = result.flatMap(EntitlementsClient.owner)
            guard case .failure(let error) = found, error.serversStatus == 404 else { return then(found) }
            ask(request("POST", path(id), [:])) { then($0.flatMap(EntitlementsClient.owner)) }
        }
    }

    private func identified(_ id: String, _ owner: String) {
        // The waiting calls came after this call, and belong to the user that this call finds.
        epoch += 1
        pending = nil
        become(owner, id)
        finish(.success(.user(userNow)))
    }

    private func become(_ user: String, _ id: String?) {
        let (old, oldIdentity) = (current, identity)
        (current, identity) = (user, id)
        save()
        if old != current { runtime.announce(.userChanged(.entitlements, from: old, to: current)) }
        if old != current || oldIdentity != identity { runtime.announce(.accessChanged) }
    }

    private func path(_ identity: String) -> String { "/v3/identities/\(identity.escaped)" }

    private static func owner(_ answer: HTTPAnswer) -> Result<String, OnymError> {
        answer.object.flatMap { body in
            guard let owner = body["user_id"]?.text, !owner.isEmpty else { return .failure(answer.malformed) }
            return .success(owner)
        }
    }

    // MARK: - Entitlements

    private var cacheKey: String { identity ?? "" }

    /// The last answer for the user who is logged in, if the answer still counts.
    package var cached: [String: Entitlement]? { enter { isOptedOut ? nil : cachedNow } }

    /// The last answer, unless the user bought or restored something since that the shop does not vouch for.
    var knownForSure: [String: Entitlement]? {
        enter { isOptedOut || isShutDown || isOutdated && localNow.isEmpty ? nil : cachedNow }
    }

    private var cachedNow: [String: Entitlement]? {
        let local = localNow
        guard let cached = usable else { return local.isEmpty ? nil : local }
        return effective(EntitlementsClient.read(cached.list), since: cached.at).adding(local: local)
    }

    // MARK: - What the shop vouches for

    /// The entitlements of the user who is logged in for which only the device's shop vouches.
    private var localNow: [String: Entitlement] {
        if local.isEmpty { return [:] }
        if local.end(at: now) { save() }
        return local.entitlements(of: cacheKey, configuration.entitlementsOfProducts)
    }

    /// Changes what the shop vouches for, and tells the app.
    private func changeLocal(_ change: (inout LocalAccess) -> Bool) {
        guard !isOptedOut, !isShutDown else { return }
        let old = localNow
        guard change(&local) else { return }
        save()
        if localNow != old { runtime.announce(.accessChanged) }
    }

    /// Gives access for transactions that the device's shop has verified, until the server decides.
    func vouch(_ transactions: [ShopTransaction]) {
        enter {
            let (user, now) = (cacheKey, now)
            changeLocal { local in transactions.reduce(false) { local.add($1, of: user, at: now) || $0 } }
        }
    }

    /// Notes that the server has transactions: its next answer about access decides.
    func serverHas(_ transactions: Set<String>) { enter { changeLocal { $0.sent(transactions) } } }

    /// Ends the access for transactions that the server has refused.
    func serverRefused(_ transactions: Set<String>) { enter { changeLocal { $0.remove(transactions) } } }

    /// Takes the server's catalog.
    private func know(_ products: [CatalogProduct]) {
        let old = localNow
        local.know(products, at: now)
        save()
        if localNow != old { runtime.announce(.accessChanged) }
    }

    /// Asks for the server's catalog, if the device has a shop and knows no catalog of the last day: so the device knows what a
    /// purchase without a network gives.
    private func learnCatalog() {
        guard runtime.shop != nil, local.catalogAt.map({ now.timeIntervalSince($0) > 86_400 }) ?? true,
            !queue.calls.contains(.catalog)
        else { return }
        queue.add(.catalog, .queue) { _ in }
    }

    /// The kept answer for the user who is logged in, if it counts without the server.
    private var usable: Cached? {
        guard var cached = cache[cacheKey] else { return nil }
        let counts = cached.counts(for: userNow, at: now, within: lifetime, by: requiredCheck)
        cache[cacheKey] = cached
        return counts ? cached : nil
    }

    /// The check that each answer has to pass; nil if answers count without a proof.
    private var requiredCheck: AnswerCheck? { configuration.accessVerification == .required ? check : nil }

    /// The time of the server's clock. Only signed answers set it, if answers have to be signed.
    private var now: Date {
        requiredCheck.map { runtime.time.now.addingTimeInterval($0.clock.correction) } ?? runtime.serverNow
    }

    /// The path of the question for a user's access.
    static func accessPath(of user: String) -> String { "/v3/users/\(user.escaped)/entitlements" }

    /// Whether the user bought or restored something since the last question to the server.
    private var isOutdated: Bool { grants != grantsAsked }

    /// A recent answer, unless one of its entitlements has expired since.
    private func fresh(within seconds: TimeInterval) -> [String: Entitlement]? {
        let now = now
        guard let at = asked[cacheKey], seconds > 0, (0..<seconds).contains(now.timeIntervalSince(at)),
            let cached = usable
        else { return nil }
        let list = EntitlementsClient.read(cached.list)
        let hasExpired = list.values.contains { $0.isActive && ($0.expires.map { $0 <= now } ?? false) }
        return hasExpired ? nil : list.adding(local: localNow)
    }

    private func fetch(isAgain: Bool = false) {
        let grants = grants
        ask(request("GET", EntitlementsClient.accessPath(of: current))) { [unowned self] result in
            switch result.flatMap({ answer in answer.object.map { ($0, answer) } }) {
            case .success((let body, let answer)):
                guard let list = body["data"], list.elements != nil else {
                    return finish(fallBack(answer.malformed))
                }
                keep(list, answer, hasAll: grants == self.grants)
                grantsAsked = grants
                // The user bought something while the server answered.
                if grants != self.grants { asked[cacheKey] = nil }
                finish(
                    .success(.entitlements(effective(EntitlementsClient.read(list)).adding(local: localNow))))
                learnCatalog()
            // The server has lost the user: the client makes the user again.
            case .failure(let error) where error.serversStatus == 404 && current == device && !isAgain:
                unmade = [device]
                ensureUser { [unowned self] result in
                    if case .failure(let error) = result { return finish(fallBack(error)) }
                    fetch(isAgain: true)
                }
            case .failure(let error): finish(fallBack(error))
            }
        }
    }

    /// - Parameters:
    ///   - list: the server's entitlements.
    ///   - answer: the whole answer.
    ///   - hasAll: whether the server had all purchases when it answered.
    private func keep(_ list: JSON, _ answer: HTTPAnswer, hasAll: Bool) {
        let now = now
        let old = localNow
        if hasAll { local.giveWay(for: cacheKey) }
        let isChanged = cache[cacheKey]?.list != list || localNow != old
        asked[cacheKey] = now
        var cached = Cached(at: now, list: list)
        cached.signed = answer.proof.map { ($0, answer.body) }
        cached.isProven = true
        cache[cacheKey] = cached
        while cache.count > EntitlementsClient.cacheLimit,
            let oldest = cache.min(by: { ($0.value.at, $0.key) < ($1.value.at, $1.key) })
        {
            cache[oldest.key] = nil
        }
        save()
        if isChanged { runtime.announce(.accessChanged) }
    }

    /// Without a network, the last known answer counts for the user of that answer.
    private func fallBack(_ error: OnymError) -> Result<Outcome, OnymError> {
        guard error.isPassing || error.isOfAnother, let known = cachedNow else { return .failure(error) }
        return .success(.entitlements(known))
    }

    private func effective(_ list: [String: Entitlement], since: Date = .distantPast) -> [String: Entitlement] {
        EntitlementsClient.effective(list, at: now, since: since)
    }

    /// The entitlements, with expired entitlements made inactive. A clock that was set back activates nothing: the time is
    /// never earlier than the server's answer.
    private static func effective(
        _ list: [String: Entitlement], at now: Date, since: Date
    ) -> [String: Entitlement] {
        let now = max(now, since)
        return list.mapValues { entitlement in
            var entitlement = entitlement
            if let expires = entitlement.expires, expires <= now { entitlement.isActive = false }
            return entitlement
        }
    }

    /// The user and the last answer, for a reader that only reads the files; nil where no state exists. With a check, only an
    /// answer with a valid proof counts.
    static func kept(
        in files: ReadOnlyFiles, at now: Date, by check: AnswerCheck?
    ) throws(FileFault) -> (user: AccessUser, list: [String: Entitlement])? {
        var state: JSON = .null
        _ = try Mailbox(
            "entitlements", in: files, id: 0, report: { _ in },
            fold: { if case .state(let kept) = $0 { state = kept } })
        guard let device = state["device"]?.text, state["out"]?.bool != true else { return nil }
        let identity = state["identity"]?.text
        let user = AccessUser(id: state["current"]?.text ?? device, deviceID: device, identityID: identity)
        var local = LocalAccess(kept: state["local"])
        _ = local.end(at: now)
        let grants = (state["grants"]?.members ?? [:]).mapValues { $0.elements?.compactMap(\.text) ?? [] }
        let shops = local.entitlements(of: identity ?? "", grants)
        guard let cached = state["cache"]?[identity ?? ""] else { return (user, shops) }
        let lifetime = state["lifetime"]?.integer.map(Double.init) ?? .infinity
        var known = Cached(kept: cached)
        guard known.counts(for: user, at: now, within: lifetime, by: check),
            known.signed?.proof.isUsable(at: now) ?? true
        else { return (user, shops) }
        return (user, effective(read(known.list), at: now, since: known.at).adding(local: shops))
    }

    private static func read(_ list: JSON) -> [String: Entitlement] {
        var table: [String: Entitlement] = [:]
        for entry in list.elements ?? [] {
            guard let id = entry["id"]?.text else { continue }
            let subscription = entry["product"]?["subscription"]
            table[id] = Entitlement(
                id: id, isActive: entry["active"]?.bool ?? false, started: date(entry["started"]),
                expires: date(entry["expires"]), source: entry["source"]?.text ?? "unknown",
                productID: entry["product"]?["product_id"]?.text, renewState: subscription?["renew_state"]?.text,
                period: subscription?["current_period_type"]?.text)
        }
        return table
    }

    /// A time in seconds; 0 stands for no end.
    private static func date(_ seconds: JSON?) -> Date? {
        guard let seconds = seconds?.integer, seconds != 0 else { return nil }
        return Date(timeIntervalSince1970: Double(seconds))
    }

    // MARK: - Launch

    /// The last launch answer for the user, if it still counts.
    var knownLaunch: Launch? { enter { isOptedOut ? nil : usableLaunch?.launch } }

    private var usableLaunch: KeptLaunch? {
        guard let launch, launch.user == userNow, now.timeIntervalSince(launch.at) < lifetime else { return nil }
        return launch
    }

    /// A recent answer of this process, unless the user bought or restored something since.
    private func freshLaunch(within seconds: TimeInterval) -> Launch? {
        guard let known = usableLaunch, known.grants == grants,
            (0..<seconds).contains(now.timeIntervalSince(known.at))
        else { return nil }
        return known.launch
    }

    /// Asks what shipped apps ask at their start. The user is in the body, because the call knows no login.
    private func start() {
        let grants = grants
        var request = request("POST", "/v1/user/init", ["q_uid": .string(current)])
        (request.fields["Platform"], request.fields["Trigger"]) = ("ios", "Init")
        ask(request) { [unowned self] result in
            switch result {
            case .failure(let error): finish(launchWithoutServer(error))
            case .success(let answer):
                guard let data = JSON(answer.body)?["data"],
                    let new = KeptLaunch(data, of: userNow, at: now, grants: grants)
                else { return finish(launchWithoutServer(answer.malformed)) }
                launch = new
                save()
                finish(.success(.launch(new.launch)))
            }
        }
    }

    private func launchWithoutServer(_ error: OnymError) -> Result<Outcome, OnymError> {
        guard error.isPassing || error.isOfAnother, let known = usableLaunch else { return .failure(error) }
        return .success(.launch(known.launch))
    }

    // MARK: - Restore, purchases, properties

    private func restore(_ receipts: [String], _ strategy: String?) {
        let body: JSON = .sparse([
            "transactions": .array(receipts.map(JSON.string)), "strategy": .optional(strategy),
        ])
        ask(request("POST", "/v3/users/\(current.escaped)/restore", body)) { [unowned self] result in
            switch result.flatMap({ $0.object }) {
            case .success(let body):
                asked[cacheKey] = nil
                grants += 1
                finish(.success(.restored((body["transactions"]?.elements ?? []).map(EntitlementsClient.restored))))
            case .failure(let error): finish(.failure(error))
            }
        }
    }

    private static func restored(_ entry: JSON) -> RestoredPurchase {
        RestoredPurchase(
            transactionID: entry["transaction_id"]?.text, productID: entry["product_id"]?.text,
            outcome: entry["outcome"]?.text ?? "invalid",
            others: ((entry["from"] ?? entry["by"])?.elements ?? []).compactMap(\.text))
    }

    /// - Parameters:
    ///   - purchase: the purchase.
    ///   - transaction: the transaction of the device's shop; nil for a purchase of the app's own.
    ///   - completion: a callback for the first answer.
    package func purchase(
        _ purchase: Purchase, of transaction: ShopTransaction? = nil,
        _ completion: @escaping @Sendable (Result<Void, OnymError>) -> Void
    ) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            var body = purchase.store
            body["price"] = .string(purchase.price)
            body["currency"] = .string(purchase.currency)
            body["purchased"] = .integer(purchase.purchased.milliseconds / 1000)
            let content: JSON = .sparse([
                "p": .object(body), "d": .string(device), "i": .string(identity ?? ""),
                "t": .optional(transaction?.id),
            ])
            guard let letter = post(EntitlementsClient.purchase, of: ownerNow, content.bytes) else {
                return call { completion(.failure(.storage("the purchase could not be kept"))) }
            }
            buyers[letter.number] = completion
            if let error = tryNow(), buyers.removeValue(forKey: letter.number) != nil {
                call { completion(.failure(error)) }
            }
            if !turns.isEmpty { planTurn(after: 0) }
        }
    }

    package func setProperties(_ properties: [String: String]) {
        enter {
            guard !isShutDown, !isOptedOut, !properties.isEmpty else { return }
            post(EntitlementsClient.property, of: ownerNow, JSON.texts(properties).bytes)
            deliverSoon()
        }
    }

    // MARK: - Requests

    private func request(_ method: String, _ path: String, _ json: JSON? = nil) -> HTTPRequest {
        request(method, path, json, device, identity ?? "")
    }

    /// The headers that identify the app's view, exactly as the vendor spells them (spec/entitlements.md, decision 3).
    private func request(
        _ method: String, _ path: String, _ json: JSON?, _ device: String, _ identity: String
    ) -> HTTPRequest {
        let fields = ["Authorization": "Bearer \(key)", "Onym-Device-User": device, "Onym-Identity": identity]
        return HTTPRequest(method, configuration.endpoint, path, fields, json: json)
    }

    package override func delivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? {
        guard let first = letters.first else { return nil }
        if let unmade = unmade.first {
            return Delivery(
                count: 0, request: creation(of: unmade),
                accept: { [unowned self] answer in
                    if case .failure(let error) = answer.object { return .failure(error) }
                    created(unmade)
                    return .success(.nothing)
                },
                forgives: { [unowned self] failure in
                    if failure.decisiveStatus == 422 { created(unmade) }
                    return failure.decisiveStatus == 422
                })
        }
        guard let owner = user(ofOwner: first.owner) else { return nil }
        return first.kind == EntitlementsClient.purchase
            ? try purchaseDelivery(first, owner) : try propertyDelivery(letters, owner)
    }

    private func purchaseDelivery(_ letter: Mailbox.Letter, _ owner: String) throws(FileFault) -> Delivery {
        let content = try mailbox.content(of: letter)
        var request = request(
            "POST", "/v3/users/\(owner.escaped)/purchases", content?["p"] ?? .object([:]),
            content?["d"]?.text ?? device, content?["i"]?.text ?? "")
        let transaction = content?["t"]?.text
        request.fields["Idempotency-Key"] =
            transaction.map { EntitlementsClient.key(of: $0, request) } ?? mailbox.uuid(of: letter)
        let number = letter.number
        return Delivery(
            count: 1, request: request,
            accept: { [unowned self] answer in
                if case .failure(let error) = answer.object { return .failure(error) }
                asked = [:]
                grants += 1
                if let transaction { changeLocal { $0.sent([transaction]) } }
                if let buyer = buyers.removeValue(forKey: number) { call { buyer(.success(())) } }
                finish(transaction)
                runtime.announce(.accessChanged)
                return .success(.nothing)
            },
            retries: { [unowned self] failure in isLost(failure, letter, owner) },
            isFinal: { failure in failure.code.map(EntitlementsClient.finalCodes.contains) ?? false }, ends: [404],
            refused: { [unowned self] failure in
                refusedPurchases.append(
                    RefusedPurchase(
                        purchase: content?["p"] ?? .null, user: owner, code: failure.code ?? "",
                        message: failure.message, at: runtime.serverNow))
                refusedPurchases = refusedPurchases.suffix(EntitlementsClient.refusedLimit)
                save()
                if let transaction { changeLocal { $0.remove([transaction]) } }
                finish(transaction)
            },
            failed: { [unowned self] error in
                if let buyer = buyers.removeValue(forKey: number) { call { buyer(.failure(error)) } }
            }, lost: LostLetters(content == nil ? 1 : 0))
    }

    /// The key by which the server recognizes the same call about a transaction when it comes again. Another call under the key
    /// would be refused, or would get the answer of the first call. So the key names the user, the whole body and the identity.
    private static func key(of transaction: String, _ request: HTTPRequest) -> String {
        let identity = request.fields["Onym-Identity"] ?? ""
        let call = Array(request.url.path.utf8) + [0] + request.body + (identity.isEmpty ? [] : [0] + identity.utf8)
        return "as:\(transaction):\(hexadecimal(SHA256.digest(call)))"
    }

    /// Tells the shop that the server has decided about a transaction.
    private func finish(_ transaction: String?) {
        guard let transaction, let finishTransaction else { return }
        outside { finishTransaction(transaction) }
    }

    /// Sets the function that finishes transactions of the device's shop.
    package func setFinish(_ finish: @escaping @Sendable (String) -> Void) { enter { finishTransaction = finish } }

    /// Whether a transaction of the device's shop waits for the server. A renewal or a refund has another signed text.
    func isWaiting(_ transaction: ShopTransaction) -> Bool {
        enter {
            let letters = mailbox.letters.filter { $0.kind == EntitlementsClient.purchase }
            let store = transaction.purchase.store
            // The server recognizes a transaction that comes twice.
            let contents = (try? mailbox.contents(of: letters[...])) ?? []
            return contents.contains { content in
                content?["t"]?.text == transaction.id && store.allSatisfy { content?["p"]?[$0.key] == $0.value }
            }
        }
    }

    /// Whether the server has lost the device's user, so that the client must make the user again; at most once for each
    /// letter. Another user that the server does not know was erased.
    private func isLost(_ failure: HTTPFailure, _ letter: Mailbox.Letter, _ owner: String) -> Bool {
        guard failure.status == 404, owner == device, retold.insert(letter.number).inserted else { return false }
        unmade = [device]
        return true
    }

    private func propertyDelivery(
        _ letters: ArraySlice<Mailbox.Letter>, _ owner: String
    ) throws(FileFault) -> Delivery? {
        guard let first = letters.first else { return nil }
        let run = letters.prefix { $0.kind == first.kind && user(ofOwner: $0.owner) == owner }
        var properties: [String: String] = [:]
        let contents = try mailbox.contents(of: run)
        for content in contents { properties.merge(content?.texts ?? [:]) { $1 } }
        let body = properties.sorted { $0.key < $1.key }.map { name, value -> JSON in
            ["key": .string(name), "value": .string(value)]
        }
        return Delivery(
            count: run.count, request: request("POST", "/v3/users/\(owner.escaped)/properties", .array(body)),
            accept: { answer in
                answer.object.map { body in
                    let errors = body["propertyErrors"]?.elements ?? []
                    let texts = errors.map { "\($0["key"]?.text ?? ""): \($0["error"]?.text ?? "")" }
                    return Rejected(count: errors.count, texts: texts)
                }
            },
            retries: { [unowned self] failure in isLost(failure, first, owner) }, ends: [404],
            lost: LostLetters(contents.count { $0 == nil }))
    }
}
