import Domain

/// The next deliveries of one webhook, as chains of changes. Each chain concerns other people, so the chains can run in
/// parallel.
struct RoundPlan: Sendable {
    struct Item: Sendable {
        let change: ChangeReference
        let people: [PersonID]
        let payload: [UInt8]
        /// Whether the store already has the delivery as waiting.
        let isWaiting: Bool

        func result(_ outcome: NoteDeliveries.Result.Outcome) -> NoteDeliveries.Result {
            NoteDeliveries.Result(change, people: people, outcome)
        }
    }

    private(set) var chains: [[Item]] = []
    /// New changes that have to wait.
    private(set) var held: [NoteDeliveries.Result] = []
    /// The last call of the feed that this plan has read.
    private(set) var readTo: JournalSequence

    private let webhook: Webhook
    private let deliveries: Deliveries
    private let now: Instant
    private let chainsAtMost: Int
    private var count = 0
    private var chainOf: [PersonID: Int] = [:]
    /// People whose changes wait for a delivery outside this round.
    private var blocked: Set<PersonID> = []

    static let chainsAtMost = 16
    static let itemsAtMost = 64
    private static let callsReadAtOnce = 64
    private static let callsReadAtMost = 4096
    /// Changes that concern no person also have an order.
    private static let nobody = PersonID(rawValue: 0)

    init(
        _ webhook: Webhook, _ deliveries: Deliveries, from readTo: JournalSequence?, at now: Instant, chainsAtMost: Int
    ) {
        self.webhook = webhook
        self.deliveries = deliveries
        self.now = now
        self.chainsAtMost = chainsAtMost
        self.readTo = max(readTo ?? .zero, deliveries.cursor)
    }

    var isEmpty: Bool { chains.isEmpty && held.isEmpty }

    private var isFull: Bool { chains.count >= chainsAtMost || count >= RoundPlan.itemsAtMost }

    mutating func fill(
        _ project: ProjectID, _ snapshot: any Snapshot,
        _ payload: (RecordedCall, ChangeEvent, any Snapshot) -> [UInt8]
    ) throws(StoreFault) {
        for delivery in deliveries.waiting {
            if isFull || delivery.pauses(at: now) || !blocked.isDisjoint(with: delivery.people) {
                blocked.formUnion(delivery.people)
                continue
            }
            let before = JournalSequence(rawValue: delivery.change.call.rawValue - 1)
            let call = try snapshot.calls(after: before, limit: 1).first
            let events = call?.events ?? []
            guard let call, call.sequence == delivery.change.call, events.indices.contains(delivery.change.index) else {
                // The person was erased since then, so the change is not sent any more.
                held.append(NoteDeliveries.Result(delivery.change, people: delivery.people, .delivered))
                continue
            }
            add(
                Item(
                    change: delivery.change, people: delivery.people,
                    payload: payload(call, events[delivery.change.index], snapshot), isWaiting: true))
        }
        if deliveries.isFull { return }
        var looked = 0
        while !isFull, looked < RoundPlan.callsReadAtMost {
            let calls = try snapshot.calls(after: readTo, limit: RoundPlan.callsReadAtOnce)
            for call in calls {
                if isFull { return }
                looked += 1
                readTo = call.sequence
                guard call.project == project else { continue }
                for (index, event) in call.events.enumerated() where webhook.wants(event, of: call) {
                    let people = event.people.isEmpty ? [RoundPlan.nobody] : event.people
                    let change = ChangeReference(call: call.sequence, index: index)
                    add(
                        Item(
                            change: change, people: people, payload: payload(call, event, snapshot), isWaiting: false))
                }
            }
            if calls.count < RoundPlan.callsReadAtOnce { return }
        }
    }

    /// Adds a change to the chain of its people; a change that concerns several chains waits.
    private mutating func add(_ item: Item) {
        let places = Set(item.people.compactMap { chainOf[$0] })
        let isNewChain = places.isEmpty
        if !blocked.isDisjoint(with: item.people) || places.count > 1 || isNewChain && isFull {
            blocked.formUnion(item.people)
            if !item.isWaiting { held.append(item.result(.held)) }
            return
        }
        count += 1
        let place = places.first ?? chains.count
        if isNewChain { chains.append([item]) } else { chains[place].append(item) }
        for person in item.people { chainOf[person] = place }
    }
}
