import CivilTime
package import Domain
import JSON

/// Parts of answers that several calls of this dialect write.
extension JSONWriter {
    /// Writes a moment: ISO 8601, in UTC.
    mutating func moment(_ moment: Instant) {
        plainString(ISO8601.format(millisecondsSince1970: moment.milliseconds))
    }

    /// Writes a moment, or null.
    mutating func moment(_ moment: Instant?) {
        if let moment { self.moment(moment) } else { null() }
    }

    /// Writes an id as a string of digits, or null.
    mutating func decimalString(_ number: Int64?) {
        if let number { decimalString(number) } else { null() }
    }

    /// Writes a text, or null.
    mutating func string(_ text: String?) {
        if let text { string(text) } else { null() }
    }

    /// Writes people as an array of their ids.
    mutating func people(_ people: some Sequence<PersonID>) {
        array { json in
            for person in people { json.decimalString(person.rawValue) }
        }
    }

    /// Writes the value of a property: IDSync's values are JSON, other dialects' values are text.
    mutating func property(_ value: [UInt8], of dialect: Dialect) {
        if dialect.hasJSONProperties { raw(value) } else { string(String(decoding: value, as: UTF8.self)) }
    }

    /// Writes who made something with which call and for which reason, and who took it back.
    mutating func origin(_ call: RecordedCall, undoneBy undo: RecordedCall?) {
        key("at")
        moment(call.at)
        key("key")
        decimalString(call.key?.rawValue)
        key("reason")
        string(call.note)
        key("request_id")
        string(call.requestID)
        key("undone_at")
        moment(undo?.at)
        key("undone_by")
        decimalString(undo?.key?.rawValue)
    }

    /// Writes the people and the rule of a merge, as members of an object.
    mutating func members(of merge: Merge) {
        key("from")
        decimalString(merge.from.rawValue)
        key("into")
        decimalString(merge.into.rawValue)
        key("rule")
        string("\(merge.rule.name)")
    }

    /// Writes the number of rows of each kind that exists.
    mutating func counts(_ counts: [RowKind: Int]) {
        object { json in
            for kind in RowKind.allCases {
                guard let count = counts[kind] else { continue }
                json.key(kind.name)
                json.integer(count)
            }
        }
    }
}

extension Purchase.Source {
    /// The source's name in this dialect.
    package var name: String {
        switch self {
        case .appStore: "appstore"
        case .playStore: "playstore"
        case .stripe: "stripe"
        case .paddle: "paddle"
        }
    }
}
