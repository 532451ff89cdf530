import ByteText
import Crypto
package import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import Threads

/// Checks that a caller holds the key that the call names (DPoP, RFC 9449).
package final class ProofChecker: Sendable {
    /// The proofs that the server has seen, in two generations: when the younger generation is old enough, the server forgets
    /// the older generation.
    private struct Seen: Sendable {
        var young: Set<Hash128> = []
        var old: Set<Hash128> = []
        var turnAt: Int64 = 0
        /// The earlier process may have seen proofs from before this moment.
        var beganAt: Int64 = 0
        /// The younger proofs of each app.
        var ofApps: [AppID: Int] = [:]
    }

    private let seen = Monitor(Seen())

    /// The greatest distance of a proof's time from the server's time.
    package static let windowSeconds: Int64 = 60
    /// A proof with a time in the future stays valid for two windows.
    private static let generationSeconds: Int64 = 2 * windowSeconds + 1
    /// The greatest number of proofs in one generation; beyond it, calls have to wait.
    static let proofsAtMost = 262_144
    /// The same for one app: whoever has one app's secret must not keep the installs of others out.
    static let proofsOfAppAtMost = proofsAtMost / 4 * 3

    package init(now: Instant) { seen.withLock { $0.beganAt = now.milliseconds / 1000 } }

    static let invalid = "INVALID_DPOP_PROOF"

    /// Checks the proof of a request, if the request has a proof; answers the thumbprint of its key.
    ///
    /// - Parameters:
    ///   - app: the app of the request.
    ///   - token: the access token of the request; the proof then has to name the token.
    func thumbprint(
        _ request: borrowing Request, _ method: Method, of app: AppID?, token: String? = nil, at now: Instant,
        _ tools: LoopTools
    ) throws(LinkingError) -> String? {
        guard let text = request.field("dpop") else { return nil }
        func fault(_ what: String) -> LinkingError { LinkingError(.unauthorized, ProofChecker.invalid, what) }
        guard let parts = SignedToken(text) else { throw fault("The DPoP field has no valid proof.") }
        var (type, algorithm): (String?, String?)
        var (isCritical, key): (Bool, JSONWebKey?) = (false, nil)
        var claims: [String: String] = [:]
        var issuedAt: Int64?
        do throws(JSONFault) {
            try tools.json.read(parts.header) { root throws(JSONFault) in
                try root.forEachMember(at: "header") { name, value throws(JSONFault) in
                    switch name {
                    case "typ": type = try value.string(at: "typ")
                    case "alg": algorithm = try value.string(at: "alg")
                    case "jwk": key = try JSONWebKey(value)
                    case "crit": isCritical = true
                    default: break
                    }
                }
            }
            try tools.json.read(parts.payload) { root throws(JSONFault) in
                try root.forEachMember(at: "payload") { name, value throws(JSONFault) in
                    switch name {
                    case "jti", "htm", "htu", "ath": claims[name.copy()] = try value.string(at: name.copy())
                    case "iat": issuedAt = try value.integer(at: "iat")
                    default: break
                    }
                }
            }
        } catch {
            throw fault("The DPoP proof cannot be read: \(error.message)")
        }
        // RFC 7515 4.1.11: a critical extension that the reader does not know is an error. This reader knows no extension.
        guard !isCritical else {
            throw fault("The DPoP proof has crit, and the server supports no extension; omit crit.")
        }
        guard type == "dpop+jwt", let key, algorithm == key.algorithm else {
            throw fault("The DPoP proof must be a dpop+jwt, signed with its jwk by ES256 or EdDSA.")
        }
        guard key.key.verifies(parts.signature, of: parts.signed) else {
            throw fault("The signature of the DPoP proof is invalid.")
        }
        guard claims["htm"] == String(describing: method.name), isAddress(claims["htu"] ?? "", of: request) else {
            throw fault(
                "The DPoP proof is for another call: htm and htu must be the method and the address of this call.")
        }
        let seconds = now.milliseconds / 1000
        guard let issuedAt, issuedAt >= beganAt(seconds), issuedAt >= seconds - ProofChecker.windowSeconds,
            issuedAt <= seconds + ProofChecker.windowSeconds
        else { throw fault("The DPoP proof is not from now; make a new one, by the clock of the Date field.") }
        if let token {
            guard claims["ath"] == Base64.encodeForAddresses(SHA256.digest(of: Array(token.utf8)).bytes) else {
                throw fault("The DPoP proof is for another access token: ath must be the SHA-256 of this token.")
            }
        }
        guard let id = claims["jti"], (1...128).contains(id.utf8.count) else {
            throw fault("The DPoP proof needs a jti of 1 to 128 bytes.")
        }
        let thumbprint = key.thumbprint
        try note(tools.hash.hash(tag: ProofChecker.tag, thumbprint + id), of: app, at: seconds)
        return thumbprint
    }

    /// The begin of this process. If the clock was far ahead at the start, the first look after its correction is the begin.
    private func beganAt(_ seconds: Int64) -> Int64 {
        seen.withLock { seen in
            if seen.beganAt > seconds + ProofChecker.generationSeconds { seen.beganAt = seconds }
            return seen.beganAt
        }
    }

    /// Records a proof, and refuses a proof that the server has seen before.
    private func note(_ proof: Hash128, of app: AppID?, at seconds: Int64) throws(LinkingError) {
        enum Outcome { case new, repeated, full }
        let outcome: Outcome = seen.withLock { seen in
            let turnAt = seconds + ProofChecker.generationSeconds
            if seconds >= seen.turnAt {
                seen = Seen(young: [], old: seen.young, turnAt: turnAt, beganAt: seen.beganAt)
            } else if seen.turnAt > turnAt + ProofChecker.generationSeconds {
                // The clock was set far back. Any proof may be from now.
                seen = Seen(young: [], old: seen.old.union(seen.young), turnAt: turnAt, beganAt: seen.beganAt)
            }
            if seen.young.contains(proof) || seen.old.contains(proof) { return .repeated }
            if seen.young.count >= ProofChecker.proofsAtMost { return .full }
            if let app {
                let count = seen.ofApps[app, default: 0]
                if count >= ProofChecker.proofsOfAppAtMost { return .full }
                seen.ofApps[app] = count + 1
            }
            seen.young.insert(proof)
            return .new
        }
        switch outcome {
        case .new: return
        case .repeated:
            throw LinkingError(
                .unauthorized, ProofChecker.invalid, "The DPoP proof was used before; make a new one for each call.")
        case .full:
            throw LinkingError(
                .serviceUnavailable, "UNAVAILABLE", "Too many calls with proofs come in; try again in a minute.")
        }
    }

    /// Whether an address is the address of a request. A proxy before the server may speak HTTPS where the server speaks
    /// HTTP.
    private func isAddress(_ address: String, of request: borrowing Request) -> Bool {
        guard let scheme = ["https://", "http://"].first(where: address.hasPrefix) else { return false }
        let rest = address.dropFirst(scheme.utf8.count)
        guard let slash = rest.firstIndex(of: "/") else { return false }
        let path = rest[slash...].prefix { $0 != "?" && $0 != "#" }
        let host = (request.field("host") ?? "").lowercased()
        return path == request.rawPath && rest[..<slash].lowercased() == host
    }

    /// A tag that no other use of this hash key has.
    private static let tag: UInt64 = 0xFFFF_FFFF_FFFF_FFFE
}
