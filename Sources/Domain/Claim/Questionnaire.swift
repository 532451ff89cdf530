/// Questions of an app to its users (spec/claim.md 1.7).
package struct Questionnaire: Equatable, Sendable {
    package let id: QuestionnaireID
    package let slug: String
    package let madeAt: Instant
    package fileprivate(set) var changedAt: Instant
    package fileprivate(set) var text: Text

    /// The content of a questionnaire, as an administrator wrote it.
    package struct Text: Equatable, Sendable {
        package var name: String
        package var description: String?
        package var isActive = true
        /// The questions in the form for clients: a JSON object.
        package var schema: [UInt8]
        /// The same questions, in the form that checks answers.
        package var questions: [Question]

        package init(name: String, description: String?, schema: [UInt8], questions: [Question]) {
            self.name = name
            self.description = description
            self.schema = schema
            self.questions = questions
        }
    }

    /// One question of a questionnaire, with the rules for its answers.
    package struct Question: Equatable, Sendable {
        /// The kind of a question's answers. Stores keep the raw values, so a raw value never changes.
        package enum Kind: UInt8, CaseIterable, Sendable {
            case text = 1
            case singleChoice = 2
            case multiChoice = 3
            case rating = 4
            case nps = 5
        }

        package let id: String
        package let kind: Kind
        package let isRequired: Bool
        /// The ids of the options.
        package let options: [String]

        package init(id: String, _ kind: Kind, isRequired: Bool, options: [String] = []) {
            self.id = id
            self.kind = kind
            self.isRequired = isRequired
            self.options = options
        }

        package static let rating: ClosedRange<Int64> = 1...5
        package static let nps: ClosedRange<Int64> = 0...10
        package static let textUnits = 4000
    }

    /// The reason why the server does not ask a user.
    package enum Ineligibility: String, Sendable {
        case inactive
        case globallyDismissed = "globally_dismissed"
        case alreadyResponded = "already_responded"
    }

    package static let questionLimits = 1...30
    package static let optionLimits = 2...20
    package static let countPerProject = 200

    /// The property with the moment at which a user dismissed all questionnaires.
    package static let dismissalProperty = "_questionnaires_dismissed_at"

    /// Whether a text is valid as a slug, or as the id of a question or an option.
    package static func isName(_ text: String, allowing others: String) -> Bool {
        let others = others.utf8
        let isFit = text.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || others.contains(byte)
        }
        return isFit && (1...100).contains(text.utf8.count)
    }
}

/// The id of a questionnaire. The server never reuses it.
package struct QuestionnaireID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    var documentKey: DocumentKey { DocumentKey(.questionnaire, of: rawValue) }
}

/// A call that writes or deactivates a questionnaire.
package enum SetQuestionnaire: Act {
    case put(slug: String, Questionnaire.Text)
    /// Ends the questions to users. Earlier answers stay.
    case deactivate(slug: String)

    /// The approximate number of bytes of the call.
    package var byteCount: Int {
        switch self {
        case .put(_, let text): 512 + 2 * text.schema.count
        case .deactivate: 256
        }
    }
}

extension SetQuestionnaire {
    package static var kinds: [ActKind] { [.setQuestionnaire] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }

    /// Writes or deactivates the questionnaire with the slug. Throws `noSuchQuestionnaire` for the deactivation of an unknown
    /// slug, and `tooManyQuestionnaires` at the project's limit. A changed questionnaire keeps its id, so earlier answers
    /// stay with it.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Questionnaire> {
        var list = QuestionnaireList(of: project, packed: view.document(QuestionnaireList.key(of: project)))
        var questionnaire: Questionnaire
        var changes: [Change] = []
        switch self {
        case .deactivate(let slug):
            guard let known = list[slug].flatMap({ Questionnaire($0, view) }) else { throw .noSuchQuestionnaire }
            questionnaire = known
            questionnaire.text.isActive = false
            if questionnaire == known { return Decision(known) }
        case .put(let slug, let text):
            if let known = list[slug].flatMap({ Questionnaire($0, view) }) {
                questionnaire = known
                questionnaire.text = text
                if questionnaire == known { return Decision(known) }
            } else {
                guard list.entries.count < Questionnaire.countPerProject else { throw .tooManyQuestionnaires }
                let id = QuestionnaireID(rawValue: stamp.person.rawValue)
                questionnaire = Questionnaire(id: id, slug: slug, madeAt: stamp.at, changedAt: stamp.at, text: text)
                list.entries.append((slug, id))
                changes.append(list.put)
            }
        }
        questionnaire.changedAt = stamp.at
        changes.append(questionnaire.put)
        return Decision(
            questionnaire,
            outcome: Outcome(kind: .setQuestionnaire, person: nil, changes: changes))
    }
}

/// The questionnaires of a project, in the order of their creation.
struct QuestionnaireList {
    let project: ProjectID
    var entries: [(slug: String, id: QuestionnaireID)] = []

    subscript(slug: String) -> QuestionnaireID? { entries.first { $0.slug == slug }?.id }

    init(of project: ProjectID, packed: [UInt8]?) {
        self.project = project
        var unpacker = Unpacker(packed ?? [])
        while let slug = unpacker.text(), let id = unpacker.integer() {
            entries.append((slug, QuestionnaireID(rawValue: Int64(bitPattern: id))))
        }
    }

    static func key(of project: ProjectID) -> DocumentKey { DocumentKey(.questionnaires, of: Int64(project.rawValue)) }

    var put: Change {
        var packer = Packer()
        for (slug, id) in entries {
            packer.add(slug)
            packer.add(UInt64(bitPattern: id.rawValue))
        }
        return .documentPut(QuestionnaireList.key(of: project), .nobody, packer.bytes)
    }
}

extension PersonID {
    /// The person of documents that belong to a project.
    static let nobody = PersonID(rawValue: 0)
}

extension Questionnaire {
    init?<V: DecisionFacts>(_ id: QuestionnaireID, _ view: V) {
        guard let packed = view.document(id.documentKey) else { return nil }
        self.init(id: id, packed: packed)
    }

    var put: Change { .documentPut(id.documentKey, .nobody, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(slug)
        packer.add(madeAt)
        packer.add(changedAt)
        packer.add(text.name)
        packer.add(text.description == nil ? 0 : 1 as UInt8)
        if let description = text.description { packer.add(description) }
        packer.add(text.isActive ? 1 : 0 as UInt8)
        packer.add(text.schema)
        for question in text.questions {
            packer.add(question.id)
            packer.add(question.kind.rawValue)
            packer.add(question.isRequired ? 1 : 0 as UInt8)
            packer.add(UInt64(question.options.count))
            for option in question.options { packer.add(option) }
        }
        return packer.bytes
    }

    package init?(id: QuestionnaireID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let slug = unpacker.text(), let madeAt = unpacker.instant(), let changedAt = unpacker.instant(),
            let name = unpacker.text(), let hasDescription = unpacker.byte(),
            case let description = hasDescription == 1 ? unpacker.text() : nil,
            let isActive = unpacker.byte(), let schema = unpacker.bytes()
        else { return nil }
        var questions: [Question] = []
        while !unpacker.isAtEnd {
            guard let id = unpacker.text(), let kind = unpacker.byte().flatMap(Question.Kind.init),
                let isRequired = unpacker.byte(), let count = unpacker.integer()
            else { return nil }
            var options: [String] = []
            for _ in 0..<count {
                guard let option = unpacker.text() else { return nil }
                options.append(option)
            }
            questions.append(Question(id: id, kind, isRequired: isRequired == 1, options: options))
        }
        var text = Text(name: name, description: description, schema: schema, questions: questions)
        text.isActive = isActive == 1
        self.init(id: id, slug: slug, madeAt: madeAt, changedAt: changedAt, text: text)
    }
}

extension DecisionFacts {
    func questionnaire(_ slug: String, in project: ProjectID) -> Questionnaire? {
        let list = QuestionnaireList(of: project, packed: document(QuestionnaireList.key(of: project)))
        return list[slug].flatMap { Questionnaire($0, self) }
    }
}

extension Snapshot {
    /// The questionnaires of a project, in the order of their creation.
    package func questionnaires(in project: ProjectID) throws(StoreFault) -> [Questionnaire] {
        let list = QuestionnaireList(of: project, packed: try document(QuestionnaireList.key(of: project)))
        var questionnaires: [Questionnaire] = []
        for (_, id) in list.entries {
            guard let packed = try document(id.documentKey), let one = Questionnaire(id: id, packed: packed)
            else { continue }
            questionnaires.append(one)
        }
        return questionnaires
    }

    /// The questionnaire with a slug; nil if the project has none.
    package func questionnaire(_ slug: String, in project: ProjectID) throws(StoreFault) -> Questionnaire? {
        let list = QuestionnaireList(of: project, packed: try document(QuestionnaireList.key(of: project)))
        guard let id = list[slug], let packed = try document(id.documentKey) else { return nil }
        return Questionnaire(id: id, packed: packed)
    }
}

extension Questionnaire: Answer {
    package static let tags: [UInt8] = [ActKind.setQuestionnaire.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(packed)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer(), let packed = unpacker.bytes() else { return nil }
        self.init(id: QuestionnaireID(rawValue: Int64(bitPattern: id)), packed: packed)
    }
}

extension Refusal {
    package static let noSuchQuestionnaire = Refusal(
        .notFound, "not_found", "There is no questionnaire with this slug.")
    package static let tooManyQuestionnaires = Refusal(
        .invalid, "too_many_questionnaires",
        "A project can have at most \(Questionnaire.countPerProject) questionnaires.", isJournalled: true)
}

extension ActKind {
    package static let setQuestionnaire = ActKind(22, "set_questionnaire")
}
