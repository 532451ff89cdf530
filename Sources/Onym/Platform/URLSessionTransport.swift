public import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends requests with `URLSession`.
public final class URLSessionTransport: NSObject, Transport {
    private let session: URLSession

    /// - Parameters:
    ///   - timeout: the seconds after which the session itself cancels a request.
    ///   - pins: the certificates or keys that a server may show; empty to accept every certificate that the system trusts.
    ///     ``Pin`` says which platforms support pins.
    public init(timeout: TimeInterval = 30, pins: [Pin] = []) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        session = URLSession(configuration: configuration, delegate: PinCheck(pins), delegateQueue: nil)
    }

    deinit { session.finishTasksAndInvalidate() }

    /// Sends a request.
    public func send(
        _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
    ) -> @Sendable () -> Void {
        var call = URLRequest(url: request.url)
        call.httpMethod = request.method
        for (name, value) in request.fields { call.setValue(value, forHTTPHeaderField: name) }
        if !request.body.isEmpty { call.httpBody = Data(request.body) }
        let end: @Sendable (Data?, URLResponse?, (any Error)?) -> Void = { body, answer, error in
            completion(URLSessionTransport.result(request.url, body, answer, error))
        }
        let task =
            request.file.map { session.uploadTask(with: call, fromFile: $0, completionHandler: end) }
            ?? session.dataTask(with: call, completionHandler: end)
        task.resume()
        return { task.cancel() }
    }

    private static func result(
        _ url: URL, _ body: Data?, _ answer: URLResponse?, _ error: (any Error)?
    ) -> Result<HTTPAnswer, TransportFault> {
        if let error { return .failure(fault(error)) }
        guard let answer = answer as? HTTPURLResponse else { return .failure(.connection("no HTTP")) }
        // A redirected call has lost its body, so the answer belongs to another request.
        if let other = answer.url, (other.host, other.port, other.path) != (url.host, url.port, url.path) {
            return .failure(.connection("the server redirects to \(other.host ?? "elsewhere"); make that the endpoint"))
        }
        var fields: [String: String] = [:]
        for (name, value) in answer.allHeaderFields {
            if let name = name as? String, let value = value as? String { fields[name] = value }
        }
        return .success(HTTPAnswer(status: answer.statusCode, fields: fields, body: [UInt8](body ?? Data())))
    }

    private static func fault(_ error: any Error) -> TransportFault {
        guard let error = error as? URLError else { return .connection(error.localizedDescription) }
        switch error.code {
        case .notConnectedToInternet, .networkConnectionLost, .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed,
            .dataNotAllowed, .internationalRoamingOff, .callIsActive:
            return .offline
        case .timedOut: return .timeout
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
            .clientCertificateRequired:
            return .tls("\(error.code.rawValue)")
        // The check of pins cancels the request.
        case .cancelled, .userCancelledAuthentication: return .tls("the server is not the one that was pinned")
        default:
            let text = error.localizedDescription
            return isOfTLS(text) ? .tls(text) : .connection("\(text) (\(error.code.rawValue))")
        }
    }

    /// Foundation on Linux has one code, -1, for all errors of TLS and for some other errors. Only the text of the library
    /// below it shows the difference.
    private static func isOfTLS(_ text: String) -> Bool {
        #if canImport(FoundationNetworking)
            ["SSL", "TLS", "certificate"].contains { text.contains($0) }
        #else
            false
        #endif
    }
}
