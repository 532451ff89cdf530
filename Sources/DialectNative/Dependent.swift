import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import Threads

/// The calls whose results depended on a call: their number, and a page of them.
struct Dependent {
    /// The number of all calls; nil if the search took too long.
    private let count: Int?
    private let calls: [RecordedCall]
    /// The last call of the page; nil for the last page.
    private let next: JournalSequence?

    /// The greatest number of calls that the answer of an undo lists.
    static let atMost = 1000
    /// No calls, for a merge that begins now.
    static let none = Dependent()

    static let members: [Schema.Property] = [
        .init(
            "depended_count",
            .anyOf([
                .integer("The number of all calls that depended on it."),
                .null,
            ]), required: true),
        .init("depended", .array(JournalText.schema), required: true),
    ]

    /// The parameter of a dry run that lists further calls.
    static let parameter = Schema.Property(
        "cursor", .string("The depended_next of a dry run: the answer lists the calls of depended that come then."))

    static func place(_ request: borrowing Request, isDry: Bool) throws(Rejection) -> JournalSequence {
        if !isDry, request.query?["cursor"] != nil { throw AdminText.wrong("cursor needs dry_run=true.", request.id) }
        let number = try AdminText.number(
            request, "cursor", in: 0...Int.max, or: "a depended_next that was answered before")
        return JournalSequence(rawValue: Int64(number ?? 0))
    }

    /// The calls of a search that took too long.
    static let unknown = Dependent(count: nil)

    /// The longest search before an undo. The undo must not wait for a search of any length.
    static let beforeUndo: Duration = .seconds(3)

    private init(count: Int? = 0) { (self.count, calls, next) = (count, [], nil) }

    /// Searches for the calls in pages, and continues with a page of the answer. Other reads take their turns between the pages
    /// of the search.
    ///
    /// - Parameters:
    ///   - merge: the merge, which may be undone already.
    ///   - call: the call that made the merge.
    ///   - directory: the projects with all versions of their strategies.
    ///   - place: the call before the page of the answer.
    ///   - limit: the greatest number of calls in the page of the answer.
    ///   - longest: the time after which the call continues without the calls; nil for a search of any length.
    ///   - then: makes the next step, with the last snapshot.
    static func search(
        on merge: Merge, madeBy call: RecordedCall, _ directory: Directory, after place: JournalSequence = .zero,
        limit: Int, longest: Duration? = nil,
        then: @escaping @Sendable (Dependent, any Snapshot) throws(StoreFault) -> Step
    ) -> Step {
        search(
            [DependedCalls(on: merge, madeBy: call, directory)], after: place, limit: limit, longest: longest,
            then: then)
    }

    /// Searches for the calls that depended on a call of any kind: on its merges and on its links.
    static func search(
        on call: Undoable, _ directory: Directory, limit: Int, longest: Duration? = nil,
        then: @escaping @Sendable (Dependent, any Snapshot) throws(StoreFault) -> Step
    ) -> Step {
        var searches: [DependedCalls] = []
        for case .merged(let merge) in call.call.facts {
            searches.append(DependedCalls(on: merge, madeBy: call.call, directory))
        }
        return search(searches, followersOf: call, limit: limit, longest: longest, then: then)
    }

    private static func search(
        _ searches: [DependedCalls], followersOf call: Undoable? = nil, after place: JournalSequence = .zero,
        limit: Int,
        longest: Duration?, then: @escaping @Sendable (Dependent, any Snapshot) throws(StoreFault) -> Step
    ) -> Step {
        let end = longest.map { MonotonicMoment.now + $0 }
        return page(searches[...], [], until: end) { merges, snapshot throws(StoreFault) in
            let followers = try call.map { call throws(StoreFault) in try call.followers(snapshot) } ?? []
            let all = merges.flatMap { merges in followers.map { Set(merges + $0).sorted() } }
            let found = try all.map { all throws(StoreFault) in
                try Dependent(all, after: place, limit: limit, snapshot)
            }
            return try then(found ?? .unknown, snapshot)
        }
    }

    private static func page(
        _ searches: ArraySlice<DependedCalls>, _ found: [JournalSequence], until end: MonotonicMoment?,
        _ then: @escaping @Sendable ([JournalSequence]?, any Snapshot) throws(StoreFault) -> Step
    ) -> Step {
        guard let search = searches.first else {
            return .read { snapshot throws(StoreFault) in try then(found, snapshot) }
        }
        return .read { snapshot throws(StoreFault) in
            let calls: [JournalSequence]?
            do throws(StoreFault) {
                calls = try search.page(snapshot)
            } catch {
                guard end != nil, error.kind == .ended else { throw error }
                // The time of this read is over, so another read continues.
                return .read { snapshot throws(StoreFault) in try then(nil, snapshot) }
            }
            if let calls { return page(searches.dropFirst(), found + calls, until: end, then) }
            guard end.map({ MonotonicMoment.now < $0 }) ?? true else { return try then(nil, snapshot) }
            return page(searches, found, until: end, then)
        }
    }

    /// A page of some calls.
    init(
        _ all: [JournalSequence], after place: JournalSequence = .zero, limit: Int, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let rest = all.drop { $0 <= place }
        (count, calls) = (all.count, try snapshot.calls(Array(rest.prefix(limit))))
        next = rest.count > limit ? rest.prefix(limit).last : nil
    }

    /// Writes the number of the calls alone.
    func writeCount(_ json: inout JSONWriter) {
        json.key("depended_count")
        if let count { json.integer(count) } else { json.null() }
    }

    /// - Parameter person: the person of whom the calls are written, with the people that they came to; nil for whole calls.
    func write(_ json: inout JSONWriter, about person: PersonID? = nil, next name: StaticString) {
        writeCount(&json)
        json.key("depended")
        json.array { json in
            for call in calls {
                let people = person.map { Set([$0] + (call.person.map { [$0] } ?? [])) }
                json.object { json in
                    if let people {
                        JournalText.write(call, about: people, &json)
                    } else {
                        JournalText.write(call, &json)
                    }
                }
            }
        }
        json.key(name)
        if let next { json.decimalString(next.rawValue) } else { json.null() }
    }
}
