/// Different numbers of columns, each with some values. A set of numbers is a table without values.
///
/// The table has parts, and each part is in the order of its numbers. A part is at least twice as long as the next part, so an insertion
/// rarely copies the long parts. Copies of a table share the parts.
package struct NumberTable: Sendable {
    /// The values of a number that is inserted again.
    package enum Joining: Sendable {
        case lowest
        case sum
    }

    /// Numbers in their order, and the values of all numbers in the same order.
    package struct Part: Sendable {
        package var numbers: [UInt64] = []
        package var values: [Int64] = []
    }

    /// The number of values of each number.
    package let width: Int
    private let joining: Joining
    private var parts: [Part] = []
    /// Single numbers in any order, which are no part yet.
    private var loose = Part()

    private static var looseAtMost: Int { 1024 }

    package init(width: Int = 0, _ joining: Joining = .lowest) { (self.width, self.joining) = (width, joining) }

    // MARK: - Inserting

    /// Inserts different numbers in their order.
    package mutating func insert(sorted numbers: [UInt64], _ values: [Int64] = []) {
        insert(Part(numbers: numbers, values: values))
    }

    /// Inserts numbers in any order. A number may be there several times.
    package mutating func insert(unsorted numbers: [UInt64], _ values: [Int64] = []) {
        insert(part(of: Part(numbers: numbers, values: values)))
    }

    /// Inserts one number.
    package mutating func insert(_ number: UInt64, _ values: [Int64] = []) {
        loose.numbers.append(number)
        loose.values += values
        if loose.numbers.count >= NumberTable.looseAtMost { sortLoose() }
    }

    /// Inserts the numbers of another table.
    package mutating func add(_ other: NumberTable) {
        for part in other.all { insert(part) }
    }

    /// Makes one part of all parts.
    package mutating func settle() {
        if parts.count > 1 || !loose.numbers.isEmpty { (parts, loose) = ([merged], Part()) }
    }

    private mutating func insert(_ part: Part) {
        if part.numbers.isEmpty { return }
        parts.append(part)
        while parts.count > 1, 2 * parts[parts.count - 1].numbers.count > parts[parts.count - 2].numbers.count {
            let last = parts.removeLast()
            parts.append(merged(parts.removeLast(), last))
        }
    }

    private mutating func sortLoose() {
        let part = part(of: loose)
        loose = Part()
        insert(part)
    }

    // MARK: - Reading

    package var isEmpty: Bool { parts.isEmpty && loose.numbers.isEmpty }

    /// The count of the different numbers.
    package var count: Int {
        let all = all
        guard let first = all.first else { return 0 }
        let rest = merged(all.dropFirst())
        return first.numbers.count + rest.numbers.count - NumberTable.common(first.numbers, rest.numbers)
    }

    /// All numbers as one part.
    package var merged: Part { merged(all[...]) }

    /// Some of the numbers after a place. A number can be at several places, because it can be in several parts.
    package func numbers(from place: Int, atMost limit: Int) -> Part {
        var first = place
        for part in all {
            if first < part.numbers.count {
                let places = first..<min(part.numbers.count, first + limit)
                return Part(
                    numbers: Array(part.numbers[places]),
                    values: Array(part.values[places.lowerBound * width..<places.upperBound * width]))
            }
            first -= part.numbers.count
        }
        return Part()
    }

    /// The bytes of the table in memory.
    var byteCount: Int {
        parts.reduce(8 * (loose.numbers.capacity + loose.values.capacity)) { bytes, part in
            bytes + 64 + 8 * (part.numbers.capacity + part.values.capacity)
        }
    }

    private var all: [Part] { loose.numbers.isEmpty ? parts : parts + [part(of: loose)] }

    // MARK: - Parts

    /// The same numbers in their order, each once.
    private func part(of unsorted: Part) -> Part {
        var part = Part()
        if width == 0 {
            for number in unsorted.numbers.sorted() where part.numbers.last != number { part.numbers.append(number) }
            return part
        }
        let numbers = unsorted.numbers
        for index in numbers.indices.sorted(by: { numbers[$0] < numbers[$1] }) {
            if part.numbers.last == numbers[index] {
                for place in 0..<width {
                    let last = part.values.count - width + place
                    part.values[last] = joined(part.values[last], unsorted.values[index * width + place])
                }
            } else {
                part.numbers.append(numbers[index])
                for place in 0..<width { part.values.append(unsorted.values[index * width + place]) }
            }
        }
        return part
    }

    /// The parts as one part. The short parts are merged first, so each number is copied a few times at most.
    private func merged(_ parts: ArraySlice<Part>) -> Part {
        guard var sum = parts.last else { return Part() }
        for part in parts.dropLast().reversed() { sum = merged(part, sum) }
        return sum
    }

    private func merged(_ one: Part, _ other: Part) -> Part {
        var sum = Part()
        sum.numbers.reserveCapacity(one.numbers.count + other.numbers.count)
        sum.values.reserveCapacity(one.values.count + other.values.count)
        var (first, second) = (0, 0)
        while first < one.numbers.count, second < other.numbers.count {
            let (left, right) = (one.numbers[first], other.numbers[second])
            sum.numbers.append(min(left, right))
            for place in 0..<width {
                let value = left <= right ? one.values[first * width + place] : other.values[second * width + place]
                sum.values.append(left == right ? joined(value, other.values[second * width + place]) : value)
            }
            first += left <= right ? 1 : 0
            second += right <= left ? 1 : 0
        }
        sum.numbers += one.numbers[first...]
        sum.values += one.values[(first * width)...]
        sum.numbers += other.numbers[second...]
        sum.values += other.values[(second * width)...]
        return sum
    }

    private func joined(_ one: Int64, _ other: Int64) -> Int64 {
        switch joining {
        case .lowest: min(one, other)
        case .sum: one + other
        }
    }

    /// The count of the numbers that two lists share. It leaps in the first list, which can be much longer.
    private static func common(_ one: [UInt64], _ other: [UInt64]) -> Int {
        var (place, count) = (0, 0)
        for number in other {
            var step = 1
            while place + step < one.count, one[place + step] < number { (place, step) = (place + step, 2 * step) }
            while step > 0 {
                if place + step < one.count, one[place + step] < number { place += step }
                step /= 2
            }
            if place < one.count, one[place] < number { place += 1 }
            if place < one.count, one[place] == number { count += 1 }
        }
        return count
    }
}

extension NumberTable.Part {
    /// The place of a number; nil if the part does not have it.
    func place(of number: UInt64) -> Int? {
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < numbers.count && numbers[low] == number ? low : nil
    }
}
