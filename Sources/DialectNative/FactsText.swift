import Crypto
import Domain
import JSON

/// Writes the lines of the form `facts` (docs/moving-out.md). ``FactsForm`` reads them.
struct FactsText {
    /// The number of lines of each kind, and the sums of their hashes. The last line of an export has them.
    struct Sums: Equatable {
        private(set) var all: [(count: UInt64, sum: UInt64)]

        init() { all = ExportedFact.Kind.allCases.map { _ in (0, 0) } }

        var lines: UInt64 { all.reduce(0) { $0 + $1.count } }

        mutating func add(_ kind: ExportedFact.Kind, _ line: [UInt8]) {
            guard let place = ExportedFact.Kind.allCases.firstIndex(of: kind) else { return }
            all[place].count += 1
            all[place].sum &+= SHA256.digest(of: line).bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }

        static func == (one: Sums, other: Sums) -> Bool { one.all.elementsEqual(other.all) { $0 == $1 } }

        func pack(into packer: inout Packer) {
            for (count, sum) in all {
                packer.add(count)
                packer.add(sum)
            }
        }

        init?(unpacking unpacker: inout Unpacker) {
            self.init()
            for place in all.indices {
                guard let count = unpacker.integer(), let sum = unpacker.integer(), count < 1 << 56 else { return nil }
                all[place] = (count, sum)
            }
        }
    }

    private(set) var bytes: [UInt8] = []
    private(set) var sums: Sums
    private let form: ExportPage.Form

    init(_ sums: Sums, _ form: ExportPage.Form = .facts) { (self.sums, self.form) = (sums, form) }

    /// Writes the first line of an export.
    mutating func header(_ project: ProjectID, _ place: ExportPage.Place, at moment: Instant) {
        let form = form
        line { json in
            json.key("kind")
            json.string("header")
            json.key("onym")
            json.integer(1)
            json.key("form")
            json.string(form.name)
            json.key("project")
            json.decimalString(project.rawValue)
            json.key("since")
            json.integer(place.since.rawValue)
            json.key("upto")
            json.integer(place.upTo.rawValue)
            json.key("at")
            json.moment(moment)
        }
    }

    /// Writes the last line of an export. Each kind has its number of lines, and the sum of the first eight bytes of their
    /// SHA-256 hashes.
    mutating func end() {
        let sums = sums
        line { json in
            json.key("kind")
            json.string("end")
            json.key("lines")
            json.integer(sums.lines)
            json.key("sums")
            json.object { json in
                for (kind, sum) in zip(ExportedFact.Kind.allCases, sums.all) where sum.count > 0 {
                    json.key(kind.rawValue)
                    json.array { json in
                        json.integer(sum.count)
                        let digits = String(sum.sum, radix: 16)
                        json.string(String(repeating: "0", count: 16 - digits.utf8.count) + digits)
                    }
                }
            }
        }
    }

    /// Writes the line that has the cursor of the next answer. It is not a part of the export.
    mutating func next(_ cursor: String) {
        line { json in
            json.key("kind")
            json.string("next")
            json.key("cursor")
            json.string(cursor)
        }
    }

    /// Writes a fact. The lines of tables and of a graph also have members that an import leaves out: their names begin with x_.
    mutating func add(_ exported: ExportedLine) {
        let (start, fact, form) = (bytes.count, exported.fact, form)
        line { json in
            json.key("kind")
            json.string(fact.kind.rawValue)
            FactsText.write(fact, &json)
            if form != .facts { FactsText.writeSource(of: exported, &json) }
        }
        sums.add(fact.kind, Array(bytes[start..<bytes.count - 1]))
    }

    private mutating func line(_ body: (inout JSONWriter) -> Void) {
        var json = JSONWriter()
        json.object(body)
        bytes += json.bytes
        bytes.append(UInt8(ascii: "\n"))
    }

    /// Writes where a fact comes from.
    private static func writeSource(of line: ExportedLine, _ json: inout JSONWriter) {
        if let made = line.made {
            json.key("x_call")
            json.integer(made.sequence.rawValue)
            json.key("x_at")
            json.moment(made.at)
            json.key("x_by")
            json.string("\(made.kind.name)")
            json.key("x_request")
            json.string(made.requestID)
        }
        if let ended = line.ended {
            json.key("x_end_call")
            json.integer(ended.sequence.rawValue)
            json.key("x_end_at")
            json.moment(ended.at)
            json.key("x_end_request")
            json.string(ended.requestID)
        }
        switch line.fact {
        case .link:
            json.key("x_place")
            json.integer(line.place)
        case .merge(let merge, _, _):
            json.key("x_id")
            json.decimalString(merge.id.rawValue)
        case .row:
            json.key("x_received")
            json.moment(line.receivedAt)
        case .purchase, .grant:
            guard let holder = line.holder else { return }
            json.key("x_person")
            json.decimalString(holder.rawValue)
            json.key("x_entitlements")
            json.array { json in
                for entitlement in line.entitlements { json.string(entitlement) }
            }
        case .person, .property, .install, .alias, .erased: break
        }
    }

    private static func write(_ fact: ExportedFact, _ json: inout JSONWriter) {
        switch fact {
        case .person(let person, let made, let seen):
            json.key("id")
            json.decimalString(person.rawValue)
            json.key("made")
            json.moment(made)
            json.key("seen")
            json.moment(seen)
        case .link(let person, let type, let value, let since, let until):
            json.key("person")
            json.decimalString(person.rawValue)
            json.key("type")
            json.string("\(type.name)")
            json.key("value")
            json.string(value)
            json.key("since")
            json.moment(since)
            json.key("until")
            json.moment(until)
        case .property(let person, let dialect, let name, let entry):
            json.key("person")
            json.decimalString(person.rawValue)
            json.key("dialect")
            json.string(dialect.rawValue)
            json.key("name")
            json.string(name)
            json.key("value")
            if let value = entry.value { json.property(value, of: dialect) } else { json.null() }
            json.key("at")
            json.moment(entry.at)
        case .row(let row): write(row, &json)
        case .purchase(let principal, let purchase, let transaction, let renewal):
            write(principal, &json)
            write(transaction, of: purchase, renewal, &json)
        case .grant(let principal, let grant):
            write(principal, &json)
            json.key("entitlement")
            json.string(grant.entitlement)
            json.key("from")
            json.moment(grant.startedAt)
            json.key("until")
            json.moment(grant.expiresAt)
        case .install(let install):
            json.key("person")
            json.decimalString(install.person.rawValue)
            json.key("id")
            json.string(install.id.text)
            json.key("platform")
            json.string(install.device.fields[.os])
            json.key("active")
            json.bool(install.state == .active)
            json.key("since")
            json.moment(install.madeAt)
        case .alias(let alias):
            json.key("source")
            json.decimalString(alias.source.rawValue)
            json.key("destination")
            json.decimalString(alias.destination.rawValue)
            json.key("from")
            json.moment(alias.start)
            json.key("until")
            json.moment(alias.end)
            json.key("undone")
            json.moment(alias.undoneAt)
        case .merge(let merge, let at, let undone):
            json.members(of: merge)
            json.key("at")
            json.moment(at)
            json.key("undone")
            json.moment(undone)
        case .erased(let person):
            json.key("person")
            json.decimalString(person.rawValue)
        }
    }

    private static func write(_ row: StoredRow, _ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(row.person.rawValue)
        json.key("row")
        json.string("\(row.row.kind.name)")
        // The store keeps a hash of the client's id. This id recognizes the row in a second import.
        json.key("id")
        json.string("onym:\(row.number.rawValue)")
        json.key("at")
        json.moment(row.row.at)
        json.key("body")
        json.raw(row.row.body)
    }

    private static func write(_ principal: ExportedFact.Principal, _ json: inout JSONWriter) {
        json.key("principal")
        json.string("\(principal.type.name):\(principal.value)")
        json.key("world")
        json.string("\(principal.world.name)")
    }

    private static func write(
        _ transaction: Purchase.Transaction, of purchase: Purchase, _ renewal: Purchase.RenewalState?,
        _ json: inout JSONWriter
    ) {
        json.key("store")
        json.string(purchase.source.factsName)
        json.key("transaction")
        json.string(transaction.id)
        json.key("original")
        json.string(purchase.originalTransaction)
        json.key("product")
        json.string(transaction.product)
        json.key("bought")
        json.moment(transaction.startedAt)
        json.key("expires")
        json.moment(transaction.endsAt)
        json.key("refunded")
        json.moment(transaction.revokedAt)
        if let renewal {
            json.key("renewal")
            json.string(renewal.renewal.factsName)
        }
        json.key("period")
        json.string(transaction.period.factsName)
        json.key("as_of")
        json.moment(transaction.signedAt ?? renewal?.saidAt)
    }
}

extension Purchase.Renewal {
    /// The state's name in the form `facts`.
    var factsName: String {
        switch self {
        case .willRenew: "will_renew"
        case .canceled: "canceled"
        case .billingIssue: "billing_issue"
        }
    }

    init?(factsName name: String) {
        guard let known = [Self.willRenew, .canceled, .billingIssue].first(where: { $0.factsName == name }) else {
            return nil
        }
        self = known
    }
}

extension Purchase.Period {
    /// The period's name in the form `facts`.
    var factsName: String {
        switch self {
        case .normal: "normal"
        case .trial: "trial"
        case .intro: "intro"
        }
    }

    init?(factsName name: String) {
        guard let known = [Self.normal, .trial, .intro].first(where: { $0.factsName == name }) else { return nil }
        self = known
    }
}

extension ExportPage.Form {
    /// The form's name in the calls.
    package var name: String {
        switch self {
        case .facts: "facts"
        case .tables: "tables"
        case .graph: "graph"
        }
    }

    init?(named name: String) {
        guard let known = [Self.facts, .tables, .graph].first(where: { $0.name == name }) else { return nil }
        self = known
    }
}
