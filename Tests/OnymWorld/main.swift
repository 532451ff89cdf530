import CFaultyDisk
import Foundation
import OneSeed

// onym-world [--seed N] [--until STEP] [--trace] [--shrink] [--histories N] [--seconds N] [--coverage]
//
// Lives histories of a server, each from one number. One seed is lived with --seed; without it, as many as --histories says, or as the
// seconds allow. --coverage prints how often each deed met each fault, and lives further lives until each has met all. The exit code is 1
// if a life failed, if lives left memory behind, or if a deed has not met a fault; and 2 for wrong usage.

var arguments = CommandLine.arguments.dropFirst()

@MainActor func value(_ name: String) -> UInt64? {
    guard let place = arguments.firstIndex(of: name) else { return nil }
    guard place + 1 < arguments.endIndex else { usage() }
    let text = arguments[place + 1]
    let number = text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : UInt64(text)
    guard let number else { usage() }
    arguments.removeSubrange(place...place + 1)
    return number
}

@MainActor func has(_ name: String) -> Bool {
    guard let place = arguments.firstIndex(of: name) else { return false }
    arguments.remove(at: place)
    return true
}

func usage() -> Never {
    print(
        "onym-world [--seed N] [--until STEP] [--trace] [--shrink] [--from N] [--histories N] [--seconds N] [--coverage]"
    )
    exit(2)
}

let seed = value("--seed")
let until = value("--until").map(Int.init)
let first = value("--from") ?? 1
let histories = value("--histories") ?? 1000
let seconds = value("--seconds") ?? 3600
let (tells, shrinks, covers) = (has("--trace"), has("--shrink"), has("--coverage"))
if !arguments.isEmpty { usage() }

@MainActor func report(_ history: History, _ failure: History.Failure) {
    print("seed 0x\(String(history.seed, radix: 16)) failed: \(failure)")
    guard shrinks else { return }
    let (short, why, tries) = history.shrunk(failure)
    print("shrunk to \(short.steps.count) steps (\(short.steps.count { $0.isCall }) calls) in \(tries) lives: \(why)")
    print(short.asTest)
}

if let seed {
    let history = History(seed: seed)
    let result = history.run(until: until, keepsTrace: tells)
    for line in result.trace.lines { print(line) }
    print("trace 0x\(String(result.trace.hash, radix: 16)), \(result.calls) calls")
    if let failure = result.failure {
        report(history, failure)
        exit(1)
    }
} else {
    let start = Date()
    var (lived, calls, coverage) = (UInt64(0), 0, Coverage())
    // The first lives make what all lives share. The others should leave nothing in memory behind.
    let firstLives: UInt64 = 20
    let lifeLeaves = 1 << 20
    var memory = 0
    while lived < histories, Date().timeIntervalSince(start) < Double(seconds) {
        let history = History(seed: first + lived)
        let before = onym_memory_in_use()
        let result = history.run()
        let left = onym_memory_in_use() - before
        lived += 1
        if lived > firstLives, left > lifeLeaves {
            print("seed 0x\(String(history.seed, radix: 16)) left \(left >> 10) KiB in memory")
        }
        if lived == firstLives { memory = onym_memory_in_use() }
        calls += result.calls
        coverage.add(result.coverage)
        if let failure = result.failure {
            print(
                "after \(lived) histories and \(calls) calls in \(String(format: "%.1f", Date().timeIntervalSince(start))) s:"
            )
            report(history, failure)
            exit(1)
        }
    }
    let took = Date().timeIntervalSince(start)
    print(
        "\(lived) histories, \(calls) calls, \(String(format: "%.1f", took)) s, \(Int(Double(calls) / took)) calls a second: no failure"
    )
    if lived > firstLives {
        let left = onym_memory_in_use() - memory
        print("\(lived - firstLives) histories left \(left >> 10) KiB in memory")
        // A life whose machine dies in the middle of a call may leave the whole server behind. What every life leaves is a leak.
        if left > 1 << 24 + Int(lived - firstLives) << 18 { exit(1) }
    }
    if covers {
        for (number, deed) in Deed.allCases.enumerated() {
            guard let (history, failure) = coverage.fill(deed, from: 1_000_000 + UInt64(number) * 1000) else {
                continue
            }
            report(history, failure)
            exit(1)
        }
        print(coverage.table + "\n" + coverage.statuses)
        for gap in coverage.gaps { print(gap) }
        if !coverage.gaps.isEmpty { exit(1) }
    }
}
