import ByteText
package import Crypto
package import Domain
import Gateway
import HTTPServer

/// What the server was told about attachments, and the addresses that it gives out for them.
package struct AttachmentLinks: Sendable {
    package var quotas = AttachmentQuotas()
    /// Where clients reach the server; nil takes the host that a call names.
    package var publicURL: String?
    /// The scheme of addresses that are made of a call's host.
    package var scheme = "http"
    private let signing: HMAC

    /// For how long a download may begin.
    private static let downloadMilliseconds: Int64 = 60_000

    package init(signing: HMAC) { self.signing = signing }

    // MARK: - Addresses

    private func base(_ request: borrowing Request) -> String {
        if let publicURL { return publicURL }
        let isSecure = request.withField("x-forwarded-proto") { $0.equalsIgnoringCase("https") } ?? false
        return "\(isSecure ? "https" : scheme)://\(request.field("host") ?? "localhost")"
    }

    /// Where an attachment's bytes are to be sent.
    func upload(_ request: borrowing Request) -> @Sendable (AttachmentID) -> String {
        let base = base(request)
        return { "\(base)/v1/ingest/attachment/\(ClaimID.text(.attachment, $0.rawValue))" }
    }

    /// Where an attachment's bytes can be got for a while, and for how long.
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
        return "\(id).\(seconds).\(Hexadecimal.encode(signature(id, seconds).bytes))"
    }

    private func signature(_ id: String, _ seconds: Int64) -> Digest {
        signing.authenticate(Array("\(id):\(seconds)".utf8))
    }

    /// The attachment that a token lets somebody get; nil where it is none of ours, or too old.
    func attachment(_ token: String, at now: Instant) -> AttachmentID? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let seconds = Int64(parts[1]), let id = ClaimID.number(.attachment, parts[0]),
            let given = Hexadecimal.decode(parts[2].utf8.span).flatMap({ Digest($0) }),
            given == signature(parts[0], seconds), now.milliseconds / 1000 <= seconds
        else { return nil }
        return AttachmentID(rawValue: id)
    }
}
