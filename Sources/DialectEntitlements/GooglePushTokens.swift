import ByteText
import Crypto
import Domain
import Gateway
import JSON
import Outbound
import Threads

/// Checks the tokens with which Pub/Sub signs the push of a notification (spec/entitlements-live.md 5.2).
package final class GooglePushTokens: Sendable {
    /// The keys of Google, and the moments of their last questions.
    private struct Kept {
        var keys: [String: RSAPublicKey] = [:]
        var readAt: Instant?
        var askedAt: Instant?
    }

    /// What is known of the key that a token names.
    private enum KeyState {
        case known(RSAPublicKey)
        /// Google does not have the key, or had it not when it was asked a short time ago.
        case unknown
        /// Google has been asked a short time ago, and has not answered with keys.
        case unavailable
        case askNow
    }

    package static let standardURL = "https://www.googleapis.com/oauth2/v3/certs"

    private let url: OutboundURL
    private let audience: String
    private let email: String
    private let kept = Monitor(Kept())

    private static let issuers = ["https://accounts.google.com", "accounts.google.com"]
    private static let keptMilliseconds: Int64 = 3_600_000
    /// The pause between two questions because of an unknown key.
    private static let pauseMilliseconds: Int64 = 300_000
    /// The pause after a question without an answer. Everybody can send tokens that look right.
    private static let faultPauseMilliseconds: Int64 = 10_000
    private static let clockSeconds: Int64 = 300
    private static let keysAtMost = 32

    /// - Parameters:
    ///   - url: the address of Google's keys; tests use another address.
    ///   - audience: the audience of the push subscription.
    ///   - email: the service account of the push subscription.
    init(_ url: OutboundURL, audience: String, email: String) {
        (self.url, self.audience, self.email) = (url, audience, email)
    }

    /// Whether a token is from Google and for this subscription. Google is asked for its keys now and then.
    func check(_ text: String, at now: Instant, _ tools: LoopTools) -> StoreQuestion<Bool> {
        guard let token = SignedToken(text), let keyID = keyID(of: token, tools), isForUs(token, at: now, tools) else {
            return .done(.success(false))
        }
        let state: KeyState = kept.withLock { kept in
            let isFresh = kept.readAt.map { Self.isWithin($0, Self.keptMilliseconds, now) } ?? false
            if isFresh, let key = kept.keys[keyID] { return .known(key) }
            let pause = isFresh ? Self.pauseMilliseconds : Self.faultPauseMilliseconds
            if let asked = kept.askedAt, Self.isWithin(asked, pause, now) { return isFresh ? .unknown : .unavailable }
            kept.askedAt = now
            return .askNow
        }
        switch state {
        case .known(let key): return .done(.success(key.verifies(token.signature, of: token.signed)))
        case .unknown: return .done(.success(false))
        case .unavailable: return .unavailable(.playStore, .unreachable)
        case .askNow: break
        }
        return .ask(OutboundCall(.get, url)) { [self] result, tools in
            guard case .success(let answer) = result, answer.status == 200,
                let keys = try? tools.json.read(answer.body, { root throws(JSONFault) in try Self.keys(root) })
            else { return .unavailable(.playStore, .unreachable) }
            kept.withLock { kept in
                kept.keys = keys
                kept.readAt = now
            }
            return .done(.success(keys[keyID]?.verifies(token.signature, of: token.signed) ?? false))
        }
    }

    /// Whether a moment is at most so long ago. A clock that was set back makes it old.
    private static func isWithin(_ moment: Instant, _ milliseconds: Int64, _ now: Instant) -> Bool {
        (0..<milliseconds).contains(now.milliseconds - moment.milliseconds)
    }

    private func keyID(of token: SignedToken, _ tools: LoopTools) -> String? {
        var (algorithm, keyID): (String?, String?)
        try? tools.json.read(token.header) { root throws(JSONFault) in
            try root.forEachMember(at: "the header") { key, value throws(JSONFault) in
                switch key {
                case "alg": algorithm = try value.string(at: "alg")
                case "kid": keyID = try value.string(at: "kid")
                default: break
                }
            }
        }
        return algorithm == "RS256" ? keyID : nil
    }

    private func isForUs(_ token: SignedToken, at now: Instant, _ tools: LoopTools) -> Bool {
        var (issuer, audience, email, isVerified, ends): (String?, String?, String?, Bool, Int64?)
        (issuer, audience, email, isVerified, ends) = (nil, nil, nil, false, nil)
        try? tools.json.read(token.payload) { root throws(JSONFault) in
            try root.forEachMember(at: "the token") { key, value throws(JSONFault) in
                switch key {
                case "iss": issuer = try value.string(at: "iss")
                case "aud": audience = try value.string(at: "aud")
                case "email": email = try value.string(at: "email")
                case "email_verified": isVerified = try value.bool(at: "email_verified")
                case "exp": ends = try value.integer(at: "exp")
                default: break
                }
            }
        }
        guard let ends, now.seconds - Self.clockSeconds < ends else { return false }
        return isVerified && Self.issuers.contains(issuer ?? "") && audience == self.audience && email == self.email
    }

    private static func keys(_ root: JSONValue) throws(JSONFault) -> [String: RSAPublicKey] {
        var keys: [String: RSAPublicKey] = [:]
        try root.forEachMember(at: "the keys") { key, value throws(JSONFault) in
            guard case "keys" = key else { return }
            try value.forEachElement(at: "keys") { element throws(JSONFault) in
                var texts: [String: String] = [:]
                try element.forEachMember(at: "a key") { key, value throws(JSONFault) in
                    if value.kind == .string { texts[key.copy()] = try value.string(at: "a key") }
                }
                guard keys.count < keysAtMost, let id = texts["kid"], texts["kty"] ?? "RSA" == "RSA",
                    let modulus = texts["n"].flatMap({ Base64.decodeForAddresses(Array($0.utf8).span) }),
                    let exponent = texts["e"].flatMap({ Base64.decodeForAddresses(Array($0.utf8).span) })
                else { return }
                keys[id] = RSAPublicKey(modulus: modulus, exponent: exponent)
            }
        }
        return keys
    }
}
