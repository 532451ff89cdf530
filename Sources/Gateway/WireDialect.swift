package import Domain
package import HTTPMessage
package import HTTPServer

/// A dialect as the server sees it: a table of routes, how callers prove who they are, and how it says no.
///
/// It is all data and pure functions: nothing here touches a store, a clock or a socket.
package struct WireDialect: Sendable {
    package let name: String
    /// What the routes have in common, for whoever reads the API's description.
    package let description: String
    package let cors: CORSPolicy?
    /// A field in which 32 hexadecimal digits that stand for the request are answered.
    package let traceField: StaticString?
    /// A field in which callers are told how much of their key's limit is used, in percent.
    package let usageField: String?
    /// How callers prove who they are, for the API's description: a name and an object of OpenAPI.
    package let securitySchemes: [SecurityScheme]
    package let routes: [Endpoint]
    /// Finds out who calls. Asked for each route that needs a key.
    package let authenticate:
        @Sendable (borrowing Request, Endpoint, Directory, Instant, LoopTools) throws(Rejection) -> Caller
    /// Looks at a body before it is known who calls, in a dialect that does so.
    package let checkBody: (@Sendable (borrowing Request, LoopTools) throws(Rejection) -> Void)?
    /// How the dialect says no to whoever asks for it in another form.
    package let alternative: AlternativeForm?
    /// Says no in the dialect's own words.
    package let refuse: @Sendable (Problem, RequestID) -> Response

    package init(
        name: String, description: String, cors: CORSPolicy? = nil, traceField: StaticString? = nil,
        usageField: String? = nil,
        securitySchemes: [SecurityScheme] = [], routes: [Endpoint],
        authenticate:
            @escaping @Sendable (
                borrowing Request, Endpoint, Directory, Instant, LoopTools
            ) throws(Rejection) -> Caller,
        checkBody: (@Sendable (borrowing Request, LoopTools) throws(Rejection) -> Void)? = nil,
        alternative: AlternativeForm? = nil, refuse: @escaping @Sendable (Problem, RequestID) -> Response
    ) {
        self.alternative = alternative
        self.name = name
        self.description = description
        self.cors = cors
        self.traceField = traceField
        self.usageField = usageField
        self.securitySchemes = securitySchemes
        self.routes = routes
        self.authenticate = authenticate
        self.checkBody = checkBody
        self.refuse = refuse
    }
}

/// One call of a dialect.
package struct Endpoint: Sendable {
    package let method: Method
    package let path: String
    /// Other paths at which the same is served, with the same parameters.
    package let otherPaths: [String]
    package let ignoresCase: Bool
    /// What the key has to be allowed to do; nil where no key is needed.
    package let scope: Scope?
    package let keyPlace: KeyPlace
    package let limit: Limit
    package let operation: Operation
    package let action: Action

    /// By which limit the calls with one key are counted.
    package enum Limit: Sendable { case standard, claim, none }

    /// Where a call says which key it is made with.
    package enum KeyPlace: Equatable, Sendable {
        case fields
        /// In the path, as its first parameter. What is open is no secret, and is told to whoever names a key.
        case path(isOpen: Bool)
    }

    /// What a call does.
    package enum Action: Sendable {
        /// Answers from what the server knows without the store's writer. There is no caller where no key is needed.
        case answer(@Sendable (borrowing Request, Caller?, LoopTools) -> Response)
        /// Reads a call, decides it, and answers.
        case call(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> PreparedCall)
        /// Reads several acts, decides each by itself, and answers all of them together.
        case calls(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> [(act: any Act, ReplayKey?)],
            encode: @Sendable ([Result<Reply, Refusal>], RequestID) -> Response)
        /// Reads what to do first; what is next may rest on what another server says.
        case steps(
            body: BufferedBody,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> Step)
        /// Takes a body as it is, into a file, however long it is.
        case upload(
            limit: Int, seconds: Int,
            decode: @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> ContentUpload)
        /// Like a query; the answer may be a file that is kept.
        case download(
            @Sendable (borrowing Request, Caller?, LoopTools) throws(Rejection) ->
                @Sendable (
                    any Snapshot
                ) throws(StoreFault) -> ContentAnswer)
        /// Reads a question, and has it answered from what is committed, on a thread that may wait for the disk.
        case query(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointQuery)
        /// Like a query that looks at so little that it is answered at once where all of that is in memory.
        case glance(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointQuery)
        /// Reads a question that may wait for its answer.
        case watch(@Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> EndpointWatch)
    }

    /// A question that is asked again each time that something was committed, until it has an answer.
    package struct EndpointWatch: Sendable {
        package let waitMilliseconds: Int
        /// Answers, if there is anything to say; the last time there always is.
        package let look: @Sendable (any Snapshot, _ isLast: Bool) throws(StoreFault) -> Response?

        package init(
            waitMilliseconds: Int,
            look: @escaping @Sendable (any Snapshot, _ isLast: Bool) throws(StoreFault) -> Response?
        ) {
            self.waitMilliseconds = waitMilliseconds
            self.look = look
        }
    }

    /// A question about what is committed, which answers itself.
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
    /// A call of one kind: the request is read into an act, and the act's answer is written.
    @inlinable
    package static func act<A: Act>(
        _ type: A.Type, body: BufferedBody,
        decode: @escaping @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> Decoded<A>,
        encode: @escaping @Sendable (A.Answer, A, RequestID) -> Response
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
    /// Whether a request may have a body.
    var hasBody: Bool {
        switch action {
        case .call, .calls, .steps, .upload: method != .get
        case .answer, .query, .glance, .watch, .download: false
        }
    }
}

/// An act as a request asks for it.
package struct Decoded<A: Act>: Sendable {
    package let act: A
    /// The key by which the dialect itself recognizes a repetition. An Idempotency-Key goes before it.
    package let replayKey: ReplayKey?
    /// Whether a repetition gets the same answer. An answer with a secret that nobody keeps cannot be given again.
    package let isRemembered: Bool

    @inlinable
    package init(_ act: A, replayKey: ReplayKey? = nil, isRemembered: Bool = true) {
        self.act = act
        self.replayKey = replayKey
        self.isRemembered = isRemembered
    }
}

/// An act that a request asks for, of any kind, and how its answer is written.
package struct PreparedCall: Sendable {
    package let act: any Act
    package let replayKey: ReplayKey?
    package let isRemembered: Bool
    /// Writes the answer; nil where it is not an answer to this act.
    package let encode: @Sendable (Reply, RequestID) -> Response?

    @inlinable
    package init<A: Act>(
        _ act: A, replayKey: ReplayKey? = nil, isRemembered: Bool = true,
        encode: @escaping @Sendable (A.Answer, RequestID) -> Response
    ) {
        self.act = act
        self.replayKey = replayKey
        self.isRemembered = isRemembered
        self.encode = { reply, id in reply.as(A.Answer.self).map { encode($0, id) } }
    }
}

/// Who makes a call.
package struct Caller: Sendable {
    package let project: ProjectID
    package let scopes: ScopeSet
    /// The key that the call is made with; nil for whoever runs the server.
    package let key: AccessKey?
    /// The install that makes the call, where one does.
    package let install: LinkingCaller?
    /// When the call came in.
    package let now: Instant
    /// In which of the two worlds of access the call is.
    package let world: AccessWorld
    /// For which known users a client may speak; nil where nobody asks.
    package internal(set) var proof: IdentityProof?
    /// The project's rules, where somebody asks.
    var strategy: Strategy?
    /// Has something written down that is only watched.
    var note: (@Sendable (IdentityTokenFault, PersonID?) -> Void)?

    package init(key: AccessKey, at now: Instant, in world: AccessWorld = .production) {
        self.key = key
        install = nil
        self.now = now
        self.world = world
        project = key.project
        scopes = key.scopes
    }

    /// Whoever runs the server may do anything.
    package init(operatorOf project: ProjectID, at now: Instant) {
        self.project = project
        self.now = now
        world = .production
        scopes = ScopeSet(Scope.allCases)
        key = nil
        install = nil
    }

    /// Somebody with no key of a project's: an install, or somebody who is about to be one.
    package init(_ install: LinkingCaller? = nil, of project: ProjectID, scopes: ScopeSet = [], at now: Instant) {
        self.install = install
        self.project = project
        self.scopes = scopes
        self.now = now
        world = .production
        key = nil
    }

    /// Whose an Idempotency-Key is: that of an API key or of an install, each with a number of its own.
    var replayOwner: UInt64 {
        if let install { return UInt64(bitPattern: install.install.rawValue) << 1 | 1 }
        return key.map { UInt64(bitPattern: $0.id.rawValue) << 1 } ?? 0
    }
}

/// A request that is answered with a no, already in the dialect's words.
package struct Rejection: Error, Sendable {
    package let response: Response
    package init(_ response: Response) { self.response = response }
}

/// Why a call has no proper answer, whatever the dialect. Each dialect puts every one of these into its own envelope.
package enum Problem: Equatable, Sendable {
    case http(HTTPRefusal)
    case refused(Refusal)
    /// The key may not do this.
    case forbidden(Scope)
    /// A browser calls from an origin that the key's app does not name.
    case foreignOrigin
    /// The Idempotency-Key is empty, or too long.
    case badIdempotencyKey
    /// Too many calls came, with one key or for one identity; try again after some seconds.
    case rateLimited(RateLimitScope, retryAfterSeconds: Int)
    /// The store cannot be written now; try again after some seconds.
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

    /// Whether the call was understood, and is against the rules.
    package var isRefused: Bool {
        if case .refused = self { true } else { false }
    }

    /// A stable name that a program can act on.
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

    /// One sentence for a person.
    package var message: String {
        switch self {
        case .http(let refusal): refusal.message
        case .refused(let refusal): refusal.message
        case .forbidden(let scope): "This key may not do that; it lacks the scope \(scope.rawValue)."
        case .foreignOrigin: "This key's app names the web origins that may call with it, and yours is not among them."
        case .badIdempotencyKey:
            "Idempotency-Key must have 1 to \(Gateway.idempotencyKeyCharacters) visible characters."
        case .rateLimited(.key, let seconds): "Too many calls come with this key; try again in \(seconds) s."
        case .rateLimited(.identity, let seconds):
            "Too many calls name one of these identities; try again in \(seconds) s."
        case .unavailable(let seconds): "The store cannot be written at the moment; try again in \(seconds) s."
        }
    }

    /// The field that a client waits by; nil where waiting does not help.
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
