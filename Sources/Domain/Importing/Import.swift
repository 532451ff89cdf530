/// The progress of an import. One document has it, and each batch changes the document together with its facts.
package struct Import: Equatable, Sendable {
    package enum State: UInt8, Sendable {
        case running = 0
        case finished = 1
        case undone = 2

        package var name: StaticString {
            switch self {
            case .running: "running"
            case .finished: "finished"
            case .undone: "undone"
            }
        }
    }

    /// The treatment of a record whose identity another person holds.
    package enum OnConflict: UInt8, CaseIterable, Sendable {
        case refuse = 0
        case join = 1

        package var name: String { self == .refuse ? "refuse" : "join" }
    }

    /// A place in the source of an import.
    package struct Place: Equatable, Sendable {
        /// The number of bytes before the place, without compression.
        package var position: UInt64
        /// The number of lines before the place.
        package var line: UInt64
        /// The CRC-32 of the bytes before the place.
        package var crc: UInt32

        package init(position: UInt64 = 0, line: UInt64 = 0, crc: UInt32 = 0) {
            (self.position, self.line, self.crc) = (position, line, crc)
        }
    }

    package let id: ImportID
    package let project: ProjectID
    package let name: String
    /// The vendor of the file, or the name of another form.
    package let form: String
    package let onConflict: OnConflict
    package let startedAt: Instant
    /// The last call of the journal before the import.
    package let since: JournalSequence
    package internal(set) var state = State.running
    package internal(set) var changedAt: Instant
    package internal(set) var place = Place()
    /// The numbers of records, by their kinds and their results.
    package internal(set) var counts = ImportCounts()

    package init(
        _ id: ImportID, in project: ProjectID, name: String, form: String, onConflict: OnConflict, at moment: Instant,
        since: JournalSequence
    ) {
        self.id = id
        self.project = project
        self.name = name
        self.form = form
        self.onConflict = onConflict
        startedAt = moment
        changedAt = moment
        self.since = since
    }

    package static let nameBytes = 1...255
    package static let recordsPerBatch = 4096
    /// The number of imports of a project that the server lists. Older ones are found by their ids.
    package static let listedAtMost = 1000

    /// The key of the document with an import.
    package static func key(_ id: ImportID) -> DocumentKey { DocumentKey(.importProgress, of: id.rawValue) }

    /// The key of the document with the ids of a project's imports.
    package static func listKey(_ project: ProjectID) -> DocumentKey {
        DocumentKey(.importList, of: Int64(project.rawValue))
    }

    var put: Change { .documentPut(Import.key(id), .nobody, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(1 as UInt8)
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(name)
        packer.add(form)
        packer.add(onConflict.rawValue)
        packer.add(startedAt)
        packer.add(UInt64(bitPattern: since.rawValue))
        packer.add(state.rawValue)
        packer.add(changedAt)
        packer.add(place.position)
        packer.add(place.line)
        packer.add(UInt64(place.crc))
        counts.pack(into: &packer)
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard unpacker.byte() == 1, let id = unpacker.integer(), let project = unpacker.integer(),
            let name = unpacker.text(), let form = unpacker.text(),
            let onConflict = unpacker.byte().flatMap(OnConflict.init), let startedAt = unpacker.instant(),
            let since = unpacker.integer(), let state = unpacker.byte().flatMap(State.init),
            let changedAt = unpacker.instant(), let position = unpacker.integer(), let line = unpacker.integer(),
            let crc = unpacker.integer(), let counts = ImportCounts(unpacking: &unpacker)
        else { return nil }
        self.init(
            ImportID(rawValue: Int64(bitPattern: id)),
            in: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), name: name, form: form,
            onConflict: onConflict, at: startedAt, since: JournalSequence(rawValue: Int64(bitPattern: since)))
        self.state = state
        self.changedAt = changedAt
        place = Place(position: position, line: line, crc: UInt32(truncatingIfNeeded: crc))
        self.counts = counts
    }
}

/// The id of an import. The server never reuses it.
package struct ImportID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package var text: String { "i_\(rawValue)" }

    package init?(text: String) {
        guard text.hasPrefix("i_"), let id = Int64(text.dropFirst(2)), "i_\(id)" == text else { return nil }
        rawValue = id
    }
}

/// The numbers of an import's records, by their kinds and their results.
package struct ImportCounts: Equatable, Sendable {
    private var counts: [UInt16: UInt64] = [:]

    package init() {}

    mutating func add(_ kind: ImportRecord.Kind, _ outcome: ImportOutcome) {
        counts[UInt16(kind.number) << 8 | UInt16(outcome.number), default: 0] += 1
    }

    /// The numbers, in a fixed order.
    package var all: [(kind: ImportRecord.Kind, outcome: ImportOutcome, count: UInt64)] {
        counts.sorted { $0.key < $1.key }.compactMap { key, count in
            guard let kind = ImportRecord.Kind(number: UInt8(key >> 8)),
                let outcome = ImportOutcome(number: UInt8(key & 0xFF))
            else { return nil }
            return (kind, outcome, count)
        }
    }

    /// The number of records whose results have a property.
    package func count(_ matches: (ImportOutcome) -> Bool) -> UInt64 {
        all.reduce(0) { matches($1.outcome) ? $0 + $1.count : $0 }
    }

    func pack(into packer: inout Packer) {
        packer.add(UInt64(counts.count))
        for (key, count) in counts.sorted(by: { $0.key < $1.key }) {
            packer.add(UInt64(key))
            packer.add(count)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let number = unpacker.integer(), number <= 1 << 16 else { return nil }
        for _ in 0..<number {
            guard let key = unpacker.integer(), let count = unpacker.integer() else { return nil }
            counts[UInt16(truncatingIfNeeded: key)] = count
        }
    }
}

extension ImportRecord.Kind {
    /// The number under which stores keep the kind. It never changes.
    var number: UInt8 {
        switch self {
        case .person: 1
        case .link: 2
        case .property: 3
        case .row: 4
        case .purchase: 5
        case .grant: 6
        case .install: 7
        case .alias: 8
        case .merge: 9
        case .split: 10
        }
    }

    init?(number: UInt8) {
        guard let kind = ImportRecord.Kind.allCases.first(where: { $0.number == number }) else { return nil }
        self = kind
    }
}

/// A call that begins an import.
package struct StartImport: Act {
    package let name: String
    package let form: String
    package let onConflict: Import.OnConflict
    /// The last call of the journal before the import.
    package let since: JournalSequence

    package init(name: String, form: String, onConflict: Import.OnConflict, since: JournalSequence) {
        (self.name, self.form, self.onConflict, self.since) = (name, form, onConflict, since)
    }

    package static var kinds: [ActKind] { [.startImport] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Makes the import, and adds it to the project's list. Throws nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<ImportShown> {
        let made = Import(
            ImportID(rawValue: stamp.person.rawValue), in: project, name: name, form: form, onConflict: onConflict,
            at: stamp.at, since: since)
        var list = ImportList(packed: view.document(Import.listKey(project)))
        list.ids.append(made.id)
        list.ids.removeFirst(max(0, list.ids.count - Import.listedAtMost))
        return Decision(
            ImportShown(made),
            outcome: Outcome(
                kind: .startImport, person: nil,
                changes: [made.put, .documentPut(Import.listKey(project), .nobody, list.packed)]))
    }
}

/// A call that ends an import.
package struct FinishImport: Act {
    package let id: ImportID
    package init(_ id: ImportID) { self.id = id }

    package static var kinds: [ActKind] { [.finishImport] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Notes that the import is complete. Throws `noSuchImport`. A repeated call changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<ImportShown> {
        var shown = try view.importing(id, in: project)
        guard shown.state == .running else { return Decision(ImportShown(shown)) }
        shown.state = .finished
        shown.changedAt = stamp.at
        return Decision(
            ImportShown(shown), outcome: Outcome(kind: .finishImport, person: nil, changes: [shown.put]))
    }
}

/// The answer to calls about an import: its progress.
package struct ImportShown: Answer {
    package let progress: Import
    package init(_ progress: Import) { self.progress = progress }

    package static let tags: [UInt8] = [ActKind.startImport.rawValue, ActKind.finishImport.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        guard progress.state == .finished else { return [] }
        let counts = progress.counts
        return [
            ChangeEvent(
                .importFinished, nil,
                [
                    .init("import", .text(progress.id.text)),
                    .init("taken", .number(Int64(counts.count { $0 == .taken || $0 == .joined }))),
                    .init("same", .number(Int64(counts.count { $0 == .same }))),
                    .init("refused", .number(Int64(counts.count(\.isRefused)))),
                ])
        ]
    }

    package func pack(into packer: inout Packer) { packer.add(progress.packed) }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let progress = unpacker.bytes().flatMap(Import.init(packed:)) else { return nil }
        self.progress = progress
    }
}

/// The ids of a project's imports, the oldest first.
package struct ImportList: Equatable, Sendable {
    package var ids: [ImportID]

    package init(packed: [UInt8]?) {
        var unpacker = Unpacker(packed ?? [])
        ids = []
        while let id = unpacker.integer() { ids.append(ImportID(rawValue: Int64(bitPattern: id))) }
    }

    package var packed: [UInt8] {
        var packer = Packer()
        for id in ids { packer.add(UInt64(bitPattern: id.rawValue)) }
        return packer.bytes
    }
}

extension DocumentFacts {
    /// The progress of an import; throws `noSuchImport`.
    func importing(_ id: ImportID, in project: ProjectID) throws(Refusal) -> Import {
        guard let known = document(Import.key(id)).flatMap(Import.init(packed:)), known.project == project else {
            throw .noSuchImport
        }
        return known
    }
}

extension Snapshot {
    /// The progress of an import; nil if the project has no such import.
    package func importing(_ id: ImportID, in project: ProjectID) throws(StoreFault) -> Import? {
        let known = try document(Import.key(id)).flatMap(Import.init(packed:))
        return known?.project == project ? known : nil
    }

    /// The ids of a project's imports, the oldest first.
    package func imports(of project: ProjectID) throws(StoreFault) -> [ImportID] {
        ImportList(packed: try document(Import.listKey(project))).ids
    }
}

extension Refusal {
    package static let noSuchImport = Refusal(.notFound, "not_found", "There is no import with this id.")
    package static let importEnded = Refusal(
        .conflict, "import_ended", "The import is finished or undone, so it takes no more records.")

    package static let dryRunTooLarge = Refusal(
        .unprocessable, "dry_run_too_large",
        "The results of this dry run do not fit into memory. Try a part of the file, or import it: an import can be undone."
    )

    /// The batch does not begin where the import stands.
    package static func wrongPosition(_ place: Import.Place) -> Refusal {
        var refusal = Refusal(
            .conflict, "wrong_position",
            "The batch must begin at position \(place.position), where the import stands. Read the import, and go on there."
        )
        refusal.figures = [.init(name: "position", value: Int(clamping: place.position))]
        return refusal
    }
}

extension ActKind {
    package static let startImport = ActKind(97, "start_import", undo: .never(.partOfImport))
    package static let finishImport = ActKind(98, "finish_import", undo: .never(.partOfImport))
    package static let undoImport = ActKind(99, "undo_import", undo: .never(.partOfImport))
    package static let importRecords = ActKind(100, "import", undo: .never(.partOfImport))
}
