package import Foundation

/// The client of the IDSync dialect (spec/idsync.md 4).
package final class IDSyncClient: DialectClient, @unchecked Sendable {
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
    }

    package typealias Completion = CallQueue<Call, IdentityResult>.Completion

    private let key: String
    private let secret: String?
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

    package init(_ runtime: Runtime, key: String, secret: String?) throws(FileFault) {
        (self.key, self.secret) = (key, secret)
        var callback: (@escaping @Sendable () -> Void) -> Void = { _ in }
        queue = CallQueue { callback($0) }
        var kept = Kept()
        try super.init("idsync", runtime) { kept.fold($0) }
        callback = { [unowned self] in call($0) }
        (stamp, current, first, users) = (kept.stamp, kept.current, kept.first, kept.users)
        (isOptedOut, leaving, isImported, tracking) = (kept.isOptedOut, kept.leaving, kept.isImported, kept.tracking)
        let imported = kept.isNew ? importVendor() : nil
        if stamp.isEmpty { stamp = runtime.keepsake("idsync.stamp") { imported ?? runtime.uuid() } }
        // The state was lost, but the letters remain: their user does not exist any more.
        if current != 0, users[current] == nil { current = 0 }
        save()
        queue.run = { [unowned self] in run($0) }
        if mailbox.count > 0 { deliverSoon() }
    }

    /// Imports the users of the vendor's SDK. Answers the device's stamp.
    private func importVendor() -> String? {
        guard runtime.imports.contains(.mParticle) else { return nil }
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
                tracking = state["tracking"]?["status"]?.text.flatMap(TrackingStatus.init).map {
                    ($0, state["tracking"]?["time"]?.integer ?? 0)
                }
            case .letter(let letter, let body):
                guard letter.kind == IDSyncClient.attribute else { return }
                users[Int64(letter.owner) ?? current]?.fold(body)
            }
        }
    }

    /// The current user, for a reader that only reads the files; nil where no state exists.
    static func kept(in files: ReadOnlyFiles) throws(FileFault) -> (user: User?, owner: String, isOut: Bool)? {
        var kept = Kept()
        _ = try Mailbox("idsync", in: files, id: 0, report: { _ in }, fold: { kept.fold($0) })
        if kept.isNew { return nil }
        let user = kept.users[kept.current]
        return (user, user == nil || kept.isImported ? "" : "\(kept.current)", kept.isOptedOut)
    }

    /// Keeps an event that an extension has left, for the user at the time of the event.
    func take(_ note: NoteOfReader) {
        enter {
            guard !isOptedOut, !isShutDown else { return }
            postEvent(of: note.user ?? "", at: note.time, note.body)
        }
    }

    package override var kept: JSON {
        .sparse([
            "stamp": .string(stamp), "current": .integer(current), "first": .integer(first), "out": .bool(isOptedOut),
            "users": .array(users.values.sorted { $0.id < $1.id }.map(\.kept)),
            "leaving": leaving?.kept ?? .null, "imported": isImported ? true : .null,
            "tracking": tracking.map { ["status": .string($0.status.rawValue), "time": .integer($0.time)] } ?? .null,
        ])
    }

    /// Errors of all calls, and those of aliases (spec/idsync.md 1.7).
    package override func isEnvelope(_ body: JSON) -> Bool {
        let error = body["errors"]?.elements?.first ?? body
        return error["code"]?.text != nil && error["message"]?.text != nil
    }

    private static let attribute = "u"
    private static let alias = "x"

    // MARK: - Users

    package var deviceStamp: String { enter { stamp } }
    package var currentUser: User? { enter { seen(current) } }
    package func user(_ id: Int64) -> User? { enter { seen(id) } }

    /// All users, the newest first; the current user is always the first.
    package var allUsers: [User] {
        enter {
            let others = users.keys.filter { $0 != current }.compactMap(seen)
            return (seen(current).map { [$0] } ?? []) + others.sorted { ($0.lastSeen, $0.id) > ($1.lastSeen, $1.id) }
        }
    }

    private func seen(_ id: Int64) -> User? {
        guard var user = users[id] else { return nil }
        if id == current { user.lastSeen = runtime.time.now }
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
            guard !isOptedOut, !isShutDown, users[id] != nil else { return }
            guard post(IDSyncClient.attribute, of: owner(id), body.bytes) != nil else { return }
            users[id]?.fold(body)
            mailbox.fold(kept)
            deliverSoon()
        }
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
            let time = time?.milliseconds ?? runtime.milliseconds
            if tracking?.status == status, tracking?.time == time { return }
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
            postEvent(of: owner(current), at: time, body)
        }
    }

    /// The owner of a letter: empty for the first user in an answer of the server.
    private func owner(_ id: Int64) -> String { id == 0 || id == current && isImported ? "" : "\(id)" }

    package override func setOptedOut(_ isOut: Bool) {
        enter {
            guard isOut != isOptedOut, !isShutDown else { return }
            isOptedOut = isOut
            guard isOut else { return save() }
            (current, first, users, leaving, stamp) = (0, 0, [:], nil, runtime.uuid())
            isImported = false
            runtime.configuration.keepsakes?.keep(nil, as: "idsync.stamp")
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
            var job = Call(verb: verb, request: request)
            let overlap = configuration.overlap
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
        var body = frame
        body["known_identities"] = .texts(
            Dictionary(identities.map { ($0.key.rawValue, $0.value) }, uniquingKeysWith: { $1 }))
        if call.verb != .search, current != 0 { body["previous_mpid"] = .string("\(current)") }
        let asked = call.request?.identities ?? identities.mapValues { $0 }
        exchange(request("/v1/\(call.verb.rawValue)", .object(body))) { [unowned self] result in
            switch result.flatMap(Answer.read) {
            case .failure(let error): fail(error) { [unowned self] in send(call, for: whole) }
            case .success(let answer):
                if call.verb == .search { return found(answer) }
                let previous = become(answer, asked, by: call)
                if whole == call { return finish(.success(IdentityResult(user: userNow, previousUser: previous))) }
                attempt = newAttempt
                modify(whole)
            }
        }
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

    package override func networkIsBack() {
        guard let retry else { return }
        self.retry = nil
        later(runtime.part(of: DialectClient.longestReturn), retry)
    }

    private func finish(_ result: Result<IdentityResult, OnymError>) {
        // The app gets the failure of its logout, and decides.
        if queue.calls.first?.verb == .logout, !isLeavingLater { forgetLeaving() }
        attempt = .none
        queue.finish(result)
    }

    private var newAttempt: Attempt {
        Attempt(id: runtime.uuid(), time: runtime.serverNow.milliseconds, correction: runtime.clock.correction)
    }

    // MARK: - Who it is now

    private struct Answer {
        let mpid: Int64
        let isLoggedIn: Bool
        let isEphemeral: Bool

        static func read(_ answer: HTTPAnswer) -> Result<Answer, OnymError> {
            answer.object.flatMap { body in
                // Success is exactly 200, with an MPID in it (spec/idsync.md 0.3).
                guard answer.status == 200, let mpid = body["mpid"]?.integer, mpid != 0 else {
                    return .failure(answer.malformed)
                }
                return .success(
                    Answer(
                        mpid: mpid, isLoggedIn: body["is_logged_in"]?.bool ?? false,
                        isEphemeral: body["is_ephemeral"]?.bool ?? false))
            }
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
        save()
        if old != current {
            runtime.announce(.userChanged(.idSync, from: old == 0 ? nil : "\(old)", to: "\(current)"))
        }
        // Letters that waited for an owner can go out now.
        if !hadOwner, mailbox.count > 0 { deliver() }
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

    package override func delivery(_ letters: ArraySlice<Mailbox.Letter>) -> Delivery? {
        guard let first = letters.first else { return nil }
        if first.kind == IDSyncClient.alias { return aliasDelivery(first) }
        let owner = first.owner.isEmpty ? firstUser : first.owner
        guard let owner else { return nil }
        var events: [JSON] = []
        // The last change of each name; nil removes the name.
        var attributes: [String: JSON?] = [:]
        var count = 0
        var last = first
        var lost = 0
        for (letter, content) in zip(letters, mailbox.contents(of: letters)) {
            guard letter.kind != IDSyncClient.alias, (letter.owner.isEmpty ? firstUser : letter.owner) == owner else {
                break
            }
            if content == nil { lost += 1 }
            if letter.kind == IDSyncClient.attribute {
                if let name = content?["k"]?.text { attributes.updateValue(User.value(of: content), forKey: name) }
            } else if let event = Event(kept: content) {
                events.append(wire(event, letter))
            }
            count += 1
            last = letter
        }
        let set = attributes.compactMapValues { $0 }
        let removed = attributes.filter { $0.value == nil }.keys.sorted()
        let (from, to) = (UInt64(bitPattern: first.number), UInt64(bitPattern: last.number))
        let consent = users[Int64(owner) ?? 0]?.notes[IDSyncClient.consentNote] ?? configuration.deviceConsent
        let body: JSON = .sparse([
            "environment": .string(configuration.environment.rawValue), "mpid": .string(owner),
            "consent_state": consent ?? .null, "device_info": trackingInfo,
            "source_request_id": .string(Mailbox.uuid(UInt64(bitPattern: mailbox.id), from << 24 ^ to)),
            "timestamp_unixtime_ms": .integer(runtime.onServer(last.time)),
            "user_attributes": set.isEmpty ? .null : .object(set),
            "deleted_user_attributes": removed.isEmpty ? .null : .array(removed.map { .string($0) }),
            "device_application_stamp": .string(stamp),
            "application_info": .sparse([
                "application_version": .optional(configuration.device.appVersion),
                "application_build_number": .optional(configuration.device.build),
            ]), "events": .array(events),
        ])
        let request = request("/v2/\(key.escaped)/events", body, to: .events)
        var delivery = Delivery(count: count, request: request, accept: { $0.taken }, lost: lost)
        if let change = configuration.changeUpload {
            let (secret, path, now) = (secret, "/v2/\(key.escaped)/events", runtime.serverNow)
            delivery.change = {
                guard let body = change(body) else { return nil }
                var changed = request
                changed.body = body.bytes
                return IDSyncClient.sign(changed, path, secret, at: now)
            }
        }
        return delivery
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

    private func aliasDelivery(_ letter: Mailbox.Letter) -> Delivery {
        let body: JSON = [
            "request_id": .string(mailbox.uuid(of: letter)), "request_type": "alias", "api_key": .string(key),
            "environment": .string(configuration.environment.rawValue),
            "data": mailbox.content(of: letter) ?? .object([:]),
        ]
        return Delivery(
            count: 1, request: request("/v1/identity/\(key.escaped)/alias", body, to: .alias), accept: { $0.taken })
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
