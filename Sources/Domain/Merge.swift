/// That one person is another: from now on they are read as one. Nothing is rewritten, so it can be undone.
package struct Merge: Equatable, Sendable {
    package let id: MergeID
    package let from: PersonID
    package let into: PersonID
    package let rule: Rule

    /// Why they are one. The raw values are stored: they never change.
    package enum Rule: UInt8, Sendable {
        /// A known user claimed an anonymous id.
        case claim = 1
        /// An administrator said so.
        case administrator = 2

        package var name: StaticString {
            switch self {
            case .claim: "claim"
            case .administrator: "administrator"
            }
        }
    }

    package init(id: MergeID, from: PersonID, into: PersonID, rule: Rule) {
        self.id = id
        self.from = from
        self.into = into
        self.rule = rule
    }
}

/// A merge: made once, never reused.
package struct MergeID: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: MergeID, other: MergeID) -> Bool { one.rawValue < other.rawValue }
}

/// A call by which an administrator says that two people are one.
package struct MergePeople: Sendable {
    package let from: PersonID
    package let into: PersonID

    package init(from: PersonID, into: PersonID) {
        self.from = from
        self.into = into
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        guard view.person(from, in: project) != nil, view.person(into, in: project) != nil else {
            throw .noSuchPerson
        }
        guard !view.members(of: from).contains(into) else { throw .oneAlready }
        let merge = Merge(
            id: MergeID(rawValue: stamp.person.rawValue), from: from, into: into, rule: .administrator)
        return Decision(
            reply: .merged(merge), outcome: Outcome(kind: .merge, person: into, changes: [.merged(merge)]))
    }
}

/// A call that takes a merge back.
package struct UndoMerge: Sendable {
    package let merge: MergeID
    package init(_ merge: MergeID) { self.merge = merge }

    func decide<V: View>(in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        guard let merge = view.merge(merge), view.person(merge.from, in: project) != nil else { throw .noSuchMerge }
        return Decision(
            reply: .mergeUndone(merge.id),
            outcome: Outcome(kind: .undoMerge, person: merge.into, changes: [.mergeUndone(merge.id)]))
    }
}
