import ByteText
import JSON

/// A mapping file: where the facts are in the records of a vendor that Onym does not know (docs/moving-in.md).
package struct VendorMap: Sendable {
    package enum Format: String, Sendable {
        case csv, jsonl
    }

    /// The place of a value in a record: names with dots between them, or a constant.
    struct Path: Equatable, Sendable {
        let text: String
        let steps: [String]
        /// The value of `const:x`.
        let constant: [UInt8]?
        /// The name of the column that has the value, in lower case.
        let column: String
        /// The name of the column that may have an object with the value as JSON, in lower case.
        let objectColumn: String

        init(_ text: String) {
            self.text = text
            // Columns have only the letters of ASCII in lower case.
            column = String(copying: Array(text.utf8).map(ASCII.lowercased))
            objectColumn = String(column.prefix { $0 != "." })
            constant = text.hasPrefix("const:") ? Array(text.dropFirst(6).utf8) : nil
            steps = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        }
    }

    /// The places where a value may be; the first place that has a value counts.
    typealias Paths = [Path]

    struct Identity: Sendable {
        let type: String
        let from: Paths
        /// The beginning of values that are no identities.
        let unless: [UInt8]?
    }

    struct Properties: Sendable {
        let dialect: Dialect
        /// The object whose members are the properties; empty for the record itself.
        let from: [String]
        let except: Set<String>
        let at: Paths
    }

    /// The dialect of a property.
    enum Dialect: String, CaseIterable {
        case idsync, claim, entitlements

        var name: StaticString {
            switch self {
            case .idsync: "idsync"
            case .claim: "claim"
            case .entitlements: "entitlements"
            }
        }
    }

    struct Event: Sendable {
        let name: Paths
        let at: Paths
        let unit: VendorTime.Unit
        let id: Paths
        let body: Path?
    }

    struct Purchase: Sendable {
        let principal: Identity
        var members: [String: Paths]
    }

    package let format: Format
    let vendor: [UInt8]
    /// The array of records in each document of a file; nil if a document is a record.
    let records: Path?
    /// The name that the vendor has for the person, or an MPID that is kept.
    let key: Paths
    let person: Paths
    let made: Paths
    let seen: Paths
    let identities: [Identity]
    let properties: Properties?
    let event: Event?
    let purchase: Purchase?

    /// The members of a purchase, besides its principal.
    static let purchaseMembers = [
        "world", "store", "transaction", "original", "product", "bought", "expires", "refunded", "renewal", "period",
        "as_of",
    ]

    /// Reads a mapping file.
    package init(json: [UInt8]) throws(VendorFault) {
        do throws(JSONFault) {
            self = try JSONParser().read(json) { root throws(JSONFault) in try VendorMap(root) }
        } catch {
            throw VendorFault("The map is not usable: \(error.message)")
        }
    }

    private init(_ root: JSONValue) throws(JSONFault) {
        var members: [String: JSONValue] = [:]
        try root.forEachMember(at: "the map") { key, value throws(JSONFault) in members[key.copy()] = value }
        let known: Set<String> = [
            "format", "vendor", "records", "key", "person", "made", "seen", "identities", "properties", "event",
            "purchase",
        ]
        try VendorMap.check(members.keys, known, "the map")
        guard let format = try members["format"]?.string(at: "format") else {
            throw JSONFault(.wrong("is missing: csv or jsonl"), at: "format")
        }
        guard let format = Format(rawValue: format) else {
            throw JSONFault(.wrong("must be csv or jsonl"), at: "format")
        }
        self.format = format
        vendor = try Array((members["vendor"]?.string(at: "vendor") ?? "").utf8)
        records = try members["records"].map { value throws(JSONFault) in Path(try value.string(at: "records")) }
        key = try VendorMap.paths(members["key"], "key")
        person = try VendorMap.paths(members["person"], "person")
        made = try VendorMap.paths(members["made"], "made")
        seen = try VendorMap.paths(members["seen"], "seen")
        var identities: [Identity] = []
        try members["identities"]?.forEachElement(at: "identities") { element throws(JSONFault) in
            identities.append(try VendorMap.identity(element, "identities"))
        }
        self.identities = identities
        properties = try members["properties"].map { value throws(JSONFault) in try VendorMap.properties(value) }
        event = try members["event"].map { value throws(JSONFault) in try VendorMap.event(value) }
        purchase = try members["purchase"].map { value throws(JSONFault) in try VendorMap.purchase(value) } ?? nil
        guard !vendor.isEmpty && !vendor.contains(UInt8(ascii: ":")) else {
            throw JSONFault(.wrong("must be a name without a colon"), at: "vendor")
        }
    }

    /// Throws if the map names no person. Segment's maps only name types, so they need no person.
    func requirePerson() throws(VendorFault) {
        if key.isEmpty == person.isEmpty {
            throw VendorFault("The map needs either key, the vendor's name of the person, or person, an MPID to keep.")
        }
    }

    private static func check(
        _ names: some Sequence<String>, _ known: Set<String>, _ place: String
    ) throws(JSONFault) {
        if let unknown = names.filter({ !known.contains($0) }).min() {
            throw JSONFault(.wrong("has the unknown member \(unknown)"), at: place)
        }
    }

    private static func paths(_ value: JSONValue?, _ place: String) throws(JSONFault) -> Paths {
        guard let value else { return [] }
        if value.kind == .string { return [Path(try value.string(at: place))] }
        var paths: Paths = []
        try value.forEachElement(at: place) { element throws(JSONFault) in
            paths.append(Path(try element.string(at: place)))
        }
        return paths
    }

    private static func identity(_ value: JSONValue, _ place: String) throws(JSONFault) -> Identity {
        var (type, from, unless): (String?, Paths, [UInt8]?) = (nil, [], nil)
        try value.forEachMember(at: place) { key, value throws(JSONFault) in
            switch key {
            case "type": type = try value.string(at: "\(place).type")
            case "from": from = try paths(value, "\(place).from")
            case "unless": unless = Array(try value.string(at: "\(place).unless").utf8)
            default: throw JSONFault(.wrong("has the unknown member \(key.shown)"), at: place)
            }
        }
        guard let type, IdentityNames.all.contains(type) else {
            throw JSONFault(.wrong("must name an identity type of Onym, like customerid"), at: "\(place).type")
        }
        guard !from.isEmpty else { throw JSONFault(.wrong("is missing"), at: "\(place).from") }
        return Identity(type: type, from: from, unless: unless)
    }

    private static func properties(_ value: JSONValue) throws(JSONFault) -> Properties {
        var (dialect, from, except, at): (Dialect, String?, Set<String>, Paths) = (.idsync, nil, [], [])
        try value.forEachMember(at: "properties") { key, value throws(JSONFault) in
            switch key {
            case "dialect":
                guard let named = Dialect(rawValue: try value.string(at: "properties.dialect")) else {
                    throw JSONFault(.wrong("must be idsync, claim or entitlements"), at: "properties.dialect")
                }
                dialect = named
            case "from": from = try value.string(at: "properties.from")
            case "except": except = Set(try paths(value, "properties.except").map(\.text))
            case "at": at = try paths(value, "properties.at")
            default: throw JSONFault(.wrong("has the unknown member \(key.shown)"), at: "properties")
            }
        }
        guard let from, from == "*" || from.hasSuffix(".*") else {
            throw JSONFault(.wrong("must end with *, like props.*"), at: "properties.from")
        }
        let steps = from == "*" ? [] : Path(String(from.dropLast(2))).steps
        return Properties(dialect: dialect, from: steps, except: except, at: at)
    }

    private static func event(_ value: JSONValue) throws(JSONFault) -> Event {
        var (name, at, id, body): (Paths, Paths, Paths, Path?) = ([], [], [], nil)
        var unit = VendorTime.Unit.either
        try value.forEachMember(at: "event") { key, value throws(JSONFault) in
            switch key {
            case "name": name = try paths(value, "event.name")
            case "at": at = try paths(value, "event.at")
            case "id": id = try paths(value, "event.id")
            case "body": body = Path(try value.string(at: "event.body"))
            case "unit":
                switch try value.string(at: "event.unit") {
                case "s": unit = .seconds
                case "ms": unit = .milliseconds
                default: throw JSONFault(.wrong("must be s or ms"), at: "event.unit")
                }
            default: throw JSONFault(.wrong("has the unknown member \(key.shown)"), at: "event")
            }
        }
        guard !name.isEmpty, !at.isEmpty else { throw JSONFault(.wrong("needs name and at"), at: "event") }
        return Event(name: name, at: at, unit: unit, id: id, body: body)
    }

    /// The places of a purchase's members; nil for an empty object.
    private static func purchase(_ value: JSONValue) throws(JSONFault) -> Purchase? {
        var principal: Identity?
        var members: [String: Paths] = [:]
        var isEmpty = true
        try value.forEachMember(at: "purchase") { key, value throws(JSONFault) in
            isEmpty = false
            if key.equals("principal") {
                principal = try identity(value, "purchase.principal")
            } else {
                let name = key.copy()
                try check([name], Set(purchaseMembers), "purchase")
                members[name] = try paths(value, "purchase.\(name)")
            }
        }
        if isEmpty { return nil }
        guard let principal else {
            throw JSONFault(
                .wrong("is missing, like {\"type\":\"access_user_id\",\"from\":\"user\"}"), at: "purchase.principal")
        }
        for name in ["store", "transaction", "product", "bought"] where members[name] == nil {
            throw JSONFault(.wrong("is missing"), at: "purchase.\(name)")
        }
        return Purchase(principal: principal, members: members)
    }
}

extension VendorMap {
    /// Mixpanel: pages of the Engage API (`results`), or profiles one per line, and lines of the raw event export.
    package static let mixpanel = VendorMap(
        shipped: """
            {"format":"jsonl","vendor":"mixpanel","records":"results",
             "key":["$distinct_id","properties.distinct_id"],
             "made":"$properties.$created",
             "identities":[
              {"type":"email","from":"$properties.$email"},
              {"type":"customerid","from":["properties.$user_id","$properties.$user_id","$distinct_id"],"unless":"$device:"},
              {"type":"device_application_stamp","from":"properties.$device_id"}],
             "properties":{"dialect":"idsync","from":"$properties.*","at":"$properties.$last_seen"},
             "event":{"name":"event","at":"properties.time","id":"properties.$insert_id","body":"properties"}}
            """)

    /// Amplitude: the lines of the export API's files, unzipped.
    package static let amplitude = VendorMap(
        shipped: """
            {"format":"jsonl","vendor":"amplitude",
             "key":"amplitude_id",
             "identities":[
              {"type":"customerid","from":"user_id"},
              {"type":"device_application_stamp","from":"device_id"}],
             "properties":{"dialect":"idsync","from":"user_properties.*","at":"event_time"},
             "event":{"name":"event_type","at":"event_time","id":["uuid","$insert_id"],"body":"event_properties"}}
            """)

    private init(shipped json: String) {
        do throws(VendorFault) {
            try self.init(json: Array(json.utf8))
        } catch {
            preconditionFailure("A shipped map is malformed: \(error.message)")
        }
    }
}
