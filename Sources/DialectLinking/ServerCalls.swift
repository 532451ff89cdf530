import ByteText
import CivilTime
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls of back ends (spec/linking.md 1.3, 1.4 and 1.7): they get codes for their users, link installs to their users,
/// and delete users.
enum ServerCalls {
    static func routes(_ tools: Linking.Tools) -> [Endpoint] { [code(tools.tokens), link, delete] }

    // MARK: - Codes

    private static func code(_ tokens: LinkingTokens) -> Endpoint {
        Endpoint(
            .post, "/users/auth-code", scope: .userLink,
            operation: Operation(
                id: "linking_auth_code",
                summary: "Makes a code that an install redeems to become an install of a user.",
                description:
                    "With preview=true, in the query or the body, the answer also has the result of a redemption.",
                query: [.init("preview", .string(oneOf: ["true", "false"]))],
                request: .object([
                    .init("external_id", .string("The back end's id of its user."), required: true),
                    .init(
                        "dpop_jkt", .string("The thumbprint of the only key that may redeem the code (RFC 9449 10).")),
                    .init("preview", .boolean()),
                    .init("device_class", .string("For the preview.", oneOf: DeviceClass.allCases.map(\.name))),
                ]),
                responses: [
                    .init(
                        .ok, "The code, and the end of its validity.",
                        schema: .object([
                            .init("authentication_code", .string("128 hexadecimal digits."), required: true),
                            .init("expires_at", .string("ISO 8601."), required: true), .init("preview", .object([])),
                        ]))
                ] + Envelope.errors([(.forbidden, "The key may not link.")])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    do throws(LinkingError) {
                        return try code(request, caller, tools, tokens)
                    } catch {
                        throw error.rejection(request.id)
                    }
                }))
    }

    private static func code(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ tokens: LinkingTokens
    ) throws(LinkingError) -> PreparedCall {
        let body = try LinkingBody(request, tools, ["external_id", "dpop_jkt", "device_class"])
        let external = try body.externalID(caller, tools)
        if let thumbprint = body.texts["dpop_jkt"], !JSONWebKey.isThumbprint(thumbprint) {
            throw .badRequest("dpop_jkt must be the SHA-256 thumbprint of a JWK, in base64url.")
        }
        var preview: DeviceClass?
        guard let isPreview = request.flag("preview") else {
            throw .badRequest("preview must be true or false.")
        }
        if body.flags["preview"] ?? isPreview {
            let name = body.texts["device_class"] ?? DeviceClass.phone.name
            guard let device = DeviceClass(named: name) else {
                throw .badRequest(
                    "device_class must be one of \(DeviceClass.allCases.map(\.name).joined(separator: ", ")).")
            }
            preview = device
        }
        let app = try caller.app()
        let code = AuthenticationCode(for: app, tokens)
        let command = IssueCode(
            app: app, key: caller.key?.id, external: external, digest: code.digest, seal: code.seal,
            thumbprint: body.texts["dpop_jkt"], preview: preview)
        return PreparedCall(command, isRemembered: false) { reply, _ in
            guard case .codeIssued(let expiresAt, let preview) = reply.plain else { return nil }
            return Envelope.json { json in
                json.key("authentication_code")
                json.string(code.text)
                json.key("expires_at")
                json.moment(expiresAt)
                if let preview {
                    json.key("preview")
                    json.object { write(preview, &$0) }
                }
            }
        }
    }

    private static func write(_ preview: CodePreview, _ json: inout JSONWriter) {
        json.key("user_id")
        if let user = preview.user { json.string(user.linkingText) } else { json.null() }
        json.key("would_be_active")
        json.bool(!preview.isBlocked)
        json.key("would_deactivate")
        json.array { json in
            for install in preview.leaving {
                json.object { json in
                    json.key("install_id")
                    json.string(install.install.text)
                    json.key("device_class")
                    json.string(install.device.deviceClass.name)
                    for (name, field) in [
                        ("os", Install.Device.Field.os), ("os_version", .osVersion), ("model", .model),
                    ] {
                        guard let value = install.device.fields[field] else { continue }
                        json.key(name)
                        json.string(value)
                    }
                    json.key("last_seen")
                    json.moment(install.lastSeen)
                }
            }
        }
    }

    // MARK: - Links

    private static let link = Endpoint(
        .post, "/v2/users/:install_id/link", scope: .userLink,
        operation: Operation(
            id: "linking_link", summary: "Links an install to the user that has an external id.",
            description: "A repeated link changes nothing.",
            request: .object([.init("external_id", .string("The back end's id of its user."), required: true)]),
            responses: [
                .init(
                    .ok, "The user.",
                    schema: .object([
                        .init("id", .string("24 hexadecimal digits."), required: true),
                        .init("person_id", .string("The same."), required: true),
                    ]))
            ]
                + Envelope.errors([
                    (.forbidden, "The key may not link, or the install cannot be linked to this user."),
                    (.notFound, "There is no such install."), (.conflict, "More than one install is active."),
                ])),
        action: .call(
            body: BufferedBody(),
            decode: { request, caller, tools throws(Rejection) in
                do throws(LinkingError) {
                    let external = try LinkingBody(request, tools, ["external_id"]).externalID(caller, tools)
                    // No install has the id 0: an invalid id finds no install.
                    let install = InstallID(text: request.parameters[0]) ?? InstallID(rawValue: 0)
                    let command = LinkInstall(
                        install, app: try caller.app(), to: external, in: caller.project, hash: tools.hash)
                    return PreparedCall(command) { reply, _ in
                        guard case .linked(let person) = reply.plain else { return nil }
                        return Envelope.json { json in
                            json.key("id")
                            json.string(person.linkingText)
                            json.key("person_id")
                            json.string(person.linkingText)
                        }
                    }
                } catch {
                    throw error.rejection(request.id)
                }
            }))

    // MARK: - Deletion

    private static let delete = Endpoint(
        .delete, "/users/:user_id", scope: .userDelete,
        operation: Operation(
            id: "linking_delete_user", summary: "Deletes a user with all data of its group.",
            description: "The caller has an API key, or the token of one of the user's own installs.",
            responses: [.init(.ok, "The user is deleted. There is no body.")]
                + Envelope.errors([
                    (.forbidden, "The key may not delete users, or the install belongs to another user."),
                    (.notFound, "There is no such user."),
                ])),
        action: .steps(
            body: .optional,
            decode: { request, caller, _ in
                let person = PersonID(linkingText: request.parameters[0]) ?? PersonID(rawValue: 0)
                let deletion = DeleteUser(person, by: caller.install)
                let project = caller.project
                // Writes a refusal in the form of the dialect.
                let call = Step.call(PreparedCall(deletion) { _, _ in Response(.ok) })
                return .decide(deletion) { result, _ in
                    switch result {
                    case .success: return .answer(Response(.ok))
                    case .failure(.rowsNotSettled):
                        return .read { snapshot throws(StoreFault) in
                            let people = snapshot.group(of: person).members
                            return try .settling(people, in: project, snapshot) { _ in
                                call
                            } then: {
                                call
                            }
                        }
                    case .failure: return call
                    }
                }
            }))
}

extension Caller {
    /// The app of the key.
    func app() throws(LinkingError) -> AppID {
        guard let app = key?.app else { throw .unauthorized("The API key belongs to no app.") }
        return app
    }
}

extension JSONWriter {
    mutating func moment(_ moment: Instant) {
        plainString(ISO8601.format(millisecondsSince1970: moment.milliseconds))
    }
}

/// An authentication code: 64 unpredictable bytes, in hexadecimal digits.
///
///     56 bytes: random | 8 bytes: the app, under a mask that only this server can make from the random bytes
///
/// So an install that brings a code need not name the app. An invented code belongs to no app, and the server refuses it
/// before it keeps anything.
struct AuthenticationCode {
    let bytes: [UInt8]

    private static let randomBytes = 56

    init(for app: AppID, _ tokens: LinkingTokens) {
        let random = SecureRandom.bytes(AuthenticationCode.randomBytes)
        let number = UInt64(bitPattern: app.rawValue) ^ tokens.codeMask(random)
        bytes = random + (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
    }

    /// Reads a code; nil for a text of another length or with other characters.
    init?(_ text: String) {
        guard text.utf8.count == 128, let bytes = Hexadecimal.decode(Array(text.lowercased().utf8).span) else {
            return nil
        }
        self.bytes = bytes
    }

    var text: String { Hexadecimal.encode(bytes) }

    /// Makes a code of any text. An invalid text gets a digest that no real code has.
    init(unchecked text: String) { bytes = AuthenticationCode(text)?.bytes ?? Array(text.utf8) }

    /// The app of the code. A code of an older master key names an app under that key only.
    func app(_ tokens: LinkingTokens, _ directory: Directory) -> AppID {
        let number = bytes[AuthenticationCode.randomBytes...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let random = Array(bytes[..<AuthenticationCode.randomBytes])
        let apps = tokens.codeMasks(random).map { AppID(rawValue: Int64(bitPattern: number ^ $0)) }
        return apps.first { directory.apps[$0] != nil } ?? apps[0]
    }

    /// The digest, which is the only part of the code that the store keeps.
    var digest: KeyHash { SHA256.digest(of: bytes).keyHash }

    /// The seal that hides the code's user in the store.
    var seal: CodeSeal {
        let words = HMAC(key: bytes).authenticate(Array("linking code seal".utf8)).words
        return CodeSeal(key: Hash128(high: words.1, low: words.0))
    }
}
