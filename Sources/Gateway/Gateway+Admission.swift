import Domain
import Engine
import HTTPMessage
import HTTPServer
import Synchronization

// The steps of a call before its work. A call that fails one of them does not reach the next one.
//
// 1. caller: the key, its scope, and the origin of a browser.
// 2. the caller's limits: how often the key may be named, also for calls that are refused later.
// 3. proof: for which users a client speaks. Signatures are expensive, so the limits come first.
// 4. decode: the dialect reads the request.
// 5. the identities' limits: how often an identity of the call may be named.

extension Gateway {
    /// The greatest length of an Idempotency-Key in characters.
    package static let idempotencyKeyCharacters = 255
    /// A number that makes keys of the sandbox differ from keys of production. It is larger than the number of commands of
    /// any request.
    private static let sandboxPlace = 1 << 20

    /// A call that may be made: its caller, and what the dialect has read.
    struct Admitted<Content> {
        let caller: Caller
        let content: Content
        let usage: UsageNote
    }

    /// Runs the steps of a call of a known caller.
    ///
    /// - Parameter limitedBy: the identities whose limits count the call.
    func admit<Content>(
        _ request: borrowing Request, _ kind: CallKind, _ context: LoopContext,
        limitedBy: (Content) -> [Identity] = { _ in [] },
        decode: (borrowing Request, Caller, LoopTools) throws(Rejection) -> Content
    ) throws(Rejection) -> Admitted<Content> {
        var caller = try caller(of: request, kind, context)
        let used = try limited(request.id, kind) { () throws(RateLimiter.Exceeded) in try count(caller, kind, context) }
        prove(&caller, request, context)
        try check(queryOf: request, kind)
        let content = try decode(request, caller, context.tools)
        try limited(request.id, kind) { () throws(RateLimiter.Exceeded) in
            try limiter.count(limitedBy(content), at: context.tools.now)
        }
        return Admitted(caller: caller, content: content, usage: UsageNote(kind.usage, used))
    }

    /// Runs the steps of a call that may need no key. A call without a scope has no caller and no limits.
    func admitGuest<Content>(
        _ request: borrowing Request, _ kind: CallKind, _ context: LoopContext,
        decode: (borrowing Request, Caller?, LoopTools) throws(Rejection) -> Content
    ) throws(Rejection) -> (content: Content, usage: UsageNote) {
        guard kind.endpoint.scope != nil else {
            try check(queryOf: request, kind)
            return (try decode(request, nil, context.tools), UsageNote(kind.usage, nil))
        }
        let call = try admit(request, kind, context) { request, caller, tools throws(Rejection) in
            try decode(request, caller, tools)
        }
        return (call.content, call.usage)
    }

    /// Refuses a request with a parameter that its call does not have.
    private func check(queryOf request: borrowing Request, _ kind: CallKind) throws(Rejection) {
        guard let refusal = kind.endpoint.refusal(ofQuery: request) else { return }
        throw kind.refusal(.refused(refusal), request.id)
    }

    // MARK: - The caller

    private func caller(
        of request: borrowing Request, _ kind: CallKind, _ context: LoopContext
    ) throws(Rejection) -> Caller {
        let tools = context.tools
        let caller = try kind.dialect.authenticate(request, kind.endpoint, tools.directory, tools.now, tools)
        context.caller.project = caller.project.rawValue
        context.caller.key = caller.key?.id.rawValue ?? 0
        if let scope = kind.endpoint.scope, !caller.scopes.allows(scope) {
            throw kind.refusal(.forbidden(scope), request.id)
        }
        if request.hasField("origin"), let app = caller.key?.app.flatMap({ tools.directory.apps[$0] }),
            !app.webOrigins.isEmpty, !app.webOrigins.contains(request.field("origin")?.lowercased() ?? "")
        {
            throw kind.refusal(.foreignOrigin, request.id)
        }
        return caller
    }

    /// Finds for which users a client speaks.
    private func prove(_ caller: inout Caller, _ request: borrowing Request, _ context: LoopContext) {
        guard let proof = identityTokens?.proof(request, caller, context.tools) else { return }
        caller.proof = proof
        caller.strategy = context.tools.directory.strategy(of: caller.project)
        if proof.mode == .log { caller.note = note(of: proof, caller, request.id, context) }
    }

    /// Writes a note about a missing proof, at most one for a call.
    private func note(
        of proof: IdentityProof, _ caller: Caller, _ id: RequestID, _ context: LoopContext
    ) -> @Sendable (IdentityTokenFault, PersonID?) -> Void {
        var call = Call(project: caller.project, key: caller.key?.id)
        call.requestID = id.text
        // A question can be read several times, but counts as one call.
        let isNoted = Atomic(false)
        return { [engine, call, lane = context.lane] fault, person in
            guard !isNoted.exchange(true, ordering: .relaxed) else { return }
            let note = NoteUnproven(fault, about: person, by: proof.dialect)
            // If the queue is full, the note is lost. It is the least important job.
            _ = engine.submit([Job(call: call, act: note)], lane: lane)
        }
    }

    // MARK: - Limits

    /// Counts a call of a caller. Answers the used part of the key's limit in percent.
    private func count(
        _ caller: Caller, _ kind: CallKind, _ context: LoopContext
    ) throws(RateLimiter.Exceeded) -> Int? {
        let now = context.tools.now
        var used: Int?
        if let key = caller.key {
            let bucket = bucket(of: key.id, context)
            noteUse(of: key, bucket, caller, kind, context)
            switch kind.endpoint.limit {
            case .standard: used = try limiter.count(bucket, at: now)
            case .claim: try limiter.countClaim(bucket, at: now)
            case .none: break
            }
        }
        // Calls without a key and without a token count for their app together.
        if let app = caller.app { _ = try limiter.count(limiter.bucket(of: app), at: now) }
        // An install has no key of its own, so its name counts.
        if let install = caller.install { try limiter.count([install.name], at: now) }
        return used
    }

    /// Refuses a call of which the limiter says that something was named too often.
    private func limited<Value>(
        _ id: RequestID, _ kind: CallKind, _ count: () throws(RateLimiter.Exceeded) -> Value
    ) throws(Rejection) -> Value {
        do throws(RateLimiter.Exceeded) {
            return try count()
        } catch {
            throw kind.refusal(.rateLimited(error.scope, retryAfterSeconds: error.retryAfterSeconds), id)
        }
    }

    /// Queues the notes that a key, and the session of a console, were used.
    private func noteUse(
        of key: AccessKey, _ bucket: RateLimiter.KeyBucket, _ caller: Caller, _ kind: CallKind, _ context: LoopContext
    ) {
        let now = context.tools.now
        let call = Call(project: key.project, key: nil)
        if bucket.use(at: now) { context.jobs.append(Job(call: call, act: NoteKeyUse(key.id, at: now))) }
        // A page asks for changes by itself, so this is no use by a person.
        if key.kind == .console, !kind.endpoint.isWatch, caller.isUse,
            context.tools.directory.console(of: key.project).needsNote(of: key, at: now)
        {
            context.jobs.append(Job(call: call, act: NoteConsoleUse(key.id, at: now)))
        }
    }

    private func bucket(of key: KeyID, _ context: LoopContext) -> RateLimiter.KeyBucket {
        if let bucket = context.buckets[key] { return bucket }
        let bucket = limiter.bucket(of: key)
        context.buckets[key] = bucket
        return bucket
    }

    /// Writes the used part of a caller's limit, in the dialect's field.
    struct UsageFields: Sendable {
        /// The fields by percentage, so that each field is made once; empty for dialects without the field.
        private let fields: [Response.Field]

        init(_ name: String?) { fields = name.map { name in (0...100).map { .init(name, String($0)) } } ?? [] }

        fileprivate func add(_ used: Int, to response: inout Response) {
            guard !fields.isEmpty, response.status.isSuccess else { return }
            response.fields.append(fields[used])
        }
    }

    /// The part of a key's limit that a call has used, for the call's answer.
    struct UsageNote: Sendable {
        private let fields: UsageFields
        private let used: Int?

        init(_ fields: UsageFields, _ used: Int?) {
            self.fields = fields
            self.used = used
        }

        func added(to response: Response) -> Response {
            guard let used else { return response }
            var response = response
            fields.add(used, to: &response)
            return response
        }
    }

    // MARK: - Repeated calls

    /// The key in a request's field Idempotency-Key; nil if the request has no such field.
    func idempotencyKey(
        of request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ kind: CallKind
    ) throws(Rejection) -> ReplayKey? {
        let given = request.withField("idempotency-key") { text -> ReplayKey? in
            guard (1...Gateway.idempotencyKeyCharacters).contains(text.count) else { return nil }
            // Two callers may choose the same text: no caller may get another caller's answer.
            let key = ReplayKey(.idempotencyKey, text, in: caller.project, hash: tools.hash).of(caller.replayOwner)
            // An answer in the sandbox is no answer in production.
            return caller.world == .production ? key : key.at(Gateway.sandboxPlace)
        }
        guard let given else { return nil }
        guard let key = given else { throw kind.refusal(.badIdempotencyKey, request.id) }
        return key
    }

    /// The hash of a call's path and body.
    static func hash(_ request: borrowing Request, _ hash: KeyedHash) -> Hash128 {
        let path = hash.hash(tag: 0, request.rawPath)
        return hash.hash(tag: path.low, request.body.span)
    }
}
