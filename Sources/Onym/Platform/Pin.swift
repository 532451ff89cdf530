import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A certificate that the SDK accepts from a server, or the public key of such a certificate.
///
/// The SDK checks pins on platforms where Foundation shows an app the server's certificates: on Apple's platforms. On other
/// platforms the initializer of the SDK refuses a configuration with pins, because the pins would have no effect: use a
/// ``Transport`` that checks them.
public enum Pin: Hashable, Sendable {
    /// The SHA-256 of a whole certificate (DER).
    case certificate([UInt8])
    /// The SHA-256 of a certificate's public key, as `SecKeyCopyExternalRepresentation` writes it.
    case publicKey([UInt8])

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
                return pins.contains(.publicKey(SHA256.digest([UInt8](bytes))))
            }
        }
    #endif
}
