import ByteText
import JSON

/// Segment: the tables of Profiles Sync as CSV, each told by its header (spec/moving.md 2).
struct Segment: VendorForm {
    private enum Table {
        case identifiers(canonical: Int, type: Int, value: Int, at: Int)
        case traits(canonical: Int, name: Int, value: Int, at: Int)
        case merges(from: Int, into: Int, at: Int)
        case graph(from: Int, into: Int, at: Int)
        case externalIDs(segment: Int, type: Int, value: Int, at: Int)
    }

    /// Names of identity types that a mapping file adds.
    private var mapped: [[UInt8]: String] = [:]
    private var table: Table?

    let cannotCome = [
        "audiences", "computed traits' definitions", "events (the tables of tracks: --from csv --map FILE)",
    ]
    let wanted =
        "Files of segment are the tables user_identifiers, user_traits, profile_merges, id_graph_updates and "
        + "external_id_mapping_updates as CSV with a header."

    private static let known: Set<String> = [
        "canonical_segment_id", "segment_id", "type", "name", "value", "seq", "received_at", "uuid_ts", "timestamp",
        "triggering_event_type", "triggering_event_id", "triggering_event_source_id", "triggering_event_name",
        "external_id_type", "external_id_value", "external_id_hash", "event_type", "event_id", "id",
        "triggering_event_source_name", "triggering_event_source_slug", "__operation",
    ]

    init(map: VendorMap?) {
        for identity in map?.identities ?? [] {
            for path in identity.from { mapped[Array(path.text.utf8)] = identity.type }
        }
    }

    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        let (segment, canonical) = (table.column("segment_id"), table.column("canonical_segment_id"))
        let (type, name, value) = (table.column("type"), table.column("name"), table.column("value"))
        // The time of the fact; the moment of its arrival is second best.
        let at = ["timestamp", "received_at", "uuid_ts"].map(table.column).first { $0 >= 0 } ?? -1
        let (externalType, externalValue) = (table.column("external_id_type"), table.column("external_id_value"))
        switch true {
        case segment >= 0 && externalType >= 0 && externalValue >= 0:
            self.table = .externalIDs(segment: segment, type: externalType, value: externalValue, at: at)
        case segment >= 0 && canonical >= 0 && table.column("triggering_event_type") >= 0:
            self.table = .graph(from: segment, into: canonical, at: at)
        case segment >= 0 && canonical >= 0:
            self.table = .merges(from: segment, into: canonical, at: at)
        case canonical >= 0 && type >= 0 && value >= 0:
            self.table = .identifiers(canonical: canonical, type: type, value: value, at: at)
        case canonical >= 0 && name >= 0 && value >= 0:
            self.table = .traits(canonical: canonical, name: name, value: value, at: at)
        default:
            throw VendorFault("The header fits no table of Segment. \(wanted)")
        }
        for column in table.unknownColumns(known: Segment.known) { facts.report.addUnknown(column: column) }
    }

    mutating func read(_ row: CSVTable, _ facts: inout Facts) {
        switch table {
        case .identifiers(let canonical, let type, let value, let at):
            guard let (person, at) = person(row, canonical, at, &facts) else { return }
            facts.person(person, made: at)
            link(person, row[type], row[value], at, &facts)
        case .externalIDs(let segment, let type, let value, let at):
            guard let (person, at) = person(row, segment, at, &facts) else { return }
            facts.person(person, made: at)
            link(person, row[type], row[value], at, &facts)
        case .traits(let canonical, let name, let value, let at):
            guard let (person, at) = person(row, canonical, at, &facts) else { return }
            guard !row[name].isEmpty else { return facts.refuse(.malformed, "The trait has no name.") }
            facts.person(person, made: at)
            let text = row[value]
            let name = row[name]
            facts.property(person, "idsync", name.span, text.isEmpty ? .removed : .text(text), at: at)
        case .merges(let from, let into, let at), .graph(let from, let into, let at):
            guard let (source, at) = person(row, from, at, &facts), let (target, _) = person(row, into, -1, &facts)
            else { return }
            facts.person(source, made: at)
            // A row of one id says that the profile was made.
            guard source.name != target.name else { return }
            facts.person(target, made: at)
            facts.merge(source, into: target, rule: "import", at: at)
        case nil:
            preconditionFailure("A row comes after a header.")
        }
    }

    private func person(_ row: CSVTable, _ column: Int, _ at: Int, _ facts: inout Facts) -> (Who, Int64?)? {
        guard !row[column].isEmpty else {
            facts.refuse(.nobody, "The row has no \(row.columns[column]).")
            return nil
        }
        let text = row[at]
        let moment = VendorTime.read(text)
        if moment == nil, !text.isEmpty {
            facts.refuse(.malformed, "The time \(Facts.shown(text)) is not a date.")
            return nil
        }
        return (Who("segment", row[column]), moment)
    }

    private func link(_ person: Who, _ type: Bytes, _ value: Bytes, _ at: Int64?, _ facts: inout Facts) {
        guard let ours = type.span.withName(mapped) else {
            return facts.report.leaveOut("identities of type \(Facts.shown(type)) (a type for it: --map FILE)")
        }
        facts.link(person, ours, value, since: at)
    }
}

extension Span<UInt8> {
    /// The type of Onym for a type of Segment, whose types of devices have names like `ios.idfv`.
    fileprivate borrowing func withName(_ mapped: [[UInt8]: String]) -> String? {
        if !mapped.isEmpty, let type = mapped[Array(copying: self)] { return type }
        if equals("user_id") { return "customerid" }
        if equals("anonymous_id") { return "device_application_stamp" }
        if equals("email") { return "email" }
        if equals("ios.idfa") { return "ios_idfa" }
        if equals("ios.idfv") { return "ios_idfv" }
        return nil
    }
}

extension Facts {
    /// A text for a message, with a limited length.
    static func shown(_ text: Bytes) -> String {
        let text = text.text
        return text.count > 64 ? text.prefix(64) + "…" : text
    }
}
