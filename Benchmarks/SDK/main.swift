import Foundation
import Onym

// What the SDK costs an app: the bytes that it adds, its start, `log` on the caller's thread, and a queue that drains. Beside each
// figure is its bound, whether it is met, and the figure from before the SDK was changed for it.
//
//     bench-sdk [SHARE]    SHARE of the events, such as 0.02, to see that it works: then no bound is judged

let share = CommandLine.arguments.dropFirst().first.flatMap(Double.init) ?? 1
guard share > 0, share <= 1 else { fatalError("usage: bench-sdk [SHARE], with a share of at most 1") }

/// A part of the events.
func part(_ count: Int) -> Int { max(1, Int(Double(count) * share)) }

/// A figure beside its bound; the middle one of several rounds counts.
func report(_ what: String, _ rounds: [Double], _ unit: String, bound: Double, before: String? = nil) {
    let middle = rounds.sorted()[rounds.count / 2]
    let all = rounds.count == 1 ? "" : " (" + rounds.map { String(format: "%.2f", $0) }.joined(separator: ", ") + ")"
    let verdict = share < 1 ? "not judged" : middle <= bound ? "met" : "missed"
    let past = before.map { "; before \($0)" } ?? ""
    print(String(format: "%@: %.2f %@%@, bound %g %@: %@%@", what, middle, unit, all, bound, unit, verdict, past))
}

func milliseconds(_ duration: Duration) -> Double { duration / .milliseconds(1) }

/// The bytes that the SDK adds to an app: two programs that differ in the SDK alone, without symbols.
func addedBytes() throws -> Int {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    func run(_ words: String...) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = words
        process.currentDirectoryURL = root
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    let place = URL(filePath: try run("swift", "build", "-c", "release", "--show-bin-path"))
    let copies = newFolder()
    try FileManager.default.createDirectory(at: copies, withIntermediateDirectories: true)
    let sizes = try ["size-with", "size-without"].map { name in
        _ = try run("swift", "build", "-c", "release", "--product", name)
        let copy = copies.appending(path: name).path
        _ = try run("strip", "-o", copy, place.appending(path: name).path)
        return try FileManager.default.attributesOfItem(atPath: copy)[.size] as? Int ?? 0
    }
    return sizes[0] - sizes[1]
}

/// A server that takes everything at once.
struct Taking: Transport {
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void {
        let isEvents = request.url.path.hasSuffix("/ingest")
        let body = isEvents ? #"{"accepted":1,"rejected":0}"# : "{}"
        let answer = HTTPAnswer(status: 200, fields: ["X-Request-Id": "r"], body: Array(body.utf8))
        Task.detached { completion(.success(answer)) }
        return {}
    }
}

/// A server that never answers.
struct Silent: Transport {
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void {
        {}
    }
}

func memory() -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
    return Int(line?.filter(\.isNumber) ?? "") ?? 0
}

func newFolder() -> URL { FileManager.default.temporaryDirectory.appending(path: "onym-bench-\(UUID().uuidString)") }

func open(_ folder: URL = newFolder(), _ change: (inout Configuration) -> Void = { _ in }) throws -> OnymClient {
    guard let endpoint = URL(string: "http://127.0.0.1:1") else { fatalError() }
    var configuration = Configuration(
        endpoint: endpoint, key: .claim(key: "owl_client_k", bundleID: "b"), folder: folder)
    configuration.transport = Taking()
    configuration.flushInterval = 1000
    change(&configuration)
    return try OnymClient(configuration)
}

for round in 1...3 {
    let onym = try open()
    let clock = ContinuousClock()
    var times: [Duration] = []
    // Fewer than would be sent at once: what is measured is `log` alone.
    for batch in 0..<part(500) {
        for number in 0..<19 {
            let name = "event \(batch) \(number)"
            let start = clock.now
            onym.log(name, ["screen": "Home", "count": 3, "price": 9.99])
            times.append(clock.now - start)
        }
        try await onym.flush()
    }
    times.sort()
    func microseconds(_ duration: Duration) -> String {
        String(format: "%.2f µs", Double(duration.components.attoseconds) / 1e12)
    }
    print(
        "log, round \(round): median \(microseconds(times[times.count / 2])), p99 \(microseconds(times[times.count * 99 / 100]))"
    )
}

var overs: [Double] = []
for _ in 1...3 {
    let full = try open { configuration in
        configuration.transport = Silent()
        configuration.eventLimit = 1000
    }
    for number in 0..<1000 { full.log("event \(number)", ["number": .integer(Int64(number))]) }
    let start = ContinuousClock().now
    let count = part(10_000)
    for number in 0..<count { full.log("event \(number)", ["number": .integer(Int64(number))]) }
    overs.append((ContinuousClock().now - start) / .microseconds(1) / Double(count))
    full.close()
}
report("an event over the limit", overs, "µs", bound: 25, before: "98 µs")

var starts: [Double] = []
for _ in 1...3 {
    let folder = newFolder()
    let waiting = try open(folder) { $0.transport = Silent() }
    for number in 0..<part(10_000) { waiting.log("event \(number)", ["number": .integer(Int64(number))]) }
    waiting.close()
    let start = ContinuousClock().now
    let started = try open(folder) { $0.transport = Silent() }
    starts.append(milliseconds(ContinuousClock().now - start))
    started.close()
}
report("a start with \(part(10_000)) events waiting", starts, "ms", bound: 20, before: "108 ms")

let onym = try open()
let before = memory()
for round in 1...5 {
    let start = ContinuousClock().now
    for number in 0..<part(10_000) { onym.log("event \(round) \(number)", ["number": .integer(Int64(number))]) }
    try await onym.flush()
    print(
        "\(part(10_000)) events logged and drained, round \(round): \(ContinuousClock().now - start), \(memory() - before) KB more memory"
    )
}

var drains: [Double] = []
for round in 1...3 {
    let draining = try open { $0.flushInterval = 0.001 }
    let clock = ContinuousClock()
    var times: [Duration] = []
    // Fewer than there is room for: nothing is dropped.
    for number in 0..<part(9_000) {
        let start = clock.now
        draining.log("event \(round) \(number)", ["number": .integer(Int64(number))])
        times.append(clock.now - start)
    }
    try await draining.flush()
    draining.close()
    times.sort()
    drains.append(milliseconds(times[times.count * 999 / 1000]))
}
// A machine that is busy adds its own waits of milliseconds: `chrt -r 20 bench-sdk` runs ahead of them.
report("log while draining, p99.9", drains, "ms", bound: 1, before: "0.8 ms")

report("added size", [Double(try addedBytes()) / 1_000_000], "MB", bound: 1.3, before: "1.04 MB")
