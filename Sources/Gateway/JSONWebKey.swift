import ByteText
package import Crypto
package import JSON

/// A public key in JSON (RFC 7517), of a kind that signs tokens and proofs.
package struct JSONWebKey: Equatable, Sendable {
    package let key: PublicKey

    package init(_ key: PublicKey) { self.key = key }

    /// Reads a key. A key with its private half is refused, because its owner has just given the secret away.
    package init(_ value: JSONValue) throws(JSONFault) {
        var members: [String: String] = [:]
        try value.forEachMember(at: "jwk") { name, value throws(JSONFault) in
            guard ["kty", "crv", "x", "y", "d"].contains(name.copy()) else { return }
            members[name.copy()] = try value.string(at: "jwk.\(name.copy())")
        }
        guard members["d"] == nil else { throw JSONFault(.wrong("must not have its private part"), at: "jwk") }
        func coordinate(_ name: String) throws(JSONFault) -> [UInt8] {
            guard let text = members[name], let bytes = Base64.decodeForAddresses(text.utf8.span), bytes.count == 32
            else {
                throw JSONFault(.wrong("must be 32 bytes in base64url"), at: "jwk.\(name)")
            }
            return bytes
        }
        switch (members["kty"], members["crv"]) {
        case ("EC", "P-256"): key = .p256(x: try coordinate("x"), y: try coordinate("y"))
        case ("OKP", "Ed25519"): key = .ed25519(try coordinate("x"))
        default: throw JSONFault(.wrong("must be an EC key on P-256, or an OKP key on Ed25519"), at: "jwk")
        }
    }

    /// The members of the key, in the order in which RFC 7638 hashes them.
    package var members: [(String, String)] {
        switch key {
        case .p256(let x, let y):
            [("crv", "P-256"), ("kty", "EC"), ("x", Base64.encodeForAddresses(x)), ("y", Base64.encodeForAddresses(y))]
        case .ed25519(let x): [("crv", "Ed25519"), ("kty", "OKP"), ("x", Base64.encodeForAddresses(x))]
        }
    }

    /// The key's thumbprint (RFC 7638): 43 characters.
    package var thumbprint: String {
        let json = "{" + members.map { #""\#($0)":"\#($1)""# }.joined(separator: ",") + "}"
        return Base64.encodeForAddresses(SHA256.digest(of: Array(json.utf8)).bytes)
    }

    package static func isThumbprint(_ text: String) -> Bool {
        text.utf8.count == 43 && Base64.decodeForAddresses(text.utf8.span)?.count == 32
    }

    /// The name of the key's signature algorithm.
    package var algorithm: String {
        switch key {
        case .p256: "ES256"
        case .ed25519: "EdDSA"
        }
    }
}
