package import Foundation
package import Onym
import TestKit

/// A device on the bench: the SDK with time, network, disk and chance in the test's hands. All runs on the test's thread.
package final class Bench: @unchecked Sendable {
    package let time = ManualTime()
    package let transport = ScriptedTransport()
    package private(set) var files = MemoryFiles()
    package private(set) var onym: OnymClient
    package private(set) var notices: [Notice] = []
    package var configuration: Configuration
    private let callbacks = Callbacks()
    private let chance: Chance

    package init(
        _ keys: Configuration.Key..., seed: UInt64 = 1, files: MemoryFiles = MemoryFiles(),
        configure: (inout Configuration) -> Void = { _ in }
    ) {
        chance = Chance(seed: seed)
        configuration = Bench.configuration(keys)
        configure(&configuration)
        self.files = files
        onym = Bench.open(configuration, files, transport, time, callbacks, chance)
        observe()
    }

    package static func configuration(_ keys: [Configuration.Key]) -> Configuration {
        guard let endpoint = URL(string: "https://onym.test") else { preconditionFailure() }
        var configuration = Configuration(endpoint: endpoint, keys: keys, folder: endpoint)
        configuration.environment = .development
        // Tests read what is sent.
        configuration.compressesBodies = false
        configuration.log = .nothing
        configuration.device = DeviceFacts()
        configuration.device.platform = "ios"
        return configuration
    }

    private static func open(
        _ configuration: Configuration, _ files: MemoryFiles, _ transport: ScriptedTransport, _ time: ManualTime,
        _ callbacks: Callbacks, _ chance: Chance
    ) -> OnymClient {
        let runtime = Runtime(
            configuration, files: files, transport: transport, time: time, callbacks: callbacks,
            chance: { chance.next() })
        do {
            return try OnymClient(runtime: runtime)
        } catch {
            preconditionFailure("The bench has no disk: \(error)")
        }
    }

    deinit { onym.close() }

    private func observe() { onym.observe { [weak self] in self?.notices.append($0) } }

    /// Runs all callbacks that are due.
    package func settle() { callbacks.drain() }

    /// Lets time go on.
    package func advance(_ seconds: TimeInterval) {
        settle()
        time.advance(seconds) { self.settle() }
        settle()
    }

    /// Answers the open request that was made first, and runs what comes of it.
    @discardableResult
    package func answer(_ answer: ScriptedTransport.Answer, at index: Int = 0) -> HTTPRequest? {
        let request = transport.answer(answer, at: index)
        settle()
        return request
    }

    /// Ends the process at once, and starts another over what it left on the disk.
    /// - Parameter damage: what happens to the files in between.
    package func relaunch(_ damage: (MemoryFiles) -> MemoryFiles = { $0 }) {
        let left = files.survive()
        // Nobody hears of this: a call that has not ended would hold the instance for ever.
        onym.close()
        callbacks.forget()
        time.forget()
        while transport.take() != nil {}
        files = damage(left)
        onym = Bench.open(configuration, files, transport, time, callbacks, chance)
        observe()
    }
}

/// Callbacks, run one after the other when the test says so.
private final class Callbacks: CallbackQueue, @unchecked Sendable {
    private let lock = NSLock()
    private var actions: [@Sendable () -> Void] = []

    func run(_ action: @escaping @Sendable () -> Void) { lock.withLock { actions.append(action) } }

    func drain() {
        while let action = lock.withLock({ actions.isEmpty ? nil : actions.removeFirst() }) { action() }
    }

    func forget() { lock.withLock { actions.removeAll() } }
}

private final class Chance: @unchecked Sendable {
    private let lock = NSLock()
    private var generator: SeededGenerator

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    func next() -> UInt64 { lock.withLock { generator.next() } }
}

/// Collects what callbacks bring.
package final class Collector<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var collected: [Value] = []

    package init() {}

    package var values: [Value] { lock.withLock { collected } }
    package var callback: @Sendable (Value) -> Void { { value in self.lock.withLock { self.collected.append(value) } } }
}
