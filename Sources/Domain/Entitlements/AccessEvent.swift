/// The rows that report changes of access to the feed.
enum AccessEvent {
    case granted(entitlement: String)
    case revoked(entitlement: String)
    /// News of a purchase, and whether it gives access now.
    case purchased(Purchase, isActive: Bool)
    case transferred(Purchase, [PersonID], [PersonID])
    case propertiesSet([AccessProperty])

    func row(_ stamp: Stamp) -> Row { Row(kind, at: stamp.at, body: Array(body.utf8)) }

    private var kind: RowKind {
        switch self {
        case .granted: .accessGranted
        case .purchased(_, let isActive): isActive ? .accessGranted : .accessLost
        case .revoked: .accessLost
        case .transferred: .accessTransferred
        case .propertiesSet: .accessProperties
        }
    }

    private var body: String {
        switch self {
        case .granted(let entitlement), .revoked(let entitlement):
            "{\"entitlement\":\(AccessEvent.quoted(entitlement)),\"source\":\"manual\"}"
        case .purchased(let purchase, _):
            "{\"product\":\(AccessEvent.quoted(purchase.product)),\"transaction\":\(AccessEvent.quoted(purchase.transaction))}"
        case .transferred(let purchase, let from, let to):
            "{\"product\":\(AccessEvent.quoted(purchase.product)),\"transaction\":\(AccessEvent.quoted(purchase.transaction)),\"from\":\(AccessEvent.list(from)),\"to\":\(AccessEvent.list(to))}"
        case .propertiesSet(let properties):
            "{"
                + properties.map { "\(AccessEvent.quoted($0.name)):\(AccessEvent.quoted($0.value))" }
                .joined(separator: ",") + "}"
        }
    }

    private static func list(_ people: [PersonID]) -> String {
        "[" + people.map { "\"\($0.rawValue)\"" }.joined(separator: ",") + "]"
    }

    /// A text as a JSON string.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case "\u{0}"..<" ":
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
