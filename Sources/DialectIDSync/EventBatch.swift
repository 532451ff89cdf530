import ByteText
import Domain
import JSON

/// An upload of events, in any form that clients send (spec/idsync.md 1.1): the form of the Events API and of web clients,
/// the form of native clients, and the single events of older web clients. The forms have the same content under different
/// names. No name has two meanings, so one reader reads all forms.
struct EventBatch: Sendable {
    /// The person's identities, from the upload's part about the user.
    private(set) var identities: [Identity] = []
    /// The device's identities.
    private(set) var devices: [Identity] = []
    private(set) var person: PersonID?
    private(set) var attributes: [Attributes.Write] = []
    private(set) var rows: [Row] = []
    private(set) var replayKey: ReplayKey?

    /// The greatest number of events in an upload.
    static let eventsPerBatch = 5000

    private let reader: IdentityReader
    private var project: ProjectID { reader.project }
    private var hash: KeyedHash { reader.hash }
    private let path: String
    private var device: RowHash?
    /// The owner of the upload, as a hash of its identities.
    private var owner: UInt64 = 0
    private var context = JSONWriter()
    /// The time of the upload, for events without a time.
    private var madeAt: Instant

    init(_ root: JSONValue, _ reader: IdentityReader, at now: Instant, path: String) throws(JSONFault) {
        (self.reader, self.path) = (reader, path)
        madeAt = now
        var events: [JSONValue] = []
        context.beginObject()
        try root.forEachMember(at: path.isEmpty ? "the body" : path) { key, value throws(JSONFault) in
            try read(key, value, &events)
        }
        context.endObject()
        if events.isEmpty, EventBatch.isEvent(root) { events = [root] }
        // Each client counts its own messages, so two clients can use one number.
        owner = EventBatch.owner(person, identities, devices)
        replayKey = replayKey?.of(owner)
        for (index, event) in events.enumerated() { try add(event, at: "\(path)events[\(index)]") }
        if !rows.isEmpty { rows.insert(Row(.context, at: madeAt, device: device, body: context.bytes), at: 0) }
        if !isIdentified {
            throw JSONFault(.wrong("must name a person by mpid, or by user_identities"), at: "\(path)mpid")
        }
    }

    private static func owner(_ person: PersonID?, _ identities: [Identity], _ devices: [Identity]) -> UInt64 {
        if let person { return UInt64(bitPattern: person.rawValue) }
        return (identities.isEmpty ? devices : identities).reduce(0) { $0 ^ $1.key.hash.low }
    }

    private var isIdentified: Bool { person != nil || !identities.isEmpty || !devices.isEmpty }

    var act: Ingest {
        Ingest(person: person, identities: identities, devices: devices, attributes: attributes, rows: rows)
    }

    // MARK: - What the upload says

    private mutating func read(
        _ key: JSONText, _ value: JSONValue, _ events: inout [JSONValue]
    ) throws(JSONFault) {
        if value.isNull { return }
        switch key {
        case "events", "msgs":
            try value.forEachElement(at: "\(path)events") { event throws(JSONFault) in
                guard events.count < EventBatch.eventsPerBatch else {
                    throw JSONFault(
                        .wrong("must have at most \(EventBatch.eventsPerBatch) events"), at: "\(path)events")
                }
                events.append(event)
            }
            return
        case "mpid":
            person = try value.person(at: "\(path)mpid")
        case "id", "batch_id", "source_request_id", "request_id":
            if let text = try? value.text(at: ""), !text.isEmpty, text.byteCount <= RequestFrame.requestIDBytes {
                replayKey = text.withBytes { ReplayKey(.uploadID, $0, in: project, hash: hash) }
            }
        case "ct", "timestamp_unixtime_ms":
            madeAt = try value.milliseconds(at: "\(path)timestamp_unixtime_ms").map(Instant.init) ?? madeAt
        case "das", "mp_deviceid", "device_application_stamp":
            try readDevice(value)
        case "user_identities":
            try readIdentities(value)
        case "ui":
            try readNumberedIdentities(value)
        case "device_info", "di":
            try readDeviceIdentities(value)
        case "user_attributes", "ua":
            try readAttributes(value)
            return
        case "deleted_user_attributes", "uad":
            try readDeletedAttributes(value)
            return
        default: break
        }
        context.key(key)
        context.copy(value)
    }

    private mutating func readDevice(_ value: JSONValue) throws(JSONFault) {
        let stamp = IdentityType.deviceApplicationStamp
        guard let identity = try reader.identity(value, stamp, at: "\(path)device_application_stamp") else {
            return
        }
        device = RowHash(.device, identity.value.utf8.span, in: project, hash: hash)
        set(identity, in: &devices)
    }

    private func set(_ identity: Identity, in list: inout [Identity]) {
        list.removeAll { $0.type == identity.type }
        list.append(identity)
    }

    /// `{"customerid":"1","email":"a@x"}`, in the spellings of the Events API as well.
    private mutating func readIdentities(_ value: JSONValue) throws(JSONFault) {
        var found = identities
        try value.forEachMember(at: "\(path)user_identities") { key, value throws(JSONFault) in
            // An obsolete type, which back ends can still send: it has no meaning, and its number has no meaning either.
            if case "alias" = key { return }
            guard let type = IdentityType(events: key) else {
                throw JSONFault(.wrong("is not an identity type"), at: "\(path)user_identities.\(key.shown)")
            }
            if let identity = try identity(value, type) { set(identity, in: &found) }
        }
        identities = found
    }

    /// `[{"n":1,"i":"123456"}]`, or with `Type` and `Identity`.
    private mutating func readNumberedIdentities(_ value: JSONValue) throws(JSONFault) {
        var found = identities
        try value.forEachElement(at: "\(path)ui") { element throws(JSONFault) in
            var type: IdentityType?
            var text: JSONValue?
            try element.forEachMember(at: "\(path)ui") { key, value throws(JSONFault) in
                switch key {
                case "n", "Type": type = IdentityType(number: try value.integer(at: "\(path)ui.n"))
                case "i", "Identity": text = value
                default: break
                }
            }
            // The number of an obsolete type has no meaning.
            if let type, let identity = try text.flatMap({ value throws(JSONFault) in try identity(value, type) }) {
                set(identity, in: &found)
            }
        }
        identities = found
    }

    /// A number counts as a string here, because back ends send their ids as numbers.
    private func identity(_ value: JSONValue, _ type: IdentityType) throws(JSONFault) -> Identity? {
        let path = "\(path)user_identities.\(type.name)"
        switch value.kind {
        case .integer: return Identity(type, "\(try value.integer(at: path))", in: project, hash: hash)
        default: return try reader.identity(value, type, at: path)
        }
    }

    private mutating func readDeviceIdentities(_ value: JSONValue) throws(JSONFault) {
        guard value.kind == .object else { return }
        var found = devices
        try value.forEachMember(at: "\(path)device_info") { key, value throws(JSONFault) in
            guard let type = IdentityType(deviceInfo: key), value.kind == .string else { return }
            if let identity = try reader.identity(value, type, at: "\(path)device_info") {
                set(identity, in: &found)
            }
        }
        devices = found
    }

    private mutating func readAttributes(_ value: JSONValue) throws(JSONFault) {
        guard value.kind == .object else { return }
        try value.forEachMember(at: "\(path)user_attributes") { key, value throws(JSONFault) in
            let name = key.copy()
            guard Attributes.nameCharacters.contains(name.unicodeScalars.count) else { return }
            if value.isNull {
                attributes.append(Attributes.Write(name, nil))
            } else if EventBatch.isWithinLimits(value) {
                var json = JSONWriter(reserving: 32)
                json.copy(value)
                attributes.append(Attributes.Write(name, json.bytes))
            }
        }
    }

    private mutating func readDeletedAttributes(_ value: JSONValue) throws(JSONFault) {
        guard value.kind == .array else { return }
        try value.forEachElement(at: "\(path)deleted_user_attributes") { element throws(JSONFault) in
            if element.kind == .string { attributes.append(Attributes.Write(try element.string(at: path), nil)) }
        }
    }

    /// The vendor's limits: the server drops values beyond them, and accepts the rest of the upload (spec/idsync.md 1.8).
    private static func isWithinLimits(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .string: return ((try? value.string(at: "")) ?? "").unicodeScalars.count <= Attributes.valueCharacters
        case .array:
            var (count, isShort) = (0, true)
            try? value.forEachElement(at: "") { element in
                count += 1
                let text = element.kind == .string ? (try? element.string(at: "")) ?? "" : ""
                isShort = isShort && text.unicodeScalars.count <= Attributes.listElementCharacters
            }
            return isShort && count <= Attributes.listElements
        case .object: return false
        default: return true
        }
    }

    // MARK: - Its events

    /// Whether a body without a list of events is one event: older web clients send each event alone.
    private static func isEvent(_ root: JSONValue) -> Bool {
        var (hasName, hasType) = (false, false)
        try? root.forEachMember(at: "") { key, _ in
            switch key {
            case "n": hasName = true
            case "dt", "et": hasType = true
            default: break
            }
        }
        return hasName && hasType
    }

    private mutating func add(_ event: JSONValue, at path: String) throws(JSONFault) {
        var at: Instant?
        var id: RowHash?
        var rank = Int.max
        func read(_ key: JSONText, _ value: JSONValue) throws(JSONFault) {
            switch key {
            case "ct", "timestamp_unixtime_ms":
                at = try value.milliseconds(at: "\(path).timestamp_unixtime_ms").map(Instant.init) ?? at
            // Among several ids of an event, the id that the client made recognizes the event best.
            case "source_message_id": id = recognition(value, 0, &rank) ?? id
            case "id": id = recognition(value, 1, &rank) ?? id
            case "event_id": id = recognition(value, 2, &rank) ?? id
            default: break
            }
        }
        try event.forEachMember(at: path) { key, value throws(JSONFault) in
            if case "data" = key, value.kind == .object {
                try value.forEachMember(at: "\(path).data", read)
            } else {
                try read(key, value)
            }
        }
        var json = JSONWriter(reserving: 512)
        json.copy(event)
        rows.append(Row(.event, at: at ?? madeAt, recognition: id?.of(owner), device: device, body: json.bytes))
    }

    private func recognition(_ value: JSONValue, _ rank: Int, _ best: inout Int) -> RowHash? {
        guard rank < best else { return nil }
        let hash: RowHash
        switch value.kind {
        case .string:
            guard let text = try? value.text(at: ""), !text.isEmpty else { return nil }
            hash = text.withBytes { RowHash(.event, $0, in: project, hash: self.hash) }
        case .integer:
            guard let number = try? value.integer(at: ""), number != 0 else { return nil }
            hash = RowHash(.event, "\(number)".utf8.span, in: project, hash: self.hash)
        default: return nil
        }
        best = rank
        return hash
    }
}

extension IdentityType {
    /// The type for a name of the Events API, which spells some names its own way (spec/idsync.md 2.1).
    init?(events key: JSONText) {
        switch key {
        case "customer_id": self = .customerID
        case "other_id_2": self = .other2
        case "other_id_3": self = .other3
        case "other_id_4": self = .other4
        case "other_id_5": self = .other5
        case "other_id_6": self = .other6
        case "other_id_7": self = .other7
        case "other_id_8": self = .other8
        case "other_id_9": self = .other9
        case "other_id_10": self = .other10
        default: self.init(idsync: key)
        }
    }

    /// The type for a number of native clients (spec/idsync.md 2.1); nil for a number without a type.
    init?(number: Int64) {
        switch number {
        case 0: self = .other
        case 1: self = .customerID
        case 2: self = .facebook
        case 3: self = .twitter
        case 4: self = .google
        case 5: self = .microsoft
        case 6: self = .yahoo
        case 7: self = .email
        case 9: self = .facebookCustomAudienceID
        case 10: self = .other2
        case 11: self = .other3
        case 12: self = .other4
        case 13: self = .other5
        case 14: self = .other6
        case 15: self = .other7
        case 16: self = .other8
        case 17: self = .other9
        case 18: self = .other10
        case 19: self = .mobileNumber
        case 20: self = .phoneNumber2
        case 21: self = .phoneNumber3
        case 22: self = .iosIDFA
        case 23: self = .iosIDFV
        case 24: self = .pushToken
        case 25: self = .deviceApplicationStamp
        default: return nil
        }
    }

    /// The type for a name in the Events API's facts about a device.
    init?(deviceInfo key: JSONText) {
        switch key {
        case "ios_advertising_id", "ios_idfa", "aid": self = .iosIDFA
        case "ios_idfv", "vid": self = .iosIDFV
        case "android_advertising_id", "android_aaid": self = .androidAAID
        case "android_uuid": self = .androidUUID
        case "amp_id": self = .ampID
        case "roku_advertising_id", "roku_aid": self = .rokuAID
        case "roku_publisher_id": self = .rokuPublisherID
        case "fire_advertising_id", "fire_aid": self = .fireAID
        case "microsoft_advertising_id", "microsoft_aid": self = .microsoftAID
        case "microsoft_publisher_id": self = .microsoftPublisherID
        default: return nil
        }
    }
}
