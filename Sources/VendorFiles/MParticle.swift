import ByteText
import JSON

/// mParticle: batches of events, answers of the Profile API, and rows of a warehouse, all as JSON (spec/moving.md 2).
struct MParticle: VendorForm {
    /// Whether records of the environment `development` are read.
    let development: Bool
    /// Whether the file has rows of a warehouse.
    private var isWarehouse = false
    private var isBegun = false
    private var people = 0
    private var roundedPeople = 0

    let cannotCome = ["the strategy (set it before the import)", "audiences", "aliases", "consent"]
    let wanted =
        "Files of mparticle are event batches, answers of the Profile API, or warehouse rows: one JSON per line."

    init(development: Bool) { self.development = development }

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        var (hasID, hasWarehouseID) = (false, false)
        if record.kind == .object {
            try? record.forEachMember(at: "") { key, _ in
                if key == "mpid" { hasID = true }
                if key.withBytes({ $0.equalsIgnoringCase("mparticleuserid") }) { hasWarehouseID = true }
            }
        }
        guard hasID || hasWarehouseID else {
            throw VendorFault("The first record has neither mpid nor mparticleuserid. \(wanted)")
        }
        isWarehouse = hasWarehouseID
    }

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        if isWarehouse { try readRow(record, &facts) } else { try readProfile(record, &facts) }
    }

    mutating func endFile(_ facts: inout Facts) {
        // One id in a thousand ends so by chance.
        if roundedPeople * 100 > people {
            facts.report.warn(
                "\(roundedPeople) of \(people) MPIDs end in 000: a program has probably rounded them to 53 bits. "
                    + "Export them again as text or as 64-bit integers.")
        }
    }

    // MARK: Batches and profiles

    /// Reads a batch of events, or an answer of the Profile API. Both have the same members.
    private mutating func readProfile(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        var (id, made, seen, sent): (JSONValue?, Int64?, Int64?, Int64?) = (nil, nil, nil, nil)
        var (attributes, deleted, events): (JSONValue?, JSONValue?, JSONValue?) = (nil, nil, nil)
        var found = Identities()
        var isDevelopment = false
        try record.forEachMember(at: "the record") { key, value throws(JSONFault) in
            switch key {
            case "mpid": id = value
            case "created_timestamp_ms": made = VendorTime.read(value, .milliseconds)
            case "last_seen_timestamp_ms": seen = VendorTime.read(value, .milliseconds)
            case "timestamp_unixtime_ms": sent = VendorTime.read(value, .milliseconds)
            case "environment": isDevelopment = try MParticle.isDevelopment(value)
            case "user_identities": try found.read(value, at: "user_identities", onlyDevices: false, &facts)
            case "device_identities": try found.read(value, at: "device_identities", onlyDevices: true, &facts)
            case "device_info": if !value.isNull { try found.readDevice(value, &facts) }
            case "mp_deviceid": try found.add("device_application_stamp", value, nil, "mp_deviceid", &facts)
            case "user_attributes": attributes = value.isNull ? nil : value
            case "deleted_user_attributes": deleted = value.isNull ? nil : value
            case "events": events = value.isNull ? nil : value
            default: break
            }
        }
        if isDevelopment, !development { return facts.report.leaveOut("records of the environment development") }
        guard let person = try person(id, &facts) else { return }
        let eventTimes = try events.map { events throws(JSONFault) in try MParticle.times(of: events) } ?? nil
        let first = [made, found.earliest, made == nil ? eventTimes?.lowerBound : nil, made == nil ? sent : nil]
            .compactMap(\.self).min()
        facts.person(person, made: first, seen: seen ?? eventTimes?.upperBound)
        let moment = sent ?? eventTimes?.upperBound ?? seen
        for identity in found.all {
            facts.link(person, identity.type, identity.value, since: identity.since ?? moment)
        }
        if let attributes {
            try facts.properties(person, "idsync", of: attributes, at: moment, place: "user_attributes")
        }
        try deleted?.forEachElement(at: "deleted_user_attributes") { name throws(JSONFault) in
            let name = try name.text(at: "deleted_user_attributes").copied
            facts.property(person, "idsync", name.span, .removed, at: moment)
        }
        try events?.forEachElement(at: "events") { event throws(JSONFault) in
            // The other events of a batch go on after an event that cannot be read.
            do throws(JSONFault) {
                try MParticle.readEvent(event, of: person, found, sent, &facts)
            } catch {
                facts.refuse(.malformed, error.message)
            }
        }
    }

    private static func isDevelopment(_ environment: JSONValue) throws(JSONFault) -> Bool {
        guard let name = try environment.optionalText(at: "environment") else { return false }
        return name == "development"
    }

    /// The person of a record.
    private mutating func person(_ id: JSONValue?, _ facts: inout Facts) throws(JSONFault) -> Who? {
        guard let id, !id.isNull else {
            facts.refuse(.nobody, "The record has no MPID.")
            return nil
        }
        if id.kind == .double {
            throw JSONFault(.wrong("is not an integer: a program has lost its digits"), at: "the MPID")
        }
        let digits = try id.id(at: "the MPID") ?? []
        guard let number = Int64(digits.text), !digits.isEmpty else {
            throw JSONFault(.wrong("must be a signed 64-bit integer"), at: "the MPID")
        }
        guard number != 0 else {
            facts.refuse(.nobody, "The MPID is 0, which names nobody.")
            return nil
        }
        people += 1
        if number % 1000 == 0 { roundedPeople += 1 }
        return Who(id: number)
    }

    /// The first and the last time of events.
    private static func times(of events: JSONValue) throws(JSONFault) -> ClosedRange<Int64>? {
        var range: ClosedRange<Int64>?
        try events.forEachElement(at: "events") { event throws(JSONFault) in
            try event.forEachMember(at: "events") { key, data throws(JSONFault) in
                guard key == "data", data.kind == .object else { return }
                try data.forEachMember(at: "data") { key, value throws(JSONFault) in
                    guard key == "timestamp_unixtime_ms", let time = VendorTime.read(value, .milliseconds) else {
                        return
                    }
                    range = range.map { min($0.lowerBound, time)...max($0.upperBound, time) } ?? time...time
                }
            }
        }
        return range
    }

    private static func readEvent(
        _ event: JSONValue, of person: Who, _ found: Identities, _ sent: Int64?, _ facts: inout Facts
    ) throws(JSONFault) {
        var (type, data): (JSONText?, JSONValue?) = (nil, nil)
        try event.forEachMember(at: "events") { key, value throws(JSONFault) in
            switch key {
            case "event_type": type = try value.optionalText(at: "event_type")
            case "data": data = value.isNull ? nil : value
            default: break
            }
        }
        guard let data else { return facts.report.leaveOut("events without data") }
        var (id, at, name): (Bytes?, Int64?, JSONText?) = (nil, sent, nil)
        try data.forEachMember(at: "data") { key, value throws(JSONFault) in
            switch key {
            case "event_id": id = try value.id(at: "event_id")
            case "timestamp_unixtime_ms": at = VendorTime.read(value, .milliseconds) ?? at
            case "event_name": name = try value.optionalText(at: "event_name") ?? name
            case "screen_name": if name == nil { name = try value.optionalText(at: "screen_name") }
            default: break
            }
        }
        guard let at else { return facts.refuse(.malformed, "An event has no time.") }
        facts.event(person, id: id, at: at, identity: found.user, device: found.device) { json in
            json.key("name")
            if let name = name ?? type { json.string(name) } else { json.string("") }
            // The event stays as it came, like an event that the app sends to Onym.
            try? event.forEachMember(at: "events") { key, value in
                if key == "name" { return }
                json.key(key)
                json.copy(value)
            }
        }
    }

    // MARK: Warehouse rows

    private mutating func readRow(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        var (id, made, seen, at): (JSONValue?, Int64?, Int64?, Int64?) = (nil, nil, nil, nil)
        var (eventID, name): (Bytes?, JSONText?) = (nil, nil)
        var (eventAttributes, attributes): (JSONValue?, JSONValue?) = (nil, nil)
        var found = Identities()
        var isDevelopment = false
        try record.forEachMember(at: "the record") { key, value throws(JSONFault) in
            let column = ArraySlice(key.copied).lowercased
            switch column {
            case "mparticleuserid": id = value
            case "firstseentimestamp": made = VendorTime.read(value)
            case "lastseentimestamp": seen = VendorTime.read(value)
            case "eventtimestamp": at = VendorTime.read(value)
            case "eventid": eventID = try value.id(at: "eventid")
            case "eventname": name = try value.optionalText(at: "eventname")
            case "eventattributes": eventAttributes = value
            case "userattributes": attributes = value
            case "isdebug": if value.isTrue { isDevelopment = true }
            case "environment": if try MParticle.isDevelopment(value) { isDevelopment = true }
            default:
                if let type = IdentityNames.ours(column) {
                    try found.add(type, value, nil, column, &facts)
                } else {
                    facts.report.addUnknown(column: column)
                }
            }
        }
        if isDevelopment, !development { return facts.report.leaveOut("records of the environment development") }
        guard let person = try person(id, &facts) else { return }
        facts.person(person, made: made ?? at, seen: seen ?? at)
        for identity in found.all { facts.link(person, identity.type, identity.value, since: at ?? made) }
        if let attributes, !attributes.isNull {
            try MParticle.withObject(attributes, "userattributes", &facts) { object, facts throws(JSONFault) in
                try facts.properties(person, "idsync", of: object, at: at, place: "userattributes")
            }
        }
        guard name != nil || eventID != nil else { return }
        guard let at else { return facts.refuse(.malformed, "The row has no eventtimestamp.") }
        var body: [UInt8]?
        if let eventAttributes, !eventAttributes.isNull {
            try MParticle.withObject(eventAttributes, "eventattributes", &facts) { object, _ throws(JSONFault) in
                var json = JSONWriter()
                json.copy(object)
                body = json.bytes
            }
        }
        facts.event(person, id: eventID, at: at, identity: found.user, device: found.device) { json in
            json.key("name")
            if let name { json.string(name) } else { json.string("") }
            if let body {
                json.key("attributes")
                json.raw(body)
            }
        }
    }

    /// Lends an object of a warehouse, which may be a text that holds JSON.
    private static func withObject(
        _ value: JSONValue, _ place: StaticString, _ facts: inout Facts,
        _ body: (JSONValue, inout Facts) throws(JSONFault) -> Void
    ) throws(JSONFault) {
        guard value.kind == .string else { return try body(value, &facts) }
        let text = try value.text(at: "\(place)").copied
        let isJSON = facts.withJSON(in: ArraySlice(text)) { facts, value throws(JSONFault) in try body(value, &facts) }
        if !isJSON { throw JSONFault(.wrong("must be an object, or a text that holds an object"), at: "\(place)") }
    }
}

/// The identities of a record of mParticle, under Onym's names.
private struct Identities {
    struct Identity {
        let type: String
        let value: Bytes
        let since: Int64?
    }

    private(set) var all: [Identity] = []
    private(set) var user: (type: String, value: Bytes)?
    private(set) var device: (type: String, value: Bytes)?

    /// The first moment at which an identity was known.
    var earliest: Int64? { all.compactMap(\.since).min() }

    mutating func add(
        _ type: String, _ value: JSONValue, _ since: Int64?, _ place: @autoclosure () -> String, _ facts: inout Facts
    ) throws(JSONFault) {
        guard let value = try value.id(at: place()) else { return facts.report.leaveOut("empty or zero identities") }
        add(type, value, since)
    }

    private mutating func add(_ type: String, _ value: Bytes, _ since: Int64?) {
        all.append(Identity(type: type, value: value, since: since))
        guard Facts.isUsable(value) else { return }
        if IdentityNames.isDevice(type) {
            if device == nil { device = (type, value) }
        } else if user == nil || type == "customerid" {
            user = (type, value)
        }
    }

    /// Reads identities in both of mParticle's forms: an array of objects, or an object with a member for each type.
    mutating func read(
        _ value: JSONValue, at place: StaticString, onlyDevices: Bool, _ facts: inout Facts
    ) throws(JSONFault) {
        switch value.kind {
        case .null: return
        case .object:
            try value.forEachMember(at: "\(place)") { key, value throws(JSONFault) in
                guard let type = IdentityNames.ours(key) else { return unknown(key, &facts) }
                try add(type, value, nil, "\(place)", &facts)
            }
        default:
            try value.forEachElement(at: "\(place)") { element throws(JSONFault) in
                var (type, text, since, isEncoded): (JSONText?, Bytes?, Int64?, Bool) = (nil, nil, nil, false)
                try element.forEachMember(at: "\(place)") { key, value throws(JSONFault) in
                    switch key {
                    case "identity_type", "type": type = try value.optionalText(at: "\(place)")
                    case "identity", "value": text = try value.id(at: "\(place)")
                    case "timestamp_unixtime_ms": since = VendorTime.read(value, .milliseconds)
                    case "encoding":
                        let encoding = try value.optionalText(at: "encoding")
                        isEncoded = encoding.map { !($0 == "none") && !$0.isEmpty } ?? false
                    default: break
                    }
                }
                guard let type else { return facts.report.leaveOut("identities without a type") }
                guard !isEncoded else { return facts.report.leaveOut("encoded identities") }
                guard let ours = IdentityNames.ours(type) else { return unknown(type, &facts) }
                guard let text else { return facts.report.leaveOut("empty or zero identities") }
                add(ours, text, since)
            }
        }
    }

    /// Reads the identities among the facts about a device.
    mutating func readDevice(_ value: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        try value.forEachMember(at: "device_info") { key, value throws(JSONFault) in
            guard let type = IdentityNames.ours(key), IdentityNames.isDevice(type), !value.isNull else { return }
            try add(type, value, nil, "device_info", &facts)
        }
    }

    private func unknown(_ type: JSONText, _ facts: inout Facts) {
        facts.report.leaveOut("identities of type \(type.shown)")
    }
}
