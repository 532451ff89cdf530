package import Domain
package import JSON

/// A questionnaire as a JSON document (spec/native.md), in the form that several dialects share.
package enum QuestionnaireDocument {
    /// The kinds of questions, with their names in the document.
    package static let kinds: [(name: String, kind: Questionnaire.Question.Kind)] = [
        ("text", .text), ("single_choice", .singleChoice), ("multi_choice", .multiChoice), ("rating", .rating),
        ("nps", .nps),
    ]

    private static let textCharacters = 1000

    /// Reads a questionnaire. Unknown members are a fault.
    package static func read(_ root: JSONValue) throws(JSONFault) -> Questionnaire.Text {
        var name: String?
        var description: String?
        var isActive = true
        var questions: [Question]?
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            // These members have no meaning. They are allowed so that a caller can send an answer back unchanged.
            case "id", "slug", "made_at", "changed_at": _ = try value.string(at: key.shown)
            case "name": name = try text(value, at: "name")
            case "description": description = value.isNull ? nil : try text(value, at: "description")
            case "active": isActive = try value.bool(at: "active")
            case "schema": questions = try read(schema: value)
            default: throw JSONFault(.wrong("is not a field of a questionnaire"), at: key.shown)
            }
        }
        guard let name else { throw JSONFault(.wrong("is required"), at: "name") }
        guard let questions else { throw JSONFault(.wrong("is required"), at: "schema") }
        var questionnaire = Questionnaire.Text(
            name: name, description: description, schema: write(questions), questions: questions.map(\.question))
        questionnaire.isActive = isActive
        return questionnaire
    }

    /// Reads the questions of a questionnaire: their form for clients, and the rules for answers.
    package static func readSchema(
        _ schema: JSONValue
    ) throws(JSONFault) -> (schema: [UInt8], questions: [Questionnaire.Question]) {
        let questions = try read(schema: schema)
        return (write(questions), questions.map(\.question))
    }

    private static func read(schema: JSONValue) throws(JSONFault) -> [Question] {
        var questions: [Question] = []
        let path = "schema.questions"
        try schema.forEachMember(at: "schema") { key, value throws(JSONFault) in
            switch key {
            case "version":
                guard try value.integer(at: "schema.version") == 1 else {
                    throw JSONFault(.wrong("must be 1"), at: "schema.version")
                }
            case "questions":
                try value.forEachElement(at: path) { element throws(JSONFault) in
                    let place = "\(path)[\(questions.count)]"
                    let question = try Question(element, at: place)
                    guard !questions.contains(where: { $0.question.id == question.question.id }) else {
                        throw JSONFault(.wrong("is there twice"), at: "\(place).id")
                    }
                    questions.append(question)
                }
            default: throw JSONFault(.wrong("is not a field of a schema"), at: "schema.\(key.shown)")
            }
        }
        let limits = Questionnaire.questionLimits
        guard limits.contains(questions.count) else {
            throw JSONFault(.wrong("must have \(limits.lowerBound) to \(limits.upperBound) questions"), at: path)
        }
        return questions
    }

    /// A question, with its texts for readers.
    private struct Question {
        let question: Questionnaire.Question
        let title: String
        let subtitle: String?
        let placeholder: String?
        let isMultiline: Bool
        let options: [(id: String, label: String)]

        init(_ json: JSONValue, at path: String) throws(JSONFault) {
            var (id, kind, title): (String?, Questionnaire.Question.Kind?, String?) = (nil, nil, nil)
            var (subtitle, placeholder): (String?, String?) = (nil, nil)
            var (isRequired, isMultiline) = (false, false)
            var options: [(id: String, label: String)] = []
            try json.forEachMember(at: path) { key, value throws(JSONFault) in
                let place = "\(path).\(key.shown)"
                switch key {
                case "id": id = try QuestionnaireDocument.identifier(value, at: place)
                case "type": kind = try QuestionnaireDocument.kind(value, at: place)
                case "title": title = try QuestionnaireDocument.text(value, at: place)
                case "subtitle": subtitle = value.isNull ? nil : try QuestionnaireDocument.text(value, at: place)
                case "required": isRequired = try value.bool(at: place)
                case "placeholder": placeholder = value.isNull ? nil : try QuestionnaireDocument.text(value, at: place)
                case "multiline": isMultiline = try value.bool(at: place)
                case "options": options = try Question.options(value, at: place)
                case "scale":
                    guard try value.integer(at: place) == Questionnaire.Question.rating.upperBound else {
                        throw JSONFault(.wrong("must be \(Questionnaire.Question.rating.upperBound)"), at: place)
                    }
                default: throw JSONFault(.wrong("is not a field of a question"), at: place)
                }
            }
            guard let id else { throw JSONFault(.wrong("is required"), at: "\(path).id") }
            guard let kind else { throw JSONFault(.wrong("is required"), at: "\(path).type") }
            guard let title else { throw JSONFault(.wrong("is required"), at: "\(path).title") }
            let hasOptions = kind == .singleChoice || kind == .multiChoice
            let limits = Questionnaire.optionLimits
            if hasOptions, !limits.contains(options.count) {
                throw JSONFault(
                    .wrong("must have \(limits.lowerBound) to \(limits.upperBound) options"), at: "\(path).options")
            }
            if !hasOptions, !options.isEmpty {
                throw JSONFault(.wrong("may be given only for a choice"), at: "\(path).options")
            }
            (self.title, self.subtitle, self.placeholder) = (title, subtitle, placeholder)
            (self.isMultiline, self.options) = (isMultiline, options)
            question = Questionnaire.Question(id: id, kind, isRequired: isRequired, options: options.map(\.id))
        }

        private static func options(
            _ json: JSONValue, at path: String
        ) throws(JSONFault) -> [(id: String, label: String)] {
            var options: [(id: String, label: String)] = []
            try json.forEachElement(at: path) { element throws(JSONFault) in
                let place = "\(path)[\(options.count)]"
                var (id, label): (String?, String?) = (nil, nil)
                try element.forEachMember(at: place) { key, value throws(JSONFault) in
                    switch key {
                    case "id": id = try QuestionnaireDocument.identifier(value, at: "\(place).id")
                    case "label": label = try QuestionnaireDocument.text(value, at: "\(place).label")
                    default: throw JSONFault(.wrong("is not a field of an option"), at: "\(place).\(key.shown)")
                    }
                }
                guard let id else { throw JSONFault(.wrong("is required"), at: "\(place).id") }
                guard let label else { throw JSONFault(.wrong("is required"), at: "\(place).label") }
                guard !options.contains(where: { $0.id == id }) else {
                    throw JSONFault(.wrong("is there twice"), at: "\(place).id")
                }
                options.append((id, label))
            }
            return options
        }

        func write(_ json: inout JSONWriter) {
            json.key("id")
            json.string(question.id)
            json.key("type")
            json.string(kinds.first { $0.kind == question.kind }?.name ?? "")
            json.key("title")
            json.string(title)
            if let subtitle {
                json.key("subtitle")
                json.string(subtitle)
            }
            json.key("required")
            json.bool(question.isRequired)
            switch question.kind {
            case .text:
                if let placeholder {
                    json.key("placeholder")
                    json.string(placeholder)
                }
                json.key("multiline")
                json.bool(isMultiline)
            case .singleChoice, .multiChoice:
                json.key("options")
                json.array { json in
                    for option in options {
                        json.object { json in
                            json.key("id")
                            json.string(option.id)
                            json.key("label")
                            json.string(option.label)
                        }
                    }
                }
            case .rating:
                json.key("scale")
                json.integer(Questionnaire.Question.rating.upperBound)
            case .nps: break
            }
        }
    }

    /// Writes the questions in the form for clients.
    private static func write(_ questions: [Question]) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("version")
            json.integer(1)
            json.key("questions")
            json.array { json in
                for question in questions { json.object { question.write(&$0) } }
            }
        }
        return json.bytes
    }

    // MARK: - Values

    private static func kind(_ json: JSONValue, at path: String) throws(JSONFault) -> Questionnaire.Question.Kind {
        let text = try json.string(at: path)
        guard let kind = kinds.first(where: { $0.name == text })?.kind else {
            throw JSONFault(.wrong("must be one of \(kinds.map(\.name).joined(separator: ", "))"), at: path)
        }
        return kind
    }

    private static func text(_ json: JSONValue, at path: String) throws(JSONFault) -> String {
        let text = try json.string(at: path)
        guard (1...textCharacters).contains(text.unicodeScalars.count) else {
            throw JSONFault(.wrong("must have 1 to \(textCharacters) characters"), at: path)
        }
        return text
    }

    private static func identifier(_ json: JSONValue, at path: String) throws(JSONFault) -> String {
        let text = try json.string(at: path)
        guard Questionnaire.isName(text, allowing: "-_.ABCDEFGHIJKLMNOPQRSTUVWXYZ") else {
            throw JSONFault(.wrong("must have 1 to 100 letters, digits, -, _ and dots"), at: path)
        }
        return text
    }
}
