/// An address that is told what happens in a project.
package struct Webhook: Equatable, Sendable {
    package let id: Int64
    package let url: String
    /// What it is told; all there is if there are none.
    package let kinds: [ChangeEvent.Kind]
    package let madeAt: Instant

    package static let perProject = 20
    package static let urlBytes = 1...2048

    package init(id: Int64, url: String, kinds: [ChangeEvent.Kind], madeAt: Instant) {
        self.id = id
        self.url = url
        self.kinds = kinds
        self.madeAt = madeAt
    }

    package func wants(_ event: ChangeEvent) -> Bool { kinds.isEmpty || kinds.contains(event.kind) }

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
            packer.add(webhook.kinds.map(\.rawValue).joined(separator: " "))
        }
        return packer.bytes
    }

    static func unpack(_ packed: [UInt8]?) -> [Webhook] {
        var unpacker = Unpacker(packed ?? [])
        var webhooks: [Webhook] = []
        while !unpacker.isAtEnd {
            guard let id = unpacker.integer(), let url = unpacker.text(), let madeAt = unpacker.instant(),
                let kinds = unpacker.text()
            else { return webhooks }
            webhooks.append(
                Webhook(
                    id: Int64(bitPattern: id), url: url,
                    kinds: kinds.split(separator: " ").compactMap { ChangeEvent.Kind(rawValue: String($0)) },
                    madeAt: madeAt))
        }
        return webhooks
    }
}

/// Which change a delivery brings: the call, and which of all that it changed.
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

/// A change that a webhook has not been told of yet, though the feed has gone on.
package struct Delivery: Equatable, Sendable {
    package let change: ChangeReference
    /// Whom it is about: what comes later for any of them waits behind it.
    package let people: [PersonID]
    package var attempts = 0
    package var firstAt: Instant?
    /// When it is tried again.
    package var nextAt: Instant
    /// What the last attempt came to.
    package var fault = ""

    package init(_ change: ChangeReference, people: [PersonID], nextAt: Instant) {
        self.change = change
        self.people = people
        self.nextAt = nextAt
    }

    /// After so long it is tried no more, unless somebody asks.
    package static let triedMilliseconds: Int64 = 24 * 3600 * 1000

    /// How long to wait after some attempts: 5 s, 15 s, 45 s … and never more than four hours.
    package static func pauseMilliseconds(afterAttempts attempts: Int) -> Int64 {
        var pause: Int64 = 5_000
        for _ in 1..<max(1, min(attempts, 10)) { pause *= 3 }
        return min(pause, 4 * 3600 * 1000)
    }
}

/// How far a webhook has been told.
package struct Deliveries: Equatable, Sendable {
    /// All changes up to this call are delivered, wait here, or are parked.
    package var cursor: JournalSequence
    package var delivered = 0
    /// In the order of the feed.
    package var waiting: [Delivery] = []
    package var parked: [Delivery] = []

    /// The feed is not read on while so many wait, or are parked.
    package static let waitingAtMost = 1000
    package static let parkedAtMost = 1000

    package var isFull: Bool {
        waiting.count >= Deliveries.waitingAtMost || parked.count >= Deliveries.parkedAtMost
    }

    package init(cursor: JournalSequence) { self.cursor = cursor }

    static func key(of webhook: Int64) -> DocumentKey { DocumentKey(.deliveries, of: webhook) }

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

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let cursor = unpacker.integer(), let delivered = unpacker.integer(),
            let waiting = Deliveries.list(&unpacker), let parked = Deliveries.list(&unpacker)
        else { return nil }
        self.cursor = JournalSequence(rawValue: Int64(bitPattern: cursor))
        self.delivered = Int(delivered)
        self.waiting = waiting
        self.parked = parked
    }

    private static func list(_ unpacker: inout Unpacker) -> [Delivery]? {
        guard let count = unpacker.integer() else { return nil }
        var list: [Delivery] = []
        for _ in 0..<count {
            guard let call = unpacker.integer(), let index = unpacker.integer(), let people = unpacker.ids(),
                let attempts = unpacker.integer(), let firstAt = unpacker.instant(), let nextAt = unpacker.instant(),
                let fault = unpacker.text()
            else { return nil }
            let change = ChangeReference(
                call: JournalSequence(rawValue: Int64(bitPattern: call)), index: Int(index))
            var delivery = Delivery(change, people: people.map(PersonID.init), nextAt: nextAt)
            delivery.attempts = Int(attempts)
            delivery.firstAt = firstAt.milliseconds == 0 ? nil : firstAt
            delivery.fault = fault
            list.append(delivery)
        }
        return list
    }
}

/// A call that makes or removes a webhook, or notes how far one has been told.
package struct TellWebhook: Sendable {
    package enum Subject: Sendable {
        /// It is told what happens after a call.
        case make(url: String, kinds: [ChangeEvent.Kind], after: JournalSequence)
        case remove(Int64)
        /// Has something that was parked tried again.
        case replay(webhook: Int64, ChangeReference)
        /// What became of some changes, in the order of the feed, which was read up to a call.
        case note(webhook: Int64, readTo: JournalSequence, [Result])
    }

    package struct Result: Equatable, Sendable {
        package enum Outcome: Equatable, Sendable {
            case delivered
            case failed(String)
            /// It waits behind another.
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

    package let subject: Subject
    package init(_ subject: Subject) { self.subject = subject }
}

extension TellWebhook {
    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        var webhooks = Webhook.unpack(view.document(Webhook.key(of: project)))
        func put(_ webhooks: [Webhook]) -> Change {
            .documentPut(Webhook.key(of: project), PersonID(rawValue: 0), Webhook.pack(webhooks))
        }
        func put(_ deliveries: Deliveries?, of webhook: Int64) -> Change {
            .documentPut(Deliveries.key(of: webhook), PersonID(rawValue: 0), deliveries?.packed ?? [])
        }
        func deliveries(of webhook: Int64) -> Deliveries? {
            guard webhooks.contains(where: { $0.id == webhook }) else { return nil }
            return view.document(Deliveries.key(of: webhook)).flatMap(Deliveries.init(packed:))
        }
        switch subject {
        case .make(let url, let kinds, let after):
            guard webhooks.count < Webhook.perProject else { throw .tooMany(.webhook) }
            let webhook = Webhook(id: stamp.person.rawValue, url: url, kinds: kinds, madeAt: stamp.at)
            webhooks.append(webhook)
            return Decision(
                reply: .webhookMade(webhook.id, at: stamp.at),
                outcome: Outcome(
                    kind: .makeWebhook, person: nil,
                    changes: [put(webhooks), put(Deliveries(cursor: after), of: webhook.id)]))
        case .remove(let id):
            guard webhooks.contains(where: { $0.id == id }) else { throw .noSuch(.webhook) }
            webhooks.removeAll { $0.id == id }
            return Decision(
                reply: .webhookRemoved(id),
                outcome: Outcome(kind: .removeWebhook, person: nil, changes: [put(webhooks), put(nil, of: id)]))
        case .replay(let webhook, let change):
            guard var state = deliveries(of: webhook),
                let place = state.parked.firstIndex(where: { $0.change == change })
            else { throw .noSuch(.delivery) }
            var delivery = Delivery(change, people: state.parked.remove(at: place).people, nextAt: stamp.at)
            delivery.attempts = 0
            state.insert(delivery)
            return Decision(
                reply: .noted,
                outcome: Outcome(kind: .replayDelivery, person: nil, changes: [put(state, of: webhook)]))
        case .note(let webhook, let readTo, let results):
            // One that was removed meanwhile is told nothing more.
            guard var state = deliveries(of: webhook) else { return Decision(reply: .noted) }
            for result in results { state.take(result, at: stamp.at) }
            state.cursor = max(state.cursor, readTo)
            return Decision(
                reply: .noted,
                outcome: Outcome(kind: .noteDeliveries, person: nil, changes: [put(state, of: webhook)]))
        }
    }
}

extension Deliveries {
    fileprivate mutating func insert(_ delivery: Delivery) {
        let place = waiting.firstIndex { $0.change > delivery.change } ?? waiting.endIndex
        waiting.insert(delivery, at: place)
    }

    fileprivate mutating func take(_ result: TellWebhook.Result, at moment: Instant) {
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
            let firstAt = delivery.firstAt ?? moment
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
    /// All that it tells of.
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
