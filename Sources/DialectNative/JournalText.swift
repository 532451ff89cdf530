import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// Writes calls of the journal into answers, for the calls that show people and their journal.
enum JournalText {
    /// A page of the calls that touched a person or another member of its group, the last first.
    static func answer(
        _ person: PersonID, _ list: ListQuery, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let before = list.cursor.map { JournalSequence(rawValue: Int64($0)) }
        var calls: [JournalSequence: RecordedCall] = [:]
        let members = snapshot.group(of: person).members
        for member in members {
            for call in try snapshot.calls(of: member, before: before, limit: list.limit) {
                calls[call.sequence] = call
            }
        }
        let page = calls.values.sorted { $0.sequence > $1.sequence }.prefix(list.limit)
        return Native.json(.ok) { json in
            json.key("calls")
            json.array { json in
                for call in page { json.object { write(call, about: Set(members), &$0) } }
            }
            json.key("next_cursor")
            if let last = page.last, page.count == list.limit {
                json.decimalString(last.sequence.rawValue)
            } else {
                json.null()
            }
        }
    }

    /// - Parameter people: the people whose journal it is; nil for the journal of the project.
    static func write(_ call: RecordedCall, about people: Set<PersonID>? = nil, _ json: inout JSONWriter) {
        json.key("seq")
        json.integer(Int(call.sequence.rawValue))
        json.key("at")
        json.moment(call.at)
        json.key("kind")
        json.string(call.kind.name)
        json.key("person")
        json.decimalString(call.person?.rawValue)
        json.key("key")
        json.decimalString(call.key?.rawValue)
        json.key("request_id")
        json.string(call.requestID)
        json.key("refused")
        if case .refused(let code) = call.answer { json.string(code) } else { json.null() }
        json.key("reason")
        json.string(call.note)
        json.key("named")
        json.array { json in
            for input in call.inputs {
                json.object { json in
                    json.key("type")
                    json.string("\(input.type.name)")
                    json.key("value")
                    json.string(input.value)
                    json.key("fate")
                    json.string(input.fate.name)
                }
            }
        }
        json.key("facts")
        json.array { json in
            let facts = people.map(call.facts(about:)) ?? call.facts
            for fact in facts { json.object { write(fact, of: call, &$0) } }
        }
    }

    static func write(_ fact: RecordedCall.Fact, of call: RecordedCall, _ json: inout JSONWriter) {
        func write(_ name: String, of person: PersonID) {
            json.key("fact")
            json.string(name)
            json.key("person")
            json.decimalString(person.rawValue)
        }
        func write(_ name: String, _ person: PersonID, _ type: IdentityType, _ value: String) {
            write(name, of: person)
            json.key("type")
            json.string("\(type.name)")
            json.key("value")
            json.string(value)
        }
        switch fact {
        case .personMade(let person): write("person_made", of: person)
        case .linked(let person, let type, let value): write("linked", person, type, value)
        case .unlinked(let person, let type, let value): write("unlinked", person, type, value)
        case .merged(let merge), .mergeUndone(let merge):
            if case .merged = fact { write("merged", of: merge.from) } else { write("merge_undone", of: merge.from) }
            json.key("into")
            json.decimalString(merge.into.rawValue)
            json.key("merge")
            json.string("m_\(merge.id.rawValue)")
            json.key("rule")
            json.string("\(merge.rule.name)")
        case .personErased(let person): write("person_erased", of: person)
        case .rowsAdded(let person, let kind, let count, _):
            write("rows_added", of: person)
            json.key("kind")
            json.string("\(kind.name)")
            json.key("count")
            json.integer(count)
        case .documentPut(let person, let kind):
            write("document_put", of: person)
            json.key("document")
            json.string("\(kind)")
            guard kind == .attributes || kind == .traits, let names = call.changedNames else { return }
            for (key, names) in [("written", names.written), ("removed", names.removed)] {
                json.key(key)
                json.array { json in
                    for name in names { json.string(name) }
                }
            }
        }
    }

    static let schema = Schema.object(members)

    static let members: [Schema.Property] = [
        .init("seq", .integer("The number of the call in the journal."), required: true),
        .init("at", .string(), required: true),
        .init("kind", .string(), required: true), .init("person", .anyOf([.string(), .null]), required: true),
        .init("key", .anyOf([.string(), .null]), required: true), .init("request_id", .string(), required: true),
        .init("refused", .anyOf([.string(), .null]), required: true),
        .init("reason", .anyOf([.string(), .null]), required: true),
        .init("named", .array(.object([])), required: true), .init("facts", .array(.object([])), required: true),
    ]
}
