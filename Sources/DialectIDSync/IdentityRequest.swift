import ByteText
import Domain
import JSON

/// The common body of identify, login, logout and search (spec/idsync.md 1.3).
struct IdentityRequest: Sendable {
    /// The caller's identities: at most one value of each type, and no empty value.
    let identities: [Identity]
    let previous: PersonID?
    let frame: RequestFrame

    init(_ root: JSONValue, _ reader: IdentityReader) throws(JSONFault) {
        var identities: [Identity]?
        var previous: PersonID?
        frame = try RequestFrame(root, reader.project, reader.hash) { key, value throws(JSONFault) in
            switch key {
            case "known_identities":
                identities = try IdentityRequest.identities(value, reader)
            case "previous_mpid":
                previous = try value.person(at: "previous_mpid")
            default:
                // Other members of clients' bodies have no meaning here (UWP: source_request_id).
                break
            }
        }
        guard let identities else {
            throw JSONFault(.wrong("is required: an object of identities"), at: "known_identities")
        }
        self.identities = identities
        self.previous = previous
    }

    /// Reads the identities. Null and the empty string mean no identity (decision 6).
    private static func identities(
        _ value: JSONValue, _ reader: IdentityReader
    ) throws(JSONFault) -> [Identity] {
        var identities: [Identity] = []
        identities.reserveCapacity(4)
        try value.forEachMember(at: "known_identities") { key, value throws(JSONFault) in
            guard let type = IdentityType(idsync: key) else {
                throw JSONFault(.wrong("is not an identity type"), at: "known_identities.\(key.shown)")
            }
            // Of several members with one key the last counts, also if it removes a value.
            if let earlier = identities.firstIndex(where: { $0.type == type }) { identities.remove(at: earlier) }
            let identity = try reader.identity(value, type, at: "known_identities.\(type.name)")
            if let identity { identities.append(identity) }
        }
        return identities
    }
}

extension IdentityType {
    /// The type for a name of IDSync. One client spells one name its own way.
    init?(idsync key: JSONText) {
        switch key {
        case "facebook_custom_audience_id": self = .facebookCustomAudienceID
        default:
            guard let type = key.withBytes({ IdentityType(named: $0) }), type.dialect == .idsync else {
                return nil
            }
            self = type
        }
    }
}
