import Domain
package import SQLite
import Threads

/// A copy of the log in another place. The store calls it on the writer's thread, so its functions must not wait for a disk.
package protocol LogArchive: AnyObject, Sendable {
    /// Takes the pages of a commit.
    func add(_ commit: LoggedCommit)
    /// The store could not read the log: the archive has a gap from here on, and gets no further commits.
    func miss()
}

/// The beginning of an archive.
package enum ArchiveBeginning: Equatable, Sendable {
    /// The archive has every commit since its last place.
    case continued
    /// Commits are missing before this place, so the archive needs a new copy of the file.
    case new(LogPlace?)
}

/// Reads each commit of the writer from the log, for the archives.
///
/// SQLite overwrites the log from its beginning as soon as the file has all of its pages. Only the writer adds to the log, so the
/// writer reads each commit before it begins the next one.
final class LogTap: Sendable {
    private struct State: @unchecked Sendable {
        // Unchecked: only the holder of the lock uses the log.
        var archives: [any LogArchive] = []
        var log: WriteAheadLog?
        /// The place up to which the archives have the log; nil if the log was empty.
        var place: LogPlace?
        var sequence: Int64
        var at: Int64
        /// What the log has of the commits since the store was opened.
        var sinceOpen = SinceOpen.nothing
        /// The number of writes that committed something.
        var writes = 0
    }

    /// What the log has of the commits since the store was opened. An archive can continue by its token only if the log has all of
    /// them: an empty log may also be a log that SQLite began again.
    private enum SinceOpen {
        /// There was no write.
        case nothing
        /// The log with these salts has all writes.
        case log(salts: UInt64)
        /// The log may lack writes, or the token was used already.
        case unknown
    }

    private let file: StoreFile
    private let state: Monitor<State>

    init(_ file: StoreFile, last: JournalSequence, at moment: Instant?) {
        self.file = file
        state = Monitor(State(sequence: last.rawValue, at: moment?.milliseconds ?? 0))
    }

    /// Runs a transaction of the writer, and gives its pages to the archives.
    ///
    /// - Parameters:
    ///   - commits: the watch of the writer's connection.
    ///   - last: the last call of the journal after the transaction, and its moment; nil if the transaction adds no calls.
    ///   - body: runs the transaction.
    func write(
        _ commits: CommitWatch, last: (sequence: JournalSequence, at: Instant?)? = nil,
        _ body: () throws(SQLiteFault) -> Void
    ) throws(SQLiteFault) {
        try state.withLock { state throws(SQLiteFault) in
            let before = commits.count
            try body()
            if let last {
                state.sequence = last.sequence.rawValue
                state.at = last.at?.milliseconds ?? state.at
            }
            if commits.count == before { return }
            state.writes += 1
            if case .nothing = state.sinceOpen {
                let header = WriteAheadLog(ofDatabase: file.path, on: file.disk)?.header
                state.sinceOpen = header.map { $0.restarts == 0 ? .log(salts: $0.salts) : .unknown } ?? .unknown
            }
            if !state.archives.isEmpty { LogTap.pass(&state, file, upTo: commits.logPages) }
        }
    }

    /// The number of writes until now that committed something.
    var writes: Int { state.withLock { $0.writes } }

    /// Gives the frames behind the last place to the archives.
    private static func pass(_ state: inout State, _ file: StoreFile, upTo last: Int) {
        if state.log == nil { state.log = WriteAheadLog(ofDatabase: file.path, on: file.disk) }
        guard let log = state.log, let header = log.header else { return lose(&state) }
        let first = state.place.map { $0.salts == header.salts ? $0.frame : 0 } ?? 0
        if first == last { return }
        guard let commit = log.commit(after: first, through: last, header, sequence: state.sequence, at: state.at)
        else { return lose(&state) }
        state.place = commit.end
        for archive in state.archives { archive.add(commit) }
    }

    private static func lose(_ state: inout State) {
        for archive in state.archives { archive.miss() }
        (state.archives, state.log, state.place) = ([], nil, nil)
    }

    /// Continues after a fault. SQLite has opened the log again, and may have made a new log.
    func reopened() {
        state.withLock { state in
            state.sinceOpen = .unknown
            if state.archives.isEmpty { return }
            state.log = WriteAheadLog(ofDatabase: file.path, on: file.disk)
            if state.log?.header?.salts != state.place?.salts { LogTap.lose(&state) }
        }
    }

    /// Begins to give commits to an archive.
    ///
    /// - Parameters:
    ///   - archive: takes the commits.
    ///   - place: the place in the log up to which the archive has all commits; nil if it has none.
    ///   - isComplete: whether the archive has all commits from before the store was opened. It counts for the first archive only.
    func begin(
        _ archive: any LogArchive, after place: LogPlace?, isComplete: Bool
    ) throws(StoreFault) -> ArchiveBeginning {
        let connection = try file.openBeside(.readWrite)
        let result = state.withLock { state -> Result<ArchiveBeginning, StoreFault> in
            let sinceOpen = state.sinceOpen
            state.sinceOpen = .unknown
            do throws(StoreFault) {
                // A checkpoint knows the number of valid frames.
                let frames = try file.attempt { () throws(SQLiteFault) in
                    _ = try connection.integer("PRAGMA schema_version")
                    return try connection.checkpoint(.passive).frames
                }
                let log = WriteAheadLog(ofDatabase: file.path, on: file.disk)
                let header = frames > 0 ? log?.header : nil
                var beginning = ArchiveBeginning.new(nil)
                if let log, let header, let end = log.place(frames, header) {
                    var first = frames
                    if isComplete, header.restarts == 0, LogTap.hasAll(sinceOpen, header) {
                        (first, beginning) = (0, .continued)
                    } else if let place, place.salts == header.salts, place.frame <= frames,
                        log.place(place.frame, header) == place
                    {
                        (first, beginning) = (place.frame, .continued)
                    } else {
                        beginning = .new(end)
                    }
                    if first < frames {
                        guard
                            let commit = log.commit(
                                after: first, through: frames, header, sequence: state.sequence, at: state.at)
                        else {
                            throw StoreFault(.inputOutput, "The log of \(file.path) cannot be read.")
                        }
                        archive.add(commit)
                    }
                    state.place = end
                } else {
                    if isComplete, case .nothing = sinceOpen { beginning = .continued }
                    state.place = nil
                }
                state.log = log
                state.archives.append(archive)
                return .success(beginning)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Whether the log has all commits since the store was opened.
    private static func hasAll(_ sinceOpen: SinceOpen, _ header: WriteAheadLog.Header) -> Bool {
        switch sinceOpen {
        case .nothing: true
        case .log(let salts): salts == header.salts
        case .unknown: false
        }
    }

    /// Ends an archive. It gets no further commits.
    func end(_ archive: any LogArchive) {
        state.withLock { state in
            state.archives.removeAll { $0 === archive }
            if state.archives.isEmpty { (state.log, state.place) = (nil, nil) }
        }
    }

    /// The last call of the journal, as the writer committed it.
    var last: (sequence: Int64, at: Int64) { state.withLock { ($0.sequence, $0.at) } }
}
