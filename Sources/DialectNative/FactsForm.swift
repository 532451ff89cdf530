import ByteText
import CivilTime
import Domain
import JSON

/// Reads the lines of the form `facts` (docs/moving-in.md): each line is a JSON object with one record.
struct FactsForm {
    /// A record that cannot be imported, in words.
    struct Misfit: Error {
        let reason: ImportOutcome.Reason
        let detail: String
    }

    private let project: ProjectID
    private let hash: KeyedHash
    private let lowercasesEmail: Bool
    /// The app whose clients name events of the Claim dialect, if the project has only one.
    private let claimApp: AppID?
    private let parser = JSONParser()

    init(_ project: ProjectID, _ directory: Directory, _ hash: KeyedHash) {
        self.project = project
        self.hash = hash
        lowercasesEmail = directory.strategy(of: project).lowercasesEmail
        let apps = directory.apps.values.filter { $0.project == project && $0.dialect == .claim }
        claimApp = apps.count == 1 ? apps[0].id : nil
    }

    /// A line of the form.
    enum Line {
        case record(ImportRecord)
        /// A record that cannot be imported, and the reason in words.
        case misfit(ImportRecord, String)
        /// The first or the last line of a file, or an empty line.
        case frame
    }

    /// Reads a line.
    ///
    /// - Parameters:
    ///   - bytes: the line.
    ///   - number: the number of the line in its file.
    func read(_ bytes: [UInt8], number: Int) -> Line {
        if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return .frame }
        var members = Members(number)
        do throws(Misfit) {
            do throws(JSONFault) {
                try parser.read(bytes) { root throws(JSONFault) in try members.read(root) }
            } catch {
                throw Misfit(reason: .malformed, detail: error.message)
            }
            if members.kindText == "header" {
                guard members.version == 1, members.form == "facts" else {
                    throw Misfit(
                        reason: .unsupported, detail: #"The first line must have "onym":1 and "form":"facts"."#)
                }
                return .frame
            }
            if members.kindText == "end" { return .frame }
            if members.kindText == "erased" {
                throw Misfit(
                    reason: .unsupported, detail: "An import erases nobody: erase the person with onym erase.")
            }
            guard let kind = members.kindText.flatMap(ImportRecord.Kind.init(rawValue:)) else {
                throw Misfit(
                    reason: .malformed,
                    detail: "kind must be \(ImportRecord.Kind.allCases.map(\.rawValue).joined(separator: ", ")).")
            }
            try members.forbidOthers(than: FactsForm.names[kind] ?? [])
            return .record(try record(kind, members))
        } catch {
            let kind = members.kindText.flatMap(ImportRecord.Kind.init(rawValue:)) ?? .person
            let record = ImportRecord(
                line: members.line, kind: kind, owner: .id(PersonID(rawValue: 0)), content: .unfit(error.reason))
            return .misfit(record, error.detail)
        }
    }

    /// The members of each kind of record, besides `kind` and `again`.
    private static let names: [ImportRecord.Kind: Set<String>] = [
        .person: ["id", "key", "made", "seen"],
        .link: ["person", "key", "type", "value", "since", "until"],
        .property: ["person", "key", "dialect", "name", "value", "at"],
        .row: ["person", "key", "row", "id", "at", "type", "value", "device", "body"],
        .purchase: [
            "principal", "world", "store", "transaction", "original", "product", "bought", "expires", "refunded",
            "renewal", "period", "as_of",
        ],
        .grant: ["principal", "world", "entitlement", "from", "until", "reason"],
        .install: ["person", "key", "id", "platform", "active", "since"],
        .alias: ["source", "destination", "source_key", "destination_key", "from", "until", "undone"],
        .merge: ["from", "into", "from_key", "into_key", "rule", "at", "undone"],
        .split: ["person", "into", "selectors", "at", "undone"],
    ]

    private func record(_ kind: ImportRecord.Kind, _ members: Members) throws(Misfit) -> ImportRecord {
        func made(
            _ owner: ImportRecord.Owner, _ content: ImportRecord.Content, user: Identity? = nil
        ) -> ImportRecord {
            ImportRecord(
                line: members.line, kind: kind, owner: owner, content: content, user: user, isAgain: members.isAgain)
        }
        switch kind {
        case .person:
            return made(
                try owner(members, "id"),
                .person(made: try members.moment("made"), seen: try members.moment("seen")))
        case .link:
            let identity = try self.identity(try members.need("type"), try members.need("value"))
            return made(
                try owner(members, "person"),
                .link(identity, since: try members.moment("since"), until: try members.moment("until")),
                user: user(with: identity))
        case .property: return try property(members, made)
        case .row: return try row(members, made)
        case .purchase:
            let principal = try principal(members)
            return made(.key(principal), .purchase(try receipt(members, of: principal)), user: user(with: principal))
        case .grant:
            let principal = try principal(members)
            guard let from = try members.moment("from") else { throw missing("from") }
            return made(
                .key(principal),
                .grant(
                    entitlement: try members.need("entitlement"), from: from, until: try members.moment("until")),
                user: user(with: principal))
        case .merge:
            if members.has("undone"), try members.moment("undone") != nil {
                throw Misfit(reason: .past, detail: "The merge was undone, so the people are two.")
            }
            let rule = members.text("rule") ?? "import"
            guard let rule = Merge.Rule.all.first(where: { "\($0.name)" == rule }) else {
                throw Misfit(
                    reason: .malformed,
                    detail: "rule must be \(Merge.Rule.all.map { "\($0.name)" }.joined(separator: ", ")).")
            }
            return made(
                try owner(members, "from", "from_key"), .merge(into: try owner(members, "into", "into_key"), rule))
        case .alias:
            if try members.moment("undone") != nil {
                throw Misfit(reason: .past, detail: "The alias was undone, so the rows belong to the source alone.")
            }
            guard let start = try members.moment("from") else { throw missing("from") }
            guard let end = try members.moment("until") else { throw missing("until") }
            return made(
                try owner(members, "source", "source_key"),
                .alias(into: try owner(members, "destination", "destination_key"), start: start, end: end))
        case .install:
            throw Misfit(
                reason: .unsupported,
                detail: "An install has tokens that no file has; the device registers again at its next start.")
        case .split:
            throw Misfit(reason: .unsupported, detail: "This version has no splits.")
        }
    }

    // MARK: - The parts of a record

    private func missing(_ name: String) -> Misfit { Misfit(reason: .malformed, detail: "\(name) is missing.") }

    private func owner(_ members: Members, _ id: String, _ key: String = "key") throws(Misfit) -> ImportRecord.Owner {
        if let text = members.text(key) {
            guard Identity.valueBytes.contains(text.utf8.count), text.utf8.contains(UInt8(ascii: ":")) else {
                throw Misfit(reason: .malformed, detail: "\(key) must have the form VENDOR:ID and at most 4096 bytes.")
            }
            return .key(Identity(.importedID, text, in: project, hash: hash))
        }
        guard let text = members.text(id) else { throw missing(id) }
        // Lists of people begin after the least number.
        guard let number = Int64(text), String(number) == text, number != 0, number != .min else {
            throw Misfit(
                reason: .malformed,
                detail: "\(id) must be a string with a number of 64 bits that is not 0 and not \(Int64.min).")
        }
        return .id(PersonID(rawValue: number))
    }

    private func identity(_ type: String, _ value: String) throws(Misfit) -> Identity {
        guard let known = IdentityType(named: type) else {
            throw Misfit(reason: .malformed, detail: "type has the unknown value \(type.prefix(64)).")
        }
        if known == .linkingInstallID || known == .claimNobody {
            throw Misfit(reason: .unsupported, detail: "Identities of the type \(type) are not imported.")
        }
        guard !value.isEmpty else { throw Misfit(reason: .malformed, detail: "value is empty.") }
        guard Identity.valueBytes.contains(value.utf8.count) else {
            throw Misfit(reason: .tooLong, detail: "value has more than \(Identity.valueBytes.upperBound) bytes.")
        }
        let text = known == .email && lowercasesEmail ? value.lowercased() : value
        return Identity(known, text, in: project, hash: hash)
    }

    /// The id of the user of access that an identity of access needs, always the same for one identity.
    private func user(with identity: Identity) -> Identity? {
        guard let world = AccessWorld.allCases.first(where: { $0.identityType == identity.type }) else { return nil }
        return Identity(world.userType, "QON_" + Hexadecimal.encode(identity.key.hash.bytes), in: project, hash: hash)
    }

    private func property(
        _ members: Members, _ made: (ImportRecord.Owner, ImportRecord.Content, Identity?) -> ImportRecord
    ) throws(Misfit) -> ImportRecord {
        let name = try members.need("name")
        let dialect = try members.need("dialect")
        guard let (known, kind) = Holdings.propertyKinds.first(where: { $0.dialect.rawValue == dialect }) else {
            throw Misfit(
                reason: .malformed,
                detail: "dialect must be \(Holdings.propertyKinds.map(\.dialect.rawValue).joined(separator: ", ")).")
        }
        guard Attributes.nameCharacters.contains(name.unicodeScalars.count) else {
            throw Misfit(
                reason: name.isEmpty ? .malformed : .tooLong,
                detail: "name must have 1 to \(Attributes.nameCharacters.upperBound) characters.")
        }
        guard members.has("value") else { throw missing("value") }
        var value = members.json("value")
        if !known.hasJSONProperties, value != nil {
            value = Array((members.text("value") ?? members.plain("value")).utf8)
        }
        if let value, value.count > 4 * Attributes.valueCharacters {
            throw Misfit(reason: .tooLong, detail: "value has more than \(4 * Attributes.valueCharacters) bytes.")
        }
        return made(
            try owner(members, "person"), .property(kind, Attributes.Write(name, value), at: try members.moment("at")),
            nil)
    }

    private func row(
        _ members: Members, _ made: (ImportRecord.Owner, ImportRecord.Content, Identity?) -> ImportRecord
    ) throws(Misfit) -> ImportRecord {
        let name = try members.need("row")
        guard name == "event" else {
            throw Misfit(reason: .unsupported, detail: "Only rows of the kind event are imported.")
        }
        guard let at = try members.moment("at") else { throw missing("at") }
        guard members.isObject("body"), var body = members.json("body") else {
            throw Misfit(reason: .malformed, detail: "body must be an object.")
        }
        let dialect = members.text("type").flatMap(IdentityType.init(named:))?.dialect ?? .idsync
        let isOfClaim = dialect == .claim
        // The Claim dialect shows the events of an app, so an event of another vendor needs the app.
        if isOfClaim, let claimApp, !members.bodyHasApp {
            let rest = body.dropFirst()
            body = Array(#"{"app_id":\#(claimApp.rawValue)"#.utf8) + (rest.count > 1 ? [UInt8(ascii: ",")] : []) + rest
        }
        var recognition: RowHash?
        if let id = members.text("id"), !id.isEmpty {
            let app = claimApp.flatMap { isOfClaim ? "\($0.rawValue) \(id.lowercased())" : nil }
            recognition = RowHash(.event, (app ?? id).utf8.span, in: project, hash: hash)
        }
        var device: RowHash?
        if let text = members.text("device"), !text.isEmpty {
            // Types are in front of the value, and a hash of a device has only the value.
            let value = text.firstIndex(of: ":").map { String(text[text.index(after: $0)...]) } ?? text
            device = RowHash(.device, value.utf8.span, in: project, hash: hash)
        }
        return made(
            try owner(members, "person"),
            .row(
                Row(.event, at: at, recognition: recognition, device: device, body: body), isNamedAlone: isOfClaim),
            nil)
    }

    private func world(_ members: Members) throws(Misfit) -> AccessWorld {
        guard let name = members.text("world") else { return .production }
        guard let world = AccessWorld.allCases.first(where: { "\($0.name)" == name }) else {
            throw Misfit(reason: .malformed, detail: "world must be production or sandbox.")
        }
        return world
    }

    /// The identity to which access belongs: `access_user_id:QON_ab12`.
    private func principal(_ members: Members) throws(Misfit) -> Identity {
        let text = try members.need("principal")
        let world = try world(members)
        guard let colon = text.firstIndex(of: ":"), let type = IdentityType(named: String(text[..<colon])),
            type.dialect == .entitlements
        else {
            throw Misfit(
                reason: .malformed, detail: "principal must have the form access_user_id:ID or access_identity:ID.")
        }
        let isIdentity = type == .accessIdentity || type == .sandboxIdentity
        let typed = isIdentity ? world.identityType : world.userType
        return try identity("\(typed.name)", String(text[text.index(after: colon)...]))
    }

    private func receipt(_ members: Members, of principal: Identity) throws(Misfit) -> Receipt {
        let name = try members.need("store")
        guard let source = Purchase.Source.allCases.first(where: { $0.factsName == name }) else {
            throw Misfit(
                reason: .unsupported,
                detail: "store must be \(Purchase.Source.allCases.map(\.factsName).joined(separator: ", ")).")
        }
        let transaction = try members.need("transaction")
        let original = members.text("original") ?? transaction
        let product = try members.need("product")
        for (name, text) in [("transaction", transaction), ("original", original), ("product", product)] {
            guard (1...512).contains(text.utf8.count) else {
                throw Misfit(reason: text.isEmpty ? .malformed : .tooLong, detail: "\(name) must have 1 to 512 bytes.")
            }
        }
        guard let bought = try members.moment("bought") else { throw missing("bought") }
        let asOf = try members.moment("as_of")
        var told = Purchase.Transaction(id: transaction, product: product, startedAt: bought)
        told.endsAt = try members.moment("expires")
        if let end = told.endsAt, end < bought {
            throw Misfit(reason: .malformed, detail: "expires is before bought.")
        }
        told.revokedAt = try members.moment("refunded")
        told.isImported = true
        told.signedAt = asOf
        if let name = members.text("period") {
            guard let period = Purchase.Period(factsName: name) else {
                throw Misfit(reason: .malformed, detail: "period must be normal, trial or intro.")
            }
            told.period = period
        }
        let world =
            principal.type == .sandboxUserID || principal.type == .sandboxIdentity ? AccessWorld.sandbox : .production
        var receipt = Receipt(
            purchase: PurchaseID(source, original, in: world, of: project, hash: hash), source: source,
            originalTransaction: original, told: told)
        if let renewal = members.text("renewal") {
            guard let state = Purchase.Renewal(factsName: renewal) else {
                throw Misfit(
                    reason: .malformed, detail: "renewal must be will_renew, canceled or billing_issue.")
            }
            receipt.renewal = Purchase.RenewalState(state, saidAt: asOf ?? bought)
        }
        return receipt
    }

    // MARK: - The members of a line

    /// The members of one line, copied out of the parser.
    private struct Members {
        private(set) var line: Int
        private(set) var kindText: String?
        private(set) var version: Int64?
        private(set) var isAgain = false
        private var texts: [String: String] = [:]
        private var numbers: [String: Int64] = [:]
        /// The values of the members that are kept as JSON, and those that are null.
        private var values: [String: [UInt8]] = [:]
        private var nulls: Set<String> = []
        private var objects: Set<String> = []
        /// Whether the body has the member `app_id`.
        private(set) var bodyHasApp = false

        init(_ line: Int) { self.line = line }

        var form: String? { texts["form"] }

        mutating func read(_ root: JSONValue) throws(JSONFault) {
            try root.forEachMember(at: "the line") { key, value throws(JSONFault) in
                switch key {
                case "kind": kindText = try value.string(at: "kind")
                case "onym": version = try value.integer(at: "onym")
                case "again": isAgain = try value.bool(at: "again")
                // The number of the line in the file of another vendor.
                case "x_line":
                    let number = try value.integer(at: "x_line")
                    guard (0...Int64(UInt32.max)).contains(number) else {
                        throw JSONFault(.wrong("must be the number of a line"), at: "x_line")
                    }
                    line = Int(number)
                case _ where key.hasPrefix("x_"): break
                default: try keep(key.copy(), value)
                }
            }
        }

        private mutating func keep(_ name: String, _ value: JSONValue) throws(JSONFault) {
            switch value.kind {
            case .null: nulls.insert(name)
            case .string: texts[name] = try value.string(at: name)
            case .integer: numbers[name] = try value.integer(at: name)
            case .bool, .unsigned, .double, .array: break
            case .object:
                objects.insert(name)
                if name == "body" {
                    try value.forEachMember(at: "body") { key, _ throws(JSONFault) in
                        if case "app_id" = key { bodyHasApp = true }
                    }
                }
            }
            if name == "body" || name == "value", !value.isNull {
                var json = JSONWriter()
                json.copy(value)
                values[name] = json.bytes
            } else if value.kind != .null, value.kind != .string, value.kind != .integer {
                objects.insert(name)
            }
        }

        func forbidOthers(than names: Set<String>) throws(Misfit) {
            for name in [Set(texts.keys), Set(numbers.keys), Set(values.keys), nulls, objects].joined()
            where !names.contains(name) {
                throw Misfit(reason: .malformed, detail: "\(name.prefix(64)) is not a member of this kind.")
            }
        }

        func has(_ name: String) -> Bool {
            texts[name] != nil || numbers[name] != nil || values[name] != nil || nulls.contains(name)
                || objects.contains(name)
        }

        func isObject(_ name: String) -> Bool { objects.contains(name) }
        func text(_ name: String) -> String? { texts[name] }
        func json(_ name: String) -> [UInt8]? { values[name] }
        func plain(_ name: String) -> String { values[name].map { String(decoding: $0, as: UTF8.self) } ?? "" }

        func need(_ name: String) throws(Misfit) -> String {
            guard let text = texts[name] else {
                throw Misfit(
                    reason: .malformed, detail: has(name) ? "\(name) must be a string." : "\(name) is missing.")
            }
            return text
        }

        /// A moment: ISO 8601, or milliseconds since 1970; nil for null and for a missing member.
        func moment(_ name: String) throws(Misfit) -> Instant? {
            if let number = numbers[name] { return try inRange(number, name) }
            guard let text = texts[name] else {
                if has(name), !nulls.contains(name) { throw notMoment(name) }
                return nil
            }
            guard let milliseconds = ISO8601.parse(text.utf8.span) else { throw notMoment(name) }
            return try inRange(milliseconds, name)
        }

        private func inRange(_ milliseconds: Int64, _ name: String) throws(Misfit) -> Instant {
            guard (-253_402_300_800_000...253_402_300_799_999).contains(milliseconds) else { throw notMoment(name) }
            return Instant(milliseconds: milliseconds)
        }

        private func notMoment(_ name: String) -> Misfit {
            Misfit(
                reason: .malformed,
                detail: "\(name) must be a moment such as 2027-01-31T00:00:00Z, or milliseconds since 1970.")
        }
    }
}

extension Purchase.Source {
    /// The store's name in the form `facts`.
    var factsName: String {
        switch self {
        case .appStore: "app_store"
        case .playStore: "play_store"
        case .stripe: "stripe"
        case .paddle: "paddle"
        }
    }
}

extension Merge.Rule {
    static let all: [Merge.Rule] = [
        .claim, .administrator, .sameUserID, .imported, .match, .restore, .splitUndone, .linking,
    ]
}
