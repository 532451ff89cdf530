import Domain
import Engine
import Foundation
import StoreSQLite

/// The engine and the embedded store without HTTP: new people with three identities each, in batches as large as sixty-four
/// clients make them.
@main
enum BenchStore {
    private static let batch = 64
    private static let people = 256_000

    static func main() throws {
        guard let folder = CommandLine.arguments.dropFirst().first else {
            print("usage: bench-store <folder that does not exist yet>")
            exit(2)
        }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = StoreFile(folder: folder)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        let store = try SQLiteStore(file)
        let writer = Writer(store: store, chance: { .random(in: .min ... .max) })
        let project = Project(id: ProjectID(rawValue: 1), name: "Bench", madeAt: now())
        let setUp = Command.setUp(SetUp(project: project, apps: [], keys: []))
        _ = try writer.process([Job(call: Call(project: project.id, key: nil), command: setUp)], at: now())[0].get()

        let clock = ContinuousClock()
        var batches: [Duration] = []
        for start in stride(from: 0, to: people, by: batch) {
            let jobs = (start..<start + batch).map { job($0, project.id, store.hash) }
            batches.append(
                try clock.measure { for answer in writer.process(jobs, at: now()) { _ = try answer.get() } })
        }
        let seconds = batches.reduce(.zero, +) / .seconds(1)
        let slow = batches.sorted()[batches.count * 99 / 100] / .milliseconds(1)
        print(
            "store alone, batches of \(batch): \(Int(Double(people) / seconds)) new people a second, "
                + "p99 of a batch \(String(format: "%.2f", slow)) ms")
        store.close()
    }

    private static func now() -> Instant {
        Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    private static func job(_ number: Int, _ project: ProjectID, _ hash: KeyedHash) -> Job {
        let identities = [
            Identity(.customerID, "customer-\(number)", in: project, hash: hash),
            Identity(.email, "customer-\(number)@example.com", in: project, hash: hash),
            Identity(.iosIDFV, "device-\(number)", in: project, hash: hash),
        ]
        return Job(
            call: Call(project: project, key: nil),
            command: .identify(Identify(identities: identities, previous: nil)))
    }
}
