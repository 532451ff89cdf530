package import Foundation

extension HTTPAnswer {
    /// Whether the status means success.
    package var isSuccess: Bool { (200..<300).contains(status) }
}

extension OnymError {
    package init(_ fault: TransportFault) {
        switch fault {
        case .offline: self = .offline
        case .timeout: self = .timeout
        case .tls(let why): self = .tls(why)
        case .connection(let why): self = .connection(why)
        }
    }

    /// Returns a success of the server, or the failure that the answer reports. A success without a request id comes from a proxy
    /// that has not passed the request on, for example from a hotel's network.
    /// - Parameter envelope: says whether a body has the form of the dialect's errors.
    package static func check(
        _ answer: HTTPAnswer, at now: Date, envelope: (JSON) -> Bool
    ) -> Result<HTTPAnswer, OnymError> {
        if answer.isSuccess { return answer.hasRequestID ? .success(answer) : .failure(answer.malformed) }
        return .failure(.http(HTTPFailure(answer, at: now, envelope)))
    }
}

extension HTTPFailure {
    /// Reads an error in the form of any dialect.
    package init(_ answer: HTTPAnswer, at now: Date, _ envelope: (JSON) -> Bool) {
        self.init(status: answer.status)
        retryAfter = HTTPFailure.seconds(answer.fields["retry-after"], answer.fields["date"], now)
        let body = JSON(answer.body) ?? .null
        // {"errors":[{code,message}]}, {code,message}, {"error":text}, {"error":{code,message}}, {message,errorCode,ref}
        let inner = (body["errors"] ?? body["Errors"])?.elements?.first ?? body["error"] ?? body
        code = inner["code"]?.text ?? body["errorCode"]?.text ?? body["ErrorCode"]?.text
        message = inner.text ?? inner["message"]?.text ?? body["message"]?.text
        requestID = answer.requestID ?? body["ref"]?.text
        self.body = AnswerBody(answer.body)
        isServersWord = !answer.isUnproven && answer.hasRequestID && envelope(body)
    }

    /// `Retry-After`: seconds, or a date of the server's clock.
    private static func seconds(_ field: String?, _ date: String?, _ now: Date) -> TimeInterval? {
        guard let field else { return nil }
        if let seconds = TimeInterval(field) { return seconds >= 0 ? seconds : nil }
        let serverNow = date.flatMap(HTTPDate.read) ?? now
        return HTTPDate.read(field).map { max(0, $0.timeIntervalSince(serverNow)) }
    }
}

/// The one form of dates in HTTP's answers (RFC 9110, 5.6.7): `Wed, 12 Jul 2017 22:41:27 GMT`.
package enum HTTPDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static var calendar: Calendar {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .utc
        return calendar
    }

    /// Reads a date; nil for another text.
    package static func read(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let day = Int(words[1]), let year = Int(words[3]),
            let month = months.firstIndex(of: String(words[2]))
        else { return nil }
        let clock = words[4].split(separator: ":").compactMap { Int($0) }
        guard clock.count == 3, (1...31).contains(day), (1970...9999).contains(year) else { return nil }
        return calendar.date(
            from: DateComponents(
                year: year, month: month + 1, day: day, hour: clock[0], minute: clock[1], second: clock[2]))
    }

    /// Writes a date without a formatter, because formatters follow the device's settings.
    package static func write(_ date: Date) -> String {
        let parts = calendar.dateComponents([.year, .month, .day, .weekday, .hour, .minute, .second], from: date)
        func two(_ number: Int?) -> String { String(format: "%02d", number ?? 0) }
        return "\(days[(parts.weekday ?? 1) - 1]), \(two(parts.day)) \(months[(parts.month ?? 1) - 1])"
            + " \(parts.year ?? 1970) \(two(parts.hour)):\(two(parts.minute)):\(two(parts.second)) GMT"
    }
}

extension HTTPAnswer {
    /// Whether the answer has `X-Request-Id`, as each answer of the server.
    package var hasRequestID: Bool { fields["x-request-id"] != nil }

    package var requestID: String? { fields["x-request-id"] ?? fields["x-mp-trace-id"] }

    /// The body as an object; a failure for any other body.
    package var object: Result<JSON, OnymError> {
        guard let json = JSON(body), json.members != nil else { return .failure(malformed) }
        return .success(json)
    }

    /// The answer to an accepted upload: an empty body, or JSON. Any other body comes from a proxy.
    package var taken: Result<DialectClient.Rejected, OnymError> {
        body.isEmpty || JSON(body) != nil ? .success(.nothing) : .failure(malformed)
    }

    package var malformed: OnymError { .malformed(status: status, requestID: requestID) }
}

extension HTTPRequest {
    /// A request with a JSON body, or without a body.
    package init(
        _ method: String, _ base: URL, _ path: String, _ fields: [String: String] = [:], json: JSON? = nil
    ) {
        var base = base.absoluteString
        while base.hasSuffix("/") { base.removeLast() }
        // The parts of a path are escaped already.
        guard let url = URL(string: base + path) else { preconditionFailure("\(path) is no path.") }
        self.init(method: method, url: url, fields: fields, body: json?.bytes ?? [])
        self.fields["Accept"] = "application/json"
        if json != nil { self.fields["Content-Type"] = "application/json" }
    }
}

extension String {
    /// The text as one part of a path: all characters are escaped except the unreserved characters (RFC 3986, 2.3).
    package var escaped: String {
        var text: [UInt8] = []
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                text.append(byte)
            default:
                text.append(UInt8(ascii: "%"))
                text += hexadecimal([byte]).uppercased().utf8
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension TimeZone {
    /// The zone of all times on the wire. Foundation's own name for it needs newer systems than the SDK does.
    static let utc: TimeZone = {
        guard let zone = TimeZone(secondsFromGMT: 0) else { preconditionFailure("A zone without an offset exists.") }
        return zone
    }()
}
