import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls of installs (spec/linking.md 1.5): a device becomes an install with a user, gets its tokens, and reads or resets
/// its user. The protocol is Onym's own, with the vendor's words.
enum DeviceCalls {
    static func routes(_ tools: Linking.Tools) -> [Endpoint] {
        [
            makeInstall(tools), createUser(tools), person, linkHard, linkLate, refresh(tools), reset, config,
            SubmitCall.route,
        ]
    }

    // MARK: - Who is about to be an install

    /// The app of a call without a token.
    static func app(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ loop: LoopTools,
        _ tools: Linking.Tools
    ) throws(LinkingError) -> App {
        switch route.path {
        case "/sdk/installs":
            let body = try LinkingBody(request, loop, ["app_id", "secret"])
            let (id, secret) = (try body.text("app_id"), try body.text("secret"))
            guard let app = directory.app(publicID: id), app.dialect == .linking, app.revokedAt == nil,
                let hash = app.secretHash,
                hash == SHA256.digest(of: Array(secret.utf8)).keyHash
            else { throw LinkingError(.unauthorized, "INVALID_CREDENTIALS", "The app id or its secret is wrong.") }
            return app
        case "/sdk/users":
            let code = try code(try LinkingBody(request, loop, ["authentication_code"]))
            guard let app = directory.apps[code.app(tools.tokens, directory)], app.dialect == .linking,
                app.revokedAt == nil
            else {
                throw LinkingError(.invalidCode)
            }
            return app
        default:
            let token = try LinkingBody(request, loop, ["refresh_token"]).text("refresh_token")
            guard let app = tools.tokens.refresh(token).flatMap({ directory.apps[$0.app] }), app.revokedAt == nil else {
                throw LinkingError(.invalidToken)
            }
            return app
        }
    }

    private static func code(_ body: LinkingBody) throws(LinkingError) -> AuthenticationCode {
        guard let code = AuthenticationCode(try body.text("authentication_code")) else {
            throw LinkingError(.invalidCode)
        }
        return code
    }

    /// The thumbprint of the key that a call proves to hold. A key that the body names needs such a proof.
    private static func thumbprint(
        _ request: borrowing Request, _ key: JSONWebKey?, _ caller: Caller, _ loop: LoopTools,
        _ tools: Linking.Tools
    ) throws(LinkingError) -> String? {
        let proved = try tools.proofs.thumbprint(request, .post, of: caller.app, at: caller.now, loop)
        if let key, key.thumbprint != proved { throw LinkingError(.proofRequired) }
        return proved
    }

    private static let installRequest: [Schema.Property] = [
        .init(
            "device",
            .object([
                .init("class", .string("The default is phone.", oneOf: DeviceClass.allCases.map(\.name))),
                .init("os", .string()), .init("os_version", .string()), .init("model", .string()),
                .init("locale", .string()),
            ])),
        .init("sdk", .object([.init("name", .string()), .init("version", .string())])),
        .init("jwk", .object([]), required: false),
    ]

    private static func makeInstall(_ tools: Linking.Tools) -> Endpoint {
        call(
            "/sdk/installs", scope: nil, "linking_install", "Makes an install with the app's id and secret.",
            request: [
                .init("app_id", .string(), required: true), .init("secret", .string(), required: true),
            ] + installRequest,
            .created, InstallAnswer.session + InstallAnswer.status
        ) { request, caller, loop throws(LinkingError) in
            let body = try LinkingBody(request, loop, ["app_id", "secret"])
            guard let app = loop.directory.app(publicID: try body.text("app_id")) else {
                throw LinkingError(.unauthorized, "INVALID_CREDENTIALS", "The app id or its secret is wrong.")
            }
            let thumbprint = try thumbprint(request, body.key, caller, loop, tools)
            let command = MakeInstall(app: app.id, device: body.device, thumbprint: thumbprint, hash: loop.hash)
            let now = caller.now
            // Two such calls cannot be recognized as one, because no install exists yet: each call makes an install.
            return PreparedCall(command, isRemembered: false) { reply, _ in
                guard case .installMade(let session, let status) = reply.plain else { return nil }
                return Envelope.json(.created) { json in
                    InstallAnswer.write(session, status, tools.tokens, at: now, &json)
                    InstallAnswer.write(status, &json)
                }
            }
        }
    }

    private static func createUser(_ tools: Linking.Tools) -> Endpoint {
        call(
            "/sdk/users", scope: nil, "linking_create_user", "Makes an install of the user of a code.",
            description:
                "A repeated call with the same code, and the same install_key or the same proven key, gets the "
                + "same install. So an install can repeat a call with a lost answer.",
            request: [
                .init("authentication_code", .string(), required: true),
                .init(
                    "install_key",
                    .string("A UUID that the client made for this install; not needed with a DPoP proof.")),
            ] + installRequest,
            .created,
            [.init("restored", .boolean("Whether the user existed before; then the status is 200."), required: true)]
                + InstallAnswer.session + [.init("config", .object(InstallAnswer.status), required: true)],
            others: [.init(.ok, "The user existed before.")]
        ) { request, caller, loop throws(LinkingError) in
            let body = try LinkingBody(request, loop, ["authentication_code", "install_key"])
            let code = try code(body)
            let thumbprint = try thumbprint(request, body.key, caller, loop, tools)
            guard let name = thumbprint ?? body.texts["install_key"].flatMap(InstallKey.canonical) else {
                throw .badRequest(
                    "install_key must be a UUID that the client made, unless a DPoP proof comes with the call.")
            }
            let command = RedeemCode(
                digest: code.digest, seal: code.seal, app: code.app(tools.tokens, loop.directory),
                installKey: loop.hash.hash(tag: InstallKey.tag, name),
                device: body.device, thumbprint: thumbprint, hash: loop.hash)
            let now = caller.now
            // Only the code and the install key recognize a repeated call.
            return PreparedCall(command, isRemembered: false) { reply, _ in
                guard case .redeemed(let session, let status, let isRestored) = reply.plain else { return nil }
                return Envelope.json(isRestored ? .ok : .created) { json in
                    json.key("restored")
                    json.bool(isRestored)
                    InstallAnswer.write(session, status, tools.tokens, at: now, &json)
                    json.key("config")
                    json.object { InstallAnswer.write(status, &$0) }
                }
            }
        }
    }

    private static func refresh(_ tools: Linking.Tools) -> Endpoint {
        call(
            "/sdk/token", scope: nil, "linking_refresh", "Gives an install its next tokens.",
            description:
                "Each refresh token is valid once. Because an answer may get lost, the last but one token is "
                + "valid until the install uses the last token. A call with an older token revokes all tokens of "
                + "the install.",
            request: [
                .init("grant_type", .string(oneOf: ["refresh_token"]), required: true),
                .init("refresh_token", .string(), required: true),
            ],
            .ok, InstallAnswer.session + InstallAnswer.status
        ) { request, caller, loop throws(LinkingError) in
            let body = try LinkingBody(request, loop, ["grant_type", "refresh_token"])
            guard try body.text("grant_type") == "refresh_token" else {
                throw .badRequest("grant_type must be refresh_token.")
            }
            guard let token = tools.tokens.refresh(try body.text("refresh_token")) else {
                throw LinkingError(.invalidToken)
            }
            let thumbprint = try thumbprint(request, nil, caller, loop, tools)
            let install = LinkingCaller(
                token.install, app: token.app, family: token.family, thumbprint: thumbprint, in: caller.project,
                hash: loop.hash)
            let now = caller.now
            let id = request.id
            let command = RefreshTokens(install, generation: token.generation)
            return PreparedCall(command, isRemembered: false) { reply, _ in
                switch reply.plain {
                case .refreshed(let session, let status):
                    return Envelope.json { json in
                        InstallAnswer.write(session, status, tools.tokens, at: now, &json)
                        InstallAnswer.write(status, &json)
                    }
                case .refused(let fault): return LinkingError(fault).response(id)
                case .installMade, .codeIssued, .redeemed, .linked, .status, .submitted, .reset, .deleted, .settings,
                    .appMade, .keyMade, .keyRevoked, .telling:
                    return nil
                }
            }
        }
    }

    // MARK: - Installs

    private static let person = status(
        "/sdk/person", "linking_person", "Answers the user of an install.",
        [
            .init("person_id", .string(), required: true),
            .init("third_party_linked", .boolean("Whether the user has an external id."), required: true),
        ]
    ) { status, id in
        if status.isDeleted { return LinkingError(.installDeleted).response(id) }
        guard let user = status.user else { return LinkingError(.notLinked).response(id) }
        return Envelope.json { json in
            json.key("person_id")
            json.string(user.linkingText)
            json.key("third_party_linked")
            json.bool(status.link == .external)
            InstallAnswer.write(status, &json)
        }
    }

    private static let config = status(
        "/sdk/config", "linking_config", "Answers the state of an install, and the reason.",
        description: "A waiting install becomes active with this call if there is room."
    ) { status, _ in Envelope.json { InstallAnswer.write(status, &$0) } }

    private static func status(
        _ path: String, _ id: String, _ summary: String, description: String? = nil, _ more: [Schema.Property] = [],
        answer: @escaping @Sendable (InstallStatus, RequestID) -> Response
    ) -> Endpoint {
        Endpoint(
            .get, path, scope: .install,
            operation: Operation(
                id: id, summary: summary, description: description,
                responses: [.init(.ok, "The state of the install.", schema: .object(more + InstallAnswer.status))]
                    + Envelope.errors([
                        (.forbidden, "The install was deleted, or the token is not a token of an install."),
                        (.notFound, "The install has no user."),
                    ])),
            action: .call(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let id = request.id
                    guard let install = caller.install else {
                        throw Rejection(Envelope.refuse(.forbidden(.install), id))
                    }
                    return PreparedCall(CheckInstall(install)) { reply, _ in
                        guard case .status(let status) = reply.plain else { return nil }
                        return answer(status, id)
                    }
                }))
    }

    private static let linkHard = call(
        "/sdk/link-legacy-install", scope: .install, "linking_hard_link",
        "Gives an install a user of its own, without an external id.", request: [], body: .optional, .ok, userAnswer
    ) { _, caller, _ throws(LinkingError) in
        PreparedCall(LinkHard(try install(caller)), encode: answerUser)
    }

    private static let linkLate = call(
        "/sdk/users/link", scope: .install, "linking_late_link",
        "Gives an install's user the external id of a code.",
        description:
            "The external id must not have a user. For an external id with a user, reset the install and redeem the code.",
        request: [.init("authentication_code", .string(), required: true)], .ok, userAnswer
    ) { request, caller, loop throws(LinkingError) in
        // A linked install gets the same refusal for every code, so the code is checked later.
        let text = try LinkingBody(request, loop, ["authentication_code"]).text("authentication_code")
        let code = AuthenticationCode(unchecked: text)
        let command = LinkLate(try install(caller), digest: code.digest, seal: code.seal, hash: loop.hash)
        return PreparedCall(command, isRemembered: false, encode: answerUser)
    }

    private static let reset = call(
        "/sdk/reset", scope: .install, "linking_reset", "Ends an install, after its device has removed the user.",
        request: [], body: .optional, .noContent, []
    ) { _, caller, _ throws(LinkingError) in
        PreparedCall(ResetInstall(try install(caller))) { _, _ in Response(.noContent) }
    }

    static func install(_ caller: Caller) throws(LinkingError) -> LinkingCaller {
        guard let install = caller.install else { throw LinkingError(.invalidToken) }
        return install
    }

    private static let userAnswer: [Schema.Property] = [
        .init("user_id", .string(), required: true), .init("person_id", .string("The same."), required: true),
    ]

    private static let answerUser: @Sendable (LinkingReply, RequestID) -> Response? = { reply, _ in
        guard case .linked(let user) = reply.plain else { return nil }
        return Envelope.json { json in
            json.key("user_id")
            json.string(user.linkingText)
            json.key("person_id")
            json.string(user.linkingText)
        }
    }

    // MARK: - Routes

    /// A call by POST.
    static func call(
        _ path: String, scope: Scope?, _ id: String, _ summary: String, description: String? = nil,
        request: [Schema.Property], body: BufferedBody = BufferedBody(), _ status: Status, _ answer: [Schema.Property],
        others: [Operation.Answer] = [],
        decode: @escaping @Sendable (borrowing Request, Caller, LoopTools) throws(LinkingError) -> PreparedCall
    ) -> Endpoint {
        Endpoint(
            .post, path, scope: scope,
            operation: Operation(
                id: id, summary: summary, description: description,
                request: request.isEmpty ? nil : .object(request),
                responses: [.init(status, "Done.", schema: answer.isEmpty ? nil : .object(answer))] + others
                    + Envelope.errors([
                        (.forbidden, "The call is not allowed, or the install was deleted."),
                        (.conflict, "The user or the external id is linked already."),
                    ])),
            action: .call(
                body: body,
                decode: { request, caller, loop throws(Rejection) in
                    do throws(LinkingError) {
                        return try decode(request, caller, loop)
                    } catch {
                        throw error.rejection(request.id)
                    }
                }))
    }
}

/// The client's own id of an install, which the client uses until the server has answered.
enum InstallKey {
    /// A tag that no other use of this hash key has.
    static let tag: UInt64 = 0xFFFF_FFFF_FFFF_FFFD

    /// A UUID in its one canonical form; nil for another text.
    static func canonical(_ text: String) -> String? {
        let parts = text.lowercased().split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [8, 4, 4, 4, 12],
            parts.allSatisfy({ Hexadecimal.decode(Array($0.utf8).span) != nil })
        else { return nil }
        return parts.joined(separator: "-")
    }
}
