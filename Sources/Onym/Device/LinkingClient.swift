package import Foundation

/// The client of the Linking dialect (spec/linking.md 2). A device has one user at a time.
package final class LinkingClient: DialectClient, @unchecked Sendable {
    package typealias Completion = @Sendable (Result<DeviceState, OnymError>) -> Void

    private let appID: String?
    private let secret: String?
    private var configuration: Configuration { runtime.configuration }

    // The kept state.
    private var session: Session?
    /// The last code, sent or about to be sent, and its key. The key shows the server that a second request comes from the
    /// same install.
    private var redemption: Redemption?
    /// An install that may not be linked yet.
    private var unlinked: Session?
    private var deactivation: Deactivation?
    /// The app's wish about detections of the current user.
    private var detections: DeviceState.Detections?
    private var isOptedOut = false

    // The creation that runs now.
    private var creation: Creation?
    private var isResetting = false
    private var isLinking = false
    private var tokens: [@Sendable (Result<Session, OnymError>) -> Void] = []
    /// The code of a login that the client tries until the next login or logout.
    private var loginCode: String?
    private var loginFailures = 0
    /// Rises when the answers to running calls must not count any more.
    private var epoch = 0

    private struct Creation {
        var completions: [Completion]
        /// Creations that wait for the end of a creation of an earlier process.
        var waiting: [(code: String, completion: Completion)] = []
        var code: String?
        var isResumed = false
    }

    private struct Redemption {
        let code: String
        let key: String
        /// Whether the app has got the failure. Then only the app tries again.
        var isTold: Bool
        /// Whether the client itself tries again, because the code is one of a login.
        var isLogin: Bool
    }

    /// The tokens of an install.
    package struct Session: Sendable {
        var install: String
        var user: String?
        var token: String
        var expires: Date
        var refresh: String
        var isLinked: Bool
    }

    /// A token that expires within this time is not given to callers any more.
    private static let margin: TimeInterval = 60
    /// The longest time for an app to link.
    package static let linkerTimeout: TimeInterval = 30
    private static let farewell = "r"

    package init(_ runtime: Runtime, appID: String?, secret: String?) throws(FileFault) {
        (self.appID, self.secret) = (appID, secret)
        var state: JSON = .null
        // The install that said farewell behind the state. The process may end there.
        var gone: String?
        try super.init("linking", runtime) { line in
            switch line {
            case .state(let kept): (state, gone) = (kept, nil)
            case .letter(let letter, _): gone = letter.owner
            }
        }
        session = state["session"].flatMap(Session.init(kept:))
        unlinked = state["unlinked"].flatMap(Session.init(kept:))
        if let kept = state["redemption"], let code = kept["code"]?.text, let key = kept["key"]?.text {
            let isLogin = kept["login"]?.bool ?? false
            redemption = Redemption(code: code, key: key, isTold: kept["told"]?.bool ?? false, isLogin: isLogin)
        }
        deactivation = state["deactivation"].map { Deactivation(kept: $0) }
        isOptedOut = state["out"]?.bool ?? false
        detections = state["detections"].map { kept in
            kept["on"]?.bool == true ? .on(until: kept["until"]?.integer.map(Date.init)) : .off
        }
        if let session, gone == session.install {
            forget(.superseded, keeping: LinkingClient.farewell)
        } else {
            save()
        }
        if mailbox.count > 0 { deliverSoon() }
        // The process ended between the redemption and its answer: the client redeems the code again.
        if let redemption, session == nil, !redemption.isTold, !isOptedOut {
            // A login is tried again after further failures too.
            if redemption.isLogin { loginCode = redemption.code }
            let ends = redemption.isLogin ? [endOfLogin(redemption.code) { _ in }] : []
            creation = Creation(completions: ends, code: redemption.code, isResumed: true)
            later(0) { client in (client as? LinkingClient)?.redeem() }
        }
    }

    package override var kept: JSON {
        .sparse([
            "session": session?.kept ?? .null, "unlinked": unlinked?.kept ?? .null,
            "redemption": redemption.map {
                [
                    "code": .string($0.code), "key": .string($0.key), "told": .bool($0.isTold),
                    "login": .bool($0.isLogin),
                ]
            } ?? .null,
            "deactivation": deactivation?.kept ?? .null, "out": .bool(isOptedOut), "detections": keptDetections,
        ])
    }

    private var keptDetections: JSON {
        // A wish belongs to one user.
        if session == nil { return .null }
        return switch detections {
        case nil: .null
        case .off: ["on": false]
        case .on(let until): .sparse(["on": true, "until": until.map { .integer($0.milliseconds) } ?? .null])
        }
    }

    /// Keeps the app's wish about detections.
    package func setDetections(_ wish: DeviceState.Detections) -> Result<Void, OnymError> {
        enter {
            if isShutDown { return .failure(.refused(.shutDown)) }
            guard session != nil else { return .failure(.refused(.noUser)) }
            if deactivation != nil { return .failure(.refused(.disabled)) }
            detections = wish
            save()
            return .success(())
        }
    }

    package override var isOut: Bool { enter { isOptedOut } }
    package var state: DeviceState { enter { stateNow } }

    private var stateNow: DeviceState {
        DeviceState(
            userID: session?.user, installID: session?.install, isLinked: session?.isLinked ?? false,
            deactivation: deactivation, detections: session == nil ? nil : detections,
            phase: isResetting ? .resetting : creation == nil ? .idle : .creating)
    }

    /// The reason to refuse any call now.
    private var refusal: Refusal? {
        isShutDown ? .shutDown : isOptedOut ? .optedOut : isResetting ? .resetting : nil
    }

    package override func isEnvelope(_ body: JSON) -> Bool {
        body["message"]?.text != nil && body["errorCode"]?.text != nil
    }

    // MARK: - One login

    /// Creates the user of a code, or links the present user by it. After a failure that may pass, the client tries again, over
    /// launches too, until the next login or logout.
    package func login(_ code: String, _ completion: @escaping Completion) {
        enter {
            (loginCode, loginFailures) = (code, 0)
            attemptLogin(code, completion)
        }
    }

    private func attemptLogin(_ code: String, _ completion: @escaping Completion) {
        let end = endOfLogin(code, completion)
        guard let session, !session.isLinked else {
            if creation?.isResumed == true, creation?.code != code, refusal == nil {
                creation?.waiting.append((code, end))
                return
            }
            return begin(code, end)
        }
        link(code, end)
    }

    private func endOfLogin(_ code: String, _ completion: @escaping Completion) -> Completion {
        { [weak self] result in
            completion(result)
            self?.enter { self?.loginEnded(code, result) }
        }
    }

    private func loginEnded(_ code: String, _ result: Result<DeviceState, OnymError>) {
        guard loginCode == code, !isShutDown else { return }
        guard case .failure(let error) = result, error.isPassing || error.isUntrusted || error.isOfAnother else {
            loginCode = nil
            return
        }
        loginFailures += 1
        let count = loginFailures
        later(delay(after: count, error)) { client in
            guard let client = client as? LinkingClient, client.loginCode == code, client.loginFailures == count else {
                return
            }
            client.attemptLogin(code) { _ in }
        }
    }

    /// Removes the user from the device at once, also during another call, and informs the server later.
    package func logout() {
        enter {
            loginCode = nil
            guard !isShutDown, !isOptedOut, !isResetting else { return }
            end(.refused(.superseded))
            if forgetWithFarewell() != nil { deliver() }
        }
    }

    // MARK: - A user by a code

    package func createUser(_ code: String, _ completion: @escaping Completion) {
        enter {
            if creation?.isResumed == true, creation?.code != code, refusal == nil {
                creation?.waiting.append((code, completion))
            } else {
                begin(code, completion)
            }
        }
    }

    private func begin(_ code: String, _ completion: @escaping Completion) {
        if creation?.code == code, refusal == nil {
            creation?.completions.append(completion)
            return
        }
        if let refusal = creationRefusal { return call { completion(.failure(.refused(refusal))) } }
        // A repeated code goes out with the same key: the server then sees the same redemption.
        let key = redemption?.code == code ? redemption?.key : nil
        redemption = Redemption(code: code, key: key ?? runtime.uuid(), isTold: false, isLogin: loginCode == code)
        creation = Creation(completions: [completion], code: code)
        save()
        redeem()
    }

    private var creationRefusal: Refusal? {
        refusal ?? (session != nil ? .userExists : creation != nil || isLinking ? .inProgress : nil)
    }

    private func redeem() {
        guard let redemption else { return }
        let body: JSON = [
            "authentication_code": .string(redemption.code), "install_key": .string(redemption.key),
            "device": deviceFacts, "sdk": sdkFacts,
        ]
        ask(request("POST", "/sdk/users", body)) { [unowned self] result in
            switch result.flatMap(LinkingClient.session) {
            case .success((let session, let answer)):
                self.redemption = nil
                self.session = session
                self.session?.isLinked = true
                take(answer["config"] ?? answer)
                endCreation(.success(stateNow))
            case .failure(let error):
                // The server may have used the code without an answer to the client: the client keeps the key.
                if error.isPassing || error.isUntrusted || error.isOfAnother {
                    // A login is tried again by the client itself, also after the end of the process.
                    let isOfApp = loginCode != redemption.code
                    self.redemption?.isTold = isOfApp
                } else {
                    self.redemption = nil
                }
                endCreation(.failure(error))
            }
        }
    }

    private func endCreation(_ result: Result<DeviceState, OnymError>) {
        guard let ended = creation else { return }
        creation = nil
        save()
        let final = result.map { _ in stateNow }
        for completion in ended.completions { call { completion(final) } }
        for (code, completion) in ended.waiting { begin(code, completion) }
    }

    // MARK: - A user by the app's id and secret

    package func createUser(_ linker: Linker?, _ completion: @escaping Completion) {
        enter {
            if let refusal = creationRefusal { return call { completion(.failure(.refused(refusal))) } }
            guard let appID, let secret else {
                return call { completion(.failure(.refused(.notConfigured))) }
            }
            creation = Creation(completions: [completion])
            // The next try uses the install of a failed try again.
            if let unlinked { return adopt(unlinked, linker) }
            let body: JSON = [
                "app_id": .string(appID), "secret": .string(secret), "device": deviceFacts, "sdk": sdkFacts,
            ]
            ask(request("POST", "/sdk/installs", body)) { [unowned self] result in
                switch result.flatMap(LinkingClient.session) {
                case .success((let session, _)):
                    unlinked = session
                    save()
                    adopt(session, linker)
                case .failure(let error): endCreation(.failure(error))
                }
            }
        }
    }

    private func adopt(_ session: Session, _ linker: Linker?) {
        guard let linker else {
            return ask(request("POST", "/sdk/link-legacy-install", [:], session.token)) { [unowned self] result in
                finish(session, result.flatMap { $0.object }, mustBeLinked: false)
            }
        }
        run(linker, session.install) { [unowned self] isDone in
            guard isDone else { return endCreation(.failure(.refused(.appFailed))) }
            verify(session) { [unowned self] result in finish(session, result, mustBeLinked: true) }
        }
    }

    /// Asks the server for the user of the install: a linker can report a link that was not made.
    private func verify(_ session: Session, _ then: @escaping (Result<JSON, OnymError>) -> Void) {
        ask(request("GET", "/sdk/person", nil, session.token)) { then($0.flatMap { $0.object }) }
    }

    private func finish(_ session: Session, _ result: Result<JSON, OnymError>, mustBeLinked: Bool) {
        switch result {
        case .success(let answer):
            let isLinked = answer["third_party_linked"]?.bool ?? false
            guard let user = answer["person_id"]?.text, isLinked || !mustBeLinked else {
                return endCreation(.failure(.refused(.appFailed)))
            }
            var session = session
            (session.user, session.isLinked) = (user, isLinked)
            (self.session, unlinked) = (session, nil)
            take(answer)
            endCreation(.success(stateNow))
        case .failure(let error) where error.serversStatus == 404 && mustBeLinked:
            endCreation(.failure(.refused(.appFailed)))
        case .failure(let error):
            // This install can never be linked any more.
            if error.serversStatus == 401 || error.serversStatus == 403 { unlinked = nil }
            endCreation(.failure(error))
        }
    }

    /// Runs the app's linker. Only the first answer within the time limit counts.
    private func run(_ linker: @escaping Linker, _ install: String, _ then: @escaping (Bool) -> Void) {
        let once = Once(then)
        let epoch = epoch
        let end: @Sendable (Bool) -> Void = { [weak self] isDone in
            guard let self else { return }
            enter { if epoch == self.epoch, !self.isShutDown { once.call(isDone) } }
        }
        let timer = runtime.time.after(LinkingClient.linkerTimeout) { end(false) }
        outside {
            Task.detached {
                let isDone = (try? await linker(install)) ?? false
                timer()
                end(isDone)
            }
        }
    }

    /// A flag that can be set once. It lives inside the lock.
    private final class Once: @unchecked Sendable {
        private var action: ((Bool) -> Void)?

        init(_ action: @escaping (Bool) -> Void) { self.action = action }

        func call(_ value: Bool) { action.take()?(value) }
    }

    // MARK: - Late links

    private var linkRefusal: Refusal? {
        if let refusal { return refusal }
        guard let session else { return .noUser }
        if session.isLinked { return .alreadyLinked }
        return deactivation != nil ? .disabled : isLinking ? .inProgress : nil
    }

    package func linkUser(_ code: String, _ completion: @escaping Completion) { enter { link(code, completion) } }

    private func link(_ code: String, _ completion: @escaping Completion) {
        if let refusal = linkRefusal { return call { completion(.failure(.refused(refusal))) } }
        isLinking = true
        let end = owe(completion)
        askAsInstall("POST", "/sdk/users/link", ["authentication_code": .string(code)]) { [unowned self] result in
            linked(result.flatMap { $0.object }, end)
        }
    }

    private func linked(_ result: Result<JSON, OnymError>, _ end: Completion) {
        if case .success(let answer) = result {
            session?.user = answer["user_id"]?.text ?? session?.user
            session?.isLinked = true
        }
        endLink(result.map { _ in }, end)
    }

    package func link(_ linker: @escaping Linker, _ completion: @escaping Completion) {
        enter {
            if let refusal = linkRefusal { return call { completion(.failure(.refused(refusal))) } }
            guard let install = session?.install else { return }
            isLinking = true
            let end = owe(completion)
            run(linker, install) { [unowned self] isDone in
                guard isDone else { return endLink(.failure(.refused(.appFailed)), end) }
                askAsInstall("GET", "/sdk/person", nil) { [unowned self] result in
                    let checked = result.flatMap { $0.object }.flatMap { answer -> Result<JSON, OnymError> in
                        answer["third_party_linked"]?.bool == true ? .success(answer) : .failure(.refused(.appFailed))
                    }
                    if case .success(let answer) = checked { take(answer) }
                    linked(checked.map { ["user_id": $0["person_id"] ?? .null] }, end)
                }
            }
        }
    }

    private func endLink(_ result: Result<Void, OnymError>, _ end: Completion) {
        isLinking = false
        save()
        end(result.map { stateNow })
    }

    // MARK: - Tokens

    package func token(_ completion: @escaping @Sendable (Result<AccessToken, OnymError>) -> Void) {
        enter {
            if let refusal = refusal ?? (session?.user == nil ? .noUser : deactivation != nil ? .disabled : nil) {
                return call { completion(.failure(.refused(refusal))) }
            }
            withToken { [unowned self] result in
                let token = result.map { AccessToken(value: $0.token, expires: $0.expires) }
                call { completion(token) }
            }
        }
    }

    /// Continues with a valid token. Callers that ask during a request for a token share its answer.
    private func withToken(_ then: @escaping @Sendable (Result<Session, OnymError>) -> Void) {
        guard let session else { return then(.failure(.refused(.noUser))) }
        if !isStale(session) { return then(.success(session)) }
        tokens.append(then)
        if tokens.count == 1 { fetchToken(session) }
    }

    private func isStale(_ session: Session) -> Bool {
        session.expires.timeIntervalSince(runtime.serverNow) <= LinkingClient.margin
    }

    private func tokenRequest(_ session: Session) -> HTTPRequest {
        request(
            "POST", "/sdk/token", ["grant_type": "refresh_token", "refresh_token": .string(session.refresh)])
    }

    /// Sends a request with the install's token. With a wrong clock a dead token looks valid: if the server refuses the
    /// token, the client fetches another token once.
    private func askAsInstall(
        _ method: String, _ path: String, _ json: JSON?, isAgain: Bool = false,
        _ then: @escaping (Result<HTTPAnswer, OnymError>) -> Void
    ) {
        let handover = Handover(then)
        withToken { [unowned self] result in
            guard case .success(let session) = result else {
                return handover.value(result.flatMap { _ in .failure(.refused(.noUser)) })
            }
            ask(request(method, path, json, session.token)) { [unowned self] result in
                guard case .failure(let error) = result, error.serversStatus == 401, !isAgain else {
                    return handover.value(result)
                }
                if self.session?.token == session.token { self.session?.expires = .distantPast }
                askAsInstall(method, path, json, isAgain: true, handover.value)
            }
        }
    }

    private func fetchToken(_ session: Session) {
        ask(tokenRequest(session)) { [unowned self] result in
            let waiting = tokens
            tokens = []
            switch result.flatMap(LinkingClient.session) {
            case .success((var fresh, let answer)):
                fresh.isLinked = session.isLinked
                fresh.user = fresh.user ?? session.user
                self.session = fresh
                take(answer)
                save()
                for then in waiting { then(.success(fresh)) }
            case .failure(let error):
                // The install can never get a token again; the user stays until the app resets.
                let isRevoked = error.serversStatus == 401
                if isRevoked { deactivate(Deactivation(reason: "revoked")) }
                for then in waiting { then(.failure(isRevoked ? .refused(.disabled) : error)) }
            }
        }
    }

    // MARK: - How it stands

    package func refresh(_ completion: @escaping Completion) {
        enter {
            if let refusal = refusal ?? (session == nil ? .noUser : nil) {
                return call { completion(.failure(.refused(refusal))) }
            }
            let end = owe(completion)
            askAsInstall("GET", "/sdk/config", nil) { [unowned self] result in
                let answer = result.flatMap { $0.object }
                if case .success(let answer) = answer { take(answer) }
                if case .failure(.http(let failure)) = answer, failure.isServersWord,
                    failure.code == "INSTALL_DELETED"
                {
                    deactivate(Deactivation(reason: "deleted"))
                }
                end(answer.map { _ in stateNow })
            }
        }
    }

    /// Reads the install's state from an answer.
    private func take(_ answer: JSON) {
        guard let isActive = answer["is_active"]?.bool else { return }
        if !isActive {
            return deactivate(
                Deactivation(
                    reason: answer["reason"]?.text ?? "disabled", byDeviceClass: answer["by_device_class"]?.text,
                    at: answer["since"]?.text))
        }
        guard deactivation != nil else { return }
        deactivation = nil
        save()
        runtime.announce(.reactivated)
    }

    private func deactivate(_ now: Deactivation) {
        guard deactivation != now else { return }
        deactivation = now
        save()
        runtime.announce(.deactivated(now))
    }

    // MARK: - Reset

    package func reset(_ completion: @escaping @Sendable (Result<Void, OnymError>) -> Void) {
        enter {
            let refusal = refusal ?? (creation != nil || isLinking ? .inProgress : nil)
            if let refusal { return call { completion(.failure(.refused(refusal))) } }
            let isSomebody = session != nil
            let number = forgetWithFarewell()
            guard isSomebody else { return call { completion(.success(())) } }
            isResetting = true
            farewells[number ?? 0] = { [unowned self] in
                isResetting = false
                call { completion(.success(())) }
            }
            if number == nil { return endFarewell(0) }
            if tryNow() != nil { endFarewell(number ?? 0) }
        }
    }

    private var farewells: [Int64: () -> Void] = [:]

    /// The device has removed the user already, so it does not matter when the server gets the farewell.
    private func endFarewell(_ number: Int64) { farewells.removeValue(forKey: number)?() }

    /// Removes the user, and keeps a farewell to the server. The farewell comes first: the process may end behind it, and the next start
    /// goes on. Answers the number of the farewell.
    private func forgetWithFarewell() -> Int64? {
        let old = session
        let early = old.flatMap { old in
            try? mailbox.post(LinkingClient.farewell, of: old.install, at: runtime.milliseconds, old.kept.bytes)
        }
        // The server does not know yet that all earlier users are gone.
        forget(.superseded, keeping: LinkingClient.farewell)
        guard let old else { return nil }
        if early != nil { return mailbox.letters.last?.number }
        // There may be room now.
        return post(LinkingClient.farewell, of: old.install, old.kept.bytes)?.number
    }

    private func forget(_ refusal: Refusal, keeping kind: String? = nil) {
        epoch += 1
        let waiting = tokens
        tokens = []
        for then in waiting { then(.failure(.refused(.noUser))) }
        (session, redemption, unlinked, deactivation, detections) = (nil, nil, nil, nil, nil)
        wipe(refusal, keeping: kind)
    }

    /// The tokens that were fetched only for a farewell, by the farewell's number; empty if nobody issues such a token any
    /// more.
    private var lastTokens: [Int64: String] = [:]
    /// Farewells whose token the server has refused.
    private var dead: Set<Int64> = []

    package override func delivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? {
        guard let letter = letters.first else { return nil }
        let number = letter.number
        let kept = try mailbox.content(of: letter).flatMap(Session.init(kept:))
        if let kept, lastTokens[number] == nil, isStale(kept) || dead.contains(number) {
            return tokenDelivery(kept, number)
        }
        let token = lastTokens[number].flatMap { $0.isEmpty ? nil : $0 } ?? kept?.token ?? ""
        return Delivery(
            count: 1, request: request("POST", "/sdk/reset", [:], token),
            accept: { [unowned self] answer in
                if case .success = answer.taken { endFarewell(number) }
                return answer.taken
            },
            // An invalid token shows that the server knows of the removal already.
            forgives: { [unowned self] _ in
                endFarewell(number)
                return true
            },
            // With a slow clock, a dead token looks valid.
            retries: { [unowned self] failure in
                failure.status == 401 && kept != nil && lastTokens[number] == nil && dead.insert(number).inserted
            },
            failed: { [unowned self] _ in endFarewell(number) })
    }

    /// Fetches a token for a farewell. A server that accepts no dead token would otherwise treat the user as active for ever.
    private func tokenDelivery(_ session: Session, _ number: Int64) -> Delivery {
        Delivery(
            count: 0, request: tokenRequest(session),
            accept: { [unowned self] answer in
                LinkingClient.session(answer).map { fresh, _ in
                    lastTokens[number] = fresh.token
                    return .nothing
                }
            },
            forgives: { [unowned self] _ in
                lastTokens[number] = ""
                return true
            },
            failed: { [unowned self] _ in endFarewell(number) })
    }

    /// The client does not keep tokens longer than necessary.
    package override func emptied() {
        (lastTokens, dead) = ([:], [])
        do throws(FileFault) {
            try mailbox.wipe(kept)
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
    }

    package override func setOptedOut(_ isOut: Bool) {
        enter {
            guard isOut != isOptedOut, !isShutDown else { return }
            isOptedOut = isOut
            guard isOut else { return save() }
            end(.refused(.optedOut))
            forget(.optedOut)
        }
    }

    package override func close(_ error: OnymError) { end(error) }

    private func end(_ error: OnymError) {
        let ended = creation
        creation = nil
        for completion in ended?.completions ?? [] { call { completion(.failure(error)) } }
        for (_, completion) in ended?.waiting ?? [] { call { completion(.failure(error)) } }
        let waiting = tokens
        tokens = []
        for then in waiting { then(.failure(error)) }
        isLinking = false
        for number in farewells.keys.sorted() { endFarewell(number) }
    }

    // MARK: - Requests

    private func ask(_ request: HTTPRequest, _ then: @escaping (Result<HTTPAnswer, OnymError>) -> Void) {
        let epoch = epoch
        exchange(request) { [unowned self] result in if epoch == self.epoch { then(result) } }
    }

    private func request(_ method: String, _ path: String, _ json: JSON?, _ token: String? = nil) -> HTTPRequest {
        let fields = token.map { ["Authorization": "Bearer \($0)"] } ?? [:]
        return HTTPRequest(method, configuration.endpoint, path, fields, json: json)
    }

    private var deviceFacts: JSON {
        let device = configuration.device
        return .sparse([
            "class": .optional(device.deviceClass), "os": .string(device.platform),
            "os_version": .optional(device.osVersion), "model": .optional(device.model),
            "locale": .optional(device.locale),
        ])
    }

    private var sdkFacts: JSON { ["name": "onym-swift", "version": .string(OnymClient.version)] }

    private static func session(_ answer: HTTPAnswer) -> Result<(Session, JSON), OnymError> {
        answer.object.flatMap { body in
            guard let install = body["install_id"]?.text, let token = body["token"]?.text,
                let refresh = body["refresh_token"]?.text,
                let expires = body["expires_at"]?.text.flatMap(LinkingClient.moment)
            else { return .failure(answer.malformed) }
            let session = Session(
                install: install, user: body["user_id"]?.text, token: token, expires: expires, refresh: refresh,
                isLinked: false)
            return .success((session, body))
        }
    }

    /// `2021-02-03T14:32:03.076Z`.
    package static func moment(_ text: String) -> Date? {
        let format = Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains("."))
        return try? format.parse(text)
    }
}

extension LinkingClient.Session {
    fileprivate var kept: JSON {
        .sparse([
            "install": .string(install), "user": .optional(user), "token": .string(token),
            "expires": .integer(expires.milliseconds), "refresh": .string(refresh), "linked": .bool(isLinked),
        ])
    }

    fileprivate init?(kept: JSON) {
        guard let install = kept["install"]?.text, let token = kept["token"]?.text,
            let refresh = kept["refresh"]?.text
        else { return nil }
        self.init(
            install: install, user: kept["user"]?.text, token: token,
            expires: Date(milliseconds: kept["expires"]?.integer ?? 0), refresh: refresh,
            isLinked: kept["linked"]?.bool ?? false)
    }
}

extension Deactivation {
    fileprivate var kept: JSON {
        .sparse(["reason": .string(reason), "by": .optional(byDeviceClass), "at": .optional(at)])
    }

    fileprivate init(kept: JSON) {
        self.init(reason: kept["reason"]?.text ?? "disabled", byDeviceClass: kept["by"]?.text, at: kept["at"]?.text)
    }
}
