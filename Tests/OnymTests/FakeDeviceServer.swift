import ClientKit
import Foundation
import Onym

/// The Linking dialect's other end, as far as a device sees it: it knows whose each install, token and code is.
/// All runs on the test's thread.
final class FakeDeviceServer: @unchecked Sendable {
    private struct Install {
        var user: String?
        var isLinked: Bool
        var isReset = false
        /// The refresh token that was used last, and the one that was given for it.
        var refresh: Set<String> = []
    }

    private struct Token {
        let install: String
        let end: Date
    }

    private var installs: [String: Install] = [:]
    private var tokens: [String: Token] = [:]
    /// Each code's user, and who has redeemed it.
    private var codes: [String: (user: String, key: String?, install: String?)] = [:]
    private var next = 0
    private let now: @Sendable () -> Date

    init(now: @escaping @Sendable () -> Date) { self.now = now }

    /// A device is told that a token ends earlier than it does, so that none ends on its way.
    private static let told: TimeInterval = 100
    private static let life: TimeInterval = 140

    private func number() -> Int {
        next += 1
        return next
    }

    /// What the app's back end asks for.
    func code(for user: String) -> String {
        let code = "code-\(number())"
        codes[code] = (user, nil, nil)
        return code
    }

    func user(of code: String) -> String? { codes[code]?.user }
    func isReset(_ install: String) -> Bool { installs[install]?.isReset ?? false }
    func user(ofToken token: String) -> String? { tokens[token].flatMap { installs[$0.install]?.user } }

    func answer(_ request: HTTPRequest) -> ScriptedTransport.Answer {
        let json = request.json
        switch request.path {
        case "/sdk/users": return redeem(json)
        case "/sdk/installs":
            let install = "install-\(number())"
            installs[install] = Install(user: nil, isLinked: false)
            return session(install)
        case "/sdk/token": return refresh(json["refresh_token"]?.text ?? "")
        default: break
        }
        let bearer = request.fields["Authorization"]?.dropFirst("Bearer ".count).description ?? ""
        guard let token = tokens[bearer], token.end > now(), let install = installs[token.install], !install.isReset
        else { return .json(401, ["message": "no", "errorCode": "INVALID_TOKEN"]) }
        return answer(request.path, json, token.install)
    }

    private func answer(_ path: String, _ json: JSON, _ install: String) -> ScriptedTransport.Answer {
        switch path {
        case "/sdk/reset":
            installs[install]?.isReset = true
            return .empty(204)
        case "/sdk/link-legacy-install":
            if installs[install]?.user == nil { installs[install]?.user = "user-of-\(install)" }
            return .json(200, ["person_id": .optional(installs[install]?.user)])
        case "/sdk/users/link":
            guard let code = json["authentication_code"]?.text, codes[code] != nil else {
                return .json(400, ["message": "no", "errorCode": "INVALID_AUTHENTICATION_CODE"])
            }
            installs[install]?.isLinked = true
            return .json(200, ["user_id": .optional(installs[install]?.user)])
        default: return .json(200, ["is_active": true])
        }
    }

    private func redeem(_ json: JSON) -> ScriptedTransport.Answer {
        guard let code = json["authentication_code"]?.text, let known = codes[code],
            let key = json["install_key"]?.text,
            known.key ?? key == key
        else { return .json(400, ["message": "no", "errorCode": "INVALID_AUTHENTICATION_CODE"]) }
        let install = known.install ?? "install-\(number())"
        if known.install == nil { installs[install] = Install(user: known.user, isLinked: true) }
        codes[code] = (known.user, key, install)
        return session(install)
    }

    private func refresh(_ token: String) -> ScriptedTransport.Answer {
        guard let install = installs.first(where: { $0.value.refresh.contains(token) })?.key, !isReset(install) else {
            return .json(401, ["message": "no", "errorCode": "INVALID_TOKEN"])
        }
        installs[install]?.refresh = [token]
        return session(install)
    }

    private func session(_ install: String) -> ScriptedTransport.Answer {
        let number = number()
        tokens["token-\(number)"] = Token(install: install, end: now().addingTimeInterval(FakeDeviceServer.life))
        installs[install]?.refresh.insert("refresh-\(number)")
        let end = ISO8601DateFormatter().string(from: now().addingTimeInterval(FakeDeviceServer.told))
        return .json(
            201,
            [
                "install_id": .string(install), "user_id": .optional(installs[install]?.user),
                "token": .string("token-\(number)"), "refresh_token": .string("refresh-\(number)"),
                "expires_at": .string(end),
                "is_active": true,
            ])
    }
}
