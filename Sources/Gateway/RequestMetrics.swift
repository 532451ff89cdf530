package import Domain
package import Engine
import HTTPMessage
package import HTTPServer
package import Telemetry
import Threads

/// A time at which somebody set the clock of the server.
package struct SeenStep: Equatable, Sendable {
    /// The moment after the step.
    package let at: Instant
    /// The time by which the clock was set ahead; negative for a clock that was set back.
    package let milliseconds: Int64
}

/// Counts the work of the server and the engine, for Prometheus. Each loop has its own counters.
package final class RequestMetrics: ServerObserver, EngineObserver {
    private let routes: [String]
    private let requests: [Counters]
    private let latencies: [[Histogram]]
    private let batches = Histogram(smallest: 1, buckets: 12)
    private let commits = Histogram(smallest: 64_000, buckets: 18)
    private let fulls = Counters(count: Full.allCases.count)
    private let holds = Histogram(smallest: 500, buckets: 20)
    private let connections = Counters(count: Connection.allCases.count)
    private let faults = Counters(count: 1)
    private let clockJumps = Counters(count: 1)
    private let unproven = Counters(count: Dialect.allCases.count)
    private let warnings: ClientWarnings
    private let log: RequestLog?
    private let seenFault = Monitor<(text: String, at: UInt64)?>(nil)
    private let seenSteps = Monitor<[(step: SeenStep, at: UInt64)]>([])
    private let monotonic: @Sendable () -> UInt64
    private let faultLog: RepeatedLog
    private let recoveryLog: RepeatedLog
    private let clockLog: RepeatedLog

    private static let stepsAtMost = 20
    private static let stepShownNanoseconds: UInt64 = 3600 * 1_000_000_000

    private enum Connection: Int, CaseIterable { case opened, closed, refused }

    /// The statuses with a counter of their own; any other status counts as the last of the list.
    private static let statuses: [UInt16] = [
        200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 417, 422, 429, 431,
        500,
        501, 502, 503, 505, 0,
    ]
    private static let statusIndex: [UInt8] = {
        var index = [UInt8](repeating: UInt8(statuses.count - 1), count: 600)
        for (place, status) in statuses.enumerated() { index[Int(status)] = UInt8(place) }
        return index
    }()

    /// Makes the counters.
    ///
    /// - Parameters:
    ///   - surfaces: the dialects in the server's order, so that routes are counted under their names.
    ///   - loops: the number of loops.
    ///   - logger: writes the faults.
    ///   - warnings: the counts of calls without the effect that the client expects.
    ///   - log: keeps the requests; nil to keep none.
    ///   - monotonic: a clock for the pauses of the log.
    package init(
        surfaces: [WireDialect], loops: Int, logger: Logger, warnings: ClientWarnings, log: RequestLog? = nil,
        monotonic: @escaping @Sendable () -> UInt64 = MonotonicClock.nanoseconds
    ) {
        self.warnings = warnings
        self.log = log
        self.monotonic = monotonic
        faultLog = RepeatedLog(logger, monotonic: monotonic)
        recoveryLog = RepeatedLog(logger, monotonic: monotonic)
        clockLog = RepeatedLog(logger, monotonic: monotonic)
        routes = RequestMetrics.routes(of: surfaces) + ["none"]
        let routeCount = routes.count
        requests = (0..<loops).map { _ in Counters(count: routeCount * RequestMetrics.statuses.count) }
        latencies = (0..<loops).map { _ in (0..<routeCount).map { _ in Histogram(smallest: 16_000, buckets: 20) } }
    }

    /// The names of the routes, in the order of their ordinals.
    package static func routes(of surfaces: [WireDialect]) -> [String] {
        surfaces.flatMap { surface in surface.routes.map { "\($0.method.name) \($0.path)" } }
    }

    // MARK: - ServerObserver

    package func answered(_ request: AnsweredRequest) {
        let route = request.route ?? routes.count - 1
        let status = RequestMetrics.statusIndex[min(Int(request.status.rawValue), 599)]
        requests[request.loop].add(at: route * RequestMetrics.statuses.count + Int(status))
        latencies[request.loop][route].record(request.nanoseconds)
        log?.add(request)
    }

    package func openedConnection() { connections.add(at: Connection.opened.rawValue) }
    package func closedConnection() { connections.add(at: Connection.closed.rawValue) }
    package func refusedConnection() { connections.add(at: Connection.refused.rawValue) }

    // MARK: - EngineObserver

    package func committed(calls: Int, nanoseconds: UInt64) {
        batches.record(UInt64(calls))
        commits.record(nanoseconds)
    }

    package func faulted(_ fault: StoreFault) {
        faults.add(at: 0)
        let now = monotonic()
        seenFault.withLock { $0 = (fault.description, now) }
        faultLog.log(.error, "The store failed.", [("fault", .text(fault.description))])
    }

    /// The last fault of the store, and the time since then in milliseconds; nil if the store has not failed.
    package var lastFault: (text: String, agoMilliseconds: Int64)? {
        let now = monotonic()
        return seenFault.withLock { seen in
            seen.map { ($0.text, Int64((max(now, $0.at) - $0.at) / 1_000_000)) }
        }
    }

    package func recovered() {
        recoveryLog.log(.info, "The store is open again.")
    }

    package func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64) {
        clockJumps.add(at: 0)
        let seen = (step: SeenStep(at: moment, milliseconds: milliseconds), at: monotonic())
        seenSteps.withLock { $0 = $0.suffix(RequestMetrics.stepsAtMost - 1) + [seen] }
        clockLog.log(
            .warning, "The clock was set.", [("by_seconds", .integer(Int(milliseconds / 1000)))])
    }

    /// The last times that somebody set the clock, the oldest first.
    package var clockSteps: [SeenStep] { seenSteps.withLock { $0.map(\.step) } }

    /// The sentence about a clock that was set in the last hour.
    package var clockProblem: String? {
        let now = monotonic()
        guard let (step, at) = seenSteps.withLock({ $0.last }),
            now - min(now, at) < RequestMetrics.stepShownNanoseconds
        else { return nil }
        return "The clock was set \(step.milliseconds > 0 ? "ahead" : "back") by \(abs(step.milliseconds) / 1000) s."
    }

    package func tookUnproven(_ dialect: Dialect, calls: Int) {
        guard let place = Dialect.allCases.firstIndex(of: dialect) else { return }
        unproven.add(UInt64(calls), at: place)
    }

    /// Records for how many nanoseconds the writer kept readers out of the index.
    package func held(nanoseconds: UInt64) { holds.record(nanoseconds) }

    package func metFull(_ full: Full, calls: Int) {
        guard let place = Full.allCases.firstIndex(of: full) else { return }
        fulls.add(UInt64(calls), at: place)
    }

    // MARK: - Telling

    package func write(
        store: StoreCounts, queueDepth: Int, clockBehindMilliseconds: Int64, memoryBytes: Int?,
        callLog: CallLog.Figures? = nil, to text: inout MetricsText
    ) {
        writeRequests(to: &text)
        writeWork(to: &text, clockBehindMilliseconds)
        writeWarnings(to: &text)
        text.gauge("onym_queue_calls", help: "Calls that wait for the writer.", queueDepth)
        text.gauge("onym_people", help: "People, without erased people.", store.people)
        text.gauge("onym_identities", help: "Identities that a person holds.", store.identities)
        text.gauge("onym_links", help: "Links between people and identities.", store.links)
        text.gauge(
            "onym_journal_sequence", help: "The last change's place in the journal.", store.lastSequence.rawValue)
        if let callLog {
            text.begin(
                "onym_call_log_calls_total", .counter,
                help: "Calls for dry runs that the call log kept, left out as repetitions, or had no room for.")
            let counts = [("kept", callLog.kept), ("repeated", callLog.repeated), ("dropped", callLog.dropped)]
            for (fate, count) in counts {
                text.sample("onym_call_log_calls_total", labels: [("fate", fate)], count)
            }
            text.counter("onym_call_log_bytes_total", help: "Bytes of calls that the call log kept.", callLog.bytes)
        }
        if let log {
            text.counter(
                "onym_request_log_dropped_total",
                help: "Requests that the log of requests has not kept, because its writing was too slow or failed.",
                log.dropped)
        }
        if let memoryBytes {
            text.gauge("process_resident_memory_bytes", help: "Memory in use.", memoryBytes)
        }
    }

    /// Requests, and the connections on which they came.
    private func writeRequests(to text: inout MetricsText) {
        text.begin("onym_http_requests_total", .counter, help: "Requests answered, by route and status.")
        for (route, name) in routes.enumerated() {
            for (place, status) in RequestMetrics.statuses.enumerated() {
                let index = route * RequestMetrics.statuses.count + place
                let count = requests.reduce(0) { $0 + $1[index] }
                guard count > 0 else { continue }
                let labels = [("route", name), ("status", status == 0 ? "other" : String(status))]
                text.sample("onym_http_requests_total", labels: labels, count)
            }
        }
        text.begin(
            "onym_http_request_duration_seconds", .histogram,
            help: "From a request's last byte to its answer, by route.")
        for (route, name) in routes.enumerated() {
            let snapshot = Histogram.sum(latencies.map { $0[route] })
            guard snapshot.counts.contains(where: { $0 > 0 }) else { continue }
            text.histogram("onym_http_request_duration_seconds", labels: [("route", name)], snapshot, unit: 1e9)
        }
        let opened = connections[Connection.opened.rawValue]
        text.gauge("onym_connections", help: "Open connections.", opened &- connections[Connection.closed.rawValue])
        text.counter("onym_connections_total", help: "Accepted connections.", opened)
        text.counter(
            "onym_connections_refused_total", help: "Connections refused because there were too many.",
            connections[Connection.refused.rawValue])
    }

    /// The work of the writer and of the store, and their clock.
    private func writeWork(to text: inout MetricsText, _ clockBehindMilliseconds: Int64) {
        text.begin("onym_batch_calls", .histogram, help: "Calls decided in one batch.")
        text.histogram("onym_batch_calls", Histogram.sum([batches]), unit: 1)
        text.begin("onym_batch_duration_seconds", .histogram, help: "A batch from its loading to its commit.")
        text.histogram("onym_batch_duration_seconds", Histogram.sum([commits]), unit: 1e9)
        text.begin(
            "onym_index_hold_seconds", .histogram,
            help: "Time for which the writer kept readers out of the index, each time.")
        text.histogram("onym_index_hold_seconds", Histogram.sum([holds]), unit: 1e9)
        text.counter("onym_store_faults_total", help: "Times that the store failed.", faults[0])
        text.counter("onym_clock_jumps_total", help: "Times that the clock was set, ahead or back.", clockJumps[0])
        text.gauge(
            "onym_clock_behind_seconds",
            help: "Seconds by which the clock is behind the last call of the journal.",
            clockBehindMilliseconds / 1000)
    }

    /// Calls that a developer may want to change.
    private func writeWarnings(to text: inout MetricsText) {
        text.begin(
            "onym_unproven_calls_total", .counter,
            help: "Accepted calls that named a known user without a token, by dialect.")
        for (place, dialect) in Dialect.allCases.enumerated() where dialect != .native && dialect != .linking {
            text.sample("onym_unproven_calls_total", labels: [("dialect", dialect.rawValue)], unproven[place])
        }
        text.begin(
            "onym_full_calls_total", .counter,
            help: "Calls that met a person or a group at its limit, by the limit.")
        for (place, full) in Full.allCases.enumerated() where full != .receipt {
            text.sample("onym_full_calls_total", labels: [("full", full.rawValue)], fulls[place])
        }
        text.begin(
            "onym_shared_receipts_total", .counter,
            help: "Proofs of purchases that more installs or identities have proven in 30 days than is usual.")
        for (place, full) in Full.allCases.enumerated() where full == .receipt {
            text.sample("onym_shared_receipts_total", fulls[place])
        }
        warnings.write(to: &text)
    }
}
