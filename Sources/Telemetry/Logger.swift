import ByteText
import CivilTime
import Glibc
import JSON
import Synchronization

/// Writes one JSON object per line to standard error.
///
/// Names of fields are literals. Values are numbers or short texts of the server's own: ids, codes, counts. The callers never
/// pass a secret or the value of an identity.
package final class Logger: Sendable {
    package enum Level: Int, Comparable, Sendable, CaseIterable {
        case debug, info, warning, error

        package static func < (one: Level, other: Level) -> Bool { one.rawValue < other.rawValue }

        package var name: String {
            switch self {
            case .debug: "debug"
            case .info: "info"
            case .warning: "warning"
            case .error: "error"
            }
        }

        package init?(named name: String) {
            guard let level = Level.allCases.first(where: { $0.name == name }) else { return nil }
            self = level
        }
    }

    package enum Value: Sendable {
        case text(String)
        case integer(Int)
    }

    private let level: Level
    private let write: @Sendable ([UInt8]) -> Void

    /// Makes a logger for lines of a level and of graver levels. The default is standard error.
    package init(level: Level, write: @escaping @Sendable ([UInt8]) -> Void = Logger.writeToStandardError) {
        self.level = level
        self.write = write
    }

    package func isLogging(_ level: Level) -> Bool { level >= self.level }

    package func log(_ level: Level, _ message: String, _ fields: [(StaticString, Value)] = []) {
        guard isLogging(level) else { return }
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        let milliseconds = Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        var line = JSONWriter()
        line.object { line in
            line.key("at")
            line.plainString(ISO8601.format(millisecondsSince1970: milliseconds))
            line.key("level")
            line.string(level.name)
            line.key("message")
            line.string(message)
            for (name, value) in fields {
                line.key(name)
                switch value {
                case .text(let text): line.string(text)
                case .integer(let number): line.integer(number)
                }
            }
        }
        write(line.bytes + [ASCII.lineFeed])
    }

    /// Each line is one write, so that lines of several threads do not mix.
    package static let writeToStandardError: @Sendable ([UInt8]) -> Void = { line in
        _ = unsafe Glibc.write(STDERR_FILENO, line, line.count)
    }
}
