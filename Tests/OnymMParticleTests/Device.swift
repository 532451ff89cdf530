import ClientKit
import Foundation
import Onym
import OnymMParticle
import Testing

/// The phases of an app's life, as the test plays them.
final class Phases: LifeCycle, @unchecked Sendable {
    private let lock = NSLock()
    private var next = 0
    private var observers: [Int: Observer] = [:]

    func observe(_ observer: @escaping Observer) -> @Sendable () -> Void {
        let number = lock.withLock {
            next += 1
            observers[next] = observer
            return next
        }
        return { [self] in lock.withLock { observers[number] = nil } }
    }

    func send(_ phase: LifeCyclePhase) {
        for (_, observer) in lock.withLock({ observers.sorted { $0.key < $1.key } }) { observer(phase) {} }
    }
}

/// A device with one app on it, over a network, a time and a disk that the test plays.
final class Device {
    let sdk = MParticle()
    let transport = ScriptedTransport()
    let time = ManualTime()
    let lines = Collector<String>()
    let phases = Phases()
    private(set) var files = MemoryFiles()

    func options(_ change: (inout Configuration) -> Void = { _ in }) -> MParticleOptions {
        let options = MParticleOptions(key: "us1-key", secret: "secret")
        options.networkOptions = MPNetworkOptions()
        options.networkOptions?.customBaseURL = URL(string: "https://onym.test")
        options.environment = .production
        var bench = Bench.configuration([])
        (bench.transport, bench.time, bench.files) = (transport, time, files)
        change(&bench)
        let device = bench.device
        options.configure = { [transport, time, files, lines, phases] in
            ($0.transport, $0.time, $0.files) = (transport, time, files)
            ($0.callbacks, $0.compressesBodies, $0.device) = (.background, false, device)
            $0.vendorStore = bench.vendorStore ?? MemoryVendorStore()
            ($0.logger, $0.lifeCycle) = (lines.callback, phases)
        }
        return options
    }

    /// Starts the app, and answers its identify call with a user.
    @discardableResult
    func start(_ options: MParticleOptions? = nil, as user: Int64 = 1) async -> HTTPRequest? {
        sdk.start(with: options ?? self.options())
        let request = await answer(SnippetScene.mpid(user))
        await eventually { sdk.identity.currentUser != nil }
        return request
    }

    @discardableResult
    func answer(_ answer: ScriptedTransport.Answer) async -> HTTPRequest? {
        await SnippetScene.answer(transport, answer)
    }

    /// Takes all uploads until nothing waits; answers their bodies.
    func uploads() async -> [JSON] {
        sdk.upload()
        var bodies: [JSON] = []
        while sdk.core?.idsync?.mailbox.count ?? 0 > 0 {
            if let request = transport.answer(.empty(202)) { bodies.append(request.json) }
            await Task.yield()
        }
        return bodies
    }

    /// The uploaded events.
    func events() async -> [JSON] { await uploads().flatMap { $0["events"]?.elements ?? [] } }

    /// Ends the process, and starts another over the same files after some time.
    func relaunch(after seconds: TimeInterval) {
        let left = files.survive()
        sdk.close()
        while transport.take() != nil {}
        files = left
        time.advance(seconds)
    }
}
