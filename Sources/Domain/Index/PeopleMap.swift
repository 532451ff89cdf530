/// A value for each of many people. It is cut into shards that grow on their own, so that growing holds nobody up for long:
/// a shard is a 256th of the whole.
package struct PeopleMap<Value> {
    private var shards = [[PersonID: Value]](repeating: [:], count: shardCount)
    /// Where something was taken last: there is mostly more.
    private var taking = 0
    package private(set) var count = 0

    private static var shardCount: Int { 256 }

    package init() {}

    package var isEmpty: Bool { count == 0 }

    package subscript(person: PersonID) -> Value? {
        get { shards[PeopleMap.shard(of: person)][person] }
        set {
            let shard = PeopleMap.shard(of: person)
            let before = shards[shard].count
            shards[shard][person] = newValue
            count += shards[shard].count - before
        }
    }

    /// Takes out one of them, whichever is at hand.
    package mutating func popFirst() -> (person: PersonID, value: Value)? {
        if isEmpty { return nil }
        while shards[taking].isEmpty { taking = (taking + 1) % PeopleMap.shardCount }
        count -= 1
        return shards[taking].popFirst().map { ($0.key, $0.value) }
    }

    private static func shard(of person: PersonID) -> Int {
        Int(SlotTable.spread(person.rawValue) % UInt64(shardCount))
    }
}

extension PeopleMap: Sendable where Value: Sendable {}
