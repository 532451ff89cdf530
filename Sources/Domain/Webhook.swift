/// An address that gets the changes of a project.
package struct Webhook: Equatable, Sendable {
    package let id: Int64
    package let url: String
    /// The kinds of changes that the webhook gets; an empty list means all kinds.
    package let kinds: [ChangeEvent.Kind]
    /// Whether the webhook also gets each fact of imports. Otherwise it gets only their ends.
    package let getsImports: Bool
    package let madeAt: Instant

    package static let perProject = 20
    package static let urlBytes = 1...2048

    package init(id: Int64, url: String, kinds: [ChangeEvent.Kind], getsImports: Bool = false, madeAt: Instant) {
        self.getsImports = getsImports
        self.id = id
        self.url = url
        self.kinds = kinds
        self.madeAt = madeAt
    }

    /// Whether the webhook gets an event of a call.
    package func wants(_ event: ChangeEvent, of call: RecordedCall) -> Bool {
        if call.kind == .importRecords, !getsImports { return false }
        return kinds.isEmpty || kinds.contains(event.kind)
    }

    /// The word behind the kinds of a webhook that gets the facts of imports.
    private static let importsWord = "imports"

    static func key(of project: ProjectID) -> DocumentKey { DocumentKey(.webhooks, of: Int64(project.rawValue)) }

    /// The webhooks of a project.
    package static func all(of project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> [Webhook] {
        unpack(try snapshot.document(key(of: project)))
    }

    static func pack(_ webhooks: [Webhook]) -> [UInt8] {
        var packer = Packer()
        for webhook in webhooks {
            packer.add(UInt64(bitPattern: webhook.id))
            packer.add(webhook.url)
            packer.add(webhook.madeAt)
            let words = webhook.kinds.map(\.rawValue) + (webhook.getsImports ? [importsWord] : [])
            packer.add(words.joined(separator: " "))
        }
        return packer.bytes
    }

    static func unpack(_ packed: [UInt8]?) -> [Webhook] {
        var unpacker = Unpacker(packed ?? [])
        var webhooks: [Webhook] = []
        while !unpacker.isAtEnd {
            guard let id = unpacker.integer(), let url = unpacker.text(), let madeAt = unpacker.instant(),
                let words = unpacker.text()?.split(separator: " ").map(String.init)
            else { return webhooks }
            webhooks.append(
                Webhook(
                    id: Int64(bitPattern: id), url: url, kinds: words.compactMap(ChangeEvent.Kind.init(rawValue:)),
                    getsImports: words.contains(importsWord), madeAt: madeAt))
        }
        return webhooks
    }
}

/// The change of a delivery: the call, and the index among the call's changes.
package struct ChangeReference: Hashable, Comparable, Sendable {
    package let call: JournalSequence
    package let index: Int

    package init(call: JournalSequence, index: Int) {
        self.call = call
        self.index = index
    }

    package static func < (one: ChangeReference, other: ChangeReference) -> Bool {
        (one.call, one.index) < (other.call, other.index)
    }
}

/// A change that a webhook has not accepted yet, although the feed has continued.
package struct Delivery: Equatable, Sendable {
    package let change: ChangeReference
    /// The people of the change. Later changes of these people wait for this delivery.
    package let people: [PersonID]
    package var attempts = 0
    package var firstAt: Instant?
    /// The moment of the next attempt.
    package var nextAt: Instant
    /// The result of the last attempt.
    package var fault = ""

    package init(_ change: ChangeReference, people: [PersonID], nextAt: Instant) {
        self.change = change
        self.people = people
        self.nextAt = nextAt
    }

    /// The time after which the server makes no more attempts, until a caller replays the delivery.
    package static let triedMilliseconds: Int64 = 24 * 3600 * 1000

    /// The pause after some attempts: 5 s, 15 s, 45 s … and at most four hours.
    package static func pauseMilliseconds(afterAttempts attempts: Int) -> Int64 {
        var pause: Int64 = 5_000
        for _ in 1..<max(1, min(attempts, 10)) { pause *= 3 }
        return min(pause, longestPauseMilliseconds)
    }

    private static let longestPauseMilliseconds: Int64 = 4 * 3600 * 1000

    /// Whether the delivery pauses at a moment.
    package func pauses(at moment: Instant) -> Bool {
        nextAt.ends(atMost: Delivery.longestPauseMilliseconds, runningAt: moment)
    }
}

/// The progress of a webhook.
package struct Deliveries: Equatable, Sendable {
    /// All changes up to this call are delivered, waiting or parked.
    package var cursor: JournalSequence
    package var delivered = 0
    /// The waiting deliveries, in the order of the feed.
    package var waiting: [Delivery] = []
    package var parked: [Delivery] = []

    /// The limits of waiting and parked deliveries. At a limit the webhook reads no more of the feed.
    package static let waitingAtMost = 1000
    package static let parkedAtMost = 1000

    package var isFull: Bool {
        waiting.count >= Deliveries.waitingAtMost || parked.count >= Deliveries.parkedAtMost
    }

    package init(cursor: JournalSequence) { self.cursor = cursor }

    static func key(of webhook: Int64) -> DocumentKey { DocumentKey(.deliveries, of: webhook) }

    /// The progress of a webhook; nil if it does not exist.
    package static func of(_ webhook: Webhook, _ snapshot: any Snapshot) throws(StoreFault) -> Deliveries? {
        try snapshot.document(key(of: webhook.id)).flatMap(Deliveries.init(packed:))
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: cursor.rawValue))
        packer.add(UInt64(delivered))
        for list in [waiting, parked] {
            packer.add(UInt64(list.count))
            for delivery in list {
                packer.add(UInt64(bitPattern: delivery.change.call.rawValue))
                packer.add(UInt64(delivery.change.index))
                packer.add(UInt64(delivery.people.count))
                for person in delivery.people { packer.add(UInt64(bitPattern: person.rawValue)) }
                packer.add(UInt64(delivery.attempts))
                packer.add(delivery.firstAt ?? Instant(milliseconds: 0))
                packer.add(delivery.nextAt)
                packer.add(delivery.fault)
            }
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let cursor = unpacker.integer(), let delivered = unpacker.count(),
            let waiting = Deliveries.list(&unpacker), let parked = Deliveries.list(&unpacker)
        else { return nil }
        self.cursor = JournalSequence(rawValue: Int64(bitPattern: cursor))
        self.delivered = delivered
        self.waiting = waiting
        self.parked = parked
    }

    private static func list(_ unpacker: inout Unpacker) -> [Delivery]? {
        guard let count = unpacker.integer() else { return nil }
        var list: [Delivery] = []
        for _ in 0..<count {
            guard let call = unpacker.integer(), let index = unpacker.count(), let people = unpacker.ids(),
                let attempts = unpacker.count(), let firstAt = unpacker.instant(), let nextAt = unpacker.instant(),
                let fault = unpacker.text()
            else { return nil }
            let change = ChangeReference(
                call: JournalSequence(rawValue: Int64(bitPattern: call)), index: index)
            var delivery = Delivery(change, people: people.map(PersonID.init), nextAt: nextAt)
            delivery.attempts = attempts
            delivery.firstAt = firstAt.milliseconds == 0 ? nil : firstAt
            delivery.fault = fault
            list.append(delivery)
        }
        return list
    }
}

/// A call that makes a webhook.
package struct MakeWebhook: Act {
    package let url: String
    package let kinds: [ChangeEvent.Kind]
    package let getsImports: Bool
    /// The call after which the webhook gets changes.
    package let after: JournalSequence

    package init(url: String, kinds: [ChangeEvent.Kind], getsImports: Bool = false, after: JournalSequence) {
        self.getsImports = getsImports
        self.url = url
        self.kinds = kinds
        self.after = after
    }

    package static var kinds: [ActKind] { [.makeWebhook] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 + url.utf8.count }

    /// Makes the webhook. Throws `tooMany` if the project is at its limit of webhooks, because each webhook reads the whole
    /// feed.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<WebhookMade> {
        var webhooks = view.webhooks(of: project)
        guard webhooks.count < Webhook.perProject else { throw .tooMany(.webhook) }
        let webhook = Webhook(
            id: stamp.person.rawValue, url: url, kinds: kinds, getsImports: getsImports, madeAt: stamp.at)
        webhooks.append(webhook)
        return Decision(
            WebhookMade(id: webhook.id, at: stamp.at),
            outcome: Outcome(
                kind: .makeWebhook, person: nil,
                changes: [
                    Webhook.put(webhooks, of: project), Deliveries.put(Deliveries(cursor: after), of: webhook.id),
                ]))
    }
}

/// A call that removes a webhook.
package struct RemoveWebhook: Act {
    package let webhook: Int64
    package init(_ webhook: Int64) { self.webhook = webhook }

    package static var kinds: [ActKind] { [.removeWebhook] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Removes the webhook and its waiting deliveries. Throws `noSuch` if the project has no such webhook, so that a wrong id
    /// is visible to the caller.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<WebhookRemoved> {
        var webhooks = view.webhooks(of: project)
        guard webhooks.contains(where: { $0.id == webhook }) else { throw .noSuch(.webhook) }
        webhooks.removeAll { $0.id == webhook }
        return Decision(
            WebhookRemoved(id: webhook),
            outcome: Outcome(
                kind: .removeWebhook, person: nil,
                changes: [Webhook.put(webhooks, of: project), Deliveries.put(nil, of: webhook)]))
    }
}

/// A call that tries a parked delivery of a webhook again, or all its parked deliveries.
package struct ReplayDelivery: Act {
    package let webhook: Int64
    /// The change of the delivery; nil for all parked deliveries.
    package let change: ChangeReference?

    package init(webhook: Int64, _ change: ChangeReference?) {
        self.webhook = webhook
        self.change = change
    }

    package static var kinds: [ActKind] { [.replayDelivery] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Moves the deliveries from the parked to the waiting deliveries. Throws `noSuch` if the webhook has no such parked
    /// delivery, because only a parked delivery needs help.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard var state = view.deliveries(of: webhook, in: project) else { throw .noSuch(.delivery) }
        let wanted = state.parked.filter { change == nil || $0.change == change }
        guard !wanted.isEmpty else { throw .noSuch(.delivery) }
        state.parked.removeAll { change == nil || $0.change == change }
        for delivery in wanted { state.insert(Delivery(delivery.change, people: delivery.people, nextAt: stamp.at)) }
        return Decision(
            Done(),
            outcome: Outcome(kind: .replayDelivery, person: nil, changes: [Deliveries.put(state, of: webhook)]))
    }
}

/// A call of the server itself that notes the progress of a webhook and the results of deliveries.
package struct NoteDeliveries: Act {
    /// The result of one delivery.
    package struct Result: Equatable, Sendable {
        /// The outcome of an attempt to deliver a change.
        package enum Outcome: Equatable, Sendable {
            case delivered
            case failed(String)
            /// The delivery waits behind another delivery.
            case held
        }

        package let change: ChangeReference
        package let people: [PersonID]
        package let outcome: Outcome

        package init(_ change: ChangeReference, people: [PersonID], _ outcome: Outcome) {
            self.change = change
            self.people = people
            self.outcome = outcome
        }
    }

    package let webhook: Int64
    /// The last call of the feed that the server has read.
    package let readTo: JournalSequence
    /// The results of some deliveries, in the order of the feed.
    package let results: [Result]

    package init(webhook: Int64, readTo: JournalSequence, _ results: [Result]) {
        self.webhook = webhook
        self.readTo = readTo
        self.results = results
    }

    package static var kinds: [ActKind] { [.noteDeliveries] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 + 256 * results.count }

    /// Notes the results and the progress. Throws nothing. A call for a webhook that was removed changes nothing, because
    /// its deliveries do not exist any more.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard var state = view.deliveries(of: webhook, in: project) else { return Decision(Done()) }
        for result in results { state.take(result, at: stamp.at) }
        state.cursor = max(state.cursor, readTo)
        return Decision(
            Done(),
            outcome: Outcome(kind: .noteDeliveries, person: nil, changes: [Deliveries.put(state, of: webhook)]))
    }
}

/// The answer to ``MakeWebhook``.
package struct WebhookMade: Answer {
    package let id: Int64
    package let at: Instant

    init(id: Int64, at moment: Instant) {
        self.id = id
        at = moment
    }

    package static let tags: [UInt8] = [ActKind.makeWebhook.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.webhookCreated, nil, [.init("webhook", .id(id))])]
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id))
        packer.add(at)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let at = unpacker.instant() else { return nil }
        self.init(id: Int64(bitPattern: id), at: at)
    }
}

/// The answer to ``RemoveWebhook``.
package struct WebhookRemoved: Answer {
    package let id: Int64
    init(id: Int64) { self.id = id }

    package static let tags: [UInt8] = [ActKind.removeWebhook.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.webhookRemoved, nil, [.init("webhook", .id(id))])]
    }

    package func pack(into packer: inout Packer) { packer.add(UInt64(bitPattern: id)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer() else { return nil }
        self.init(id: Int64(bitPattern: id))
    }
}

extension DocumentFacts {
    fileprivate func webhooks(of project: ProjectID) -> [Webhook] { Webhook.unpack(document(Webhook.key(of: project))) }

    fileprivate func deliveries(of webhook: Int64, in project: ProjectID) -> Deliveries? {
        guard webhooks(of: project).contains(where: { $0.id == webhook }) else { return nil }
        return document(Deliveries.key(of: webhook)).flatMap(Deliveries.init(packed:))
    }
}

extension Webhook {
    fileprivate static func put(_ webhooks: [Webhook], of project: ProjectID) -> Change {
        .documentPut(key(of: project), PersonID(rawValue: 0), pack(webhooks))
    }
}

extension Deliveries {
    fileprivate static func put(_ deliveries: Deliveries?, of webhook: Int64) -> Change {
        .documentPut(key(of: webhook), PersonID(rawValue: 0), deliveries?.packed ?? [])
    }
}

extension Deliveries {
    fileprivate mutating func insert(_ delivery: Delivery) {
        let place = waiting.firstIndex { $0.change > delivery.change } ?? waiting.endIndex
        waiting.insert(delivery, at: place)
    }

    fileprivate mutating func take(_ result: NoteDeliveries.Result, at moment: Instant) {
        let place = waiting.firstIndex { $0.change == result.change }
        var delivery =
            place.map { waiting.remove(at: $0) }
            ?? Delivery(result.change, people: result.people, nextAt: moment)
        switch result.outcome {
        case .delivered: delivered += 1
        case .held: insert(delivery)
        case .failed(let fault):
            delivery.attempts += 1
            delivery.fault = fault
            // A clock that was ahead must not give the delivery more time.
            let firstAt = min(delivery.firstAt ?? moment, moment)
            delivery.firstAt = firstAt
            if moment.milliseconds - firstAt.milliseconds >= Delivery.triedMilliseconds {
                parked.append(delivery)
            } else {
                delivery.nextAt = moment.advanced(
                    byMilliseconds: Delivery.pauseMilliseconds(afterAttempts: delivery.attempts))
                insert(delivery)
            }
        }
    }
}

extension ChangeEvent {
    /// All people of the event.
    package var people: [PersonID] {
        var people = person.map { [$0] } ?? []
        for field in data where field.name == "from" || field.name == "into" {
            if case .id(let id) = field.value, !people.contains(PersonID(rawValue: id)) {
                people.append(PersonID(rawValue: id))
            }
        }
        return people
    }
}

extension ActKind {
    package static let makeWebhook = ActKind(65, "make_webhook", undo: .never(.revokeInstead))
    package static let removeWebhook = ActKind(66, "remove_webhook", undo: .never(.secretGone))
    package static let noteDeliveries = ActKind(67, "note_deliveries", undo: .never(.delivered))
    package static let replayDelivery = ActKind(68, "replay_delivery", undo: .never(.delivered))
}
