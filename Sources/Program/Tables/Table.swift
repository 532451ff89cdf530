/// A table of an export for a warehouse (docs/moving-out.md).
enum Table: String, CaseIterable {
    case people, identities, links, merges
    case graphUpdates = "id_graph_updates"
    case purchases, access, events

    /// The columns, in the order of the cells of a row.
    var columns: [TableColumn] {
        switch self {
        case .people:
            [
                .init("person_id", .id), .init("root_id", .id), .init("project_id", .id), .init("made_at", .moment),
                .init("last_seen_at", .moment), .init("erased_at", .moment),
            ]
        case .identities:
            [.init("person_id", .id), .init("root_id", .id), .init("type", .text), .init("value", .text)]
        case .links:
            [
                .init("link_id", .text), .init("person_id", .id), .init("type", .text), .init("value", .text),
                .init("valid_from", .moment), .init("valid_to", .moment), .init("made_by", .id),
                .init("ended_by", .id), .init("source", .text), .init("since_at_vendor", .moment),
            ]
        case .merges:
            [
                .init("merge_id", .id), .init("from_id", .id), .init("into_id", .id), .init("rule", .text),
                .init("valid_from", .moment), .init("valid_to", .moment), .init("made_by", .id),
                .init("ended_by", .id),
            ]
        case .graphUpdates:
            [
                .init("seq", .id), .init("person_id", .id), .init("root_id", .id), .init("cause", .text),
                .init("request_id", .text), .init("at", .moment),
            ]
        case .purchases:
            [
                .init("purchase_id", .text), .init("person_id", .id), .init("root_id", .id), .init("principal", .text),
                .init("world", .text), .init("store", .text), .init("transaction", .text), .init("original", .text),
                .init("product", .text), .init("bought_at", .moment), .init("expires_at", .moment),
                .init("refunded_at", .moment), .init("renewal", .text), .init("period", .text), .init("as_of", .moment),
            ]
        case .access:
            [
                .init("person_id", .id), .init("principal", .text), .init("entitlement", .text),
                .init("product", .text), .init("valid_from", .moment), .init("valid_to", .moment),
            ]
        case .events:
            [
                .init("row_id", .id), .init("person_id", .id), .init("root_id", .id), .init("name", .text),
                .init("at", .moment), .init("received_at", .moment), .init("body", .json),
            ]
        }
    }
}

/// A column of a table. Every column may have nulls.
struct TableColumn {
    enum Kind {
        /// A 64-bit number: an integer in Parquet, digits in CSV.
        case id
        /// Milliseconds since 1970: a timestamp in Parquet, ISO 8601 in CSV.
        case moment
        case text
        /// JSON as text.
        case json
    }

    let name: String
    let kind: Kind

    init(_ name: String, _ kind: Kind) { (self.name, self.kind) = (name, kind) }
}

/// A value of a row of a table.
enum TableCell: Equatable {
    case null
    case number(Int64)
    case moment(milliseconds: Int64)
    case text([UInt8])

    static func text(_ text: String?) -> TableCell { text.map { .text(Array($0.utf8)) } ?? .null }
    static func moment(_ milliseconds: Int64?) -> TableCell { milliseconds.map { .moment(milliseconds: $0) } ?? .null }
    static func number(_ number: Int64?) -> TableCell { number.map { .number($0) } ?? .null }
}
