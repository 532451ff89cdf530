/// A call that sends the feedback of a user (spec/claim.md 1.7).
package struct SendFeedback: Act {
    package let user: Identity
    /// The text, and its place in the app: a JSON object with at least one member.
    package let body: [UInt8]
    package let sighting: AppUser.Sighting

    package init(user: Identity, body: [UInt8], sighting: AppUser.Sighting) {
        self.user = user
        self.body = body
        self.sighting = sighting
    }
}

/// The id of feedback. The server never reuses it.
package struct FeedbackID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.feedback, of: rawValue) }
}

/// The answer to ``SendFeedback``.
package struct SentFeedback: Equatable, Sendable {
    package let id: FeedbackID
    package let at: Instant

    package init(id: FeedbackID, at: Instant) {
        self.id = id
        self.at = at
    }
}

extension SendFeedback {
    package static var kinds: [ActKind] { [.sendFeedback] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 512 + body.count }

    /// Adds the feedback as a row, and makes a person for an unknown user. Throws nothing, because feedback without earlier
    /// calls is valid.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<SentFeedback> {
        var people = PeopleMaker(stamp)
        let person = view.holder(of: user) ?? people.make(user)
        let id = FeedbackID(rawValue: stamp.person.rawValue)
        let row = Row(.feedback, at: stamp.at, body: body.object(beginningWith: #""feedback_id":"\#(id.rawValue)""#))
        let state = FeedbackState(id: id, project: project, person: person)
        let changes = people.changes + [.rowAdded(person, row), state.put] + sighting.changes(of: person, stamp, view)
        return Decision(
            SentFeedback(id: id, at: stamp.at),
            outcome: Outcome(kind: .sendFeedback, person: person, changes: changes))
    }
}

/// A call that hides feedback. The row stays, and a later claim does not show the feedback again.
package struct DeleteFeedback: Act {
    package let feedback: FeedbackID
    package init(_ feedback: FeedbackID) { self.feedback = feedback }

    package static var kinds: [ActKind] { [.deleteFeedback] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 128 }

    /// Marks the feedback as deleted. Throws `noSuchFeedback` if the project has no such feedback, or if it was deleted
    /// before, so that a client sees a repeated deletion.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<FeedbackDeleted> {
        let packed = view.document(feedback.documentKey)
        guard var state = packed.flatMap({ FeedbackState(id: feedback, packed: $0) }), state.project == project,
            state.deletedAt == nil
        else { throw .noSuchFeedback }
        state.deletedAt = stamp.at
        return Decision(
            FeedbackDeleted(feedback),
            outcome: Outcome(kind: .deleteFeedback, person: state.person, changes: [state.put]))
    }
}

/// The state of feedback. The row of the feedback never changes, so the state is a document.
struct FeedbackState: Equatable, Sendable {
    let id: FeedbackID
    let project: ProjectID
    let person: PersonID
    var deletedAt: Instant?

    init(id: FeedbackID, project: ProjectID, person: PersonID) {
        self.id = id
        self.project = project
        self.person = person
    }

    var put: Change {
        var packer = Packer()
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(UInt64(bitPattern: person.rawValue))
        if let deletedAt { packer.add(deletedAt) }
        return .documentPut(id.documentKey, person, packer.bytes)
    }

    init?(id: FeedbackID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let project = unpacker.integer(), let person = unpacker.person() else { return nil }
        self.init(id: id, project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), person: person)
        if !unpacker.isAtEnd { deletedAt = unpacker.instant() }
    }
}

extension Snapshot {
    /// Whether feedback is deleted or unknown.
    package func isDeleted(_ feedback: FeedbackID) throws(StoreFault) -> Bool {
        guard let packed = try document(feedback.documentKey),
            let state = FeedbackState(id: feedback, packed: packed)
        else { return true }
        return state.deletedAt != nil
    }
}

extension [UInt8] {
    /// The bytes of a JSON object with additional members at its beginning. The object has at least one member.
    func object(beginningWith members: String) -> [UInt8] {
        precondition(count > 2, "An object that has no member cannot be gone on with.")
        return Array("{\(members),".utf8) + dropFirst()
    }
}

extension AppUser.Sighting {
    /// The changes to the fields of a person.
    func changes<V: DecisionFacts>(of person: PersonID, _ stamp: Stamp, _ view: V) -> [Change] {
        var user = AppUser(of: person, view) ?? AppUser(of: person, at: since ?? stamp.at)
        return user.see(self, at: stamp.at) ? [user.put] : []
    }
}

extension SentFeedback: Answer {
    package static let tags: [UInt8] = [ActKind.sendFeedback.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(at)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let at = unpacker.instant() else { return nil }
        self.init(id: FeedbackID(rawValue: Int64(bitPattern: id)), at: at)
    }
}

/// The answer to ``DeleteFeedback``.
package struct FeedbackDeleted: Answer {
    package let feedback: FeedbackID
    package init(_ feedback: FeedbackID) { self.feedback = feedback }

    package static let tags: [UInt8] = [ActKind.deleteFeedback.rawValue]

    package func pack(into packer: inout Packer) { packer.add(UInt64(bitPattern: feedback.rawValue)) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer() else { return nil }
        feedback = FeedbackID(rawValue: Int64(bitPattern: id))
    }
}

extension Refusal {
    package static let noSuchFeedback = Refusal(.notFound, "not_found", "There is no feedback with this id.")
}

extension ActKind {
    package static let sendFeedback = ActKind(20, "send_feedback")
    package static let deleteFeedback = ActKind(21, "delete_feedback")
}
