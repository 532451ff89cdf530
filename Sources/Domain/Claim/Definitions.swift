/// A metric or a funnel that a project has defined (spec/claim-reads.md 4 and 5).
package struct Definition: Equatable, Sendable {
    package enum Kind: UInt8, Sendable {
        case metric = 1
        case funnel = 2
    }

    /// A step of a funnel: its name, and the condition for its events. At least one part of the condition is there.
    package struct Step: Equatable, Sendable {
        package let name: String
        /// The name that events use for the step.
        package let event: String?
        package let screen: String?

        package init(name: String, event: String?, screen: String? = nil) {
            self.name = name
            self.event = event
            self.screen = screen
        }
    }

    /// The parts of a definition that a call sets.
    package struct Content: Equatable, Sendable {
        package var name: String
        package var description: String?
        package var documentation: String?
        /// The objects of a metric, as JSON.
        package var schema: [UInt8]?
        package var rules: [UInt8]?
        /// The steps of a funnel.
        package var steps: [Step]

        package init(name: String, steps: [Step] = []) {
            self.name = name
            self.steps = steps
        }

        var byteCount: Int {
            let texts = name.utf8.count + (description?.utf8.count ?? 0) + (documentation?.utf8.count ?? 0)
            let objects = (schema?.count ?? 0) + (rules?.count ?? 0)
            return steps.reduce(256 + texts + objects) {
                $0 + 32 + $1.name.utf8.count + ($1.event?.utf8.count ?? 0) + ($1.screen?.utf8.count ?? 0)
            }
        }
    }

    package let id: Int64
    package let kind: Kind
    package let slug: String
    package internal(set) var content: Content
    package let madeAt: Instant
    package internal(set) var changedAt: Instant

    /// The limits of steps in a funnel.
    package static let steps = 1...20

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id))
        packer.add(kind.rawValue)
        packer.add(slug)
        packer.add(madeAt)
        packer.add(changedAt)
        packer.add(content.name)
        for text in [content.description, content.documentation] { packer.add(text.map { Array($0.utf8) }) }
        for object in [content.schema, content.rules] { packer.add(object) }
        for step in content.steps {
            packer.add(step.name)
            for text in [step.event, step.screen] { packer.add(text.map { Array($0.utf8) }) }
        }
        return packer.bytes
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let kind = unpacker.byte().flatMap(Kind.init), let slug = unpacker.text(),
            let madeAt = unpacker.instant(), let changedAt = unpacker.instant(), let name = unpacker.text(),
            let description = unpacker.optionalBytes(), let documentation = unpacker.optionalBytes(),
            let schema = unpacker.optionalBytes(), let rules = unpacker.optionalBytes()
        else { return nil }
        var content = Content(name: name)
        content.description = description.map { String(decoding: $0, as: UTF8.self) }
        content.documentation = documentation.map { String(decoding: $0, as: UTF8.self) }
        (content.schema, content.rules) = (schema, rules)
        while !unpacker.isAtEnd {
            guard let name = unpacker.text(), let event = unpacker.optionalBytes(),
                let screen = unpacker.optionalBytes()
            else { return nil }
            content.steps.append(
                Step(
                    name: name, event: event.map { String(decoding: $0, as: UTF8.self) },
                    screen: screen.map { String(decoding: $0, as: UTF8.self) }))
        }
        self.init(
            id: Int64(bitPattern: id), kind: kind, slug: slug, content: content, madeAt: madeAt, changedAt: changedAt)
    }

    init(id: Int64, kind: Kind, slug: String, content: Content, madeAt: Instant, changedAt: Instant) {
        (self.id, self.kind, self.slug, self.content) = (id, kind, slug, content)
        (self.madeAt, self.changedAt) = (madeAt, changedAt)
    }
}

/// The list of a project's definitions. Each definition is a document of its own.
package struct Definitions: Equatable, Sendable {
    struct Entry: Equatable {
        let kind: Definition.Kind
        let slug: String
        let id: Int64
        /// A deleted slug keeps its id for a new definition.
        var isDeleted: Bool
    }

    private(set) var entries: [Entry]
    /// The definitions that an older version stored inside the list.
    private var former: [Int64: Definition]

    /// The limit of metrics, and of funnels, in a project.
    package static let limit = 200
    /// The limit of slugs in the list, with the deleted ones.
    private static let slugs = 2000

    /// Reads the list of a project.
    ///
    /// - Parameters:
    ///   - project: the project.
    ///   - document: reads a document.
    package init<Fault: Error>(of project: ProjectID, _ document: (DocumentKey) throws(Fault) -> [UInt8]?) throws(Fault)
    {
        (entries, former) = ([], [:])
        if let packed = try document(DocumentKey(.definitionList, of: Int64(project.rawValue))) {
            var unpacker = Unpacker(packed)
            while let kind = unpacker.byte().flatMap(Definition.Kind.init), let slug = unpacker.text(),
                let id = unpacker.integer(), let isDeleted = unpacker.byte()
            {
                entries.append(
                    Entry(kind: kind, slug: slug, id: Int64(bitPattern: id), isDeleted: isDeleted == 1))
            }
        } else if let packed = try document(DocumentKey(.definitions, of: Int64(project.rawValue))) {
            readFormer(packed)
        }
    }

    /// Reads the document in which older versions stored all definitions of a project.
    private mutating func readFormer(_ packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        func add(_ kind: Definition.Kind, _ slug: String, _ content: Definition.Content) {
            let id = Int64(entries.count + 1)
            entries.append(Entry(kind: kind, slug: slug, id: id, isDeleted: false))
            let moment = Instant(milliseconds: 0)
            former[id] = Definition(
                id: id, kind: kind, slug: slug, content: content, madeAt: moment, changedAt: moment)
        }
        for _ in 0..<(unpacker.integer() ?? 0) {
            guard let slug = unpacker.text(), let name = unpacker.text(), let count = unpacker.integer() else { return }
            var steps: [Definition.Step] = []
            for _ in 0..<count {
                guard let name = unpacker.text(), let event = unpacker.text() else { return }
                steps.append(Definition.Step(name: name, event: event))
            }
            add(.funnel, slug, Definition.Content(name: name, steps: steps))
        }
        while !unpacker.isAtEnd {
            guard let slug = unpacker.text(), let name = unpacker.text() else { return }
            add(.metric, slug, Definition.Content(name: name))
        }
    }

    func id(_ kind: Definition.Kind, _ slug: String) -> Int64? {
        entries.first { $0.kind == kind && $0.slug == slug && !$0.isDeleted }?.id
    }

    /// The ids of the definitions of a kind.
    package func ids(_ kind: Definition.Kind) -> [Int64] {
        entries.filter { $0.kind == kind && !$0.isDeleted }.map(\.id)
    }

    /// The id of a new definition: the former id of a deleted slug, or else the given id.
    mutating func add(_ kind: Definition.Kind, _ slug: String, id: Int64) -> Int64 {
        if let place = entries.firstIndex(where: { $0.kind == kind && $0.slug == slug }) {
            entries[place].isDeleted = false
            return entries[place].id
        }
        if entries.count >= Definitions.slugs, let oldest = entries.firstIndex(where: \.isDeleted) {
            entries.remove(at: oldest)
        }
        entries.append(Entry(kind: kind, slug: slug, id: id, isDeleted: false))
        return id
    }

    mutating func remove(_ kind: Definition.Kind, _ slug: String) {
        if let place = entries.firstIndex(where: { $0.kind == kind && $0.slug == slug }) {
            entries[place].isDeleted = true
        }
    }

    /// The definition with an id; nil if it does not exist.
    ///
    /// - Parameters:
    ///   - id: the id, as the list names it.
    ///   - document: reads a document.
    package func definition<Fault: Error>(
        _ id: Int64, _ document: (DocumentKey) throws(Fault) -> [UInt8]?
    ) throws(Fault) -> Definition? {
        if let former = former[id] { return former }
        return try document(Definitions.key(of: id)).flatMap(Definition.init(packed:))
    }

    static func key(of id: Int64) -> DocumentKey { DocumentKey(.definition, of: id) }

    /// The list's document, and the documents of definitions that an older version stored inside the list. They belong to no
    /// person.
    func puts(in project: ProjectID) -> [Change] {
        var packer = Packer()
        for entry in entries {
            packer.add(entry.kind.rawValue)
            packer.add(entry.slug)
            packer.add(UInt64(bitPattern: entry.id))
            packer.add(entry.isDeleted ? 1 : 0 as UInt8)
        }
        let list = Change.documentPut(
            DocumentKey(.definitionList, of: Int64(project.rawValue)), .nobody, packer.bytes)
        let moved = former.sorted { $0.key < $1.key }.map { id, definition in
            Change.documentPut(Definitions.key(of: id), .nobody, definition.packed)
        }
        return moved + [list]
    }
}

extension Snapshot {
    /// The definitions of a kind, the newest first.
    package func definitions(
        _ kind: Definition.Kind, of project: ProjectID
    ) throws(StoreFault) -> [Definition] {
        let list = try Definitions(of: project) { key throws(StoreFault) in try document(key) }
        var definitions: [Definition] = []
        for id in list.ids(kind) {
            guard let found = try list.definition(id, { key throws(StoreFault) in try document(key) }) else { continue }
            definitions.append(found)
        }
        return definitions.sorted { ($1.madeAt, $1.id) < ($0.madeAt, $0.id) }
    }

    /// The definition with a slug; nil if it does not exist.
    package func definition(
        _ kind: Definition.Kind, _ slug: String, of project: ProjectID
    ) throws(StoreFault) -> Definition? {
        let list = try Definitions(of: project) { key throws(StoreFault) in try document(key) }
        guard let id = list.id(kind, slug) else { return nil }
        return try list.definition(id) { key throws(StoreFault) in try document(key) }
    }
}

/// A call that defines, changes or removes a metric or a funnel.
package struct Define: Act {
    package enum Edit: Equatable, Sendable {
        /// Makes the definition, or replaces its name and steps.
        case put(Definition.Content)
        /// Makes a definition that does not exist.
        case make(Definition.Content)
        case change(Change)
        /// Removes the definition, if it exists.
        case remove
        /// Removes the definition, which must exist.
        case delete

        /// The members that a call changes; nil for a member that stays. An empty value removes a text or an object.
        package struct Change: Equatable, Sendable {
            package var name: String?
            package var description: String?
            package var documentation: String?
            package var schema: [UInt8]?
            package var rules: [UInt8]?
            package var steps: [Definition.Step]?

            package init() {}
        }
    }

    package let kind: Definition.Kind
    package let slug: String
    package let edit: Edit

    package init(_ kind: Definition.Kind, slug: String, _ edit: Edit) {
        self.kind = kind
        self.slug = slug
        self.edit = edit
    }
}

/// The answer to ``Define``: the definition; nil after a removal.
package struct Defined: Equatable, Sendable {
    package let definition: Definition?
}

extension Define {
    package static var kinds: [ActKind] { [.define] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }

    /// Stores the definition. Throws `tooManyDefinitions` at the limit, because a list reads all definitions;
    /// `noSuchMetric` or `noSuchFunnel` if the definition to change does not exist; `metricExists` or `funnelExists` if the
    /// definition to make exists. An equal definition changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Defined> {
        var list = Definitions(of: project) { view.document($0) }
        let former = list.id(kind, slug).flatMap { id in list.definition(id) { view.document($0) } }
        var content: Definition.Content
        switch edit {
        case .remove, .delete:
            guard former != nil else {
                if edit == .remove { return Decision(Defined(definition: nil)) }
                throw missing
            }
            list.remove(kind, slug)
            return Decision(
                Defined(definition: nil),
                outcome: Outcome(kind: .define, person: nil, changes: list.puts(in: project)))
        case .make(let made):
            guard former == nil else { throw kind == .metric ? .metricExists : .funnelExists }
            content = made
        case .put(let put):
            content = former?.content ?? put
            (content.name, content.steps) = (put.name, put.steps)
        case .change(let change):
            guard let former else { throw missing }
            content = former.content
            change.apply(to: &content)
        }
        if let former, former.content == content { return Decision(Defined(definition: former)) }
        if former == nil, list.ids(kind).count >= Definitions.limit { throw .tooManyDefinitions }
        let id = list.add(kind, slug, id: stamp.person.rawValue)
        let definition = Definition(
            id: id, kind: kind, slug: slug, content: content, madeAt: former?.madeAt ?? stamp.at, changedAt: stamp.at)
        let put = Change.documentPut(Definitions.key(of: id), .nobody, definition.packed)
        return Decision(
            Defined(definition: definition),
            outcome: Outcome(kind: .define, person: nil, changes: list.puts(in: project) + [put]))
    }

    private var missing: Refusal { kind == .metric ? .noSuchMetric : .noSuchFunnel }

    /// The approximate number of bytes of the call.
    package var byteCount: Int {
        switch edit {
        case .put(let content), .make(let content): content.byteCount
        case .change(let change):
            256 + (change.documentation?.utf8.count ?? 0) + (change.schema?.count ?? 0) + (change.rules?.count ?? 0)
                + (change.steps?.count ?? 0) * 512
        case .remove, .delete: 256
        }
    }
}

extension Define.Edit.Change {
    fileprivate func apply(to content: inout Definition.Content) {
        if let name { content.name = name }
        if let description { content.description = description.isEmpty ? nil : description }
        if let documentation { content.documentation = documentation.isEmpty ? nil : documentation }
        if let schema { content.schema = schema.isEmpty ? nil : schema }
        if let rules { content.rules = rules.isEmpty ? nil : rules }
        if let steps { content.steps = steps }
    }
}

extension Defined: Answer {
    package static let tags: [UInt8] = [150]

    package func pack(into packer: inout Packer) { packer.add(definition?.packed) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let packed = unpacker.optionalBytes() else { return nil }
        definition = packed.flatMap(Definition.init(packed:))
        if packed != nil, definition == nil { return nil }
    }
}

extension Packer {
    /// Adds bytes that may be missing.
    mutating func add(_ bytes: [UInt8]?) {
        add(bytes == nil ? 0 : 1 as UInt8)
        if let bytes { add(bytes) }
    }
}

extension Unpacker {
    /// Reads bytes that may be missing; the outer nil means that the input is invalid.
    mutating func optionalBytes() -> [UInt8]?? {
        switch byte() {
        case 0: .some(nil)
        case 1: bytes().map { .some($0) }
        default: nil
        }
    }
}

extension Refusal {
    package static let tooManyDefinitions = Refusal(
        .invalid, "too_many_definitions",
        "A project may define \(Definitions.limit) funnels and as many metrics; take one away first.",
        isJournalled: true)
    package static let noSuchMetric = Refusal(.notFound, "no_such_metric", "The project has no metric with this slug.")
    package static let noSuchFunnel = Refusal(.notFound, "no_such_funnel", "The project has no funnel with this slug.")
    package static let metricExists = Refusal(
        .conflict, "metric_exists", "The project has a metric with this slug.")
    package static let funnelExists = Refusal(
        .conflict, "funnel_exists", "The project has a funnel with this slug.")
}

extension ActKind {
    package static let define = ActKind(30, "define", undo: .facts(needs: .admin))
}
