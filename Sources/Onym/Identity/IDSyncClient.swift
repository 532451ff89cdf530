package import Foundation

/// The client of the IDSync dialect (spec/idsync.md 4), and of the server's own call for users that come from no vendor
/// (spec/rules.md 5): both find the user of some names.
package final class IDSyncClient: DialectClient, @unchecked Sendable {
    /// The form of the calls.
    package enum Wire: Sendable {
        case idSync(key: String, secret: String?)
        case onym(key: String)

        /// The name of the client's files.
        var name: String {
            switch self {
            case .idSync: "idsync"
            case .onym: "onym"
            }
        }
        var dialect: Dialect {
            switch self {
            case .idSync: .idSync
            case .onym: .onym
            }
        }
    }

    package enum Verb: String, Sendable {
        case identify
        case login
        case logout
        case search
        case modify
    }

    package struct Call: Equatable, Sendable {
        package var verb: Verb
        /// The request; nil for the kept names of the current user, which only `identify` can use.
        package var request: IdentityRequest?
        /// The number of the login or logout that the call belongs to; nil for any other call.
        package var turn: Int64?
    }

    package typealias Completion = CallQueue<Call, IdentityResult>.Completion

    private let wire: Wire
    package var dialect: Dialect { wire.dialect }
    private var configuration: Configuration { runtime.configuration }

    // The kept state.
    private var stamp = ""
    private var current: Int64 = 0
    /// The first user: all earlier letters belong to this user.
    private var first: Int64 = 0
    private var users: [Int64: User] = [:]
    private var isOptedOut = false
    package override var isOut: Bool { enter { isOptedOut } }
    /// Whether the current user's MPID comes from the vendor's SDK. The server may not know that MPID, so letters wait for
    /// the server's own MPID of this user.
    private var isImported = false
    /// A logout without an answer yet. The request survives the process, because a user who logged out must not stay logged
    /// in.
    private var leaving: IdentityRequest?
    /// The logins and logouts of ``OnymClient/login(_:email:code:)`` and ``OnymClient/logout()`` without an answer yet, in order.
    private var turns: [Turn] = []
    /// The users that such calls have led to, as long as letters wait for them.
    private var led: [Int64: Int64] = [:]
    private var lastTurn: Int64 = 0
    /// The names of the last login that was answered, as long as no other call followed.
    private var settledLogin: IdentityRequest?
    /// The number of the turn whose next try has a timer.
    private var turnTimer = 0
    private var turnFailures = 0
    /// The error of the last try.
    private var turnError = OnymError.offline

    /// A login or logout whose answer decides whose the letters after it are.
    private struct Turn {
        let number: Int64
        let verb: Verb
        let request: IdentityRequest

        var call: Call { Call(verb: verb, request: request, turn: number) }
        var kept: JSON { [.integer(number), .string(verb.rawValue), request.kept] }

        init(_ number: Int64, _ verb: Verb, _ request: IdentityRequest) {
            (self.number, self.verb, self.request) = (number, verb, request)
        }

        init?(kept: JSON) {
            guard let fields = kept.elements, fields.count == 3, let number = fields[0].integer,
                let verb = fields[1].text.flatMap(Verb.init)
            else { return nil }
            self.init(number, verb, IdentityRequest(kept: fields[2]))
        }
    }

    private let queue: CallQueue<Call, IdentityResult>
    /// The request that the client sends again under the same id.
    private var attempt = Attempt.none

    /// The server recognizes a repeated call by its id and its body. So the body keeps the time of the first try.
    private struct Attempt {
        let id: String
        let time: Int64
        /// The correction of the device's clock at the first try.
        let correction: TimeInterval
        var count = 0

        static let none = Attempt(id: "", time: 0, correction: 0)
    }

    /// The person's answer to the question about tracking, and its time in milliseconds.
    private var tracking: (status: TrackingStatus, time: Int64)?

    /// The server's MPIDs for users with another MPID in the vendor's SDK.
    private var renames: [Int64: Int64] = [:]
    /// Repeats the call that waits for a network.
    private var retry: (@Sendable (DialectClient) -> Void)?
    /// Rises at the start and at the end of each wait between tries.
    private var waits = 0

    /// The greatest number of kept users; the user with the oldest `lastSeen` is removed first.
    package static let userLimit = 100

    package init(_ runtime: Runtime, _ wire: Wire) throws(FileFault) {
        self.wire = wire
        var callback: (@escaping @Sendable () -> Void) -> Void = { _ in }
        queue = CallQueue { callback($0) }
        var kept = Kept()
        try super.init(wire.name, runtime) { kept.fold($0) }
        callback = { [unowned self] in call($0) }
        (stamp, current, first, users) = (kept.stamp, kept.current, kept.first, kept.users)
        (isOptedOut, leaving, isImported, tracking) = (kept.isOptedOut, kept.leaving, kept.isImported, kept.tracking)
        (turns, led, lastTurn, settledLogin) = (kept.turns, kept.led, kept.lastTurn, kept.settledLogin)
        let imported = kept.isNew ? importVendor() : nil
        if stamp.isEmpty { stamp = runtime.keepsake("\(wire.name).stamp") { imported ?? runtime.uuid() } }
        // The state was lost, but the letters remain: their user does not exist any more.
        if current != 0, users[current] == nil { current = 0 }
        save()
        queue.run = { [unowned self] in run($0) }
        if mailbox.count > 0 { deliverSoon() }
        discard(.storage) { letter in isLost(letter.owner) }
        if !turns.isEmpty { planTurn(after: 0) }
    }

    /// Whether an owner is of a call that the device does not know any more: the file with it was damaged.
    private func isLost(_ owner: String) -> Bool {
        guard owner.hasPrefix("@") else { return false }
        let number = Int64(owner.dropFirst()) ?? 0
        return led[number] == nil && !turns.contains { $0.number == number }
    }

    /// Imports the users of the vendor's SDK. Answers the device's stamp.
    private func importVendor() -> String? {
        guard dialect == .idSync, runtime.imports.contains(.mParticle) else { return nil }
        let vendor = MParticleImport(runtime.vendorStore, now: runtime.milliseconds)
        runtime.announce(.mParticle, vendor.tally)
        isOptedOut = vendor.isOptedOut
        // The client keeps nothing about a person who has opted out.
        guard !isOptedOut else { return nil }
        (current, users, isImported) = (vendor.current, vendor.users, vendor.current != 0)
        return vendor.stamp
    }

    // MARK: - State

    private struct Kept {
        var isNew = true
        var isImported = false
        var stamp = ""
        var current: Int64 = 0
        var first: Int64 = 0
        var users: [Int64: User] = [:]
        var isOptedOut = false
        var leaving: IdentityRequest?
        var tracking: (status: TrackingStatus, time: Int64)?
        var turns: [Turn] = []
        var led: [Int64: Int64] = [:]
        var lastTurn: Int64 = 0
        var settledLogin: IdentityRequest?

        mutating func fold(_ line: Mailbox.Line) {
            switch line {
            case .state(let state):
                isNew = state == .null
                isImported = state["imported"]?.bool ?? false
                stamp = state["stamp"]?.text ?? stamp
                current = state["current"]?.integer ?? 0
                first = state["first"]?.integer ?? 0
                users = [:]
                for user in (state["users"]?.elements ?? []).compactMap(User.init(kept:)) { users[user.id] = user }
                isOptedOut = state["out"]?.bool ?? false
                leaving = state["leaving"].map { IdentityRequest(kept: $0) }
                turns = (state["turns"]?.elements ?? []).compactMap(Turn.init(kept:))
                led = [:]
                for (number, user) in state["led"]?.members ?? [:] { led[Int64(number) ?? 0] = user.integer }
                lastTurn = state["turn"]?.integer ?? 0
                settledLogin = state["login"].map { IdentityRequest(kept: $0) }
                tracking = state["tracking"]?["status"]?.text.flatMap(TrackingStatus.init).map {
                    ($0, state["tracking"]?["time"]?.integer ?? 0)
                }
            case .letter(let letter, let body):
                guard letter.kind == IDSyncClient.attribute else { return }
                users[Int64(letter.owner) ?? current]?.fold(body())
            }
        }
    }

    /// The current user, for a reader that only reads the files; nil where no state exists.
    static func kept(in files: ReadOnlyFiles) throws(FileFault) -> (user: User?, owner: String, isOut: Bool)? {
        var kept = Kept()
        for name in ["idsync", "onym"] where kept.isNew {
            _ = try Mailbox(name, in: files, id: 0, report: { _ in }, fold: { kept.fold($0) })
        }
        if kept.isNew { return nil }
        if let turn = kept.turns.last { return (nil, IDSyncClient.owner(ofTurn: turn.number), kept.isOptedOut) }
        let user = kept.users[kept.current]
        return (user, user == nil || kept.isImported ? "" : "\(kept.current)", kept.isOptedOut)
    }

    /// Keeps an event that an extension has left, for the user at the time of the event.
    func take(_ note: NoteOfReader) {
        enter {
            guard !isOptedOut, !isShutDown else { return }
            let owner = note.user ?? ""
            if isLost(owner) { return runtime.announce(.dropped(1, .refused(.refused(.superseded)))) }
            postEvent(of: owner, at: note.time, note.body)
        }
    }

    package override var kept: JSON {
        .sparse([
            "stamp": .string(stamp), "current": .integer(current), "first": .integer(first), "out": .bool(isOptedOut),
            "users": .array(users.values.sorted { $0.id < $1.id }.map(\.kept)),
            "leaving": leaving?.kept ?? .null, "imported": isImported ? true : .null,
            "tracking": tracking.map { ["status": .string($0.status.rawValue), "time": .integer($0.time)] } ?? .null,
            "turns": turns.isEmpty ? .null : .array(turns.map(\.kept)),
            "led": led.isEmpty
                ? .null
                : .object(Dictionary(led.map { ("\($0.key)", .integer($0.value)) }, uniquingKeysWith: { $1 })),
            "turn": lastTurn == 0 ? .null : .integer(lastTurn), "login": settledLogin?.kept ?? .null,
        ])
    }

    /// Errors of all calls, and those of aliases (spec/idsync.md 1.7).
    package override func isEnvelope(_ body: JSON) -> Bool {
        if dialect == .onym { return body["code"]?.text != nil }
        let error = body["errors"]?.elements?.first ?? body
        return error["code"]?.text != nil && error["message"]?.text != nil
    }

    private static let attribute = "u"
    private static let alias = "x"

    // MARK: - Users

    package var deviceStamp: String { enter { stamp } }
    /// The current user; nil while the answer to a login or logout is missing.
    package var currentUser: User? { enter { turns.isEmpty ? seen(current) : nil } }
    package func user(_ id: Int64) -> User? { enter { seen(id) } }

    /// All users, the newest first; the current user is always the first.
    package var allUsers: [User] {
        enter {
            let others = users.keys.filter { $0 != current }.compactMap(seen)
            // While an answer is missing nobody is current, and the user of before is the newest.
            return (seen(current).map { [$0] } ?? []) + others.sorted { ($0.lastSeen, $0.id) > ($1.lastSeen, $1.id) }
        }
    }

    private func seen(_ id: Int64) -> User? {
        guard var user = users[id] else { return nil }
        if id == current, turns.isEmpty { user.lastSeen = runtime.time.now }
        return user
    }

    /// Sets an attribute of a user; null is a tag.
    package func setAttribute(_ value: JSON, _ name: String, of id: Int64) {
        change(value == .null ? ["k": .string(name), "t": true] : ["k": .string(name), "v": value], of: id)
    }

    /// Removes an attribute of a user.
    package func removeAttribute(_ name: String, of id: Int64) { change(["k": .string(name)], of: id) }

    /// Keeps a change of an attribute: `v` is the new value, `t` marks a tag, and a change without both removes the name.
    private func change(_ body: JSON, of id: Int64) {
        enter {
            guard !isOptedOut, !isShutDown, let user = users[id] else { return }
            guard post(IDSyncClient.attribute, of: owner(id), told(body, of: user).bytes) != nil else { return }
            users[id]?.fold(body)
            mailbox.fold(kept)
            deliverSoon()
        }
    }

    /// The server's own call finds a user by names, so the letter has the user's names of now.
    private func told(_ body: JSON, of user: User) -> JSON {
        guard dialect == .onym, case .object(var members) = body else { return body }
        var names = user.identities
        if user.id == current, turns.isEmpty { names[.deviceApplicationStamp] = stamp }
        members["i"] = IDSyncClient.names(names)
        return .object(members)
    }

    private static func names(_ identities: [IdentityType: String]) -> JSON {
        .texts(Dictionary(identities.map { ($0.key.rawValue, $0.value) }, uniquingKeysWith: { $1 }))
    }

    /// Sets all attributes of a user; other attributes are removed.
    package func setAttributes(_ attributes: [String: JSON], of id: Int64) {
        let old = user(id)?.attributes ?? [:]
        for name in old.keys.sorted() where attributes[name] == nil { removeAttribute(name, of: id) }
        for (name, value) in attributes.sorted(by: { $0.key < $1.key }) where old[name] != value {
            setAttribute(value, name, of: id)
        }
    }

    /// Keeps a note about a user on this device alone; null removes the note.
    package func setNote(_ value: JSON, _ name: String, of id: Int64) {
        enter {
            guard !isOptedOut, !isShutDown, users[id] != nil else { return }
            users[id]?.notes[name] = value == .null ? nil : value
            save()
        }
    }

    /// Keeps the person's answer to the question about tracking.
    package func setTracking(_ status: TrackingStatus, at time: Date?) {
        enter {
            guard !isOptedOut, !isShutDown else { return }
            // The same answer without a time is no new answer.
            let known = tracking?.status == status ? tracking?.time : nil
            let time = time?.milliseconds ?? known ?? runtime.milliseconds
            if known == time { return }
            tracking = (status, time)
            save()
        }
    }

    package var trackingStatus: TrackingStatus? { enter { tracking?.status } }

    // MARK: - Events

    /// - Parameter time: the time of the event in milliseconds since 1970; nil for now.
    package func log(_ body: [UInt8], at time: Int64? = nil) {
        enter {
            guard !isOptedOut, !isShutDown else { return }
            postEvent(of: ownerNow, at: time, body)
        }
    }

    /// Whether the dialect has events.
    package var takesEvents: Bool { dialect == .idSync }

    /// The owner of a letter that is made now.
    private var ownerNow: String { turns.last.map { IDSyncClient.owner(ofTurn: $0.number) } ?? owner(current) }

    /// The owner of letters whose user is the one that a call leads to.
    private static func owner(ofTurn number: Int64) -> String { "@\(number)" }

    /// The user of a letter's owner; nil while nobody knows.
    private func user(ofOwner owner: String) -> String? {
        if owner.isEmpty { return firstUser }
        guard owner.hasPrefix("@") else { return owner }
        return Int64(owner.dropFirst()).flatMap { led[$0] }.map { "\($0)" }
    }

    /// The owner of a letter: empty for the first user in an answer of the server.
    private func owner(_ id: Int64) -> String { id == 0 || id == current && isImported ? "" : "\(id)" }

    package override func setOptedOut(_ isOut: Bool) {
        enter {
            guard isOut != isOptedOut, !isShutDown else { return }
            isOptedOut = isOut
            guard isOut else { return save() }
            (current, first, users, leaving, stamp) = (0, 0, [:], nil, runtime.uuid())
            (turns, led, settledLogin, isImported) = ([], [:], nil, false)
            turnTimer += 1
            runtime.configuration.keepsakes?.keep(nil, as: "\(wire.name).stamp")
            queue.close(.refused(.optedOut))
            // A waiting call from before the opt-out is not sent after the opt-in.
            attempt = .none
            wipe(.optedOut)
        }
    }

    package override func close(_ error: OnymError) { queue.close(error) }

    package override var droppable: Set<String> { ["e", IDSyncClient.attribute] }

    // MARK: - Calls

    package func perform(
        _ verb: Verb, _ request: IdentityRequest?, _ completion: @escaping Completion
    ) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            if dialect == .onym, verb == .search || verb == .modify {
                return call { completion(.failure(.refused(.unavailable))) }
            }
            warn(of: request, in: verb)
            var job = Call(verb: verb, request: request)
            let overlap = configuration.overlap
            if verb == .login || verb == .logout || verb == .identify && request != nil {
                settledLogin = nil
                // Calls that decide who the user is keep their order.
                if !turns.isEmpty { return add(verb, request ?? IdentityRequest(), completion) }
            }
            // The user is the one of the login or logout that has no answer yet.
            if verb == .identify, request == nil, let turn = turns.first {
                return queue.add(turn.call, .queue, completion)
            }
            if verb == .logout, overlap == .queue || queue.isEmpty {
                leaving = request ?? IdentityRequest()
                save()
            }
            // The logout of an earlier process comes first: the user must not be logged in again.
            if verb == .identify, request == nil, let leaving, queue.isEmpty {
                job = Call(verb: .logout, request: leaving)
            }
            queue.add(job, overlap, completion)
        }
    }

    private func forgetLeaving() {
        guard leaving != nil else { return }
        leaving = nil
        save()
    }

    private func run(_ call: Call) {
        attempt = newAttempt
        if let turn = call.turn, turn != turns.first?.number {
            // Calls are made in their order: this one waits for the one before it.
            let isWaiting = turns.contains { $0.number == turn }
            return queue.finish(.failure(isWaiting ? turnError : .refused(.superseded)))
        }
        if call.verb == .modify {
            // `modify` needs a user whose names it can change.
            if current == 0 || isImported, [nil, current].contains(call.request?.user) {
                return send(Call(verb: .identify, request: nil), for: call)
            }
            return modify(call)
        }
        send(call, for: call)
    }

    /// Sends an identity call; `whole` is the app's call, which may contain more.
    private func send(_ call: Call, for whole: Call) {
        var identities = call.request?.identities.compactMapValues { $0 } ?? users[current]?.identities ?? [:]
        identities = identities.filter { !$0.value.isEmpty }
        // A search may look for a user who is not on this device.
        if !mayIdentifyAdvertising { identities[.iosIDFA] = nil }
        if call.verb != .search {
            for (type, value) in deviceIdentities where identities[type] == nil { identities[type] = value }
        }
        let asked = call.request?.identities ?? identities.mapValues { $0 }
        exchange(identityRequest(call, IDSyncClient.names(identities))) { [unowned self] result in
            switch result.flatMap({ [dialect] in Answer.read($0, dialect) }) {
            case .failure(let error): fail(error) { [unowned self] in send(call, for: whole) }
            case .success(let answer):
                if call.verb == .search { return found(answer) }
                let previous = become(answer, asked, by: call)
                if whole == call {
                    return finish(.success(answer.result(users[answer.mpid] ?? userNow, previous)))
                }
                attempt = newAttempt
                modify(whole)
            }
        }
    }

    private func identityRequest(_ call: Call, _ names: JSON) -> HTTPRequest {
        let previous: JSON = current == 0 ? .null : .string("\(current)")
        switch wire {
        case .idSync:
            var body = frame
            body["known_identities"] = names
            if call.verb != .search, current != 0 { body["previous_mpid"] = previous }
            return request("/v1/\(call.verb.rawValue)", .object(body))
        case .onym(let key):
            let traits = call.request?.traits ?? [:]
            let body: JSON = .sparse([
                "kind": .string(call.verb.rawValue), "ids": names, "previous": previous,
                "traits": traits.isEmpty ? .null : .object(traits),
            ])
            return ownRequest(key, body, id: attempt.id)
        }
    }

    /// A request of the server's own call. The server recognizes it by its id when it comes again.
    private func ownRequest(_ key: String, _ body: JSON, id: String) -> HTTPRequest {
        HTTPRequest(
            "POST", configuration.endpoint, "/onym/v1/identify",
            ["Authorization": "Bearer \(key)", "Idempotency-Key": id], json: body)
    }

    private var userNow: User { seen(current) ?? User(current, at: runtime.time.now) }

    private func found(_ answer: Answer) {
        var user = users[answer.mpid] ?? User(answer.mpid, at: runtime.time.now)
        user.isLoggedIn = answer.isLoggedIn
        finish(.success(IdentityResult(user: user, previousUser: nil)))
    }

    /// Ends the running call, or repeats it if the app's settings say so.
    private func fail(_ error: OnymError, again: @escaping @Sendable () -> Void) {
        attempt.count += 1
        // A signature is valid only for the server's time, and the device may have learned that time just now.
        if error.status == 401, runtime.clock.correction != attempt.correction {
            attempt = newAttempt
            return again()
        }
        guard error.isPassing, case .automatic(let attempts) = configuration.retry, attempt.count < attempts else {
            return finish(.failure(error))
        }
        waits += 1
        let number = waits
        let id = attempt.id
        // Runs once: at the end of the waiting time, or at the return of the network.
        let once: @Sendable (DialectClient) -> Void = { client in
            guard let client = client as? IDSyncClient, client.waits == number, client.attempt.id == id,
                !client.isOptedOut
            else { return }
            client.waits += 1
            again()
        }
        retry = error.isOfNetwork ? once : nil
        later(delay(after: attempt.count, error), once)
    }

    package override func willFlush() {
        turnTimer += 1
        takeTurn()
    }

    package override func networkIsBack() {
        if !turns.isEmpty, queue.isEmpty { planTurn(after: runtime.part(of: DialectClient.longestReturn)) }
        guard let retry else { return }
        self.retry = nil
        later(runtime.part(of: DialectClient.longestReturn), retry)
    }

    private func finish(_ result: Result<IdentityResult, OnymError>) {
        let call = queue.calls.first
        // The app gets the failure of its logout, and decides.
        if call?.verb == .logout, call?.turn == nil, !isLeavingLater { forgetLeaving() }
        attempt = .none
        if let turn = call?.turn { return finish(turn, result) }
        queue.finish(result)
    }

    // MARK: - One login

    /// Makes a login or logout that counts at once: all letters from now on belong to the user that its answer names. The
    /// client makes the call again until it has an answer, over launches too, or until the next login or logout.
    package func turn(_ verb: Verb, _ request: IdentityRequest, _ completion: @escaping Completion) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            warn(of: request, in: verb)
            // The same user again: the letters have their owner already.
            if verb == .login, turns.isEmpty, settledLogin == request, current != 0, queue.isEmpty {
                return queue.add(Call(verb: verb, request: request), .queue, completion)
            }
            add(verb, request, completion)
        }
    }

    private func add(_ verb: Verb, _ request: IdentityRequest, _ completion: @escaping Completion) {
        let old = turns.isEmpty && current != 0 ? "\(current)" : nil
        let waiting = Set(mailbox.letters.lazy.map(\.owner))
        let running = queue.calls.first?.turn
        // Nobody waits for what such a call would lead to.
        turns.removeAll { $0.number != running && !waiting.contains(IDSyncClient.owner(ofTurn: $0.number)) }
        lastTurn += 1
        led = led.filter { number, _ in
            number > lastTurn - IDSyncClient.ledLimit || waiting.contains(IDSyncClient.owner(ofTurn: number))
        }
        let turn = Turn(lastTurn, verb, request)
        turns.append(turn)
        (leaving, settledLogin) = (nil, nil)
        save()
        if let old { runtime.announce(.userChanged(dialect, from: old, to: nil)) }
        turnTimer += 1
        turnFailures = 0
        if let first = turns.first, first.number != turn.number, !queue.calls.contains(first.call) {
            queue.add(first.call, .queue) { _ in }
        }
        queue.add(turn.call, .queue, completion)
    }

    /// The number of last turns whose users the client knows, also if no letter waits: an extension may leave an event late.
    private static let ledLimit: Int64 = 50

    /// Makes the first call that has no answer yet.
    private func takeTurn() {
        guard let turn = turns.first, !isOptedOut, !queue.calls.contains(where: { $0.turn != nil }) else { return }
        queue.add(turn.call, .queue) { _ in }
    }

    private func planTurn(after delay: TimeInterval) {
        turnTimer += 1
        let number = turnTimer
        later(delay) { client in
            guard let client = client as? IDSyncClient, client.turnTimer == number else { return }
            client.takeTurn()
        }
    }

    /// Ends the call of a turn.
    private func finish(_ number: Int64, _ result: Result<IdentityResult, OnymError>) {
        defer { queue.finish(result) }
        guard case .failure(let error) = result, turns.first?.number == number else {
            if !turns.isEmpty { planTurn(after: 0) }
            return
        }
        // The server's own refusal of a call that others have followed is its last word.
        if turns.count > 1, !error.isPassing, let status = error.serversStatus, ![401, 403].contains(status) {
            turns.removeFirst()
            let owner = IDSyncClient.owner(ofTurn: number)
            discard(.refused(error)) { $0.owner == owner }
            save()
            return planTurn(after: 0)
        }
        turnFailures += 1
        turnError = error
        planTurn(after: delay(after: turnFailures, error))
    }

    /// The answer to a turn has come: the letters that waited for it have their user.
    private func settle(_ number: Int64, _ user: Int64) {
        guard turns.first?.number == number else { return }
        let turn = turns.removeFirst()
        led[number] = user
        turnFailures = 0
        settledLogin = turn.verb == .login && turns.isEmpty ? turn.request : nil
    }

    // MARK: - Warnings

    /// Writes a warning about contents of a request that have no effect, or hardly the effect that the app wants.
    private func warn(of request: IdentityRequest?, in verb: Verb) {
        guard let request else { return }
        for warning in request.warnings(in: verb) { runtime.log.write(.warnings, "\(verb.rawValue): \(warning)") }
    }

    private var newAttempt: Attempt {
        Attempt(id: runtime.uuid(), time: runtime.serverNow.milliseconds, correction: runtime.clock.correction)
    }

    // MARK: - Who it is now

    private struct Answer {
        let mpid: Int64
        let isLoggedIn: Bool
        let isEphemeral: Bool
        var merged: [IdentityResult.Merge] = []
        var left: [IdentityResult.Left] = []
        var isKnown: Bool?

        static func read(_ answer: HTTPAnswer, _ dialect: Dialect) -> Result<Answer, OnymError> {
            answer.object.flatMap { body in
                // Success is exactly 200, with an id in it (spec/idsync.md 0.3).
                guard answer.status == 200, let id = (body["mpid"] ?? body["person"])?.integer, id != 0 else {
                    return .failure(answer.malformed)
                }
                guard dialect == .onym else {
                    return .success(
                        Answer(
                            mpid: id, isLoggedIn: body["is_logged_in"]?.bool ?? false,
                            isEphemeral: body["is_ephemeral"]?.bool ?? false))
                }
                let isKnown = body["known"]?.bool ?? false
                return .success(
                    Answer(
                        mpid: id, isLoggedIn: isKnown, isEphemeral: false,
                        merged: (body["merged"]?.elements ?? []).compactMap(IdentityResult.Merge.init),
                        left: (body["left"]?.elements ?? []).compactMap(IdentityResult.Left.init), isKnown: isKnown))
            }
        }

        func result(_ user: User, _ previous: User?) -> IdentityResult {
            var result = IdentityResult(user: user, previousUser: previous)
            (result.merged, result.left, result.isKnown) = (merged, left, isKnown)
            return result
        }
    }

    /// Makes the user of an answer the current user, in the documented order (spec/idsync.md 4.4). Answers the previous user,
    /// if that was another user.
    private func become(_ answer: Answer, _ asked: [IdentityType: String?], by call: Call) -> User? {
        let now = runtime.time.now
        let old = current
        var user = users[answer.mpid] ?? User(answer.mpid, at: now)
        let isOfImported = isImported && isOfCurrent(call, asked)
        // A server that does not know the vendor's MPID answers another MPID for the same user.
        if isOfImported, old != answer.mpid, let imported = users.removeValue(forKey: old) {
            user = users[answer.mpid] ?? imported.renamed(answer.mpid)
            renames[old] = answer.mpid
        }
        user.isLoggedIn = answer.isLoggedIn
        user.isEphemeral = answer.isEphemeral
        user.lastSeen = now
        for (type, value) in asked where type.isOfUser {
            user.identities[type] = value.flatMap { $0.isEmpty ? nil : $0 }
        }
        current = answer.mpid
        users[current] = user
        var previous: User?
        if old != current {
            users[old]?.lastSeen = now
            previous = users[old]
            forgetOldUsers()
        }
        let hadOwner = first != 0
        // The events of an imported user before another user's login stay with the imported user.
        if first == 0 { first = isImported && !isOfImported ? old : current }
        isImported = false
        if !isLeavingLater { leaving = nil }
        let wasKnown = turns.isEmpty && old != 0
        if let turn = call.turn { settle(turn, current) }
        save()
        if turns.isEmpty, old != current || !wasKnown {
            runtime.announce(.userChanged(dialect, from: wasKnown ? "\(old)" : nil, to: "\(current)"))
        }
        // Letters that waited for an owner can go out now.
        if !hadOwner || call.turn != nil, mailbox.count > 0 { deliver() }
        return previous
    }

    /// Whether a call asks for the current user: it contains no name that differs from the current user's names.
    private func isOfCurrent(_ call: Call, _ asked: [IdentityType: String?]) -> Bool {
        let known = users[current]?.identities ?? [:]
        return call.verb == .identify && asked.allSatisfy { type, value in known[type] == nil || known[type] == value }
    }

    /// Whether a logout waits behind the running call.
    private var isLeavingLater: Bool { queue.calls.dropFirst().contains { $0.verb == .logout } }

    private func forgetOldUsers() {
        while users.count > IDSyncClient.userLimit,
            let oldest = users.values.filter({ $0.id != current }).min(by: {
                ($0.lastSeen, $0.id) < ($1.lastSeen, $1.id)
            })
        {
            users[oldest.id] = nil
        }
    }

    // MARK: - Modify

    private func modify(_ call: Call) {
        let user = call.request?.user.map { renames[$0] ?? $0 } ?? current
        let known = users[user]?.identities ?? [:]
        var changes: [JSON] = []
        for (type, value) in (call.request?.identities ?? [:]).sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            let value = value.flatMap { $0.isEmpty ? nil : $0 }
            if known[type] == value { continue }
            changes.append([
                "identity_type": .string(type.rawValue), "old_value": .optional(known[type]),
                "new_value": .optional(value),
            ])
        }
        // A call without changes needs no server (spec/idsync.md 4.5).
        if changes.isEmpty { return finish(.success(IdentityResult(user: seen(user) ?? userNow))) }
        var body = frame
        body["identity_changes"] = .array(changes)
        exchange(request("/v1/\(user)/modify", .object(body))) { [unowned self] result in
            switch result.flatMap({ $0.object }) {
            case .failure(let error): fail(error) { [unowned self] in modify(call) }
            case .success(let answer): modified(call, user, answer)
            }
        }
    }

    private func modified(_ call: Call, _ id: Int64, _ answer: JSON) {
        for (type, value) in call.request?.identities ?? [:] {
            users[id]?.identities[type] = value.flatMap { $0.isEmpty ? nil : $0 }
        }
        save()
        let changes = (answer["change_results"]?.elements ?? []).compactMap { change -> IdentityResult.Change? in
            guard let user = change["modified_mpid"]?.integer, let type = change["identity_type"]?.text else {
                return nil
            }
            return IdentityResult.Change(user: user, type: IdentityType(rawValue: type))
        }
        finish(.success(IdentityResult(user: seen(id) ?? userNow, previousUser: nil, changes: changes)))
    }

    // MARK: - Alias

    /// Keeps an alias. The client sends it after all earlier events.
    package func alias(_ request: AliasRequest) -> Result<Void, OnymError> {
        enter {
            if isShutDown { return .failure(.refused(.shutDown)) }
            if isOptedOut { return .failure(.refused(.optedOut)) }
            if dialect == .onym { return .failure(.refused(.unavailable)) }
            if request.source == 0 || request.destination == 0 {
                return .failure(.refused(.invalid("both users of an alias need an MPID")))
            }
            if request.source == request.destination {
                return .failure(.refused(.invalid("an alias needs two users")))
            }
            if request.start > request.end { return .failure(.refused(.invalid("the alias ends before it begins"))) }
            let body: JSON = [
                "source_mpid": .string("\(request.source)"), "destination_mpid": .string("\(request.destination)"),
                "start_unixtime_ms": .integer(request.start.milliseconds),
                "end_unixtime_ms": .integer(request.end.milliseconds), "scope": "device",
                "device_application_stamp": .string(stamp),
            ]
            guard post(IDSyncClient.alias, of: "\(request.source)", body.bytes) != nil else {
                return .failure(.storage("the alias could not be kept"))
            }
            deliver()
            return .success(())
        }
    }

    // MARK: - Requests

    private var deviceIdentities: [IdentityType: String] {
        var identities: [IdentityType: String] = [.deviceApplicationStamp: stamp]
        identities[.iosIDFV] = configuration.device.vendorID
        if mayIdentifyAdvertising { identities[.iosIDFA] = configuration.device.advertisingID }
        identities[.pushToken] = configuration.device.pushToken
        return identities
    }

    /// Whether the device's advertising id may be sent: the person has allowed tracking, or the app reports no answer.
    private var mayIdentifyAdvertising: Bool { tracking.map { $0.status == .authorized } ?? true }

    private var frame: [String: JSON] {
        [
            "client_sdk": [
                "platform": .string(["ios", "tvos"].contains(platform) ? platform : "other"), "sdk_vendor": "onym",
                "sdk_version": .string(OnymClient.version),
            ],
            "environment": .string(configuration.environment.rawValue), "request_id": .string(attempt.id),
            "request_timestamp_ms": .integer(attempt.time), "context": .null,
        ]
    }

    private var platform: String { configuration.device.platform }

    /// Makes a request, and signs it if the key has a secret (spec/idsync.md 1.2). The signature is of the path with the
    /// version, also if the app's own host has another path.
    private func request(_ path: String, _ json: JSON, to kind: IDSyncHosts.Kind = .identity) -> HTTPRequest {
        guard case .idSync(let key, let secret) = wire else { preconditionFailure("The call has another form.") }
        let address = configuration.idSyncHosts.address(kind, isTracked: tracking?.status == .authorized)
        let sentPath = address?.omitsVersion == true ? IDSyncClient.withoutVersion(path, kind) : path
        return IDSyncClient.sign(
            HTTPRequest("POST", address?.base ?? configuration.endpoint, sentPath, ["x-mp-key": key], json: json),
            path, secret, at: runtime.serverNow)
    }

    /// The path that clients use whose host has no version in its paths.
    private static func withoutVersion(_ path: String, _ kind: IDSyncHosts.Kind) -> String {
        let parts = path.split(separator: "/").dropFirst(kind == .alias ? 2 : 1)
        return "/" + parts.joined(separator: "/")
    }

    private static func sign(_ plain: HTTPRequest, _ path: String, _ secret: String?, at now: Date) -> HTTPRequest {
        var request = plain
        guard let secret else { return request }
        let date = HTTPDate.write(now)
        let message = Array("POST\n\(date)\n\(path)".utf8) + request.body
        request.fields["Date"] = date
        request.fields["x-mp-signature"] = hexadecimal(SHA256.authenticate(message, key: secret.utf8))
        return request
    }

    // MARK: - Deliveries

    package override func delivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? {
        guard let first = letters.first else { return nil }
        let (key, secret): (String, String?)
        switch wire {
        case .idSync(let ownKey, let ownSecret): (key, secret) = (ownKey, ownSecret)
        case .onym(let key): return try traitDelivery(letters, key)
        }
        if first.kind == IDSyncClient.alias { return try aliasDelivery(first, key) }
        guard let owner = user(ofOwner: first.owner) else { return nil }
        // A held slice would make the next letter copy all that wait.
        let run = Array(letters.prefix { $0.kind != IDSyncClient.alias && user(ofOwner: $0.owner) == owner })
        guard let last = run.last else { return nil }
        let (from, to) = (UInt64(bitPattern: first.number), UInt64(bitPattern: last.number))
        let consent = users[Int64(owner) ?? 0]?.notes[IDSyncClient.consentNote] ?? configuration.deviceConsent
        let plain: [String: JSON] = [
            "environment": .string(configuration.environment.rawValue), "mpid": .string(owner),
            "consent_state": consent ?? .null, "device_info": trackingInfo,
            "source_request_id": .string(Mailbox.uuid(UInt64(bitPattern: mailbox.id), from << 24 ^ to)),
            "device_application_stamp": .string(stamp),
            "application_info": .sparse([
                "application_version": .optional(configuration.device.appVersion),
                "application_build_number": .optional(configuration.device.build),
            ]),
        ]
        let (path, lost) = ("/v2/\(key.escaped)/events", LostLetters())
        let request = request(path, .null, to: .events)
        var delivery = Delivery(count: run.count, request: request, accept: { $0.taken }, lost: lost)
        // A hundred events take milliseconds: whoever logs meanwhile must not wait for the lock.
        delivery.change = { [unowned self] () throws(FileFault) in
            let body: JSON = .sparse(plain.merging(try contents(of: run, lost)) { $1 })
            guard let changed = configuration.changeUpload.map({ $0(body) }) ?? body else { return nil }
            var sent = request
            sent.body = changed.bytes
            return IDSyncClient.sign(sent, path, secret, at: runtime.serverNow)
        }
        return delivery
    }

    /// The events and changes of attributes of an upload. Any thread may call this.
    private func contents(of run: [Mailbox.Letter], _ lost: LostLetters) throws(FileFault) -> [String: JSON] {
        var events: [JSON] = []
        // The last change of each name; nil removes the name.
        var attributes: [String: JSON?] = [:]
        let contents = try mailbox.contents(of: run[...])
        lost.count = contents.count { $0 == nil }
        for (letter, content) in zip(run, contents) {
            if letter.kind == IDSyncClient.attribute {
                if let name = content?["k"]?.text { attributes.updateValue(User.value(of: content), forKey: name) }
            } else if let event = Event(kept: content) {
                events.append(wire(event, letter))
            }
        }
        let set = attributes.compactMapValues { $0 }
        let removed = attributes.filter { $0.value == nil }.keys.sorted()
        return [
            "timestamp_unixtime_ms": .integer(runtime.onServer(run.last?.time ?? 0)),
            "user_attributes": set.isEmpty ? .null : .object(set),
            "deleted_user_attributes": removed.isEmpty ? .null : .array(removed.map { .string($0) }),
            "events": .array(events),
        ]
    }

    /// The name of a user's note with the user's consent, in the form of the wire.
    package static let consentNote = "consent"

    private var trackingInfo: JSON {
        tracking.map {
            [
                "att_authorization_status": .string($0.status.rawValue),
                "att_timestamp_unixtime_ms": .integer($0.time),
            ]
        } ?? .null
    }

    /// The owner of all letters without an MPID: the first user that had an MPID.
    private var firstUser: String? { first == 0 ? nil : "\(first)" }

    private func wire(_ event: Event, _ letter: Mailbox.Letter) -> JSON {
        let isScreen = event.type == "screen_view"
        return [
            "event_type": .string(event.type),
            "data": .sparse(
                event.details.merging([
                    "event_name": isScreen || event.name.isEmpty ? .null : .string(event.name),
                    "screen_name": isScreen ? .string(event.name) : .optional(event.screen),
                    "custom_event_type": event.type == "custom_event" ? .string(event.category ?? "other") : .null,
                    "custom_attributes": event.attributes.isEmpty ? .null : .object(event.attributes),
                    "timestamp_unixtime_ms": .integer(runtime.onServer(letter.time)),
                    "source_message_id": .string(mailbox.uuid(of: letter)),
                ]) { detail, own in own == .null ? detail : own }),
        ]
    }

    /// Changes of one user's attributes, in the server's own call.
    private func traitDelivery(
        _ letters: ArraySlice<Mailbox.Letter>, _ key: String
    ) throws(FileFault) -> Delivery? {
        guard let first = letters.first, let owner = user(ofOwner: first.owner) else { return nil }
        let run = letters.prefix { user(ofOwner: $0.owner) == owner }
        let contents = try mailbox.contents(of: run)
        var traits: [String: JSON] = [:]
        for content in contents {
            if let name = content?["k"]?.text { traits[name] = User.value(of: content) ?? .null }
        }
        let names = contents.last.flatMap { $0?["i"] } ?? [:]
        let body: JSON = ["ids": names, "previous": .string(owner), "traits": .object(traits)]
        return Delivery(
            count: run.count, request: ownRequest(key, body, id: mailbox.uuid(of: first)),
            accept: { answer in answer.object.map { _ in .nothing } }, lost: LostLetters(contents.count { $0 == nil }))
    }

    private func aliasDelivery(_ letter: Mailbox.Letter, _ key: String) throws(FileFault) -> Delivery {
        let data = try mailbox.content(of: letter)
        let body: JSON = [
            "request_id": .string(mailbox.uuid(of: letter)), "request_type": "alias", "api_key": .string(key),
            "environment": .string(configuration.environment.rawValue),
            "data": data ?? .object([:]),
        ]
        return Delivery(
            count: 1, request: request("/v1/identity/\(key.escaped)/alias", body, to: .alias), accept: { $0.taken },
            lost: LostLetters(data == nil ? 1 : 0))
    }
}

extension User {
    /// Applies a change of an attribute in a letter.
    fileprivate mutating func fold(_ body: JSON) {
        guard let name = body["k"]?.text else { return }
        attributes[name] = User.value(of: body)
    }

    /// The new value of a change in a letter; nil if the change removes the attribute.
    fileprivate static func value(of body: JSON?) -> JSON? { body?["t"]?.bool == true ? JSON.null : body?["v"] }
}

extension IdentityRequest {
    fileprivate var kept: JSON {
        .object(Dictionary(identities.map { ($0.key.rawValue, .optional($0.value)) }, uniquingKeysWith: { $1 }))
    }

    fileprivate init(kept: JSON) {
        self.init()
        for (type, value) in kept.members ?? [:] { identities[IdentityType(rawValue: type)] = value.text }
    }
}

extension IdentityResult.Merge {
    fileprivate init?(_ json: JSON) {
        guard let id = json["id"]?.text, let from = json["from"]?.integer, let into = json["into"]?.integer else {
            return nil
        }
        self.init(id: id, from: from, into: into)
    }
}

extension IdentityResult.Left {
    fileprivate init?(_ json: JSON) {
        guard let type = json["type"]?.text, let rule = json["rule"]?.text else { return nil }
        self.init(type: IdentityType(rawValue: type), rule: rule)
    }
}
