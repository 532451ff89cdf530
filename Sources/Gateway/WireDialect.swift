package import Domain
package import HTTPMessage
package import HTTPServer

/// A dialect, as the server uses it: a table of routes, the check of callers, and the form of refusals.
///
/// A dialect consists of data and pure functions: no part of it uses a store, a clock or a socket.
package struct WireDialect: Sendable {
    package let name: String
    /// The common description of the routes, for the readers of the API's description.
    package let description: String
    package let cors: CORSPolicy?
    /// The answer's field for the request's id in 32 hexadecimal digits.
    package let traceField: StaticString?
    /// The answer's field for the used part of the key's limit, in percent.
    package let usageField: String?
    /// The ways in which callers prove their identity, for the API's description.
    package let securitySchemes: [SecurityScheme]
    package private(set) var routes: [Endpoint]
    /// Finds the caller of a request. It runs for each route that needs a key.
    package let authenticate:
        @Sendable (borrowing Request, Endpoint, Directory, Instant, LoopTools) throws(Rejection) -> Caller
    /// Checks a body before the caller is known, in a dialect with such a check.
    package let checkBody: (@Sendable (borrowing Request, LoopTools) throws(Rejection) -> Void)?
    /// The other form of the dialect's refusals, for callers that ask for it.
    package let alternative: AlternativeForm?
    /// Makes a refusal in the dialect's own words.
    package let refuse: @Sendable (Problem, RequestID) -> Response
    /// Whether a path is the vendor's, also if no route has the path.
    package let owns: @Sendable (_ path: String) -> Bool

    package init(
        name: String, description: String, cors: CORSPolicy? = nil, traceField: StaticString? = nil,
        usageField: String? = nil,
        securitySchemes: [SecurityScheme] = [], routes: [Endpoint],
        authenticate:
            @escaping @Sendable (
                borrowing Request, Endpoint, Directory, Instant, LoopTools
            ) throws(Rejection) -> Caller,
        checkBody: (@Sendable (borrowing Request, LoopTools) throws(Rejection) -> Void)? = nil,
        alternative: AlternativeForm? = nil, owns: @escaping @Sendable (_ path: String) -> Bool = { _ in false },
        refuse: @escaping @Sendable (Problem, RequestID) -> Response
    ) {
        self.alternative = alternative
        self.owns = owns
        self.name = name
        self.description = description
        self.cors = cors
        self.traceField = traceField
        self.usageField = usageField
        self.securitySchemes = securitySchemes
        self.routes = routes
        self.authenticate = authenticate
        self.checkBody = checkBody
        self.refuse = { problem, id in
            var response = refuse(problem, id)
            response.code = problem.code
            return response
        }
    }

    /// The same dialect, with a path that calls of another dialect have too.
    ///
    /// - Parameters:
    ///   - path: the path.
    ///   - answer: the answer of the other dialect.
    ///   - guest: answers the calls of the other dialect, and nil for all other calls. It runs before the caller is known.
    package func sharing(_ path: String, _ answer: Operation.Answer, with guest: @escaping Endpoint.Guest)
        -> WireDialect
    {
        var dialect = self
        dialect.routes = routes.map { $0.path == path ? $0.shared(answer, with: guest) : $0 }
        return dialect
    }
}

/// One call of a dialect.
package struct Endpoint: Sendable {
    package let method: Method
    package let path: String
    /// Other paths of the same call, with the same parameters.
    package let otherPaths: [String]
    package let ignoresCase: Bool
    /// The scope that the key needs; nil if the call needs no key.
    package let scope: Scope?
    package let keyPlace: KeyPlace
    package let limit: Limit
    package private(set) var operation: Operation
    package let action: Action
    /// Finds the function that signs the answers to a request; nil for a call whose answers are not signed.
    package private(set) var signing: Signing?

    /// Finds the function that signs the answer to a request; nil for a request without a signed answer.
    package typealias Signing =
        @Sendable (borrowing Request, LoopTools) -> (@Sendable (Response) -> Response)?

    /// The same call, with signed answers.
    package func signed(by signing: @escaping Signing) -> Endpoint {
        var endpoint = self
        endpoint.signing = signing
        return endpoint
    }

    /// Answers the calls of another dialect with the same path; nil for a call that has none.
    package private(set) var guest: Guest?

    /// Answers a call of another dialect, and nil for all other calls.
    package typealias Guest = @Sendable (borrowing Request, LoopTools) -> Response?

    fileprivate func shared(_ answer: Operation.Answer, with guest: @escaping Guest) -> Endpoint {
        var endpoint = self
        endpoint.guest = guest
        endpoint.operation = operation.adding(answer)
        return endpoint
    }

    /// The limit that counts the calls with one key.
    package enum Limit: Sendable { case standard, claim, none }

    /// The place of the key in a request.
    package enum KeyPlace: Equatable, Sendable {
        case fields
        /// The path's first parameter is the key. An open call is not secret, so its answer goes to every caller that names a
        /// key.
        case path(isOpen: Bool)
    }

    /// The work of a call.
    package enum Action: Sendable {
        /// Answers from memory, without the store's writer. A call without a key has no caller.
        case answer(@Sendable (borrowing Request, Caller?, LoopTools) -> Response)
        /// Reads one act from the request; the writer decides it.
        case call(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> PreparedCall)
        /// Reads several acts. The writer does all acts or no act, and the request has one answer.
        case calls(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> PreparedCalls)
        /// Reads the first step; later steps may depend on the answer of another server.
        case steps(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> Step)
        /// Writes a body of any length into a file.
        case upload(
            limit: Int, seconds: Int,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> ContentUpload)
        /// Reads a question; the answer may be a kept file.
        case download(
            @Sendable (borrowing Request, Caller?, LoopTools) throws(Rejection) ->
                @Sendable (
                    any Snapshot
                ) throws(StoreFault) -> ContentAnswer)
        /// Reads a question about committed facts, and answers it on a thread that may wait for the disk.
        case query(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointQuery)
        /// Reads a question that needs few facts: the loop's thread answers it if these facts are in memory.
        case glance(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointQuery)
        /// Reads a question that may wait for its answer.
        case watch(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointWatch)
    }

    /// A question that is repeated after each commit, until it has an answer.
    package struct EndpointWatch: Sendable {
        package let waitMilliseconds: Int
        /// Answers, if an answer exists; the last look always answers.
        package let look: @Sendable (any Snapshot, _ isLast: Bool) throws(StoreFault) -> Response?

        package init(
            waitMilliseconds: Int,
            look: @escaping @Sendable (any Snapshot, _ isLast: Bool) throws(StoreFault) -> Response?
        ) {
            self.waitMilliseconds = waitMilliseconds
            self.look = look
        }
    }

    /// A question about committed facts, which makes its own answer.
    package typealias EndpointQuery = @Sendable (any Snapshot) throws(StoreFault) -> Response

    package init(
        _ method: Method, _ path: String, otherPaths: [String] = [], ignoresCase: Bool = false, scope: Scope?,
        keyPlace: KeyPlace = .fields, limit: Limit = .standard, operation: Operation, action: Action
    ) {
        self.method = method
        self.path = path
        self.otherPaths = otherPaths
        self.ignoresCase = ignoresCase
        self.scope = scope
        self.keyPlace = keyPlace
        self.limit = limit
        self.operation = operation
        self.action = action
    }
}

extension Endpoint.Action {
    /// Makes a call of one kind: it reads the request into an act, and writes the act's answer.
    ///
    /// - Parameter encode: nil for an answer that belongs to a call of another kind. The caller then learns that its
    ///   Idempotency-Key belongs to the other call.
    @inlinable
    package static func act<A: Act>(
        _ type: A.Type, body: BufferedBody,
        decode: @escaping @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> Decoded<A>,
        encode: @escaping @Sendable (A.Answer, A, RequestID) -> Response?
    ) -> Endpoint.Action {
        .call(body: body) { request, caller, tools throws(Rejection) in
            let decoded = try decode(request, caller, tools)
            let act = decoded.act
            return PreparedCall(act, replayKey: decoded.replayKey, isRemembered: decoded.isRemembered) {
                encode($0, act, $1)
            }
        }
    }
}

extension Endpoint {
    /// Whether the call waits for changes.
    var isWatch: Bool { if case .watch = action { true } else { false } }

    /// Whether a request may have a body.
    var hasBody: Bool {
        switch action {
        case .call, .calls, .steps, .upload: method != .get
        case .answer, .query, .glance, .watch, .download: false
        }
    }
}

/// An act, as a request asks for it.
package struct Decoded<A: Act>: Sendable {
    package let act: A
    /// The dialect's own key of a repeated call. An Idempotency-Key comes before this key.
    package let replayKey: ReplayKey?
    /// Whether a repeated call gets the same answer. The server cannot repeat an answer with a secret that it does not keep.
    package let isRemembered: Bool

    @inlinable
    package init(_ act: A, replayKey: ReplayKey? = nil, isRemembered: Bool = true) {
        self.act = act
        self.replayKey = replayKey
        self.isRemembered = isRemembered
    }
}

/// An act of any kind from a request, with the function that writes its answer.
package struct PreparedCall: Sendable {
    package let act: any Act
    package let replayKey: ReplayKey?
    package let isRemembered: Bool
    /// Writes the answer; nil if the reply belongs to another act.
    package let encode: @Sendable (Reply, RequestID) -> Response?

    @inlinable
    package init<A: Act>(
        _ act: A, replayKey: ReplayKey? = nil, isRemembered: Bool = true,
        encode: @escaping @Sendable (A.Answer, RequestID) -> Response?
    ) {
        self.act = act
        self.replayKey = replayKey
        self.isRemembered = isRemembered
        self.encode = { reply, id in reply.as(A.Answer.self).flatMap { encode($0, id) } }
    }

    private init(_ act: any Act, as other: PreparedCall) {
        self.act = act
        (replayKey, isRemembered, encode) = (other.replayKey, other.isRemembered, other.encode)
    }

    /// The same call, refused unless it repeats an earlier call.
    package func refused(_ refusal: Refusal) -> PreparedCall { PreparedCall(RefuseUnlessRepeated(refusal), as: self) }
}

/// Several acts of one request, with the function that writes their common answer. The writer does all acts or no act. In
/// the second case, an act without a refusal of its own has the refusal `otherActRefused`.
package struct PreparedCalls: Sendable {
    package let acts: [(act: any Act, replayKey: ReplayKey?)]
    /// Writes the answer from the result of each act.
    package let encode: @Sendable ([Result<Reply, Refusal>], RequestID) -> Response

    package init(
        _ acts: [(act: any Act, replayKey: ReplayKey?)],
        encode: @escaping @Sendable ([Result<Reply, Refusal>], RequestID) -> Response
    ) {
        self.acts = acts
        self.encode = encode
    }
}

/// The caller of a request.
package struct Caller: Sendable {
    package let project: ProjectID
    package let scopes: ScopeSet
    /// The key of the call; nil for the operator of the server.
    package let key: AccessKey?
    /// The install that makes the call, if an install calls.
    package let install: LinkingCaller?
    /// The app whose secret or code the call shows, if it has no key and no token.
    package let app: AppID?
    /// Whether the operator of the server calls, over the control socket or with the operator's key.
    package let isOperator: Bool
    /// The time of the call.
    package let now: Instant
    /// The world of access of the call: production or sandbox.
    package let world: AccessWorld
    /// The proof of the users for which a client may speak; nil if no proof is necessary.
    package internal(set) var proof: IdentityProof?
    /// Whether a person has caused the call, and not a page by itself. Other calls do not keep a session alive.
    package var isUse = true
    /// The project's strategy, if the call needs it.
    var strategy: Strategy?
    /// Writes a note about a missing proof, where the project only logs missing proofs.
    var note: (@Sendable (IdentityTokenFault, PersonID?) -> Void)?

    package init(key: AccessKey, at now: Instant, in world: AccessWorld = .production) {
        self.key = key
        (install, app) = (nil, nil)
        self.now = now
        self.world = world
        project = key.project
        scopes = key.scopes
        isOperator = key.kind == .operator
    }

    /// Makes the operator of the server, with a key of no project. A project stands for the server.
    package init(operatorKey key: AccessKey, in project: ProjectID, at now: Instant) {
        self.key = key
        self.project = project
        self.now = now
        (install, app) = (nil, nil)
        world = .production
        scopes = key.scopes
        isOperator = key.kind == .operator
    }

    /// Makes the operator of the server, who may make every call.
    package init(operatorOf project: ProjectID, at now: Instant) {
        self.project = project
        self.now = now
        world = .production
        scopes = ScopeSet(Scope.allCases)
        isOperator = true
        key = nil
        (install, app) = (nil, nil)
    }

    /// Makes a caller without a key of the project: an install, a client that is about to become an install, or a store that
    /// signs what it sends.
    ///
    /// - Parameter app: the app of a client that is about to become an install.
    package init(
        _ install: LinkingCaller? = nil, of project: ProjectID, app: AppID? = nil, scopes: ScopeSet = [],
        at now: Instant
    ) {
        (self.install, self.app) = (install, app)
        self.project = project
        self.scopes = scopes
        self.now = now
        world = .production
        isOperator = false
        key = nil
    }

    /// The owner of an Idempotency-Key: an API key or an install, each with a number of its own.
    var replayOwner: UInt64 {
        if let install { return UInt64(bitPattern: install.install.rawValue) << 1 | 1 }
        return key.map { UInt64(bitPattern: $0.id.rawValue) << 1 } ?? 0
    }
}

/// A refused request, with its answer in the dialect's words.
package struct Rejection: Error, Sendable {
    package let response: Response
    package init(_ response: Response) { self.response = response }
}

/// The reason why a call has no normal answer, for all dialects. Each dialect puts every problem into its own form.
package enum Problem: Equatable, Sendable {
    case http(HTTPRefusal)
    case refused(Refusal)
    /// The key does not have this scope.
    case forbidden(Scope)
    /// A browser calls from an origin that the key's app does not name.
    case foreignOrigin
    /// The Idempotency-Key is empty, or too long.
    case badIdempotencyKey
    /// Too many calls came with one key or about one identity; the caller may try again after some seconds.
    case rateLimited(RateLimitScope, retryAfterSeconds: Int)
    /// The store cannot be written now; the caller may try again after some seconds.
    case unavailable(retryAfterSeconds: Int)

    package var status: Status {
        switch self {
        case .http(let refusal): refusal.status
        case .refused(let refusal): refusal.status
        case .forbidden, .foreignOrigin: .forbidden
        case .badIdempotencyKey: .badRequest
        case .rateLimited: .tooManyRequests
        case .unavailable: .serviceUnavailable
        }
    }

    /// Whether the server understood the call, and a rule forbids it.
    package var isRefused: Bool {
        if case .refused = self { true } else { false }
    }

    /// A stable code for programs.
    package var code: String {
        switch self {
        case .http(let refusal): refusal.code
        case .refused(let refusal): refusal.code
        case .forbidden: "forbidden"
        case .foreignOrigin: "foreign_origin"
        case .badIdempotencyKey: "bad_idempotency_key"
        case .rateLimited: "rate_limited"
        case .unavailable: "unavailable"
        }
    }

    /// A sentence for people.
    package var message: String {
        switch self {
        case .http(let refusal): refusal.message
        case .refused(let refusal): refusal.message
        case .forbidden(let scope): "This key may not make this call; it lacks the scope \(scope.rawValue)."
        case .foreignOrigin: "The web origins of this key's app do not include your origin."
        case .badIdempotencyKey:
            "Idempotency-Key must have 1 to \(Gateway.idempotencyKeyCharacters) visible characters."
        case .rateLimited(.key, let seconds): "Too many calls come with this key; try again in \(seconds) s."
        case .rateLimited(.identity, let seconds):
            "Too many calls name one of these identities; try again in \(seconds) s."
        case .unavailable(let seconds):
            "The read took too long, or the store is not available at the moment; try again in \(seconds) s."
        }
    }

    /// The field with the time to wait; nil if waiting does not help.
    package var retryAfter: Response.Field? {
        switch self {
        case .unavailable(let seconds), .rateLimited(_, let seconds): .init("Retry-After", String(seconds))
        case .http(.overloaded): .init("Retry-After", "1")
        default: nil
        }
    }
}

extension Refusal {
    package var status: Status {
        switch kind {
        case .invalid: .badRequest
        case .unprocessable: .unprocessableContent
        case .unauthorized: .unauthorized
        case .forbidden: .forbidden
        case .notFound: .notFound
        case .conflict: .conflict
        case .gone: .gone
        case .tooLarge: .contentTooLarge
        case .unavailable: .serviceUnavailable
        }
    }
}
