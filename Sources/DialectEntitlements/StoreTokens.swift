import ByteText
import Crypto
import JSON

extension PrivateKey {
    /// A signed token (JWT), with which the server asks a store.
    ///
    /// - Parameters:
    ///   - keyID: the store's name for the key.
    ///   - claims: writes the members of the token.
    func token(keyID: String, claims: (inout JSONWriter) -> Void) -> String {
        var header = JSONWriter()
        header.object { json in
            json.key("alg")
            json.string("\(algorithm)")
            json.key("typ")
            json.string("JWT")
            json.key("kid")
            json.string(keyID)
        }
        var body = JSONWriter()
        body.object { claims(&$0) }
        let signed = Base64.encodeForAddresses(header.bytes) + "." + Base64.encodeForAddresses(body.bytes)
        return signed + "." + Base64.encodeForAddresses(sign(Array(signed.utf8)))
    }
}
