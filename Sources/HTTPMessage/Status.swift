/// A status code of HTTP.
package struct Status: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let `continue` = Status(rawValue: 100)
    package static let ok = Status(rawValue: 200)
    package static let created = Status(rawValue: 201)
    package static let accepted = Status(rawValue: 202)
    package static let noContent = Status(rawValue: 204)
    package static let found = Status(rawValue: 302)
    package static let notModified = Status(rawValue: 304)
    package static let badRequest = Status(rawValue: 400)
    package static let unauthorized = Status(rawValue: 401)
    package static let forbidden = Status(rawValue: 403)
    package static let notFound = Status(rawValue: 404)
    package static let methodNotAllowed = Status(rawValue: 405)
    package static let notAcceptable = Status(rawValue: 406)
    package static let requestTimeout = Status(rawValue: 408)
    package static let conflict = Status(rawValue: 409)
    package static let gone = Status(rawValue: 410)
    package static let lengthRequired = Status(rawValue: 411)
    package static let contentTooLarge = Status(rawValue: 413)
    package static let uriTooLong = Status(rawValue: 414)
    package static let unsupportedMediaType = Status(rawValue: 415)
    package static let expectationFailed = Status(rawValue: 417)
    package static let misdirectedRequest = Status(rawValue: 421)
    package static let unprocessableContent = Status(rawValue: 422)
    package static let tooManyRequests = Status(rawValue: 429)
    package static let requestHeaderFieldsTooLarge = Status(rawValue: 431)
    package static let internalServerError = Status(rawValue: 500)
    package static let notImplemented = Status(rawValue: 501)
    package static let badGateway = Status(rawValue: 502)
    package static let serviceUnavailable = Status(rawValue: 503)
    package static let versionNotSupported = Status(rawValue: 505)

    /// The reason phrase of RFC 9110; empty for an unknown code.
    package var reason: StaticString {
        switch rawValue {
        case 100: "Continue"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 302: "Found"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: ""
        }
    }

    /// The first line of an answer.
    var line: [UInt8] {
        let index = Int(rawValue) - Status.firstLine
        return Status.lines.indices.contains(index) ? Status.lines[index] : Status.makeLine(rawValue)
    }

    /// The lines of all possible statuses, made once.
    private static let lines: [[UInt8]] = (100..<600).map { makeLine(UInt16($0)) }
    private static let firstLine = 100

    private static func makeLine(_ code: UInt16) -> [UInt8] {
        Array("HTTP/1.1 \(code) \(Status(rawValue: code).reason)\r\n".utf8)
    }

    package var isSuccess: Bool { (200..<300).contains(rawValue) }

    /// Whether RFC 9110 forbids a body with this status.
    package var forbidsBody: Bool { rawValue < 200 || rawValue == 204 || rawValue == 304 }
}
