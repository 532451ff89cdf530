/// The answers of several people who are one to a questionnaire: what was submitted goes before a draft, and among equals the
/// known side's before the anonymous side's where both are from before they were merged; else the newest. The others are hidden,
/// and are there again where the merge is undone.
package struct FoldedResponses: GroupFold, Equatable {
    /// A response, and the member that has it. Of a draft that several have gone on with, all answers.
    package struct Response: Equatable, Sendable {
        package internal(set) var response: QuestionnaireResponse
        package internal(set) var holder: PersonID

        package init(_ response: QuestionnaireResponse, of holder: PersonID) {
            self.response = response
            self.holder = holder
        }

        package var answers: [String: AnswerValue] { response.answers }
    }

    /// Those that may be read, the one that goes before the others first. Each of the others is read by itself only when those
    /// before it are drafts that are too old, so it has been gone on with later than they.
    private var responses: [Response] = []

    /// As many as may be read.
    private static let responsesKept = 4

    package var isEmpty: Bool { responses.isEmpty }

    /// What is read at some moment; nil where there is nothing but drafts that are too old.
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

    /// Whether what the side has that joins goes before what was there.
    private static func replaces(
        _ new: QuestionnaireResponse, _ known: QuestionnaireResponse, _ merge: MergeID
    ) -> Bool {
        let isSubmitted = new.submittedAt != nil
        if isSubmitted != (known.submittedAt != nil) { return isSubmitted }
        if new.call.rawValue < merge.rawValue, known.call.rawValue < merge.rawValue { return false }
        return new.call > known.call
    }

    package mutating func change(_ person: PersonID, from before: [UInt8]?, to after: [UInt8]) {
        guard var new = QuestionnaireResponse(packed: after) else {
            responses.removeAll { $0.holder == person }
            return
        }
        if let place = responses.firstIndex(where: { $0.response.id == new.id }) {
            new.join(responses.remove(at: place).response)
        }
        // It is the newest of all, so only what was submitted goes before it.
        let submitted = responses.prefix { $0.response.submittedAt != nil && new.submittedAt == nil }.count
        responses.insert(Response(new, of: person), at: submitted)
        bound()
    }

    /// Forgets what can never be read.
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
