import ByteText
import Crypto
import Domain
import JSON

/// The common part of the errors of one issue (spec/claim.md 1.7): SHA-256 of `module:message|discriminator`. The message is
/// normalized, so that it does not contain the parts that differ each time.
///
/// The discriminator contains the event's facts about the error's type: `_error_type`, `_error_domain` and `_error_code`, if
/// they exist, with colons between them. Without these facts the bar is missing too.
struct ErrorFingerprint {
    let digest: Digest

    /// The fingerprint of an error.
    ///
    /// - Parameters:
    ///   - module: the module of the error.
    ///   - message: the message of the error.
    ///   - attribute: finds an attribute of the error.
    init(module: String?, message: String, attribute: (String) -> String?) {
        let request = NetworkRequest(message: message, attribute: attribute)
        let discriminator =
            request.map { [$0.text] } ?? ["_error_type", "_error_domain", "_error_code"].compactMap(attribute)
        var text = "\(module ?? ""):\(ErrorFingerprint.normalized(message))"
        if !discriminator.isEmpty { text += "|" + discriminator.joined(separator: ":") }
        digest = SHA256.digest(of: Array(text.utf8))
    }

    /// The fingerprint of an error that the store keeps.
    init(_ event: EventMembers, _ parser: JSONParser) {
        let attributes = event.attributeTexts(parser)
        self.init(module: event["source_module"], message: event["message"] ?? "") { attributes[$0] }
    }

    var text: String {
        digest.bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.utf8.count == 1 ? "0" + digits : digits
        }.joined()
    }

    /// The id of the issue for an app's errors with this fingerprint.
    func issue(of app: AppID, isDevelopment: Bool) -> IssueID {
        let named = digest.bytes + Array("|\(app.rawValue)|\(isDevelopment)".utf8)
        return IssueID(rawValue: Int64(bitPattern: SHA256.digest(of: named).words.0 & (1 << 62 - 1)))
    }

    // MARK: - Messages

    /// A message without the parts that differ each time:
    ///
    ///     part                                                          becomes
    ///     a UUID                                                        <uuid>
    ///     text between two quotation marks: " or ` or '                 <text>
    ///     0x and hexadecimal digits; a word of eight such digits        <hex>
    ///     or more, with a digit and a letter among them
    ///     digits that are not the end of a word, with a point or        <number>
    ///     comma between them
    ///     white space                                                   one space, and none at the ends
    ///
    /// A ' within a word is an apostrophe. A mark without a closing mark stays.
    static func normalized(_ message: String) -> String {
        let text = Array(message.utf8)
        var out: [UInt8] = []
        var place = 0
        // The search for a missing closing mark does not run twice: the time would grow with the square of the length.
        var unclosed: Set<UInt8> = []
        while place < text.count {
            let byte = text[place]
            let isInWord = place > 0 && isWord(text[place - 1])
            var found: (end: Int, mark: String)?
            if isQuote(byte) {
                let opens = !unclosed.contains(byte) && !(isInWord && byte == UInt8(ascii: "'"))
                found = opens ? quoted(text, place) : nil
                if opens, found == nil { unclosed.insert(byte) }
            } else if !isInWord {
                found = uuid(text, place) ?? hexadecimal(text, place) ?? number(text, place)
            }
            if let found {
                out += found.mark.utf8
                place = found.end
            } else if isSpace(byte) {
                if !out.isEmpty, out.last != UInt8(ascii: " ") { out.append(UInt8(ascii: " ")) }
                place += 1
            } else {
                out.append(byte)
                place += 1
            }
        }
        if out.last == UInt8(ascii: " ") { out.removeLast() }
        return String(decoding: out, as: UTF8.self)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
    private static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte >= 0x80 }
    private static func isWord(_ byte: UInt8) -> Bool { isDigit(byte) || isLetter(byte) }
    private static func isHexadecimal(_ byte: UInt8) -> Bool { isDigit(byte) || (byte | 0x20) &- UInt8(ascii: "a") < 6 }
    private static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte &- 9 < 5 }
    private static func isQuote(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") || byte == UInt8(ascii: "`")
    }

    private static func uuid(_ text: [UInt8], _ place: Int) -> (end: Int, mark: String)? {
        let end = place + 36
        guard end <= text.count, end == text.count || !isWord(text[end]) else { return nil }
        for index in 0..<36 {
            let byte = text[place + index]
            guard [8, 13, 18, 23].contains(index) ? byte == UInt8(ascii: "-") : isHexadecimal(byte) else { return nil }
        }
        return (end, "<uuid>")
    }

    private static func quoted(_ text: [UInt8], _ place: Int) -> (end: Int, mark: String)? {
        let mark = text[place]
        let isSingle = mark == UInt8(ascii: "'")
        for end in text.indices[(place + 1)...] where text[end] == mark {
            if isSingle, end + 1 < text.count, isWord(text[end + 1]) { continue }
            return (end + 1, "<text>")
        }
        return nil
    }

    private static func hexadecimal(_ text: [UInt8], _ place: Int) -> (end: Int, mark: String)? {
        let isMarked =
            text[place] == UInt8(ascii: "0") && place + 2 < text.count && text[place + 1] | 0x20 == UInt8(ascii: "x")
            && isHexadecimal(text[place + 2])
        var end = isMarked ? place + 2 : place
        var (hasDigit, hasLetter) = (false, false)
        while end < text.count, isHexadecimal(text[end]) {
            if isDigit(text[end]) { hasDigit = true } else { hasLetter = true }
            end += 1
        }
        if isMarked { return (end, "<hex>") }
        let isWhole = end == text.count || !isWord(text[end])
        return end - place >= 8 && hasDigit && hasLetter && isWhole ? (end, "<hex>") : nil
    }

    private static func number(_ text: [UInt8], _ place: Int) -> (end: Int, mark: String)? {
        guard isDigit(text[place]) else { return nil }
        var end = place + 1
        while end < text.count {
            let isPoint = text[end] == UInt8(ascii: ".") || text[end] == UInt8(ascii: ",")
            guard isDigit(text[end]) || isPoint && end + 1 < text.count && isDigit(text[end + 1]) else {
                break
            }
            end += 1
        }
        return (end, "<number>")
    }
}

/// The request that an error of the network is about.
struct NetworkRequest {
    /// The method, the host and the path, without the parts of the path that differ each time:
    ///
    ///     a part of the path                                 becomes
    ///     a UUID                                             <uuid>
    ///     digits                                             <n>
    ///     12 characters or more, with a digit among them     <id>
    let text: String

    /// Reads the request of an error; nil for another error.
    init?(message: String, attribute: (String) -> String?) {
        guard message == "sdk:network_request", let url = attribute("_http_url") ?? attribute("_url") else {
            return nil
        }
        let method = (attribute("_http_method") ?? attribute("_method") ?? "GET").uppercased()
        let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
        let place = rest.prefix { $0 != "?" && $0 != "#" }
        var parts = place.split(separator: "/").map(String.init)
        guard !parts.isEmpty else { return nil }
        for index in parts.indices.dropFirst() { parts[index] = NetworkRequest.common(parts[index]) }
        parts[0] = parts[0].lowercased()
        text = "\(method) \(parts.joined(separator: "/"))"
    }

    private static func common(_ part: String) -> String {
        if ClaimEvent.isUUID(part) { return "<uuid>" }
        let digits = part.utf8.count { $0 &- UInt8(ascii: "0") < 10 }
        if digits == part.utf8.count { return "<n>" }
        return digits > 0 && part.unicodeScalars.count >= 12 ? "<id>" : part
    }
}

extension ClaimEvent {
    private static let titleCharacters = 500

    /// The event's error report, if the event is an error.
    func error(in project: ProjectID, _ hash: KeyedHash, _ app: App, _ country: String?) -> ErrorReport? {
        guard let level = self[.level], "error" ~= level, let message = self[.message]?.copy(),
            let session = self[.sessionID]?.copy()
        else { return nil }
        let module = self[.sourceModule]?.copy()
        let isDevelopment = isDevelopment ?? false
        let fingerprint = ErrorFingerprint(module: module, message: message, attribute: attribute)
        let request = NetworkRequest(message: message, attribute: attribute)
        let title = request.map { "Network error: \($0.text)" } ?? message
        let issue = Issue(
            id: fingerprint.issue(of: app.id, isDevelopment: isDevelopment), fingerprint: fingerprint.text, app: app.id,
            isDevelopment: isDevelopment, title: String(title.prefix(ClaimEvent.titleCharacters)),
            sourceModule: module, madeAt: at)
        let sessionText = "\(app.id.rawValue) \(isDevelopment) \(session.lowercased())"
        let recognition = RowHash(
            .occurrence, "\(issue.id.rawValue) \(sessionText)".utf8.span, in: project, hash: hash)
        var json = JSONWriter()
        json.object { json in
            json.key("issue_id")
            json.string(ClaimID.text(.issue, issue.id.rawValue))
            json.key("app_id")
            json.integer(app.id.rawValue)
            for member in [
                Member.sessionID, .clientEventID, .environment, .appVersion, .sdkName, .sdkVersion, .buildNumber,
                .osVersion,
            ] {
                guard let text = self[member] else { continue }
                json.key(member.name)
                json.string(text)
            }
            if let country {
                json.key("country_code")
                json.string(country)
            }
            json.key("is_dev")
            json.bool(isDevelopment)
        }
        return ErrorReport(
            issue: issue, at: at, occurrence: Row(.occurrence, at: at, recognition: recognition, body: json.bytes),
            session: RowHash(.session, sessionText.utf8.span, in: project, hash: hash),
            version: self[.appVersion]?.copy())
    }
}
