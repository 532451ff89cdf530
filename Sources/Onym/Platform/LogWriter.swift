import Foundation

#if canImport(os)
    import os
#endif

/// The importance of lines in the log.
public enum LogLevel: Int, Comparable, Sendable {
    /// No lines.
    case nothing = 0
    /// Faults that lose data.
    case errors
    /// Lines about a setting or call that does not do what the app may expect.
    case warnings
    /// A line for each request.
    case debug
    /// All lines.
    case verbose

    /// Whether a level contains fewer lines than another level.
    public static func < (first: LogLevel, second: LogLevel) -> Bool { first.rawValue < second.rawValue }
}

/// Writes lines for developers. No line contains a key or a value of a user.
package final class LogWriter: @unchecked Sendable {
    /// Guards the other properties.
    private let lock = NSLock()
    private var limit: LogLevel
    private let sink: @Sendable (String) -> Void
    /// The lines that are written once.
    private var written: Set<String> = []

    package init(_ level: LogLevel, _ sink: (@Sendable (String) -> Void)?) {
        (limit, self.sink) = (level, sink ?? LogWriter.system)
    }

    /// The least important lines that are written.
    package var level: LogLevel {
        get { lock.withLock { limit } }
        set { lock.withLock { limit = newValue } }
    }

    package func write(_ level: LogLevel, _ text: @autoclosure () -> String) {
        if level != .nothing, level <= self.level { sink("onym: \(text())") }
    }

    /// Writes a line that one process needs once.
    package func writeOnce(_ level: LogLevel, _ text: String) {
        guard level <= self.level, lock.withLock({ written.insert(text).inserted }) else { return }
        write(level, text)
    }

    /// Writes one line about a name of a vendor's SDK that has no effect in this SDK.
    package func noteInert(_ name: String) { writeOnce(.warnings, "\(name) does nothing here") }

    /// The system's log: the unified log on Apple's platforms, the standard error elsewhere.
    private static let system: @Sendable (String) -> Void = { line in
        #if canImport(os)
            os.Logger(subsystem: "onym", category: "sdk").log("\(line, privacy: .public)")
        #else
            FileHandle.standardError.write(Data("\(line)\n".utf8))
        #endif
    }
}

extension Notice {
    /// The line of a notice in the log, and its level.
    var line: (level: LogLevel, text: String) {
        switch self {
        case .userChanged(let dialect, _, _): (.debug, "the user of \(dialect) has changed")
        case .deactivated(let deactivation): (.warnings, "the user is inactive on this device: \(deactivation.reason)")
        case .reactivated: (.debug, "the user is active on this device again")
        case .accessChanged: (.debug, "the user's entitlements have changed")
        case .untrusted(let reason):
            (.errors, "an answer about access does not come from the project's server: \(reason)")
        case .purchaseReported(let product): (.debug, "the server has taken a reported purchase of \(product)")
        case .dropped(let count, let reason): (.errors, "\(count) letters will never be sent: \(reason)")
        case .held(let error, let waiting): (.warnings, "\(waiting) letters wait: \(error)")
        case .imported(let vendor, let kept, let skipped):
            (.debug, "\(vendor): \(kept) values were kept, \(skipped) did not parse")
        case .unlocked: (.debug, "the device is unlocked")
        case .fileSetAside(let name): (.errors, "unreadable lines are in \(name)")
        case .storageFailed(let reason): (.errors, "the storage failed: \(reason)")
        }
    }
}
