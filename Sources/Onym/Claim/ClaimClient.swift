package import Foundation

/// The client of the Claim dialect (spec/claim.md 3.1).
///
/// Events and claims go through one queue, in order. So the server has all events of an anonymous user before it gets the
/// user's claim.
package final class ClaimClient: DialectClient, @unchecked Sendable {
    private let key: String
    let bundleID: String
    let session: String
    var configuration: Configuration { runtime.configuration }

    // The kept state.
    private var anonymous = ""
    private var user: String?
    private(set) var isOptedOut = false
    package override var isOut: Bool { enter { isOptedOut } }
    private var isCaptured = false
    private var pendings = 0
    /// The time of the last question to an ad network without an answer yet, and the time to wait before the next question.
    private var pending: Pending?

    private struct Pending {
        let since: Date
        let wait: TimeInterval

        /// A clock that was set back ends the wait.
        func isOver(at now: Date) -> Bool { !(0..<wait).contains(now.timeIntervalSince(since)) }
    }

    private var captures: [@Sendable (Result<AttributionOutcome, OnymError>) -> Void] = []
    private var capture = 0
    private var isTokenAwaited = false
    private var repeats: [Int: (count: Int, since: Date)] = [:]

    package static let prefix = "owl_anon_"
    /// The greatest number of questions to an ad network that has no answer yet (spec/claim.md 3.1).
    package static let pendingLimit = 5
    /// The seconds to wait before the next question, if an ad network without an answer names no time.
    package static let pendingDelay: TimeInterval = 3600
    /// The greatest number of tries at a failing server in one launch.
    private static let attempts = 5
    /// The statuses with which the server says that a token is useless.
    private static let finalStatuses: Set<Int> = [400, 409, 413, 422]
    private static let eventsPerBatch = 100
    private static let claim = "c"
    private static let properties = "p"

    package init(_ runtime: Runtime, key: String, bundleID: String) throws(FileFault) {
        (self.key, self.bundleID, session) = (key, bundleID, runtime.uuid())
        var state: JSON = .null
        try super.init("claim", runtime) { if case .state(let kept) = $0 { state = kept } }
        anonymous = state["anonymous"]?.text ?? ""
        user = state["user"]?.text
        isOptedOut = state["out"]?.bool ?? false
        isCaptured = state["captured"]?.bool ?? false
        pendings = Int(state["pendings"]?.integer ?? 0)
        if let since = state["asked"]?.integer {
            pending = Pending(
                since: Date(milliseconds: since), wait: Double(state["wait"]?.integer ?? 0) / 1000)
        }
        let imported = state == .null ? importVendor() : nil
        if anonymous.isEmpty {
            anonymous = runtime.keepsake("claim.anonymous") { imported?.anonymous ?? newAnonymous() }
        }
        save()
        // The claim of an earlier launch may be lost: the client sends it again.
        if let user, !isOptedOut { postClaim(user) }
        if mailbox.count > 0 { deliverSoon() }
    }

    /// Imports the user of the vendor's SDK, and the events that the vendor's SDK could not send. The client keeps the events
    /// before the state. If the process ends in between, the next process reads the events again, under the same ids.
    private func importVendor() -> OwlmetryImport? {
        guard runtime.imports.contains(.owlmetry) else { return nil }
        let vendor = OwlmetryImport(runtime.vendorStore)
        runtime.announce(.owlmetry, vendor.tally)
        (user, isCaptured, pendings) = (vendor.user, vendor.isCaptured, vendor.pendings)
        for event in vendor.events.suffix(configuration.eventLimit) {
            let body: JSON = ["n": event.wire["message"] ?? "", "w": event.wire]
            post("e", of: event.owner, at: event.time, body.bytes)
        }
        return vendor
    }

    /// The current user, for a reader that only reads the files; nil where no state exists.
    static func kept(in files: ReadOnlyFiles) throws(FileFault) -> (owner: String?, isOut: Bool)? {
        var state: JSON = .null
        _ = try Mailbox(
            "claim", in: files, id: 0, report: { _ in }, fold: { if case .state(let kept) = $0 { state = kept } })
        if state == .null { return nil }
        return (state["user"]?.text ?? state["anonymous"]?.text, state["out"]?.bool ?? false)
    }

    /// Keeps an event that an extension has left, for the user at the time of the event.
    func take(_ note: NoteOfReader) {
        enter {
            guard !isOptedOut, !isShutDown else { return }
            var body = note.body
            body.removeLast()
            body += ",\"x\":\"\(session)\"}".utf8
            postEvent(of: note.claimUser ?? owner, at: note.time, body)
        }
    }

    package override var kept: JSON {
        .sparse([
            "anonymous": .string(anonymous), "user": .optional(user), "out": .bool(isOptedOut),
            "captured": .bool(isCaptured), "pendings": .integer(Int64(pendings)),
            "asked": pending.map { .integer($0.since.milliseconds) } ?? .null,
            "wait": pending.map { .integer(Int64($0.wait * 1000)) } ?? .null,
        ])
    }

    package override func isEnvelope(_ body: JSON) -> Bool { body["error"]?.text != nil }

    private func newAnonymous() -> String { ClaimClient.prefix + runtime.uuid().uppercased() }

    /// The user of the next event: the known user, or the anonymous id.
    package var currentUser: String { enter { user ?? anonymous } }
    package var anonymousUser: String { enter { anonymous } }
    package var sessionID: String { session }

    // MARK: - Who it is

    package func setUser(_ id: String) -> Result<Void, OnymError> {
        enter {
            if isShutDown { return .failure(.refused(.shutDown)) }
            if isOptedOut { return .failure(.refused(.optedOut)) }
            guard !id.isEmpty, id.utf16.count <= 255, !id.hasPrefix(ClaimClient.prefix), !id.utf8.contains(0) else {
                return .failure(
                    .refused(.invalid("a user id has 1 to 255 characters and does not begin with owl_anon_")))
            }
            let old = user ?? anonymous
            user = id
            save()
            if old != id { runtime.announce(.userChanged(.claim, from: old, to: id)) }
            postClaim(id)
            return .success(())
        }
    }

    private func postClaim(_ id: String) {
        // A waiting claim says the same already, if no other user came after it.
        if let last = mailbox.letters.last(where: { $0.kind == ClaimClient.claim }), last.owner == id,
            (try? mailbox.content(of: last))?["anonymous_id"]?.text == anonymous
        {
            return deliver()
        }
        post(ClaimClient.claim, of: id, JSON.object(["anonymous_id": .string(anonymous)]).bytes)
        deliver()
    }

    /// - Parameter isNew: whether later events belong to a new anonymous id. If not, the server goes on adding them to the
    ///   last user.
    package func clearUser(newAnonymous isNew: Bool) {
        enter {
            guard !isShutDown, !isOptedOut else { return }
            let old = user ?? anonymous
            user = nil
            if isNew {
                anonymous = newAnonymous()
                configuration.keepsakes?.keep(anonymous, as: "claim.anonymous")
            }
            save()
            if old != anonymous { runtime.announce(.userChanged(.claim, from: old, to: anonymous)) }
        }
    }

    package override func setOptedOut(_ isOut: Bool) {
        enter {
            guard isOut != isOptedOut, !isShutDown else { return }
            isOptedOut = isOut
            guard isOut else { return save() }
            user = nil
            anonymous = newAnonymous()
            configuration.keepsakes?.keep(nil, as: "claim.anonymous")
            (isCaptured, pendings, pending) = (false, 0, nil)
            endCaptures(.failure(.refused(.optedOut)))
            wipe(.optedOut)
        }
    }

    package override func close(_ error: OnymError) { endCaptures(.failure(error)) }

    package override var droppable: Set<String> { ["e", ClaimClient.properties] }

    // MARK: - Events and properties

    /// - Parameter time: the time of the event in milliseconds since 1970; nil for now.
    package func log(_ event: Event, _ body: [UInt8], _ attachments: [Attachment] = [], at time: Int64? = nil) {
        var body = body
        body.removeLast()
        body += ",\"x\":\"".utf8
        body += session.utf8
        body += "\"}".utf8
        let fingerprint = ClaimClient.fingerprint(event)
        enter {
            guard !isOptedOut, !isShutDown, !isRepeated(fingerprint) else { return }
            if let letter = postEvent(of: owner, at: time, body), !attachments.isEmpty {
                attach(attachments, to: letter)
            }
        }
    }

    /// The owner of the next event.
    var owner: String { user ?? anonymous }

    /// The reason to refuse any call now.
    var refusal: Refusal? { isShutDown ? .shutDown : isOptedOut ? .optedOut : nil }

    /// Logs the life-cycle events that apps of the vendor's SDK have.
    package func live(_ phase: LifeCyclePhase) {
        switch phase {
        case .background: note("sdk:app_backgrounded")
        case .foreground: note("sdk:app_foregrounded")
        case .termination, .unlocked: break
        }
    }

    private func note(_ name: String) {
        let event = Event(name)
        log(event, event.body)
    }

    /// Whether the app logs one event too often: ten a minute are the limit, because more is a fault of the app
    /// (spec/claim.md 3.1).
    private func isRepeated(_ fingerprint: Int) -> Bool {
        let now = runtime.time.now
        if repeats.count >= 1000 { repeats.removeAll() }
        var entry = repeats[fingerprint] ?? (0, now)
        // A clock that was set back begins a new minute.
        if !(0..<60).contains(now.timeIntervalSince(entry.since)) { entry = (0, now) }
        entry.count += 1
        repeats[fingerprint] = entry
        return entry.count > 10
    }

    /// A hash of the parts that two equal events share: all parts but the place in the code.
    private static func fingerprint(_ event: Event) -> Int {
        var hasher = Hasher()
        hasher.combine(event.name)
        hasher.combine(event.level)
        hasher.combine(event.screen)
        var attributes = 0
        for (name, value) in event.attributes where name.utf8.first != UInt8(ascii: "_") {
            var hasher = Hasher()
            hasher.combine(name)
            hasher.combine(value)
            // The order of a dictionary's entries has no meaning.
            attributes ^= hasher.finalize()
        }
        hasher.combine(attributes)
        return hasher.finalize()
    }

    /// Sets properties of the current user; an empty text removes one.
    package func setProperties(_ properties: [String: String]) {
        enter {
            guard !isOptedOut, !isShutDown, !properties.isEmpty else { return }
            post(ClaimClient.properties, of: user ?? anonymous, JSON.texts(properties).bytes)
            deliver()
        }
    }

    // MARK: - Attribution

    package func captureAttribution(_ completion: @escaping @Sendable (Result<AttributionOutcome, OnymError>) -> Void) {
        enter {
            if isShutDown { return call { completion(.failure(.refused(.shutDown))) } }
            if isOptedOut { return call { completion(.failure(.refused(.optedOut))) } }
            if isCaptured { return call { completion(.success(.captured)) } }
            if let pending, !pending.isOver(at: runtime.serverNow) { return call { completion(.success(.pending)) } }
            guard let tokens = configuration.attributionTokens ?? PlatformTokens.available else {
                return call { completion(.failure(.refused(.unavailable))) }
            }
            captures.append(completion)
            guard captures.count == 1 else { return }
            capture += 1
            isTokenAwaited = true
            // The answer belongs to the user who asked, at every try.
            let (number, owner) = (capture, user ?? anonymous)
            outside { [weak self] in
                Task.detached {
                    let token = try? await tokens.token()
                    self?.enter { self?.submit(token, of: owner, number, 0) }
                }
            }
            later(configuration.timeout) { client in
                guard let client = client as? ClaimClient, client.capture == number, client.isTokenAwaited else {
                    return
                }
                client.endCaptures(.failure(.refused(.appFailed)))
            }
        }
    }

    package func resetCapture() {
        enter {
            (isCaptured, pendings, pending) = (false, 0, nil)
            save()
        }
    }

    private func submit(_ token: String?, of owner: String, _ number: Int, _ count: Int) {
        guard number == capture, !captures.isEmpty, !isShutDown else { return }
        isTokenAwaited = false
        guard let token else { return endCaptures(.failure(.refused(.unavailable))) }
        let body: JSON = ["user_id": .string(owner), "attribution_token": .string(token)]
        exchange(request("/v1/identity/attribution/apple-search-ads", body)) { [unowned self] result in
            guard number == capture else { return }
            switch result.flatMap({ $0.object }) {
            case .success(let answer): submitted(answer, of: owner)
            // The server may have the answer already.
            case .failure(let error) where error.isPassing && count + 1 < ClaimClient.attempts:
                later(delay(after: count + 1, error)) { client in
                    (client as? ClaimClient)?.submit(token, of: owner, number, count + 1)
                }
            case .failure(let error):
                if let status = error.serversStatus, ClaimClient.finalStatuses.contains(status) { captured() }
                endCaptures(.failure(error))
            }
        }
    }

    private func submitted(_ answer: JSON, of owner: String) {
        guard answer["pending"]?.bool == true else {
            captured()
            return endCaptures(.success(.resolved(answer["properties"]?.texts ?? [:])))
        }
        pendings += 1
        let seconds = answer["retry_after_seconds"]?.integer.map(Double.init) ?? ClaimClient.pendingDelay
        pending = Pending(since: runtime.serverNow, wait: min(max(0, seconds), DialectClient.longestWait))
        guard pendings >= ClaimClient.pendingLimit else {
            save()
            return endCaptures(.success(.pending))
        }
        captured()
        let none = ["attribution_source": "none"]
        post(ClaimClient.properties, of: owner, JSON.texts(none).bytes)
        deliver()
        endCaptures(.success(.resolved(none)))
    }

    private func captured() {
        (isCaptured, pending) = (true, nil)
        save()
    }

    private func endCaptures(_ result: Result<AttributionOutcome, OnymError>) {
        capture += 1
        isTokenAwaited = false
        let ended = captures
        captures = []
        for completion in ended { call { completion(result) } }
    }

    // MARK: - Requests

    func request(_ path: String, _ json: JSON?, _ method: String = "POST") -> HTTPRequest {
        var request = HTTPRequest(method, configuration.endpoint, path, ["Authorization": "Bearer \(key)"], json: json)
        request.isCompressible = true
        return request
    }

    package override func delivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? {
        guard let first = letters.first else { return nil }
        switch first.kind {
        case ClaimClient.claim: return try claimDelivery(first)
        case ClaimClient.properties: return try propertiesDelivery(letters)
        default: return eventsDelivery(letters)
        }
    }

    private func claimDelivery(_ letter: Mailbox.Letter) throws(FileFault) -> Delivery {
        let anonymous = try mailbox.content(of: letter)?["anonymous_id"]
        let body: JSON = ["anonymous_id": anonymous ?? "", "user_id": .string(letter.owner)]
        return Delivery(
            count: 1, request: request("/v1/identity/claim", body),
            accept: { answer in answer.object.map { _ in .nothing } }, lost: LostLetters(anonymous == nil ? 1 : 0))
    }

    private func propertiesDelivery(_ letters: ArraySlice<Mailbox.Letter>) throws(FileFault) -> Delivery? {
        guard let first = letters.first else { return nil }
        let run = letters.prefix { $0.kind == first.kind && $0.owner == first.owner }
        var properties: [String: JSON] = [:]
        let contents = try mailbox.contents(of: run)
        for content in contents { properties.merge(content?.members ?? [:]) { $1 } }
        let body: JSON = ["user_id": .string(first.owner), "properties": .object(properties)]
        return Delivery(
            count: run.count, request: request("/v1/identity/properties", body),
            accept: { answer in answer.object.map { _ in .nothing } },
            lost: LostLetters(contents.count { $0 == nil }))
    }

    private func eventsDelivery(_ letters: ArraySlice<Mailbox.Letter>) -> Delivery {
        // A held slice would make the next letter copy all that wait.
        let run = Array(letters.prefix(ClaimClient.eventsPerBatch).prefix { $0.kind == "e" })
        let (session, lost) = (session, LostLetters())
        var delivery = Delivery(
            count: run.count, request: request("/v1/ingest", .null),
            accept: { answer in
                answer.object.map { body in
                    let texts = (body["errors"]?.elements ?? []).compactMap { $0["message"]?.text }
                    return Rejected(count: Int(clamping: body["rejected"]?.integer ?? 0), texts: texts)
                }
            },
            lost: lost)
        // A hundred events take milliseconds: whoever logs meanwhile must not wait for the lock.
        delivery.change = { [unowned self] () throws(FileFault) in
            let facts = facts
            let oldest = runtime.serverNow.milliseconds - ClaimClient.oldestMilliseconds
            let events = zip(run, try mailbox.contents(of: run[...])).compactMap { letter, content -> JSON? in
                if let vendors = content?["w"]?.members { return wire(vendors, letter, session, notBefore: oldest) }
                return Event(kept: content).map { event in
                    wire(event, letter, content?["x"]?.text ?? session, facts, notBefore: oldest)
                }
            }
            lost.count = run.count - events.count
            return request("/v1/ingest", ["bundle_id": .string(bundleID), "events": .array(events)])
        }
        return delivery
    }

    /// The oldest time that a server accepts (spec/claim.md 1.6), less ten minutes for the way to the server.
    private static let oldestMilliseconds: Int64 = 30 * 86_400_000 - 600_000

    /// An event of the vendor's SDK, in the form that the vendor's SDK would have sent.
    private func wire(
        _ event: [String: JSON], _ letter: Mailbox.Letter, _ session: String, notBefore oldest: Int64
    ) -> JSON {
        var event = event
        let time = runtime.onServer(letter.time)
        event["timestamp"] = .string(ClaimClient.time(max(time, oldest)))
        if time < oldest {
            var attributes = event["custom_attributes"]?.members ?? [:]
            attributes["_late_ms"] = .string("\(oldest - time)")
            event["custom_attributes"] = .object(attributes)
        }
        event["user_id"] = .string(letter.owner)
        event["client_event_id"] = event["client_event_id"] ?? .string(mailbox.uuid(of: letter))
        event["session_id"] = event["session_id"] ?? .string(session)
        return .object(event)
    }

    private func wire(
        _ event: Event, _ letter: Mailbox.Letter, _ session: String, _ facts: [String: JSON], notBefore oldest: Int64
    ) -> JSON {
        var event = event
        let time = runtime.onServer(letter.time)
        // An event that waited too long gets the oldest accepted time, and says how much later that is.
        if time < oldest { event.attributes["_late_ms"] = .string("\(oldest - time)") }
        return .sparse(
            facts.merging([
                "client_event_id": .string(mailbox.uuid(of: letter)), "session_id": .string(session),
                "user_id": .string(letter.owner), "level": .string(event.level.rawValue),
                // The limit counts the same characters as the server.
                "message": .string(String(event.name.unicodeScalars.prefix(2000))),
                "screen_name": .optional(event.screen),
                "source_module": event.attributes["_source"] ?? .null,
                "custom_attributes": event.attributes.isEmpty
                    ? .null : .object(event.attributes.filter { $0.key != "_source" }),
                "timestamp": .string(ClaimClient.time(max(time, oldest))),
            ]) { $1 })
    }

    var facts: [String: JSON] {
        let device = configuration.device
        return [
            "environment": ["ios", "ipados", "macos", "watchos"].contains(device.platform)
                ? .string(device.platform) : .null,
            "os_version": .optional(device.osVersion), "app_version": .optional(device.appVersion),
            "build_number": .optional(device.build), "device_model": .optional(device.model),
            "locale": .optional(device.locale), "preferred_language": .optional(device.preferredLanguage),
            "sdk_name": "onym-swift", "sdk_version": .string(OnymClient.version),
            "is_dev": .bool(device.isDevelopment),
        ]
    }

    /// `2026-11-21T12:00:00.000Z`.
    package static func time(_ milliseconds: Int64) -> String {
        func padded(_ number: Int64, _ digits: Int) -> String {
            let text = "\(number)"
            return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
        }
        // A calendar of Foundation takes longer than all else about an event. Years of 400 have 146,097 days, and begin in March.
        let milliseconds = max(0, milliseconds)
        let days = milliseconds / 86_400_000 + 719_468
        let (era, dayOfEra) = (days / 146_097, days % 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
        let seconds = milliseconds / 1000 % 86_400
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(dayOfYear - (153 * monthFromMarch + 2) / 5 + 1, 2))T"
            + "\(padded(seconds / 3600, 2)):\(padded(seconds / 60 % 60, 2)):\(padded(seconds % 60, 2))."
            + "\(padded(milliseconds % 1000, 3))Z"
    }
}

/// The result of a question for the source of an install.
public enum AttributionOutcome: Hashable, Sendable {
    /// The network has answered; the answer is now among the user's properties.
    case resolved([String: String])
    /// The network has no answer yet. The first call after the network's waiting time asks again, five times in all.
    case pending
    /// The network answered earlier.
    case captured
}
