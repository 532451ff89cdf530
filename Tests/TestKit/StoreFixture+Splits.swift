package import Domain
import Testing

/// Splits of people, and what the people of a split hold.
extension StoreFixture {
    package func name(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: store.hash)
    }

    /// Uploads events with these names, as a client does that knows its person.
    package func upload(
        _ events: [String], for person: PersonID, from device: String, _ attributes: [String: String]
    ) throws {
        let rows = events.map { Row(.event, at: clock.now, body: Array("\"\($0)\"".utf8)) }
        let writes = attributes.sorted { $0.key < $1.key }.map {
            Attributes.Write($0.key, Array("\"\($0.value)\"".utf8))
        }
        _ = try process(
            Ingest(person: person, identities: [], devices: [name(.iosIDFV, device)], attributes: writes, rows: rows))
        clock.advance(milliseconds: 10)
    }

    package func routed<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) throws -> Result {
        try store.read { snapshot throws(StoreFault) in try body(try RoutedSnapshot.over(snapshot)) }
    }

    /// The plan, which a snapshot that keeps nothing of the journal plans as well.
    package func plan(_ person: PersonID, _ selector: SplitSelector) throws -> SplitPlan {
        let (kept, fresh) = try store.read { snapshot throws(StoreFault) in
            let kept = try SplitPlan(person, selector, in: World.project, RoutedSnapshot.over(snapshot))
            let last = try snapshot.lastCall()
            let fresh = try PastSnapshot.read(snapshot, after: last, in: World.project) { past throws(StoreFault) in
                try SplitPlan(person, selector, in: World.project, past)
            }
            return (kept, fresh)
        }
        #expect(kept.content == fresh.content && kept.depended == fresh.depended && kept.stays == fresh.stays)
        #expect(kept.identities == fresh.identities && kept.sharedIdentities == fresh.sharedIdentities)
        #expect(kept.unknown == fresh.unknown && kept.refusal == fresh.refusal)
        return kept
    }

    package func act(
        _ person: PersonID, _ selector: SplitSelector, _ names: [IdentityType: String], into: PersonID? = nil
    ) throws -> SplitPerson {
        let held = try store.read { snapshot throws(StoreFault) in try snapshot.heldIdentities(of: person) }
        let parts = names.sorted { $0.key.rawValue < $1.key.rawValue }.map { type, value in
            SplitPerson.Part(
                name(type, value), linkedBy: held.first { $0.type == type && $0.value == value }?.call ?? .zero)
        }
        return SplitPerson(person, parts: parts, try plan(person, selector).content, into: into, reason: nil)
    }

    package func split(
        _ person: PersonID, _ selector: SplitSelector, _ names: [IdentityType: String], into: PersonID? = nil
    ) throws -> Split {
        try #require(try process(try act(person, selector, names, into: into)).as(Split.self))
    }

    package static func timeline(
        _ person: PersonID, _ snapshot: any Snapshot, limit: Int = 50
    ) throws(StoreFault) -> [String] {
        var filter = Timeline.Filter()
        filter.kinds = [.event]
        filter.limit = limit
        var names: [String] = []
        repeat {
            let page = try Timeline(of: person, filter, snapshot)
            names += page.rows.map { String(decoding: $0.row.body.dropFirst().dropLast(), as: UTF8.self) }
            filter.cursor = page.next
        } while filter.cursor != nil && names.count < 1000
        return names
    }

    package func timeline(_ person: PersonID, limit: Int = 50) throws -> [String] {
        try routed { snapshot throws(StoreFault) in try StoreFixture.timeline(person, snapshot, limit: limit) }
    }

    package func events(_ person: PersonID) throws -> Int {
        try routed { snapshot throws(StoreFault) in snapshot.person(person, in: World.project)?.counts[.event] ?? 0 }
    }

    package func values(_ person: PersonID) throws -> [String: String] {
        try routed { snapshot throws(StoreFault) in
            let document = try snapshot.document(DocumentKey(.attributes, of: person))
            let entries = document.flatMap(Attributes.init(packed:))?.entries ?? [:]
            return entries.compactMapValues { $0.value.map { String(decoding: $0, as: UTF8.self) } }
        }
    }

    /// For each person: the timeline, the properties and the identities.
    package func world(_ people: [PersonID]) throws -> [[String]] {
        try people.flatMap { person in
            [
                try timeline(person), try values(person).map { "\($0.key)=\($0.value)" }.sorted(),
                try store.read { snapshot throws(StoreFault) in
                    try snapshot.heldIdentities(of: person).map { "\($0.type.name):\($0.value)@\($0.call.rawValue)" }
                },
            ]
        }
    }

    package func undoing(_ split: Split, reason: String? = nil) throws -> UndoSplit {
        try routed { snapshot throws(StoreFault) in
            guard let made = try MadeSplit(split.id, in: World.project, snapshot) else {
                preconditionFailure("The split does not exist.")
            }
            return UndoSplit(
                split.id, of: split.person, into: split.into,
                identities: made.identities.map { Identity($0.type, $0.value, in: World.project, hash: store.hash) },
                properties: try snapshot.properties(of: split), reason: reason)
        }
    }

    package func undo(_ split: Split, reason: String? = nil) throws {
        let undone = try process(try undoing(split, reason: reason)).as(SplitUndone.self)
        #expect(undone == SplitUndone(split.id, of: split.person, into: split.into))
    }
}
