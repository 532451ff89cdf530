package import ContentFiles
import Crypto
package import Domain
package import Engine
import HTTPMessage
package import HTTPServer
package import Outbound
import Synchronization

/// Carries a request through a dialect and the engine, and carries the answer back: bytes, decode, decide, encode, bytes.
package final class Gateway: Sendable {
    private let engine: Engine
    private let surfaces: [WireDialect]
    private let limiter: RateLimiter
    private let contexts: [LoopContext]
    private let store: any Store
    private let readers: Readers
    private let watchers: Watchers
    private let outbound: OutboundClient?
    private let contents: ContentFolder?
    private let contentSweep: ContentSweep?
    private let identityTokens: IdentityTokens?
    private let readTimes: ReadTimes
    private let monotonic: @Sendable () -> UInt64

    /// The greatest length of an Idempotency-Key in characters.
    package static let idempotencyKeyCharacters = 255
    /// A number that makes keys of the sandbox differ from keys of production. It is larger than the number of commands of
    /// any request.
    private static let sandboxPlace = 1 << 20
    /// The seconds that a client should wait while the store cannot be written.
    package static let retryAfterSeconds = 1

    /// The tools of one loop, and the loop's jobs and limits in this round.
    private final class LoopContext: @unchecked Sendable {
        // Unchecked: only the loop's own thread uses it.
        let lane: Int
        let tools: LoopTools
        /// The jobs for the writer from this round's requests.
        var jobs: [Job] = []
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
                routes: surface.routes.map { route(for: $0, of: surface, usage) },
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

    private func route(for route: Endpoint, of surface: WireDialect, _ usage: UsageFields) -> Route {
        switch route.action {
        case .answer(let answer):
            return served(route) { [self] request, exchange, context throws(Rejection) in
                guard route.scope != nil else { return .answer(answer(request, nil, context.tools)) }
                let caller = try caller(of: request, route, surface, context)
                let used = try count(caller, [], request.id, route, context, surface)
                var response = answer(request, caller, context.tools)
                usage.add(used, to: &response)
                return .answer(response)
            }
        case .query(let decode):
            return served(route) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                _ = try count(caller, [], request.id, route, context, surface)
                let query = try decode(request, caller, context.tools)
                return try ask(query, request.id, exchange, surface)
            }
        case .glance(let decode):
            return served(route) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                let query = try decode(request, caller, context.tools)
                _ = try count(caller, [], request.id, route, context, surface)
                if let response = store.glance(query) { return .answer(response) }
                return try ask(query, request.id, exchange, surface)
            }
        case .watch(let decode):
            return served(route) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                let watch = try decode(request, caller, context.tools)
                _ = try count(caller, [], request.id, route, context, surface)
                return try wait(watch, request.id, exchange, surface)
            }
        case .upload(let limit, let seconds, let decode):
            return Route(
                route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase,
                body: .streamed(limit: limit, seconds: seconds) { [self] request, exchange in
                    upload(request, exchange, route, surface, decode)
                }
            ) { [self] request, exchange in
                // A call without a body gets here. The dialect answers it, as it answers an empty body.
                upload(request, exchange, route, surface, decode).finish()
            }
        case .download(let decode):
            return served(route) { [self] request, exchange, context throws(Rejection) in
                var caller: Caller?
                if route.scope != nil {
                    let known = try self.caller(of: request, route, surface, context)
                    _ = try count(known, [], request.id, route, context, surface)
                    caller = known
                }
                return try send(try decode(request, caller, context.tools), request.id, exchange, surface)
            }
        case .calls(let body, let decode):
            return served(route, body, of: surface) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                let decoded = try decode(request, caller, context.tools)
                let used = try count(caller, [], request.id, route, context, surface)
                let note = UsageNote(usage, used)
                return try handle(decoded, request, exchange, caller, context, surface) { results, id in
                    note.added(to: decoded.encode(results, id))
                }
            }
        case .steps(let body, let decode):
            return served(route, body, of: surface) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                // The limit of claims counts before the server reads any other part of the call.
                let isCounted = route.limit == .claim
                if isCounted { _ = try count(caller, [], request.id, route, context, surface) }
                let first = try decode(request, caller, context.tools)
                let used = isCounted ? nil : try count(caller, [], request.id, route, context, surface)
                let progress = CallInProgress(
                    id: request.id, project: caller.project, key: caller.key?.id, proof: caller.proof,
                    idempotencyKey: try idempotencyKey(of: request, caller, context.tools, surface),
                    body: Gateway.hash(request, context.tools.hash), surface: surface)
                return run(step: first, progress, exchange, UsageNote(usage, used))
            }
        case .call(let body, let decode):
            return served(route, body, of: surface) { [self] request, exchange, context throws(Rejection) in
                let caller = try caller(of: request, route, surface, context)
                // The limit of claims counts before the server reads the body.
                let isCounted = route.limit == .claim
                if isCounted { _ = try count(caller, [], request.id, route, context, surface) }
                let call = try decode(request, caller, context.tools)
                let used =
                    isCounted
                    ? nil : try count(caller, call.act.subjects.limitedBy, request.id, route, context, surface)
                return try handle(call, request, exchange, caller, context, surface, UsageNote(usage, used))
            }
        }
    }

    /// Makes a route whose calls can be refused at any point.
    private func served(
        _ route: Endpoint,
        _ handle: @escaping @Sendable (borrowing Request, Exchange, LoopContext) throws(Rejection) -> Handling
    ) -> Route {
        served(route, .none, handle)
    }

    /// Makes the same for calls with a body, which the dialect can check first.
    private func served(
        _ route: Endpoint, _ body: BufferedBody, of surface: WireDialect,
        _ handle: @escaping @Sendable (borrowing Request, Exchange, LoopContext) throws(Rejection) -> Handling
    ) -> Route {
        served(route, .buffered(body)) { request, exchange, context throws(Rejection) in
            // A GET has no body, whatever its Content-Type is.
            if route.method != .get { try surface.checkBody?(request, context.tools) }
            return try handle(request, exchange, context)
        }
    }

    private func served(
        _ route: Endpoint, _ body: Route.Body,
        _ handle: @escaping @Sendable (borrowing Request, Exchange, LoopContext) throws(Rejection) -> Handling
    ) -> Route {
        Route(
            route.method, route.path, otherPaths: route.otherPaths, ignoresCase: route.ignoresCase, body: body
        ) { [self] request, exchange in
            let context = contexts[exchange.loopIndex]
            if let answer = route.guest?(request, context.tools) { return .answer(answer) }
            guard let sign = route.signing?(request, context.tools) else {
                do throws(Rejection) {
                    return try handle(request, exchange, context)
                } catch {
                    return .answer(error.response)
                }
            }
            do throws(Rejection) {
                let handling = try handle(request, exchange.finishing(with: sign), context)
                guard case .answer(let response) = handling else { return handling }
                return .answer(sign(response))
            } catch {
                return .answer(sign(error.response))
            }
        }
    }

    private func caller(
        of request: borrowing Request, _ route: Endpoint, _ surface: WireDialect, _ context: LoopContext
    ) throws(Rejection) -> Caller {
        let tools = context.tools
        var caller = try surface.authenticate(request, route, tools.directory, tools.now, tools)
        caller.proof = identityTokens?.proof(request, caller, tools)
        if caller.proof != nil { caller.strategy = tools.directory.strategy(of: caller.project) }
        if let proof = caller.proof, proof.mode == .log {
            var call = Call(project: caller.project, key: caller.key?.id)
            call.requestID = request.id.text
            // A question can be read several times, but counts as one call.
            let isNoted = Atomic(false)
            caller.note = { [engine, call, lane = context.lane] fault, person in
                guard !isNoted.exchange(true, ordering: .relaxed) else { return }
                let note = NoteUnproven(fault, about: person, by: proof.dialect)
                // If the queue is full, the note is lost. It is the least important job.
                _ = engine.submit([Job(call: call, act: note)], lane: lane)
            }
        }
        if let scope = route.scope, !caller.scopes.allows(scope) {
            throw Rejection(surface.refuse(.forbidden(scope), request.id))
        }
        if request.hasField("origin"), let app = caller.key?.app.flatMap({ tools.directory.apps[$0] }),
            !app.webOrigins.isEmpty, !app.webOrigins.contains(request.field("origin")?.lowercased() ?? "")
        {
            throw Rejection(surface.refuse(.foreignOrigin, request.id))
        }
        return caller
    }

    /// Counts a call, and refuses the call if its key or an identity was named too often. Answers the used part of the key's
    /// limit in percent.
    private func count(
        _ caller: Caller, _ identities: [Identity], _ id: RequestID, _ route: Endpoint, _ context: LoopContext,
        _ surface: WireDialect
    ) throws(Rejection) -> Int? {
        let now = context.tools.now
        do throws(RateLimiter.Exceeded) {
            let used = try caller.key.flatMap { key throws(RateLimiter.Exceeded) -> Int? in
                let bucket = bucket(of: key.id, context)
                if bucket.use(at: now) {
                    let call = Call(project: key.project, key: nil)
                    context.jobs.append(Job(call: call, act: NoteKeyUse(key.id, at: now)))
                }
                // A page asks for changes by itself, so this is no use by a person.
                if key.kind == .console, !route.isWatch, caller.isUse,
                    context.tools.directory.console(of: key.project).needsNote(of: key, at: now)
                {
                    let call = Call(project: key.project, key: nil)
                    context.jobs.append(Job(call: call, act: NoteConsoleUse(key.id, at: now)))
                }
                switch route.limit {
                case .standard: return try limiter.count(bucket, at: now)
                case .claim:
                    try limiter.countClaim(bucket, at: now)
                    return nil
                case .none: return nil
                }
            }
            // An install has no key of its own, so its name counts.
            if let install = caller.install { try limiter.count([install.name], at: now) }
            try limiter.count(identities, at: now)
            return used
        } catch {
            throw Rejection(
                surface.refuse(.rateLimited(error.scope, retryAfterSeconds: error.retryAfterSeconds), id))
        }
    }

    /// The last use of a key since the server started.
    package func lastUse(of key: KeyID) -> Instant? { limiter.bucket(of: key).lastUse }

    private func bucket(of key: KeyID, _ context: LoopContext) -> RateLimiter.KeyBucket {
        if let bucket = context.buckets[key] { return bucket }
        let bucket = limiter.bucket(of: key)
        context.buckets[key] = bucket
        return bucket
    }

    /// Writes the used part of a caller's limit, in the dialect's field.
    private struct UsageFields: Sendable {
        /// The fields by percentage, so that each field is made once; empty for dialects without the field.
        private let fields: [Response.Field]

        init(_ name: String?) { fields = name.map { name in (0...100).map { .init(name, String($0)) } } ?? [] }

        func add(_ used: Int?, to response: inout Response) {
            guard let used, !fields.isEmpty, response.status.isSuccess else { return }
            response.fields.append(fields[used])
        }
    }

    /// The part of a key's limit that a call has used, for the call's answer.
    private struct UsageNote: Sendable {
        private let fields: UsageFields
        private let used: Int?

        init(_ fields: UsageFields, _ used: Int?) {
            self.fields = fields
            self.used = used
        }

        func added(to response: Response) -> Response {
            guard used != nil else { return response }
            var response = response
            fields.add(used, to: &response)
            return response
        }
    }

    /// Answers at once a call that changes nothing, and queues other calls.
    private func handle(
        _ prepared: PreparedCall, _ request: borrowing Request, _ exchange: Exchange, _ caller: Caller,
        _ context: LoopContext,
        _ surface: WireDialect, _ usage: UsageNote
    ) throws(Rejection) -> Handling {
        let id = request.id
        let key = try replayKey(prepared, request, caller, context.tools, surface)
        var call = Call(project: caller.project, key: caller.key?.id, replayKey: key)
        call.proof = caller.proof
        switch engine.peek(call, prepared.act, lane: context.lane, at: context.tools.now) {
        case .reply(let reply):
            return .answer(usage.added(to: Gateway.response(to: .success(reply), prepared, id, surface)))
        case .refusal(let refusal): return .answer(surface.refuse(.refused(refusal), id))
        case .needsWriter: break
        }
        call.requestID = id.text
        if let key { call.replay = ReplayClaim(key: key, body: Gateway.hash(request, context.tools.hash)) }
        queue(call, prepared, id, surface, context) { exchange.answer(usage.added(to: $0)) }
        return .later
    }

    /// Queues a call for the writer, and answers after the commit.
    private func queue(
        _ call: Call, _ prepared: PreparedCall, _ id: RequestID, _ surface: WireDialect, _ context: LoopContext,
        _ answer: @escaping @Sendable (Response) -> Void
    ) {
        context.jobs.append(
            Job(call: call, act: prepared.act) { [self] result in
                if case .success(let reply) = result { removeContents(orphanedBy: reply) }
                answer(Gateway.response(to: result, prepared, id, surface))
            })
    }

    private func removeContents(orphanedBy reply: Reply) {
        switch reply.answer.orphans {
        case .none: break
        case .content(let digest): if let digest = Digest(digest) { removeIfUnused(digest) }
        case .contentsOfPeople: removeUnusedContents()
        }
    }

    /// Queues several acts for the writer, and answers after the last of them.
    private func handle(
        _ decoded: PreparedCalls, _ request: borrowing Request, _ exchange: Exchange, _ caller: Caller,
        _ context: LoopContext, _ surface: WireDialect,
        _ encode: @escaping @Sendable ([Result<Reply, Refusal>], RequestID) -> Response
    ) throws(Rejection) -> Handling {
        let id = request.id
        if decoded.acts.isEmpty { return .answer(encode([], id)) }
        // The request has one key for several acts: the place tells the acts apart.
        let given = try idempotencyKey(of: request, caller, context.tools, surface)
        let body = Gateway.hash(request, context.tools.hash)
        let answers = Answers(count: decoded.acts.count)
        let group = decoded.acts.count > 1 ? JobGroup() : nil
        for (place, (act, ownKey)) in decoded.acts.enumerated() {
            let key = given.map { $0.at(place) } ?? ownKey
            var call = Call(project: caller.project, key: caller.key?.id, replayKey: key)
            call.proof = caller.proof
            call.requestID = id.text
            if let key { call.replay = ReplayClaim(key: key, body: body) }
            context.jobs.append(
                Job(call: call, act: act, in: group) { answer in
                    guard let all = answers.take(answer, at: place) else { return }
                    exchange.answer(Gateway.response(to: all, id, surface, encode))
                })
        }
        return .later
    }

    /// Gathers the answers to one request's commands, on the loop's thread.
    private final class Answers: @unchecked Sendable {
        private var answers: [Writer.Answer?]
        private var missing: Int

        init(count: Int) {
            answers = Array(repeating: nil, count: count)
            missing = count
        }

        /// Adds an answer; the last addition returns all answers.
        func take(_ answer: Writer.Answer, at place: Int) -> [Writer.Answer]? {
            answers[place] = answer
            missing -= 1
            return missing == 0 ? answers.compactMap { $0 } : nil
        }
    }

    private static func response(
        to answers: [Writer.Answer], _ id: RequestID, _ surface: WireDialect,
        _ encode: ([Result<Reply, Refusal>], RequestID) -> Response
    ) -> Response {
        var results: [Result<Reply, Refusal>] = []
        for answer in answers {
            switch answer {
            case .success(let reply): results.append(.success(reply))
            case .failure(.refused(let refusal)): results.append(.failure(refusal))
            // If the client sends the whole request again, the server recognizes the acts that are already done.
            case .failure(let failure): return response(to: failure, id, surface)
            }
        }
        return encode(results, id)
    }

    /// The state of a request that takes several steps.
    private struct CallInProgress: Sendable {
        let id: RequestID
        let project: ProjectID
        let key: KeyID?
        let proof: IdentityProof?
        let idempotencyKey: ReplayKey?
        let body: Hash128
        let surface: WireDialect
    }

    /// Runs a call's next step, on the loop's thread.
    private func run(
        step: Step, _ progress: CallInProgress, _ exchange: Exchange, _ usage: UsageNote
    ) -> Handling {
        switch step {
        case .answer(let response): return .answer(usage.added(to: response))
        case .call(let prepared):
            let key = progress.idempotencyKey ?? prepared.replayKey
            var call = Call(project: progress.project, key: progress.key, replayKey: key)
            call.proof = progress.proof
            call.requestID = progress.id.text
            if let key { call.replay = ReplayClaim(key: key, body: progress.body) }
            queue(call, prepared, progress.id, progress.surface, contexts[exchange.loopIndex]) { response in
                exchange.answer(usage.added(to: response))
            }
            return .later
        case .decide(let act, let then):
            var call = Call(project: progress.project, key: progress.key)
            call.proof = progress.proof
            call.requestID = progress.id.text
            contexts[exchange.loopIndex].jobs.append(
                Job(call: call, act: act) { [self] answer in
                    let result: Result<Reply, Refusal>
                    switch answer {
                    case .success(let reply): result = .success(reply)
                    case .failure(.refused(let refusal)): result = .failure(refusal)
                    case .failure(let failure):
                        exchange.answer(Gateway.response(to: failure, progress.id, progress.surface))
                        return
                    }
                    let next = then(result, contexts[exchange.loopIndex].tools)
                    if case .answer(let response) = run(step: next, progress, exchange, usage) {
                        exchange.answer(response)
                    }
                })
            return .later
        case .read(let look):
            let limit = limit(for: exchange)
            let isTaken = readers.submit { [self] in
                let next: Step
                do throws(StoreFault) {
                    next = try store.read(until: limit()) { snapshot throws(StoreFault) in
                        try look(try RoutedSnapshot.over(snapshot))
                    }
                } catch {
                    next = .answer(
                        progress.surface.refuse(
                            .unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), progress.id))
                }
                exchange.post { [self] in
                    if case .answer(let response) = run(step: next, progress, exchange, usage) {
                        exchange.answer(response)
                    }
                }
            }
            return isTaken ? .later : .answer(progress.surface.refuse(.http(.overloaded), progress.id))
        case .ask(let call, let then):
            guard let outbound else {
                preconditionFailure("A surface asks other servers, and nobody is there to do it.")
            }
            outbound.submit(call) { [self] result in
                exchange.post { [self] in
                    let next = then(result, contexts[exchange.loopIndex].tools)
                    if case .answer(let response) = run(step: next, progress, exchange, usage) {
                        exchange.answer(response)
                    }
                }
            }
            return .later
        }
    }

    /// Writes a body into a file, and queues the act for it. If the act is refused, the file is removed again.
    private func upload(
        _ request: borrowing Request, _ exchange: Exchange, _ route: Endpoint, _ surface: WireDialect,
        _ decode: (borrowing Request, Caller, LoopTools) throws(Rejection) -> ContentUpload
    ) -> any BodySink {
        guard let contents else { preconditionFailure("A surface takes files, and there is no folder for them.") }
        let (context, id) = (contexts[exchange.loopIndex], request.id)
        func refusing(_ response: Response) -> ContentSink {
            let sink = ContentSink(contents, exchange, readers: readers.submit) { outcome in
                if case .response(let response) = outcome { exchange.answer(response) }
            }
            sink.refuse(response)
            return sink
        }
        do throws(Rejection) {
            let caller = try caller(of: request, route, surface, context)
            _ = try count(caller, [], id, route, context, surface)
            let upload = try decode(request, caller, context.tools)
            let sink = ContentSink(contents, exchange, readers: readers.submit) { [self] outcome in
                switch outcome {
                case .response(let response): exchange.answer(response)
                case .fault:
                    exchange.answer(
                        surface.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id))
                case .kept(let byteCount, let digest, let first):
                    var call = Call(project: caller.project, key: caller.key?.id)
                    call.requestID = id.text
                    // The server makes this call itself, so the client's proof does not matter.
                    if let first { context.jobs.append(Job(call: call, act: first) { _ in }) }
                    call.proof = caller.proof
                    queue(call, upload.call(byteCount, digest), id, surface, context) { [self] response in
                        exchange.answer(response)
                        contents.release(digest)
                        removeIfUnused(digest)
                    }
                }
            }
            let limit = limit(for: exchange)
            sink.begin { [store] () throws(StoreFault) in try store.read(until: limit(), upload.check) }
            return sink
        } catch {
            return refusing(error.response)
        }
    }

    /// Removes a file that no fact names any more. A file that a crash leaves is removed when the server starts again.
    private func removeIfUnused(_ digest: Digest) {
        guard let contentSweep else { return }
        _ = readers.submit { contentSweep.remove(digest) }
    }

    /// Removes all files that no fact names: files of a crash, and files of erased people. The server answers calls
    /// meanwhile.
    package func removeUnusedContents() { contentSweep?.request() }

    /// Answers with a file, or with the other answer if the file does not exist.
    private func send(
        _ query: @escaping @Sendable (any Snapshot) throws(StoreFault) -> ContentAnswer, _ id: RequestID,
        _ exchange: Exchange, _ surface: WireDialect
    ) throws(Rejection) -> Handling {
        guard let contents else { preconditionFailure("A surface has files, and there is no folder for them.") }
        let limit = limit(for: exchange)
        let isTaken = readers.submit { [store, readers] in
            do throws(StoreFault) {
                switch try store.read(until: limit(), query) {
                case .response(let response): exchange.post { exchange.answer(response) }
                case .content(let digest, let head, let none):
                    guard let content = contents.open(digest) else {
                        exchange.post { exchange.answer(none) }
                        return
                    }
                    let source = ContentSource(content, exchange, readers: readers.submit)
                    exchange.post {
                        exchange.answer(head, length: content.byteCount) { source.askForMore() }
                    }
                }
            } catch {
                let response = surface.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id)
                exchange.post { exchange.answer(response) }
            }
        }
        guard isTaken else { throw Rejection(surface.refuse(.http(.overloaded), id)) }
        return .later
    }

    /// Answers a question on a thread that may wait for the disk.
    private func ask(
        _ query: @escaping Endpoint.EndpointQuery, _ id: RequestID, _ exchange: Exchange, _ surface: WireDialect
    ) throws(Rejection) -> Handling {
        let limit = limit(for: exchange)
        let isTaken = readers.submit { [store] in
            let response: Response
            do throws(StoreFault) {
                response = try store.read(until: limit()) { snapshot throws(StoreFault) in
                    try query(try RoutedSnapshot.over(snapshot))
                }
            } catch {
                response = surface.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id)
            }
            exchange.post { exchange.answer(response) }
        }
        guard isTaken else { throw Rejection(surface.refuse(.http(.overloaded), id)) }
        return .later
    }

    /// The time limit for reading. The limit starts when the reading starts; this function runs on the loop's thread.
    private func limit(for exchange: Exchange) -> @Sendable () -> ReadLimit {
        let client = exchange.presence
        return { [readTimes, readers, monotonic] in readTimes.limit(client, readers, monotonic) }
    }

    private static func response(
        to answer: Writer.Answer, _ prepared: PreparedCall, _ id: RequestID, _ surface: WireDialect
    ) -> Response {
        switch answer {
        case .success(let reply):
            // The same key belongs to an earlier call with an answer of another kind.
            prepared.encode(reply, id) ?? surface.refuse(.refused(.idempotencyMismatch), id)
        case .failure(let failure): response(to: failure, id, surface)
        }
    }

    private static func response(to failure: CallFailure, _ id: RequestID, _ surface: WireDialect) -> Response {
        switch failure {
        case .refused(let refusal): surface.refuse(.refused(refusal), id)
        case .fault: surface.refuse(.unavailable(retryAfterSeconds: retryAfterSeconds), id)
        case .overloaded: surface.refuse(.http(.overloaded), id)
        }
    }

    /// Repeats a question until it has an answer.
    private func wait(
        _ watch: Endpoint.EndpointWatch, _ id: RequestID, _ exchange: Exchange, _ surface: WireDialect
    ) throws(Rejection) -> Handling {
        let limit = limit(for: exchange)
        let isTaken = watchers.watch(milliseconds: watch.waitMilliseconds) { [store] isLast in
            var response: Response?
            do throws(StoreFault) {
                response = try store.read(until: limit()) { snapshot throws(StoreFault) in
                    try watch.look(snapshot, isLast)
                }
            } catch {
                response = surface.refuse(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), id)
            }
            guard let answer = response else { return false }
            exchange.post { exchange.answer(answer) }
            return true
        }
        guard isTaken else { throw Rejection(surface.refuse(.http(.overloaded), id)) }
        return .later
    }

    /// Answers all waiting questions. The readers' threads must still run.
    package func stop() {
        watchers.stop()
        contentSweep?.stop()
    }

    /// The key that recognizes a repeated call: its Idempotency-Key, or else the dialect's own id.
    private func replayKey(
        _ prepared: PreparedCall, _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools,
        _ surface: WireDialect
    ) throws(Rejection) -> ReplayKey? {
        let key = try idempotencyKey(of: request, caller, tools, surface)
        return prepared.isRemembered ? key ?? prepared.replayKey : nil
    }

    private func idempotencyKey(
        of request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ surface: WireDialect
    ) throws(Rejection) -> ReplayKey? {
        let given = request.withField("idempotency-key") { text -> ReplayKey? in
            guard (1...Gateway.idempotencyKeyCharacters).contains(text.count) else { return nil }
            // Two callers may choose the same text: no caller may get another caller's answer.
            let key = ReplayKey(.idempotencyKey, text, in: caller.project, hash: tools.hash).of(caller.replayOwner)
            // An answer in the sandbox is no answer in production.
            return caller.world == .production ? key : key.at(Gateway.sandboxPlace)
        }
        guard let given else { return nil }
        guard let key = given else { throw Rejection(surface.refuse(.badIdempotencyKey, request.id)) }
        return key
    }

    /// The hash of a call's path and body.
    private static func hash(_ request: borrowing Request, _ hash: KeyedHash) -> Hash128 {
        let path = hash.hash(tag: 0, request.rawPath)
        return hash.hash(tag: path.low, request.body.span)
    }
}
