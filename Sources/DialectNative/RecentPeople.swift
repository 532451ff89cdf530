import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The people that calls made or changed last, for `GET /onym/v1/people?order=recent`. The order is the journal's, so the list needs no
/// index of its own.
struct RecentPeople: Sendable {
    private let list: ListQuery

    static let order = "recent"
    /// The greatest number of calls that the server reads for one page.
    static let readAtMost = 2000
    private static let callsReadAtOnce = 200

    init(_ request: borrowing Request) throws(Rejection) { list = try ListQuery(request) }

    /// A person and the last call that changed it.
    private struct Entry {
        let person: FoundPerson
        let root: PersonID
        let madeAt: Instant
        let members: Int
        let call: RecordedCall
    }

    /// A page: each group once, at its last change. A page may be short, because other calls are in between.
    func answer(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Response {
        var before = try snapshot.lastCall().rawValue + 1
        if let cursor = list.cursor { before = min(before, Int64(cursor)) }
        var (entries, seen, read): ([Entry], Set<PersonID>, Int) = ([], [], 0)
        while before > 1, read < RecentPeople.readAtMost, entries.count < list.limit {
            let start = max(before - 1 - Int64(RecentPeople.callsReadAtOnce), 0)
            let calls = try snapshot.callHeads(after: JournalSequence(rawValue: start), limit: Int(before - 1 - start))
            read += RecentPeople.callsReadAtOnce
            let end = before
            before = start + 1
            for call in calls.reversed() where call.sequence.rawValue < end {
                guard call.project == project, let person = call.person, snapshot.person(person, in: project) != nil
                else { continue }
                let group = snapshot.group(of: person)
                guard !seen.contains(group.root), let call = try snapshot.call(call.sequence), !call.facts.isEmpty
                else { continue }
                seen.insert(group.root)
                entries.append(
                    Entry(
                        person: try FoundPerson(person, snapshot), root: group.root,
                        madeAt: try snapshot.madeAt(group.root), members: group.count, call: call))
                if entries.count == list.limit {
                    before = call.sequence.rawValue
                    break
                }
            }
        }
        let next = before > 1 ? before : nil
        return Native.json(.ok) { json in
            json.key("people")
            json.array { json in for entry in entries { json.object { write(entry, &$0) } } }
            json.key("next_cursor")
            json.decimalString(next)
        }
    }

    private func write(_ entry: Entry, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(entry.root.rawValue)
        entry.person.write(to: &json)
        json.key("made_at")
        json.moment(entry.madeAt)
        json.key("members")
        json.integer(entry.members)
        json.key("changed_at")
        json.moment(entry.call.at)
        json.key("changed_by")
        json.string(entry.call.kind.name)
    }

    static let schema = Schema.object([
        .init(
            "people",
            .array(
                .object(
                    [
                        .init("id", .string(), required: true), .init("made_at", .string(), required: true),
                        .init("members", .integer(), required: true),
                        .init("changed_at", .string("The moment of the last change."), required: true),
                        .init("changed_by", .string("The kind of the call."), required: true),
                    ] + FoundPerson.schema)), required: true),
        .init("next_cursor", AdminText.optionalText, required: true),
    ])
}
