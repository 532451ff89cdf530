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
        /// The app whose users are asked; nil for the users of all apps.
        package var app: AppID?
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

    /// Whether an app asks its users.
    package func isAsked(by app: AppID?) -> Bool { text.app == nil || text.app == app }

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

/// A call that writes, deactivates or deletes a questionnaire.
package enum SetQuestionnaire: Act {
    case put(slug: String, Questionnaire.Text)
    /// Ends the questions to users. Earlier answers stay.
    case deactivate(slug: String)
    /// Makes a questionnaire that does not exist.
    case make(slug: String, Questionnaire.Text)
    case change(QuestionnaireID, Edit)
    /// Removes the questionnaire from all reads, with its answers.
    case delete(QuestionnaireID)

    /// The members that a call changes; nil for a member that stays.
    package struct Edit: Equatable, Sendable {
        package var name: String?
        /// An empty text removes the description.
        package var description: String?
        package var isActive: Bool?
        package var questions: (schema: [UInt8], questions: [Questionnaire.Question])?

        package init() {}

        package var isEmpty: Bool { self == Edit() }

        fileprivate func apply(to text: inout Questionnaire.Text) {
            if let name { text.name = name }
            if let description { text.description = description.isEmpty ? nil : description }
            if let isActive { text.isActive = isActive }
            if let questions { (text.schema, text.questions) = questions }
        }

        package static func == (one: Edit, other: Edit) -> Bool {
            one.name == other.name && one.description == other.description && one.isActive == other.isActive
                && one.questions?.schema == other.questions?.schema
        }
    }

    /// The approximate number of bytes of the call.
    package var byteCount: Int {
        switch self {
        case .put(_, let text), .make(_, let text): 512 + 2 * text.schema.count
        case .change(_, let change): 512 + 2 * (change.questions?.schema.count ?? 0)
        case .deactivate, .delete: 256
        }
    }
}

extension SetQuestionnaire {
    package static var kinds: [ActKind] { [.setQuestionnaire] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }

    /// Writes, deactivates or deletes a questionnaire. Throws `noSuchQuestionnaire` if the questionnaire to deactivate, to
    /// change or to delete does not exist, `questionnaireExists` if the questionnaire to make exists, and
    /// `tooManyQuestionnaires` at the project's limit. A changed questionnaire keeps its id, so earlier answers stay with it.
    /// The slug of a deleted questionnaire is free.
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
        case .delete(let id):
            let known = try list.questionnaire(id, view)
            list.entries.removeAll { $0.id == id }
            return Decision(
                known,
                outcome: Outcome(
                    kind: .setQuestionnaire, person: nil,
                    changes: [list.put, .documentPut(id.documentKey, .nobody, [])]))
        case .change(let id, let change):
            let known = try list.questionnaire(id, view)
            questionnaire = known
            change.apply(to: &questionnaire.text)
            if questionnaire == known { return Decision(known) }
        case .put(let slug, let text), .make(let slug, let text):
            if let known = list[slug].flatMap({ Questionnaire($0, view) }) {
                if case .make = self { throw .questionnaireExists(slug) }
                questionnaire = known
                questionnaire.text = text
                questionnaire.text.app = known.text.app
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

    /// The questionnaire with an id. Throws `noSuchQuestionnaire` if the project does not have it.
    fileprivate func questionnaire<V: DecisionFacts>(
        _ id: QuestionnaireID, _ view: V
    ) throws(Refusal) -> Questionnaire {
        guard entries.contains(where: { $0.id == id }), let known = Questionnaire(id, view) else {
            throw .noSuchQuestionnaire
        }
        return known
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
    package static let nobody = PersonID(rawValue: 0)
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
        packer.add((text.isActive ? 1 : 0) | (text.app == nil ? 0 : 2) as UInt8)
        if let app = text.app { packer.add(UInt64(bitPattern: app.rawValue)) }
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
            let flags = unpacker.byte(), case let app = flags & 2 != 0 ? unpacker.integer() : nil,
            let schema = unpacker.bytes()
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
        text.isActive = flags & 1 != 0
        text.app = app.map { AppID(rawValue: Int64(bitPattern: $0)) }
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

    /// The questionnaire with an id; nil if the project does not have it.
    package func questionnaire(
        _ id: QuestionnaireID, in project: ProjectID
    ) throws(StoreFault) -> Questionnaire? {
        let list = QuestionnaireList(of: project, packed: try document(QuestionnaireList.key(of: project)))
        guard list.entries.contains(where: { $0.id == id }), let packed = try document(id.documentKey) else {
            return nil
        }
        return Questionnaire(id: id, packed: packed)
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
    package static func questionnaireExists(_ slug: String) -> Refusal {
        Refusal(
            .conflict, "questionnaire_exists", "A questionnaire with slug \"\(slug)\" already exists in this project")
    }
    package static let tooManyQuestionnaires = Refusal(
        .invalid, "too_many_questionnaires",
        "A project can have at most \(Questionnaire.countPerProject) questionnaires.", isJournalled: true)
}

extension ActKind {
    package static let setQuestionnaire = ActKind(22, "set_questionnaire", undo: .facts(needs: .admin))
}
