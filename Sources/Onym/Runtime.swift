package import Foundation

/// Runs callbacks one after the other, never inside the call that passes them.
package protocol CallbackQueue: Sendable {
    func run(_ action: @escaping @Sendable () -> Void)
}

extension OperationQueue: CallbackQueue {
    package func run(_ action: @escaping @Sendable () -> Void) { addOperation(action) }
}

/// The common parts of an SDK instance: the platform and the app's configuration.
package final class Runtime: Sendable {
    package let configuration: Configuration
    package let files: any FileStore
    package let transport: any Transport
    package let time: any TimeSource
    package let callbacks: any CallbackQueue
    package let chance: @Sendable () -> UInt64
    /// The state of the device's network.
    package let path = KnownPath()
    /// The error of the device's clock.
    package let clock: ServerClock
    /// The log for developers.
    package let log: LogWriter
    /// The pace of uploads.
    package let pace: Pace
    private let announcer = Announcer()

    package init(
        _ configuration: Configuration, files: any FileStore, transport: any Transport, time: any TimeSource,
        callbacks: any CallbackQueue, chance: @escaping @Sendable () -> UInt64
    ) {
        (self.configuration, self.files, self.transport) = (configuration, files, transport)
        (self.time, self.callbacks, self.chance) = (time, callbacks, chance)
        clock = ServerClock(files)
        // The SDK also logs inside its locks, and the app's function may ask the instance.
        var later: (@Sendable (String) -> Void)?
        if let logger = configuration.logger { later = { line in callbacks.run { logger(line) } } }
        log = LogWriter(configuration.log, later)
        pace = Pace(configuration.flushInterval)
    }

    /// The time in milliseconds since 1970.
    package var milliseconds: Int64 { Int64((time.now.timeIntervalSince1970 * 1000).rounded(.down)) }

    /// The time of the server's clock, as far as the device knows that time.
    package var serverNow: Date { time.now.addingTimeInterval(clock.correction) }

    /// A time of the device's clock, converted to the server's clock. The result is never later than the server's present
    /// time.
    package func onServer(_ milliseconds: Int64) -> Int64 {
        min(milliseconds + Int64(clock.correction * 1000), serverNow.milliseconds)
    }

    package func uuid() -> String { Mailbox.uuid(chance(), chance()) }

    /// The device's shop; nil on platforms without a shop.
    var shop: (any Shop)? { configuration.shop ?? PlatformShop.available }

    /// Random bytes as lower-case hexadecimal digits.
    package func digits(_ words: Int) -> String {
        (0..<words).map { _ in Mailbox.uuid(chance(), chance()).filter { $0 != "-" } }.joined()
    }

    package func announce(_ notice: Notice) {
        let line = notice.line
        log.write(line.level, line.text)
        let sinks = announcer.sinks(for: notice)
        if !sinks.isEmpty { callbacks.run { for sink in sinks { sink(notice) } } }
    }

    package func observe(_ sink: @escaping @Sendable (Notice) -> Void) -> @Sendable () -> Void {
        let (early, end) = announcer.add(sink)
        if !early.isEmpty { callbacks.run { for notice in early { sink(notice) } } }
        return end
    }

    /// Ends the time of early notices: before this, no observer could exist.
    package func opened() { announcer.opened() }

    /// A random part of a time.
    package func part(of time: TimeInterval) -> TimeInterval { time * Double(chance() >> 11) / 0x1p53 }

    /// A waiting time with a random part, so that devices that failed together do not return together.
    package func jittered(_ delay: TimeInterval) -> TimeInterval {
        delay + part(of: delay * 0.4)
    }
}

extension Runtime {
    /// The event as the app's functions change it, and its content; nil if they drop the event, or if it is too large.
    func enriched(_ event: Event) -> (Event, [UInt8])? {
        var event = event
        for change in configuration.enrich where !change(&event) { return nil }
        let body = event.body
        if body.count <= Event.bytes { return (event, body) }
        announce(.dropped(1, .refused(.refused(.invalid("an event has at most \(Event.bytes) bytes")))))
        return nil
    }
}

/// The seconds after which waiting events are sent. The app may change them while the SDK runs.
package final class Pace: @unchecked Sendable {
    /// Guards `seconds`.
    private let lock = NSLock()
    private var seconds: TimeInterval

    init(_ seconds: TimeInterval) { self.seconds = seconds }

    package var interval: TimeInterval {
        get { lock.withLock { seconds } }
        set { lock.withLock { seconds = newValue } }
    }
}

/// The observers of notices.
private final class Announcer: @unchecked Sendable {
    /// Guards the other properties.
    private let lock = NSLock()
    private var next = 0
    private var table: [Int: @Sendable (Notice) -> Void] = [:]
    /// The notices from before the first observer could exist. Each observer gets them first.
    private var early: [Notice] = []
    private var isOpen = false

    func opened() { lock.withLock { isOpen = true } }

    func sinks(for notice: Notice) -> [@Sendable (Notice) -> Void] {
        lock.withLock {
            if !isOpen { early.append(notice) }
            return table.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    func add(_ sink: @escaping @Sendable (Notice) -> Void) -> (early: [Notice], end: @Sendable () -> Void) {
        lock.lock()
        defer { lock.unlock() }
        next += 1
        let number = next
        table[number] = sink
        return (
            early,
            { [weak self] in _ = self.map { announcer in announcer.lock.withLock { announcer.table[number] = nil } } }
        )
    }
}

// MARK: - Ids that outlive the app

extension Runtime {
    /// All names of kept ids.
    private static let keepsakes = [
        "idsync.stamp", "onym.stamp", "claim.anonymous", "entitlements.user", "linking.install",
    ]
    static let marker = "installed"

    /// Finds out whether the app is new on the device. The ids of an earlier install are removed or used again, as the
    /// configuration says. An app that was updated from a vendor's SDK is not new.
    package func checkInstall() throws(FileFault) {
        try LeftFiles.finish(in: files)
        if try files.names().contains(Runtime.marker) { return }
        if configuration.reinstall == .wipe, let keepsakes = configuration.keepsakes, keepsakes.outlivesApp,
            !configuration.imports.contains(where: { $0.hasDefaults(in: vendorStore) })
        {
            for name in Runtime.keepsakes { keepsakes.keep(nil, as: name) }
        }
        try files.append(Array("1\n".utf8), to: Runtime.marker)
    }

    /// Removes all files, and all ids that outlive the app.
    ///
    /// - Parameter keepsLeft: whether to keep what earlier instances left to be sent.
    package func erase(keepsLeft: Bool = false) throws(FileFault) {
        for name in try files.names() where !keepsLeft || !LeftFiles.isLeft(name) { try files.remove(name) }
        try forget()
    }

    /// Leaves all files to be sent by another instance, and removes all ids that outlive the app.
    ///
    /// - Parameter note: says whose files they are.
    package func leave(_ note: [UInt8]) throws(FileFault) {
        try LeftFiles.leave(note, in: files)
        try forget()
    }

    private func forget() throws(FileFault) {
        for name in Runtime.keepsakes { configuration.keepsakes?.keep(nil, as: name) }
        // The vendor's values are still there, and nobody wants them back.
        if hasImport { try files.append(Array("1\n".utf8), to: Runtime.importsEnded) }
    }

    /// The name of the file without which the next instance would read the vendors' ids again.
    private static let importsEnded = "imports-ended"

    /// The vendors' SDKs whose ids a new instance reads.
    var imports: [VendorImport] {
        let names = try? files.names()
        return names?.contains(Runtime.importsEnded) == true ? [] : configuration.imports
    }

    private var hasImport: Bool {
        configuration.imports.contains { vendor in
            switch vendor {
            case .mParticle: MParticleImport(vendorStore, now: milliseconds).tally != ImportTally()
            case .qonversion(let suite): QonversionImport(vendorStore, suite: suite).tally != ImportTally()
            case .owlmetry: OwlmetryImport(vendorStore).tally != ImportTally()
            }
        }
    }

    /// The place where vendors' SDKs have kept their ids.
    package var vendorStore: any VendorStore { configuration.vendorStore ?? DeviceVendorStore() }

    /// Announces the values read of a vendor's SDK, if a value existed.
    func announce(_ vendor: VendorImport, _ tally: ImportTally) {
        if tally == ImportTally() { return }
        announce(.imported(vendor.vendor, kept: tally.kept, skipped: tally.skipped))
    }

    /// The kept id of a name, or a new id.
    package func keepsake(_ name: String, _ make: () -> String) -> String {
        if let text = configuration.keepsakes?.text(name), !text.isEmpty { return text }
        let text = make()
        configuration.keepsakes?.keep(text, as: name)
        return text
    }
}
