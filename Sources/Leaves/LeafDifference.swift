package import Domain

/// A fact of a call, as a leaf and a table may have it.
package struct FactOfCall: Hashable, Sendable {
    package let call: Int64
    package let person: Int64
    package let fact: LeafFact

    package init(_ call: Int64, _ person: Int64, _ fact: LeafFact) {
        (self.call, self.person, self.fact) = (call, person, fact)
    }
}

/// A fact that differs from the leaf of its call.
package struct LeafDifference: Sendable {
    package let call: Int64
    package let person: Int64
    package let fact: LeafFact
    /// Whether the store lacks the fact. Otherwise no leaf has the fact.
    package let isMissing: Bool
    /// The number of the link that a table has and no leaf.
    package let link: Int64?
    /// The place of the fact among the facts of its call.
    package let order: Int

    package var known: FactOfCall { FactOfCall(call, person, fact) }

    /// The finding about the difference.
    ///
    /// - Parameter canRepair: whether `onym doctor --repair` works on the store.
    package func finding(canRepair: Bool) -> Finding {
        let (code, what) = fact.finding(isMissing: isMissing)
        let place = person == 0 ? "" : " of person \(person)"
        let state =
            isMissing
            ? "The store does not have \(what)\(place) that call \(call) made."
            : "Call \(call) did not make \(what)\(place) that the store has."
        return Finding(
            code: code, description: "\(state) \(canRepair ? advice : LeafDifference.restore)",
            call: JournalSequence(rawValue: call), person: person == 0 ? nil : PersonID(rawValue: person))
    }

    static let restore = "Restore a copy."

    private var advice: String {
        switch remedy {
        case .leaf: break
        case .copy: return "\"onym doctor --repair --from-backup DIR\" takes it from a copy."
        }
        // The leaf has only the hash of a link's value. Another link or call of the store may have the value.
        if isMissing, case .linked = fact { return "\"onym doctor --repair\" says whether it can put it right." }
        return "\"onym doctor --repair\" can put it right."
    }

    /// Where the fact is taken from.
    package enum Remedy {
        /// The leaf says enough for a repair.
        case leaf
        /// A repair takes it from a copy.
        case copy
    }

    package var remedy: Remedy {
        switch fact {
        case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .rowSuperseded: .leaf
        case .rowAdded, .documentPut, .strategySet, .made, .revoked, .named: .copy
        }
    }
}

extension LeafFact.Thing {
    package var title: String {
        switch self {
        case .project: "Project"
        case .app: "App"
        case .key: "Key"
        }
    }

    func code(isGone: Bool) -> String {
        switch self {
        case .project: isGone ? "project_missing" : "project_differs"
        case .app: isGone ? "app_missing" : "app_differs"
        case .key: isGone ? "key_missing" : "key_differs"
        }
    }
}

extension LeafFact {
    /// The code of a finding about a fact, and the name of the fact.
    func finding(isMissing: Bool) -> (code: String, what: String) {
        switch self {
        case .personMade: (isMissing ? "person_missing" : "person_added", "the making")
        case .linked(let type, _): (isMissing ? "link_missing" : "link_differs", "a link (\(LeafFact.name(type)))")
        case .unlinked(let type, _):
            (isMissing ? "end_missing" : "end_added", "the end of a link (\(LeafFact.name(type)))")
        case .rowAdded: ("row_differs", isMissing ? "a row" : "a row with this content")
        case .rowSuperseded(_, let row): ("row_differs", "the replacement of row \(row)")
        case .documentPut: ("document_differs", isMissing ? "a document" : "a document with this content")
        case .merged(let id, _, _, _): (isMissing ? "merge_missing" : "merge_added", "merge \(id)")
        case .mergeUndone(let id): (isMissing ? "merge_end_missing" : "merge_end_added", "the end of merge \(id)")
        case .personErased: ("person_erasure", "the erasure")
        case .strategySet(let version, _): ("strategy_differs", "version \(version) of a strategy")
        case .made(let thing, let id, _), .named(let thing, let id, _), .revoked(let thing, let id, _):
            (thing.code(isGone: false), "\(thing.title.lowercased()) \(id)")
        }
    }

    private static func name(_ type: UInt8) -> String {
        IdentityType(rawValue: type).map { "\($0.name)" } ?? "type \(type)"
    }
}
