import Foundation

/// How long simulations and the like run. `make check` runs a sample; `ONYM_SOAK=50` makes it fifty times as much, and has
/// each say what it did. `ONYM_SOAK=0.1` makes it a tenth, but not fewer than three.
package enum Soak {
    private static let environment = ProcessInfo.processInfo.environment

    private static let share = environment["ONYM_SOAK"].flatMap(Double.init) ?? 1

    /// At least one.
    package static let factor = max(1, Int(share))

    private static let wantedSeed = environment["ONYM_SEED"].flatMap(UInt64.init)

    /// A seed by chance, or the one in `ONYM_SEED`.
    package static func anySeed() -> UInt64 { wantedSeed ?? .random(in: 1...1_000_000) }

    /// `count` seeds from 1 on, or the one in `ONYM_SEED`.
    package static func seeds(_ count: Int) -> [UInt64] {
        if let wantedSeed { return [wantedSeed] }
        return Array(1...UInt64(max(Double(min(count, 3)), Double(count) * share)))
    }

    /// The seeds of simulated histories. `make test` has a sample: half as many, and of these each third and all that go on in
    /// PostgreSQL. A run with `ONYM_SOAK` has all.
    package static func histories(_ count: Int) -> [UInt64] {
        if wantedSeed != nil || (share >= 1 && environment["ONYM_SOAK"] != nil) { return seeds(count) }
        return seeds((count + 1) / 2).filter { $0 % 3 == 1 || $0 % 5 == 0 }
    }

    /// Prints what a long run did.
    package static func report(_ text: @autoclosure () -> String) {
        if share >= 1, environment["ONYM_SOAK"] != nil { print("soak: \(text())") }
    }
}
