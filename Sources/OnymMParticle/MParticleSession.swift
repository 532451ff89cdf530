public import Foundation
import Onym

/// A session: the time in which a person uses the app.
public final class MParticleSession: Sendable {
    /// The session's number, made of its id.
    public let sessionID: NSNumber
    /// The session's id.
    public let uuid: String
    /// The start of the session in milliseconds since 1970.
    public let startTime: NSNumber

    init(_ session: Sessions.Session) {
        uuid = session.uuid
        startTime = NSNumber(value: session.start)
        let digits = session.uuid.filter { $0 != "-" }.prefix(15)
        sessionID = NSNumber(value: Int64(digits, radix: 16) ?? 0)
    }
}

/// Begins and ends sessions, and logs both. The running session survives the process.
final class Sessions: @unchecked Sendable {
    struct Session {
        let uuid: String
        /// The times in milliseconds since 1970.
        let start: Int64
        /// The last time at which the app was seen in the foreground.
        var last: Int64
        var attributes: [String: JSON] = [:]

        /// The members of an event's data within the session.
        var details: [String: JSON] {
            ["session_uuid": .string(uuid), "session_start_unixtime_ms": .integer(start)]
        }

        var kept: JSON {
            [
                "uuid": .string(uuid), "start": .integer(start), "last": .integer(last),
                "attributes": .object(attributes),
            ]
        }

        init(uuid: String, start: Int64) { (self.uuid, self.start, last) = (uuid, start, start) }

        init?(kept: JSON?) {
            guard let uuid = kept?["uuid"]?.text, let start = kept?["start"]?.integer else { return nil }
            self.init(uuid: uuid, start: start)
            last = kept?["last"]?.integer ?? start
            attributes = kept?["attributes"]?.members ?? [:]
        }
    }

    private let onym: OnymClient
    private let isAutomatic: Bool
    private let timeout: TimeInterval
    /// Guards the next three properties.
    private let lock = NSLock()
    private var current: Session?
    private var isInBackground = false
    /// Whether the time-out ended a session while the app was in the background.
    private var hasTimedOut = false
    private let watching = Ending()

    private static let file = "session"
    private static let newFile = "session.new"

    init(_ onym: OnymClient, isAutomatic: Bool, timeout: TimeInterval, begins: Bool) {
        (self.onym, self.isAutomatic, self.timeout) = (onym, isAutomatic, timeout)
        if let left = Session(kept: (try? onym.runtime.files.read(Sessions.file)).flatMap { JSON($0) }) {
            if isOver(left) { logEnd(left, at: left.last) } else { current = left }
        }
        if begins { begin() } else { keep() }
        guard isAutomatic, let cycle = onym.runtime.configuration.lifeCycle ?? OnymClient.platformLifeCycle else {
            return
        }
        watching.set(
            cycle.observe { [weak self] phase, done in
                self?.live(phase)
                done()
            })
    }

    deinit { watching.end() }

    private var now: Int64 { onym.runtime.milliseconds }

    var session: Session? { lock.withLock { current } }

    private func live(_ phase: LifeCyclePhase) {
        switch phase {
        case .background:
            touch()
            lock.withLock { isInBackground = true }
        case .termination: touch()
        case .foreground:
            // An app that the system has started in the background has never gone there.
            endIfTimedOut(isBack: true)
            let beginsAgain = lock.withLock {
                defer { (isInBackground, hasTimedOut) = (false, false) }
                return hasTimedOut
            }
            if beginsAgain { begin() }
        case .unlocked: break
        }
    }

    /// Whether the last use of a session is longer ago than the time-out.
    private func isOver(_ session: Session) -> Bool { now - session.last > Int64(timeout * 1000) }

    /// Ends the session at its last use, if the app was in the background and the time-out is over.
    private func endIfTimedOut(isBack: Bool = false) {
        let left = lock.withLock { () -> Session? in
            guard isBack || isInBackground, let session = current, isOver(session) else { return nil }
            (current, hasTimedOut) = (nil, true)
            return session
        }
        guard let left else { return }
        logEnd(left, at: left.last)
        keep()
    }

    /// The running session for an event of now. The event shows that the app is in use: a process that is killed later leaves
    /// a session that ended no earlier.
    func sessionOfEvent() -> Session? {
        endIfTimedOut()
        let isOld = lock.withLock { current.map { now - $0.last >= Sessions.precision } ?? false }
        if isOld { touch() }
        return session
    }

    /// The end of a killed session is known to this number of milliseconds: each event would cost a file otherwise.
    private static let precision: Int64 = 10_000

    /// Remembers that the app was in use until now.
    private func touch() {
        lock.withLock { current?.last = now }
        keep()
    }

    /// Begins a session, unless a session runs.
    func begin() {
        endIfTimedOut()
        let new = Session(uuid: onym.runtime.uuid(), start: now)
        let isNew = lock.withLock {
            if current != nil { return false }
            current = new
            return true
        }
        guard isNew else { return }
        keep()
        var event = Event("", type: "session_start")
        event.details = new.details
        onym.log(event)
    }

    func end() { end(at: now) }

    private func end(at time: Int64) {
        guard let old = lock.withLock({ current.take() }) else { return }
        logEnd(old, at: time)
        keep()
    }

    private func logEnd(_ old: Session, at time: Int64) {
        var event = Event("", type: "session_end", attributes: old.attributes)
        event.details = old.details.merging(["session_duration_ms": .integer(max(0, time - old.start))]) { $1 }
        event.time = Date(milliseconds: time)
        onym.log(event)
    }

    /// Changes an attribute of the running session. Answers whether a session runs.
    func change(_ name: String, _ body: (JSON?) -> JSON?) -> Bool {
        let isThere = lock.withLock {
            guard let session = current else { return false }
            current?.attributes[name] = body(session.attributes[name])
            return true
        }
        if isThere { keep() }
        return isThere
    }

    /// Writes the running session to its file.
    private func keep() {
        if onym.isLocked { return }
        let files = onym.runtime.files
        do throws(FileFault) {
            guard let session else { return try files.remove(Sessions.file) }
            try files.remove(Sessions.newFile)
            try files.append(session.kept.bytes, to: Sessions.newFile)
            try files.rename(Sessions.newFile, to: Sessions.file)
        } catch {
            onym.runtime.announce(.storageFailed(error.reason))
        }
    }
}
