/// The names of a project's funnels and metrics, by their slugs. They are one document of the project.
package struct Definitions: Equatable, Sendable {
    /// A sequence of steps of users.
    package struct Funnel: Equatable, Sendable {
        /// A step: its name, and the name that events use for it.
        package struct Step: Equatable, Sendable {
            package let name: String
            package let event: String

            package init(name: String, event: String) {
                self.name = name
                self.event = event
            }
        }

        package let name: String
        package let steps: [Step]

        package init(name: String, steps: [Step]) {
            self.name = name
            self.steps = steps
        }

        /// The limits of steps in a funnel.
        package static let steps = 1...20
    }

    package internal(set) var funnels: [String: Funnel] = [:]
    /// The names of metrics. Metrics without a name are counted too.
    package internal(set) var metrics: [String: String] = [:]

    package init() {}

    /// The limit of funnels, and of metrics, in a project.
    package static let limit = 200

    /// The key of the document with the definitions of a project.
    package static func key(of project: ProjectID) -> DocumentKey {
        DocumentKey(.definitions, of: Int64(project.rawValue))
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(funnels.count))
        for (slug, funnel) in funnels.sorted(by: { $0.key < $1.key }) {
            packer.add(slug)
            packer.add(funnel.name)
            packer.add(UInt64(funnel.steps.count))
            for step in funnel.steps {
                packer.add(step.name)
                packer.add(step.event)
            }
        }
        for (slug, name) in metrics.sorted(by: { $0.key < $1.key }) {
            packer.add(slug)
            packer.add(name)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let count = unpacker.integer() else { return nil }
        for _ in 0..<count {
            guard let slug = unpacker.text(), let name = unpacker.text(), let count = unpacker.integer() else {
                return nil
            }
            var steps: [Funnel.Step] = []
            for _ in 0..<count {
                guard let name = unpacker.text(), let event = unpacker.text() else { return nil }
                steps.append(Funnel.Step(name: name, event: event))
            }
            funnels[slug] = Funnel(name: name, steps: steps)
        }
        while !unpacker.isAtEnd {
            guard let slug = unpacker.text(), let name = unpacker.text() else { return nil }
            metrics[slug] = name
        }
    }
}

/// A call that defines or removes a funnel or a metric.
package struct Define: Act {
    /// The funnel or the metric of the call; nil inside a case removes the definition.
    package enum Subject: Equatable, Sendable {
        case funnel(Definitions.Funnel?)
        case metric(name: String?)
    }

    package let slug: String
    package let subject: Subject

    package init(slug: String, _ subject: Subject) {
        self.slug = slug
        self.subject = subject
    }
}

extension Define {
    package static var kinds: [ActKind] { [.define] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }

    /// Stores the definition in the project's document. Throws `tooManyDefinitions` at the limit, because each read of a
    /// funnel or a metric reads the whole document. An equal definition changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        let key = Definitions.key(of: project)
        let before = view.document(key).flatMap(Definitions.init(packed:)) ?? Definitions()
        var after = before
        switch subject {
        case .funnel(let funnel): after.funnels[slug] = funnel
        case .metric(let name): after.metrics[slug] = name
        }
        if max(after.funnels.count, after.metrics.count) > Definitions.limit { throw .tooManyDefinitions }
        guard after != before else { return Decision(Done()) }
        // The document belongs to no person.
        let change = Change.documentPut(key, PersonID(rawValue: 0), after.packed)
        return Decision(Done(), outcome: Outcome(kind: .define, person: nil, changes: [change]))
    }

    /// The approximate number of bytes of the call.
    package var byteCount: Int {
        guard case .funnel(let funnel?) = subject else { return 256 }
        return funnel.steps.reduce(256) { $0 + 16 + $1.name.utf8.count + $1.event.utf8.count }
    }
}

extension Refusal {
    package static let tooManyDefinitions = Refusal(
        .invalid, "too_many_definitions",
        "A project may define \(Definitions.limit) funnels and as many metrics; take one away first.",
        isJournalled: true)
}

extension ActKind {
    package static let define = ActKind(30, "define")
}
