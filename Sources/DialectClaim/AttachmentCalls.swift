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
        [reserve(links), upload(links), list, download(links), get(links), delete, use(links.quotas)]
    }

    /// The size of the largest file that clients may send.
    static let byteLimit = 2 << 30
    /// The seconds within which a body must arrive.
    private static let uploadSeconds = Int(Attachment.advisedMilliseconds / 1000)

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
                    .init(.notFound, "Nothing was announced by this id.", schema: ClaimFault.schema),
                    .init(.conflict, "They are there already.", schema: faultSchema),
                    .init(.gone, "The attachment was deleted.", schema: ClaimFault.schema),
                    .init(.contentTooLarge, "It is longer than was said.", schema: faultSchema),
                ] + answers),
            action: .upload(
                limit: byteLimit, seconds: uploadSeconds,
                decode: { request, caller, tools throws(Rejection) in
                    let app: App
                    do throws(ClaimFault) {
                        app = try caller.app(tools, unscoped: unscoped)
                    } catch {
                        throw error.rejection()
                    }
                    let (project, now, requestID) = (caller.project, caller.now, request.id)
                    let url = links.download(request, at: now)
                    let isFile = request.withField("content-type") { isOctets($0) } ?? false
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
                            guard isFile else { return .answer(Refusal.attachmentWithoutBody.response(requestID)) }
                            var first: NoteEventOfAttachments?
                            // An event from before the reservation did not tell its attachment; a later event does.
                            if attachment.eventAt == nil, let row = try snapshot.recentRow(event) {
                                first = NoteEventOfAttachments(
                                    event, of: row.person, at: row.row.at,
                                    issue: try IssueCalls.issue(of: row, snapshot))
                            }
                            return .take(atMost: attachment.description.byteCount, first: first)
                        },
                        call: { byteCount, digest in
                            PreparedCall(
                                StoreAttachment(id, app: app.id, byteCount: byteCount, digest: digest.bytes)
                            ) { attachment, _ in uploaded(attachment, byteCount, url) }
                        })
                }))
    }

    /// Whether a media type says that the body is a file. Parameters of the type do not matter.
    private static func isOctets(_ field: borrowing Span<UInt8>) -> Bool {
        let octets: StaticString = "application/octet-stream"
        let length = octets.utf8CodeUnitCount
        guard field.count >= length, field.extracting(0..<length).equalsIgnoringCase(octets) else { return false }
        return field.count == length || field[length] == UInt8(ascii: ";") || field[length] == UInt8(ascii: " ")
    }

    static let unscoped = "API key must be scoped to an app"

    private static func uploaded(
        _ attachment: Attachment, _ byteCount: Int, _ url: (AttachmentID) -> (String, Instant)
    ) -> Response {
        switch attachment.state {
        case .tooLong: return fault(.contentTooLarge, "size_mismatch", "Upload exceeded declared size")
        case .tooShort:
            return fault(
                .badRequest, "size_mismatch",
                "Uploaded size \(byteCount) does not match declared \(attachment.description.byteCount)")
        case .wrongDigest:
            return fault(.badRequest, "hash_mismatch", "Uploaded bytes do not match declared sha256")
        case .reserved, .stored, .deleted:
            return IdentityCalls.json { json in
                json.key("attachment_id")
                json.string(ClaimID.text(.attachment, attachment.id.rawValue))
                json.key("size_bytes")
                json.integer(attachment.description.byteCount)
                json.key("sha256")
                json.string(Hexadecimal.encode(attachment.description.digest))
                let link = url(attachment.id)
                json.key("download_url")
                json.string(link.0)
                json.key("download_url_expires_at")
                json.moment(link.1)
            }
        }
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
            description: """
                Without data_mode the list has attachments of development builds too. It has announced files without bytes.
                """,
            query: [
                .init("event_id", .string()), .init("event_client_id", .string()), .init("issue_id", .string()),
            ] + RowFilter.parameters([]) + RowFilter.pages,
            responses: [.init(.ok, "A page.", schema: RowPage.schema("attachments", .object(rowSchema)))] + answers),
        action: .steps(
            body: .optional,
            decode: { request, caller, tools throws(Rejection) in
                let all = try RowFilter.read(request, caller, tools, allModes: true)
                let events: EventFilter
                do throws(ClaimFault) {
                    events = try EventFilter(try ReadQuery(request))
                } catch {
                    throw error.rejection()
                }
                let (now, user, isDevelopment) = (caller.now, all.user, all.isDevelopment)
                // The person of an attachment can become known after the attachment has arrived, and the row does not have the mode.
                let filter = all.ofAllUsers.inAllModes
                return .read { snapshot throws(StoreFault) in
                    let wanted = try events.resolved(filter.project, snapshot)
                    let page = ItemPage<Shown>(limit: filter.limit) { row, snapshot throws(StoreFault) in
                        guard let id = row.members["attachment_id"].flatMap(Int64.init).map(AttachmentID.init),
                            let attachment = try snapshot.attachment(id), attachment.isListed(at: now),
                            isDevelopment.map({ $0 == attachment.description.isDevelopment }) ?? true,
                            wanted.includes(attachment)
                        else { return nil }
                        let shown = try Shown(attachment, snapshot)
                        if let issue = wanted.issue, shown.issue != issue { return nil }
                        return user == nil || shown.user?.key == user ? shown : nil
                    }
                    return RowSearch(.attachment, filter, page).step { page, _ in
                        IdentityCalls.json { page.write("attachments", &$0) { $0.write(&$1) } }
                    }
                }
            }))

    /// An attachment as reads show it.
    private struct Shown: Sendable {
        let attachment: Attachment
        let user: ShownUser?
        let event: RowNumber?
        let issue: IssueID?

        init(_ attachment: Attachment, _ snapshot: any Snapshot) throws(StoreFault) {
            var users = UserNames(attachment.project)
            self.attachment = attachment
            user = try users.user(of: attachment.person, snapshot)
            event = try AttachmentReads.event(of: attachment, snapshot).map { snapshot.eventID(of: $0) }
            issue = try attachment.issue.map { issue throws(StoreFault) in try snapshot.issueRoot(issue) }
        }

        func write(_ json: inout JSONWriter) {
            let said = attachment.description
            json.key("id")
            json.string(ClaimID.text(.attachment, attachment.id.rawValue))
            json.key("project_id")
            json.string(ClaimID.text(.project, Int64(attachment.project.rawValue)))
            json.key("app_id")
            json.string(ClaimID.text(.app, said.app.rawValue))
            json.key("event_client_id")
            json.string(said.clientEventID)
            json.key("event_id")
            json.text(event.map { ClaimID.text(.row, $0.rawValue) })
            json.key("issue_id")
            json.text(issue.map { ClaimID.text(.issue, $0.rawValue) })
            json.key("user_id")
            json.text(user?.id)
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
            json.key("uploaded_at")
            if let uploadedAt = attachment.uploadedAt { json.moment(uploadedAt) } else { json.null() }
            json.key("created_at")
            json.moment(attachment.madeAt)
        }
    }

    private static let rowSchema: [Schema.Property] =
        [
            "id", "project_id", "app_id", "event_client_id", "original_filename", "content_type", "sha256",
            "created_at",
        ].map { .init($0, .string(), required: true) }
        + ["event_id", "issue_id", "user_id", "uploaded_at"].map {
            .init($0, .anyOf([.string(), .null]), required: true)
        } + [.init("size_bytes", .integer(), required: true), .init("is_dev", .boolean(), required: true)]

    /// The events whose attachments a caller asks for.
    private struct EventFilter: Sendable {
        private let clientID: String?
        private let event: String?
        private let issue: String?

        init(_ query: ReadQuery) throws(ClaimFault) {
            clientID = try query.condition("event_client_id")
            (event, issue) = (try query.condition("event_id"), try query.condition("issue_id"))
        }

        /// The conditions for attachments. An id of another project finds nothing.
        struct Wanted: Sendable {
            var clientIDs: [String] = []
            var issue: IssueID?
            var isEmpty = false

            func includes(_ attachment: Attachment) -> Bool {
                let id = attachment.description.clientEventID.lowercased()
                return !isEmpty && clientIDs.allSatisfy { $0 == id }
            }
        }

        func resolved(_ project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Wanted {
            var wanted = Wanted()
            if let clientID { wanted.clientIDs.append(clientID.lowercased()) }
            if let issue {
                // A part of another issue finds the attachments of the whole.
                wanted.issue = try ClaimID.number(.issue, issue).map(IssueID.init).map { id throws(StoreFault) in
                    try snapshot.issueRoot(id)
                }
                if wanted.issue == nil { wanted.isEmpty = true }
            }
            guard let event else { return wanted }
            let row = try ClaimID.number(.row, event).map(RowNumber.init).flatMap { number throws(StoreFault) in
                try snapshot.event(withFirst: number, in: project)
            }
            let own = row.flatMap { snapshot.person($0.person, in: project) == nil ? nil : $0 }
            if let id = own.flatMap({ EventMembers($0.row.body, JSONParser()) })?["client_event_id"] {
                wanted.clientIDs.append(id.lowercased())
            } else {
                wanted.isEmpty = true
            }
            return wanted
        }
    }

    private static func get(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .get, "/v1/attachments/:id", scope: .eventsRead, limit: .claim,
            operation: Operation(
                id: "get_attachment", summary: "Shows an attachment, and where it can be got for a minute.",
                responses: [
                    .init(
                        .ok, "The attachment. An announced file without bytes has no address.",
                        schema: .object(
                            rowSchema + [
                                .init(
                                    "download_url",
                                    .object([
                                        .init("url", .string(), required: true),
                                        .init("expires_at", .string(), required: true),
                                        .init("original_filename", .string(), required: true),
                                        .init("content_type", .string(), required: true),
                                        .init("size_bytes", .integer(), required: true),
                                    ]))
                            ])),
                    .init(.notFound, "Nothing has this id.", schema: ClaimFault.schema),
                ] + answers),
            action: .query { request, caller, tools throws(Rejection) in
                let id = ClaimID.number(.attachment, request.parameters[0]).map(AttachmentID.init)
                let (project, now, url) = (caller.project, caller.now, links.download(request, at: caller.now))
                return { snapshot throws(StoreFault) in
                    let found = try id.flatMap { id throws(StoreFault) in try snapshot.attachment(id) }
                    guard let attachment = found, attachment.project == project, attachment.isListed(at: now) else {
                        return ClaimFault("Attachment not found", status: .notFound).response
                    }
                    let shown = try Shown(attachment, snapshot)
                    return IdentityCalls.json { json in
                        shown.write(&json)
                        guard attachment.state == .stored else { return }
                        let link = url(attachment.id)
                        json.key("download_url")
                        json.object { json in
                            json.key("url")
                            json.string(link.0)
                            json.key("expires_at")
                            json.moment(link.1)
                            json.key("original_filename")
                            json.string(attachment.description.filename)
                            json.key("content_type")
                            json.string(attachment.description.contentType)
                            json.key("size_bytes")
                            json.integer(attachment.description.byteCount)
                        }
                    }
                }
            })
    }

    // MARK: - Use

    private static func use(_ quotas: AttachmentQuotas) -> Endpoint {
        Endpoint(
            .get, "/v1/projects/:id/attachment-usage", scope: .eventsRead,
            operation: Operation(
                id: "attachment_usage", summary: "Counts the attachments of the project, and of a user.",
                description: "Announced files count for a day, although their bytes have not arrived.",
                query: [.init("user_id", .string())],
                responses: [
                    .init(
                        .ok, "The numbers.",
                        schema: .object(
                            [.init("project_id", .string(), required: true)]
                                + ["used_bytes", "quota_bytes", "user_quota_bytes", "file_count"].map {
                                    .init($0, .integer(), required: true)
                                } + [
                                    .init("user_id", .string()), .init("user_used_bytes", .integer()),
                                    .init("user_file_count", .integer()),
                                ])),
                    .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter = try RowFilter.read(request, caller, tools, isOfProject: true)
                    let userID = request.query?["user_id"]
                    let count = UseCount(user: filter.user, at: caller.now)
                    let every = filter.ofAllUsers.inAllModes.ofAllTimes
                    return RowSearch(.attachment, every, count).step { count, snapshot throws(StoreFault) in
                        let settings = try snapshot.claimSettings(of: .project(filter.project))
                        let quotas = settings.quotas(or: quotas)
                        return IdentityCalls.json { json in
                            json.key("project_id")
                            json.string(ClaimID.text(.project, Int64(filter.project.rawValue)))
                            for (name, number) in [
                                ("used_bytes", count.all.bytes), ("quota_bytes", quotas.projectBytes),
                                ("user_quota_bytes", quotas.userBytes), ("file_count", count.all.files),
                            ] as [(StaticString, Int)] {
                                json.key(name)
                                json.integer(number)
                            }
                            guard let userID else { return }
                            json.key("user_id")
                            json.string(userID)
                            json.key("user_used_bytes")
                            json.integer(count.ofUser.bytes)
                            json.key("user_file_count")
                            json.integer(count.ofUser.files)
                        }
                    }
                }))
    }

    /// Counts attachments and their bytes.
    private struct UseCount: RowFinding {
        private(set) var all = (bytes: 0, files: 0)
        private(set) var ofUser = (bytes: 0, files: 0)
        private let user: IdentityKey?
        private let now: Instant

        init(user: IdentityKey?, at now: Instant) { (self.user, self.now) = (user, now) }

        mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
            guard let id = row.members["attachment_id"].flatMap(Int64.init).map(AttachmentID.init),
                let attachment = try snapshot.attachment(id), attachment.isListed(at: now)
            else { return true }
            let bytes = attachment.description.byteCount
            all = (all.bytes + bytes, all.files + 1)
            guard let user else { return true }
            var users = UserNames(attachment.project)
            if try users.user(of: attachment.person, snapshot)?.key == user {
                ofUser = (ofUser.bytes + bytes, ofUser.files + 1)
            }
            return true
        }
    }

    // MARK: - Downloads

    private static func download(_ links: AttachmentLinks) -> Endpoint {
        Endpoint(
            .get, "/v1/attachments/download", scope: nil,
            operation: Operation(
                id: "download_attachment", summary: "Sends the bytes of an attachment to a caller with a link.",
                query: [.init("t", .string("The link's token."), required: true)],
                responses: [
                    .init(.ok, "The bytes.", contentType: "application/octet-stream"),
                    .init(.unauthorized, "The link is missing, wrong or too old.", schema: ClaimFault.schema),
                    .init(.notFound, "It is not there any more.", schema: ClaimFault.schema),
                ]),
            action: .download { request, _, tools throws(Rejection) in
                guard let token = request.query?["t"], !token.isEmpty else {
                    throw ClaimFault("Missing download token", status: .unauthorized).rejection()
                }
                guard let id = links.attachment(token, at: tools.now) else {
                    throw ClaimFault("Invalid or expired download token", status: .unauthorized).rejection()
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
        // A field cannot have these characters, nor other control characters.
        let name = String(
            String.UnicodeScalarView(
                attachment.description.filename.unicodeScalars.filter {
                    $0 != "\\" && $0 != "\"" && $0.value >= 0x20 && $0.value != 0x7F
                }))
        let type = attachment.description.contentType
        let isFit = type.utf8.allSatisfy { 0x20...0x7E ~= $0 }
        return Response(
            .ok, contentType: Response.ContentType(isFit ? type : "application/octet-stream"),
            fields: [
                .init("Content-Disposition", "attachment; filename=\"\(name)\""),
                .init("X-Content-Type-Options", "nosniff"), .init("Cache-Control", "private, no-store"),
            ])
    }

    private static let delete = Endpoint(
        .delete, "/v1/attachments/:id", scope: .eventsWrite, limit: .claim,
        operation: Operation(
            id: "delete_attachment", summary: "Deletes an attachment, and its bytes if no other has the same.",
            description: "Only administrators may delete attachments.",
            responses: [
                .init(.ok, "It is gone.", schema: .object([.init("ok", .boolean(), required: true)])),
                .init(.notFound, "Nothing has this id.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .act(
            DeleteAttachment.self, body: ClaimDialect.body,
            decode: { request, caller, _ throws(Rejection) in
                // Every copy of an app has the client key, so the client key may not delete.
                try caller.requireAdministrator("Only users can delete attachments")
                guard let id = ClaimID.number(.attachment, request.parameters[0]) else {
                    throw Rejection(Refusal.noSuchAttachment.response(request.id))
                }
                return Decoded(DeleteAttachment(AttachmentID(rawValue: id)))
            },
            encode: { _, _, _ in
                IdentityCalls.json { json in
                    json.key("ok")
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
    private var userFault: String?

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
            app = try caller.app(tools, unscoped: AttachmentCalls.unscoped)
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
        guard ClaimDialect.hasJSON(request) else { throw AttachmentForm.unfit("client_event_id is required") }
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
                    case "user_id" where value.kind != .string: form.fault = AttachmentForm.unfitUser
                    default: if value.kind == .string { form.texts[name] = try value.string(at: name) }
                    }
                }
            }
        } catch {
            throw AttachmentForm.unfit(error.message)
        }
        (texts, byteCount, isDevelopment) = (form.texts, form.byteCount, form.isDevelopment)
        userFault = form.fault
    }

    private static let unfitUser =
        "user_id must be a non-empty string of at most \(ClaimDialect.userIDCharacters) chars"

    private func description(_ app: App) throws(Rejection) -> Attachment.Description {
        guard let event = texts["client_event_id"], !event.isEmpty else {
            throw AttachmentForm.unfit("client_event_id is required")
        }
        guard ClaimEvent.isUUID(event) else { throw AttachmentForm.unfit("client_event_id must be a UUID") }
        if let userFault { throw AttachmentForm.unfit(userFault) }
        if let user = texts["user_id"], !(1...ClaimDialect.userIDCharacters).contains(user.unicodeScalars.count) {
            throw AttachmentForm.unfit(AttachmentForm.unfitUser)
        }
        guard let filename = texts["original_filename"], (1...255).contains(filename.unicodeScalars.count) else {
            throw AttachmentForm.unfit("original_filename is required and must be at most 255 chars")
        }
        guard let type = texts["content_type"], !type.isEmpty else {
            throw AttachmentForm.unfit("content_type is required")
        }
        guard type.unicodeScalars.count <= 255 else {
            throw AttachmentForm.unfit("content_type must be at most 255 chars")
        }
        let kind = type.prefix { $0 != ";" }.lowercased().trimmed
        guard !AttachmentForm.programs.contains(kind) else {
            throw Rejection(
                AttachmentCalls.fault(
                    .unsupportedMediaType, "disallowed_content_type",
                    "Content-Type \"\(type)\" is not allowed for attachments"))
        }
        guard let byteCount, byteCount > 0 else {
            throw AttachmentForm.unfit("size_bytes must be a positive integer")
        }
        guard byteCount <= Int64(AttachmentCalls.byteLimit) else {
            throw AttachmentForm.unfit("size_bytes must be at most \(AttachmentCalls.byteLimit)")
        }
        guard let text = texts["sha256"], text.utf8.count == 64, text == text.lowercased(),
            let digest = Hexadecimal.decode(text.utf8.span)
        else {
            throw AttachmentForm.unfit("sha256 must be a 64-char lowercase hex string")
        }
        return Attachment.Description(
            app: app.id, clientEventID: event, filename: filename, contentType: type, byteCount: Int(byteCount),
            digest: digest, isDevelopment: isDevelopment)
    }

    private static func unfit(_ message: String) -> Rejection {
        Rejection(AttachmentCalls.fault(.badRequest, "invalid_request", message))
    }
}
