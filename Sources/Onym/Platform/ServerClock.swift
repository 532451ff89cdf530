package import Foundation

/// The error of the device's clock, as the server's answers show it. The value survives the process.
///
/// The times of the dialects follow the dates of all answers. A proxy can invent these dates, so where answers about access
/// are signed, access has a clock of its own, which learns only from signed moments.
package final class ServerClock: @unchecked Sendable {
    private let files: any FileStore
    private let file: String
    /// Guards `offset`.
    private let lock = NSLock()
    private var offset: TimeInterval = 0

    /// A smaller error counts as no error: an answer's date has whole seconds, and the answer itself takes time.
    package static let tolerance: TimeInterval = 5
    /// A longer exchange says too little about the server's time.
    private static let longestExchange: TimeInterval = 60
    /// The file of the clock of signed answers.
    package static let ofAccess = "access-clock"

    package init(_ files: any FileStore, file: String = "clock") {
        (self.files, self.file) = (files, file)
        load()
    }

    /// Reads the value that an earlier process kept.
    func load() {
        guard let kept = (try? files.read(file)).flatMap({ JSON($0) }) else { return }
        lock.withLock { offset = Double(kept["offset"]?.integer ?? 0) / 1000 }
    }

    /// The seconds to add to the time of the device's clock.
    package var correction: TimeInterval { lock.withLock { offset } }

    /// Learns the error from an answer of the server itself.
    /// - Parameters:
    ///   - date: the time of the server's clock, perhaps in whole seconds.
    ///   - sent: the time of the device's clock when the request went out.
    ///   - received: the time of the device's clock when the answer was there.
    package func learn(_ date: Date, sent: Date, received: Date) {
        // The person may set the clock in between.
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

    /// If the value cannot be kept, the next answer shows it again.
    private func keep(_ offset: TimeInterval) {
        let text: JSON = ["offset": .integer(Int64(offset * 1000))]
        let newFile = "\(file).new"
        try? files.remove(newFile)
        do throws(FileFault) {
            try files.append(text.bytes, to: newFile)
            try files.rename(newFile, to: file)
        } catch {
            try? files.remove(newFile)
        }
    }
}
