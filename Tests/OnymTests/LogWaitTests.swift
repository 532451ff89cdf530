import ClientKit
import Dispatch
import Foundation
import Onym
import Testing

/// Files that hold one kind of work until the test lets it go on.
private final class GateFiles: FileStore, @unchecked Sendable {
    enum Work { case reading, syncing }

    private let files = MemoryFiles()
    private let lock = NSLock()
    private var held: Work?
    private let entered = DispatchSemaphore(value: 0)
    private let released = DispatchSemaphore(value: 0)

    /// Holds the next work of a kind.
    func hold(_ work: Work) { lock.withLock { held = work } }
    /// Waits until the work has begun; answers false after twenty seconds.
    func hasBegun() -> Bool { entered.wait(timeout: .now() + 20) == .success }
    func letGo() { released.signal() }

    private func pass(_ work: Work) {
        let isHeld = lock.withLock { () -> Bool in
            guard held == work else { return false }
            held = nil
            return true
        }
        guard isHeld else { return }
        entered.signal()
        released.wait()
    }

    func names() throws(FileFault) -> [String] { files.names() }
    func read(_ name: String) throws(FileFault) -> [UInt8] { try files.read(name) }
    func read(_ name: String, from place: Int, count: Int) throws(FileFault) -> [UInt8] {
        pass(.reading)
        return try files.read(name, from: place, count: count)
    }
    func append(_ bytes: [UInt8], to name: String) throws(FileFault) { try files.append(bytes, to: name) }
    func sync(_ name: String) throws(FileFault) {
        pass(.syncing)
        files.sync(name)
    }
    func rename(_ name: String, to other: String) throws(FileFault) { files.rename(name, to: other) }
    func remove(_ name: String) throws(FileFault) { files.remove(name) }
}

/// A server that takes everything at once.
private struct Taking: Transport {
    func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void {
        DispatchQueue.global().async {
            let body = Array(#"{"accepted":1,"rejected":0}"#.utf8)
            completion(.success(HTTPAnswer(status: 200, fields: ["X-Request-Id": "r"], body: body)))
        }
        return {}
    }
}

@Suite("Whoever logs waits for nobody", .timeLimit(.minutes(2)))
struct LogWaitTests {
    private let files = GateFiles()

    private func open() throws -> OnymClient {
        var configuration = Bench.configuration([.claim(key: "owl_client_k", bundleID: "b")])
        (configuration.files, configuration.transport) = (files, Taking())
        (configuration.flushInterval, configuration.safety, configuration.eventLimit) = (1000, .whenever, 10_000)
        return try OnymClient(configuration)
    }

    /// Whether an event is logged while other work is held.
    private func logs(_ onym: OnymClient) -> Bool {
        let done = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            onym.log("meanwhile")
            done.signal()
        }
        return done.wait(timeout: .now() + 20) == .success
    }

    @Test("not for the request that is made of the events before")
    func making() async throws {
        let onym = try open()
        onym.log("first")
        files.hold(.reading)
        let flush = Task { try? await onym.flush() }
        let result = await onThread { (files.hasBegun(), logs(onym)) }
        files.letGo()
        #expect(result == (true, true))
        await flush.value
        onym.close()
    }

    @Test("not for the disk, when files of settled events are removed")
    func cleaning() async throws {
        let onym = try open()
        // More than one file of the log.
        files.hold(.syncing)
        for number in 0..<3000 { onym.log("event \(number)", ["text": .string(String(repeating: "x", count: 100))]) }
        let flush = Task { try? await onym.flush() }
        let result = await onThread { (files.hasBegun(), logs(onym)) }
        files.letGo()
        #expect(result == (true, true))
        await flush.value
        onym.close()
    }

    /// Runs a body that waits on a thread of its own.
    private func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body()) }
        }
    }
}
