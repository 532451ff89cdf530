/// A call with which an app hands over the data of an advertising network (spec/entitlements-live.md 1.2). It never affects
/// access.
package struct RecordAttribution: Act {
    package let user: Identity
    /// The data as a JSON object.
    package let body: [UInt8]

    /// The limit of the data of one call.
    package static let bytesAtMost = 64 << 10

    package init(_ body: [UInt8], of user: Identity) {
        self.body = body
        self.user = user
    }

    package static var kinds: [ActKind] { [.recordAttribution] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 512 + body.count }

    /// Keeps the data with the user. Throws `noSuchUser`.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        guard let person = view.holder(of: user) else { throw .noSuchUser }
        return Decision(
            Done(),
            outcome: Outcome(
                kind: .recordAttribution, person: person,
                changes: [.rowAdded(person, Row(.attribution, at: stamp.at, body: body))]))
    }
}

extension ActKind {
    package static let recordAttribution = ActKind(110, "record_attribution", undo: .never(.rowsStay))
}
