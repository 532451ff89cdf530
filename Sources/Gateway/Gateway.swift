package import ContentFiles
import Crypto
package import Domain
package import Engine
import HTTPMessage
package import HTTPServer
package import Outbound

/// Carries a request through a dialect and the engine, and carries the answer back.
///
/// Each call goes through the same steps in the same order: caller, limits, decode, work, encode. `Gateway+Admission.swift` has the steps
/// before the work. The kinds of work are in `Gateway+Writing.swift`, `Gateway+Steps.swift`, `Gateway+Reading.swift` and
/// `Gateway+Contents.swift`.
package final class Gateway: Sendable {
    let engine: Engine
    private let surfaces: [WireDialect]
    let limiter: RateLimiter
    let contexts: [LoopContext]
    let store: any Store
    let readers: Readers
    let watchers: Watchers
    let outbound: OutboundClient?
    let contents: ContentFolder?
    let contentSweep: ContentSweep?
    let identityTokens: IdentityTokens?
    let readTimes: ReadTimes
    let monotonic: @Sendable () -> UInt64

    /// The seconds that a client should wait while the store cannot be written.
    package static let retryAfterSeconds = 1

    /// The tools of one loop, and the loop's jobs and limits in this round.
    final class LoopContext: @unchecked Sendable {
        // Unchecked: only the loop's own thread uses it.
        let lane: Int
        let tools: LoopTools
        /// The jobs for the writer from this round's requests.
        var jobs: [Job] = []
        /// The caller of the request that the loop handles.
        var caller = CallerMark()
        /// The use of limits, for each key that has called on this loop.
        var buckets: [KeyID: RateLimiter.KeyBucket] = [:]

        init(lane: Int, tools: LoopTools) {
            self.lane = lane
            self.tools = tools
        }

        func endRound() -> [Job] {
            tools.endRound()
            guard !jobs.isEmpty else { return [] }
            defer { jobs = [] }
            return jobs
        }
    }

    /// A kind of call, as its steps need it: its row in the table of its dialect, and the dialect.
    struct CallKind: Sendable {
        let endpoint: Endpoint
        let dialect: WireDialect
        let usage: UsageFields

        /// A refusal in the dialect's words.
        func refusal(_ problem: Problem, _ id: RequestID) -> Rejection { Rejection(dialect.refuse(problem, id)) }

        /// The answer while the store cannot be read or written.
        func unavailable(_ id: RequestID) -> Response {
            dialect.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id)
        }
    }

    /// - Parameters:
    ///   - outbound: asks other servers; nil if no dialect asks other servers.
    ///   - contents: keeps bodies as files; nil if no dialect keeps files.
    ///   - identityTokens: reads the tokens that say for which people a client may speak; nil if no dialect has clients.
    ///   - lanes: the engine's queues of the loops, in the order of the loops.
    ///   - hasThreads: whether the gateway has threads of its own. Without them, the owner calls ``step()``.
    package init(
        surfaces: [WireDialect], engine: Engine, store: any Store, readers: Readers, outbound: OutboundClient? = nil,
        contents: ContentFolder? = nil, identityTokens: IdentityTokens? = nil, lanes: Range<Int>, limits: RateLimits,
        readTimes: ReadTimes = ReadTimes(), hasThreads: Bool = true, clock: @escaping @Sendable () -> Instant,
        monotonic: @escaping @Sendable () -> UInt64
    ) {
        self.engine = engine
        limiter = RateLimiter(limits)
        self.surfaces = surfaces
        self.store = store
        self.readers = readers
        self.readTimes = readTimes
        self.monotonic = monotonic
        watchers = Watchers(store: store, readers: readers, monotonic: monotonic, hasThread: hasThreads)
        self.outbound = outbound
        self.contents = contents
        self.identityTokens = identityTokens
        contentSweep = contents.map { ContentSweep(store, $0, hasThread: hasThreads) }
        contexts = lanes.map { lane in
            let look: @Sendable () -> LoopTools.Round = { .init(now: clock(), directory: store.directory) }
            return LoopContext(lane: lane, tools: LoopTools(hash: store.hash, look: look))
        }
    }

    /// The routes in the HTTP server's form.
    package var groups: [RouteGroup] {
        surfaces.map { surface in
            let usage = UsageFields(surface.usageField)
            return RouteGroup(
                name: surface.name, cors: surface.cors, traceField: surface.traceField,
                alternative: surface.alternative,
                routes: surface.routes.map { route(CallKind(endpoint: $0, dialect: surface, usage: usage)) },
                refuse: { refusal, id in surface.refuse(.http(refusal), id) })
        }
    }

    /// Passes all jobs of this round's requests to the writer together. It runs on the loop's thread.
    package func endRound(loop: Int) {
        let jobs = contexts[loop].endRound()
        if jobs.isEmpty { return }
        if !engine.submit(jobs, lane: contexts[loop].lane) {
            for job in jobs { job.done(.failure(.overloaded)) }
        }
    }

    /// Does what the gateway's own threads do otherwise.
    package func step() {
        watchers.look()
        contentSweep?.step()
    }

    /// The last use of a key since the server started.
    package func lastUse(of key: KeyID) -> Instant? { limiter.bucket(of: key).lastUse }

    /// The use that a key makes of its limits since the server started; nil for a key that has not called.
    package func limit(of key: KeyID, at now: Instant) -> KeyLimitUse? { limiter.use(of: key, at: now) }

    /// Answers all waiting questions. The readers' threads must still run.
    package func stop() {
        watchers.stop()
        contentSweep?.stop()
    }

    /// Lets go of the calls of a round that does not end any more. It is for a gateway whose owner has no threads.
    package func abandon() {
        stop()
        for context in contexts { context.jobs = [] }
    }
}

extension Gateway {
    /// Makes the route of a kind of call: the steps before the work, and the kind's work.
    private func route(_ kind: CallKind) -> Route {
        switch kind.endpoint.action {
        case .answer(let answer):
            return route(kind) { [self] request, _, context throws(Rejection) in
                let call = try admitGuest(request, kind, context, decode: answer)
                return .answer(call.usage.added(to: call.content))
            }
        case .query(let decode):
            return route(kind) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, decode: decode)
                return try ask(call.content, request.id, exchange, kind)
            }
        case .glance(let decode):
            return route(kind) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, decode: decode)
                if let response = store.glance(call.content) { return .answer(response) }
                return try ask(call.content, request.id, exchange, kind)
            }
        case .watch(let decode):
            return route(kind) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, decode: decode)
                return try wait(call.content, request.id, exchange, kind)
            }
        case .download(let decode):
            return route(kind) { [self] request, exchange, context throws(Rejection) in
                let call = try admitGuest(request, kind, context, decode: decode)
                return try send(call.content, request.id, exchange, kind)
            }
        case .call(let body, let decode):
            return route(kind, .buffered(body)) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, limitedBy: { $0.act.subjects.limitedBy }, decode: decode)
                return try handle(call, request, exchange, context, kind)
            }
        case .calls(let body, let decode):
            return route(kind, .buffered(body)) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, decode: decode)
                return try handle(call, request, exchange, context, kind)
            }
        case .steps(let body, let decode):
            return route(kind, .buffered(body)) { [self] request, exchange, context throws(Rejection) in
                let call = try admit(request, kind, context, decode: decode)
                return try begin(call, request, exchange, context, kind)
            }
        case .upload(let limit, let seconds, let decode):
            let endpoint = kind.endpoint
            return Route(
                endpoint.method, endpoint.path, otherPaths: endpoint.otherPaths, ignoresCase: endpoint.ignoresCase,
                body: .streamed(limit: limit, seconds: seconds) { [self] request, exchange in
                    upload(request, exchange, kind, decode)
                }
            ) { [self] request, exchange in
                // A call without a body gets here. The dialect answers it, as it answers an empty body.
                upload(request, exchange, kind, decode).finish()
            }
        }
    }

    private typealias Handler =
        @Sendable (borrowing Request, Exchange, LoopContext) throws(Rejection) -> Handling

    /// Makes a route whose calls can be refused at any step, and whose answers the dialect may sign.
    private func route(_ kind: CallKind, _ body: Route.Body = .none, _ handle: @escaping Handler) -> Route {
        let endpoint = kind.endpoint
        return Route(
            endpoint.method, endpoint.path, otherPaths: endpoint.otherPaths, ignoresCase: endpoint.ignoresCase,
            body: body
        ) { [self] request, exchange in
            let context = contexts[exchange.loopIndex]
            context.caller = CallerMark()
            defer { exchange.note(context.caller) }
            if let answer = endpoint.guest?(request, context.tools) { return .answer(answer) }
            guard let sign = endpoint.signing?(request, context.tools) else {
                return handled(request, exchange, context, kind, handle)
            }
            let handling = handled(request, exchange.finishing(with: sign), context, kind, handle)
            guard case .answer(let response) = handling else { return handling }
            return .answer(sign(response))
        }
    }

    private func handled(
        _ request: borrowing Request, _ exchange: Exchange, _ context: LoopContext, _ kind: CallKind, _ handle: Handler
    ) -> Handling {
        do throws(Rejection) {
            // A GET has no body, whatever its Content-Type is.
            if kind.endpoint.hasBody { try kind.dialect.checkBody?(request, context.tools) }
            return try handle(request, exchange, context)
        } catch {
            return .answer(error.response)
        }
    }
}
