import Foundation
import Onym

// What the SDK costs an app: `log` on the caller's thread, and a queue that drains. Beside each figure is the wanted one, and the
// one from before the SDK was changed for it.

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
    for batch in 0..<500 {
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

for round in 1...3 {
    let full = try open { configuration in
        configuration.transport = Silent()
        configuration.eventLimit = 1000
    }
    for number in 0..<1000 { full.log("event \(number)", ["number": .integer(Int64(number))]) }
    let start = ContinuousClock().now
    for number in 0..<10_000 { full.log("event \(number)", ["number": .integer(Int64(number))]) }
    print(
        "an event over the limit, round \(round): \((ContinuousClock().now - start) / 10_000) (wanted 25 µs, before 98 µs)"
    )
    full.close()
}

for round in 1...3 {
    let folder = newFolder()
    let waiting = try open(folder) { $0.transport = Silent() }
    for number in 0..<10_000 { waiting.log("event \(number)", ["number": .integer(Int64(number))]) }
    waiting.close()
    let start = ContinuousClock().now
    let started = try open(folder) { $0.transport = Silent() }
    print("a start with 10,000 waiting, round \(round): \(ContinuousClock().now - start) (wanted 20 ms, before 108 ms)")
    started.close()
}

let onym = try open()
let before = memory()
for round in 1...5 {
    let start = ContinuousClock().now
    for number in 0..<10_000 { onym.log("event \(round) \(number)", ["number": .integer(Int64(number))]) }
    try await onym.flush()
    print(
        "10,000 events logged and drained, round \(round): \(ContinuousClock().now - start), \(memory() - before) KB more memory"
    )
}

for round in 1...3 {
    let draining = try open { $0.flushInterval = 0.001 }
    let clock = ContinuousClock()
    var times: [Duration] = []
    // Fewer than there is room for: nothing is dropped.
    for number in 0..<9_000 {
        let start = clock.now
        draining.log("event \(round) \(number)", ["number": .integer(Int64(number))])
        times.append(clock.now - start)
    }
    try await draining.flush()
    draining.close()
    times.sort()
    // A machine that is busy adds its own waits of milliseconds: `chrt -r 20 bench-sdk` runs ahead of them.
    print("log while draining, round \(round): p99.9 \(times[times.count * 999 / 1000]) (wanted 1 ms, before 0.8 ms)")
}
