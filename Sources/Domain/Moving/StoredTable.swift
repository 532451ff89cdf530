/// The tables of a store on disk, in the form for moves: the facts of each call, and the calls themselves.
package enum StoredTable: String, CaseIterable, Sendable {
    // The tables in the order of a move. Each table comes after the tables that its rows need.
    case projects, apps, keys, strategies, people, links, merges, rows, documents, journal
    case callPeople = "call_people"
    case callMerges = "call_merges"
    case callGroups = "call_groups"
    case callActs = "call_acts"
    case callLog = "call_log"
    case leaves, tree

    /// A column and the kind of its values.
    package struct Column: Sendable {
        /// The kind of a column's values.
        package enum Kind: Sendable {
            case integer
            /// The value 0 or 1.
            case boolean
            case bytes
            /// Text of the server, in UTF-8.
            case text
            /// A hash of 16 bytes.
            case hash
        }

        package let name: String
        package let kind: Kind
    }

    /// The columns. The key columns come first.
    package var columns: [Column] {
        switch self {
        case .projects: [.integer("id"), .bytes("name"), .integer("made_at"), .integer("made_by")]
        case .apps:
            [
                .integer("id"), .integer("project"), .text("dialect"), .bytes("name"), .text("platform"),
                .bytes("bundle_id"), .bytes("public_id"), .bytes("secret_hash"), .integer("made_at"),
                .integer("made_by"), .bytes("web_origins"), .integer("revoked_at"),
            ]
        case .keys:
            [
                .integer("id"), .integer("project"), .integer("app"), .text("kind"), .bytes("name"), .bytes("hash"),
                .text("scopes"), .integer("made_at"), .integer("made_by"), .integer("expires_at"),
                .integer("revoked_at"),
            ]
        case .strategies: [.integer("made_by"), .integer("project"), .integer("version"), .bytes("document")]
        case .people:
            [
                .integer("id"), .integer("project"), .integer("made_by"), .integer("last_seen"), .integer("erased_by"),
                .boolean("is_swept"),
            ]
        case .links:
            [
                .integer("id"), .integer("person"), .integer("type"), .bytes("value"), .integer("made_by"),
                .integer("ended_by"),
            ]
        case .merges:
            [
                .integer("id"), .integer("source"), .integer("destination"), .integer("rule"), .integer("made_by"),
                .integer("ended_by"),
            ]
        case .rows:
            [
                .integer("id"), .integer("person"), .integer("previous"), .integer("kind"), .integer("at"),
                .integer("recognition"), .integer("device"), .integer("made_by"), .bytes("body"),
                .integer("superseded_by"),
            ]
        case .documents:
            [
                .integer("id"), .integer("kind"), .hash("hash"), .integer("person"), .integer("made_by"),
                .bytes("body"),
            ]
        case .journal:
            [
                .integer("sequence"), .integer("at"), .integer("project"), .integer("key"), .integer("kind"),
                .integer("person"), .bytes("request_id"), .hash("replay"), .hash("body"), .bytes("inputs"),
                .bytes("reply"), .bytes("note"),
            ]
        case .leaves: [.integer("sequence"), .integer("place"), .bytes("mark"), .bytes("opening")]
        case .tree: [.integer("number"), .bytes("root")]
        case .callPeople: [.integer("person"), .integer("sequence")]
        case .callMerges: [.integer("merge"), .integer("sequence")]
        case .callGroups: [.integer("person"), .integer("sequence")]
        case .callActs: [.integer("sequence"), .bytes("act")]
        case .callLog:
            [
                .integer("id"), .integer("project"), .integer("last"), .integer("at"), .integer("kind"),
                .integer("ending"), .bytes("body"),
            ]
        }
    }

    /// The number of key columns.
    package var keyColumns: Int {
        switch self {
        case .callPeople, .callMerges, .callGroups: 2
        default: 1
        }
    }

    /// The condition of a page: rows after a key with the values of these placeholders, in the order of their keys.
    package func page(behind places: [String]) -> String {
        let names = columns.prefix(keyColumns).map(\.name).joined(separator: ", ")
        return "(\(names)) > (\(places.prefix(keyColumns).joined(separator: ", ")))"
    }

    /// The columns that order a page.
    package var order: String { columns.prefix(keyColumns).map(\.name).joined(separator: ", ") }
}

extension StoredTable.Column {
    fileprivate static func integer(_ name: String) -> Self { Self(name: name, kind: .integer) }
    fileprivate static func boolean(_ name: String) -> Self { Self(name: name, kind: .boolean) }
    fileprivate static func bytes(_ name: String) -> Self { Self(name: name, kind: .bytes) }
    fileprivate static func text(_ name: String) -> Self { Self(name: name, kind: .text) }
    fileprivate static func hash(_ name: String) -> Self { Self(name: name, kind: .hash) }
}

/// A row of a table, with a value for each column.
package struct StoredRecord: Equatable, Sendable {
    /// One value of a row.
    package enum Value: Equatable, Sendable {
        case integer(Int64)
        case bytes([UInt8])
        case none
    }

    package let values: [Value]

    package init(_ values: [Value]) { self.values = values }

    /// Reads a row by the kinds of its columns; nil is a missing value.
    package init(
        _ columns: [StoredTable.Column], integer: (Int) -> Int64?, bytes: (Int) -> [UInt8]?
    ) {
        values = columns.enumerated().map { place, column in
            switch column.kind {
            case .integer, .boolean: integer(place).map(Value.integer) ?? Value.none
            case .bytes, .text, .hash: bytes(place).map(Value.bytes) ?? Value.none
            }
        }
    }

    /// The number in a column; nil for other values.
    package func integer(_ column: Int) -> Int64? {
        if case .integer(let value) = values[column] { value } else { nil }
    }

    /// The bytes in a column; nil for other values.
    package func bytes(_ column: Int) -> [UInt8]? { if case .bytes(let value) = values[column] { value } else { nil } }

    /// The key of the row.
    package func key(in table: StoredTable) -> [Int64] { (0..<table.keyColumns).map { integer($0) ?? 0 } }

    /// A hash of all values.
    package var checksum: UInt64 {
        var packer = Packer()
        for value in values {
            switch value {
            case .none: packer.add(UInt8(0))
            case .integer(let value):
                packer.add(UInt8(1))
                packer.add(UInt64(bitPattern: value))
            case .bytes(let value):
                packer.add(UInt8(2))
                packer.add(value)
            }
        }
        return KeyedHash(key: Hash128(high: 0, low: 0)).hash(tag: 0, packer.bytes.span).low
    }
}
