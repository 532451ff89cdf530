import CCurl

/// A call to another server.
package struct OutboundCall: Equatable, Sendable {
    package let url: OutboundURL
    package let method: Method
    package let fields: [Field]
    /// The treatment of the call while an equal one is open.
    package let sharing: Sharing

    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: String
    }

    /// What a call does while a call with the same name is open. So many callers cause few calls.
    package enum Sharing: Equatable, Sendable {
        case none
        /// The call takes the open call's answer.
        case joins(String)
        /// The call waits for the end of the open call, and shares the next one with all that wait. That one begins after the
        /// callers have asked, so its answer is never older than their question.
        case follows(String)
    }

    package enum Method: Equatable, Sendable {
        case get
        case post([UInt8], contentType: String)
    }

    /// - Parameters:
    ///   - method: the method, with the body of a POST.
    ///   - url: the address.
    ///   - bearer: the token for `Authorization: Bearer …`; nil for calls without a token.
    ///   - fields: further fields.
    ///   - sharing: what the call does while an equal one is open.
    /// - Precondition: a content type, a bearer and a field are one line of visible ASCII each.
    package init(
        _ method: Method, _ url: OutboundURL, bearer: String? = nil, fields: [(name: String, value: String)] = [],
        sharing: Sharing = .none
    ) {
        self.sharing = sharing
        var all = fields.map { Field(name: $0.name, value: $0.value) }
        if let bearer { all.append(Field(name: "Authorization", value: "Bearer \(bearer)")) }
        for field in all {
            precondition(
                "\(field.name)\(field.value)".utf8.allSatisfy { (0x20..<0x7F).contains($0) }, "A field has one line.")
        }
        self.fields = all
        if case .post(_, let contentType) = method {
            precondition(contentType.utf8.allSatisfy { (0x20..<0x7F).contains($0) }, "A field has one line.")
        }
        self.url = url
        self.method = method
    }
}

/// A complete address of HTTP or HTTPS, as libcurl reads it.
package struct OutboundURL: Equatable, Sendable, CustomStringConvertible {
    package let description: String

    /// The address as a folder, with a slash at its end, to which a path can be added.
    package var folder: String { description.hasSuffix("/") ? description : description + "/" }

    /// Reads an address; nil for other texts.
    package init?(_ text: String) {
        guard !text.utf8.contains(0), let url = unsafe curl_url() else { return nil }
        defer { unsafe curl_url_cleanup(url) }
        guard unsafe curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK else { return nil }
        func part(_ part: CURLUPart) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            guard unsafe curl_url_get(url, part, &text, 0) == CURLUE_OK, let text = unsafe text else { return nil }
            defer { unsafe curl_free(text) }
            return unsafe String(cString: text)
        }
        guard let scheme = part(CURLUPART_SCHEME), ["http", "https"].contains(scheme),
            let host = part(CURLUPART_HOST), OutboundURL.isHost(host), part(CURLUPART_PORT) != "0",
            part(CURLUPART_FRAGMENT) == nil
        else { return nil }
        description = text
    }

    /// Whether a server can have a name or an address of this form. libcurl has already read numbers as an address of IPv4.
    private static func isHost(_ host: String) -> Bool {
        if host.hasPrefix("[") { return true }
        let labels = (host.hasSuffix(".") ? host.dropLast() : host[...])
            .split(separator: ".", omittingEmptySubsequences: false)
        let areNumbers = labels.allSatisfy { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        return host.utf8.count <= 254
            && labels.allSatisfy { (1...63).contains($0.utf8.count) && $0.first != "-" && $0.last != "-" }
            && (!areNumbers || labels.count == 4 && labels.allSatisfy { UInt8($0) != nil })
    }
}

/// Another server's answer, with any status.
package struct OutboundAnswer: Equatable, Sendable {
    package let status: Int
    package let body: [UInt8]
    /// The field `Date`: the moment of the answer by the other server's clock; nil for an answer without the field.
    package let date: String?
    /// The seconds after which the other server takes the call again, if the field `Retry-After` has a number.
    package let retryAfterSeconds: Int?

    package init(status: Int, body: [UInt8], date: String? = nil, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.body = body
        self.date = date
        self.retryAfterSeconds = retryAfterSeconds
    }
}

/// The reason why another server's answer is missing.
package enum OutboundFault: Error, Equatable, Sendable {
    /// The name has no address.
    case notResolved
    case notConnected
    /// The address belongs to a private network or to this machine, and this client does not call such addresses.
    case notAllowed
    /// The certificate is not trusted, or TLS failed in another way.
    case notTrusted
    case timedOut
    case answerTooLarge
    /// The connection broke, or the received bytes are not HTTP.
    case broken
    /// Too many calls wait already.
    case overloaded
    /// The client was stopped.
    case cancelled

    init(_ code: CURLcode) {
        self =
            switch code {
            case CURLE_COULDNT_RESOLVE_HOST: .notResolved
            case CURLE_COULDNT_CONNECT: .notConnected
            case CURLE_OPERATION_TIMEDOUT: .timedOut
            case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE,
                CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR:
                .notTrusted
            default: .broken
            }
    }

    /// A sentence for people.
    package var message: String {
        switch self {
        case .notResolved: "The server's name has no address."
        case .notConnected: "The server cannot be reached."
        case .notAllowed: "The server's address is private; see webhook_private_addresses in the settings."
        case .notTrusted: "The server's certificate is not trusted."
        case .timedOut: "The server did not answer in time."
        case .answerTooLarge: "The server's answer is too large."
        case .broken: "The server broke off, or did not answer in HTTP."
        case .overloaded: "Too many calls to other servers are waiting."
        case .cancelled: "This server is stopping."
        }
    }
}

/// The limits of calls to other servers.
package struct OutboundLimits: Equatable, Sendable {
    /// The time to resolve a name, connect, and agree on TLS.
    package var connectMilliseconds = 3_000
    /// The time from the submission of a call to the last byte of its answer.
    package var wholeMilliseconds = 10_000
    /// The greatest size of an answer's body.
    package var answerBytes = 64 << 10
    /// The greatest number of running calls.
    package var callsAtOnce = 64
    /// The greatest number of calls that wait for other calls.
    package var callsWaiting = 1_024
    /// Whether the client calls addresses of private networks and of this machine.
    package var allowsPrivateAddresses = true

    package init() {}
}
