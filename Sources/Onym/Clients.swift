import Foundation

/// The clients of all dialects for which the app has keys.
struct Clients {
    var idsync: IDSyncClient?
    var claim: ClaimClient?
    var entitlements: EntitlementsClient?
    var linking: LinkingClient?

    /// Whether one of the dialects has events.
    var takesEvents: Bool { takesEventsOfPeople || claim != nil }
    var takesEventsOfPeople: Bool { idsync?.takesEvents ?? false }

    var all: [DialectClient] { [idsync, claim, entitlements, linking].compactMap { $0 } }

    init() {}

    /// Opens the kept state, and continues where the last process stopped.
    init(_ runtime: Runtime) throws(FileFault) {
        try runtime.checkInstall()
        runtime.clock.load()
        for key in runtime.configuration.keys {
            switch key {
            case .idSync(let key, let secret):
                idsync = try IDSyncClient(runtime, .idSync(key: key, secret: secret))
            case .onym(let key): idsync = try IDSyncClient(runtime, .onym(key: key))
            case .claim(let key, let bundleID): claim = try ClaimClient(runtime, key: key, bundleID: bundleID)
            case .entitlements(let key): entitlements = try EntitlementsClient(runtime, key: key)
            case .linking(let app, let secret): linking = try LinkingClient(runtime, appID: app, secret: secret)
            }
        }
        // A dialect that is new in the app does not know yet that the person has opted out.
        if all.contains(where: \.isOut) { for client in all { client.setOptedOut(true) } }
    }

    /// Keeps an event.
    func log(_ event: Event, _ body: [UInt8], _ attachments: [Attachment], at time: Int64?) {
        if takesEventsOfPeople { idsync?.log(body, at: time) }
        claim?.log(event, body, attachments, at: time)
    }
}

/// Opens the clients as soon as the files can be read, and keeps early events until then. The system protects the files until
/// the person first unlocks the device after its start. The system may start the app for a push before that.
final class Opening: @unchecked Sendable {
    /// What the app does before the files can be read, in order.
    private enum Early {
        case event(Event, [UInt8], [Attachment], Int64)
        case logout

        var isEvent: Bool { if case .event = self { true } else { false } }
    }

    /// Guards the other properties. Early events and logouts are sent inside it, and a function of the app that takes part may ask the
    /// instance.
    private let lock = NSRecursiveLock()
    private var opened = Clients()
    private var isLocked: Bool
    private var early: [Early] = []
    private var hasOptedOut: Bool?
    private var isEnded = false
    /// The number of events that were removed for lack of room since the last notice.
    private var overflow = 0

    /// The greatest number of events that wait in memory; the oldest are removed first.
    static let earlyLimit = 200

    init(_ runtime: Runtime) throws(FileFault) {
        do throws(FileFault) {
            opened = try Clients(runtime)
            isLocked = false
        } catch {
            guard error.isLocked else { throw error }
            isLocked = true
        }
    }

    var clients: Clients { lock.withLock { opened } }
    var mustWait: Bool { lock.withLock { isLocked } }

    /// Tries again. Answers whether this try has opened the clients.
    func tryAgain(_ runtime: Runtime) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard isLocked, !isEnded else { return false }
        do throws(FileFault) {
            opened = try Clients(runtime)
        } catch {
            if !error.isLocked { runtime.announce(.storageFailed(error.reason)) }
            return false
        }
        isLocked = false
        if let hasOptedOut { for client in opened.all { client.setOptedOut(hasOptedOut) } }
        for entry in early {
            switch entry {
            case .event(let event, let body, let attachments, let time): opened.log(event, body, attachments, at: time)
            case .logout: opened.logOut()
            }
        }
        early = []
        return true
    }

    /// Keeps an event in memory, if the files cannot be read yet. Answers whether the event is kept.
    func keep(_ event: Event, _ body: [UInt8], _ attachments: [Attachment], _ runtime: Runtime) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard isLocked else { return false }
        if isEnded || hasOptedOut == true { return true }
        let time = event.time?.milliseconds ?? runtime.milliseconds
        early.append(.event(event, body, attachments, time))
        if early.count(where: \.isEvent) > Opening.earlyLimit, let first = early.firstIndex(where: \.isEvent) {
            early.remove(at: first)
            overflow += 1
            // One notice per second is enough, also for a thousand lost events.
            if overflow == 1 {
                _ = runtime.time.after(1) { [weak self] in
                    guard let self else { return }
                    lock.withLock { self.tellOverflow(runtime) }
                }
            }
        }
        return true
    }

    private func tellOverflow(_ runtime: Runtime) {
        if overflow > 0 { runtime.announce(.dropped(overflow, .overflow)) }
        overflow = 0
    }

    /// Remembers a logout until the files can be read. Answers whether the logout has to wait.
    func logOut(_ runtime: Runtime) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard isLocked else { return false }
        // Two logouts without an event between them are one.
        if !isEnded, hasOptedOut != true, early.last?.isEvent ?? true { early.append(.logout) }
        return true
    }

    /// Imports the events that extensions have left, if the files can be read. The app's functions change the events first, without
    /// the lock, because they may ask the instance.
    func takeIn(_ runtime: Runtime) {
        if lock.withLock({ isLocked || isEnded }) { return }
        do throws(FileFault) {
            let notes = try NoteOfReader.all(in: runtime.files)
            if notes.isEmpty { return }
            let kept = notes.compactMap { note in runtime.enriched(note.event).map { note.with($0.0) } }
            lock.lock()
            defer { lock.unlock() }
            if !isEnded { try opened.take(kept, of: Set(notes.map(\.name)), runtime.files) }
        } catch {
            runtime.announce(.storageFailed(error.reason))
        }
    }

    /// Remembers an opt-out or opt-in until the files can be read. Answers whether the choice has to wait.
    func optOut(_ isOut: Bool, _ runtime: Runtime) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard isLocked else { return false }
        hasOptedOut = isOut
        if isOut { lose(.optedOut, runtime) }
        return true
    }

    var isOptedOut: Bool { lock.withLock { isLocked ? hasOptedOut ?? false : opened.all.contains(where: \.isOut) } }

    /// Ends the opening: no client opens any more.
    func end(_ runtime: Runtime) {
        lock.withLock {
            isEnded = true
            tellOverflow(runtime)
            lose(.storage, runtime)
        }
    }

    private func lose(_ reason: DropReason, _ runtime: Runtime) {
        let count = early.count(where: \.isEvent)
        if count > 0 { runtime.announce(.dropped(count, reason)) }
        early = []
    }
}
