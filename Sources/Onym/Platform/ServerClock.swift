package import Foundation

/// By how much the device's clock is wrong, as the dates of the server's answers show. It outlives the process.
package final class ServerClock: @unchecked Sendable {
    private let files: any FileStore
    /// Guards `offset`.
    private let lock = NSLock()
    private var offset: TimeInterval = 0

    /// A clock that is wrong by no more than this counts as right: an answer's date has whole seconds, and takes its time.
    package static let tolerance: TimeInterval = 5
    /// An answer that took longer says too little of the time.
    private static let longestExchange: TimeInterval = 60
    private static let file = "clock"
    private static let newFile = "clock.new"

    package init(_ files: any FileStore) {
        self.files = files
        load()
    }

    /// Reads what a former process has learned.
    func load() {
        guard let kept = (try? files.read(ServerClock.file)).flatMap({ JSON($0) }) else { return }
        lock.withLock { offset = Double(kept["offset"]?.integer ?? 0) / 1000 }
    }

    /// The seconds that have to be added to what the device's clock shows.
    package var correction: TimeInterval { lock.withLock { offset } }

    /// Learns from an answer of the server's own.
    /// - Parameters:
    ///   - date: what the server's clock showed, in whole seconds.
    ///   - sent: what the device's clock showed when the request went out.
    ///   - received: what it showed when the answer was there.
    package func learn(_ date: Date, sent: Date, received: Date) {
        // Somebody may set the clock in between.
        guard (0...ServerClock.longestExchange).contains(received.timeIntervalSince(sent)) else { return }
        let earliest = date.timeIntervalSince(received) - ServerClock.tolerance
        let latest = date.timeIntervalSince(sent) + 1 + ServerClock.tolerance
        let changed = lock.withLock { () -> TimeInterval? in
            if (earliest...latest).contains(0) {
                if offset == 0 { return nil }
                offset = 0
            } else if (earliest...latest).contains(offset) {
                return nil
            } else {
                offset = date.timeIntervalSince(received).rounded()
            }
            return offset
        }
        if let changed { keep(changed) }
    }

    /// What cannot be kept is learned again from the next answer.
    private func keep(_ offset: TimeInterval) {
        let text: JSON = ["offset": .integer(Int64(offset * 1000))]
        try? files.remove(ServerClock.newFile)
        do throws(FileFault) {
            try files.append(text.bytes, to: ServerClock.newFile)
            try files.rename(ServerClock.newFile, to: ServerClock.file)
        } catch {
            try? files.remove(ServerClock.newFile)
        }
    }
}
