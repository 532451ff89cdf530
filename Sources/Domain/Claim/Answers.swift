/// The answer of a user to one question.
package enum AnswerValue: Equatable, Sendable {
    case text(String)
    case choices([String])
    case number(Int64)
    /// No answer. It removes an earlier answer.
    case nothing
    /// A value that answers no kind of question.
    case other
}

/// The reason why answers are invalid. Each case names the question.
package enum AnswerFault: Equatable, Sendable {
    case unknownQuestion(String)
    case isRequired(String)
    case mustBeText(String)
    case tooLong(String)
    case mustBeOption(String)
    case mustBeOptions(String)
    case mustBeInteger(String, ClosedRange<Int64>)
}

/// A call that sends some or all answers to a questionnaire (spec/claim.md 1.7).
package struct AnswerQuestionnaire: Act {
    package let slug: String
    package let user: Identity
    package let answers: [(question: String, value: AnswerValue)]
    /// Whether the answers are complete. After a complete call the user has responded.
    package let isComplete: Bool
    /// The place of the answers in the app: a JSON object with at least one member.
    package let details: [UInt8]
    package let sighting: AppUser.Sighting

    package init(
        slug: String, user: Identity, answers: [(question: String, value: AnswerValue)], isComplete: Bool,
        details: [UInt8], sighting: AppUser.Sighting
    ) {
        self.slug = slug
        self.user = user
        self.answers = answers
        self.isComplete = isComplete
        self.details = details
        self.sighting = sighting
    }

    /// The approximate number of bytes of the call.
    package var byteCount: Int {
        answers.reduce(512 + details.count) { bytes, answer in
            switch answer.value {
            case .text(let text): bytes + 64 + text.utf8.count
            case .choices(let choices): choices.reduce(bytes + 64) { $0 + $1.utf8.count }
            case .number, .nothing, .other: bytes + 64
            }
        }
    }
}

/// The answer to ``AnswerQuestionnaire``.
package struct Answered: Equatable, Sendable {
    package let id: ResponseID
    /// The moment of the first answers.
    package let at: Instant
    package let isFirst: Bool
    /// Whether the call submitted the draft.
    package let wasSubmitted: Bool

    package init(id: ResponseID, at: Instant, isFirst: Bool, wasSubmitted: Bool) {
        self.id = id
        self.at = at
        self.isFirst = isFirst
        self.wasSubmitted = wasSubmitted
    }
}

/// The id of a user's response to a questionnaire. The server never reuses it.
package struct ResponseID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The answers of one person to a questionnaire: a draft or a submitted response.
///
/// After a claim, the known user may continue a draft of the anonymous person. Each of the two people then keeps its own
/// answers. A submitted response contains all answers.
package struct QuestionnaireResponse: Equatable, Sendable {
    package let id: ResponseID
    package let madeAt: Instant
    package private(set) var changedAt: Instant
    /// The call that wrote the response. A later call has a larger id.
    private(set) var call: PersonID
    package private(set) var submittedAt: Instant?
    /// Whether the holder has a row for this response. An older version of the server made no row for a draft.
    fileprivate(set) var hasRow = false
    private(set) var entries: [String: Entry] = [:]

    struct Entry: Equatable, Sendable {
        let value: AnswerValue
        let call: PersonID
    }

    init(id: ResponseID, madeAt: Instant, _ stamp: Stamp) {
        self.id = id
        self.madeAt = madeAt
        changedAt = stamp.at
        call = stamp.person
    }

    mutating func set(_ answers: [(question: String, value: AnswerValue)], _ stamp: Stamp) {
        changedAt = stamp.at
        call = stamp.person
        for answer in answers { entries[answer.question] = Entry(value: answer.value, call: stamp.person) }
    }

    /// Submits the response. It then has exactly these answers.
    mutating func submit(_ answers: [String: AnswerValue], _ stamp: Stamp) {
        entries = [:]
        set(answers.map { ($0.key, $0.value) }, stamp)
        submittedAt = stamp.at
    }

    /// The answers without removed answers.
    package var answers: [String: AnswerValue] { entries.mapValues(\.value).filter { $0.value != .nothing } }

    /// Adds the answers of another person in the same draft. For each question the newest answer counts.
    mutating func join(_ other: QuestionnaireResponse) {
        if submittedAt == nil { entries.merge(other.entries) { $0.call > $1.call ? $0 : $1 } }
        changedAt = max(changedAt, other.changedAt)
        call = max(call, other.call)
    }

    /// Whether reads show this draft at least as long as another draft.
    func outlives(_ other: QuestionnaireResponse) -> Bool { submittedAt != nil || changedAt >= other.changedAt }

    /// Whether reads ignore the response, because it is a draft without recent changes.
    func isStale(at now: Instant) -> Bool {
        submittedAt == nil && now.milliseconds - changedAt.milliseconds >= QuestionnaireResponse.draftMilliseconds
    }

    package static let draftDays: Int64 = 90
    private static let draftMilliseconds = draftDays * 24 * 3600 * 1000

    /// The key of a response: one for each person and questionnaire. A response without a user has its own id in place of a
    /// person. The questionnaire's half of the hash is the part of ``FoldSlot``.
    static func key(_ holder: Int64, _ questionnaire: QuestionnaireID) -> DocumentKey {
        DocumentKey(
            .response,
            hash: Hash128(
                high: UInt64(bitPattern: questionnaire.rawValue), low: UInt64(bitPattern: holder)))
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(madeAt)
        packer.add(changedAt)
        packer.add(UInt64(bitPattern: call.rawValue))
        packer.add((submittedAt == nil ? 0 : 1) | (hasRow ? 2 : 0) as UInt8)
        if let submittedAt { packer.add(submittedAt) }
        for (question, entry) in entries.sorted(by: { $0.key < $1.key }) {
            packer.add(question)
            packer.add(UInt64(bitPattern: entry.call.rawValue))
            switch entry.value {
            case .nothing, .other: packer.add(0 as UInt8)
            case .text(let text):
                packer.add(1 as UInt8)
                packer.add(text)
            case .choices(let choices):
                packer.add(2 as UInt8)
                packer.add(UInt64(choices.count))
                for choice in choices { packer.add(choice) }
            case .number(let number):
                packer.add(3 as UInt8)
                packer.add(UInt64(bitPattern: number))
            }
        }
        return packer.bytes
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let madeAt = unpacker.instant(), let changedAt = unpacker.instant(),
            let call = unpacker.person(), let flags = unpacker.byte()
        else { return nil }
        self.init(
            id: ResponseID(rawValue: Int64(bitPattern: id)), madeAt: madeAt, Stamp(at: changedAt, person: call))
        if flags & 1 != 0 { submittedAt = unpacker.instant() }
        hasRow = flags & 2 != 0
        while !unpacker.isAtEnd {
            guard let question = unpacker.text(), let call = unpacker.person(), let kind = unpacker.byte()
            else { return nil }
            switch kind {
            case 0: entries[question] = Entry(value: .nothing, call: call)
            case 1:
                guard let text = unpacker.text() else { return nil }
                entries[question] = Entry(value: .text(text), call: call)
            case 2:
                guard let count = unpacker.integer() else { return nil }
                var choices: [String] = []
                for _ in 0..<count {
                    guard let choice = unpacker.text() else { return nil }
                    choices.append(choice)
                }
                entries[question] = Entry(value: .choices(choices), call: call)
            case 3:
                guard let number = unpacker.integer() else { return nil }
                entries[question] = Entry(value: .number(Int64(bitPattern: number)), call: call)
            default: return nil
            }
        }
    }
}

extension AnswerQuestionnaire {
    package static var kinds: [ActKind] { [.answer] }
    package var subjects: Subjects { Subjects(readsGroupOf: user) }

    /// Stores the answers as a draft, or as a complete response. Throws `noSuchQuestionnaire`, `notEligible` if the
    /// questionnaire is inactive, or if the user dismissed all questionnaires or has responded, and a refusal for an invalid
    /// answer. Earlier answers of the draft stay, because an app sends the answers step by step.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Answered> {
        guard let questionnaire = view.questionnaire(slug, in: project), questionnaire.isAsked(by: sighting.app) else {
            throw .noSuchQuestionnaire
        }
        guard questionnaire.text.isActive else { throw .notEligible(.inactive) }
        let holder = view.holder(of: user)
        let isNobody = user.type == .claimNobody
        let before = isNobody ? nil : holder.flatMap { view.response(of: $0, to: questionnaire.id, at: stamp.at) }
        if let holder, !isNobody {
            let properties: FoldedAttributes = view.fold(.properties, of: view.group(of: holder))
            if properties[Questionnaire.dismissalProperty] != nil { throw .notEligible(.globallyDismissed) }
            if before?.response.submittedAt != nil { throw .notEligible(.alreadyResponded) }
        }
        let merged = try merge(into: questionnaire.fitting(before?.answers ?? [:]), questionnaire.text.questions)

        var people = PeopleMaker(stamp)
        let person = holder ?? people.make(user)
        let id = before?.response.id ?? ResponseID(rawValue: stamp.person.rawValue)
        // A merge may hide an older response of the person. That response stays, so that an undo of the merge shows it again.
        var target = isNobody ? id.rawValue : person.rawValue
        if let before, let own = view.ownResponse(target, questionnaire.id), own.id != id, !own.isStale(at: stamp.at) {
            target = before.holder.rawValue
        }
        let known = view.ownResponse(target, questionnaire.id).flatMap { $0.id == id ? $0 : nil }
        var response =
            known ?? QuestionnaireResponse(id: id, madeAt: before?.response.madeAt ?? stamp.at, stamp)
        if isComplete { response.submit(merged, stamp) } else { response.set(answers, stamp) }
        let owner = isNobody ? person : PersonID(rawValue: target)
        var changes = people.changes
        if !response.hasRow {
            response.hasRow = true
            changes.append(.rowAdded(owner, row(of: response, to: questionnaire, stamp)))
        }
        changes.append(
            .documentPut(QuestionnaireResponse.key(target, questionnaire.id), owner, response.packed))
        var state =
            view.document(id.stateKey).flatMap { ResponseState(id: id, packed: $0) }
            ?? ResponseState(
                id: id, project: project, questionnaire: questionnaire.id, owner: owner, isNobodys: isNobody)
        if isComplete {
            state.answered = questionnaire.changedAt
            let key = questionnaire.answeredQuestionsKey
            if view.document(key) == nil { changes.append(.documentPut(key, .nobody, questionnaire.text.schema)) }
        }
        changes.append(state.put)
        changes += sighting.changes(of: person, stamp, view)
        let answered = Answered(
            id: id, at: response.madeAt, isFirst: before == nil, wasSubmitted: isComplete)
        return Decision(
            answered, outcome: Outcome(kind: .answer, person: person, changes: changes))
    }

    /// The row of a response: its id and its place in the app. The answers are in the response document.
    private func row(
        of response: QuestionnaireResponse, to questionnaire: Questionnaire, _ stamp: Stamp
    ) -> Row {
        let members = """
            "response_id":"\(response.id.rawValue)","questionnaire_id":"\(questionnaire.id.rawValue)",\
            "slug":"\(questionnaire.slug)"
            """
        return Row(.answer, at: stamp.at, body: details.object(beginningWith: members))
    }

    /// All answers after the call.
    private func merge(
        into before: [String: AnswerValue], _ questions: [Questionnaire.Question]
    ) throws(Refusal) -> [String: AnswerValue] {
        var merged = before
        for (id, value) in answers {
            guard let question = questions.first(where: { $0.id == id }) else { throw .badAnswer(.unknownQuestion(id)) }
            if let fault = question.fault(of: value) { throw .badAnswer(fault) }
            merged[id] = value == .nothing ? nil : value
        }
        if isComplete, let missing = questions.first(where: { $0.isRequired && merged[$0.id] == nil }) {
            throw .badAnswer(.isRequired(missing.id))
        }
        return merged
    }
}

/// A call that sets the status of a response to a questionnaire, or deletes the response.
package struct ReviewResponse: Act {
    package enum Edit: Equatable, Sendable {
        case status(ReviewStatus)
        case delete
    }

    package let response: ResponseID
    package let questionnaire: QuestionnaireID
    package let edit: Edit

    package init(_ response: ResponseID, to questionnaire: QuestionnaireID, _ edit: Edit) {
        self.response = response
        self.questionnaire = questionnaire
        self.edit = edit
    }

    package static var kinds: [ActKind] { [.reviewResponse] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Sets the status, or removes the answers. Throws `noSuchResponse` if no such response exists under the questionnaire. After a
    /// deletion the user can answer again. Several people of a group may have continued one response, so a deletion removes
    /// the answers of all of them.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var state = try view.responseState(response, to: questionnaire, in: project)
        var changes: [Change] = []
        switch edit {
        case .status(let status):
            if state.review.status == status { return Decision(Done()) }
            state.review = Review(status, at: stamp.at)
        case .delete:
            state.isDeleted = true
            let holders = state.isNobodys ? [response.rawValue] : view.group(of: state.owner).members.map(\.rawValue)
            for holder in holders {
                guard view.ownResponse(holder, questionnaire)?.id == response else { continue }
                let owner = state.isNobodys ? state.owner : PersonID(rawValue: holder)
                changes.append(.documentPut(QuestionnaireResponse.key(holder, questionnaire), owner, []))
            }
        }
        changes.append(state.put)
        return Decision(
            Done(), outcome: Outcome(kind: .reviewResponse, person: state.owner, changes: changes))
    }
}

/// The place of a response, and its review.
package struct ResponseState: Equatable, Sendable {
    package let id: ResponseID
    package let project: ProjectID
    package let questionnaire: QuestionnaireID
    /// The person with the first answers.
    package let owner: PersonID
    /// Whether the response has no user.
    package let isNobodys: Bool
    package fileprivate(set) var isDeleted = false
    /// The moment from which the answered questions are; nil for a draft.
    package fileprivate(set) var answered: Instant?
    package fileprivate(set) var review = Review()

    init(id: ResponseID, project: ProjectID, questionnaire: QuestionnaireID, owner: PersonID, isNobodys: Bool) {
        self.id = id
        self.project = project
        self.questionnaire = questionnaire
        self.owner = owner
        self.isNobodys = isNobodys
    }

    var put: Change {
        var packer = Packer()
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(UInt64(bitPattern: questionnaire.rawValue))
        packer.add(UInt64(bitPattern: owner.rawValue))
        packer.add((isNobodys ? 1 : 0) | (isDeleted ? 2 : 0) | (answered == nil ? 0 : 4) as UInt8)
        if let answered { packer.add(answered) }
        review.pack(into: &packer)
        return .documentPut(id.stateKey, owner, packer.bytes)
    }

    init?(id: ResponseID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let project = unpacker.integer(), let questionnaire = unpacker.integer(), let owner = unpacker.person(),
            let flags = unpacker.byte()
        else { return nil }
        self.init(
            id: id, project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)),
            questionnaire: QuestionnaireID(rawValue: Int64(bitPattern: questionnaire)), owner: owner,
            isNobodys: flags & 1 != 0)
        isDeleted = flags & 2 != 0
        if flags & 4 != 0 { answered = unpacker.instant() }
        guard let review = Review(unpacking: &unpacker) else { return nil }
        self.review = review
    }
}

extension ResponseID {
    var stateKey: DocumentKey { DocumentKey(.responseState, of: rawValue) }
}

extension DecisionFacts {
    /// The state of a response. Throws `noSuchResponse` if the project has no such response. A response exists under its own
    /// questionnaire alone, and until it or the questionnaire is deleted or the person is erased.
    func responseState(
        _ id: ResponseID, to questionnaire: QuestionnaireID?, in project: ProjectID
    ) throws(Refusal) -> ResponseState {
        guard let state = document(id.stateKey).flatMap({ ResponseState(id: id, packed: $0) }),
            state.project == project, state.questionnaire == questionnaire, !state.isDeleted, !isErased(state.owner),
            Questionnaire(state.questionnaire, self) != nil
        else { throw .noSuchResponse }
        return state
    }
}

extension Snapshot {
    /// The state of a response; nil if the response does not exist, or was deleted.
    package func responseState(_ id: ResponseID) throws(StoreFault) -> ResponseState? {
        try document(id.stateKey).flatMap { ResponseState(id: id, packed: $0) }.flatMap { $0.isDeleted ? nil : $0 }
    }

    /// The questions of a questionnaire as a response answered them; nil for a draft, and for a response from an older version
    /// of the server.
    package func answeredQuestions(_ state: ResponseState) throws(StoreFault) -> [UInt8]? {
        guard let answered = state.answered else { return nil }
        return try document(Questionnaire.answeredQuestionsKey(state.questionnaire, answered))
    }
}

extension Questionnaire {
    fileprivate var answeredQuestionsKey: DocumentKey { Questionnaire.answeredQuestionsKey(id, changedAt) }

    fileprivate static func answeredQuestionsKey(_ id: QuestionnaireID, _ changedAt: Instant) -> DocumentKey {
        DocumentKey(
            .answeredQuestions,
            hash: Hash128(
                high: UInt64(bitPattern: id.rawValue), low: UInt64(bitPattern: changedAt.milliseconds)))
    }

    /// The answers that fit the present questions. The questions may have changed after an answer.
    package func fitting(_ answers: [String: AnswerValue]) -> [String: AnswerValue] {
        answers.filter { answer in
            text.questions.first { $0.id == answer.key }.map { $0.fault(of: answer.value) == nil } ?? false
        }
    }
}

extension Questionnaire.Question {
    /// The reason why a value does not answer the question; nil for a valid answer.
    func fault(of value: AnswerValue) -> AnswerFault? {
        switch (kind, value) {
        case (_, .nothing): nil
        case (.text, .text(let text)): text.utf16.count <= Questionnaire.Question.textUnits ? nil : .tooLong(id)
        case (.text, _): .mustBeText(id)
        case (.singleChoice, .text(let option)): options.contains(option) ? nil : .mustBeOption(id)
        case (.singleChoice, _): .mustBeOption(id)
        case (.multiChoice, .choices(let choices)):
            Set(choices).count == choices.count && choices.allSatisfy(options.contains) ? nil : .mustBeOptions(id)
        case (.multiChoice, _): .mustBeOptions(id)
        case (.rating, .number(Questionnaire.Question.rating)), (.nps, .number(Questionnaire.Question.nps)): nil
        case (.rating, _): .mustBeInteger(id, Questionnaire.Question.rating)
        case (.nps, _): .mustBeInteger(id, Questionnaire.Question.nps)
        }
    }
}

extension DecisionFacts {
    /// The response that the store keeps for this holder, without its group.
    fileprivate func ownResponse(_ holder: Int64, _ questionnaire: QuestionnaireID) -> QuestionnaireResponse? {
        document(QuestionnaireResponse.key(holder, questionnaire)).flatMap(QuestionnaireResponse.init(packed:))
    }

    fileprivate func response(
        of person: PersonID, to questionnaire: QuestionnaireID, at now: Instant
    ) -> FoldedResponses.Response? {
        let folded: FoldedResponses = fold(.response, part: questionnaire.foldPart, of: group(of: person))
        return folded.response(at: now)
    }
}

extension QuestionnaireID {
    /// The part that distinguishes the folds of several questionnaires.
    var foldPart: UInt64 { UInt64(bitPattern: rawValue) }
}

extension Snapshot {
    /// The response of a person's group.
    package func response(
        of person: PersonID, to questionnaire: QuestionnaireID, at now: Instant
    ) throws(StoreFault) -> FoldedResponses.Response? {
        let folded: FoldedResponses = try fold(.response, part: questionnaire.foldPart, of: group(of: person))
        return folded.response(at: now)
    }

    /// The response without a user that has an id.
    package func response(
        _ id: ResponseID, of nobody: PersonID, to questionnaire: QuestionnaireID
    ) throws(StoreFault) -> FoldedResponses.Response? {
        try document(QuestionnaireResponse.key(id.rawValue, questionnaire))
            .flatMap(QuestionnaireResponse.init(packed:)).map { FoldedResponses.Response($0, of: nobody) }
    }

    /// Whether a person has dismissed all questionnaires.
    package func hasDismissedQuestionnaires(_ person: PersonID) throws(StoreFault) -> Bool {
        let properties: FoldedAttributes = try fold(.properties, of: group(of: person))
        return properties[Questionnaire.dismissalProperty] != nil
    }
}

extension Answered: Answer {
    package static let tags: [UInt8] = [ActKind.answer.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(at)
        packer.add(isFirst ? 1 : 0 as UInt8)
        packer.add(wasSubmitted ? 1 : 0 as UInt8)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let at = unpacker.instant(), let isFirst = unpacker.byte(),
            let wasSubmitted = unpacker.byte()
        else { return nil }
        self.init(
            id: ResponseID(rawValue: Int64(bitPattern: id)), at: at, isFirst: isFirst == 1,
            wasSubmitted: wasSubmitted == 1)
    }
}

extension Refusal {
    /// The server does not ask the user, so the call has nothing to answer.
    package static func notEligible(_ reason: Questionnaire.Ineligibility) -> Refusal {
        let message =
            switch reason {
            case .inactive: "The questionnaire is inactive."
            case .globallyDismissed: "The user has dismissed all questionnaires."
            case .alreadyResponded: "The user has answered this questionnaire."
            }
        return Refusal(.conflict, reason.rawValue, message)
    }

    package static let noSuchResponse = Refusal(.notFound, "not_found", "There is no response with this id.")

    /// An answer does not fit its question.
    package static func badAnswer(_ fault: AnswerFault) -> Refusal {
        Refusal(.invalid, "validation_error", fault.message)
    }
}

extension AnswerFault {
    /// One sentence for a person. It names the question.
    package var message: String {
        switch self {
        case .unknownQuestion(let id): "unknown question id \"\(id.prefix(100))\""
        case .isRequired(let id): "\"\(id)\" is required"
        case .mustBeText(let id): "\"\(id)\" must be a string"
        case .tooLong(let id): "\"\(id)\" must be at most \(Questionnaire.Question.textUnits) characters"
        case .mustBeOption(let id): "\"\(id)\" must be one of the options"
        case .mustBeOptions(let id): "\"\(id)\" must be an array of different options"
        case .mustBeInteger(let id, let range):
            "\"\(id)\" must be an integer \(range.lowerBound)-\(range.upperBound)"
        }
    }
}

extension ActKind {
    package static let answer = ActKind(23, "answer", undo: .never(.rowsStay))
    package static let reviewResponse = ActKind(154, "review_response", undo: .never(.rowsStay))
}
