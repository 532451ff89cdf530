import ByteText
import Domain
import JSON

/// The common outer members of all bodies of the identity calls (spec/idsync.md 1.3).
struct RequestFrame: Sendable {
    /// The key that recognizes a repeated request.
    let replayKey: ReplayKey?

    /// The greatest length of a request's own id in bytes; a longer id is refused.
    static let requestIDBytes = 255

    /// Reads a body; the caller gets the members that do not belong to the frame.
    init(
        _ root: JSONValue, _ project: ProjectID, _ hash: KeyedHash,
        other: (JSONText, JSONValue) throws(JSONFault) -> Void
    ) throws(JSONFault) {
        var replayKey: ReplayKey?
        var hasEnvironment = false
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "environment":
                switch try value.text(at: "environment") {
                case "production", "development": hasEnvironment = true
                default: throw JSONFault(.wrong("must be \"production\" or \"development\""), at: "environment")
                }
            case "request_id", "requestId":
                replayKey = try RequestFrame.replayKey(value, project, hash)
            case "client_sdk":
                if !value.isNull { try RequestFrame.checkClient(value) }
            case "context":
                _ = try value.optionalText(at: "context")
            case "request_timestamp_ms":
                if !value.isNull { _ = try value.number(at: "request_timestamp_ms") }
            default: try other(key, value)
            }
        }
        guard hasEnvironment else {
            throw JSONFault(.wrong("is required: \"production\" or \"development\""), at: "environment")
        }
        self.replayKey = replayKey
    }

    private static func replayKey(
        _ value: JSONValue, _ project: ProjectID, _ hash: KeyedHash
    ) throws(JSONFault) -> ReplayKey? {
        guard let text = try value.optionalText(at: "request_id"), !text.isEmpty else { return nil }
        guard text.byteCount <= requestIDBytes else {
            throw JSONFault(.wrong("must have at most \(requestIDBytes) bytes"), at: "request_id")
        }
        return text.withBytes { ReplayKey(.requestID, $0, in: project, hash: hash) }
    }

    private static func checkClient(_ value: JSONValue) throws(JSONFault) {
        try value.forEachMember(at: "client_sdk") { key, value throws(JSONFault) in
            switch key {
            case "platform": _ = try value.optionalText(at: "client_sdk.platform")
            case "sdk_vendor": _ = try value.optionalText(at: "client_sdk.sdk_vendor")
            case "sdk_version": _ = try value.optionalText(at: "client_sdk.sdk_version")
            default: break
            }
        }
    }
}

extension JSONValue {
    /// Reads an MPID: a string of digits, or a number, exact to 64 bits. Null, the empty string and 0 mean no person.
    func person(at path: String) throws(JSONFault) -> PersonID? {
        let id: Int64?
        switch kind {
        case .null: return nil
        case .string:
            let text = try string(at: path)
            if text.isEmpty { return nil }
            id = Int64(decimal: text)
        default: id = try integer(at: path)
        }
        guard let id else { throw JSONFault(.wrong("must be a 64-bit integer"), at: path) }
        return id == 0 ? nil : PersonID(rawValue: id)
    }
}

extension Int64 {
    /// Reads digits, with or without a minus before them.
    init?(decimal text: String) {
        guard !text.hasPrefix("+"), let value = Int64(text) else { return nil }
        self = value
    }
}
