package import Domain
package import Engine
import HTTPMessage
package import HTTPServer
package import Outbound
import Synchronization

/// Takes a request through a dialect and the engine, and back: bytes, decode, decide, encode, bytes.
package final class Gateway: Sendable {
    private let engine: Engine
    private let surfaces: [Surface]
    private let limiter: RateLimiter
    private let desks: [Desk]
    private let store: any Store
    private let readers: Readers
    private let outbound: OutboundClient?

    /// The most characters of an Idempotency-Key.
    package static let idempotencyKeyCharacters = 255
    /// For how long a client should wait while the store cannot be written.
    package static let retryAfterSeconds = 1

    /// What a loop works with, and what it has found out in this round.
    private final class Desk: @unchecked Sendable {
        // Unchecked: only its loop's thread touches it.
        let lane: Int
        let tools: LoopTools
        /// The jobs that this round's requests have for the writer.
        var jobs: [Job] = []
        /// What keys have used of their limits, of those that have called here.
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

    /// - Parameters:
    ///   - outbound: asks other servers; nil where no surface does.
    ///   - lanes: the lanes of the engine that belong to the loops, in their order.
    package init(
        surfaces: [Surface], engine: Engine, store: any Store, readers: Readers, outbound: OutboundClient? = nil,
        lanes: Range<Int>, limits: RateLimits, clock: @escaping @Sendable () -> Instant
    ) {
        self.engine = engine
        limiter = RateLimiter(limits)
        self.surfaces = surfaces
        self.store = store
        self.readers = readers
        self.outbound = outbound
        desks = lanes.map { lane in
            let look: @Sendable () -> LoopTools.Round = { .init(now: clock(), directory: store.directory) }
            return Desk(lane: lane, tools: LoopTools(hash: store.hash, look: look))
        }
    }

    /// The routes as the HTTP server takes them.
    package var groups: [RouteGroup] {
        surfaces.map { surface in
            let usage = UsageFields(surface.usageField)
            return RouteGroup(
                name: surface.name, cors: surface.cors, traceField: surface.traceField,
                routes: surface.routes.map { route(for: $0, of: surface, usage) },
                refuse: { refusal, id in surface.refuse(.http(refusal), id) })
        }
    }

    /// Hands what this round's requests want decided to the writer, all of it together. On the loop's thread.
    package func endRound(loop: Int) {
        let jobs = desks[loop].endRound()
        if jobs.isEmpty { return }
        if !engine.submit(jobs, lane: desks[loop].lane) {
            for job in jobs { job.done(.failure(.overloaded)) }
        }
    }

    private func route(for route: SurfaceRoute, of surface: Surface, _ usage: UsageFields) -> Route {
        switch route.action {
        case .answer(let answer):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    guard route.scope != nil else { return .answer(answer(request, nil, desk.tools)) }
                    let caller = try caller(of: request, route, surface, desk)
                    let used = try count(caller, [], request.id, route, desk, surface)
                    var response = answer(request, caller, desk.tools)
                    usage.add(used, to: &response)
                    return .answer(response)
                } catch {
                    return .answer(error.response)
                }
            }
        case .query(let decode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    let caller = try caller(of: request, route, surface, desk)
                    let query = try decode(request, caller, desk.tools)
                    _ = try count(caller, [], request.id, route, desk, surface)
                    return try ask(query, request.id, exchange, surface)
                } catch {
                    return .answer(error.response)
                }
            }
        case .collect(let body, let decode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase,
                body: .buffered(body)
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    try surface.checkBody?(request, desk.tools)
                    let caller = try caller(of: request, route, surface, desk)
                    let used = try count(caller, [], request.id, route, desk, surface)
                    let decoded = try decode(request, caller, desk.tools)
                    return try handle(
                        DecodedCommand(decoded.command), request, exchange, caller, desk, surface
                    ) { reply, _, _ in
                        var response = decoded.encode(reply)
                        usage.add(used, to: &response)
                        return response
                    }
                } catch {
                    return .answer(error.response)
                }
            }
        case .commands(let body, let decode, let encode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase,
                body: .buffered(body)
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    try surface.checkBody?(request, desk.tools)
                    let caller = try caller(of: request, route, surface, desk)
                    let decoded = try decode(request, caller, desk.tools)
                    let used = try count(caller, [], request.id, route, desk, surface)
                    return try handle(decoded, request, exchange, caller, desk, surface) { results, id in
                        var response = encode(results, id)
                        usage.add(used, to: &response)
                        return response
                    }
                } catch {
                    return .answer(error.response)
                }
            }
        case .steps(let body, let decode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase,
                body: .buffered(body)
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    try surface.checkBody?(request, desk.tools)
                    let caller = try caller(of: request, route, surface, desk)
                    let first = try decode(request, caller, desk.tools)
                    let used = try count(caller, [], request.id, route, desk, surface)
                    let errand = Errand(
                        id: request.id, project: caller.project, key: caller.key?.id,
                        idempotencyKey: try idempotencyKey(of: request, caller.project, desk.tools, surface),
                        body: Gateway.hash(request, desk.tools.hash), surface: surface)
                    return go(on: first, errand, exchange) { response in
                        var response = response
                        usage.add(used, to: &response)
                        return response
                    }
                } catch {
                    return .answer(error.response)
                }
            }
        case .command(let body, let decode, let encode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase,
                body: .buffered(body)
            ) { [self] request, exchange in
                do throws(Rejection) {
                    let desk = desks[exchange.loopIndex]
                    try surface.checkBody?(request, desk.tools)
                    let caller = try caller(of: request, route, surface, desk)
                    let decoded = try decode(request, caller, desk.tools)
                    let used = try count(caller, decoded.command.identities, request.id, route, desk, surface)
                    return try handle(decoded, request, exchange, caller, desk, surface) { reply, command, id in
                        var response = encode(reply, command, id)
                        usage.add(used, to: &response)
                        return response
                    }
                } catch {
                    return .answer(error.response)
                }
            }
        }
    }

    private func caller(
        of request: borrowing Request, _ route: SurfaceRoute, _ surface: Surface, _ desk: Desk
    ) throws(Rejection) -> Caller {
        let tools = desk.tools
        let caller = try surface.authenticate(request, route, tools.directory, tools.now, tools)
        if let scope = route.scope, !caller.scopes.contains(scope) {
            throw Rejection(surface.refuse(.forbidden(scope), request.id))
        }
        return caller
    }

    /// Counts a call, and refuses it where too many went before it. Answers how much of the key's limit is used, in percent.
    private func count(
        _ caller: Caller, _ identities: [Identity], _ id: RequestID, _ route: SurfaceRoute, _ desk: Desk,
        _ surface: Surface
    ) throws(Rejection) -> Int? {
        let now = desk.tools.now
        do throws(RateLimiter.Exceeded) {
            let used = try caller.key.flatMap { key throws(RateLimiter.Exceeded) -> Int? in
                let bucket = bucket(of: key.id, desk)
                switch route.limit {
                case .standard: return try limiter.count(bucket, at: now)
                case .claim:
                    try limiter.countClaim(bucket, at: now)
                    return nil
                case .none: return nil
                }
            }
            try limiter.count(identities, at: now)
            return used
        } catch {
            throw Rejection(
                surface.refuse(.rateLimited(error.scope, retryAfterSeconds: error.retryAfterSeconds), id))
        }
    }

    private func bucket(of key: KeyID, _ desk: Desk) -> RateLimiter.KeyBucket {
        if let bucket = desk.buckets[key] { return bucket }
        let bucket = limiter.bucket(of: key)
        desk.buckets[key] = bucket
        return bucket
    }

    /// Tells callers how much of their limit is used, in the field that the dialect has for it.
    private struct UsageFields: Sendable {
        /// By percentage, so that none is put together twice; empty where the dialect has no such field.
        private let fields: [Response.Field]

        init(_ name: String?) { fields = name.map { name in (0...100).map { .init(name, String($0)) } } ?? [] }

        func add(_ used: Int?, to response: inout Response) {
            guard let used, !fields.isEmpty, response.status.isSuccess else { return }
            response.fields.append(fields[used])
        }
    }

    /// Answers at once what changes nothing, and queues the rest.
    private func handle(
        _ decoded: DecodedCommand, _ request: borrowing Request, _ exchange: Exchange, _ caller: Caller, _ desk: Desk,
        _ surface: Surface, _ encode: @escaping @Sendable (Reply, Command, RequestID) -> Response
    ) throws(Rejection) -> Handling {
        let (id, command) = (request.id, decoded.command)
        let project = caller.project
        let key = try replayKey(decoded, request, project, desk.tools, surface)

        var call = Call(project: project, key: caller.key?.id, replayKey: key)
        switch engine.peek(call, command, lane: desk.lane, at: desk.tools.now) {
        case .reply(let reply): return .answer(encode(reply, command, id))
        case .refusal(let refusal): return .answer(surface.refuse(.refused(refusal), id))
        case .needsWriter: break
        }
        call.requestID = id.text
        if let key { call.replay = ReplayClaim(key: key, body: Gateway.hash(request, desk.tools.hash)) }
        desk.jobs.append(
            Job(call: call, command: command) { answer in
                exchange.answer(Gateway.response(to: answer, command, id, surface, encode))
            })
        return .later
    }

    /// Hands several commands to the writer, and answers when all of them are done.
    private func handle(
        _ decoded: [DecodedCommand], _ request: borrowing Request, _ exchange: Exchange, _ caller: Caller,
        _ desk: Desk, _ surface: Surface,
        _ encode: @escaping @Sendable ([Result<Reply, Refusal>], RequestID) -> Response
    ) throws(Rejection) -> Handling {
        let id = request.id
        if decoded.isEmpty { return .answer(encode([], id)) }
        let project = caller.project
        // One key for several commands: each is recognized by its place as well.
        let given = try idempotencyKey(of: request, project, desk.tools, surface)
        let body = Gateway.hash(request, desk.tools.hash)
        let answers = Answers(count: decoded.count)
        for (place, decoded) in decoded.enumerated() {
            let key = given.map { $0.at(place) } ?? decoded.replayKey
            var call = Call(project: project, key: caller.key?.id, replayKey: key)
            call.requestID = id.text
            if let key { call.replay = ReplayClaim(key: key, body: body) }
            desk.jobs.append(
                Job(call: call, command: decoded.command) { answer in
                    guard let all = answers.take(answer, at: place) else { return }
                    exchange.answer(Gateway.response(to: all, id, surface, encode))
                })
        }
        return .later
    }

    /// The answers to the commands of one request, as they come in: all of them on its loop's thread.
    private final class Answers: @unchecked Sendable {
        private var answers: [Writer.Answer?]
        private var missing: Int

        init(count: Int) {
            answers = Array(repeating: nil, count: count)
            missing = count
        }

        /// Takes one in; answers all of them with the last.
        func take(_ answer: Writer.Answer, at place: Int) -> [Writer.Answer]? {
            answers[place] = answer
            missing -= 1
            return missing == 0 ? answers.compactMap { $0 } : nil
        }
    }

    private static func response(
        to answers: [Writer.Answer], _ id: RequestID, _ surface: Surface,
        _ encode: ([Result<Reply, Refusal>], RequestID) -> Response
    ) -> Response {
        var results: [Result<Reply, Refusal>] = []
        for answer in answers {
            switch answer {
            case .success(let reply): results.append(.success(reply))
            case .failure(.refused(let refusal)): results.append(.failure(refusal))
            // What was done is recognized when the whole is sent again.
            case .failure(.fault): return surface.refuse(.unavailable(retryAfterSeconds: retryAfterSeconds), id)
            case .failure(.overloaded): return surface.refuse(.http(.overloaded), id)
            }
        }
        return encode(results, id)
    }

    /// What is kept of a request that goes through several hands.
    private struct Errand: Sendable {
        let id: RequestID
        let project: ProjectID
        let key: KeyID?
        let idempotencyKey: ReplayKey?
        let body: Hash128
        let surface: Surface
    }

    /// Takes a call's next step. On the loop's thread.
    private func go(
        on step: Step, _ errand: Errand, _ exchange: Exchange, finish: @escaping @Sendable (Response) -> Response
    ) -> Handling {
        switch step {
        case .answer(let response): return .answer(finish(response))
        case .command(let decoded, let encode):
            let key = errand.idempotencyKey ?? decoded.replayKey
            var call = Call(project: errand.project, key: errand.key, replayKey: key)
            call.requestID = errand.id.text
            if let key { call.replay = ReplayClaim(key: key, body: errand.body) }
            desks[exchange.loopIndex].jobs.append(
                Job(call: call, command: decoded.command) { answer in
                    let response = Gateway.response(to: answer, decoded.command, errand.id, errand.surface, encode)
                    exchange.answer(finish(response))
                })
            return .later
        case .ask(let call, let then):
            guard let outbound else {
                preconditionFailure("A surface asks other servers, and nobody is there to do it.")
            }
            outbound.submit(call) { [self] result in
                exchange.post { [self] in
                    let next = then(result, desks[exchange.loopIndex].tools)
                    if case .answer(let response) = go(on: next, errand, exchange, finish: finish) {
                        exchange.answer(response)
                    }
                }
            }
            return .later
        }
    }

    /// Has a question answered by a thread that may wait for the disk.
    private func ask(
        _ query: @escaping SurfaceRoute.SurfaceQuery, _ id: RequestID, _ exchange: Exchange, _ surface: Surface
    ) throws(Rejection) -> Handling {
        let isTaken = readers.submit { [store] in
            let response: Response
            do throws(StoreFault) {
                response = try store.read(query)
            } catch {
                response = surface.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id)
            }
            exchange.post { exchange.answer(response) }
        }
        guard isTaken else { throw Rejection(surface.refuse(.http(.overloaded), id)) }
        return .later
    }

    private static func response(
        to answer: Writer.Answer, _ command: Command, _ id: RequestID, _ surface: Surface,
        _ encode: (Reply, Command, RequestID) -> Response
    ) -> Response {
        switch answer {
        case .success(let reply): encode(reply, command, id)
        case .failure(.refused(let refusal)): surface.refuse(.refused(refusal), id)
        case .failure(.fault): surface.refuse(.unavailable(retryAfterSeconds: retryAfterSeconds), id)
        case .failure(.overloaded): surface.refuse(.http(.overloaded), id)
        }
    }

    /// What a repetition of the call would be recognized by: its Idempotency-Key before the dialect's own id.
    private func replayKey(
        _ decoded: DecodedCommand, _ request: borrowing Request, _ project: ProjectID, _ tools: LoopTools,
        _ surface: Surface
    ) throws(Rejection) -> ReplayKey? {
        try idempotencyKey(of: request, project, tools, surface) ?? decoded.replayKey
    }

    private func idempotencyKey(
        of request: borrowing Request, _ project: ProjectID, _ tools: LoopTools, _ surface: Surface
    ) throws(Rejection) -> ReplayKey? {
        let given = request.withField("idempotency-key") { text -> ReplayKey? in
            guard (1...Gateway.idempotencyKeyCharacters).contains(text.count) else { return nil }
            return ReplayKey(.idempotencyKey, text, in: project, hash: tools.hash)
        }
        guard let given else { return nil }
        guard let key = given else { throw Rejection(surface.refuse(.badIdempotencyKey, request.id)) }
        return key
    }

    /// The hash of what a call asks for: where, and with which body.
    private static func hash(_ request: borrowing Request, _ hash: KeyedHash) -> Hash128 {
        let path = hash.hash(tag: 0, request.rawPath)
        return hash.hash(tag: path.low, request.body.span)
    }
}
