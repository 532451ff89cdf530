import ByteText

/// A token in three parts (RFC 7515 3.1), whose signature is not checked yet.
package struct SignedToken: Sendable {
    package let header: [UInt8]
    /// The header as the token has it.
    package let encodedHeader: String
    package let payload: [UInt8]
    package let signature: [UInt8]
    /// The signed bytes.
    package let signed: [UInt8]

    /// The greatest length of a caller's token in bytes.
    package static let bytesAtMost = 8192

    package init?(_ text: String, bytesAtMost: Int = SignedToken.bytesAtMost) {
        guard text.utf8.count <= bytesAtMost else { return nil }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64.decodeForAddresses(Array(parts[0].utf8).span),
            let payload = Base64.decodeForAddresses(Array(parts[1].utf8).span),
            let signature = Base64.decodeForAddresses(Array(parts[2].utf8).span)
        else { return nil }
        (self.header, self.payload, self.signature) = (header, payload, signature)
        encodedHeader = String(parts[0])
        signed = Array((parts[0] + "." + parts[1]).utf8)
    }
}
