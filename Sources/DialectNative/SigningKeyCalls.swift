import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, add and retire the keys with which customers sign tokens for known users (docs/native.md, Signed
/// identities).
enum SigningKeyCalls {
    static func routes(_ mint: Mint) -> [Endpoint] {
        [
            list, make(mint), retire(.delete, "/onym/v1/signing-keys/:id", ""),
            retire(.post, "/onym/v1/signing-keys/:id/retire", "_by_post"),
        ]
    }

    private static let path = "/onym/v1/signing-keys"

    private static let list = Endpoint(
        .get, path, scope: .admin,
        operation: Operation(
            id: "signing_keys_list",
            summary: "Lists the signing keys for tokens of known users, including retired keys.",
            description: "The list does not show the secret of a key that signs by HMAC.",
            query: ListQuery.parameters,
            responses: [.init(.ok, "Keys.", schema: AdminText.list("signing_keys", of: schema))]
                + Native.problems([.badRequest])),
        action: .query { request, caller, tools throws(Rejection) in
            let list = try ListQuery(request)
            let keys = tools.directory.signingKeys[caller.project] ?? []
            return { _ throws(StoreFault) in
                AdminText.Page(keys, list) { $0.id }.answer("signing_keys") { write($0, &$1) }
            }
        })

    private static func make(_ mint: Mint) -> Endpoint {
        Endpoint(
            .post, path, scope: .admin,
            operation: Operation(
                id: "signing_key_add", summary: "Adds a signing key for tokens of known users.",
                description: """
                    With pem or jwk, the call adds the public half of your own key, Ed25519 or P-256. Otherwise the \
                    key signs by HMAC (HS256), and only this answer, and the answer to a repeated call with the same \
                    Idempotency-Key, shows its secret. Tokens name the key by kid. Up to \(SigningKey.inForceAtMost) \
                    keys are in force at a time, so that you can use a new key before you retire the last key.
                    """,
                request: .object(
                    [
                        .init("name", .string()),
                        .init("kid", .string("The key's id in tokens; the default is the id.")),
                        .init("algorithm", .string(oneOf: SigningKey.Algorithm.allCases.map(\.name))),
                        .init("pem", .string("-----BEGIN PUBLIC KEY-----…")), .init("jwk", .object([])),
                    ], others: false),
                responses: [.init(.created, "The key.", schema: schema)]
                    + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let wanted = try wanted(request, tools)
                    let project = caller.project
                    if wanted.algorithm == .hs256 { try mint.checkReadiness(request.id) }
                    return PreparedCall(wanted) { key, _ in
                        Native.json(.created) { json in
                            write(key, &json)
                            guard key.algorithm == .hs256 else { return }
                            json.key("secret")
                            json.string(mint.identitySecret(key, project))
                        }
                    }
                }))
    }

    private static func wanted(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> MakeSigningKey {
        var (name, keyID, ownKeyID, algorithm): (String?, String?, String?, SigningKey.Algorithm?)
        var keys: [PublicKey] = []
        try AdminText.read(request, tools) { member, value throws(JSONFault) in
            switch member {
            case "name": name = try AdminText.name(value, at: "name")
            case "kid": keyID = try self.keyID(value, at: "kid")
            case "algorithm":
                let text = try value.string(at: "algorithm")
                algorithm = SigningKey.Algorithm.allCases.first { $0.name == text }
                if algorithm == nil { throw JSONFault(.wrong("must be HS256, EdDSA or ES256"), at: "algorithm") }
            case "pem":
                guard let key = PublicKeyText.read(try value.string(at: "pem")) else {
                    throw JSONFault(
                        .wrong("must be the PEM of a public key (BEGIN PUBLIC KEY), of Ed25519 or P-256"), at: "pem")
                }
                keys.append(key)
            case "jwk":
                keys.append(try JSONWebKey(value).key)
                try value.forEachMember(at: "jwk") { member, value throws(JSONFault) in
                    if case "kid" = member { ownKeyID = try self.keyID(value, at: "jwk.kid") }
                }
            default: return false
            }
            return true
        }
        keyID = keyID ?? ownKeyID
        guard keys.count <= 1 else { throw AdminText.wrong("pem and jwk: give one of them.", request.id) }
        guard let key = keys.first else {
            guard algorithm ?? .hs256 == .hs256 else {
                throw AdminText.wrong(
                    "pem or jwk is required: the public half of the key that you sign with.", request.id)
            }
            return MakeSigningKey(name: name ?? "", keyID: keyID, .hs256, publicKey: [])
        }
        guard key.isKey else { throw AdminText.wrong("The key is not a point of its curve.", request.id) }
        let (own, bytes): (SigningKey.Algorithm, [UInt8]) =
            switch key {
            case .ed25519(let point): (.eddsa, point)
            case .p256(let x, let y): (.es256, x + y)
            }
        guard algorithm ?? own == own else {
            throw AdminText.wrong("algorithm: this key signs by \(own.name).", request.id)
        }
        return MakeSigningKey(name: name ?? "", keyID: keyID, own, publicKey: bytes)
    }

    private static func keyID(_ value: JSONValue, at path: String) throws(JSONFault) -> String {
        let text = try value.string(at: path)
        guard SigningKey.keyIDBytes.contains(text.utf8.count) else {
            throw JSONFault(.wrong("must have 1 to \(SigningKey.keyIDBytes.upperBound) bytes"), at: path)
        }
        return text
    }

    private static func retire(_ method: Method, _ path: String, _ suffix: String) -> Endpoint {
        Endpoint(
            method, path, scope: .admin,
            operation: Operation(
                id: "signing_key_retire\(suffix)", summary: "Retires a key: the server refuses its tokens from now on.",
                responses: [.init(.ok, "The key.", schema: schema)]
                    + Native.problems([.notFound, .unprocessableContent])),
            action: .act(
                RetireSigningKey.self, body: .optional,
                decode: { request, _, _ throws(Rejection) in
                    Decoded(RetireSigningKey(try AdminText.id(request, .signingKey)))
                },
                encode: { key, _, _ in Native.json(.ok) { write(key, &$0) } }))
    }

    private static func write(_ key: SigningKey, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(key.id)
        json.key("kid")
        json.string(key.keyID)
        json.key("name")
        json.string(key.name)
        json.key("algorithm")
        json.string(key.algorithm.name)
        json.key("jwk")
        if let publicKey = key.jsonWebKey {
            json.object { json in
                for (name, value) in publicKey.members {
                    json.key(name)
                    json.string(value)
                }
            }
        } else {
            json.null()
        }
        json.key("made_at")
        json.moment(key.madeAt)
        json.key("retired_at")
        json.moment(key.retiredAt)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("kid", .string(), required: true),
        .init("name", .string(), required: true),
        .init("algorithm", .string(oneOf: SigningKey.Algorithm.allCases.map(\.name)), required: true),
        .init("jwk", .anyOf([.object([]), .null]), required: true), .init("made_at", .string(), required: true),
        .init("retired_at", AdminText.optionalText, required: true),
        .init("secret", .string("Only for a key that signs by HMAC, in the answer that makes the key.")),
    ])
}

extension SigningKey {
    /// The public key; nil for an HMAC key.
    fileprivate var jsonWebKey: JSONWebKey? {
        switch algorithm {
        case .hs256: nil
        case .eddsa: JSONWebKey(.ed25519(publicKey))
        case .es256: JSONWebKey(.p256(x: Array(publicKey.prefix(32)), y: Array(publicKey.suffix(32))))
        }
    }
}
