import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The condition `?if_seq=N` of a call: since the call N of the journal no person has changed that the call concerns. N is the
/// `last_seq` of a dry run, so a caller does what the caller has seen, or gets 409 `changed_meanwhile`.
struct IfUnchanged: Sendable {
    /// Nil if the call has no condition.
    private let since: JournalSequence?
    private let isRepeatable: Bool

    init(_ request: borrowing Request) throws(Rejection) {
        isRepeatable = request.isRepeatable
        guard let text = request.query?["if_seq"] else {
            since = nil
            return
        }
        guard let number = Int64(decimal: text), number >= 0 else {
            throw AdminText.wrong("if_seq must be the last_seq of a dry run.", request.id)
        }
        since = JournalSequence(rawValue: number)
    }

    static let parameter = Schema.Property(
        "if_seq",
        .integer("The last_seq of a dry run. 409 changed_meanwhile if a person of the call has changed since then."))

    /// The member of a dry run's answer for the condition of a later call. The call itself has none, because a repeated call has the
    /// first answer.
    static let member = Schema.Property(
        "last_seq", .integer("Of a dry run: the last call that the answer knows, for if_seq."))

    /// Writes the member of a dry run; nothing for nil.
    static func write(_ last: JournalSequence?, _ json: inout JSONWriter) {
        guard let last else { return }
        json.key("last_seq")
        json.integer(Int(last.rawValue))
    }

    /// Whether one of the people has changed. A person that was erased meanwhile has changed.
    func isBroken(by people: some Sequence<PersonID>, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let since else { return false }
        for person in Set(people) {
            if let last = try snapshot.calls(of: person, before: nil, limit: 1).first, last.sequence > since {
                return true
            }
        }
        return false
    }

    /// The step that does a call, or that refuses the call if one of the people has changed. A repetition of a call that was done gets
    /// the kept answer, although the call itself changed the people.
    func step(
        _ call: PreparedCall, ifSame people: some Sequence<PersonID>, _ id: RequestID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Step {
        guard try isBroken(by: people, snapshot) else { return .call(call) }
        return isRepeatable ? .call(call.refused(.changedMeanwhile)) : refusal(id)
    }

    /// The step of a dry run with a known answer, or with the refusal of the condition.
    func answer(
        _ response: Response, ifSame people: some Sequence<PersonID>, _ id: RequestID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Step {
        try isBroken(by: people, snapshot) ? refusal(id) : .answer(response)
    }

    /// The step of a dry run: the answer of the act as the writer would give it now, or the refusal of the act or of the condition.
    ///
    /// - Parameter answer: makes the answer, with the last call that the dry run knew.
    func rehearse<A: Act>(
        _ act: A, ifSame people: some Sequence<PersonID>, _ id: RequestID, _ snapshot: any Snapshot,
        answer: @escaping @Sendable (A.Answer, JournalSequence) -> Response
    ) throws(StoreFault) -> Step {
        if try isBroken(by: people, snapshot) { return refusal(id) }
        let last = try snapshot.lastCall()
        return .rehearsing(act) { rehearsal, _ in
            switch rehearsal.result {
            case .failure(let refusal): .answer(Native.problem(.refused(refusal), id))
            case .success(let reply): .answer(answer(reply, last))
            }
        }
    }

    func refusal(_ id: RequestID) -> Step { .answer(Native.problem(.refused(.changedMeanwhile), id)) }
}
