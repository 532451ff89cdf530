import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer

/// Finds out which key a call is made with, by one of three ways (spec/idsync.md 1.2). Whoever fails gets a 401 without
/// a body, and no word on why.
struct IDSyncAuthentication: Sendable {
    let secrets: IDSyncSecrets
    /// How far the date of a signature may be from now, in minutes; 0 takes any date (decision 10).
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
        // For keys that a web page carries.
        let key = request.withField("x-mp-key") { tools.key($0, in: directory) } ?? nil
        return key?.kind == .idsyncWeb ? key : nil
    }

    /// The path names the key. Whatever else the call says of it has to be right, and of that key.
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

    /// Whether the signature is the one that a secret makes, over a date that counts.
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
        // Clients sign the path of the default URL, whatever prefix they call; Android signs the query with it.
        let path = canonicalPath(of: request, route)
        let paths = [path] + (request.rawQuery.map { ["\(path)?\($0)"] } ?? [])
        return paths.contains { path in
            let head = IDSyncSignature.head(String(describing: route.method.name), date: date, path: path)
            return secret.signing.authenticate(head, request.body) == claimed
        }
    }

    /// The route's path with its parameters filled in.
    private func canonicalPath(of request: borrowing Request, _ route: Endpoint) -> String {
        var parameters = request.parameters[...]
        return route.path.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0.hasPrefix(":") ? parameters.popFirst() ?? "" : String($0) }
            .joined(separator: "/")
    }

    private func key(
        _ text: borrowing Span<UInt8>, _ directory: Directory, _ tools: LoopTools
    ) -> (AccessKey, IDSyncSecrets.Secret)? {
        guard let key = tools.key(text, in: directory), key.kind == .idsync else { return nil }
        return (key, secrets.secret(of: key, text))
    }
}

/// What a signature is made over (spec/idsync.md 1.2): the method, the date and the path, and then the body as it is
/// before it is compressed.
package enum IDSyncSignature {
    /// All but the body. The date is taken as it was sent: clients write it in four different ways.
    package static func head(_ method: String, date: [UInt8], path: String) -> [UInt8] {
        Array("\(method)\n".utf8) + date + Array("\n\(path)".utf8)
    }
}
