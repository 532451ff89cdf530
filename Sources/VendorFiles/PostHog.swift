import ByteText
import JSON

/// PostHog: pages of the persons API, and batch exports of persons and of events, as JSON or as CSV (spec/moving.md 2).
struct PostHog: VendorForm {
    private enum Kind {
        case page, persons, events
    }

    private var kind = Kind.page
    private var columns: [(column: Column, index: Int)] = []
    private var distinctIDs = DistinctIDs()
    private var versions = PersonVersions()

    let cannotCome = ["the history of merges", "cohorts"]
    let wanted =
        "Files of posthog are pages of the persons API, and batch exports of persons and of events, as JSON or as CSV."

    private enum Column: Int, CaseIterable {
        case uuid, event, timestamp, properties, distinctID, personID, personProperties, personVersion
        case distinctIDVersion, created, deleted, teamID, elements

        var name: String {
            switch self {
            case .uuid: "uuid"
            case .event: "event"
            case .timestamp: "timestamp"
            case .properties: "properties"
            case .distinctID: "distinct_id"
            case .personID: "person_id"
            case .personProperties: "person_properties"
            case .personVersion: "person_version"
            case .distinctIDVersion: "person_distinct_id_version"
            case .created: "created_at"
            case .deleted: "is_deleted"
            case .teamID: "team_id"
            case .elements: "elements_chain"
            }
        }
    }

    private static let known = Set(Column.allCases.map(\.name))
    private static let persons: [Column] = [.distinctID, .personID]
    private static let events: [Column] = [.uuid, .event, .distinctID, .personID, .timestamp]

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        columns = Column.allCases.map { (column: $0, index: table.column($0.name)) }.filter { $0.index >= 0 }
        let found = Set(columns.map(\.column))
        let wantedColumns = found.contains(.event) ? PostHog.events : PostHog.persons
        let missing = wantedColumns.filter { !found.contains($0) }.map(\.name)
        guard missing.isEmpty else {
            throw VendorFault("The header has no \(missing.joined(separator: ", ")). \(wanted)")
        }
        kind = found.contains(.event) ? .events : .persons
        for column in table.unknownColumns(known: PostHog.known) { facts.report.addUnknown(column: column) }
    }

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        func has(_ name: String) -> Bool { record.value(at: [name]) != nil }
        switch true {
        case has("results") || has("distinct_ids"): kind = .page
        case has("event") && has("person_id") && has("uuid"): kind = .events
        case has("distinct_id") && has("person_id"): kind = .persons
        default:
            throw VendorFault("The first record is no page, no person and no event of PostHog. \(wanted)")
        }
    }

    // MARK: Records

    mutating func read(_ row: CSVTable, _ facts: inout Facts) {
        var fields = Fields()
        for (column, index) in columns {
            let text = row[index]
            if !text.isEmpty { fields[column] = text }
        }
        do throws(JSONFault) {
            try read(fields, &facts)
        } catch {
            facts.refuse(.malformed, error.message)
        }
    }

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        if kind == .page {
            guard let results = record.value(at: ["results"]) else { return try readPerson(record, &facts) }
            facts.report.records -= 1
            return try results.forEachElement(at: "results") { person throws(JSONFault) in
                facts.readElement(person) { facts, person throws(JSONFault) in try readPerson(person, &facts) }
            }
        }
        var fields = Fields()
        try record.forEachMember(at: "the record") { key, value throws(JSONFault) in
            guard let column = Column.allCases.first(where: { key.equals($0.name) }) else {
                return facts.report.addUnknown(column: key.shown)
            }
            switch column {
            case .properties, .personProperties:
                if value.kind == .string {
                    fields[column] = ArraySlice(try value.text(at: column.name).copied)
                } else if !value.isNull {
                    fields.objects[column] = value
                }
            case .deleted: fields[column] = value.isTrue ? ArraySlice("1".utf8) : try PostHog.flag(value)
            case .teamID, .elements: break
            default: fields[column] = try value.id(at: column.name)
            }
        }
        try read(fields, &facts)
    }

    private static func flag(_ value: JSONValue) throws(JSONFault) -> Bytes? {
        value.kind == .bool ? nil : try value.id(at: "is_deleted")
    }

    /// The columns of a record, as texts or as objects of JSON.
    private struct Fields {
        private var texts = [Bytes?](repeating: nil, count: Column.allCases.count)
        var objects: [Column: JSONValue] = [:]

        /// The text of a column.
        subscript(_ column: Column) -> Bytes? {
            get { texts[column.rawValue] }
            set { texts[column.rawValue] = newValue }
        }

        /// A version of a row; 0 if the export has no versions.
        func version(_ column: Column) throws(JSONFault) -> Int64 {
            guard let text = self[column] else { return 0 }
            guard let version = Int64(text.text) else {
                throw JSONFault(.wrong("must be an integer"), at: column.name)
            }
            return version
        }

        func time(_ column: Column) throws(JSONFault) -> Int64? {
            guard let text = self[column] else { return nil }
            guard let time = VendorTime.read(text) else {
                throw JSONFault(.wrong("is not a time"), at: column.name)
            }
            return time
        }

        /// Lends an object, which a table has as text.
        func withObject(
            _ column: Column, _ facts: inout Facts, _ body: (inout Facts, JSONValue) throws(JSONFault) -> Void
        ) throws(JSONFault) {
            if let object = objects[column] { return try body(&facts, object) }
            guard let text = self[column] else { return }
            if !facts.withJSON(in: text, body) { throw JSONFault(.wrong("must be a JSON object"), at: column.name) }
        }
    }

    private mutating func read(_ fields: Fields, _ facts: inout Facts) throws(JSONFault) {
        guard let uuid = fields[.personID] else { return facts.refuse(.nobody, "The record has no person_id.") }
        guard let distinct = fields[.distinctID] else {
            return facts.refuse(.nobody, "The record has no distinct_id.")
        }
        if kind == .events {
            try readEvent(fields, uuid, distinct, &facts)
        } else {
            try readRow(fields, uuid, distinct, &facts)
        }
    }

    /// Reads a person of the API.
    private mutating func readPerson(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        var (uuid, made, seen): (Bytes?, Int64?, Int64?) = (nil, nil, nil)
        var (distinct, properties): ([Bytes], JSONValue?) = ([], nil)
        try record.forEachMember(at: "the person") { key, value throws(JSONFault) in
            switch key {
            case "uuid": uuid = try value.id(at: "uuid")
            case "created_at": made = VendorTime.read(value)
            case "last_seen_at": seen = VendorTime.read(value)
            case "properties": properties = value.isNull ? nil : value
            case "distinct_ids":
                try value.forEachElement(at: "distinct_ids") { id throws(JSONFault) in
                    if let id = try id.id(at: "distinct_ids") { distinct.append(id) }
                }
            default: break
            }
        }
        guard let uuid else { return facts.refuse(.nobody, "The person has no uuid.") }
        let person = Who("posthog", uuid)
        facts.person(person, made: made, seen: seen)
        let email = properties.flatMap(PostHog.email)
        for id in distinct { distinctIDs.link(person, id, email: email, since: made, &facts) }
        if let properties {
            try facts.properties(person, "idsync", of: properties, at: seen ?? made, place: "properties")
        }
    }

    /// The property `email`, which tells that a distinct id is an address.
    private static func email(_ properties: JSONValue) -> Bytes? {
        guard let email = properties.value(at: ["email"]), email.kind == .string else { return nil }
        return (try? email.text(at: "")).map { ArraySlice($0.copied) }
    }

    /// Reads a row of the persons export: one distinct id of a person, in one version.
    private mutating func readRow(
        _ fields: Fields, _ uuid: Bytes, _ distinct: Bytes, _ facts: inout Facts
    ) throws(JSONFault) {
        let version = try fields.version(.personVersion)
        let idVersion = try fields.version(.distinctIDVersion)
        let made = try fields.time(.created)
        let isDeleted = fields[.deleted].map { !$0.isWord("0") && !$0.isWord("false") } ?? false
        var email: Bytes?
        if isDeleted {
            facts.report.leaveOut("deleted distinct ids")
        } else {
            let person = Who("posthog", uuid)
            facts.person(person, made: made)
            try fields.withObject(.properties, &facts) { facts, object throws(JSONFault) in
                email = PostHog.email(object)
                try versions.write(object, of: person, version, made, &facts)
            }
        }
        distinctIDs.hold(
            DistinctIDs.Holding(
                version: idVersion, person: Array(uuid), isEmail: email == distinct, since: made, isDeleted: isDeleted,
                file: facts.file, line: facts.line),
            of: Array(distinct))
    }

    private mutating func readEvent(
        _ fields: Fields, _ uuid: Bytes, _ distinct: Bytes, _ facts: inout Facts
    ) throws(JSONFault) {
        guard let at = try fields.time(.timestamp) else {
            return facts.refuse(.malformed, "The event has no timestamp.")
        }
        guard let id = fields[.uuid] else { return facts.refuse(.malformed, "The event has no uuid.") }
        guard let name = fields[.event] else { return facts.refuse(.malformed, "The event has no name.") }
        let person = Who("posthog", uuid)
        facts.person(person, made: at)
        var email: Bytes?
        try fields.withObject(.personProperties, &facts) { facts, object throws(JSONFault) in
            email = PostHog.email(object)
            try facts.properties(person, "idsync", of: object, at: at, place: "person_properties")
        }
        let type = distinctIDs.link(person, distinct, email: email, since: at, &facts)
        var content: [UInt8]?
        try fields.withObject(.properties, &facts) { _, object throws(JSONFault) in
            var json = JSONWriter()
            json.copy(object)
            content = json.bytes
        }
        let isDevice = IdentityNames.isDevice(type)
        facts.event(
            person, id: id, at: at, identity: isDevice ? nil : (type, distinct),
            device: isDevice ? (type, distinct) : nil
        ) { json in
            json.key("name")
            json.string(name.span)
            if let content {
                json.key("properties")
                json.raw(content)
            }
        }
    }

    mutating func finish(_ facts: inout Facts) { distinctIDs.finish(&facts) }
}

/// The types of distinct ids, and the distinct ids whose highest version is not known before the end of the export.
private struct DistinctIDs {
    /// A state of a distinct id: its person, and whether the id was deleted.
    struct Holding {
        let version: Int64
        let person: [UInt8]
        let isEmail: Bool
        let since: Int64?
        let isDeleted: Bool
        let file: Int
        let line: Int
    }

    private var held: [Name: Holding] = [:]
    /// The distinct ids that became a person's email and customer id. A person has one of each.
    private var emails: [HashOfBytes: HashOfBytes] = [:]
    private var customerIDs: [HashOfBytes: HashOfBytes] = [:]
    /// The device stamps of people, and their number for each person; Onym has room for 100 by default.
    private var stamps: Set<HashOfBytes> = []
    private var stampCounts: [HashOfBytes: Int] = [:]
    private static let mostStamps = 100

    /// A distinct id, hashed as a whole.
    private struct Name: Hashable {
        let bytes: [UInt8]

        func hash(into hasher: inout Hasher) {
            unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        }
    }

    private static func hash(_ bytes: borrowing Span<UInt8>) -> HashOfBytes {
        var hash = HashOfBytes()
        hash.add(bytes)
        return hash
    }

    /// Links a distinct id, and gives its type.
    @discardableResult
    mutating func link(
        _ person: Who, _ distinct: Bytes, email: Bytes?, since: Int64?, _ facts: inout Facts
    ) -> String {
        link(person, distinct, isEmail: email == distinct, since: since, &facts)
    }

    private mutating func link(
        _ person: Who, _ distinct: Bytes, isEmail: Bool, since: Int64?, _ facts: inout Facts
    ) -> String {
        let (name, id) = (DistinctIDs.hash(person.name.span), DistinctIDs.hash(distinct.span))
        let hasRoom: Bool
        let type: String
        if isEmail {
            type = "email"
            hasRoom = emails[name] == nil || emails[name] == id
            if hasRoom { emails[name] = id }
        } else if DistinctIDs.isUUID(distinct) {
            type = "device_application_stamp"
            var stamp = name
            stamp.add(distinct.span)
            if stamps.contains(stamp) {
                hasRoom = true
            } else {
                hasRoom = stampCounts[name, default: 0] < DistinctIDs.mostStamps
                if hasRoom {
                    stamps.insert(stamp)
                    stampCounts[name, default: 0] += 1
                }
            }
        } else {
            type = "customerid"
            hasRoom = customerIDs[name] == nil || customerIDs[name] == id
            if hasRoom { customerIDs[name] = id }
        }
        if hasRoom {
            facts.link(person, type, distinct, since: since)
            return type
        }
        facts.link(person, "imported_id", ArraySlice(Array("posthog:distinct:".utf8) + distinct), since: since)
        return "imported_id"
    }

    private static func isUUID(_ text: Bytes) -> Bool {
        guard text.count == 36 else { return false }
        for (place, byte) in text.enumerated() {
            let isDash = [8, 13, 18, 23].contains(place)
            if isDash ? byte != UInt8(ascii: "-") : ASCII.hexadecimal(byte) == nil { return false }
        }
        return true
    }

    /// Keeps the holding of the highest version; of two rows of one version the later row counts.
    mutating func hold(_ holding: Holding, of distinct: [UInt8]) {
        let name = Name(bytes: distinct)
        if let known = held[name], known.version > holding.version { return }
        held[name] = holding
    }

    /// Links what was held back, in the order of the files.
    mutating func finish(_ facts: inout Facts) {
        let inOrder = held.sorted { one, other in
            (one.value.file, one.value.line) < (other.value.file, other.value.line)
        }
        held = [:]
        for (distinct, holding) in inOrder where !holding.isDeleted {
            (facts.file, facts.line) = (holding.file, holding.line)
            let person = Who("posthog", ArraySlice(holding.person))
            _ = link(person, ArraySlice(distinct.bytes), isEmail: holding.isEmail, since: holding.since, &facts)
        }
    }
}

/// The newest version of each person in an export, whose properties hold.
///
/// A version that comes later in the file removes the properties that it does not have. People mostly share few sets of names,
/// so a person costs about 60 bytes.
private struct PersonVersions {
    private var newest: [HashOfBytes: (version: Int64, names: Int)] = [:]
    private var sets: [[[UInt8]]] = []
    private var numbers: [HashOfBytes: Int] = [:]

    mutating func write(
        _ object: JSONValue, of person: Who, _ version: Int64, _ made: Int64?, _ facts: inout Facts
    ) throws(JSONFault) {
        var key = HashOfBytes()
        key.add(person.name.span)
        let known = newest[key]
        if let known, known.version >= version {
            if known.version > version { facts.report.leaveOut("older versions of people") }
            return
        }
        // The rows have no time of their own. A higher version must count as newer.
        let at = made.map { $0 + min(max(version, 0), 1 << 40) }
        var names: [[UInt8]] = []
        try object.forEachMember(at: "properties") { name, value throws(JSONFault) in
            let name = name.copied
            names.append(name)
            facts.property(
                person, "idsync", name.span, value.isNull ? .removed : .json(value), at: at)
        }
        if let known {
            let kept = Set(names)
            for name in sets[known.names] where !kept.contains(name) {
                facts.property(person, "idsync", name.span, .removed, at: at)
            }
        }
        var set = HashOfBytes()
        for name in names { set.add(name.span) }
        let number = numbers[set] ?? sets.count
        if number == sets.count {
            sets.append(names)
            numbers[set] = number
        }
        newest[key] = (version, number)
    }
}
