import ByteText
import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call with which installs send the events that they have gathered (spec/linking.md, decision 5).
enum SubmitCall {
    /// The greatest number of events in a call.
    static let eventsAtMost = 500
    /// The longest id or type of an event, in bytes.
    static let nameBytes = 128

    static let route = DeviceCalls.call(
        "/sdk/events", scope: .install, "linking_events", "Uploads the events of an install.",
        description:
            "After another install took its place, the install may still send earlier events for a time. The "
            + "server drops later events and counts them. It keeps a repeated event, with the same id, only once.",
        request: [
            .init(
                "events",
                .array(
                    .object([
                        .init("id", .string("The id that recognizes a repeated event."), required: true),
                        .init("type", .string(), required: true),
                        .init("captured_at", .string("ISO 8601."), required: true), .init("data", .object([])),
                    ])), required: true)
        ], .ok,
        [
            .init("accepted", .integer(), required: true), .init("repeated", .integer(), required: true),
            .init(
                "dropped", .integer("The number of events from times in which the install was not active."),
                required: true),
        ] + InstallAnswer.status
    ) { request, caller, loop throws(LinkingError) in
        let install = try DeviceCalls.install(caller)
        let rows = try rows(request, install, caller.project, loop)
        return PreparedCall(SubmitRows(install, rows: rows)) { reply, _ in
            guard case .submitted(let submitted, let status) = reply.plain else { return nil }
            return Envelope.json { json in
                json.key("accepted")
                json.integer(submitted.accepted)
                json.key("repeated")
                json.integer(submitted.repeated)
                json.key("dropped")
                json.integer(submitted.dropped)
                InstallAnswer.write(status, &json)
            }
        }
    }

    private static func rows(
        _ request: borrowing Request, _ install: LinkingCaller, _ project: ProjectID, _ loop: LoopTools
    ) throws(LinkingError) -> [Row] {
        var rows: [Row] = []
        let device = RowHash(.device, install.install.text.utf8.span, in: project, hash: loop.hash)
        do throws(JSONFault) {
            try loop.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { name, value throws(JSONFault) in
                    guard name.copy() == "events" else { return }
                    rows = []
                    try value.forEachElement(at: "events") { event throws(JSONFault) in
                        guard rows.count < eventsAtMost else {
                            throw JSONFault(.wrong("must have at most \(eventsAtMost) events"), at: "events")
                        }
                        rows.append(
                            try row(event, "events[\(rows.count)]", install, device, project, loop.hash))
                    }
                }
            }
        } catch {
            throw .badRequest(error.message)
        }
        guard !rows.isEmpty else { throw .badRequest("events must be a list with at least one event.") }
        return rows
    }

    private static func row(
        _ event: JSONValue, _ path: String, _ install: LinkingCaller, _ device: RowHash, _ project: ProjectID,
        _ hash: KeyedHash
    ) throws(JSONFault) -> Row {
        var (id, type): (String?, String?)
        var at: Int64?
        var hasData = false
        var json = JSONWriter()
        json.beginObject()
        try event.forEachMember(at: path) { name, value throws(JSONFault) in
            switch name {
            case "id": id = try text(value, "\(path).id")
            case "type": type = try text(value, "\(path).type")
            case "captured_at":
                at = try value.text(at: "\(path).captured_at").withBytes { ISO8601.parse($0) }
                if at == nil { throw JSONFault(.wrong("must be an ISO 8601 date"), at: "\(path).captured_at") }
            case "data":
                guard value.kind == .object else { throw JSONFault(.wrong("must be an object"), at: "\(path).data") }
                guard !hasData else { throw JSONFault(.wrong("must be there once"), at: "\(path).data") }
                hasData = true
                json.key("data")
                json.copy(value)
            default: break
            }
        }
        guard let id, let type, let at else {
            throw JSONFault(.wrong("must have an id, a type and a captured_at"), at: path)
        }
        json.key("id")
        json.string(id)
        json.key("type")
        json.string(type)
        json.key("install_id")
        json.string(install.install.text)
        json.endObject()
        let name = "\(install.install.text) \(id)"
        return Row(
            .event, at: Instant(milliseconds: at),
            recognition: RowHash(.event, name.utf8.span, in: project, hash: hash), device: device, body: json.bytes)
    }

    private static func text(_ value: JSONValue, _ path: String) throws(JSONFault) -> String {
        let text = try value.string(at: path)
        guard (1...nameBytes).contains(text.utf8.count) else {
            throw JSONFault(.wrong("must have 1 to \(nameBytes) bytes"), at: path)
        }
        return text
    }
}
