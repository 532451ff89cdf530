import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for files that go with events (spec/claim.md 1.7): a client announces and sends a file, and other callers
/// download it.
enum AttachmentCalls {
    static func routes(_ links: AttachmentLinks) -> [Endpoint] {
        [reserve(links), upload(links), list, download(links), get(links), delete]
    }

    /// The size of the largest file that clients may send.
    static let byteLimit = 2 << 30
    /// The seconds for which a reservation is valid.
    private static let uploadSeconds = Int(Attachment.reservationMilliseconds / 1000)

    // MARK: - Announcing

    private static func reserve(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .post, "/v1/ingest/attachment", scope: .eventsWrite, limit: .claim,
            operation: Operation(
                id: "reserve_attachment", summary: "Announces a file that goes with an event.",
                description: "Without user_id it is the event's user's, whichever of both comes first.",
                request: .object([
                    .init("client_event_id", .string("A UUID."), required: true),
                    .init("user_id", .anyOf([.string(), .null])),
                    .init("original_filename", .string(), required: true),
                    .init("content_type", .string(), required: true),
                    .init("size_bytes", .integer(), required: true),
                    .init("sha256", .string("64 hexadecimal digits."), required: true),
                    .init("is_dev", .boolean()),
                ]),
                responses: [
                    .init(
                        .created, "Its bytes are waited for.",
                        schema: .object([
                            .init("attachment_id", .string(), required: true),
                            .init("upload_url", .string(), required: true),
                            .init("expires_at", .string(), required: true),
                        ])),
                    .init(.contentTooLarge, "The user or the project has too much.", schema: faultSchema),
                    .init(.unsupportedMediaType, "Programs are not taken.", schema: faultSchema),
                ] + answers),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    let reserve = try AttachmentForm.read(request, caller, tools, links.quotas)
                    let url = links.upload(request)
                    return PreparedCall(reserve) { attachment, _ in
                        IdentityCalls.json(.created) { json in
                            json.key("attachment_id")
                            json.string(ClaimID.text(.attachment, attachment.id.rawValue))
                            json.key("upload_url")
                            json.string(url(attachment.id))
                            json.key("expires_at")
                            json.moment(attachment.expiresAt)
                        }
                    }
                }))
    }

    // MARK: - Sending

    private static func upload(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .put, "/v1/ingest/attachment/:id", scope: .eventsWrite, limit: .claim,
            operation: Operation(
                id: "upload_attachment", summary: "Takes the bytes of a file that was announced.",
                responses: [
                    .init(.ok, "They are kept.", schema: .object(linkMembers)),
                    .init(.notFound, "Nothing was announced by this id.", schema: faultSchema),
                    .init(.conflict, "They are there already.", schema: faultSchema),
                    .init(.gone, "It was deleted, or was not sent in time.", schema: faultSchema),
                    .init(.contentTooLarge, "It is longer than was said.", schema: faultSchema),
                ] + answers),
            action: .upload(
                limit: byteLimit, seconds: uploadSeconds,
                decode: { request, caller, tools throws(Rejection) in
                    let app: App
                    do throws(ClaimFault) {
                        app = try caller.app(tools)
                    } catch {
                        throw error.rejection()
                    }
                    let (project, now, requestID) = (caller.project, caller.now, request.id)
                    let url = links.download(request, at: now)
                    guard let number = ClaimID.number(.attachment, request.parameters[0]) else {
                        throw Rejection(Refusal.noSuchAttachment.response(requestID))
                    }
                    let id = AttachmentID(rawValue: number)
                    return ContentUpload(
                        check: { snapshot throws(StoreFault) in
                            guard let attachment = try snapshot.attachment(id), attachment.project == project else {
                                return .answer(Refusal.noSuchAttachment.response(requestID))
                            }
                            if let fault = attachment.fault(at: now, app.id) {
                                return .answer(fault.response(requestID))
                            }
                            let event = ClaimEvent.recognition(
                                attachment.description.clientEventID.utf8.span, app.id, in: project, snapshot.hash)
                            var first: NoteEventOfAttachments?
                            // An event from before the reservation does not know its attachment's person; a later event does.
                            if try snapshot.isNobodys(attachment), let person = try snapshot.person(ofRecentRow: event)
                            {
                                first = NoteEventOfAttachments(event, of: person)
                            }
                            return .take(atMost: attachment.description.byteCount, first: first)
                        },
                        call: { byteCount, digest in
                            PreparedCall(
                                StoreAttachment(id, app: app.id, byteCount: byteCount, digest: digest.bytes)
                            ) { attachment, _ in uploaded(attachment, url) }
                        })
                }))
    }

    private static func uploaded(
        _ attachment: Attachment, _ url: (AttachmentID) -> (String, Instant)
    ) -> Response {
        switch attachment.state {
        case .tooShort, .tooLong:
            return fault(
                attachment.state == .tooLong ? .contentTooLarge : .badRequest, "size_mismatch",
                "The body does not have the \(attachment.description.byteCount) bytes that were announced.")
        case .wrongDigest:
            return fault(.badRequest, "hash_mismatch", "The body does not have the SHA-256 that was announced.")
        case .reserved, .stored, .deleted:
            return IdentityCalls.json { json in
                json.key("attachment_id")
                json.string(ClaimID.text(.attachment, attachment.id.rawValue))
                json.key("size_bytes")
                json.integer(attachment.description.byteCount)
                json.key("sha256")
                json.string(Hexadecimal.encode(attachment.description.digest))
                write(url(attachment.id), &json)
            }
        }
    }

    private static func write(_ link: (url: String, until: Instant), _ json: inout JSONWriter) {
        json.key("download_url")
        json.string(link.url)
        json.key("download_url_expires_at")
        json.moment(link.until)
    }

    /// A refusal about an attachment: it has a code, and no `error`.
    static func fault(
        _ status: Status, _ code: String, _ message: String, _ more: (inout JSONWriter) -> Void = { _ in }
    ) -> Response {
        IdentityCalls.json(status) { json in
            json.key("code")
            json.string(code)
            json.key("message")
            json.string(message)
            more(&json)
        }
    }

    /// How calls about attachments are refused: what is wrong with the file has a code.
    private static let answers = ClaimFault.answers.map { answer in
        answer.status == .badRequest
            ? Operation.Answer(.badRequest, answer.description, schema: .anyOf([ClaimFault.schema, faultSchema]))
            : answer
    }

    private static let faultSchema = Schema.object([
        .init("code", .string(), required: true), .init("message", .string(), required: true),
    ])

    private static let linkMembers: [Schema.Property] = [
        .init("attachment_id", .string(), required: true), .init("size_bytes", .integer(), required: true),
        .init("sha256", .string(), required: true), .init("download_url", .string(), required: true),
        .init("download_url_expires_at", .string(), required: true),
    ]

    // MARK: - Reading

    private static let list = Endpoint(
        .get, "/v1/attachments", scope: .eventsRead, limit: .claim,
        operation: Operation(
            id: "list_attachments", summary: "Lists attachments, the newest first.",
            description: "\(FormFilter.description) Besides: event_id, event_client_id and issue_id.",
            responses: [
                .init(
                    .ok, "A page.",
                    schema: .object([
                        .init("attachments", .array(.object([])), required: true),
                        .init("cursor", .anyOf([.string(), .null]), required: true),
                        .init("has_more", .boolean(), required: true),
                    ]))
            ] + answers),
        action: .query { request, caller, tools throws(Rejection) in
            let (filter, events): (FormFilter, EventFilter)
            do throws(ClaimFault) {
                filter = try FormFilter(request, caller, tools)
                events = EventFilter(try ReadQuery(request))
            } catch {
                throw error.rejection()
            }
            return { snapshot throws(StoreFault) in
                let wanted = try events.clientIDs(filter.project, snapshot)
                var users = UserNames(filter.project)
                var rows = filter.resolved(snapshot)
                // The person of an attachment can become known after the attachment has arrived.
                let members = rows.members
                rows.members = nil
                let list = try FormList<(Attachment, String?)>(of: .attachment, rows, snapshot) {
                    _, row throws(StoreFault) in
                    guard let id = row["attachment_id"].flatMap(Int64.init).map(AttachmentID.init),
                        let attachment = try snapshot.attachment(id), attachment.state == .stored,
                        filter.isDevelopment.map({ $0 == attachment.description.isDevelopment }) ?? true,
                        members.map({ $0.contains(attachment.person) }) ?? true,
                        wanted.map({ $0.contains(attachment.description.clientEventID.lowercased()) }) ?? true
                    else { return nil }
                    return (attachment, try users.name(of: attachment.person, snapshot))
                }
                return IdentityCalls.json { json in
                    json.key("attachments")
                    json.array { json in
                        for (attachment, user) in list.items { json.object { write(attachment, user, &$0) } }
                    }
                    json.end(of: list.next)
                }
            }
        })

    /// The events whose attachments a caller asks for.
    private struct EventFilter {
        private let clientID: String?
        private let event: String?
        private let issue: String?

        init(_ query: ReadQuery) {
            (clientID, event, issue) = (query["event_client_id"], query["event_id"], query["issue_id"])
        }

        /// The clients' own ids of these events, in lower case; nil for all events.
        func clientIDs(_ project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Set<String>? {
            var wanted: Set<String>?
            func narrow(_ ids: Set<String>) { wanted = wanted.map { $0.intersection(ids) } ?? ids }
            if let clientID { narrow([clientID.lowercased()]) }
            if let event {
                let row = try ClaimID.number(.row, event).map(RowNumber.init).flatMap { number throws(StoreFault) in
                    try snapshot.row(number)
                }
                // An id can belong to another project.
                let own = row.flatMap { snapshot.person($0.person, in: project) == nil ? nil : $0 }
                let members = own.flatMap { EventMembers($0.row.body, JSONParser()) }
                narrow(Set([members?["client_event_id"]?.lowercased()].compactMap { $0 }))
            }
            if let issue {
                var ids: Set<String> = []
                var range = RowsByTime()
                range.limit = 1000
                let parser = JSONParser()
                for row in try snapshot.rows(of: .occurrence, in: project, range) {
                    guard let members = EventMembers(row.row.body, parser),
                        members["issue_id"] == issue.lowercased(), let id = members["client_event_id"]
                    else { continue }
                    ids.insert(id.lowercased())
                }
                narrow(ids)
            }
            return wanted
        }
    }

    private static func write(_ attachment: Attachment, _ userID: String?, _ json: inout JSONWriter) {
        let said = attachment.description
        json.key("id")
        json.string(ClaimID.text(.attachment, attachment.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(attachment.project.rawValue)))
        json.key("app_id")
        json.string(ClaimID.text(.app, said.app.rawValue))
        json.key("user_id")
        json.text(userID)
        json.key("event_client_id")
        json.string(said.clientEventID)
        json.key("original_filename")
        json.string(said.filename)
        json.key("content_type")
        json.string(said.contentType)
        json.key("size_bytes")
        json.integer(said.byteCount)
        json.key("sha256")
        json.string(Hexadecimal.encode(said.digest))
        json.key("is_dev")
        json.bool(said.isDevelopment)
        json.key("created_at")
        json.moment(attachment.madeAt)
    }

    private static func get(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .get, "/v1/attachments/:id", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "get_attachment", summary: "Tells of an attachment, and where it can be got for a minute.",
                responses: [
                    .init(.ok, "The attachment.", schema: .object([.init("download_url", .string(), required: true)])),
                    .init(.notFound, "There is none with this id.", schema: ClaimFault.schema),
                ] + answers),
            action: .query { request, caller, tools throws(Rejection) in
                let id = ClaimID.number(.attachment, request.parameters[0]).map(AttachmentID.init)
                let (project, url) = (caller.project, links.download(request, at: caller.now))
                return { snapshot throws(StoreFault) in
                    let found = try id.flatMap { id throws(StoreFault) in try snapshot.attachment(id) }
                    guard let attachment = found, attachment.project == project, attachment.state == .stored else {
                        return ClaimFault("Attachment not found", status: .notFound).response
                    }
                    var users = UserNames(project)
                    let userID = try users.name(of: attachment.person, snapshot)
                    return IdentityCalls.json { json in
                        write(attachment, userID, &json)
                        write(url(attachment.id), &json)
                    }
                }
            })
    }

    private static func download(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .get, "/v1/attachments/download", scope: nil,
            operation: Operation(
                id: "download_attachment", summary: "Sends an attachment's bytes to whoever has a link.",
                query: [.init("t", .string("The link's token."), required: true)],
                responses: [
                    .init(.ok, "The bytes.", contentType: "application/octet-stream"),
                    .init(.forbidden, "The link is none, or is too old.", schema: ClaimFault.schema),
                    .init(.notFound, "It is not there any more.", schema: ClaimFault.schema),
                ]),
            action: .download { request, _, tools throws(Rejection) in
                guard let id = request.query?["t"].flatMap({ links.attachment($0, at: tools.now) }) else {
                    throw ClaimFault("Invalid or expired download link", status: .forbidden).rejection()
                }
                return { snapshot throws(StoreFault) in
                    let none = ClaimFault("Attachment not found", status: .notFound).response
                    guard let attachment = try snapshot.attachment(id), attachment.state == .stored,
                        let digest = Digest(attachment.description.digest)
                    else { return .response(none) }
                    return .content(digest, head: head(attachment), orElse: none)
                }
            })
    }

    /// The client chose the file's type, so a browser must save the file and not show it.
    private static func head(_ attachment: Attachment) -> Response {
        let unreserved = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
        let name = attachment.description.filename.utf8.map { byte in
            unreserved.contains(byte)
                ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode([byte]).uppercased()
        }
        let type = attachment.description.contentType
        let isFit = type.utf8.allSatisfy { 0x20...0x7E ~= $0 }
        return Response(
            .ok, contentType: Response.ContentType(isFit ? type : "application/octet-stream"),
            fields: [
                .init("Content-Disposition", "attachment; filename*=UTF-8''\(name.joined())"),
                .init("X-Content-Type-Options", "nosniff"), .init("Cache-Control", "private, no-store"),
            ])
    }

    private static let delete = Endpoint(
        .delete, "/v1/attachments/:id", scope: .issuesWrite, limit: .claim,
        operation: Operation(
            id: "delete_attachment", summary: "Deletes an attachment, and its bytes if no other has the same.",
            responses: [
                .init(.ok, "It is gone.", schema: .object([.init("deleted", .boolean(), required: true)])),
                .init(.notFound, "There is none with this id.", schema: faultSchema),
            ] + answers),
        action: .act(
            DeleteAttachment.self, body: ClaimDialect.body,
            decode: { request, _, _ throws(Rejection) in
                guard let id = ClaimID.number(.attachment, request.parameters[0]) else {
                    throw Rejection(Refusal.noSuchAttachment.response(request.id))
                }
                return Decoded(DeleteAttachment(AttachmentID(rawValue: id)))
            },
            encode: { _, _, _ in
                IdentityCalls.json { json in
                    json.key("deleted")
                    json.bool(true)
                }
            }))
}

extension Refusal {
    func response(_ id: RequestID) -> Response { ClaimFault.response(to: .refused(self), id) }
}

/// A client's description of a file, before the client sends the file.
private struct AttachmentForm {
    private var texts: [String: String] = [:]
    private var byteCount: Int64?
    private var isDevelopment = false

    /// The types of files that a computer runs when a person opens them.
    private static let programs: Set<String> = [
        "application/x-msdownload", "application/x-msdos-program", "application/x-executable", "application/x-elf",
        "application/x-dosexec", "application/x-mach-binary", "application/vnd.microsoft.portable-executable",
        "application/x-sh", "application/x-shellscript", "text/x-shellscript", "application/x-csh",
        "application/x-bat", "application/x-msi", "application/x-apple-diskimage", "application/java-archive",
        "application/x-java-archive", "application/vnd.android.package-archive", "application/javascript",
        "text/javascript", "application/x-javascript", "application/x-python-code", "text/x-python",
        "application/x-perl", "application/x-php", "application/x-httpd-php", "application/hta",
    ]

    static func read(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ quotas: AttachmentQuotas
    ) throws(Rejection) -> ReserveAttachment {
        let app: App
        do throws(ClaimFault) {
            app = try caller.app(tools)
        } catch {
            throw error.rejection()
        }
        let form = try AttachmentForm(request, tools)
        let description = try form.description(app)
        var sighting = AppUser.Sighting(app: app.id)
        if app.platform != .backend { sighting.isDevelopment = form.isDevelopment }
        let userID = form.texts["user_id"]
        let event = ClaimEvent.recognition(description.clientEventID.utf8.span, app.id, in: caller.project, tools.hash)
        return ReserveAttachment(
            user: ClaimDialect.identity(userID, caller, tools), event: event, isOfEvent: userID == nil,
            description: description, sighting: sighting, quotas: quotas)
    }

    private init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
        guard ClaimDialect.hasJSON(request) else { throw AttachmentForm.unfit("client_event_id must be a UUID") }
        var form = (texts: texts, byteCount: byteCount, isDevelopment: isDevelopment, fault: String?.none)
        do throws(JSONFault) {
            try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                guard root.kind == .object else { return }
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    let name = key.copy()
                    switch name {
                    case "size_bytes" where value.kind == .integer: form.byteCount = try value.integer(at: name)
                    case "is_dev" where value.kind == .bool: form.isDevelopment = try value.bool(at: name)
                    case "user_id" where value.isNull: break
                    case "user_id" where value.kind != .string: form.fault = "user_id must be a string"
                    default: if value.kind == .string { form.texts[name] = try value.string(at: name) }
                    }
                }
            }
        } catch {
            throw AttachmentForm.unfit(error.message)
        }
        if let fault = form.fault { throw AttachmentForm.unfit(fault) }
        (texts, byteCount, isDevelopment) = (form.texts, form.byteCount, form.isDevelopment)
        if texts["user_id"] == "" { texts["user_id"] = nil }
    }

    private func description(_ app: App) throws(Rejection) -> Attachment.Description {
        guard let event = texts["client_event_id"], ClaimEvent.isUUID(event) else {
            throw AttachmentForm.unfit("client_event_id must be a UUID")
        }
        for name in ["original_filename", "content_type"] {
            guard let text = texts[name], (1...255).contains(text.unicodeScalars.count) else {
                throw AttachmentForm.unfit("\(name) must have 1 to 255 characters")
            }
        }
        guard let byteCount, (1...Int64(AttachmentCalls.byteLimit)).contains(byteCount) else {
            throw AttachmentForm.unfit("size_bytes must be an integer 1-\(AttachmentCalls.byteLimit)")
        }
        guard let digest = texts["sha256"].flatMap({ Hexadecimal.decode($0.utf8.span) }), digest.count == 32 else {
            throw AttachmentForm.unfit("sha256 must have 64 hexadecimal digits")
        }
        if let user = texts["user_id"], user.unicodeScalars.count > ClaimDialect.userIDCharacters {
            throw AttachmentForm.unfit("user_id must have at most \(ClaimDialect.userIDCharacters) characters")
        }
        let (filename, type) = (texts["original_filename"] ?? "", texts["content_type"] ?? "")
        let kind = type.prefix { $0 != ";" }.lowercased().trimmed
        guard !AttachmentForm.programs.contains(kind) else {
            throw Rejection(
                AttachmentCalls.fault(
                    .unsupportedMediaType, "disallowed_content_type", "Files of type \(kind) are not taken."))
        }
        return Attachment.Description(
            app: app.id, clientEventID: event, filename: filename, contentType: type, byteCount: Int(byteCount),
            digest: digest, isDevelopment: isDevelopment)
    }

    private static func unfit(_ message: String) -> Rejection {
        Rejection(AttachmentCalls.fault(.badRequest, "invalid_request", message))
    }
}
