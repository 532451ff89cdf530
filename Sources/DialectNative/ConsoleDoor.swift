import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import Threads

/// The door of the console: it lets browsers in by the cookie of a session, and by the code of a link (spec/console.md 2).
///
/// A browser sends a cookie with every call to the server, also with calls that another page has caused. So a call by cookie
/// must show that a page of this server makes it.
package final class ConsoleDoor: Sendable {
    /// Eight hexadecimal digits of the store. The name of the cookie has them, because a browser sends cookies to all ports
    /// of a machine, and two servers must not replace each other's cookies.
    private let store: String
    private let isTLS: Bool
    private let publicURL: String?
    /// Whether the server accepts test data.
    let isForTrying: Bool
    /// The server's address for links; empty before the server listens.
    private let base = Monitor("")
    private let attempts = Monitor<[UInt128: Attempts]>([:])

    /// The wrong codes from one address.
    private struct Attempts {
        var count: Int
        let since: Instant
    }

    /// The limit of wrong codes from one address in a minute.
    package static let wrongCodesAtMost = 10
    private static let minute: Int64 = 60_000
    /// The limit of addresses whose wrong codes are counted.
    private static let addressesAtMost = 10_000
    private static let hexadecimal: StaticString = "0123456789abcdef"
    private static let codeDigits = 32
    private static let secretDigits = 64

    /// - Parameters:
    ///   - storeKey: bytes that belong to the store, and that other stores do not have.
    ///   - publicURL: the server's address for clients, if it has one.
    package init(storeKey: [UInt8], isTLS: Bool, publicURL: String?, isForTrying: Bool) {
        store = Hexadecimal.encode(Array(storeKey.prefix(4)))
        self.isTLS = isTLS
        self.publicURL = publicURL
        self.isForTrying = isForTrying
    }

    /// Takes the address at which the server listens.
    package func listens(host: String, port: UInt16) {
        // A browser cannot call the address that stands for all addresses of the machine.
        let name = ["0.0.0.0", "::"].contains(host) ? "127.0.0.1" : host.contains(":") ? "[\(host)]" : host
        base.withLock { $0 = "\(isTLS ? "https" : "http")://\(name):\(port)" }
    }

    // MARK: - Links

    /// Makes the code of a link. It contains the project, because a browser does not know the project.
    static func newCode(in project: ProjectID) -> String {
        "oc_\(project.rawValue)_" + SecureRandom.text(codeDigits, from: hexadecimal)
    }

    /// Makes the secret of a session.
    static func newSecret() -> String { SecureRandom.text(secretDigits, from: hexadecimal) }

    /// The address that opens the console with a code.
    func link(_ code: String) -> String { (publicURL ?? base.withLock { $0 }) + "/console#code=" + code }

    private static func project(of code: String) -> ProjectID? {
        let parts = code.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "oc" else { return nil }
        return Int32(parts[1]).map(ProjectID.init(rawValue:))
    }

    /// Reads the code in a body.
    static func code(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) -> String {
        var code: String?
        try AdminText.read(request, tools) { key, value throws(JSONFault) in
            guard case "code" = key else { return false }
            code = try value.string(at: "code")
            return true
        }
        guard let code else { throw AdminText.wrong("code is required.", request.id) }
        return code
    }

    /// Lets in a caller with a code, for the call that makes a session. Counts wrong codes. An address with too many of them
    /// gets no answer about further wrong codes, but a right code is let in, because people behind one proxy share an
    /// address.
    func opener(
        _ request: borrowing Request, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        _ = try origin(of: request)
        let code = try ConsoleDoor.code(request, tools)
        do throws(Refusal) {
            guard let project = ConsoleDoor.project(of: code),
                let link = directory.console(of: project).link(ConsoleDoor.hash(code))
            else { throw .codeUnknown }
            try link.check(in: directory, at: now)
            return Caller(of: project, at: now)
        } catch {
            if let seconds = secondsToWait(request.peer, now) {
                var response = Native.problem(
                    .tooManyRequests, code: "rate_limited",
                    "Too many wrong codes came from this address; try again in \(seconds) s.", request.id)
                response.fields.append(.init("Retry-After", String(seconds)))
                throw Rejection(response)
            }
            countWrongCode(request.peer, now)
            throw Rejection(Native.problem(.refused(error), request.id))
        }
    }

    static func hash(_ secret: String) -> KeyHash { SHA256.digest(of: Array(secret.utf8)).keyHash }

    private func secondsToWait(_ peer: UInt128, _ now: Instant) -> Int64? {
        attempts.withLock { attempts in
            guard let known = attempts[peer], known.count >= ConsoleDoor.wrongCodesAtMost,
                known.since.begins(ConsoleDoor.minute, runningAt: now)
            else { return nil }
            return (known.since.milliseconds + ConsoleDoor.minute - now.milliseconds + 999) / 1000
        }
    }

    private func countWrongCode(_ peer: UInt128, _ now: Instant) {
        attempts.withLock { attempts in
            func isOld(_ attempts: Attempts) -> Bool {
                !attempts.since.begins(ConsoleDoor.minute, runningAt: now)
            }
            if attempts.count >= ConsoleDoor.addressesAtMost { attempts = attempts.filter { !isOld($0.value) } }
            if attempts.count >= ConsoleDoor.addressesAtMost { attempts = [:] }
            if let known = attempts[peer], !isOld(known) {
                attempts[peer]?.count += 1
            } else {
                attempts[peer] = Attempts(count: 1, since: now)
            }
        }
    }

    // MARK: - Sessions

    /// The name of the cookie. The browser itself keeps the rules of the first name.
    private func cookieName(isSecure: Bool) -> String { (isSecure ? "__Host-onym_" : "onym_") + store }

    /// Makes the field that gives a session's secret to a browser.
    func cookie(_ secret: String, for request: borrowing Request) throws(Rejection) -> Response.Field {
        let isSecure = try origin(of: request).isSecure
        return cookie(secret, isSecure: isSecure, more: "")
    }

    /// Makes the field that takes the cookie from a browser.
    func noCookie(for request: borrowing Request) throws(Rejection) -> Response.Field {
        cookie("", isSecure: try origin(of: request).isSecure, more: "; Max-Age=0")
    }

    private func cookie(_ value: String, isSecure: Bool, more: String) -> Response.Field {
        .init(
            "Set-Cookie",
            "\(cookieName(isSecure: isSecure))=\(value); Path=/; HttpOnly; SameSite=Strict"
                + (isSecure ? "; Secure" : "") + more)
    }

    /// Whether a call has the cookie of a session.
    func knows(_ request: borrowing Request) -> Bool {
        secret(request, cookieName(isSecure: true)) != nil || secret(request, cookieName(isSecure: false)) != nil
    }

    private func secret(_ request: borrowing Request, _ name: String) -> String? {
        for part in (request.field("cookie") ?? "").split(separator: ";") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let given = pair[0].drop { $0 == " " }
            if pair.count == 2, given == name, !pair[1].isEmpty { return String(pair[1]) }
        }
        return nil
    }

    /// The key of the session in a call's cookie; nil without a cookie, and for a session that has ended.
    private func session(
        _ request: borrowing Request, isSecure: Bool, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) -> AccessKey? {
        guard let secret = secret(request, cookieName(isSecure: isSecure)),
            let key = tools.key(secret.utf8.span, in: directory), key.kind == .console,
            directory.console(of: key.project).isAlive(key, at: now)
        else { return nil }
        return key
    }

    /// The session that a browser has before it opens a link.
    func formerSession(
        _ request: borrowing Request, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> KeyID? {
        session(request, isSecure: try origin(of: request).isSecure, tools.directory, now, tools)?.id
    }

    /// Lets in a caller with the cookie of a session. The cookie belongs to all tabs of a browser, so the call names the
    /// session of its own tab.
    func caller(
        _ request: borrowing Request, _ route: Endpoint, _ directory: Directory, _ now: Instant, _ tools: LoopTools
    ) throws(Rejection) -> Caller {
        if request.hasField("authorization") {
            throw Rejection(
                Native.problem(
                    .badRequest, code: "two_credentials",
                    "The call has the cookie of a session and Authorization. Send one of the two.", request.id))
        }
        let isSecure = try origin(of: request).isSecure
        guard let key = session(request, isSecure: isSecure, directory, now, tools) else {
            throw Rejection(
                Native.problem(
                    .unauthorized, code: "session_ended",
                    "The session has ended, or does not exist. Run onym console for a new link.", request.id))
        }
        let named = request.field("onym-console")
        guard named == String(key.id.rawValue) || ConsoleCalls.asksForSession(route) && named == "1" else {
            throw Rejection(
                Native.problem(
                    .conflict, code: "other_session",
                    "This browser has signed in again, and this page belongs to another session. Load the page again.",
                    request.id))
        }
        var caller = Caller(key: key, at: now)
        caller.isUse = request.field("onym-use") != "none"
        return caller
    }

    // MARK: - Whose page calls

    private struct Origin {
        let text: String
        /// Whether the browser uses TLS.
        let isSecure: Bool
    }

    /// The origin of the server's pages, as the caller names it. Throws a rejection if the call may come from another page.
    private func origin(of request: borrowing Request) throws(Rejection) -> Origin {
        guard let host = request.field("host")?.lowercased(), let origin = origin(ofHost: host) else {
            throw Rejection(
                Native.problem(
                    .misdirectedRequest, code: "wrong_host",
                    "The console has another address: an IP address, localhost, or the setting public_url.",
                    request.id))
        }
        guard origin.isSecure || ConsoleDoor.isLoopback(ConsoleDoor.name(ofHost: host)) else {
            throw Rejection(
                Native.problem(
                    .forbidden, code: "console_needs_tls",
                    "The console needs HTTPS, except on the machine of the server.", request.id))
        }
        let site = request.field("sec-fetch-site")
        guard request.field("onym-console").flatMap({ Int64(decimal: $0) }) != nil,
            site == nil || site == "same-origin",
            !request.hasField("origin") || request.field("origin")?.lowercased() == origin.text
        else {
            throw Rejection(
                Native.problem(
                    .forbidden, code: "not_the_console",
                    "Only pages of the console make such calls: with Onym-Console and the id of their session, or 1 "
                        + "for the session itself, from the console's own origin.",
                    request.id))
        }
        return origin
    }

    /// The origin of a host; nil for a host that is not this server's. A name of somebody else may lead to this server, but
    /// no name is an IP address.
    private func origin(ofHost host: String) -> Origin? {
        if let publicURL = publicURL?.lowercased(), let colon = publicURL.firstRange(of: "://") {
            let authority = publicURL[colon.upperBound...].prefix { $0 != "/" }
            if authority == host {
                return Origin(
                    text: publicURL[..<colon.upperBound] + host, isSecure: publicURL.hasPrefix("https://"))
            }
        }
        let name = ConsoleDoor.name(ofHost: host)
        guard name == "localhost" || ConsoleDoor.isAddress(name) else { return nil }
        return Origin(text: "\(isTLS ? "https" : "http")://\(host)", isSecure: isTLS)
    }

    /// A host without its port.
    private static func name(ofHost host: String) -> Substring {
        if host.hasPrefix("["), let end = host.firstIndex(of: "]") { return host[...end] }
        return host.prefix { $0 != ":" }
    }

    private static func isAddress(_ name: Substring) -> Bool {
        if name.hasPrefix("[") {
            return name.hasSuffix("]") && name.dropFirst().dropLast().allSatisfy { $0.isHexDigit || ":.".contains($0) }
        }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
    }

    private static func isLoopback(_ name: Substring) -> Bool {
        name == "localhost" || name == "[::1]" || name.hasPrefix("127.") && isAddress(name)
    }
}
