package import Disk
package import Domain
import HTTPMessage
package import HTTPServer
import Threads

/// The last requests of this server: route, status, code, key, time and size of each, and no value, body or address.
///
/// Each loop adds its requests to a buffer of its own. One thread writes the buffers into files once a second. If the thread is behind,
/// requests are dropped and counted; no request waits (docs/decisions/0060-a-log-of-requests.md).
package final class RequestLog: Sendable {
    /// A request that no file has yet.
    struct Pending {
        let id: RequestID
        let at: Int64
        let nanoseconds: UInt64
        let (bytesIn, bytesOut): (Int, Int)
        let status: UInt16
        let route: Int?
        let code: String?
        let caller: CallerMark
    }

    private struct Turn {
        var isDue = false
        var isStopping = false
    }

    /// The greatest number of requests of a loop that wait, and the number that wakes the thread.
    private static let waitingAtMost = 16_384
    private static let waking = 4096
    private static let pauseMilliseconds = 1000

    private let routes: [String]
    private let buffers: [Monitor<[Pending]>]
    private let segments: Monitor<RequestSegments>
    private let turn = Monitor(Turn())
    private let lost = Monitor(0)
    private let hash: KeyedHash
    private let clock: @Sendable () -> Instant
    private let lastCall: @Sendable () -> JournalSequence
    private let thread = Monitor<WorkerThread?>(nil)

    /// - Parameters:
    ///   - folder: the folder of the files, made for its owner only.
    ///   - bytes: the limit of all files; the oldest are removed.
    ///   - routes: the names of the routes, in the order of their ordinals.
    ///   - hash: hashes the ids that clients choose, because an id may contain a value.
    ///   - lastCall: the last call of the journal.
    package init(
        folder: String, bytes: Int, on disk: any Disk = SystemDisk(), loops: Int, routes: [String], hash: KeyedHash,
        clock: @escaping @Sendable () -> Instant, lastCall: @escaping @Sendable () -> JournalSequence
    ) {
        self.routes = routes
        self.hash = hash
        self.clock = clock
        self.lastCall = lastCall
        buffers = (0..<loops).map { _ in Monitor([]) }
        segments = Monitor(RequestSegments(folder: folder, bytes: bytes, on: disk))
        thread.withLock { $0 = WorkerThread(name: "onym-requests") { [self] in run() } }
    }

    /// Adds an answered request, on the loop's thread.
    package func add(_ request: AnsweredRequest) {
        let pending = Pending(
            id: request.id, at: clock().milliseconds, nanoseconds: request.nanoseconds,
            bytesIn: request.bytesIn, bytesOut: request.bytesOut, status: request.status.rawValue,
            route: request.route, code: request.code, caller: request.caller)
        let count = buffers[request.loop].withLock { buffer in
            guard buffer.count < RequestLog.waitingAtMost else { return -1 }
            buffer.append(pending)
            return buffer.count
        }
        if count < 0 { lost.withLock { $0 += 1 } }
        if count == RequestLog.waking { turn.change { $0.isDue = true } }
    }

    /// The number of requests that no file got.
    package var dropped: Int { lost.withLock { $0 } }

    private func run() {
        while true {
            let isStopping = turn.wait(milliseconds: RequestLog.pauseMilliseconds) { turn -> Bool? in
                if turn.isStopping { return true }
                guard turn.isDue else { return nil }
                turn.isDue = false
                return false
            }
            flush()
            if isStopping == true { return }
        }
    }

    /// Writes all requests that wait into the files.
    package func flush() {
        segments.withLock { segments in
            for buffer in buffers {
                let waiting = buffer.withLock { buffer in
                    defer { buffer = [] }
                    return buffer
                }
                if waiting.isEmpty { continue }
                let last = lastCall()
                do throws(DiskFault) {
                    try segments.write(waiting.map { entry($0, last) })
                } catch {
                    // The next files may have room again.
                    lost.withLock { $0 += waiting.count }
                }
            }
        }
    }

    private func entry(_ pending: Pending, _ last: JournalSequence) -> RequestEntry {
        let id = pending.id.given.map(number(ofOwn:)) ?? Hash128(high: pending.id.high, low: pending.id.low)
        return RequestEntry(
            id: id, isOwn: pending.id.given != nil, at: Instant(milliseconds: pending.at),
            microseconds: pending.nanoseconds / 1000, route: pending.route.map { routes[$0] }, status: pending.status,
            code: pending.code, project: ProjectID(rawValue: pending.caller.project),
            key: pending.caller.key == 0 ? nil : KeyID(rawValue: pending.caller.key), bytesIn: pending.bytesIn,
            bytesOut: pending.bytesOut, last: last)
    }

    /// Stops the thread, which writes all requests first.
    package func stop() {
        turn.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - Reading

    private static let ownTag: UInt64 = 0xFFFF_FFFC_0000_0000

    private func number(ofOwn text: String) -> Hash128 { hash.hash(tag: RequestLog.ownTag, text) }

    /// The numbers that a text may have in the log: the number of an id of this server, and the hash of a client's own id.
    package func numbers(of text: String) -> [Hash128] {
        let bytes = Array(text.utf8)
        guard bytes.count == 32, let high = UInt64(text.prefix(16), radix: 16),
            let low = UInt64(text.suffix(16), radix: 16)
        else { return [number(ofOwn: text)] }
        return [Hash128(high: high, low: low), number(ofOwn: text)]
    }

    /// The moment of the oldest request; nil for an empty log.
    package var keptSince: Instant? { segments.withLock { $0.firstAt } }

    /// The requests before a place, the newest first.
    ///
    /// - Parameters:
    ///   - place: the place of the last request of the page before; nil for the newest requests.
    ///   - since: leaves older requests out.
    ///   - limit: the greatest number of requests.
    ///   - readsAll: whether to read all files; otherwise a page ends after some files.
    ///   - readLimit: the condition that ends the read early.
    package func requests(
        before place: Int?, since: Instant? = nil, limit: Int, readsAll: Bool = false, until readLimit: ReadLimit,
        where isWanted: (RequestEntry) -> Bool
    ) throws(StoreFault) -> (entries: [RequestEntry], next: Int?) {
        flush()
        let (files, disk) = segments.withLock { ($0.files, $0.disk) }
        var found: [RequestEntry] = []
        var left = readsAll ? Int.max : RequestSegments.filesAtOnce
        for file in files.reversed() where place.map({ file.number <= $0 >> RequestSegments.placeBits }) ?? true {
            if left == 0 { return (found, (file.number + 1) << RequestSegments.placeBits) }
            left -= 1
            try readLimit.check()
            // The server may remove the oldest file meanwhile.
            guard let bytes = try? disk.open(file.path, .read).read(at: 0, count: file.byteCount) else { continue }
            let content = RequestSegments.Content(bytes, number: file.number)
            for index in content.entries.reversed() {
                let at = file.number << RequestSegments.placeBits | index
                if let place, at >= place { continue }
                let entry = content.entry(index)
                if let since, entry.at < since { continue }
                guard isWanted(entry) else { continue }
                found.append(entry)
                if found.count == limit { return (found, at) }
            }
            if let since, let newest = content.entries.last, content.entry(newest).at < since { return (found, nil) }
        }
        return (found, nil)
    }

    /// The last request with an id. It may have to read all files, so the read has a limit.
    package func request(
        _ text: String, until readLimit: ReadLimit, where isWanted: (RequestEntry) -> Bool
    ) throws(StoreFault) -> RequestEntry? {
        flush()
        let numbers = numbers(of: text)
        let (files, disk) = segments.withLock { ($0.files, $0.disk) }
        for file in files.reversed() {
            try readLimit.check()
            guard let bytes = try? disk.open(file.path, .read).read(at: 0, count: file.byteCount) else { continue }
            let content = RequestSegments.Content(bytes, number: file.number)
            for index in content.entries.reversed() where numbers.contains(content.id(index)) {
                let entry = content.entry(index)
                if isWanted(entry) { return entry }
            }
        }
        return nil
    }
}

/// A request in the log.
package struct RequestEntry: Equatable, Sendable {
    /// The number of the id, or the hash of an id that the client chose.
    package let id: Hash128
    package let isOwn: Bool
    /// The moment of the answer.
    package let at: Instant
    package let microseconds: UInt64
    /// The method and the path of the route; nil without a route.
    package let route: String?
    package let status: UInt16
    package let code: String?
    /// The project of the caller; `none` for an unknown caller.
    package let project: ProjectID
    package let key: KeyID?
    package let bytesIn: Int
    package let bytesOut: Int
    /// The last call of the journal, at most a second after the answer.
    package let last: JournalSequence
}
