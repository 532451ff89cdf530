import ByteText
import Domain
import JSON

/// The body that identify, login, logout and search share (spec/idsync.md 1.3).
struct IdentityRequest: Sendable {
    /// What the caller is called: one value of each type, none of them empty.
    let identities: [Identity]
    let previous: PersonID?
    /// What the request is recognized by when it is made again.
    let replayKey: ReplayKey?

    init(_ root: JSONValue, _ project: ProjectID, _ hash: KeyedHash) throws(JSONFault) {
        var identities: [Identity]?
        var previous: PersonID?
        var replayKey: ReplayKey?
        var hasEnvironment = false
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "known_identities":
                identities = try IdentityRequest.identities(value, project, hash)
            case "environment":
                switch try value.text(at: "environment") {
                case "production", "development": hasEnvironment = true
                default: throw JSONFault(.wrong("must be \"production\" or \"development\""), at: "environment")
                }
            case "previous_mpid":
                previous = try IdentityRequest.person(value, at: "previous_mpid")
            case "request_id", "requestId":
                replayKey = try IdentityRequest.replayKey(value, project, hash)
            case "client_sdk":
                if !value.isNull { try IdentityRequest.checkClient(value) }
            case "context":
                _ = try value.optionalText(at: "context")
            case "request_timestamp_ms":
                if !value.isNull { _ = try value.number(at: "request_timestamp_ms") }
            default:
                // What clients send beyond this (UWP: source_request_id) means nothing here.
                break
            }
        }
        guard hasEnvironment else {
            throw JSONFault(.wrong("is required: \"production\" or \"development\""), at: "environment")
        }
        guard let identities else {
            throw JSONFault(.wrong("is required: an object of identities"), at: "known_identities")
        }
        self.identities = identities
        self.previous = previous
        self.replayKey = replayKey
    }

    /// Reads the identities. Null and the empty string stand for none (decision 6).
    private static func identities(
        _ value: JSONValue, _ project: ProjectID, _ hash: KeyedHash
    ) throws(JSONFault) -> [Identity] {
        var identities: [Identity] = []
        identities.reserveCapacity(4)
        try value.forEachMember(at: "known_identities") { key, value throws(JSONFault) in
            guard let type = IdentityType(idsync: key) else {
                throw JSONFault(.wrong("is not an identity type"), at: "known_identities.\(key.shown)")
            }
            // Of members with one key the last counts, also when it takes a value back.
            if let earlier = identities.firstIndex(where: { $0.type == type }) { identities.remove(at: earlier) }
            guard let text = try value.optionalText(at: "known_identities.\(type.name)"), !text.isEmpty else { return }
            guard Identity.valueBytes.contains(text.byteCount) else {
                throw JSONFault(
                    .wrong("must have at most \(Identity.valueBytes.upperBound) bytes"),
                    at: "known_identities.\(type.name)")
            }
            identities.append(Identity(type, text.copy(), in: project, hash: hash))
        }
        return identities
    }

    /// Reads an MPID: a string of digits, or a number, exact to 64 bits. Null, the empty string and 0 stand for none.
    private static func person(_ value: JSONValue, at path: String) throws(JSONFault) -> PersonID? {
        let id: Int64?
        switch value.kind {
        case .null: return nil
        case .string:
            let text = try value.string(at: path)
            if text.isEmpty { return nil }
            id = text.hasPrefix("+") ? nil : Int64(text)
        default: id = try value.integer(at: path)
        }
        guard let id else { throw JSONFault(.wrong("must be a 64-bit integer"), at: path) }
        return id == 0 ? nil : PersonID(rawValue: id)
    }

    private static func replayKey(
        _ value: JSONValue, _ project: ProjectID, _ hash: KeyedHash
    ) throws(JSONFault) -> ReplayKey? {
        guard let text = try value.optionalText(at: "request_id"), !text.isEmpty else { return nil }
        guard text.byteCount <= IdentityCalls.requestIDBytes else {
            throw JSONFault(.wrong("must have at most \(IdentityCalls.requestIDBytes) bytes"), at: "request_id")
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

extension IdentityType {
    /// The type that IDSync calls by a name. One client spells one of them its own way.
    init?(idsync key: JSONText) {
        switch key {
        case "facebook_custom_audience_id": self = .facebookCustomAudienceID
        default:
            guard let type = key.withBytes({ IdentityType(named: $0) }) else { return nil }
            self = type
        }
    }
}
