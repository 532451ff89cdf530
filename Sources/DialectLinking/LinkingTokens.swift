import ByteText
import Crypto
package import Domain
package import Gateway
package import JSON
import Threads

/// Makes and reads the tokens of installs.
///
/// Access tokens are JWTs that any service can check with the published keys (RFC 9068). Only this server reads refresh
/// tokens. The server makes both kinds from its master key, and the store does not keep them. So a copy of the store is
/// useless for making tokens.
///
/// The calendar changes the keys. A key is published one turn before its use, and stays published for one turn after it, so
/// that every reader of a token can have fetched the key.
package final class LinkingTokens: Sendable {
    private struct SigningKey: Sendable {
        let id: String
        let key: Ed25519Key
    }

    /// The keys that follow from one master key.
    private final class Master: Sendable {
        private let hash: HMAC
        /// The keys by turn; the table has only a few entries.
        private let keys = Monitor<[Int64: SigningKey]>([:])

        init(_ key: [UInt8]) { hash = HMAC(key: key) }

        func key(_ turn: Int64) -> SigningKey {
            keys.withLock { keys in
                if let key = keys[turn] { return key }
                let seed = hash.authenticate(Array("linking signing key\0\(turn)".utf8)).bytes
                let key = Ed25519Key(seed: seed)
                let made = SigningKey(id: JSONWebKey(.ed25519(key.publicKey)).thumbprint, key: key)
                keys = keys.filter { abs($0.key - turn) <= 2 }
                keys[turn] = made
                return made
            }
        }

        /// The mask that hides a code's app, and proves that this server made the code.
        func codeMask(_ random: [UInt8]) -> UInt64 {
            hash.authenticate(Array("linking code mask\0".utf8), random).words.0
        }

        /// The proof that this server made a refresh token.
        func seal(_ body: [UInt8]) -> Digest {
            hash.authenticate(Array("linking refresh token\0".utf8), body)
        }
    }

    private let masters: PerMasterKey<Master>
    private let rotationMilliseconds: Int64

    package static let rotationDays = 30
    package static let issuer = "onym"

    package init(_ keys: MasterKeys, rotationDays: Int = LinkingTokens.rotationDays) {
        masters = PerMasterKey(keys, for: "linking") { Master($0) }
        rotationMilliseconds = Int64(rotationDays) * 86_400_000
    }

    // MARK: - Keys

    private func turn(_ now: Instant) -> Int64 { now.milliseconds / rotationMilliseconds }

    /// The valid keys at a moment: the last key, the signing key, and the next key, of each master key.
    private func keys(at now: Instant) -> [SigningKey] {
        masters.all.flatMap { master in (-1...1).map { master.key(turn(now) + $0) } }
    }

    /// The document of `/.well-known/jwks.json`.
    ///
    /// - Parameters:
    ///   - now: the present moment.
    ///   - more: writes further keys.
    package func jwks(at now: Instant, more: (inout JSONWriter) -> Void = { _ in }) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("keys")
            json.array { json in
                for key in keys(at: now) {
                    json.object { json in
                        for (name, value) in JSONWebKey(.ed25519(key.key.publicKey)).members {
                            json.key(name)
                            json.string(value)
                        }
                        json.key("kid")
                        json.string(key.id)
                        json.key("use")
                        json.string("sig")
                        json.key("alg")
                        json.string("EdDSA")
                    }
                }
                more(&json)
            }
        }
        return json.bytes
    }

    // MARK: - Access tokens

    /// The content of an access token.
    package struct Claims: Equatable, Sendable {
        package let install: InstallID
        package let app: AppID
        package let family: Int64
        package let thumbprint: String?
    }

    package func accessToken(_ session: Session, user: PersonID?, at now: Instant) -> String {
        let key = masters.newest.key(turn(now))
        var header = JSONWriter()
        header.object { json in
            json.key("alg")
            json.string("EdDSA")
            json.key("typ")
            json.string("at+jwt")
            json.key("kid")
            json.string(key.id)
        }
        var payload = JSONWriter()
        payload.object { json in
            json.key("iss")
            json.string(LinkingTokens.issuer)
            json.key("aud")
            json.string(LinkingTokens.issuer)
            json.key("sub")
            json.string(session.install.text)
            json.key("client_id")
            json.decimalString(session.app.rawValue)
            if let user {
                json.key("user_id")
                json.string(user.linkingText)
            }
            json.key("sid")
            json.decimalString(session.family)
            json.key("iat")
            json.integer(now.milliseconds / 1000)
            json.key("exp")
            json.integer(session.expiresAt.milliseconds / 1000)
            json.key("jti")
            json.string(Base64.encodeForAddresses(SecureRandom.bytes(12)))
            if let thumbprint = session.thumbprint {
                json.key("cnf")
                json.object { json in
                    json.key("jkt")
                    json.string(thumbprint)
                }
            }
        }
        let signed = Base64.encodeForAddresses(header.bytes) + "." + Base64.encodeForAddresses(payload.bytes)
        return signed + "." + Base64.encodeForAddresses(key.key.sign(Array(signed.utf8)))
    }

    private static let longestMilliseconds = LinkingSettings.tokenSecondsRange.upperBound * 1000

    /// Reads an access token; nil for a token of another server, for an expired token, and for a token that a clock made which was ahead.
    package func claims(_ token: String, at now: Instant, _ parser: JSONParser) -> Claims? {
        guard let parts = SignedToken(token) else { return nil }
        var (algorithm, type, keyID): (String?, String?, String?)
        let headerIsRead = LinkingTokens.read(parts.header, parser) { name, value throws(JSONFault) in
            switch name {
            case "alg": algorithm = try value.string(at: "alg")
            case "typ": type = try value.string(at: "typ")
            case "kid": keyID = try value.string(at: "kid")
            default: break
            }
        }
        guard headerIsRead, algorithm == "EdDSA", type == "at+jwt",
            let key = keys(at: now).first(where: { $0.id == keyID }),
            PublicKey.ed25519(key.key.publicKey).verifies(parts.signature, of: parts.signed)
        else { return nil }
        var (subject, app, family, thumbprint): (String?, String?, String?, String?)
        var (expiry, issuer): (Int64?, String?)
        let payloadIsRead = LinkingTokens.read(parts.payload, parser) { name, value throws(JSONFault) in
            switch name {
            case "iss": issuer = try value.string(at: "iss")
            case "sub": subject = try value.string(at: "sub")
            case "client_id": app = try value.string(at: "client_id")
            case "sid": family = try value.string(at: "sid")
            case "exp": expiry = try value.integer(at: "exp")
            case "cnf":
                try value.forEachMember(at: "cnf") { name, value throws(JSONFault) in
                    if name.copy() == "jkt" { thumbprint = try value.string(at: "jkt") }
                }
            default: break
            }
        }
        guard payloadIsRead, issuer == LinkingTokens.issuer, let expiry, (0...Int64.max / 1000).contains(expiry),
            Instant(milliseconds: expiry * 1000).ends(atMost: LinkingTokens.longestMilliseconds, runningAt: now),
            let install = subject.flatMap(InstallID.init(text:)), let app = app.flatMap(Int64.init),
            let family = family.flatMap(Int64.init)
        else { return nil }
        return Claims(install: install, app: AppID(rawValue: app), family: family, thumbprint: thumbprint)
    }

    /// Reads the members of an object; false for text that is not an object.
    private static func read(
        _ json: [UInt8], _ parser: JSONParser, _ body: (JSONText, JSONValue) throws(JSONFault) -> Void
    ) -> Bool {
        do throws(JSONFault) {
            try parser.read(json) { root throws(JSONFault) in try root.forEachMember(at: "token", body) }
            return true
        } catch {
            return false
        }
    }

    // MARK: - Refresh tokens

    /// The content of a refresh token.
    package struct Refresh: Equatable, Sendable {
        package let install: InstallID
        package let app: AppID
        package let family: Int64
        package let generation: UInt64
    }

    /// 32 bytes: install, app, family, generation, 8 each | 32 bytes: the proof that this server made the token.
    package func refreshToken(_ session: Session) -> String {
        let numbers = [
            UInt64(bitPattern: session.install.rawValue), UInt64(bitPattern: session.app.rawValue),
            UInt64(bitPattern: session.family), session.generation,
        ]
        let body = numbers.flatMap { number in (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
        }
        return Base64.encodeForAddresses(body + masters.newest.seal(body).bytes)
    }

    package func refresh(_ token: String) -> Refresh? {
        guard token.utf8.count <= 128, let bytes = Base64.decodeForAddresses(token.utf8.span), bytes.count == 64,
            let digest = Digest(bytes[32...]),
            masters.all.contains(where: { $0.seal(Array(bytes[..<32])) == digest })
        else { return nil }
        let numbers = (0..<4).map { place in bytes[place * 8..<place * 8 + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
        return Refresh(
            install: InstallID(numbers[0]), app: AppID(rawValue: Int64(bitPattern: numbers[1])),
            family: Int64(bitPattern: numbers[2]), generation: numbers[3])
    }

    /// The mask of a new code.
    func codeMask(_ random: [UInt8]) -> UInt64 { masters.newest.codeMask(random) }

    /// The masks that a code may have. The first mask is the mask of a new code.
    func codeMasks(_ random: [UInt8]) -> [UInt64] { masters.all.map { $0.codeMask(random) } }
}
