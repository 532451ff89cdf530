import Domain

/// Finds calls that only repeat a call of the log, so that the log need not have them (docs/decisions/0037).
///
/// Identities that one call named, and people that a call found or changed, belong to one *naming component*. A call that equals
/// the last call of its component changes nothing under any rules, except under those that ``RepeatNote`` names. The components
/// are kept in a table of buckets: two names in one bucket only make a component larger, so that more calls are kept.
struct CallRepeats: Sendable {
    /// For each bucket, the bucket above it plus one; 0 for the root of a component.
    private var parents: [UInt32]
    /// For each root, the number of the last call of the component.
    private var touched: [UInt32]
    /// The contents of the last calls, each at a place of its own, and their numbers. A later call takes the place of an earlier one,
    /// which the log then keeps once more. Empty until the first call.
    private var contents: [UInt64] = []
    private var numbers: [UInt32] = []
    private var number: UInt32 = 0

    /// Whether the components have all calls of the log. Before, each call is kept.
    var isComplete = false

    /// The greatest number of remembered calls, a power of two.
    private static let remembered = 1 << 18

    /// - Parameter buckets: a power of two. A bucket has eight bytes.
    init(buckets: Int) {
        parents = Array(repeating: 0, count: buckets)
        touched = Array(repeating: 0, count: buckets)
    }

    private mutating func root(_ name: UInt64) -> Int {
        // The names are hashes or ids, and the ids of one time are close to each other.
        var place = Int(truncatingIfNeeded: (name &* 0x9E37_79B9_7F4A_7C15) >> 20) & (parents.count - 1)
        while parents[place] != 0 {
            let above = Int(parents[place]) - 1
            if parents[above] != 0 { parents[place] = parents[above] }
            place = above
        }
        return place
    }

    /// Puts names into one component, and returns its root.
    private mutating func join(_ names: [UInt64]) -> Int? {
        guard let first = names.first else { return nil }
        var whole = root(first)
        for name in names.dropFirst() {
            let other = root(name)
            if other == whole { continue }
            // The root with the later call stays, so that no remembered call of the other component looks like the last one.
            let (up, down) = touched[whole] >= touched[other] ? (whole, other) : (other, whole)
            parents[down] = UInt32(up) + 1
            whole = up
        }
        return whole
    }

    /// Notes a call that the log or the journal has.
    mutating func note(_ names: [UInt64], content: UInt64? = nil) {
        guard let root = join(names) else { return }
        if number == .max {
            number = 0
            touched = Array(repeating: 0, count: touched.count)
            forget()
        }
        number += 1
        touched[root] = number
        guard let content else { return }
        if contents.isEmpty {
            contents = Array(repeating: 0, count: CallRepeats.remembered)
            numbers = Array(repeating: 0, count: CallRepeats.remembered)
        }
        let place = CallRepeats.place(of: content)
        (contents[place], numbers[place]) = (content, number)
    }

    /// The place of a content, which is a hash.
    private static func place(of content: UInt64) -> Int { Int(truncatingIfNeeded: content) & (remembered - 1) }

    /// The number of the last call with a content; nil if no such call is remembered.
    private func lastCall(_ content: UInt64) -> UInt32? {
        if contents.isEmpty { return nil }
        let place = CallRepeats.place(of: content)
        return contents[place] == content && numbers[place] != 0 ? numbers[place] : nil
    }

    /// Puts the names of an earlier call into one component.
    mutating func learn(_ names: [UInt64]) { _ = join(names) }

    /// Whether a call equals the last call of its component.
    mutating func isRepeat(_ names: [UInt64], content: UInt64) -> Bool {
        guard isComplete, let known = lastCall(content), let first = names.first else { return false }
        let whole = root(first)
        return touched[whole] == known && names.dropFirst().allSatisfy { root($0) == whole }
    }

    /// Forgets all remembered calls, because the log may have lost some of them.
    mutating func forget() { (contents, numbers) = ([], []) }
}
