import ByteText
import CivilTime
import JSON

/// The person of a line: the id that is kept, or the name that the vendor had.
struct Who {
    let isID: Bool
    /// `-5045766802590845105`, or `segment:profile_2`.
    let name: [UInt8]

    init(id: Int64) {
        isID = true
        var digits: [UInt8] = []
        digits.append(decimal: id)
        name = digits
    }

    init(_ vendor: StaticString, _ id: Bytes) {
        isID = false
        var text: [UInt8] = []
        text.reserveCapacity(vendor.utf8CodeUnitCount + 1 + id.count)
        text.append(vendor)
        text.append(UInt8(ascii: ":"))
        text.append(copying: id.span)
        name = text
    }

    init(vendor: [UInt8], _ id: Bytes) {
        isID = false
        var text = vendor
        text.append(UInt8(ascii: ":"))
        text.append(copying: id.span)
        name = text
    }
}

/// The value of a property.
enum PropertyValue {
    case json(JSONValue)
    case text(Bytes)
    /// Removes the property.
    case removed
}

/// A state of a purchase, as a vendor tells it.
struct PurchaseState {
    var principal: String
    var owner: Bytes
    var world: VendorWorld
    var store: String
    var transaction: Bytes
    var original: Bytes
    var product: Bytes
    var bought: Int64?
    var expires: Int64?
    var refunded: Int64?
    /// `will_renew`, `canceled` or `billing_issue`; nil for a purchase that does not renew.
    var renewal: StaticString?
    var period: StaticString
    var asOf: Int64?
}

/// Writes the lines of the form `facts`, and counts what becomes of the records.
///
/// A line that repeats a line from a short time before is left out: mParticle, for example, repeats the identities of a person
/// in each batch. The memory for that has a fixed size.
struct Facts {
    let options: VendorOptions
    var report = VendorReport()
    var refused: [FactRefusal] = []
    var file = 0
    var line = 0
    /// Reads JSON in cells of tables.
    let cellParser = JSONParser()

    private var lines: [FactLine] = []
    private var counts = [Int](repeating: 0, count: Kind.allCases.count)
    private var refusal: (reason: FactRefusal.Reason, detail: String)?
    private var people = RecentLines(slots: 1 << 13)
    private var links = RecentLines(slots: 1 << 13)
    private var properties = RecentStates(slots: 1 << 13)
    private var lastTimes: [(milliseconds: Int64, text: [UInt8])] = Array(
        repeating: (0, ISO8601.format(millisecondsSince1970: 0)), count: 64)

    private enum Kind: Int, CaseIterable {
        case person, link, property, row, purchase, grant, merge

        var name: StaticString {
            switch self {
            case .person: "person"
            case .link: "link"
            case .property: "property"
            case .row: "row"
            case .purchase: "purchase"
            case .grant: "grant"
            case .merge: "merge"
            }
        }
    }

    init(_ options: VendorOptions) { self.options = options }

    /// Takes the lines since the last call.
    mutating func takeLines() -> [FactLine] {
        defer {
            // The next chunk has about as many lines.
            let count = lines.count
            lines = []
            lines.reserveCapacity(count)
        }
        for kind in Kind.allCases where counts[kind.rawValue] > 0 {
            report.lines["\(kind.name)"] = counts[kind.rawValue]
        }
        return lines
    }

    // MARK: Refusals

    /// Refuses the record, or a part of the record. The first reason counts; facts that the record gave already stay.
    mutating func refuse(_ reason: FactRefusal.Reason, _ detail: @autoclosure () -> String) {
        if refusal == nil { refusal = (reason, detail()) }
    }

    /// Keeps the refusal of the record, if there is one.
    mutating func keepRefusal(_ record: () -> [UInt8]) {
        guard let (reason, detail) = refusal else { return }
        refusal = nil
        report.refused[reason, default: 0] += 1
        refused.append(FactRefusal(file: file, line: line, reason: reason, detail: detail, record: record()))
    }

    /// Reads one of several records that a document holds. A refusal concerns this record alone.
    ///
    /// - Parameters:
    ///   - element: the record.
    ///   - wrapper: the name of the array that the file of refused records has around the record; nil for none.
    ///   - body: reads the record.
    mutating func readElement(
        _ element: JSONValue, in wrapper: StaticString? = nil,
        _ body: (inout Facts, JSONValue) throws(JSONFault) -> Void
    ) {
        report.records += 1
        do throws(JSONFault) {
            try body(&self, element)
        } catch {
            refuse(.malformed, error.message)
        }
        keepRefusal {
            var json = JSONWriter()
            guard let wrapper else {
                json.copy(element)
                return json.bytes
            }
            json.object { json in
                json.key(wrapper)
                json.array { json in json.copy(element) }
            }
            return json.bytes
        }
    }

    // MARK: Lines

    /// Writes a person. The line comes before the first other line of the person.
    mutating func person(_ who: Who, made: Int64?, seen: Int64? = nil) {
        var key = HashOfBytes()
        key.add(who.name.span)
        guard people.isNew(key, at: made) else { return }
        var json = JSONWriter(reserving: 128)
        json.part(who.isID ? #"{"kind":"person","id":"# : #"{"kind":"person","key":"#)
        json.string(who.name.span)
        time("made", made, &json)
        time("seen", seen, &json)
        end(&json, .person)
    }

    /// Writes that a person has an identity. Empty values, and ids of zeros that devices give without consent, are left out.
    mutating func link(_ who: Who, _ type: String, _ value: Bytes, since: Int64? = nil) {
        guard Facts.isUsable(value) else { return report.leaveOut("empty or zero identities") }
        var key = HashOfBytes()
        key.add(who.name.span)
        key.add(type.utf8.span)
        key.add(value.span)
        guard links.isNew(key, at: since) else { return }
        var json = JSONWriter(reserving: 192)
        json.part(who.isID ? #"{"kind":"link","person":"# : #"{"kind":"link","key":"#)
        json.string(who.name.span)
        json.part(#","type":"#)
        json.string(type)
        json.part(#","value":"#)
        json.string(value.span)
        time("since", since, &json)
        end(&json, .link)
    }

    /// Whether a value names somebody: it is not empty, and not a device's id of zeros.
    static func isUsable(_ value: Bytes) -> Bool {
        let bytes = value.span
        for index in bytes.indices {
            switch bytes[index] {
            case UInt8(ascii: "0"), UInt8(ascii: "-"), UInt8(ascii: " "): continue
            default: return true
            }
        }
        return false
    }

    /// Writes a property. Of states of one property in one import, an older state does not follow a newer one.
    mutating func property(
        _ who: Who, _ dialect: StaticString, _ name: borrowing Span<UInt8>, _ value: PropertyValue, at: Int64?
    ) {
        var key = HashOfBytes()
        key.add(who.name.span)
        key.add(name)
        var text = JSONWriter(reserving: 64)
        switch value {
        case .json(let value): text.copy(value)
        case .text(let value): text.string(value.span)
        case .removed: text.null()
        }
        var state = HashOfBytes()
        state.add(text.bytes.span)
        guard properties.isNews(key, state, at: at) else { return }
        var json = JSONWriter(reserving: 160)
        json.part(who.isID ? #"{"kind":"property","person":"# : #"{"kind":"property","key":"#)
        json.string(who.name.span)
        json.part(#","dialect":"#)
        json.word(dialect)
        json.part(#","name":"#)
        json.string(name)
        json.part(#","value":"#)
        json.raw(text.bytes)
        time("at", at, &json)
        end(&json, .property)
    }

    /// Writes the members of an object as properties.
    mutating func properties(
        _ who: Who, _ dialect: StaticString, of object: JSONValue, at: Int64?, place: StaticString
    ) throws(JSONFault) {
        try object.forEachMember(at: "\(place)") { name, value throws(JSONFault) in
            let name = name.copied
            property(who, dialect, name.span, value.isNull ? .removed : .json(value), at: at)
        }
    }

    /// Writes an event.
    ///
    /// - Parameters:
    ///   - who: the person.
    ///   - id: the vendor's id of the event; nil for an id that the content gives, so that a second import knows the event.
    ///   - at: the moment of the event.
    ///   - identity: the type and the value that the event's record names its person by.
    ///   - device: the type and the value that the record names the device by.
    ///   - body: writes the members of the body.
    mutating func event(
        _ who: Who, id: Bytes?, at: Int64, identity: (type: String, value: Bytes)?,
        device: (type: String, value: Bytes)? = nil, _ body: (inout JSONWriter) -> Void
    ) {
        var content = JSONWriter(reserving: 256)
        content.object(body)
        var json = JSONWriter(reserving: content.bytes.count + 224)
        json.part(who.isID ? #"{"kind":"row","person":"# : #"{"kind":"row","key":"#)
        json.string(who.name.span)
        json.part(#","row":"event","id":"#)
        if let id {
            json.string(id.span)
        } else {
            var hash = HashOfBytes()
            hash.add(who.name.span)
            let moment = "\(at)"
            hash.add(moment.utf8.span)
            hash.add(content.bytes.span)
            var digits: [UInt8] = []
            digits.append(hexadecimal: hash.high, hash.low)
            json.plainString(digits)
        }
        time("at", at, &json)
        if let identity {
            json.part(#","type":"#)
            json.string(identity.type)
            json.part(#","value":"#)
            json.string(identity.value.span)
        }
        if let device {
            json.part(#","device":"#)
            let name = Facts.joined(device.type, device.value)
            json.string(name.span)
        }
        json.part(#","body":"#)
        json.raw(content.bytes)
        end(&json, .row)
    }

    /// Writes a state of a purchase.
    mutating func purchase(_ state: PurchaseState) {
        var json = JSONWriter(reserving: 448)
        json.part(#"{"kind":"purchase""#)
        principal(state.principal, state.owner, &json)
        json.part(#","world":"#)
        json.string(state.world.rawValue)
        json.part(#","store":"#)
        json.string(state.store)
        json.part(#","transaction":"#)
        json.string(state.transaction.span)
        json.part(#","original":"#)
        json.string(state.original.span)
        json.part(#","product":"#)
        json.string(state.product.span)
        time("bought", state.bought, &json)
        time("expires", state.expires, orNull: true, &json)
        time("refunded", state.refunded, orNull: true, &json)
        json.part(#","renewal":"#)
        if let renewal = state.renewal { json.word(renewal) } else { json.null() }
        json.part(#","period":"#)
        json.word(state.period)
        time("as_of", state.asOf, &json)
        end(&json, .purchase)
    }

    /// Writes a grant of an entitlement.
    mutating func grant(
        _ type: String, _ owner: Bytes, world: VendorWorld, entitlement: Bytes, from: Int64, until: Int64?,
        reason: StaticString
    ) {
        var json = JSONWriter(reserving: 256)
        json.part(#"{"kind":"grant""#)
        principal(type, owner, &json)
        json.part(#","world":"#)
        json.string(world.rawValue)
        json.part(#","entitlement":"#)
        json.string(entitlement.span)
        time("from", from, &json)
        time("until", until, orNull: true, &json)
        json.part(#","reason":"#)
        json.word(reason)
        end(&json, .grant)
    }

    /// Writes that a person was merged into another person.
    mutating func merge(_ from: Who, into: Who, rule: StaticString, at: Int64?) {
        var json = JSONWriter(reserving: 192)
        json.part(#"{"kind":"merge""#)
        if from.isID {
            json.part(#","from":"#)
            json.string(from.name.span)
            json.part(#","into":"#)
            json.string(into.name.span)
        } else {
            json.part(#","from_key":"#)
            json.string(from.name.span)
            json.part(#","into_key":"#)
            json.string(into.name.span)
        }
        json.part(#","rule":"#)
        json.word(rule)
        time("at", at, &json)
        end(&json, .merge)
    }

    private mutating func end(_ json: inout JSONWriter, _ kind: Kind) {
        json.endObject()
        counts[kind.rawValue] += 1
        lines.append(FactLine(json: json.bytes, file: file, line: line))
    }

    /// A type and a value, with a colon between them.
    private static func joined(_ type: String, _ value: Bytes) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(type.utf8.count + 1 + value.count)
        text.append(copying: type.utf8.span)
        text.append(UInt8(ascii: ":"))
        text.append(copying: value.span)
        return text
    }

    private func principal(_ type: String, _ owner: Bytes, _ json: inout JSONWriter) {
        json.part(#","principal":"#)
        let name = Facts.joined(type, owner)
        json.string(name.span)
    }

    /// Writes a time as text; the moments of one record are mostly the same.
    private mutating func time(
        _ key: StaticString, _ milliseconds: Int64?, orNull: Bool = false, _ json: inout JSONWriter
    ) {
        guard let milliseconds else {
            if orNull {
                json.key(key)
                json.null()
            }
            return
        }
        let place = Int(truncatingIfNeeded: milliseconds ^ milliseconds >> 10) & 63
        if lastTimes[place].milliseconds != milliseconds {
            lastTimes[place] = (milliseconds, ISO8601.format(millisecondsSince1970: milliseconds))
        }
        json.key(key)
        let text = lastTimes[place].text
        json.string(text.span)
    }

    // MARK: JSON in cells

    /// Reads a cell that holds JSON. RevenueCat's older exports quote the text once more, so a string is read again.
    ///
    /// - Returns: false if the cell is not JSON.
    mutating func withJSON(
        in cell: Bytes, _ body: (inout Facts, JSONValue) throws(JSONFault) -> Void
    ) -> Bool {
        do throws(JSONFault) {
            var inner: [UInt8]?
            try cellParser.read(Array(cell), mends: true) { value throws(JSONFault) in
                if value.kind == .string {
                    inner = try value.text(at: "the cell").copied
                } else {
                    try body(&self, value)
                }
            }
            if let inner {
                try cellParser.read(inner, mends: true) { value throws(JSONFault) in try body(&self, value) }
            }
            return true
        } catch {
            return false
        }
    }
}

extension Bytes {
    /// The text; the record was checked to be UTF-8.
    var text: String { String(copying: span) }

    /// The text with the letters of ASCII in lower case.
    var lowercased: String { String(copying: map(ASCII.lowercased)) }

    /// Whether the bytes are equal to a lower-case literal, without regard to the case of ASCII letters.
    func isWord(_ literal: StaticString) -> Bool { span.equalsIgnoringCase(literal) }
}

extension String {
    /// Copies bytes as text.
    init(copying bytes: [UInt8]) { self.init(copying: bytes.span) }
}

extension JSONText {
    static func == (text: JSONText, literal: StaticString) -> Bool { literal ~= text }

    /// A copy of the bytes.
    var copied: [UInt8] { withBytes { Array(copying: $0) } }
}

extension JSONValue {
    /// A text, or a number in digits; nil for null and for an empty text. Many vendors write ids in both forms.
    func id(at place: @autoclosure () -> String) throws(JSONFault) -> Bytes? {
        switch kind {
        case .null: return nil
        case .string:
            let text = try text(at: place())
            return text.isEmpty ? nil : ArraySlice(text.copied)
        case .integer, .unsigned:
            var json = JSONWriter(reserving: 24)
            json.copy(self)
            return ArraySlice(json.bytes)
        case .bool, .double, .array, .object:
            throw JSONFault(.wrong("must be a string or an integer"), at: place())
        }
    }

    /// Whether the value is true.
    var isTrue: Bool { kind == .bool && (try? bool(at: "")) == true }
}
