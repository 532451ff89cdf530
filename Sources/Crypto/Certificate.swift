import COpenSSL

/// An X.509 certificate.
@safe
package final class Certificate: @unchecked Sendable {
    // Unchecked: OpenSSL counts the references to a certificate, and the certificate is only read.
    private let handle: OpaquePointer

    private init(_ handle: OpaquePointer) { unsafe self.handle = handle }

    /// Takes over a reference to a certificate.
    convenience init(owning handle: OpaquePointer) { unsafe self.init(handle) }

    /// Shares a certificate with another owner.
    convenience init(sharing handle: OpaquePointer) {
        unsafe X509_up_ref(handle)
        unsafe self.init(handle)
    }

    /// Reads a certificate in DER; nil for other bytes, and for several certificates.
    package convenience init?(der bytes: [UInt8]) {
        let certificate = unsafe bytes.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var place = bytes.baseAddress
            guard let certificate = unsafe d2i_X509(nil, &place, bytes.count) else { return nil }
            if unsafe place == bytes.baseAddress.map({ unsafe $0 + bytes.count }) { return unsafe certificate }
            unsafe X509_free(certificate)
            return nil
        }
        guard let certificate = unsafe certificate else { return nil }
        unsafe self.init(certificate)
    }

    /// Reads the first certificate in PEM; nil for a text without a certificate.
    package convenience init?(pem bytes: [UInt8]) {
        // OpenSSL reads the bytes where they are, so they must stay there.
        let certificate = unsafe bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, CInt(clamping: bytes.count)) else {
                return nil
            }
            defer { unsafe BIO_free(memory) }
            return unsafe PEM_read_bio_X509(memory, nil, nil, nil)
        }
        guard let certificate = unsafe certificate else { return nil }
        unsafe self.init(certificate)
    }

    deinit { unsafe X509_free(handle) }

    /// The certificate's public key with its algorithm in DER (SubjectPublicKeyInfo), which pins are made of.
    package var publicKeyInfo: [UInt8] {
        let key = unsafe X509_get_X509_PUBKEY(handle)
        let count = unsafe i2d_X509_PUBKEY(key, nil)
        guard count > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        let written = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            var place = buffer.baseAddress
            return unsafe i2d_X509_PUBKEY(key, &place)
        }
        return written == count ? bytes : []
    }

    /// Whether the certificate has an extension, named by digits with dots.
    package func has(_ mark: String) -> Bool {
        guard let object = unsafe OBJ_txt2obj(mark, 1) else { return false }
        defer { unsafe ASN1_OBJECT_free(object) }
        return unsafe X509_get_ext_by_OBJ(handle, object, -1) >= 0
    }

    /// Whether the certificate's key is one of RSA.
    var isOfRSA: Bool {
        guard let key = unsafe X509_get0_pubkey(handle) else { return false }
        return unsafe EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA
    }

    /// Whether another certificate has issued this one, by their names and numbers.
    package func isIssued(by other: Certificate) -> Bool {
        unsafe X509_check_issued(other.handle, handle) == X509_V_OK
    }

    /// The time for which the certificate is valid, in seconds since 1970; nil if OpenSSL cannot read it.
    package var validity: ClosedRange<Int64>? {
        func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
            var parts = unsafe tm()
            guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
            return unsafe Int64(timegm(&parts))
        }
        let (first, last) = unsafe (X509_get0_notBefore(handle), X509_get0_notAfter(handle))
        // OpenSSL takes nothing for the present time.
        guard unsafe first != nil, unsafe last != nil, let start = unsafe seconds(first),
            let end = unsafe seconds(last),
            start <= end
        else { return nil }
        return start...end
    }

    /// Whether other certificates connect this certificate to a root, and all were valid at a moment, in seconds since 1970.
    package func leads(to root: Certificate, by others: [Certificate], at seconds: Int64) -> Bool {
        guard let store = unsafe X509_STORE_new() else { return false }
        defer { unsafe X509_STORE_free(store) }
        guard unsafe X509_STORE_add_cert(store, root.handle) == 1, let stack = unsafe OPENSSL_sk_new_null() else {
            return false
        }
        defer { unsafe OPENSSL_sk_free(stack) }
        for other in others { unsafe OPENSSL_sk_push(stack, UnsafeRawPointer(other.handle)) }
        guard let context = unsafe X509_STORE_CTX_new() else { return false }
        defer { unsafe X509_STORE_CTX_free(context) }
        guard unsafe X509_STORE_CTX_init(context, store, handle, stack) == 1 else { return false }
        unsafe X509_STORE_CTX_set_time(context, 0, time_t(seconds))
        return unsafe X509_verify_cert(context) == 1
    }

    /// Whether the certificate's key made a signature over some bytes, by ECDSA with P-256 and SHA-256. The signature has 32
    /// bytes of r, then 32 of s.
    package func hasSigned(_ bytes: [UInt8], _ signature: [UInt8]) -> Bool {
        guard signature.count == 64, let key = unsafe X509_get0_pubkey(handle),
            unsafe EVP_PKEY_get_base_id(key) == EVP_PKEY_EC, unsafe EVP_PKEY_get_bits(key) == 256
        else { return false }
        let encoded = Certificate.derSignature(signature)
        guard let context = unsafe EVP_MD_CTX_new() else { return false }
        defer { unsafe EVP_MD_CTX_free(context) }
        return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, encoded, encoded.count, bytes, bytes.count) == 1
    }

    /// The signature in OpenSSL's form: a sequence of two integers, in DER.
    private static func derSignature(_ signature: [UInt8]) -> [UInt8] {
        func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
            var digits = Array(bytes.drop { $0 == 0 })
            // Without a zero byte before it, a set first bit would make the number negative.
            if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
            return [0x02, UInt8(digits.count)] + digits
        }
        let pair = integer(signature[..<32]) + integer(signature[32...])
        return [0x30, UInt8(pair.count)] + pair
    }
}
