/// The responses of the members of a group to a questionnaire. A submitted response is before a draft. If both responses are
/// from before the merge, the response of the known side is first; otherwise the newest is first. Other responses are
/// hidden, and an undo of the merge shows them again.
package struct FoldedResponses: GroupFold, Equatable {
    /// A response and its member. If several members continued a draft, it has all their answers.
    package struct Response: Equatable, Sendable {
        package internal(set) var response: QuestionnaireResponse
        package internal(set) var holder: PersonID

        package init(_ response: QuestionnaireResponse, of holder: PersonID) {
            self.response = response
            self.holder = holder
        }

        package var answers: [String: AnswerValue] { response.answers }
    }

    /// The responses that a read may need, in their order of preference. A later response is read only when all responses
    /// before it are stale drafts. So a later response was changed after the responses before it.
    private var responses: [Response] = []

    /// The limit of kept responses.
    private static let responsesKept = 4

    package var isEmpty: Bool { responses.isEmpty }

    /// The response at a moment; nil if there are only stale drafts.
    package func response(at now: Instant) -> Response? { responses.first { !$0.response.isStale(at: now) } }

    package init(_ person: PersonID, _ document: [UInt8]?) {
        guard let response = document.flatMap(QuestionnaireResponse.init(packed:)) else { return }
        responses = [Response(response, of: person)]
    }

    package mutating func join(_ joining: FoldedResponses, by merge: MergeID) {
        var (known, new) = (responses[...], joining.responses[...])
        var joined: [Response] = []
        while true {
            let next: Response
            switch (known.first, new.first) {
            case (nil, nil):
                responses = joined
                bound()
                return
            case (let one?, nil), (nil, let one?): next = one
            case (let one?, let other?):
                next = FoldedResponses.replaces(other.response, one.response, merge) ? other : one
            }
            if next == known.first { known.removeFirst() } else { new.removeFirst() }
            if let place = joined.firstIndex(where: { $0.response.id == next.response.id }) {
                joined[place].response.join(next.response)
            } else {
                joined.append(next)
            }
        }
    }

    /// Whether a response of the joining side is before a known response.
    private static func replaces(
        _ new: QuestionnaireResponse, _ known: QuestionnaireResponse, _ merge: MergeID
    ) -> Bool {
        let isSubmitted = new.submittedAt != nil
        if isSubmitted != (known.submittedAt != nil) { return isSubmitted }
        if new.call.rawValue < merge.rawValue, known.call.rawValue < merge.rawValue { return false }
        return new.call > known.call
    }

    package mutating func change(
        _ person: PersonID, from before: [UInt8]?, to after: [UInt8], by call: PersonID
    ) -> Bool {
        // Behind a response that goes, others may show.
        guard var new = QuestionnaireResponse(packed: after) else { return before == nil }
        if let place = responses.firstIndex(where: { $0.response.id == new.id }) {
            new.join(responses.remove(at: place).response)
        }
        // The response is the newest, so only submitted responses are before it.
        let submitted = responses.prefix { $0.response.submittedAt != nil && new.submittedAt == nil }.count
        responses.insert(Response(new, of: person), at: submitted)
        bound()
        return true
    }

    /// Removes responses that no read can reach.
    private mutating func bound() {
        var kept: [Response] = []
        for response in responses where !kept.contains(where: { $0.response.outlives(response.response) }) {
            kept.append(response)
        }
        responses = Array(kept.prefix(FoldedResponses.responsesKept))
    }

    package var packed: [UInt8] {
        var packer = Packer()
        for response in responses {
            packer.add(response.holder)
            packer.add(response.response.packed)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        while !unpacker.isAtEnd {
            guard let holder = unpacker.person(),
                let response = unpacker.bytes().flatMap(QuestionnaireResponse.init(packed:))
            else { return nil }
            responses.append(Response(response, of: holder))
        }
    }
}
