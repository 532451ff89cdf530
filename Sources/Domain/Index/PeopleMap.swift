/// A value for each of many people. The map has 256 shards that grow separately, so growth is never slow.
package struct PeopleMap<Value> {
    private var shards = [[PersonID: Value]](repeating: [:], count: shardCount)
    /// The shard of the last removal. It probably has more values.
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

    /// Removes any one person and returns it with its value.
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
