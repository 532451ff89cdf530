import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif
#if canImport(Security)
    import Security
#endif

/// A certificate that the SDK accepts from a server, or the public key of such a certificate.
///
/// The SDK checks pins on platforms where Foundation shows an app the server's certificates: on Apple's platforms. On Linux,
/// libcurl checks pins of the form ``spki(_:)``. The initializer of the SDK refuses other pins there, because they would have no
/// effect: use a ``Transport`` that checks them.
public enum Pin: Hashable, Sendable {
    /// The SHA-256 of a whole certificate (DER).
    case certificate([UInt8])
    /// The SHA-256 of a certificate's public key, as `SecKeyCopyExternalRepresentation` writes it.
    case publicKey([UInt8])
    /// The SHA-256 of a certificate's public key with the key's algorithm (SubjectPublicKeyInfo), as OpenSSL, OkHttp and
    /// browsers write it:
    ///
    ///     openssl x509 -in server.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256
    case spki([UInt8])

    /// Whether this platform's `URLSession` can check pins.
    public static var areSupported: Bool {
        #if canImport(Security)
            true
        #else
            false
        #endif
    }
}

/// Checks the certificates of a server against the pins. Follows no redirection to another server.
final class PinCheck: NSObject, URLSessionTaskDelegate {
    private let pins: [Pin]

    init(_ pins: [Pin]) { self.pins = pins }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    #if canImport(Security)
        func urlSession(
            _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            guard !pins.isEmpty, let trust = challenge.protectionSpace.serverTrust else {
                return completionHandler(.performDefaultHandling, nil)
            }
            guard SecTrustEvaluateWithError(trust, nil), isPinned(trust) else {
                return completionHandler(.cancelAuthenticationChallenge, nil)
            }
            completionHandler(.useCredential, URLCredential(trust: trust))
        }

        private func isPinned(_ trust: SecTrust) -> Bool {
            let chain = SecTrustCopyCertificateChain(trust) as? [SecCertificate] ?? []
            return chain.contains { certificate in
                let digest = SHA256.digest([UInt8](SecCertificateCopyData(certificate) as Data))
                if pins.contains(.certificate(digest)) { return true }
                guard let key = SecCertificateCopyKey(certificate),
                    let bytes = SecKeyCopyExternalRepresentation(key, nil) as Data?
                else { return false }
                if pins.contains(.publicKey(SHA256.digest([UInt8](bytes)))) { return true }
                guard let kind = PublicKeyInfo.Kind(key),
                    let info = PublicKeyInfo.bytes(of: [UInt8](bytes), kind)
                else { return false }
                return pins.contains(.spki(SHA256.digest(info)))
            }
        }
    #endif
}

/// The form of a public key that contains the key's algorithm (SubjectPublicKeyInfo, RFC 5280 4.1).
package enum PublicKeyInfo {
    /// The kind of key.
    package enum Kind: Sendable { case rsa, ellipticCurve }

    /// The algorithm identifiers in DER.
    private static let rsa: [UInt8] = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0]
    private static let curve: [UInt8] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]
    /// The names of curves by the number of bytes of a point: P-256, P-384 and P-521.
    private static let curves: [Int: [UInt8]] = [
        65: [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], 97: [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
        133: [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23],
    ]

    /// Adds the algorithm to a key.
    /// - Parameters:
    ///   - key: the key as `SecKeyCopyExternalRepresentation` writes it: PKCS #1, or a point of a curve.
    ///   - kind: the kind of key.
    /// - Returns: the bytes in DER; nil for an unknown curve.
    package static func bytes(of key: [UInt8], _ kind: Kind) -> [UInt8]? {
        let algorithm: [UInt8]
        switch kind {
        case .rsa: algorithm = rsa
        case .ellipticCurve:
            guard let name = curves[key.count] else { return nil }
            algorithm = element(0x30, curve + name)
        }
        return element(0x30, algorithm + element(0x03, [0] + key))
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var length: [UInt8] = []
        var rest = content.count
        while rest > 0 {
            length.insert(UInt8(rest & 255), at: 0)
            rest >>= 8
        }
        if content.count < 128 { return [tag, UInt8(content.count)] + content }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}

#if canImport(Security)
    extension PublicKeyInfo.Kind {
        /// The kind of a key of the system; nil for other kinds.
        fileprivate init?(_ key: SecKey) {
            let attributes = SecKeyCopyAttributes(key) as? [CFString: Any]
            guard let type = attributes?[kSecAttrKeyType] as? String else { return nil }
            switch type {
            case kSecAttrKeyTypeRSA as String: self = .rsa
            case kSecAttrKeyTypeECSECPrimeRandom as String: self = .ellipticCurve
            default: return nil
            }
        }
    }
#endif
