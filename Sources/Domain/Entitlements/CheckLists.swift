/// The place of a purchase in the lists of due checks. Each store has several lists for each minute: so each list stays short,
/// and a search for purchases of one store reads no others.
package struct CheckPlace: Hashable, Sendable {
    let minute: Int64
    fileprivate let slot: Int

    fileprivate static let slots = 16
    private static let slotsOfSource = slots / Purchase.Source.allCases.count

    init(_ purchase: PurchaseID, of source: Purchase.Source, at moment: Instant) {
        let part = Int(purchase.hash.high % UInt64(CheckPlace.slotsOfSource))
        self.init(
            minute: CheckPlace.minute(of: moment), slot: Int(source.rawValue - 1) * CheckPlace.slotsOfSource + part)
    }

    fileprivate init(minute: Int64, slot: Int) {
        self.minute = minute
        self.slot = slot
    }

    /// The store of the purchases in the list.
    package var source: Purchase.Source? { Purchase.Source(rawValue: UInt8(slot / CheckPlace.slotsOfSource + 1)) }

    static func minute(of moment: Instant) -> Int64 { moment.milliseconds / 60_000 }

    fileprivate var hour: Int64 { minute / 60 }

    /// The number of the list, in the order of the lists' moments.
    fileprivate var number: Int64 { minute * Int64(CheckPlace.slots) + Int64(slot) }

    /// The number of lists of an hour.
    fileprivate static var countInHour: Int64 { 60 * Int64(slots) }

    /// The number of the first list at a moment.
    fileprivate static func number(at moment: Instant) -> Int64 { minute(of: moment) * Int64(slots) }

    fileprivate func key(in project: ProjectID) -> DocumentKey {
        DocumentKey(.checkList, hash: Hash128(high: project.part << 8 | UInt64(slot), low: UInt64(bitPattern: minute)))
    }
}

/// The lists of one hour that have purchases: a bit for each.
private struct CheckHour: Equatable {
    private(set) var bits = [UInt8](repeating: 0, count: 60 * CheckPlace.slots / 8)

    init() {}

    init?(packed: [UInt8]) {
        guard packed.count == bits.count else { return nil }
        bits = packed
    }

    var packed: [UInt8] { isEmpty ? [] : bits }
    var isEmpty: Bool { !bits.contains { $0 != 0 } }

    private static func bit(_ place: CheckPlace) -> Int { Int(place.minute % 60) * CheckPlace.slots + place.slot }

    mutating func set(_ place: CheckPlace, _ isFilled: Bool) {
        let bit = CheckHour.bit(place)
        let mask: UInt8 = 1 << UInt8(bit % 8)
        if isFilled { bits[bit / 8] |= mask } else { bits[bit / 8] &= ~mask }
    }

    /// The lists with purchases, the earliest first.
    func places(of hour: Int64) -> [CheckPlace] {
        (0..<bits.count * 8).filter { bits[$0 / 8] & 1 << UInt8($0 % 8) != 0 }.map { bit in
            CheckPlace(minute: hour * 60 + Int64(bit / CheckPlace.slots), slot: bit % CheckPlace.slots)
        }
    }

    static func key(_ hour: Int64, in project: ProjectID) -> DocumentKey {
        DocumentKey(.checkHour, hash: Hash128(high: project.part, low: UInt64(bitPattern: hour)))
    }
}

extension ProjectID {
    /// The project as a part of a hash.
    var part: UInt64 { UInt64(UInt32(bitPattern: rawValue)) }
}

extension DocumentKey {
    fileprivate static func checkStart(of project: ProjectID) -> DocumentKey {
        DocumentKey(.checkStart, of: Int64(project.rawValue))
    }
}

/// The changed lists of a decision.
struct CheckLists {
    private var lists: [DocumentKey: [Hash128]] = [:]
    private var hours: [DocumentKey: CheckHour] = [:]
    private var starts: [DocumentKey: Int64] = [:]

    /// Moves a purchase from the list of one moment to the list of another one.
    mutating func move<V: DocumentFacts>(
        _ purchase: PurchaseID, of source: Purchase.Source, from before: Instant?, to after: Instant?,
        in project: ProjectID, _ view: V
    ) {
        if let before { remove(purchase, from: CheckPlace(purchase, of: source, at: before), in: project, view) }
        guard let after else { return }
        let place = CheckPlace(purchase, of: source, at: after)
        var list = list(place.key(in: project), view)
        if !list.contains(purchase.hash) { list.append(purchase.hash) }
        put(list, place, in: project, view)
        let start = DocumentKey.checkStart(of: project)
        if (starts[start] ?? view.document(start).flatMap(CheckLists.hour)).map({ place.hour < $0 }) ?? true {
            starts[start] = place.hour
        }
    }

    mutating func remove<V: DocumentFacts>(
        _ purchase: PurchaseID, from place: CheckPlace, in project: ProjectID, _ view: V
    ) {
        put(list(place.key(in: project), view).filter { $0 != purchase.hash }, place, in: project, view)
    }

    private mutating func put<V: DocumentFacts>(
        _ list: [Hash128], _ place: CheckPlace, in project: ProjectID, _ view: V
    ) {
        lists[place.key(in: project)] = list
        let key = CheckHour.key(place.hour, in: project)
        var hour = hours[key] ?? view.document(key).flatMap(CheckHour.init(packed:)) ?? CheckHour()
        hour.set(place, !list.isEmpty)
        hours[key] = hour
    }

    /// Moves the first hour that may have due checks.
    mutating func begin<V: DocumentFacts>(at hour: Int64, in project: ProjectID, _ view: V) {
        let start = DocumentKey.checkStart(of: project)
        guard starts[start] == nil, let known = view.document(start).flatMap(CheckLists.hour), known < hour else {
            return
        }
        starts[start] = hour
    }

    private func list<V: DocumentFacts>(_ key: DocumentKey, _ view: V) -> [Hash128] {
        lists[key] ?? view.document(key).flatMap(CheckLists.hashes) ?? []
    }

    /// The documents of the lists. An empty document stands for a list without purchases.
    var puts: [Change] {
        func put(_ key: DocumentKey, _ body: [UInt8]) -> Change { .documentPut(key, PersonID(rawValue: 0), body) }
        func isBefore(_ one: DocumentKey, _ other: DocumentKey) -> Bool {
            (one.hash.high, one.hash.low) < (other.hash.high, other.hash.low)
        }
        return lists.sorted { isBefore($0.key, $1.key) }.map {
            put($0.key, $0.value.isEmpty ? [] : CheckLists.packed($0.value))
        }
            + hours.sorted { isBefore($0.key, $1.key) }.map { put($0.key, $0.value.packed) }
            + starts.sorted { isBefore($0.key, $1.key) }.map { put($0.key, CheckLists.packed($0.value)) }
    }

    private static func packed(_ list: [Hash128]) -> [UInt8] {
        var packer = Packer()
        packer.add(hashes: list)
        return packer.bytes
    }

    private static func packed(_ hour: Int64) -> [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: hour))
        return packer.bytes
    }

    static func hashes(_ packed: [UInt8]) -> [Hash128]? {
        var unpacker = Unpacker(packed)
        return unpacker.hashes()
    }

    fileprivate static func hour(_ packed: [UInt8]) -> Int64? {
        var unpacker = Unpacker(packed)
        return unpacker.integer().map { Int64(bitPattern: $0) }
    }
}

/// The purchases whose checks are due.
package struct DueChecks: Sendable {
    /// One entry of a list. The purchase is nil if the entry is out of date, so that the list must forget it.
    package struct Item: Sendable {
        package let id: PurchaseID
        package let place: CheckPlace
        package let purchase: Purchase?
    }

    package private(set) var items: [Item] = []
    /// The hour before which no list has an entry; nil if that is known already.
    package private(set) var emptyBefore: Int64?

    private static let hoursAtMost = 2000

    /// The lists of the last minutes may still grow: calls that have begun may be decided a little later.
    private static let lateMilliseconds: Int64 = 120_000

    /// Reads the checks that are due, for each store the earliest first; nil if the project has none.
    ///
    /// - Parameters:
    ///   - project: the project of the purchases.
    ///   - now: the present moment.
    ///   - busy: purchases about which the server asks at the moment.
    ///   - limits: the greatest number of purchases of each store. The search leaves out all other stores.
    ///   - snapshot: the store's facts.
    package init?(
        in project: ProjectID, at now: Instant, except busy: Set<PurchaseID>, limits: [Purchase.Source: Int],
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let start = try snapshot.document(.checkStart(of: project)).flatMap(CheckLists.hour) else { return nil }
        let minute = CheckPlace.minute(of: now)
        let settled = CheckPlace.minute(of: now.advanced(byMilliseconds: -DueChecks.lateMilliseconds)) / 60
        var (hour, isEmpty, left) = (start, true, limits.filter { $0.value > 0 })
        while hour <= minute / 60, hour - start < DueChecks.hoursAtMost, !left.isEmpty {
            let filled = try snapshot.document(CheckHour.key(hour, in: project)).flatMap(CheckHour.init(packed:))
            for place in filled?.places(of: hour) ?? [] {
                isEmpty = false
                guard place.minute <= minute, !left.isEmpty else { break }
                guard let source = place.source, let limit = left[source] else { continue }
                let before = items.count
                let list = try snapshot.document(place.key(in: project)).flatMap(CheckLists.hashes) ?? []
                for id in list.lazy.map(PurchaseID.init) where !busy.contains(id) && items.count - before < limit {
                    try take(id, at: place, now, snapshot)
                }
                left[source] = items.count - before < limit ? limit - (items.count - before) : nil
            }
            hour += 1
            if isEmpty, hour <= settled { emptyBefore = hour }
        }
    }

    private mutating func take(
        _ id: PurchaseID, at place: CheckPlace, _ now: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let purchase = try snapshot.purchase(id)
        guard let purchase, let dueAt = purchase.check?.dueAt, CheckPlace.minute(of: dueAt) == place.minute else {
            items.append(Item(id: id, place: place, purchase: nil))
            return
        }
        // The list is of the whole minute.
        if dueAt <= now { items.append(Item(id: id, place: place, purchase: purchase)) }
    }
}

/// The purchases whose next question may have been planned while the clock was ahead (spec/entitlements-live.md 9). They are in the
/// lists from the present moment to a day after the latest moment of the journal, because no other pause is longer.
package struct PlannedAhead: Sendable {
    package private(set) var purchases: [PurchaseID] = []
    package private(set) var walk: CheckWalk

    private static let purchasesAtMost = 500
    private static let hoursAtMost: Int64 = 1000

    /// Reads the next part of these purchases; nil if all of them have been planned again.
    ///
    /// - Parameters:
    ///   - project: the project of the purchases.
    ///   - now: the present moment.
    ///   - latest: the latest moment of the journal, which the clock has not reached again.
    ///   - snapshot: the store's facts.
    package init?(
        in project: ProjectID, at now: Instant, latest: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let known = try snapshot.document(CheckWalk.key(of: project)).flatMap(CheckWalk.init(packed:))
        walk = known.flatMap { $0.latest == latest ? $0 : nil } ?? CheckWalk(latest: latest, at: now)
        guard !walk.isDone else { return nil }
        let first = walk.next / CheckPlace.countInHour
        let last = CheckPlace.minute(of: latest.advanced(byMilliseconds: CheckWalk.pauseAtMost)) / 60
        var hour = first
        while hour <= last, hour - first < PlannedAhead.hoursAtMost {
            let filled = try snapshot.document(CheckHour.key(hour, in: project)).flatMap(CheckHour.init(packed:))
            for place in filled?.places(of: hour) ?? [] where place.number >= walk.next {
                if purchases.count >= PlannedAhead.purchasesAtMost { return }
                let list = try snapshot.document(place.key(in: project)).flatMap(CheckLists.hashes) ?? []
                purchases += list.map(PurchaseID.init)
                walk.next = place.number + 1
            }
            hour += 1
            walk.next = max(walk.next, hour * CheckPlace.countInHour)
        }
        walk.isDone = hour > last
    }
}

/// The progress of planning questions again.
package struct CheckWalk: Equatable, Sendable {
    /// The latest moment of the journal, for which the lists are walked once.
    package let latest: Instant
    /// The number of the next list.
    package fileprivate(set) var next: Int64
    package fileprivate(set) var isDone = false

    /// The longest pause between two questions about a purchase that has ended.
    fileprivate static let pauseAtMost: Int64 = 25 * 3_600_000

    fileprivate init(latest: Instant, at now: Instant) {
        self.latest = latest
        next = CheckPlace.number(at: now)
    }

    static func key(of project: ProjectID) -> DocumentKey { DocumentKey(.checkWalk, of: Int64(project.rawValue)) }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(latest)
        packer.add(UInt64(bitPattern: next))
        packer.add(isDone)
        return packer.bytes
    }

    fileprivate init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let latest = unpacker.instant(), let next = unpacker.integer(), let isDone = unpacker.bool() else {
            return nil
        }
        (self.latest, self.next, self.isDone) = (latest, Int64(bitPattern: next), isDone)
    }
}
