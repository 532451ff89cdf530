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
        var state = try view.feedback(feedback, in: project)
        state.deletedAt = stamp.at
        return Decision(
            FeedbackDeleted(feedback),
            outcome: Outcome(kind: .deleteFeedback, person: state.person, changes: [state.put]))
    }
}

/// A call that sets the status of feedback.
package struct ReviewFeedback: Act {
    package let feedback: FeedbackID
    package let status: ReviewStatus

    package init(_ feedback: FeedbackID, _ status: ReviewStatus) {
        self.feedback = feedback
        self.status = status
    }

    package static var kinds: [ActKind] { [.reviewFeedback] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 128 }

    /// Sets the status. Throws `noSuchFeedback` if the project has no such feedback. An equal status changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var state = try view.feedback(feedback, in: project)
        if state.review.status == status { return Decision(Done()) }
        state.review = Review(status, at: stamp.at)
        return Decision(
            Done(), outcome: Outcome(kind: .reviewFeedback, person: state.person, changes: [state.put]))
    }
}

/// The progress of a team with feedback, or with a response to a questionnaire. Stores keep the raw values, so a raw value
/// never changes.
package enum ReviewStatus: UInt8, CaseIterable, Sendable {
    case new = 0
    case inReview = 1
    case addressed = 2
    case dismissed = 3
}

/// A status, and the moment at which a call set it.
package struct Review: Equatable, Sendable {
    package let status: ReviewStatus
    /// Nil until a call sets the status.
    package let at: Instant?

    init(_ status: ReviewStatus = .new, at moment: Instant? = nil) {
        self.status = status
        at = moment
    }

    func pack(into packer: inout Packer) {
        packer.add(status.rawValue)
        packer.add(at == nil ? 0 : 1 as UInt8)
        if let at { packer.add(at) }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let status = unpacker.byte().flatMap(ReviewStatus.init), let hasMoment = unpacker.byte() else {
            return nil
        }
        self.init(status, at: hasMoment == 1 ? unpacker.instant() : nil)
    }
}

/// The state of feedback. The row of the feedback never changes, so the state is a document.
package struct FeedbackState: Equatable, Sendable {
    package let id: FeedbackID
    package let project: ProjectID
    package let person: PersonID
    var deletedAt: Instant?
    package fileprivate(set) var review = Review()

    init(id: FeedbackID, project: ProjectID, person: PersonID) {
        self.id = id
        self.project = project
        self.person = person
    }

    var put: Change {
        var packer = Packer()
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(deletedAt ?? FeedbackState.noMoment)
        review.pack(into: &packer)
        return .documentPut(id.documentKey, person, packer.bytes)
    }

    /// Stands for a missing moment in the packed form.
    private static let noMoment = Instant(milliseconds: .min)

    init?(id: FeedbackID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let project = unpacker.integer(), let person = unpacker.person() else { return nil }
        self.init(id: id, project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), person: person)
        // Older versions wrote fewer members.
        if !unpacker.isAtEnd { deletedAt = unpacker.instant().flatMap { $0 == FeedbackState.noMoment ? nil : $0 } }
        if !unpacker.isAtEnd, let review = Review(unpacking: &unpacker) { self.review = review }
    }
}

extension DecisionFacts {
    /// The state of feedback. Throws `noSuchFeedback` if the project has no such feedback, or if it was deleted, or
    /// was of an erased person.
    func feedback(_ id: FeedbackID, in project: ProjectID) throws(Refusal) -> FeedbackState {
        let packed = document(id.documentKey)
        guard let state = packed.flatMap({ FeedbackState(id: id, packed: $0) }), state.project == project,
            state.deletedAt == nil, !isErased(state.person)
        else { throw .noSuchFeedback }
        return state
    }
}

extension Snapshot {
    /// The state of feedback; nil if the feedback does not exist, was deleted, or was of an erased person.
    package func feedback(_ id: FeedbackID) throws(StoreFault) -> FeedbackState? {
        let state = try document(id.documentKey).flatMap { FeedbackState(id: id, packed: $0) }
        guard let state, state.deletedAt == nil, person(state.person, in: state.project) != nil else { return nil }
        return state
    }

    /// A person's row for feedback or for a response. Their ids have the moment of a call, and mostly the row has this moment
    /// too. Otherwise all such rows of the person are searched.
    package func row(
        _ kind: RowKind, of person: PersonID, madeBy call: PersonID, in project: ProjectID,
        where isWanted: (Row) -> Bool
    ) throws(StoreFault) -> StoredRow? {
        var range = RowsByTime()
        (range.since, range.until) = (call.madeAt, call.madeAt.advanced(byMilliseconds: 1))
        while true {
            let rows = try self.rows(of: kind, in: project, range)
            if let found = rows.first(where: { $0.person == person && isWanted($0.row) }) { return found }
            guard rows.count == range.limit, let last = rows.last else { break }
            range.after = RowsByTime.Place(at: last.row.at, number: last.number)
        }
        var from: RowNumber?
        while true {
            let rows = try self.rows(of: person, kind, from: from, limit: 200)
            if let found = rows.first(where: { isWanted($0.row) }) { return found }
            guard let previous = rows.last?.previous else { return nil }
            from = previous
        }
    }
}

extension [UInt8] {
    /// The bytes of a JSON object with additional members at its beginning. The object has at least one member.
    func object(beginningWith members: String) -> [UInt8] {
        precondition(count > 2, "Only an object with a member takes further members.")
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
    package static let sendFeedback = ActKind(20, "send_feedback", undo: .never(.rowsStay))
    package static let deleteFeedback = ActKind(21, "delete_feedback", undo: .never(.rowsStay))
    package static let reviewFeedback = ActKind(153, "review_feedback", undo: .never(.callAgain))
}
