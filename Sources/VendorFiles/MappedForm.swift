import ByteText
import JSON

/// The records of a vendor that a mapping file describes, as CSV or as JSON (spec/moving.md 2).
struct MappedForm: VendorForm {
    private let map: VendorMap
    /// The columns of properties, with the names of the properties.
    private var propertyColumns: [(name: Bytes, column: Int)] = []

    let cannotCome: [String] = []
    let wanted = "The map describes each record; --map-check shows the first five records."

    init(_ map: VendorMap) { self.map = map }

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        try map.requirePerson()
        let named = names(in: table)
        propertyColumns = map.properties.map { self.columns(of: $0, in: table) } ?? []
        guard (map.key + map.person).contains(where: { $0.constant == nil && column(of: $0, in: table) >= 0 }) else {
            let wanted = (map.key + map.person).map(\.text).joined(separator: " or ")
            throw VendorFault("The header has no column \(wanted), which the map names as the person.")
        }
        if map.properties?.from.isEmpty == true { return }
        for column in table.unknownColumns(known: named) { facts.report.addUnknown(column: column) }
    }

    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        try map.requirePerson()
        var found = false
        do throws(JSONFault) {
            try forEachRecord(of: record) { record throws(JSONFault) in
                let source = Source.json(record)
                found = found || (map.key + map.person).contains { value($0, source) != nil }
            }
        } catch {
            throw VendorFault(error.message)
        }
        guard found else {
            let wanted = (map.key + map.person).map(\.text).joined(separator: " nor ")
            throw VendorFault("The first record has no \(wanted), which the map names as the person.")
        }
    }

    /// The columns that the map names, in lower case.
    private func names(in table: CSVTable) -> Set<String> {
        var paths = map.key + map.person + map.made + map.seen
        for identity in map.identities { paths += identity.from }
        if let properties = map.properties { paths += properties.at }
        if let event = map.event { paths += event.name + event.at + event.id + [event.body].compactMap(\.self) }
        if let purchase = map.purchase {
            paths += purchase.principal.from
            for name in VendorMap.purchaseMembers { paths += purchase.members[name] ?? [] }
        }
        var names = Set(paths.map(\.column) + paths.map(\.objectColumn))
        if let properties = map.properties, !properties.from.isEmpty {
            let prefix = prefix(of: properties)
            names.formUnion(table.columns.filter { $0 == prefix || $0.hasPrefix(prefix + ".") })
        }
        return names
    }

    /// The name of the object that holds the properties, in lower case; empty for the record itself.
    private func prefix(of properties: VendorMap.Properties) -> String {
        ArraySlice(properties.from.joined(separator: ".").utf8).lowercased
    }

    private func columns(
        of properties: VendorMap.Properties, in table: CSVTable
    ) -> [(name: Bytes, column: Int)] {
        let prefix = prefix(of: properties)
        return table.columns.indices.compactMap { column in
            guard prefix.isEmpty || table.columns[column].hasPrefix(prefix + ".") else { return nil }
            let name = table.name(of: column).dropFirst(prefix.isEmpty ? 0 : prefix.utf8.count + 1)
            return properties.except.contains(name.text) ? nil : (name: name, column: column)
        }
    }

    // MARK: Values

    private enum Source {
        case json(JSONValue)
        case table(CSVTable)
    }

    private enum Found {
        case json(JSONValue)
        case text(Bytes)
    }

    private func column(of path: VendorMap.Path, in table: CSVTable) -> Int {
        let whole = table.column(path.column)
        return whole >= 0 ? whole : table.column(path.objectColumn)
    }

    /// The value at a place; nil for null, for an empty cell, and for a place that the record does not have.
    private func value(_ path: VendorMap.Path, _ source: Source) -> Found? {
        if let constant = path.constant { return .text(ArraySlice(constant)) }
        switch source {
        case .json(let record): return record.value(at: path.steps[...]).map(Found.json)
        case .table(let table):
            let cell = table[table.column(path.column)]
            if !cell.isEmpty { return .text(cell) }
            // The column may hold an object as JSON.
            guard path.steps.count > 1 else { return nil }
            let object = table[table.column(path.objectColumn)]
            guard !object.isEmpty else { return nil }
            let text = try? JSONParser().read(Array(object)) { root throws(JSONFault) -> Bytes? in
                try root.value(at: path.steps.dropFirst()).map { value throws(JSONFault) in try scalar(value) } ?? nil
            }
            return text.flatMap(\.self).map(Found.text)
        }
    }

    private func scalar(_ value: JSONValue) throws(JSONFault) -> Bytes? {
        switch value.kind {
        case .double, .bool:
            var json = JSONWriter(reserving: 24)
            json.copy(value)
            return ArraySlice(json.bytes)
        case .null, .integer, .unsigned, .string, .array, .object: return try value.id(at: "the value")
        }
    }

    private func scalar(_ paths: VendorMap.Paths, _ source: Source) throws(JSONFault) -> Bytes? {
        for path in paths {
            switch value(path, source) {
            case .text(let text): return text
            case .json(let value): if let text = try scalar(value) { return text }
            case nil: continue
            }
        }
        return nil
    }

    private func time(
        _ paths: VendorMap.Paths, _ source: Source, _ unit: VendorTime.Unit = .either
    ) throws(JSONFault) -> Int64? {
        for path in paths {
            let time: Int64?
            switch value(path, source) {
            case .text(let text): time = VendorTime.read(text, unit)
            case .json(let value): time = VendorTime.read(value, unit)
            case nil: continue
            }
            guard let time else { throw JSONFault(.wrong("is not a time"), at: path.text) }
            return time
        }
        return nil
    }

    // MARK: Records

    mutating func read(_ table: CSVTable, _ facts: inout Facts) {
        do throws(JSONFault) {
            try read(.table(table), &facts)
        } catch {
            facts.refuse(.malformed, error.message)
        }
    }

    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        // The records of a page are counted, not the page.
        facts.report.records -= 1
        try forEachRecord(of: record) { record throws(JSONFault) in
            facts.readElement(record) { facts, record throws(JSONFault) in try read(.json(record), &facts) }
        }
    }

    /// Calls a body with each record of a document.
    private func forEachRecord(
        of document: JSONValue, _ body: (JSONValue) throws(JSONFault) -> Void
    ) throws(JSONFault) {
        if let path = map.records, document.kind == .object, let page = document.value(at: path.steps[...]),
            page.kind == .array
        {
            return try page.forEachElement(at: path.text, body)
        }
        try body(document)
    }

    private mutating func read(_ source: Source, _ facts: inout Facts) throws(JSONFault) {
        guard let person = try person(source, &facts) else { return }
        var identities: [(type: String, value: Bytes)] = []
        for identity in map.identities {
            guard let value = try scalar(identity.from, source) else { continue }
            if let unless = identity.unless, value.starts(with: unless) { continue }
            identities.append((identity.type, value))
        }
        let at = try map.event.map { event throws(JSONFault) in try time(event.at, source, event.unit) } ?? nil
        let made = try time(map.made, source) ?? at
        facts.person(person, made: made, seen: try time(map.seen, source))
        for identity in identities { facts.link(person, identity.type, identity.value, since: at ?? made) }
        if let properties = map.properties {
            let moment = try time(properties.at, source) ?? at
            try read(properties, of: person, moment, source, &facts)
        }
        if let event = map.event { try read(event, of: person, at, identities, source, &facts) }
        if let purchase = map.purchase { try read(purchase, source, &facts) }
    }

    private func person(_ source: Source, _ facts: inout Facts) throws(JSONFault) -> Who? {
        if let key = try scalar(map.key, source) { return Who(vendor: map.vendor, key) }
        guard let id = try scalar(map.person, source) else {
            facts.refuse(.nobody, "The record has no \((map.key + map.person).map(\.text).joined(separator: " or ")).")
            return nil
        }
        guard let number = Int64(id.text), number != 0 else {
            throw JSONFault(.wrong("must be a signed 64-bit integer other than 0"), at: map.person[0].text)
        }
        return Who(id: number)
    }

    private func read(
        _ properties: VendorMap.Properties, of person: Who, _ at: Int64?, _ source: Source, _ facts: inout Facts
    ) throws(JSONFault) {
        let dialect = properties.dialect.name
        switch source {
        case .json(let record):
            guard let object = record.value(at: properties.from[...]), !object.isNull else { return }
            try write(object, properties, of: person, at, &facts)
        case .table(let table):
            for (name, column) in propertyColumns {
                let cell = table[column]
                facts.property(person, dialect, name.span, cell.isEmpty ? .removed : .text(cell), at: at)
            }
            let prefix = prefix(of: properties)
            let cell = table[prefix.isEmpty ? -1 : table.column(prefix)]
            if cell.isEmpty { return }
            let isJSON = facts.withJSON(in: cell) { facts, object throws(JSONFault) in
                try write(object, properties, of: person, at, &facts)
            }
            if !isJSON { throw JSONFault(.wrong("must be a JSON object"), at: prefix) }
        }
    }

    private func write(
        _ object: JSONValue, _ properties: VendorMap.Properties, of person: Who, _ at: Int64?, _ facts: inout Facts
    ) throws(JSONFault) {
        try object.forEachMember(at: "properties") { name, value throws(JSONFault) in
            if !properties.except.isEmpty, properties.except.contains(name.copy()) { return }
            let name = name.copied
            facts.property(
                person, properties.dialect.name, name.span, value.isNull ? .removed : .json(value),
                at: at)
        }
    }

    private func read(
        _ event: VendorMap.Event, of person: Who, _ at: Int64?, _ identities: [(type: String, value: Bytes)],
        _ source: Source, _ facts: inout Facts
    ) throws(JSONFault) {
        guard let name = try scalar(event.name, source) else { return }
        guard let at else { throw JSONFault(.wrong("is missing"), at: event.at[0].text) }
        let id = try scalar(event.id, source)
        var content: [UInt8]?
        if let body = event.body {
            switch value(body, source) {
            case .json(let value):
                var json = JSONWriter()
                json.copy(value)
                content = json.bytes
            case .text(let text):
                let isJSON = facts.withJSON(in: text) { _, value throws(JSONFault) in
                    var json = JSONWriter()
                    json.copy(value)
                    content = json.bytes
                }
                if !isJSON { throw JSONFault(.wrong("must be JSON"), at: body.text) }
            case nil: break
            }
        }
        let device = identities.first { IdentityNames.isDevice($0.type) }
        let user = identities.first { !IdentityNames.isDevice($0.type) }
        facts.event(person, id: id, at: at, identity: user, device: device) { json in
            json.key("name")
            json.string(name.span)
            if let content {
                json.key("properties")
                json.raw(content)
            }
        }
    }

    private mutating func read(
        _ purchase: VendorMap.Purchase, _ source: Source, _ facts: inout Facts
    ) throws(JSONFault) {
        let members = purchase.members
        func text(_ name: String) throws(JSONFault) -> Bytes? { try scalar(members[name] ?? [], source) }
        func moment(_ name: String) throws(JSONFault) -> Int64? { try time(members[name] ?? [], source) }
        guard let transaction = try text("transaction") else { return }
        guard let owner = try scalar(purchase.principal.from, source), let product = try text("product"),
            let bought = try moment("bought"), let store = try text("store")
        else { throw JSONFault(.wrong("needs an owner, a store, a product and a start"), at: "the purchase") }
        guard let store = VendorStore(rawValue: store.text) else {
            return facts.refuse(.unsupportedStore, "The store \(Facts.shown(store)) is unknown.")
        }
        var world = facts.options.world ?? .production
        if let named = try text("world") {
            guard let named = VendorWorld(rawValue: named.text) else {
                throw JSONFault(.wrong("must be production or sandbox"), at: "world")
            }
            world = named
        }
        var renewal: StaticString?
        switch try text("renewal").map(\.text) {
        case nil: break
        case "will_renew": renewal = "will_renew"
        case "canceled": renewal = "canceled"
        case "billing_issue": renewal = "billing_issue"
        default: throw JSONFault(.wrong("must be will_renew, canceled or billing_issue"), at: "renewal")
        }
        let period: StaticString
        switch try text("period").map(\.text) {
        case nil, "normal": period = "normal"
        case "trial": period = "trial"
        case "intro": period = "intro"
        default: throw JSONFault(.wrong("must be normal, trial or intro"), at: "period")
        }
        facts.purchase(
            PurchaseState(
                principal: purchase.principal.type, owner: owner, world: world, store: store.rawValue,
                transaction: transaction, original: try text("original") ?? transaction, product: product,
                bought: bought, expires: try moment("expires"), refunded: try moment("refunded"), renewal: renewal,
                period: period, asOf: try moment("as_of")))
    }
}

extension JSONValue {
    /// The value at a place within an object; nil for null and for a place that the object does not have.
    func value(at steps: ArraySlice<String>) -> JSONValue? {
        guard let step = steps.first else { return isNull ? nil : self }
        guard kind == .object else { return nil }
        // A member's name may have dots itself.
        var found: JSONValue?
        let whole = steps.count > 1 ? steps.joined(separator: ".") : nil
        try? forEachMember(at: "") { key, value in
            if key.equals(step) {
                found = value.value(at: steps.dropFirst()) ?? found
            } else if let whole, key.equals(whole) {
                found = value.isNull ? nil : value
            }
        }
        return found
    }
}
