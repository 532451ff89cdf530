import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that makes an alias: the rows of one person within a span of time then also belong to another person
/// (spec/idsync.md 1.6).
enum AliasCall {
    static let route = Endpoint(
        .post, "/v1/identity/:api_key/alias",
        otherPaths: [
            "/nativeevents/v1/identity/:api_key/alias", "/webevents/v1/identity/:api_key/alias",
            "/identity/:api_key/alias", "/:api_key/alias",
        ],
        ignoresCase: true, scope: .identityWrite, keyPlace: .path(isOpen: false), operation: operation,
        action: .act(
            MakeAlias.self, body: .plainTextToo,
            decode: { request, caller, tools throws(Rejection) in
                do throws(JSONFault) {
                    return try tools.json.read(request.body) { root throws(JSONFault) in
                        try decode(root, caller, tools, request.id)
                    }
                } catch {
                    throw Rejection(AliasCall.fault(error.message))
                }
            },
            encode: encode))

    /// The field of a 202 that names the new alias, or says why no alias was made.
    static let field: StaticString = "X-Onym-Alias"

    private static func decode(
        _ root: JSONValue, _ caller: Caller, _ tools: LoopTools, _ id: RequestID
    ) throws(JSONFault) -> Decoded<MakeAlias> {
        let (project, hash) = (caller.project, tools.hash)
        var replayKey: ReplayKey?
        var call: MakeAlias?
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "request_id":
                let text = try value.optionalText(at: "request_id")
                guard let text, !text.isEmpty else { return }
                guard text.byteCount <= RequestFrame.requestIDBytes else {
                    throw JSONFault(.wrong("must have at most \(RequestFrame.requestIDBytes) bytes"), at: "request_id")
                }
                replayKey = text.withBytes { ReplayKey(.requestID, $0, in: project, hash: hash) }
            case "request_type":
                guard case "alias" = try value.text(at: "request_type") else {
                    throw JSONFault(.wrong("must be \"alias\""), at: "request_type")
                }
            case "environment":
                switch try value.text(at: "environment") {
                case "production", "development": break
                default: throw JSONFault(.wrong("must be \"production\" or \"development\""), at: "environment")
                }
            case "data":
                call = try alias(value, project, hash, id)
            default: break
            }
        }
        guard let call else { throw JSONFault(.wrong("is required: an object"), at: "data") }
        return Decoded(call, replayKey: replayKey)
    }

    private static func alias(
        _ data: JSONValue, _ project: ProjectID, _ hash: KeyedHash, _ id: RequestID
    ) throws(JSONFault) -> MakeAlias {
        var (source, destination): (PersonID?, PersonID?)
        var (start, end): (Int64?, Int64?)
        var isOfDevice = false
        var device: RowHash?
        try data.forEachMember(at: "data") { key, value throws(JSONFault) in
            switch key {
            case "source_mpid": source = try value.person(at: "data.source_mpid")
            case "destination_mpid": destination = try value.person(at: "data.destination_mpid")
            case "start_unixtime_ms": start = try value.milliseconds(at: "data.start_unixtime_ms")
            case "end_unixtime_ms": end = try value.milliseconds(at: "data.end_unixtime_ms")
            case "scope":
                switch try value.optionalText(at: "data.scope") {
                case nil: break
                case .some("device"): isOfDevice = true
                case .some("mpid"): break
                default: throw JSONFault(.wrong("must be \"device\" or \"mpid\""), at: "data.scope")
                }
            case "device_application_stamp":
                let text = try value.optionalText(at: "data.device_application_stamp")
                if let text, !text.isEmpty {
                    device = text.withBytes { RowHash(.device, $0, in: project, hash: hash) }
                }
            default: break
            }
        }
        guard let source else { throw JSONFault(.wrong("is required: an MPID"), at: "data.source_mpid") }
        guard let destination else { throw JSONFault(.wrong("is required: an MPID"), at: "data.destination_mpid") }
        guard let start else { throw JSONFault(.wrong("is required"), at: "data.start_unixtime_ms") }
        guard let end else { throw JSONFault(.wrong("is required"), at: "data.end_unixtime_ms") }
        if isOfDevice, device == nil {
            throw JSONFault(.wrong("is required with the scope \"device\""), at: "data.device_application_stamp")
        }
        return MakeAlias(
            source: source, destination: destination, start: Instant(milliseconds: start),
            end: Instant(milliseconds: end), device: isOfDevice ? device : nil, requestID: id.text)
    }

    private static func encode(_ aliased: Aliased, _ call: MakeAlias, _ id: RequestID) -> Response {
        let value =
            switch aliased {
            case .made(let alias): "\(alias.rawValue)"
            case .ignored(let reason): "ignored; reason=\(reason.name)"
            }
        return Response(.accepted, fields: [.init("\(field)", value)])
    }

    /// The errors of this call are not in a list.
    static func fault(_ message: String) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.key("code")
            json.string("INVALID_DATA")
            json.key("message")
            json.string(message)
        }
        return Response(.badRequest, contentType: IDSyncFault.contentType, body: json.bytes)
    }

    private static let operation = Operation(
        id: "alias",
        summary: "Makes an alias: the rows of one person within a span of time also belong to another person.",
        description: """
            The alias holds at once, also for events that arrive later. The X-Onym-Alias field of the answer has the \
            alias's id, or the reason why the server made no alias.
            """,
        request: .object([
            .init("request_id", .anyOf([.string("Recognizes a repeated call."), .null])),
            .init("request_type", .string(oneOf: ["alias"])),
            .init("environment", .string(oneOf: ["production", "development"])),
            .init(
                "data",
                .object([
                    .init("source_mpid", .anyOf([.string(), .integer()]), required: true),
                    .init("destination_mpid", .anyOf([.string(), .integer()]), required: true),
                    .init("start_unixtime_ms", .integer(), required: true),
                    .init("end_unixtime_ms", .integer(), required: true),
                    .init("scope", .string(oneOf: ["device", "mpid"])),
                    .init("device_application_stamp", .anyOf([.string(), .null])),
                ]),
                required: true),
        ]),
        responses: [
            .init(.accepted, "The server accepted the call. There is no body."),
            .init(
                .badRequest, "The alias or the query is invalid.",
                schema: .anyOf([
                    .object([
                        .init("code", .string(), required: true), .init("message", .string(), required: true),
                    ]), IDSyncFault.schema,
                ])),
        ] + IDSyncFault.answers.filter { $0.status != .badRequest } + [IDSyncFault.mismatch])
}

extension JSONValue {
    /// Milliseconds since 1970, as a number or in digits.
    func milliseconds(at path: @autoclosure () -> String) throws(JSONFault) -> Int64? {
        let value: Int64?
        switch kind {
        case .null: return nil
        case .string: value = Int64(decimal: try string(at: path()))
        case .double: value = Int64(exactly: try number(at: path()).rounded())
        default: value = try integer(at: path())
        }
        // The range of years that a written date can have.
        guard let value, (-62_167_219_200_000...253_402_300_799_999).contains(value) else {
            throw JSONFault(.wrong("must be milliseconds since 1970"), at: path())
        }
        return value
    }
}
