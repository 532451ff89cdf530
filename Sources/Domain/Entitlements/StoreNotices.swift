/// A store's word that something has changed, which the server keeps until it has asked the store what holds now
/// (spec/entitlements-live.md 5.2, 6.1).
///
/// A notification is answered as soon as its notice is stored. The notice waits in a queue of its project and store. A second
/// word about the same thing changes nothing while the first one waits. If the server asks at that moment, the question may
/// have begun before the change. So the second word then gets a new place in the queue.
package struct StoreNotice: Equatable, Sendable {
    /// The thing about which the server asks the store.
    package enum Subject: Equatable, Sendable {
        /// The token of a purchase at Google, or the id of a subscription at Stripe.
        case purchase(String)
        /// A purchase at Google, and the order of it that Google has refunded in full.
        case refund(String, order: String)
        /// A customer at Stripe, with all subscriptions.
        case customer(String)
        /// A checkout at Stripe. It names the subscription and the buyer.
        case checkout(String)
        /// A payment at Stripe, and whether the buyer has the money back.
        case payment(String, isTaken: Bool)
    }

    /// The hash of the subject, its store and its project.
    package let id: Hash128
    package let source: Purchase.Source
    /// The world of the subject; nil if only the store knows it.
    package let world: AccessWorld?
    package let subject: Subject
    /// The moment at which the store told.
    package private(set) var toldAt: Instant
    /// The place in the queue.
    package fileprivate(set) var place: UInt64 = 0
    /// The moment at which the last question began; nil while the notice waits.
    package fileprivate(set) var begunAt: Instant?
    /// The moment before which the server does not ask.
    package private(set) var dueAt: Instant
    /// The number of questions that the store has not answered.
    package private(set) var faults = 0

    package init(
        _ source: Purchase.Source, _ subject: Subject, in world: AccessWorld?, of project: ProjectID,
        at moment: Instant,
        hash: KeyedHash
    ) {
        self.source = source
        self.subject = subject
        self.world = world
        (toldAt, dueAt) = (moment, moment)
        var packer = Packer()
        subject.pack(into: &packer)
        // This tag differs from all other tags of hashes under this key.
        let tag = 13 << 60 | project.part << 8 | UInt64(world?.rawValue ?? 2) << 4
        id = hash.hash(tag: tag | UInt64(source.rawValue), packer.bytes.span)
    }

    /// The stores whose notifications are only a reason to ask.
    package static let sources: [Purchase.Source] = [.playStore, .stripe]

    /// The time after which a question that has begun counts as lost, for example because the server ended.
    private static let leaseMilliseconds: Int64 = 30_000
    private static let minute: Int64 = 60_000
    private static let longestPause = 8 * minute
    /// The time for which a store that does not answer is asked again. Stores repeat their own calls no longer than this.
    private static let keptMilliseconds: Int64 = 7 * 24 * 60 * minute
    private static let faultsAtMost = 100

    /// Whether the server may ask at a moment. A clock that was set back makes no notice wait.
    func isDue(at now: Instant) -> Bool {
        if now >= toldAt, dueAt.ends(atMost: StoreNotice.longestPause, runningAt: now) { return false }
        return begunAt.map { now < $0 || now.milliseconds - $0.milliseconds >= StoreNotice.leaseMilliseconds } ?? true
    }

    /// The purchase of the subject at Google, in each world. The server asks about a purchase once at a time.
    package func purchases(in project: ProjectID, _ hash: KeyedHash) -> [PurchaseID] {
        switch subject {
        case .purchase(let name), .refund(let name, _):
            (world.map { [$0] } ?? AccessWorld.allCases).map {
                PurchaseID(source, name, in: $0, of: project, hash: hash)
            }
        case .customer, .checkout, .payment: []
        }
    }

    /// Whether the notice has the same place in the queue, and so nobody has told again.
    fileprivate func isAsLast(_ other: StoreNotice) -> Bool { place == other.place }

    /// Takes in a word about the same thing that came while the server asked.
    fileprivate mutating func tellAgain(at now: Instant) {
        (toldAt, dueAt, begunAt, faults) = (now, now, nil, 0)
    }

    /// Puts the next question off after one without an answer; false if the server asks no longer.
    fileprivate mutating func putOff(at now: Instant) -> Bool {
        // A clock that was set ahead gives no notice up: the time has passed, and the questions were asked.
        if now.milliseconds - toldAt.milliseconds >= StoreNotice.keptMilliseconds, faults >= StoreNotice.faultsAtMost {
            return false
        }
        let pause = min(StoreNotice.minute << Int64(min(faults, 9)), StoreNotice.longestPause)
        (begunAt, dueAt) = (nil, now.advanced(byMilliseconds: pause))
        faults = min(faults + 1, StoreNotice.faultsAtMost)
        return true
    }

    // MARK: - The stored form

    fileprivate static func key(_ id: Hash128) -> DocumentKey { DocumentKey(.storeNotice, hash: id) }

    fileprivate var packed: [UInt8] {
        var packer = Packer()
        packer.add(source.rawValue)
        packer.add(world?.rawValue ?? 2)
        subject.pack(into: &packer)
        packer.add(toldAt)
        packer.add(place)
        packer.add(optional: begunAt)
        packer.add(dueAt)
        packer.add(UInt64(faults))
        return packer.bytes
    }

    fileprivate init?(_ id: Hash128, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let source = unpacker.byte().flatMap(Purchase.Source.init), let world = unpacker.byte(), world < 3,
            let subject = Subject(unpacking: &unpacker), let toldAt = unpacker.instant(),
            let place = unpacker.integer(), let begunAt = unpacker.optionalInstant(), let dueAt = unpacker.instant(),
            let faults = unpacker.integer(), faults <= StoreNotice.faultsAtMost, unpacker.isAtEnd
        else { return nil }
        self.id = id
        (self.source, self.world, self.subject) = (source, AccessWorld(rawValue: world), subject)
        (self.toldAt, self.place, self.begunAt, self.dueAt) = (toldAt, place, begunAt, dueAt)
        self.faults = Int(faults)
    }
}

extension StoreNotice.Subject {
    fileprivate func pack(into packer: inout Packer) {
        switch self {
        case .purchase(let name):
            packer.add(1 as UInt8)
            packer.add(name)
        case .refund(let name, let order):
            packer.add(2 as UInt8)
            packer.add(name)
            packer.add(order)
        case .customer(let name):
            packer.add(3 as UInt8)
            packer.add(name)
        case .checkout(let name):
            packer.add(4 as UInt8)
            packer.add(name)
        case .payment(let name, let isTaken):
            packer.add(5 as UInt8)
            packer.add(name)
            packer.add(isTaken)
        }
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let kind = unpacker.byte(), let name = unpacker.text() else { return nil }
        switch kind {
        case 1: self = .purchase(name)
        case 2:
            guard let order = unpacker.text() else { return nil }
            self = .refund(name, order: order)
        case 3: self = .customer(name)
        case 4: self = .checkout(name)
        case 5:
            guard let isTaken = unpacker.bool() else { return nil }
            self = .payment(name, isTaken: isTaken)
        default: return nil
        }
    }
}

/// The places of a queue of notices that may be taken.
private struct NoticeRange: Equatable {
    var first: UInt64 = 0
    var end: UInt64 = 0

    init() {}

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let first = unpacker.integer(), let end = unpacker.integer(), first <= end else { return nil }
        (self.first, self.end) = (first, end)
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(first)
        packer.add(end)
        return packer.bytes
    }

    private static func part(_ project: ProjectID, _ source: Purchase.Source) -> UInt64 {
        project.part << 8 | UInt64(source.rawValue)
    }

    static func key(_ project: ProjectID, _ source: Purchase.Source) -> DocumentKey {
        DocumentKey(.storeNoticeRange, hash: Hash128(high: 0, low: part(project, source)))
    }

    static func key(_ project: ProjectID, _ source: Purchase.Source, _ place: UInt64) -> DocumentKey {
        DocumentKey(.storeNoticePlace, hash: Hash128(high: part(project, source), low: place))
    }
}

/// The changes of a decision to the queues of notices.
struct StoreNoticeQueue<V: DocumentFacts> {
    private let view: V
    private let project: ProjectID
    /// The changed documents. An empty document does not exist.
    private var puts: [DocumentKey: [UInt8]] = [:]
    private var order: [DocumentKey] = []

    init(_ view: V, in project: ProjectID) {
        self.view = view
        self.project = project
    }

    var changes: [Change] {
        order.compactMap { key in
            guard let body = puts[key], body != view.document(key) ?? [] else { return nil }
            return .documentPut(key, .nobody, body)
        }
    }

    func notice(_ id: Hash128) -> StoreNotice? { document(StoreNotice.key(id)).flatMap { StoreNotice(id, packed: $0) } }

    /// Adds a notice. One about the same thing that waits already stands for it. False if the queue is full.
    mutating func add(_ notice: StoreNotice, at now: Instant) -> Bool {
        if var known = self.notice(notice.id) {
            if known.begunAt == nil { return true }
            known.tellAgain(at: now)
            moveToEnd(&known)
            return true
        }
        let range = range(notice.source)
        guard range.end - range.first < UInt64(KeepStoreNotice.waitingAtMost) else { return false }
        var notice = notice
        append(&notice)
        return true
    }

    /// Notes that a question about a notice begins. False if the notice has gone or has another place.
    mutating func begin(_ notice: StoreNotice, at now: Instant) {
        guard var known = self.notice(notice.id), known.isAsLast(notice) else { return }
        known.begunAt = now
        put(StoreNotice.key(known.id), known.packed)
    }

    /// Notes that the store has not answered.
    mutating func putOff(_ notice: StoreNotice, at now: Instant) {
        guard var known = self.notice(notice.id), known.isAsLast(notice) else { return }
        if known.putOff(at: now) { moveToEnd(&known) } else { end(notice) }
    }

    /// Removes a notice about which the store has answered, unless the store has told again since the question.
    mutating func end(_ notice: StoreNotice) {
        guard let known = self.notice(notice.id), known.isAsLast(notice) else { return }
        put(StoreNotice.key(known.id), [])
        free(known)
    }

    private mutating func append(_ notice: inout StoreNotice) {
        var range = range(notice.source)
        notice.place = range.end
        range.end += 1
        var packer = Packer()
        packer.add(notice.id)
        put(NoticeRange.key(project, notice.source, notice.place), packer.bytes)
        put(NoticeRange.key(project, notice.source), range.packed)
        put(StoreNotice.key(notice.id), notice.packed)
    }

    private mutating func moveToEnd(_ notice: inout StoreNotice) {
        let old = notice
        append(&notice)
        free(old)
    }

    /// Frees a place, and moves the start of the queue behind free places.
    private mutating func free(_ notice: StoreNotice) {
        put(NoticeRange.key(project, notice.source, notice.place), [])
        var range = range(notice.source)
        let last = min(range.end, range.first + StoreNoticeQueue.freedAtMost)
        while range.first < last, document(NoticeRange.key(project, notice.source, range.first)) == nil {
            range.first += 1
        }
        put(NoticeRange.key(project, notice.source), range.packed)
    }

    /// The free places that one change passes. Each change frees one place, so the start keeps up.
    private static var freedAtMost: UInt64 { 8 }

    private func range(_ source: Purchase.Source) -> NoticeRange {
        document(NoticeRange.key(project, source)).flatMap(NoticeRange.init(packed:)) ?? NoticeRange()
    }

    private func document(_ key: DocumentKey) -> [UInt8]? {
        let body = puts[key] ?? view.document(key)
        return body.flatMap { $0.isEmpty ? nil : $0 }
    }

    private mutating func put(_ key: DocumentKey, _ body: [UInt8]) {
        if puts.updateValue(body, forKey: key) == nil { order.append(key) }
    }
}

/// The notices of a store about which the server may ask now, the earliest first.
package struct DueNotices: Sendable {
    package private(set) var items: [StoreNotice] = []
    /// The places between the first and the last notice.
    package let waiting: Int

    /// The places that one search reads.
    private static let readAtMost: UInt64 = 256

    /// - Parameters:
    ///   - project: the project of the notices.
    ///   - source: the store.
    ///   - now: the present moment.
    ///   - limit: the greatest number of notices.
    ///   - snapshot: the store's facts.
    ///   - isFree: whether the server does not ask about a notice at the moment.
    package init(
        in project: ProjectID, of source: Purchase.Source, at now: Instant, limit: Int, _ snapshot: any Snapshot,
        where isFree: (StoreNotice) -> Bool
    ) throws(StoreFault) {
        let range =
            try snapshot.document(NoticeRange.key(project, source)).flatMap(NoticeRange.init(packed:)) ?? NoticeRange()
        waiting = Int(clamping: range.end - range.first)
        var place = range.first
        while place < range.end, place - range.first < DueNotices.readAtMost, items.count < limit {
            defer { place += 1 }
            guard let packed = try snapshot.document(NoticeRange.key(project, source, place)),
                let id = Hash128(packed.span), let body = try snapshot.document(StoreNotice.key(id)),
                let notice = StoreNotice(id, packed: body), notice.place == place
            else { continue }
            if notice.isDue(at: now), isFree(notice) { items.append(notice) }
        }
    }
}
