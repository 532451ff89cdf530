/// A fact: some identities of a person are those of another person (spec/taking-back.md, decision 1). The split ends the links of
/// the person and begins links of the other person. An undo of the split gives the links back.
package struct Split: Equatable, Sendable {
    /// An identity that the split gave to the other person.
    package struct Part: Equatable, Sendable {
        package let type: IdentityType
        package let key: IdentityKey
        /// The call that had linked the identity to the person.
        package let linkedBy: JournalSequence
        /// Whether the other person held the identity before the split.
        package let wasHeld: Bool
        /// Whether both people hold the identity after the split.
        package let isShared: Bool
    }

    package let id: SplitID
    package let project: ProjectID
    /// The person that held the identities before.
    package let person: PersonID
    /// The person that holds the identities now.
    package let into: PersonID
    /// Whether the split made the other person.
    package let makesPerson: Bool
    /// Whether the split marked the two people, so that no rule merges them.
    package let keepsApart: Bool
    package let parts: [Part]
    /// The split of the same project before this split.
    package let previous: SplitID?
    /// The rows that the split gave to the other person; nil if it gave none.
    package private(set) var rows: SplitRows?
    /// The conditions on the rows, without the lanes, whose values the journal has; nil for a split of identities alone.
    package private(set) var selector: SplitSelector?
    package internal(set) var isUndone = false
}

/// The id of a split. The server never reuses it.
package struct SplitID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    /// The id in the form of answers and paths.
    package var text: String { "s_\(rawValue)" }

    /// Reads the form of answers and paths; nil for another text.
    package init?(text: String) {
        guard text.hasPrefix("s_"), let number = Int64(text.dropFirst(2)), "s_\(number)" == text else { return nil }
        self.init(rawValue: number)
    }

    package var documentKey: DocumentKey { DocumentKey(.split, of: rawValue) }
}

/// A call that splits identities off a person.
package struct SplitPerson: Act {
    /// An identity to split off, and the call that linked it.
    package struct Part: Sendable {
        package let identity: Identity
        package let linkedBy: JournalSequence
        /// Whether both people hold the identity after the split. A unique identity stays with the first person then.
        package let isShared: Bool

        package init(_ identity: Identity, linkedBy: JournalSequence, isShared: Bool = false) {
            self.identity = identity
            self.linkedBy = linkedBy
            self.isShared = isShared
        }
    }

    /// The rows and properties to split off, as a reader found them.
    package struct Content: Equatable, Sendable {
        package let rows: SplitRows?
        /// The numbers of the person's rows when the reader found them, with rows that other splits gave away.
        package let stored: [RowKind: Int]
        package let properties: [Properties]
        /// The conditions on the rows; nil for a split of identities alone.
        package let selector: SplitSelector?

        /// The identities by which later uploads belong to the other person.
        var lanes: [Identity] { selector.map { $0.isOpen ? $0.lanes : [] } ?? [] }
        /// Whether the split takes more than identities.
        package var isEmpty: Bool { rows == nil && properties.isEmpty && lanes.isEmpty }

        package static let none = Content(rows: nil, stored: [:], properties: [], selector: nil)
    }

    /// The properties of one dialect, as both sides of a split wrote them.
    package struct Properties: Equatable, Sendable {
        package let kind: DocumentKind
        /// The person's document when the reader read it.
        package let before: [UInt8]
        package let kept: Attributes
        package let given: Attributes
    }

    package let person: PersonID
    package let parts: [Part]
    package let content: Content
    /// The person that gets the identities; nil for a new person.
    package let into: PersonID?
    /// The reason, in the caller's words.
    package let reason: String?

    package init(_ person: PersonID, parts: [Part], _ content: Content = .none, into: PersonID?, reason: String?) {
        self.person = person
        self.parts = parts
        self.content = content
        self.into = into
        self.reason = reason
    }

    /// The split of a plan, with the identities of the plan and others.
    package init(
        _ person: PersonID, _ plan: SplitPlan, and others: [Part] = [], in project: ProjectID, hash: KeyedHash,
        into: PersonID? = nil, reason: String? = nil
    ) {
        func parts(_ identities: [HeldIdentity], isShared: Bool) -> [Part] {
            identities.map {
                Part(Identity($0.type, $0.value, in: project, hash: hash), linkedBy: $0.call, isShared: isShared)
            }
        }
        self.init(
            person,
            parts: others + parts(plan.identities, isShared: false) + parts(plan.sharedIdentities, isShared: true),
            plan.content, into: into, reason: reason)
    }

    /// The limit of identities of one split.
    package static let partsAtMost = 1000
}

extension SplitPerson {
    package static var kinds: [ActKind] { [.split] }
    // The decision reads single people, except for limits. A merge can only make these smaller.
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(
            mentions: parts.map(\.identity.key) + (content.selector?.lanes ?? []).map(\.key), about: person,
            people: into.map { [$0] } ?? [])
    }
    package var byteCount: Int {
        parts.reduce(256 + 4 * (content.rows?.ranges.count ?? 0)) { $0 + 64 + $1.identity.value.utf8.count }
            + content.properties.reduce(0) { $0 + $1.before.count }
    }

    /// Ends the person's links and begins links of the other person, and gives rows and properties to the other person. Throws
    /// `noSuchPerson`, `oneAlready` for a split into the
    /// same person, `immutableIdentity` for identities that a dialect manages itself, `noSuchIdentity` if the person does not
    /// hold an identity, `tooManyIdentities`, `full` if the other person has no room, and `changedMeanwhile` if the person got
    /// rows or properties after the reader looked. No rule of clients forbids a split,
    /// because the administrator knows more than the server.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Split> {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        guard into != person else { throw .oneAlready }
        let other = into.flatMap { view.person($0, in: project) }
        guard (into == nil) == (other == nil) else { throw .noSuchPerson }
        let holder = into ?? stamp.person
        let strategy = view.strategy(of: project)
        var own = into == nil ? [:] : view.identities(of: other)
        var room = Room(of: other, strategy.guards.bounds, view)
        var taken: [Split.Part] = []
        var changes: [Change] = into == nil ? [.personMade(holder, at: stamp.seen)] : []
        for part in parts {
            let identity = part.identity
            if identity.type.isDialectsOwn { throw .immutableIdentity(identity.type) }
            guard view.holds(place, identity.key) else { throw .noSuchIdentity }
            guard !taken.contains(where: { $0.key == identity.key }) else { continue }
            if part.isShared, strategy.unique.contains(identity.type) { continue }
            let wasHeld = own[identity.key] != nil
            if !part.isShared { changes.append(.unlinked(person, identity.type, identity.key)) }
            if !wasHeld {
                let same = own.filter { $0.value == identity.type }.map(\.key)
                if into != nil, view.isAtLimit(of: identity, holder, holding: same, strategy, in: project, at: stamp.at)
                {
                    throw .tooManyIdentities
                }
                guard room.take(identity.type) else { throw .full(.person, about: holder) }
                own[identity.key] = identity.type
                changes.append(.linked(holder, identity))
            }
            taken.append(
                Split.Part(
                    type: identity.type, key: identity.key, linkedBy: part.linkedBy, wasHeld: wasHeld,
                    isShared: part.isShared))
            changes += view.changes(ofDeviceUser: identity.key, from: person, to: holder)
        }
        guard !taken.isEmpty || !content.isEmpty else { throw .nothingToSplit }
        for (kind, count) in content.stored where view.rowCount(of: person, kind) != count { throw .changedMeanwhile }
        for properties in content.properties {
            let own = DocumentKey(properties.kind, of: person)
            guard view.document(own) ?? [] == properties.before else { throw .changedMeanwhile }
            let theirs = DocumentKey(properties.kind, of: holder)
            let known = into == nil ? nil : view.document(theirs).flatMap(Attributes.init(packed:))
            let kept = properties.kept.entries.isEmpty ? [] : properties.kept.packed
            changes.append(.documentPut(own, person, kept))
            changes.append(.documentPut(theirs, holder, properties.given.joined(with: known).packed))
        }
        // A rule that merges people must not merge these two.
        let keepsApart =
            (strategy.guards.joinsSameUserIDs || strategy.rules.mergeOnMatch != .never)
            && view.document(SameUserID.parted(person, holder)) == nil
        if keepsApart { changes += SameUserID.part([(person, holder)], view) }
        let last = DocumentKey(.lastSplit, of: Int64(project.rawValue))
        let split = Split(
            id: SplitID(rawValue: stamp.person.rawValue), project: project, person: person, into: holder,
            makesPerson: into == nil, keepsApart: keepsApart, parts: taken,
            previous: view.document(last).flatMap(Split.lastID), rows: content.rows,
            selector: content.selector?.withoutLanes)
        changes += [split.put, .documentPut(last, PersonID(rawValue: 0), split.packedID)]
        if let rows = content.rows {
            var routes = RowRoutes(view)
            routes.add(split, rows)
            changes.append(routes.put)
        }
        if content.selector?.isOpen == true {
            var lanes = SplitLanes(of: person, view)
            lanes.add(content.lanes.map(\.key) + taken.map(\.key), of: split)
            if !lanes.isEmpty { changes.append(lanes.put) }
        }
        return Decision(
            split,
            outcome: Outcome(
                kind: .split, person: person, inputs: (content.selector?.lanes ?? []).map { .init($0, .sentFrom) },
                changes: changes, note: reason))
    }
}

/// A call that ends a split.
package struct UndoSplit: Act {
    package let split: SplitID
    /// The two people of the split.
    package let person: PersonID
    package let into: PersonID
    /// The identities of the split, with their values.
    package let identities: [Identity]
    /// The properties of both people, before the split and after it.
    package let properties: [DocumentUndo]
    /// The reason, in the caller's words.
    package let reason: String?

    package init(
        _ split: SplitID, of person: PersonID, into: PersonID, identities: [Identity], properties: [DocumentUndo] = [],
        reason: String?
    ) {
        self.split = split
        self.person = person
        self.into = into
        self.identities = identities
        self.properties = properties
        self.reason = reason
    }
}

extension UndoSplit {
    package static var kinds: [ActKind] { [.undoSplit] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(mentions: identities.map(\.key), about: person, people: [into])
    }
    package var byteCount: Int { identities.reduce(256) { $0 + 64 + $1.value.utf8.count } }

    /// Gives the identities back. Throws `noSuchSplit` if no such split is in force, `noSuchPerson` if one of the two people is
    /// erased, `splitBuiltUpon` if a later call moved an identity on, `splitRowsBuiltUpon` if a later split of the other person is
    /// in force, and `full` if the person has no room.
    ///
    /// Without the split, the rows that came to a person that the split made had come to the first person. So the undo also
    /// merges the two, if the person that the split made has rows or properties and holds nothing else.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<SplitUndone> {
        guard var made = view.document(split.documentKey).flatMap(Split.init(packed:)), made.project == project,
            made.person == person, made.into == into, !made.isUndone
        else { throw .noSuchSplit }
        guard let place = view.person(person, in: project), let other = view.person(into, in: project) else {
            throw .noSuchPerson
        }
        let strategy = view.strategy(of: project)
        let held = view.identities(of: other)
        let own = view.identities(of: place)
        var room = Room(of: place, strategy.guards.bounds, view)
        var changes: [Change] = []
        var back: [JournalSequence] = []
        for part in made.parts {
            guard let identity = identities.first(where: { $0.key == part.key }), held[part.key] != nil else {
                throw .splitBuiltUpon(part.type)
            }
            if !part.wasHeld { changes.append(.unlinked(into, part.type, part.key)) }
            if own[part.key] == nil, !part.isShared {
                guard room.take(part.type) else { throw .full(.person, about: person) }
                changes.append(.linked(person, identity))
                if !back.contains(part.linkedBy) { back.append(part.linkedBy) }
            }
            changes += view.changes(ofDeviceUser: part.key, from: into, to: person)
        }
        if made.keepsApart { changes += SameUserID.unpart(person, into, view) }
        changes.append(RestoredLinks(of: person, view).adding(back, at: stamp.journalledAt).put)
        var emptied: Set<DocumentKind> = []
        for document in properties {
            guard case .change(let bytes) = document.undone(view.document(document.key), at: stamp.journalledAt) else {
                continue
            }
            changes.append(.documentPut(document.key, document.person, bytes))
            if document.person == into, bytes.isEmpty { emptied.insert(document.key.kind) }
        }
        if let rows = made.rows {
            var routes = RowRoutes(view)
            let above = routes.routes.drop { $0.split != split }.dropFirst().filter { $0.person == into }
            for route in above {
                guard let later = view.document(route.split.documentKey).flatMap(Split.init(packed:))?.rows else {
                    continue
                }
                if rows.overlaps(later) { throw .splitRowsBuiltUpon(route.split) }
            }
            routes.remove(split)
            changes.append(routes.put)
        }
        var lanes = SplitLanes(of: person, view)
        if !lanes.isEmpty {
            lanes.remove(split)
            changes.append(lanes.put)
        }
        made.isUndone = true
        changes.append(made.put)
        if made.makesPerson, held.count == made.parts.count, view.hasContent(into, without: emptied),
            !view.areOne(person, into)
        {
            if view.isFull(joining: view.group(of: into), view.group(of: person), strategy.guards.bounds) {
                throw .full(.group, about: person)
            }
            let merge = Merge(
                id: MergeID(rawValue: stamp.person.rawValue), from: into, into: person, rule: .splitUndone)
            changes.append(.merged(merge))
        }
        return Decision(
            SplitUndone(split, of: person, into: into),
            outcome: Outcome(kind: .undoSplit, person: person, changes: changes, note: reason))
    }
}

extension DecisionFacts {
    /// The identities that a person holds; none without a person.
    fileprivate func identities(of person: Person?) -> [IdentityKey: IdentityType] {
        guard let person else { return [:] }
        var held: [IdentityKey: IdentityType] = [:]
        forEachIdentity(of: person) { type, key in
            held[key] = type
            return true
        }
        return held
    }

    /// The change that makes a person the last user of a device, if the last user is another given person.
    fileprivate func changes(
        ofDeviceUser device: IdentityKey, from one: PersonID, to other: PersonID
    ) -> [Change] {
        let key = KeptPeople.deviceUser(device)
        guard document(key).flatMap(KeptPeople.person) == one else { return [] }
        return [.documentPut(key, other, KeptPeople.naming(other))]
    }

    /// Whether reads show rows or properties of a person.
    fileprivate func hasContent(_ person: PersonID, without emptied: Set<DocumentKind>) -> Bool {
        if RowKind.allCases.contains(where: { rowCount(of: person, $0) > 0 }) { return true }
        return DocumentKind.allCases.contains {
            $0.isContent && !emptied.contains($0) && document(DocumentKey($0, of: person)) != nil
        }
    }
}

extension DocumentKind {
    /// Whether such a document of a person says what the person did, and not only who the person is.
    fileprivate var isContent: Bool {
        isOfPerson && ![.partedFrom, .restoredLinks, .splitLanes, .linkTimes].contains(self)
    }
}

// MARK: - Documents

extension Split {
    var put: Change { .documentPut(id.documentKey, PersonID(rawValue: 0), packed) }

    /// The id of the last split in the document of a project.
    package static func lastID(_ packed: [UInt8]) -> SplitID? {
        var unpacker = Unpacker(packed)
        return unpacker.integer().map { SplitID(rawValue: Int64(bitPattern: $0)) }
    }

    var packedID: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: id.rawValue))
        return packer.bytes
    }

    /// The document. It has hashes and no values, so an erasure of one person leaves it as it is.
    package var packed: [UInt8] {
        var packer = Packer()
        pack(into: &packer)
        return packer.bytes
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: id.rawValue))
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(person)
        packer.add(into)
        packer.add(
            UInt8(
                (makesPerson ? 1 : 0) | (keepsApart ? 2 : 0) | (isUndone ? 4 : 0) | (previous == nil ? 0 : 8)
                    | (rows == nil ? 0 : 16) | (selector == nil ? 0 : 32)))
        if let previous { packer.add(UInt64(bitPattern: previous.rawValue)) }
        packer.add(UInt64(parts.count))
        for part in parts {
            packer.add(hashOf: Identity(part.type, without: part.key))
            packer.add(UInt64(bitPattern: part.linkedBy.rawValue))
            packer.add(UInt8((part.wasHeld ? 1 : 0) | (part.isShared ? 2 : 0)))
        }
        rows?.pack(into: &packer)
        selector?.pack(into: &packer)
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        self.init(unpacking: &unpacker)
        guard unpacker.isAtEnd else { return nil }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.number(), let project = unpacker.integer(), let person = unpacker.person(),
            let into = unpacker.person(), let flags = unpacker.byte(), flags < 64
        else { return nil }
        var previous: SplitID?
        if flags & 8 != 0 {
            guard let number = unpacker.number() else { return nil }
            previous = SplitID(rawValue: number)
        }
        guard let count = unpacker.integer() else { return nil }
        var parts: [Part] = []
        for _ in 0..<count {
            guard let identity = unpacker.identity(), let linkedBy = unpacker.number(), let flags = unpacker.byte(),
                flags < 4
            else { return nil }
            parts.append(
                Part(
                    type: identity.type, key: identity.key, linkedBy: JournalSequence(rawValue: linkedBy),
                    wasHeld: flags & 1 != 0, isShared: flags & 2 != 0))
        }
        var rows: SplitRows?
        if flags & 16 != 0 {
            rows = SplitRows(unpacking: &unpacker)
            if rows == nil { return nil }
        }
        var selector: SplitSelector?
        if flags & 32 != 0 {
            selector = SplitSelector(unpacking: &unpacker)
            if selector == nil { return nil }
        }
        self.init(
            id: SplitID(rawValue: id), project: ProjectID(rawValue: Int32(truncatingIfNeeded: project)),
            person: person, into: into, makesPerson: flags & 1 != 0, keepsApart: flags & 2 != 0, parts: parts,
            previous: previous, rows: rows, selector: selector, isUndone: flags & 4 != 0)
    }
}

/// The calls whose links an undo of a split gave back to a person. A read shows such a link as the link of its first call.
struct RestoredLinks {
    /// The links of a call that an undo gave back.
    struct Entry: Equatable {
        let linkedBy: JournalSequence
        /// The moment of the undo in the journal.
        let at: Instant
    }

    private let person: PersonID
    private(set) var entries: [Entry] = []

    /// The limit of entries. The oldest entries go first; a read then shows their links as the links of the undo.
    static let entriesAtMost = 1000

    init<V: DocumentFacts>(of person: PersonID, _ view: V) {
        self.init(of: person, packed: view.document(RestoredLinks.key(of: person)))
    }

    init(of person: PersonID, packed: [UInt8]?) {
        self.person = person
        var unpacker = Unpacker(packed ?? [])
        while let linkedBy = unpacker.number(), let at = unpacker.instant() {
            entries.append(Entry(linkedBy: JournalSequence(rawValue: linkedBy), at: at))
        }
    }

    static func key(of person: PersonID) -> DocumentKey { DocumentKey(.restoredLinks, of: person) }

    func adding(_ calls: [JournalSequence], at moment: Instant) -> RestoredLinks {
        var links = self
        links.entries += calls.map { Entry(linkedBy: $0, at: moment) }
        links.entries.removeFirst(max(0, links.entries.count - RestoredLinks.entriesAtMost))
        return links
    }

    var put: Change {
        var packer = Packer()
        for entry in entries {
            packer.add(UInt64(bitPattern: entry.linkedBy.rawValue))
            packer.add(entry.at)
        }
        return .documentPut(RestoredLinks.key(of: person), person, packer.bytes)
    }
}

extension Snapshot {
    /// The identities of a person, the oldest first. A link that the undo of a split gave back is the link of its first call.
    package func heldIdentities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        var held = try identities(of: person)
        let restored = RestoredLinks(of: person, packed: try document(RestoredLinks.key(of: person)))
        if restored.entries.isEmpty { return held }
        /// The facts of the first calls, for the order of links of one call.
        var facts: [JournalSequence: [RecordedCall.Fact]] = [:]
        for entry in restored.entries where held.contains(where: { $0.since == entry.at }) {
            let before = JournalSequence(rawValue: entry.linkedBy.rawValue - 1)
            guard let call = try calls(after: before, limit: 1).first, call.sequence == entry.linkedBy else { continue }
            facts[call.sequence] = call.facts
            for (index, identity) in held.enumerated()
            where identity.since == entry.at
                && call.facts.contains(.linked(person, identity.type, identity.value))
            {
                held[index] = HeldIdentity(
                    type: identity.type, value: identity.value, since: call.at, call: call.sequence, key: call.key,
                    requestID: call.requestID)
            }
        }
        let places = held.enumerated().map { offset, identity in
            (
                identity.call,
                facts[identity.call]?.firstIndex(of: .linked(person, identity.type, identity.value)) ?? offset
            )
        }
        return held.indices.sorted { places[$0] < places[$1] }.map { held[$0] }
    }
}

/// A split with the call that made it and the call that undid it.
package struct MadeSplit: Sendable {
    package let split: Split
    package let call: RecordedCall
    /// Nil while the split is in force.
    package let undo: RecordedCall?
    /// The identities of the split. The value of an identity whose people are erased is empty.
    package let identities: [(type: IdentityType, value: String)]

    /// Finds a split; nil if the project has no split with this id.
    package init?(_ id: SplitID, in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        guard let split = try snapshot.split(id, in: project) else { return nil }
        let versions = try snapshot.versions(of: id.documentKey, since: .zero)
        guard let first = versions.last, let made = try snapshot.call(first.madeBy) else { return nil }
        self.split = split
        self.call = made
        if split.isUndone, let last = versions.first { undo = try snapshot.call(last.madeBy) } else { undo = nil }
        // No read has a value of an erased person, also before the store removes it.
        var values: [IdentityKey: String] = [:]
        for fact in made.facts {
            switch fact {
            case .unlinked(split.person, let type, let value), .linked(split.into, let type, let value):
                let holder = if case .linked = fact { split.into } else { split.person }
                guard !value.isEmpty, snapshot.person(holder, in: project) != nil else { continue }
                values[IdentityKey(type, value.utf8.span, in: project, hash: snapshot.hash)] = value
            case .personMade, .unlinked, .linked, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut:
                continue
            }
        }
        identities = split.parts.map { ($0.type, values[$0.key] ?? "") }
    }

    /// The links that the split made and ended, for facts from after its undo.
    package func links(_ hash: KeyedHash) -> [Change] {
        zip(identities, split.parts).flatMap { name, part -> [Change] in
            let identity = Identity(part.type, name.value, in: split.project, hash: hash)
            let lost: [Change] = part.isShared ? [] : [.unlinked(split.person, part.type, part.key)]
            return lost + (part.wasHeld ? [] : [.linked(split.into, identity)])
        }
    }
}

extension Snapshot {
    /// Whether a split in force gave rows away that are not settled (``SettleRows``).
    package func isInForce(_ split: Split) throws(StoreFault) -> Bool {
        RowRoutes(packed: try document(RowRoutes.key)).routes.contains { $0.split == split.id }
    }

    /// The properties of both people of a split, before the split and after it.
    package func properties(of split: Split) throws(StoreFault) -> [DocumentUndo] {
        guard let made = try versions(of: split.id.documentKey, since: .zero).last?.madeBy else { return [] }
        var properties: [DocumentUndo] = []
        for written in try documents(writtenBy: made) where SplitPlan.properties.contains(written.version.key.kind) {
            let versions = try versions(of: written.version.key, since: made)
            guard let place = versions.firstIndex(where: { $0.madeBy == made }) else { continue }
            let before = place + 1 < versions.count ? try content(of: versions[place + 1]) : nil
            properties.append(
                DocumentUndo(
                    written.version.key, written.person, before: before, after: try content(of: versions[place])))
        }
        return properties
    }

    /// The split with an id; nil if the project has none with this id.
    package func split(_ id: SplitID, in project: ProjectID) throws(StoreFault) -> Split? {
        guard let split = try document(id.documentKey).flatMap(Split.init(packed:)), split.project == project else {
            return nil
        }
        return split
    }

    /// The last split of a project; nil if the project has none.
    package func lastSplit(of project: ProjectID) throws(StoreFault) -> SplitID? {
        try document(DocumentKey(.lastSplit, of: Int64(project.rawValue))).flatMap(Split.lastID)
    }
}

// MARK: - Answers

extension Split: Answer {
    package static let tags: [UInt8] = [ActKind.split.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [
            ChangeEvent(
                .personSplit, self.person, [.init("split", .text(id.text)), .init("into", .id(into.rawValue))])
        ]
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) { self.init(unpacking: &unpacker) }
}

/// The answer to ``UndoSplit``.
package struct SplitUndone: Answer {
    package let split: SplitID
    package let person: PersonID
    package let into: PersonID

    package init(_ split: SplitID, of person: PersonID, into: PersonID) {
        self.split = split
        self.person = person
        self.into = into
    }

    package static let tags: [UInt8] = [ActKind.undoSplit.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        [
            ChangeEvent(
                .splitUndone, self.person, [.init("split", .text(split.text)), .init("into", .id(into.rawValue))])
        ]
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: split.rawValue))
        packer.add(person)
        packer.add(into)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.number(), let person = unpacker.person(), let into = unpacker.person() else {
            return nil
        }
        self.init(SplitID(rawValue: id), of: person, into: into)
    }
}

extension Refusal {
    package static let noSuchSplit = Refusal(
        .notFound, "not_found", "There is no split with this id, or it was undone.")
    package static let nothingToSplit = Refusal(.invalid, "nothing_to_split", "The call names nothing to split off.")

    /// A later call took an identity of the split from the person that got it.
    package static func splitBuiltUpon(_ type: IdentityType) -> Refusal {
        Refusal(
            .conflict, "built_upon",
            "A later call took \(type.name) from the person that the split gave it to. Move it back first.")
    }

    /// A later split took rows of the split from the person that got them.
    package static func splitRowsBuiltUpon(_ split: SplitID) -> Refusal {
        Refusal(.conflict, "built_upon", "The split \(split.text) took rows of this split. Undo it first.")
    }
    package static let tooFineSplit = Refusal(
        .unprocessable, "split_too_fine",
        "The rows of the split and the other rows of the person alternate more than \(SplitRows.rangesAtMost) times.")
}

extension ActKind {
    package static let split = ActKind(172, "split", undo: .never(.undoSplit))
    package static let undoSplit = ActKind(173, "undo_split", undo: .never(.splitAgain))
    /// The kinds of calls that move links from one person to another as they are, whatever the rules are at that time.
    package static let movingLinks = [split, undoSplit, undoCall]
}
