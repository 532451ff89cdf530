import Foundation
import Onym

// What the SDK costs an app: `log` on the caller's thread, and a queue that drains.

/// A server that takes everything at once.
struct Taking: Transport {
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void {
        let isEvents = request.url.path.hasSuffix("/ingest")
        let body = isEvents ? #"{"accepted":1,"rejected":0}"# : "{}"
        Task.detached { completion(.success(HTTPAnswer(status: 200, body: Array(body.utf8)))) }
        return {}
    }
}

func memory() -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
    return Int(line?.filter(\.isNumber) ?? "") ?? 0
}

func open(_ name: String) throws -> Onym {
    guard let endpoint = URL(string: "http://127.0.0.1:1") else { fatalError() }
    let folder = FileManager.default.temporaryDirectory.appending(path: "onym-bench-\(UUID().uuidString)")
    var configuration = Configuration(
        endpoint: endpoint, key: .claim(key: "owl_client_k", bundleID: "b"), folder: folder)
    configuration.transport = Taking()
    configuration.flushInterval = 1000
    return try Onym(configuration)
}

for round in 1...3 {
    let onym = try open("log")
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

let onym = try open("drain")
let before = memory()
for round in 1...5 {
    let start = ContinuousClock().now
    for number in 0..<10_000 { onym.log("event \(round) \(number)", ["number": .integer(Int64(number))]) }
    try await onym.flush()
    print(
        "10,000 events logged and drained, round \(round): \(ContinuousClock().now - start), \(memory() - before) KB more memory"
    )
}
