import Domain
import Gateway
import JSON

/// The numbers of the answers to each question of a questionnaire (spec/claim-reads.md 7).
struct AnswerFigures: RowFinding {
    private let questionnaire: Questionnaire
    private let labels: [String: [String: String]]
    /// The ids of the questions with free texts. Their answers are not counted by value: there can be as many texts as answers.
    private let texts: Set<String>
    private let now: Instant
    private let onlySubmitted: Bool
    private var responses = 0
    private var submitted = 0
    private var figures: [String: Figures] = [:]

    private struct Figures {
        var answered = 0
        var choices: [String: Int] = [:]
        var numbers: [Int64: Int] = [:]
        var recent: [(response: ResponseID, answer: String, at: Instant)] = []
    }

    private static let recentAnswers = 10

    init(of questionnaire: Questionnaire, at now: Instant, onlySubmitted: Bool) {
        (self.questionnaire, self.now, self.onlySubmitted) = (questionnaire, now, onlySubmitted)
        labels = AnswerFigures.labels(questionnaire.text.schema)
        texts = Set(questionnaire.text.questions.filter { $0.kind == .text }.map(\.id))
    }

    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let shown = try ResponseCalls.Shown(row, at: now, snapshot), shown.questionnaire == questionnaire.id,
            !onlySubmitted || shown.isSubmitted
        else { return true }
        responses += 1
        if shown.isSubmitted { submitted += 1 }
        for (question, value) in questionnaire.fitting(shown.response.answers) {
            var known = figures.removeValue(forKey: question) ?? Figures()
            known.answered += 1
            switch value {
            case .text(let text) where texts.contains(question):
                if known.recent.count < AnswerFigures.recentAnswers {
                    known.recent.append((shown.id, text, shown.response.madeAt))
                }
            case .text(let choice): known.choices[choice, default: 0] += 1
            case .choices(let choices): for choice in choices { known.choices[choice, default: 0] += 1 }
            case .number(let number): known.numbers[number, default: 0] += 1
            case .nothing, .other: preconditionFailure("Such an answer fits no question.")
            }
            figures[question] = known
        }
        return true
    }

    /// The labels of the options of each question, from the form for clients.
    private static func labels(_ schema: [UInt8]) -> [String: [String: String]] {
        var labels: [String: [String: String]] = [:]
        do throws(JSONFault) {
            try JSONParser().read(schema) { root throws(JSONFault) in
                try root.forEachMember(at: "") { key, value throws(JSONFault) in
                    guard "questions" ~= key else { return }
                    try value.forEachElement(at: "") { question throws(JSONFault) in
                        var (id, options): (String, [String: String]) = ("", [:])
                        try question.forEachMember(at: "") { key, value throws(JSONFault) in
                            if "id" ~= key { id = try value.string(at: "") }
                            guard "options" ~= key else { return }
                            try value.forEachElement(at: "") { option throws(JSONFault) in
                                var (name, label) = ("", "")
                                try option.forEachMember(at: "") { key, value throws(JSONFault) in
                                    if "id" ~= key { name = try value.string(at: "") }
                                    if "label" ~= key { label = try value.string(at: "") }
                                }
                                options[name] = label
                            }
                        }
                        labels[id] = options
                    }
                }
            }
        } catch {
            preconditionFailure("The server keeps valid questions only.")
        }
        return labels
    }

    // MARK: - Writing

    static let schema: [Schema.Property] = [
        .init("id", .string(), required: true), .init("type", .string(), required: true),
        .init("total_answered", .integer(), required: true), .init("recent_answers", .array(.object([]))),
        .init("choices", .array(.object([]))), .init("average", .anyOf([.number(), .null])),
        .init("buckets", .array(.object([]))), .init("score", .anyOf([.integer(), .null])),
        .init("detractors", .integer()), .init("passives", .integer()), .init("promoters", .integer()),
    ]

    func write(_ json: inout JSONWriter) {
        json.key("questionnaire_id")
        json.string(ClaimID.text(.questionnaire, questionnaire.id.rawValue))
        json.key("slug")
        json.string(questionnaire.slug)
        json.key("total_responses")
        json.integer(responses)
        json.key("submitted_count")
        json.integer(submitted)
        json.key("questions")
        json.array { json in
            for question in questionnaire.text.questions {
                json.object { write(question, figures[question.id] ?? Figures(), &$0) }
            }
        }
    }

    private func write(_ question: Questionnaire.Question, _ figures: Figures, _ json: inout JSONWriter) {
        json.key("id")
        json.string(question.id)
        json.key("type")
        json.string(QuestionnaireDocument.kinds.first { $0.kind == question.kind }?.name ?? "")
        json.key("total_answered")
        json.integer(figures.answered)
        switch question.kind {
        case .text:
            json.key("recent_answers")
            json.array { json in
                for answer in figures.recent {
                    json.object { json in
                        json.key("response_id")
                        json.string(ClaimID.text(.response, answer.response.rawValue))
                        json.key("answer")
                        json.string(answer.answer)
                        json.key("created_at")
                        json.moment(answer.at)
                    }
                }
            }
        case .singleChoice, .multiChoice:
            json.key("choices")
            json.array { json in
                for option in question.options {
                    json.object { json in
                        json.key("id")
                        json.string(option)
                        json.key("label")
                        json.string(labels[question.id]?[option] ?? option)
                        json.key("count")
                        json.integer(figures.choices[option] ?? 0)
                    }
                }
            }
        case .rating:
            let sum = figures.numbers.reduce(0.0) { $0 + Double($1.key) * Double($1.value) }
            json.key("average")
            json.rounded(figures.answered == 0 ? nil : sum / Double(figures.answered))
            write(Questionnaire.Question.rating, figures.numbers, &json)
        case .nps:
            func count(_ range: ClosedRange<Int64>) -> Int { range.reduce(0) { $0 + (figures.numbers[$1] ?? 0) } }
            let (detractors, passives, promoters) = (count(0...6), count(7...8), count(9...10))
            json.key("score")
            if figures.answered == 0 {
                json.null()
            } else {
                let score = Double(promoters - detractors) / Double(figures.answered) * 100
                json.integer(Int((score + 0.5).rounded(.down)))
            }
            for (name, number) in [("detractors", detractors), ("passives", passives), ("promoters", promoters)]
                as [(StaticString, Int)]
            {
                json.key(name)
                json.integer(number)
            }
            write(Questionnaire.Question.nps, figures.numbers, &json)
        }
    }

    private func write(_ values: ClosedRange<Int64>, _ counts: [Int64: Int], _ json: inout JSONWriter) {
        json.key("buckets")
        json.array { json in
            for value in values {
                json.object { json in
                    json.key("value")
                    json.integer(value)
                    json.key("count")
                    json.integer(counts[value] ?? 0)
                }
            }
        }
    }
}
