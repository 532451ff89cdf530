import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer

/// Finds the key of a call, in one of three ways (spec/idsync.md 1.2). A call without a valid key gets a 401 without a body,
/// and without a reason.
struct IDSyncAuthentication: Sendable {
    let secrets: IDSyncSecrets
    /// The greatest distance of a signature's date from now, in minutes; 0 accepts every date (decision 10).
    let dateWindowMinutes: Int

    func caller(
        of request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        let key: AccessKey? =
            switch route.keyPlace {
            case .fields: byFields(of: request, route, directory, now, tools)
            case .path(let isOpen): byPath(of: request, route, isOpen: isOpen, directory, now, tools)
            }
        guard let key, key.kind.dialect == .idsync, key.isValid(at: now) else {
            throw Rejection(Response(.unauthorized))
        }
        return Caller(key: key, at: now)
    }

    private func byFields(
        of request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> AccessKey? {
        if request.hasField("authorization") {
            return request.withField("authorization") { basic($0, directory, tools) } ?? nil
        }
        if request.hasField("x-mp-signature") {
            let key = request.withField("x-mp-key") { self.key($0, directory, tools) } ?? nil
            return key.flatMap { isSigned(request, route, by: $0.1, now) ? $0.0 : nil }
        }
        // The way of web pages, which contain the key alone.
        let key = request.withField("x-mp-key") { tools.key($0, in: directory) } ?? nil
        return key?.kind == .idsyncWeb ? key : nil
    }

    /// The path names the key. All other parts of the call that concern the key have to be valid for the same key.
    private func byPath(
        of request: borrowing Request, _ route: Endpoint, isOpen: Bool, _ directory: Directory, _ now: Instant,
        _ tools: LoopTools
    ) -> AccessKey? {
        guard let text = request.parameters.first, let named = tools.key(text.utf8.span, in: directory) else {
            return nil
        }
        if let field = request.withField("x-mp-key", { tools.key($0, in: directory) }), field != named { return nil }
        if request.hasField("authorization") {
            let key = request.withField("authorization") { basic($0, directory, tools) } ?? nil
            return key == named ? named : nil
        }
        if request.hasField("x-mp-signature") {
            guard let (key, secret) = key(text.utf8.span, directory, tools) else { return nil }
            return isSigned(request, route, by: secret, now) ? key : nil
        }
        return isOpen || named.kind == .idsyncWeb ? named : nil
    }

    /// `Basic base64(key:secret)`.
    private func basic(_ value: borrowing Span<UInt8>, _ directory: Directory, _ tools: LoopTools) -> AccessKey? {
        guard value.count > 6, value.extracting(0..<6).equalsIgnoringCase("basic "),
            let pair = Base64.decode(value.extracting(value.trimming(6..<value.count)))
        else { return nil }
        let bytes = pair.span
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":"), in: bytes.indices) else { return nil }
        guard let (key, secret) = key(bytes.extracting(0..<colon), directory, tools),
            equalsInConstantTime(bytes.extracting(colon + 1..<bytes.count), secret.text.span)
        else { return nil }
        return key
    }

    /// Whether the signature is made with a key's secret, over an accepted date.
    private func isSigned(
        _ request: borrowing Request, _ route: Endpoint, by secret: IDSyncSecrets.Secret, _ now: Instant
    ) -> Bool {
        guard let date = request.withField("date", { [UInt8](copying: $0) }),
            let signature = request.withField("x-mp-signature", { Hexadecimal.decode($0) }) ?? nil,
            let claimed = Digest(signature)
        else { return false }
        if dateWindowMinutes > 0 {
            let read = SignedDate(String(decoding: date, as: UTF8.self))
            guard read?.isWithin(minutes: dateWindowMinutes, of: now) == true else { return false }
        }
        // Clients sign the path of the default URL, also with another prefix; Android signs the query too.
        let path = canonicalPath(of: request, route)
        let paths = [path] + (request.rawQuery.map { ["\(path)?\($0)"] } ?? [])
        return paths.contains { path in
            let head = IDSyncSignature.head(String(describing: route.method.name), date: date, path: path)
            return secret.signing.authenticate(head, request.body) == claimed
        }
    }

    /// The route's path with the values of its parameters.
    private func canonicalPath(of request: borrowing Request, _ route: Endpoint) -> String {
        var parameters = request.parameters[...]
        return route.path.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0.hasPrefix(":") ? parameters.popFirst() ?? "" : String($0) }
            .joined(separator: "/")
    }

    private func key(
        _ text: borrowing Span<UInt8>, _ directory: Directory, _ tools: LoopTools
    ) -> (AccessKey, IDSyncSecrets.Secret)? {
        guard let key = tools.key(text, in: directory), key.kind == .idsync, let secret = secrets.secret(of: key, text)
        else { return nil }
        return (key, secret)
    }
}

/// The bytes that a signature covers (spec/idsync.md 1.2): the method, the date and the path, and then the uncompressed body.
package enum IDSyncSignature {
    /// The signed bytes without the body. The date stays as the client sent it, because clients write it in four ways.
    package static func head(_ method: String, date: [UInt8], path: String) -> [UInt8] {
        Array("\(method)\n".utf8) + date + Array("\n\(path)".utf8)
    }
}
