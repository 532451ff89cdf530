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
    private(set) var rows: [Row] = []
    private(set) var replayKey: ReplayKey?
    /// The upload's own id.
    private(set) var id: String?
    /// The device application stamp, as the client wrote it.
    private(set) var stamp: String?

    /// The kind of client that made an upload.
    enum Client: Sendable { case native, web, backEnd }

    /// The greatest number of events in an upload.
    static let eventsPerBatch = 5000

    /// The removals of the upload's own lists, the changes in its events, and the client's state at the end of the upload.
    /// They count in this order (spec/idsync-clients.md 3).
    private var removals: [Attributes.Write] = []
    private var attributeChanges: [(at: Instant, write: Attributes.Write)] = []
    private var state: [Attributes.Write] = []

    private let client: Client
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

    /// Reads an upload.
    ///
    /// - Parameters:
    ///   - root: the upload.
    ///   - reader: reads the identities.
    ///   - client: the kind of client; only web clients send single events.
    ///   - now: the time of the call.
    ///   - path: the place of the upload in the body, for the message of a fault.
    init(
        _ root: JSONValue, _ reader: IdentityReader, from client: Client, at now: Instant, path: String
    ) throws(JSONFault) {
        (self.reader, self.client, self.path) = (reader, client, path)
        madeAt = now
        var events: [JSONValue] = []
        context.beginObject()
        try root.forEachMember(at: path.isEmpty ? "the body" : path) { key, value throws(JSONFault) in
            try read(key, value, &events)
        }
        context.endObject()
        if events.isEmpty, client != .backEnd, EventBatch.isEvent(root) { events = [root] }
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

    /// The call that keeps the upload.
    ///
    /// - Parameter keepsRefusal: whether the journal keeps the upload's refusal, and the client does not get it.
    func act(keepsRefusal: Bool = false) -> Ingest {
        Ingest(
            person: person, identities: identities, devices: devices, attributes: attributes, writtenAt: madeAt,
            rows: rows,
            refusal: keepsRefusal ? RefuseUpload(upload: id, reason: Refusal.noSuchPerson.message) : nil)
    }

    /// The writes of attributes in the order in which they count. Changes of one moment keep the order of their events.
    private var attributes: [Attributes.Write] {
        let changes = attributeChanges.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
        return removals + changes.map(\.element.write) + state
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
                id = text.copy()
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
        let type = IdentityType.deviceApplicationStamp
        guard let identity = try reader.identity(value, type, at: "\(path)device_application_stamp") else {
            return
        }
        stamp = identity.value
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
            // An obsolete type, which back ends can still send. Neither the type nor its number has a meaning.
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

    /// Null is a tag, a value like any other.
    private mutating func readAttributes(_ value: JSONValue) throws(JSONFault) {
        guard value.kind == .object else { return }
        try value.forEachMember(at: "\(path)user_attributes") { key, value throws(JSONFault) in
            if let write = EventBatch.write(key.copy(), value) { state.append(write) }
        }
    }

    private mutating func readDeletedAttributes(_ value: JSONValue) throws(JSONFault) {
        guard value.kind == .array else { return }
        try value.forEachElement(at: "\(path)deleted_user_attributes") { element throws(JSONFault) in
            guard element.kind == .string else { return }
            let name = try element.string(at: "\(path)deleted_user_attributes")
            if EventBatch.isName(name) { removals.append(Attributes.Write(name, nil)) }
        }
    }

    private static func isName(_ name: String) -> Bool {
        Attributes.nameCharacters.contains(name.unicodeScalars.count)
    }

    /// The write of an attribute; nil for names and values over the limits, and for a value that is no attribute.
    ///
    /// - Parameters:
    ///   - name: the attribute's name.
    ///   - value: the new value; nil and null are a tag.
    private static func write(_ name: String, _ value: JSONValue?) -> Attributes.Write? {
        guard isName(name) else { return nil }
        guard let value, !value.isNull else { return Attributes.Write(name, Attributes.tag) }
        guard isWithinLimits(value) else { return nil }
        var json = JSONWriter(reserving: 32)
        json.copy(value)
        return Attributes.Write(name, json.bytes)
    }

    /// The vendor's limits: the server drops values beyond them, and accepts the rest of the upload (spec/idsync.md 1.8).
    private static func isWithinLimits(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .string: return ((try? value.string(at: "")) ?? "").unicodeScalars.count <= Attributes.valueCharacters
        case .array:
            var (count, isShort) = (0, true)
            try? value.forEachElement(at: "") { element in
                count += 1
                switch element.kind {
                case .string:
                    let text = (try? element.string(at: "")) ?? ""
                    isShort = isShort && text.unicodeScalars.count <= Attributes.listElementCharacters
                case .array, .object: isShort = false
                case .null, .bool, .integer, .unsigned, .double: break
                }
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
        var change = AttributeChange()
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
            change.read(key, value)
        }
        var type = EventType.missing
        try event.forEachMember(at: path) { key, value throws(JSONFault) in
            switch key {
            case "data" where value.kind == .object: try value.forEachMember(at: "\(path).data", read)
            case "event_type":
                type = EventType(value) ?? type
                try read(key, value)
            // The types of native clients and of older web clients.
            case "dt", "et":
                if case .missing = type, !value.isNull { type = EventType(value) ?? type }
                try read(key, value)
            default: try read(key, value)
            }
        }
        if client == .backEnd, !(try EventBatch.hasEventType(event, at: path)) {
            throw JSONFault(.wrong(EventBatch.typeIsMissing), at: "\(path).event_type")
        }
        if case .attributeChange = type, let write = change.write(EventBatch.write) {
            attributeChanges.append((at ?? madeAt, write))
        }
        var json = JSONWriter(reserving: 512)
        if case .missing = type { try EventBatch.copyWithType(event, at: path, &json) } else { json.copy(event) }
        rows.append(Row(.event, at: at ?? madeAt, recognition: id?.of(owner), device: device, body: json.bytes))
    }

    /// The type of an event, as far as it matters here. Changes of identities are history only: identify and modify make
    /// them.
    private enum EventType {
        case missing, attributeChange, other

        /// Reads a type; nil for a text that names none.
        init?(_ value: JSONValue) {
            guard value.kind == .string else {
                if value.isNull { return nil }
                self = .other
                return
            }
            guard let text = try? value.text(at: "") else { return nil }
            if text.isEmpty { return nil }
            switch text {
            case "uac", "user_attribute_change": self = .attributeChange
            default: self = .other
            }
        }
    }

    /// The change of an attribute in an event: `n`, `nv`, `d` of native clients, or the long names of web clients.
    private struct AttributeChange {
        private var name: String?
        private var value: JSONValue?
        private var isDeleted = false

        mutating func read(_ key: JSONText, _ value: JSONValue) {
            switch key {
            case "n", "user_attribute_name": if value.kind == .string { name = try? value.string(at: "") }
            case "nv", "new": self.value = value
            case "d", "deleted": isDeleted = value.kind == .bool && (try? value.bool(at: "")) == true
            default: break
            }
        }

        func write(_ make: (String, JSONValue?) -> Attributes.Write?) -> Attributes.Write? {
            guard let name else { return nil }
            guard isDeleted else { return make(name, value) }
            return make(name, nil).map { Attributes.Write($0.name, nil) }
        }
    }

    /// Whether an event has the type that the Events API requires.
    private static func hasEventType(_ event: JSONValue, at path: String) throws(JSONFault) -> Bool {
        var hasType = false
        try event.forEachMember(at: path) { key, value throws(JSONFault) in
            guard case "event_type" = key else { return }
            hasType = value.isNull ? false : try !value.text(at: "\(path).event_type").isEmpty
        }
        return hasType
    }

    /// The problem of an event without a type, in the vendor's words (spec/idsync-clients.md 4).
    static let typeIsMissing = "Required event field \"event_type\" is missing or empty."

    /// Copies an event without a type, and gives it the type `unknown`.
    private static func copyWithType(_ event: JSONValue, at path: String, _ json: inout JSONWriter) throws(JSONFault) {
        json.beginObject()
        json.key("event_type")
        json.string("unknown")
        try event.forEachMember(at: path) { key, value throws(JSONFault) in
            if case "event_type" = key { return }
            json.key(key)
            json.copy(value)
        }
        json.endObject()
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
