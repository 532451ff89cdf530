import COpenSSL

/// A message with a signature and the signer's certificates, in the Cryptographic Message Syntax (PKCS #7).
@safe
package struct SignedMessage {
    /// The signed content.
    package let content: [UInt8]
    /// The certificate that made the signature.
    package let signer: Certificate
    /// All certificates in the message.
    package let certificates: [Certificate]

    /// The limit of a message in bytes.
    package static let bytesAtMost = 4 << 20

    /// Reads a message, in DER or in BER with indefinite lengths; nil for other bytes, for more than one signer, and for an
    /// invalid signature. A signature by RSA with SHA-1 or SHA-256 is valid. The caller checks the certificates.
    package init?(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, bytes.count <= SignedMessage.bytesAtMost, SignedMessage.isModest(bytes) else {
            return nil
        }
        let message = unsafe bytes.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var place = bytes.baseAddress
            guard let message = unsafe d2i_CMS_ContentInfo(nil, &place, bytes.count) else { return nil }
            if unsafe place == bytes.baseAddress.map({ unsafe $0 + bytes.count }) { return unsafe message }
            unsafe CMS_ContentInfo_free(message)
            return nil
        }
        // A text that is no message must not leave an error for the next call of this thread.
        defer { ERR_clear_error() }
        guard let message = unsafe message else { return nil }
        defer { unsafe CMS_ContentInfo_free(message) }
        guard unsafe OBJ_obj2nid(CMS_get0_type(message)) == NID_pkcs7_signed,
            unsafe SignedMessage.hasOneGoodSignature(message),
            let content = unsafe SignedMessage.verifiedContent(of: message),
            let signer = unsafe SignedMessage.signer(of: message)
        else { return nil }
        self.content = content
        self.signer = signer
        certificates = unsafe SignedMessage.certificates(of: message)
    }

    /// Whether a message has as few algorithms, certificates and signers as honest messages have. OpenSSL works for each of
    /// them before anything is trusted, and its work for algorithms grows with their square.
    private static func isModest(_ bytes: [UInt8]) -> Bool {
        var outer = ASN1Reader(bytes[...])
        guard let message = outer.next(), message.tag == 0x30 else { return false }
        var members = ASN1Reader(message.bytes)
        guard members.next()?.tag == 0x06, let content = members.next(), content.tag == 0xA0 else { return false }
        var explicit = ASN1Reader(content.bytes)
        guard let signedData = explicit.next(), signedData.tag == 0x30 else { return false }
        var parts = ASN1Reader(signedData.bytes)
        guard parts.next()?.tag == 0x02, let algorithms = parts.next(), algorithms.tag == 0x31,
            has(algorithms.bytes, atMost: 2), parts.next()?.tag == 0x30
        else { return false }
        while let part = parts.next() {
            switch part.tag {
            case 0xA0: if !has(part.bytes, atMost: certificatesAtMost) { return false }
            case 0x31: if !has(part.bytes, atMost: 1) { return false }
            default: return false
            }
        }
        return parts.isAtEnd
    }

    private static let certificatesAtMost = 10

    /// Whether some bytes consist of no more values than a number.
    private static func has(_ bytes: ArraySlice<UInt8>, atMost count: Int) -> Bool {
        var reader = ASN1Reader(bytes)
        for _ in 0..<count where !reader.isAtEnd { if reader.next() == nil { return false } }
        return reader.isAtEnd
    }

    /// Whether the message has exactly one signer, with algorithms that count.
    private static func hasOneGoodSignature(_ message: OpaquePointer) -> Bool {
        guard let signers = unsafe CMS_get0_SignerInfos(message), unsafe OPENSSL_sk_num(signers) == 1,
            let signer = unsafe OPENSSL_sk_value(signers, 0)
        else { return false }
        var digest: UnsafeMutablePointer<X509_ALGOR>?
        unsafe CMS_SignerInfo_get0_algs(OpaquePointer(signer), nil, nil, &digest, nil)
        guard let digest = unsafe digest else { return false }
        let name = unsafe OBJ_obj2nid(digest.pointee.algorithm)
        return name == NID_sha1 || name == NID_sha256
    }

    /// The content, if the signature over it is valid. This function leaves the signer's certificate to the caller.
    private static func verifiedContent(of message: OpaquePointer) -> [UInt8]? {
        guard let memory = unsafe BIO_new(BIO_s_mem()) else { return nil }
        defer { unsafe BIO_free(memory) }
        let flags = UInt32(CMS_BINARY | CMS_NO_SIGNER_CERT_VERIFY)
        guard unsafe CMS_verify(message, nil, nil, nil, memory, flags) == 1 else { return nil }
        let count = unsafe Int(BIO_ctrl_pending(memory))
        guard count <= bytesAtMost else { return nil }
        let content = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            written = unsafe Int(max(0, BIO_read(memory, buffer.baseAddress, CInt(clamping: count))))
        }
        return content.count == count ? content : nil
    }

    private static func signer(of message: OpaquePointer) -> Certificate? {
        guard let signers = unsafe CMS_get0_signers(message) else { return nil }
        defer { unsafe OPENSSL_sk_free(signers) }
        guard unsafe OPENSSL_sk_num(signers) == 1, let signer = unsafe OPENSSL_sk_value(signers, 0) else { return nil }
        let certificate = unsafe Certificate(sharing: OpaquePointer(signer))
        return certificate.isOfRSA ? certificate : nil
    }

    private static func certificates(of message: OpaquePointer) -> [Certificate] {
        guard let list = unsafe CMS_get1_certs(message) else { return [] }
        defer { unsafe OPENSSL_sk_free(list) }
        return (0..<(unsafe OPENSSL_sk_num(list))).compactMap { index in
            guard let certificate = unsafe OPENSSL_sk_value(list, index) else { return nil }
            return unsafe Certificate(owning: OpaquePointer(certificate))
        }
    }
}

/// A reader of values in BER, of which DER is a part. It reads definite and indefinite lengths.
package struct ASN1Reader {
    /// A value with its tag. The tag is the first byte, because no value here has a longer one.
    package struct Value {
        package let tag: UInt8
        package let bytes: ArraySlice<UInt8>

        /// The number of a value that has one; nil for another value, and for a number beyond 64 bits.
        package var integer: Int64? {
            guard tag == 0x02, !bytes.isEmpty, bytes.count <= 8 else { return nil }
            return bytes.dropFirst().reduce(Int64(Int8(bitPattern: bytes[bytes.startIndex]))) { $0 << 8 | Int64($1) }
        }
    }

    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package var isAtEnd: Bool { rest.isEmpty }

    /// The next value; nil at the end, and for bytes that are no value.
    package mutating func next() -> Value? {
        guard let (tag, content, after) = ASN1Reader.value(rest, depth: 0) else { return nil }
        rest = rest[after...]
        return Value(tag: tag, bytes: content)
    }

    private static let depthAtMost = 16

    /// The first value of some bytes, and the place after it.
    private static func value(
        _ bytes: ArraySlice<UInt8>, depth: Int
    ) -> (tag: UInt8, content: ArraySlice<UInt8>, after: Int)? {
        guard bytes.count >= 2, depth < depthAtMost else { return nil }
        let tag = bytes[bytes.startIndex]
        guard tag & 0x1F != 0x1F else { return nil }
        let first = bytes[bytes.startIndex + 1]
        let start = bytes.startIndex + 2
        if first < 0x80 {
            let end = start + Int(first)
            return end <= bytes.endIndex ? (tag, bytes[start..<end], end) : nil
        }
        if first == 0x80 {
            // The length is not known: values follow, up to a value of two zeros.
            guard tag & 0x20 != 0 else { return nil }
            var place = start
            while let (inner, _, after) = value(bytes[place...], depth: depth + 1) {
                if inner == 0, bytes[place + 1] == 0 { return (tag, bytes[start..<place], after) }
                place = after
            }
            return nil
        }
        let count = Int(first & 0x7F)
        guard count <= 4, bytes.endIndex - start >= count else { return nil }
        let length = bytes[start..<(start + count)].reduce(0) { $0 << 8 | Int($1) }
        let end = start + count + length
        return end <= bytes.endIndex ? (tag, bytes[(start + count)..<end], end) : nil
    }
}
