import ByteText
import HTTPMessage

/// The request that a connection is reading, with its route and the results of the checks.
final class Incoming {
    private(set) var context: AnswerContext
    /// The refusal that the head already causes; the connection sends it after the body.
    private(set) var refusal: Response?
    private(set) var route: Route?
    private(set) var parameters: [String] = []
    private(set) var isGzip = false
    var sink: (any BodySink)?
    private let group: RouteGroup?
    private let fallback: @Sendable (HTTPRefusal, RequestID) -> Response

    var body: Route.Body { route?.body ?? .none }

    /// Counts bytes of the request.
    func count(_ bytes: Int) { context.bytesIn += bytes }

    func note(_ caller: CallerMark) { context.caller = caller }

    init(head: RequestHead, bytes: borrowing Span<UInt8>, loop: ServerLoop) {
        let made = loop.makeRequestID()
        let named = head.value(of: "x-request-id", in: bytes).map { made.named(bytes.extracting($0)) }
        context = AnswerContext(id: named ?? made)
        context.framing.keepsAlive = head.keepsAlive
        context.framing.isHTTP10 = head.minorVersion == 0
        context.framing.omitsBody = head.method == .head
        fallback = loop.configuration.refuse

        guard case .path(let path, _) = head.target else {
            group = nil
            refusal =
                head.method == .options
                ? Response(.noContent) : fallback(.notFound(method: Incoming.method(bytes), path: "*"), context.id)
            return
        }
        guard let match = loop.router.match(bytes.extracting(path)), let any = match.targets.first else {
            group = nil
            let shown = String(copying: bytes.extracting(path))
            refusal = fallback(.notFound(method: Incoming.method(bytes), path: shown), context.id)
            return
        }
        let group = loop.router.groups[any.group]
        self.group = group
        context.traceField = group.traceField
        if let alternative = group.alternative, let accept = head.value(of: "accept", in: bytes),
            String(copying: bytes.extracting(accept)).lowercased().contains(alternative.mediaType)
        {
            context.rewrite = alternative.rewrite
        }
        let origin = head.value(of: "origin", in: bytes).map { String(copying: bytes.extracting($0)) }
        if let cors = group.cors, let origin, cors.allowsOrigin(origin) {
            context.corsFields = Incoming.corsFields(origin, cors)
        }
        if head.method == .options, match.targets[.options] == nil {
            refusal = preflight(head, bytes, match.targets.methods, group.cors)
            return
        }
        guard let target = match.targets[head.method] ?? (head.method == .head ? match.targets[.get] : nil) else {
            refusal = refuse(
                .methodNotAllowed(
                    method: Incoming.method(bytes), path: String(copying: bytes.extracting(path)),
                    allowed: Incoming.allowed(match.targets.methods)))
            return
        }
        let route = loop.router[target]
        self.route = route
        context.route = target.ordinal
        for range in match.parameters {
            guard let parameter = PercentCoding.decodedText(bytes.extracting(path).extracting(range)) else {
                refusal = refuse(.malformedTarget)
                return
            }
            parameters.append(parameter)
        }
        if case .buffered(let buffered) = route.body { check(buffered, head, bytes) }
    }

    /// Checks the head's facts about a body that the server will collect.
    private func check(_ buffered: BufferedBody, _ head: RequestHead, _ bytes: borrowing Span<UInt8>) {
        if head.framing == .none {
            if buffered.isRequired { refusal = refuse(.lengthRequired) }
            return
        }
        if let range = head.value(of: "content-encoding", in: bytes) {
            let coding = bytes.extracting(range)
            if coding.equalsIgnoringCase("gzip") || coding.equalsIgnoringCase("x-gzip") {
                isGzip = true
            } else if !coding.isEmpty, !coding.equalsIgnoringCase("identity") {
                refusal = refuse(.unsupportedContentEncoding(String(copying: coding)))
                return
            }
        }
        if let range = head.value(of: "content-type", in: bytes), !range.isEmpty {
            let end = bytes.firstIndex(of: UInt8(ascii: ";"), in: range) ?? range.upperBound
            let type = bytes.extracting(bytes.trimming(range.lowerBound..<end))
            if !Incoming.matches(type, buffered.mediaTypes) {
                refusal = refuse(.unsupportedMediaType(String(copying: type)))
            }
        }
    }

    /// Compares media types without regard to case; `application/json` also stands for `application/problem+json` and similar
    /// types.
    private static func matches(_ type: borrowing Span<UInt8>, _ taken: [String]) -> Bool {
        for candidate in taken {
            let name = candidate.utf8.span
            if type.count == name.count, startsWith(type, name) { return true }
            if candidate == "application/json", type.count > 5,
                type.extracting(type.count - 5..<type.count).equalsIgnoringCase("+json")
            {
                return true
            }
        }
        return false
    }

    private static func startsWith(_ type: borrowing Span<UInt8>, _ name: borrowing Span<UInt8>) -> Bool {
        for index in name.indices where ASCII.lowercased(type[index]) != name[index] {
            return false
        }
        return true
    }

    /// Answers OPTIONS: a browser's preflight, or another client's question.
    private func preflight(
        _ head: RequestHead, _ bytes: borrowing Span<UInt8>, _ methods: [Method], _ cors: CORSPolicy?
    ) -> Response {
        let allowed = Incoming.list(Incoming.allowed(methods))
        var fields = [Response.Field("Allow", allowed)]
        if let cors, !context.corsFields.isEmpty, head.value(of: "access-control-request-method", in: bytes) != nil {
            fields += [
                .init("Access-Control-Allow-Methods", allowed),
                .init("Access-Control-Allow-Headers", cors.allowedFields),
                .init("Access-Control-Max-Age", String(CORSPolicy.maxAgeSeconds)),
            ]
        }
        return Response(.noContent, fields: fields)
    }

    /// Writes a refusal in the form of the route's group.
    func refuse(_ refusal: HTTPRefusal) -> Response {
        var response = (group?.refuse ?? fallback)(refusal, context.id)
        if case .methodNotAllowed(_, _, let allowed) = refusal {
            response.fields.append(.init("Allow", Incoming.list(allowed)))
        }
        if refusal == .overloaded { response.fields.append(.init("Retry-After", "1")) }
        return response
    }

    /// Marks the end of the body: the server's own time starts here.
    func bodyEnded() { context.started = MonotonicClock.nanoseconds() }

    /// Closes the connection after the answer.
    func closeAfterAnswer() { context.framing.keepsAlive = false }

    func bodyLimit(_ limits: ServerLimits) -> Int {
        if refusal != nil { return limits.unwantedBodyBytes }
        return switch body {
        case .none: limits.unwantedBodyBytes
        case .buffered(let buffered): buffered.limit
        case .streamed(let limit, _, _): limit
        }
    }

    func bodyMilliseconds(_ limits: ServerLimits) -> UInt64 {
        if refusal == nil, case .streamed(_, let seconds, _) = body { return UInt64(seconds) * 1000 }
        return limits.bodyMilliseconds
    }

    private static func corsFields(_ origin: String, _ cors: CORSPolicy) -> [UInt8] {
        var fields: [UInt8] = []
        fields.append("Access-Control-Allow-Origin: ")
        fields.append(contentsOf: origin.utf8)
        fields.append("\r\nVary: Origin\r\nAccess-Control-Expose-Headers: ")
        fields.append(contentsOf: cors.exposedFields.utf8)
        fields.append("\r\n")
        return fields
    }

    private static func allowed(_ methods: [Method]) -> [Method] {
        var allowed = methods
        if allowed.contains(.get), !allowed.contains(.head) { allowed.append(.head) }
        allowed.append(.options)
        return allowed
    }

    private static func list(_ methods: [Method]) -> String {
        methods.map { String(describing: $0.name) }.joined(separator: ", ")
    }

    private static func method(_ bytes: borrowing Span<UInt8>) -> String {
        let end = bytes.firstIndex(of: ASCII.space, in: bytes.indices) ?? 0
        return String(copying: bytes.extracting(0..<end))
    }
}

/// The facts about a request that its answer needs.
struct AnswerContext {
    var id = RequestID(high: 0, low: 0)
    var framing = ResponseFraming()
    /// The route's ordinal, for counting; nil without a route.
    var route: Int?
    /// The bytes of the request's head and body.
    var bytesIn = 0
    var caller = CallerMark()
    var started = MonotonicClock.nanoseconds()
    /// The field that repeats the request's trace, for clients that read it there.
    var traceField: StaticString?
    /// The CORS fields for a browser with another origin, as lines of the head.
    var corsFields: [UInt8] = []
    /// Writes a refusal in the form that the client asked for.
    var rewrite: (@Sendable (Response) -> Response)?

    /// Appends the common fields of all answers. The date is already a complete line.
    func addFields(date: [UInt8], to output: inout [UInt8]) {
        output.append(copying: date.span)
        output.append("X-Request-Id: ")
        output.append(id)
        output.append("\r\n")
        if let traceField {
            output.append(traceField)
            output.append(": ")
            output.append(traceOf: id)
            output.append("\r\n")
        }
        if !corsFields.isEmpty { output.append(copying: corsFields.span) }
    }
}
