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

/// Lives a life, which fails too if it leaves its server in memory.
func live(
    _ history: History, until: Int? = nil, keepsTrace: Bool = false
) -> (result: History.Result, failure: History.Failure?) {
    let before = onym_memory_in_use()
    let result = history.run(until: until, keepsTrace: keepsTrace)
    let left = onym_memory_in_use() - before
    guard result.failure == nil, left > 1 << 20 else { return (result, result.failure) }
    let message = "\(left >> 10) KiB are left after the life"
    return (result, History.Failure(oracle: "memory", step: history.steps.count, message: message))
}

@MainActor func report(_ history: History, _ failure: History.Failure) {
    print("seed 0x\(String(history.seed, radix: 16)) failed: \(failure)")
    guard shrinks else { return }
    let (short, why, tries) = history.shrunk(failure) { live($0).failure }
    print("shrunk to \(short.steps.count) steps (\(short.steps.count { $0.isCall }) calls) in \(tries) lives: \(why)")
    print(short.asTest)
}

// A life with a large user and one without make what all lives share. All others should leave nothing in memory behind.
for seed: UInt64 in 1...2 { _ = History(seed: seed).run() }

if let seed {
    let history = History(seed: seed)
    let (result, failure) = live(history, until: until, keepsTrace: tells)
    for line in result.trace.lines { print(line) }
    print("trace 0x\(String(result.trace.hash, radix: 16)), \(result.calls) calls")
    if let failure {
        report(history, failure)
        exit(1)
    }
} else {
    let start = Date()
    var (lived, calls, coverage) = (UInt64(0), 0, Coverage())
    let memory = onym_memory_in_use()
    while lived < histories, Date().timeIntervalSince(start) < Double(seconds) {
        let history = History(seed: first + lived)
        let (result, failure) = live(history)
        lived += 1
        calls += result.calls
        coverage.add(result.coverage)
        if let failure {
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
    let left = onym_memory_in_use() - memory
    print("they left \(left >> 10) KiB in memory")
    if left > 1 << 20 + Int(lived) << 14 { exit(1) }
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
