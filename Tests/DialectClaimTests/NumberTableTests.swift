import DialectClaim
import TestKit
import Testing

/// Tables of numbers, beside dictionaries.
@Suite("Tables of numbers")
struct NumberTableTests {
    /// The numbers of a table with their values.
    private func content(_ table: NumberTable) -> [UInt64: [Int64]] {
        let merged = table.merged
        #expect(merged.numbers == Set(merged.numbers).sorted(), "the numbers are different, and in their order")
        #expect(merged.values.count == merged.numbers.count * table.width)
        return Dictionary(
            uniqueKeysWithValues: merged.numbers.enumerated().map { place, number in
                (number, Array(merged.values[place * table.width..<(place + 1) * table.width]))
            })
    }

    /// The numbers in all parts of a table, which its slices show.
    private func slices(_ table: NumberTable, atMost limit: Int) -> [UInt64] {
        var found: [UInt64] = []
        while true {
            let part = table.numbers(from: found.count, atMost: limit)
            #expect(part.numbers.count <= limit && part.values.count == part.numbers.count * table.width)
            if part.numbers.isEmpty { return found }
            found += part.numbers
        }
    }

    @Test("a table has what a dictionary has, in whatever way numbers come", arguments: 0..<3, Soak.seeds(4))
    func tables(_ width: Int, _ seed: UInt64) {
        var generator = SeededGenerator(seed: seed &* 7919)
        for joining in [NumberTable.Joining.lowest, .sum] {
            var tables = (0..<3).map { _ in NumberTable(width: width, joining) }
            var models = tables.map { _ in [UInt64: [Int64]]() }
            func join(_ numbers: [UInt64], _ values: [Int64], _ model: inout [UInt64: [Int64]]) {
                for (place, number) in numbers.enumerated() {
                    let new = Array(values[place * width..<(place + 1) * width])
                    model[number] =
                        model[number].map { known in
                            zip(known, new).map { joining == .sum ? $0 + $1 : min($0, $1) }
                        } ?? new
                }
            }
            for _ in 0..<60 {
                let target = Int.random(in: 0..<3, using: &generator)
                let numbers = (0..<Int.random(in: 0..<[3, 40, 3000][target], using: &generator)).map { _ in
                    UInt64.random(in: 0..<(generator.oneIn(2) ? 100 : 9000), using: &generator)
                }
                let values = (0..<numbers.count * width).map { _ in Int64.random(in: -9..<9, using: &generator) }
                switch Int.random(in: 0..<4, using: &generator) {
                case 0:
                    for (place, number) in numbers.enumerated() {
                        tables[target].insert(number, Array(values[place * width..<(place + 1) * width]))
                    }
                    join(numbers, values, &models[target])
                case 1:
                    let sorted = Set(numbers).sorted()
                    tables[target].insert(sorted: sorted, Array(values.prefix(sorted.count * width)))
                    join(sorted, values, &models[target])
                case 2:
                    let other = tables[(target + 1) % 3]
                    tables[target].add(other)
                    let known = models[(target + 1) % 3]
                    join(Array(known.keys), known.values.flatMap(\.self), &models[target])
                    if generator.oneIn(3) { tables[target].settle() }
                default:
                    tables[target].insert(unsorted: numbers, values)
                    join(numbers, values, &models[target])
                }
                #expect(tables[target].count == models[target].count, "seed \(seed)")
                #expect(tables[target].isEmpty == models[target].isEmpty)
            }
            for (table, model) in zip(tables, models) {
                #expect(content(table) == model, "seed \(seed), \(joining)")
                #expect(Set(slices(table, atMost: 700)) == Set(model.keys))
            }
        }
    }
}
