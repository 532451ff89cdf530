import ByteText
import Crypto
package import Domain
package import Gateway
import HTTPServer

/// The server's settings for attachments, and the addresses that the server gives to clients.
package struct AttachmentLinks: Sendable {
    package var quotas = AttachmentQuotas()
    /// The server's address for clients; nil uses the host of the call.
    package var publicURL: String?
    /// The scheme of addresses that use the host of the call.
    package var scheme = "http"
    private let signing: PerMasterKey<HMAC>

    /// The time within which a download must begin.
    private static let downloadMilliseconds: Int64 = 60_000

    package init(_ keys: MasterKeys) {
        signing = PerMasterKey(keys, for: "attachment links") { HMAC(key: $0) }
    }

    // MARK: - Addresses

    private func base(_ request: borrowing Request) -> String {
        if let publicURL { return publicURL }
        let isSecure = request.withField("x-forwarded-proto") { $0.equalsIgnoringCase("https") } ?? false
        return "\(isSecure ? "https" : scheme)://\(request.field("host") ?? "localhost")"
    }

    /// The address to which a client sends an attachment.
    func upload(_ request: borrowing Request) -> @Sendable (AttachmentID) -> String {
        let base = base(request)
        return { "\(base)/v1/ingest/attachment/\(ClaimID.text(.attachment, $0.rawValue))" }
    }

    /// The address of an attachment for a download, and the time for which the address is valid.
    func download(_ request: borrowing Request, at now: Instant) -> @Sendable (AttachmentID) -> (String, Instant) {
        let base = base(request)
        return { id in
            let until = now.advanced(byMilliseconds: AttachmentLinks.downloadMilliseconds)
            return ("\(base)/v1/attachments/download?t=\(token(id, until.milliseconds / 1000))", until)
        }
    }

    // MARK: - Signatures

    /// `<id>.<seconds since 1970>.<HMAC-SHA256 of "id:seconds">`.
    private func token(_ id: AttachmentID, _ seconds: Int64) -> String {
        let id = ClaimID.text(.attachment, id.rawValue)
        return "\(id).\(seconds).\(Hexadecimal.encode(AttachmentLinks.signature(id, seconds, signing.newest).bytes))"
    }

    private static func signature(_ id: String, _ seconds: Int64, _ key: HMAC) -> Digest {
        key.authenticate(Array("\(id):\(seconds)".utf8))
    }

    /// The attachment that a token gives access to; nil for an invalid or expired token.
    func attachment(_ token: String, at now: Instant) -> AttachmentID? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let seconds = Int64(parts[1]), let id = ClaimID.number(.attachment, parts[0]),
            let given = Hexadecimal.decode(parts[2].utf8.span).flatMap({ Digest($0) }),
            (0..<Int64.max / 1000).contains(seconds),
            // A link is valid to the end of its last second.
            Instant(milliseconds: (seconds + 1) * 1000)
                .ends(atMost: AttachmentLinks.downloadMilliseconds + 1000, runningAt: now),
            signing.all.contains(where: { given == AttachmentLinks.signature(parts[0], seconds, $0) })
        else { return nil }
        return AttachmentID(rawValue: id)
    }
}
