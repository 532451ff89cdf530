/// A fact: the rows of one person within a span of time also belong to another person (spec/idsync.md 1.6). The store copies
/// no row, so an undo only ends the alias.
package struct Alias: Equatable, Sendable {
    package let id: AliasID
    package let project: ProjectID
    package let source: PersonID
    package let destination: PersonID
    package let start: Instant
    package let end: Instant
    /// The device to whose rows the alias is limited; nil for the rows of all devices.
    package let device: RowHash?
    package let madeAt: Instant
    package let requestID: String
    package var undoneAt: Instant?

    package init(
        id: AliasID, project: ProjectID, source: PersonID, destination: PersonID, start: Instant, end: Instant,
        device: RowHash?, madeAt: Instant, requestID: String, undoneAt: Instant? = nil
    ) {
        self.id = id
        self.project = project
        self.source = source
        self.destination = destination
        self.start = start
        self.end = end
        self.device = device
        self.madeAt = madeAt
        self.requestID = requestID
        self.undoneAt = undoneAt
    }

    /// Whether a row of the source also belongs to the destination.
    package func includes(_ row: Row) -> Bool {
        undoneAt == nil && row.at >= start && row.at <= end && (device == nil || row.device == device)
    }

    /// The number of days before a call that its alias can include. The configuration of a client contains it.
    package static let windowDays: Int64 = 90
    package static let windowMilliseconds = windowDays * 24 * 3600 * 1000
    /// The limit of aliases of one person. Honest use stays below it, and it bounds the cost of reading a person.
    package static let aliasesPerPerson = 1000
}

/// The id of an alias. The server never reuses it.
package struct AliasID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A call that makes an alias.
package struct MakeAlias: Act {
    package let source: PersonID
    package let destination: PersonID
    package let start: Instant
    package let end: Instant
    package let device: RowHash?
    package let requestID: String

    package init(
        source: PersonID, destination: PersonID, start: Instant, end: Instant, device: RowHash?, requestID: String
    ) {
        self.source = source
        self.destination = destination
        self.start = start
        self.end = end
        self.device = device
        self.requestID = requestID
    }
}

/// The answer to ``MakeAlias``.
package enum Aliased: Equatable, Sendable {
    case made(AliasID)
    /// The server accepts the call and changes nothing. The vendor does the same, and clients depend on it.
    case ignored(Reason)

    /// The reason why the server ignored the call. Stores keep the raw values.
    package enum Reason: UInt8, Sendable {
        /// The source has another alias for a part of the same time.
        case overlaps = 1
        case sourceWasDestination = 2
        case destinationWasSource = 3

        package var name: StaticString {
            switch self {
            case .overlaps: "overlaps"
            case .sourceWasDestination: "source_was_destination"
            case .destinationWasSource: "destination_was_source"
            }
        }
    }
}

extension MakeAlias {
    package static var kinds: [ActKind] { [.alias] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        // The decision reads the aliases of both people, so each is limited like an identity.
        Subjects(limitedBy: [source, destination].map(\.asLimited), about: source, people: [destination])
    }
    package var byteCount: Int { 256 }

    /// Makes an alias, and notes it with the source and the destination. Throws `aliasesNotAllowed` if the strategy forbids
    /// aliases, `invalidAlias` for equal or unknown people or an empty span, and `tooManyAliases` at the limit. An alias that
    /// overlaps another alias, or continues one, is ignored, because the vendor ignores it too.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Aliased> {
        guard view.strategy(of: project).allowsAliases else { throw .aliasesNotAllowed }
        guard source != destination else { throw .invalidAlias(.samePerson) }
        guard view.person(source, in: project) != nil else { throw .invalidAlias(.noSource) }
        guard view.person(destination, in: project) != nil else { throw .invalidAlias(.noDestination) }
        // No alias includes rows older than the window. A call with an earlier start gets the start of the window.
        let first = max(start, stamp.at.advanced(byMilliseconds: -Alias.windowMilliseconds))
        guard first <= end else { throw .invalidAlias(.timeRange) }

        var ofSource = AliasList(of: source, view)
        var ofDestination = AliasList(of: destination, view)
        if let reason = reasonToIgnore(from: first, ofSource, ofDestination, view) {
            let reply = Aliased.ignored(reason)
            return Decision(reply, outcome: Outcome(kind: .alias, person: destination, changes: []))
        }
        guard ofSource.ids.count < Alias.aliasesPerPerson, ofDestination.ids.count < Alias.aliasesPerPerson else {
            throw .tooManyAliases
        }
        let alias = Alias(
            id: AliasID(rawValue: stamp.person.rawValue), project: project, source: source, destination: destination,
            start: first, end: end, device: device, madeAt: stamp.at, requestID: requestID)
        ofSource.ids.append(alias.id)
        ofDestination.ids.append(alias.id)
        return Decision(
            .made(alias.id),
            outcome: Outcome(
                kind: .alias, person: destination,
                changes: [alias.put, ofSource.put, ofDestination.put]))
    }

    private func reasonToIgnore<V: DocumentFacts>(
        from start: Instant, _ ofSource: AliasList, _ ofDestination: AliasList, _ view: V
    ) -> Aliased.Reason? {
        for alias in ofSource.aliases(view) where alias.undoneAt == nil {
            if alias.destination == source { return .sourceWasDestination }
            if alias.start <= end, start <= alias.end { return .overlaps }
        }
        for alias in ofDestination.aliases(view) where alias.undoneAt == nil && alias.source == destination {
            return .destinationWasSource
        }
        return nil
    }
}

extension PersonID {
    /// The person as a name whose calls are counted.
    fileprivate var asLimited: Identity {
        let mixed = UInt64(bitPattern: rawValue) &* 0x9E37_79B9_7F4A_7C15
        return Identity(.other, without: IdentityKey(hash: Hash128(high: 0, low: mixed)))
    }
}

/// A call that ends an alias.
package struct UndoAlias: Act {
    package let alias: AliasID
    package init(_ alias: AliasID) { self.alias = alias }

    package static var kinds: [ActKind] { [.undoAlias] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Ends the alias. Throws `noSuchAlias` if the project has no alias with the id. An alias that ended before stays as it
    /// is, so a repeated undo is harmless.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AliasUndone> {
        let packed = view.document(alias.documentKey)
        guard var alias = packed.flatMap(Alias.init(packed:)), alias.project == project else { throw .noSuchAlias }
        guard alias.undoneAt == nil else { return Decision(AliasUndone(alias.id)) }
        alias.undoneAt = stamp.at
        return Decision(
            AliasUndone(alias.id),
            outcome: Outcome(kind: .undoAlias, person: alias.destination, changes: [alias.put]))
    }
}

extension AliasID {
    package var documentKey: DocumentKey { DocumentKey(.alias, of: rawValue) }
}

/// The aliases of which a person is the source or the destination.
package struct AliasList: Equatable, Sendable {
    let person: PersonID
    package var ids: [AliasID]

    package init(of person: PersonID, packed: [UInt8]?) {
        self.person = person
        var unpacker = Unpacker(packed ?? [])
        ids = []
        while let id = unpacker.integer() { ids.append(AliasID(rawValue: Int64(bitPattern: id))) }
    }

    init<V: DocumentFacts>(of person: PersonID, _ view: V) {
        self.init(of: person, packed: view.document(AliasList.key(of: person)))
    }

    /// The key of the document with the aliases of a person.
    package static func key(of person: PersonID) -> DocumentKey { DocumentKey(.aliasesOfPerson, of: person) }

    /// The aliases, each read when it is asked for.
    func aliases<V: DocumentFacts>(_ view: V) -> some Sequence<Alias> {
        ids.lazy.compactMap { view.document($0.documentKey).flatMap(Alias.init(packed:)) }
    }

    var put: Change {
        var packer = Packer()
        for id in ids { packer.add(UInt64(bitPattern: id.rawValue)) }
        return .documentPut(AliasList.key(of: person), person, packer.bytes)
    }
}

extension Alias {
    var put: Change { .documentPut(id.documentKey, destination, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(UInt64(bitPattern: source.rawValue))
        packer.add(UInt64(bitPattern: destination.rawValue))
        packer.add(start)
        packer.add(end)
        packer.add(device == nil ? 0 : 1 as UInt8)
        if let device { packer.add(device.rawValue) }
        packer.add(madeAt)
        packer.add(requestID)
        packer.add(undoneAt == nil ? 0 : 1 as UInt8)
        if let undoneAt { packer.add(undoneAt) }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.integer(), let project = unpacker.integer(), let source = unpacker.person(),
            let destination = unpacker.person(), let start = unpacker.instant(), let end = unpacker.instant(),
            let hasDevice = unpacker.byte(), case let device = hasDevice == 1 ? unpacker.integer() : nil,
            let madeAt = unpacker.instant(), let requestID = unpacker.text(), let isUndone = unpacker.byte()
        else { return nil }
        self.init(
            id: AliasID(rawValue: Int64(bitPattern: id)),
            project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), source: source,
            destination: destination, start: start, end: end, device: device.map(RowHash.init), madeAt: madeAt,
            requestID: requestID, undoneAt: isUndone == 1 ? unpacker.instant() : nil)
        guard unpacker.isAtEnd else { return nil }
    }
}

extension Aliased: Answer {
    package static let tags: [UInt8] = [ActKind.alias.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        guard case .made(let alias) = self else { return [] }
        return [ChangeEvent(.aliasCreated, person, [.init("alias", .id(alias.rawValue))])]
    }

    package func pack(into packer: inout Packer) {
        switch self {
        case .made(let alias):
            packer.add(0 as UInt8)
            packer.add(UInt64(bitPattern: alias.rawValue))
        case .ignored(let reason): packer.add(reason.rawValue)
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let reason = unpacker.byte() else { return nil }
        if let reason = Reason(rawValue: reason) {
            self = .ignored(reason)
        } else {
            guard let id = unpacker.integer() else { return nil }
            self = .made(AliasID(rawValue: Int64(bitPattern: id)))
        }
    }
}

/// The answer to ``UndoAlias``.
package struct AliasUndone: Answer {
    package let alias: AliasID
    package init(_ alias: AliasID) { self.alias = alias }

    package static let tags: [UInt8] = [ActKind.undoAlias.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [ChangeEvent(.aliasUndone, person, [.init("alias", .id(alias.rawValue))])]
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: alias.rawValue))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.integer() else { return nil }
        alias = AliasID(rawValue: Int64(bitPattern: id))
    }
}

extension Refusal {
    package static let noSuchAlias = Refusal(.notFound, "not_found", "There is no alias with this id.")
    package static let aliasesNotAllowed = Refusal(
        .forbidden, "aliases_not_allowed", "This project's strategy does not allow aliases.", isJournalled: true)
    package static let tooManyAliases = Refusal(
        .invalid, "too_many_aliases", "A person can be part of at most \(Alias.aliasesPerPerson) aliases.",
        isJournalled: true)

    /// The call asks for an alias that cannot exist.
    package static func invalidAlias(_ fault: AliasFault) -> Refusal {
        let message =
            switch fault {
            case .timeRange: "The time range is empty, or ends more than \(Alias.windowDays) days ago."
            case .samePerson: "The source and the destination are the same."
            case .noSource: "The source does not exist."
            case .noDestination: "The destination does not exist."
            }
        return Refusal(.invalid, "invalid_alias", message, isJournalled: true)
    }

    /// What is wrong with an alias.
    package enum AliasFault: Equatable, Sendable { case timeRange, samePerson, noSource, noDestination }
}

extension ActKind {
    package static let alias = ActKind(8, "alias", undo: .facts(needs: .consoleAct))
    package static let undoAlias = ActKind(9, "undo_alias", undo: .facts(needs: .consoleAct))
}
