/// One fold of a group: the kind of the members' documents, and the part that distinguishes several folds of the kind.
struct FoldSlot: Hashable {
    let kind: DocumentKind
    /// The questionnaire, for folds of responses.
    let part: UInt64

    init(_ kind: DocumentKind, part: UInt64 = 0) {
        self.kind = kind
        self.part = part
    }

    /// The slot of a person's document; nil for documents without a fold.
    init?(_ key: DocumentKey, of person: PersonID) {
        guard key.kind.fold != nil, key.hash.low == UInt64(bitPattern: person.rawValue) else { return nil }
        self.init(key.kind, part: key.hash.high)
    }

    /// The key of a member's document.
    func document(of person: PersonID) -> DocumentKey { key(kind, person) }

    /// The key of the document in which the group with a root keeps the fold.
    func kept(of root: PersonID) -> DocumentKey { key(kind.fold?.kept ?? kind, root) }

    private func key(_ kind: DocumentKind, _ person: PersonID) -> DocumentKey {
        DocumentKey(kind, hash: Hash128(high: part, low: UInt64(bitPattern: person.rawValue)))
    }
}

/// The list of folds that a large group keeps. If the list exists, a fold that is not in it is empty.
struct FoldList {
    var slots: Set<FoldSlot>

    init(_ slots: Set<FoldSlot> = []) { self.slots = slots }

    static func key(of root: PersonID) -> DocumentKey { DocumentKey(.groupFolds, of: root) }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(FoldList.format)
        for slot in slots.sorted(by: { ($0.kind.rawValue, $0.part) < ($1.kind.rawValue, $1.part) }) {
            packer.add(slot.kind.rawValue)
            packer.add(slot.part)
        }
        return packer.bytes
    }

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard unpacker.byte() == FoldList.format else { return nil }
        slots = []
        while !unpacker.isAtEnd {
            guard let kind = unpacker.byte().flatMap(DocumentKind.init), let part = unpacker.integer() else {
                return nil
            }
            slots.insert(FoldSlot(kind, part: part))
        }
    }

    /// Folds of format 1 may show what was taken back, so they are made again.
    private static let format: UInt8 = 2
}

extension GroupFold {
    /// Reads the fold of a group: from the kept document, or else from the members.
    init<Failure>(
        _ slot: FoldSlot, of group: Group, _ document: (DocumentKey) throws(Failure) -> [UInt8]?
    ) throws(Failure) {
        if group.keepsFolds, let list = try document(FoldList.key(of: group.root)).flatMap(FoldList.init(packed:)) {
            let kept = list.slots.contains(slot) ? try document(slot.kept(of: group.root)) : nil
            self = kept.flatMap(Self.init(packed:)) ?? Self(group.root, nil)
            return
        }
        try self.init(of: group) { person throws(Failure) in try document(slot.document(of: person)) }
    }
}

extension DecisionFacts {
    /// A fold over a group.
    func fold<Fold: GroupFold>(_ kind: DocumentKind, part: UInt64 = 0, of group: Group) -> Fold {
        let slot = FoldSlot(kind, part: part)
        if group.keepsFolds {
            // Without these documents the fold is made from all members.
            let knowsFold = knows(slot.kept(of: group.root))
            guard knows(FoldList.key(of: group.root)), knowsFold else { return Fold(group.root, nil) }
        }
        return Fold(slot, of: group) { document($0) }
    }
}

extension Snapshot {
    /// A fold over a group.
    package func fold<Fold: GroupFold>(
        _ kind: DocumentKind, part: UInt64 = 0, of group: Group
    ) throws(StoreFault) -> Fold {
        try Fold(FoldSlot(kind, part: part), of: group) { key throws(StoreFault) in try document(key) }
    }
}

/// Updates the folds of large groups after the changes of a call, and returns the documents to write.
///
/// It applies the changes in their order. A changed document of a member changes the group's fold by the difference; where the
/// document takes something back, the fold is made again from the members. A merge joins the folds of both sides; its cost
/// grows with the joining side. The undo of a merge makes the folds of both sides again from their members. For a small group
/// it only reads the number of members.
package struct KeptFolds<V: DecisionFacts> {
    private let view: V
    private let project: ProjectID
    private let call: PersonID
    private var made: Set<PersonID> = []
    /// Documents that the call has written so far.
    private var documents: [DocumentKey: [UInt8]] = [:]
    /// The groups of the call, by their roots before the call.
    private var parts: [PersonID: Part] = [:]
    /// Members of groups that the call has split.
    private var split: [PersonID: Part] = [:]
    /// Groups that keep no folds any more, or keep them under another root.
    private var left: [(root: PersonID, list: FoldList)] = []
    /// The groups that have joined another one. Both may refer to each other until the folds of the call are made.
    private var joined: [Part] = []

    /// A group with the changes of the call so far.
    private final class Part {
        let root: PersonID
        let count: Int
        /// The group in the view; nil for a group that the call made.
        let group: Group?
        /// The list of folds in the store; nil if it does not exist.
        let stored: FoldList?
        /// The list with the changes of the call so far.
        var list: FoldList?
        var hasNewList = false
        /// Folds that were read or made.
        var folds: [FoldSlot: any GroupFold] = [:]
        var changed: Set<FoldSlot> = []
        /// Folds that have to be made again, when all documents of the call are known.
        var stale: Set<FoldSlot> = []
        /// The larger group that this group has joined.
        var whole: Part?
        /// The two sides of a group that the call made.
        var sides: (from: Part, into: Part, merge: Merge)?
        /// Whether the folds of the sides were joined. Nobody may have asked for those of a small group.
        var isJoined = false

        init(root: PersonID, count: Int, group: Group? = nil, stored: FoldList? = nil) {
            self.root = root
            self.count = count
            self.group = group
            self.stored = stored
            list = stored
        }

        var keepsFolds: Bool { count >= Group.membersWithFolds }
    }

    /// The documents that must be written in addition to the changes of a call.
    package static func changes(
        after changes: [Change], by call: PersonID, in project: ProjectID, _ view: V
    ) -> [Change] {
        var folds = KeptFolds(view: view, project: project, call: call)
        defer { for part in folds.joined { part.whole = nil } }
        for change in changes {
            switch change {
            case .personMade(let person, _): folds.made.insert(person)
            case .documentPut(let key, let person, let body): folds.put(key, person, body)
            case .merged(let merge): folds.join(merge)
            case .mergeUndone(let merge): folds.split(merge)
            // An erasure removes the whole group, so no fold remains.
            case .personErased: return []
            case .linked, .unlinked, .rowAdded, .rowSuperseded, .projectMade, .appMade, .keyMade, .appRevoked,
                .keyRevoked,
                .renamed, .strategySet:
                break
            }
        }
        return folds.changes
    }

    private init(view: V, project: ProjectID, call: PersonID) {
        self.view = view
        self.project = project
        self.call = call
    }

    private func document(_ key: DocumentKey) -> [UInt8]? {
        guard let put = documents[key] else { return view.document(key) }
        return put.isEmpty ? nil : put
    }

    private func group(of person: PersonID) -> Group {
        made.contains(person) ? Group(alone: person) : view.group(of: person)
    }

    /// The list of folds that a group keeps; nil if it does not exist. Without it, all folds are made from the members.
    private func list(of group: Group) -> FoldList? {
        guard group.keepsFolds else { return nil }
        let key = FoldList.key(of: group.root)
        guard view.knows(key) else { return FoldList() }
        return view.document(key).flatMap(FoldList.init)
    }

    private mutating func part(of person: PersonID) -> Part {
        var part: Part
        if let known = split[person] {
            part = known
        } else {
            let group = group(of: person)
            if let known = parts[group.root] {
                part = known
            } else {
                part = Part(root: group.root, count: group.count, group: group, stored: list(of: group))
                parts[group.root] = part
            }
        }
        while let whole = part.whole { part = whole }
        return part
    }

    // MARK: - Changes

    private mutating func put(_ key: DocumentKey, _ person: PersonID, _ body: [UInt8]) {
        guard let slot = FoldSlot(key, of: person) else { return }
        // Most people have no merges, and then no folds are kept.
        if parts.isEmpty, split.isEmpty, !group(of: person).keepsFolds {
            documents[key] = body
            return
        }
        let part = part(of: person)
        defer { documents[key] = body }
        // The folds of a small group are made from its members. A group that the call has just made is an exception.
        guard part.keepsFolds || part.group == nil, part.sides == nil || part.isJoined else { return }
        load(part)
        if part.stale.contains(slot) { return }
        var fold = fold(slot, of: part)
        if fold.change(person, from: document(key), to: body, by: call) {
            set(fold, slot, of: part)
        } else {
            part.stale.insert(slot)
        }
    }

    private mutating func join(_ merge: Merge) {
        let (from, into) = (part(of: merge.from), part(of: merge.into))
        guard from !== into else { return }
        let whole = Part(root: into.root, count: from.count + into.count)
        (from.whole, into.whole) = (whole, whole)
        whole.sides = (from, into, merge)
        joined += [from, into]
        // A small group keeps no folds. They are only made if a later merge of the call makes the group large.
        guard whole.keepsFolds else { return }
        whole.isJoined = true
        for side in [from, into] {
            load(side)
            makeStale(of: side)
        }
        if into.list != nil {
            // The folds stay in their documents. Folds without changes are not read.
            (whole.list, whole.hasNewList, whole.changed) = (into.list, into.hasNewList, into.changed)
            whole.folds = into.folds
        } else {
            for (slot, fold) in into.folds { set(fold, slot, of: whole) }
        }
        for slot in from.list?.slots ?? Set(from.folds.keys) {
            let joining = fold(slot, of: from)
            if joining.isEmpty { continue }
            let known = whole.folds[slot] ?? (into.list == nil ? nil : fold(slot, of: into))
            set(KeptFolds.joined(known, joining, by: merge, slot), slot, of: whole)
        }
        if let stored = from.stored { left.append((from.root, stored)) }
        if whole.list == nil { set(FoldList(), of: whole) }
    }

    private mutating func split(_ undone: Merge) {
        let group = group(of: undone.from)
        let old = part(of: undone.from)
        if let list = old.list { left.append((old.root, list)) }
        for side in group.parts(without: undone) {
            let part = Part(root: side.root, count: side.members.count, group: side.group)
            if part.keepsFolds {
                for (slot, fold) in madeFolds(of: part) { set(fold, slot, of: part) }
                if part.list == nil { set(FoldList(), of: part) }
            }
            for member in side.members { split[member] = part }
        }
    }

    // MARK: - Folds

    /// Loads a group's folds, or the list of their documents.
    private func load(_ part: Part) {
        if part.list != nil { return }
        let folds = madeFolds(of: part)
        part.folds = folds
        if part.group == nil { return }
        // The group keeps no folds yet. From now on it keeps all of them.
        if part.keepsFolds {
            part.changed = Set(folds.keys)
            set(FoldList(Set(folds.keys)), of: part)
        }
    }

    /// Makes the stale folds of a group again, from its members.
    private func makeStale(of part: Part) {
        for slot in part.stale {
            guard let type: any GroupFold.Type = slot.kind.fold?.type else { continue }
            set(made(type, slot, of: part), slot, of: part)
        }
        part.stale = []
    }

    private func made(_ type: any GroupFold.Type, _ slot: FoldSlot, of part: Part) -> any GroupFold {
        if let group = part.group { return made(type, slot, of: group) }
        guard let (from, into, merge) = part.sides else { return type.init(part.root, nil) }
        return KeptFolds.joined(made(type, slot, of: into), made(type, slot, of: from), by: merge, slot)
    }

    /// The folds of a group. They are made from its members if the group keeps none.
    private func madeFolds(of part: Part) -> [FoldSlot: any GroupFold] {
        var folds: [FoldSlot: any GroupFold] = [:]
        if let (from, into, merge) = part.sides, !part.isJoined {
            part.isJoined = true
            folds = madeFolds(of: into)
            for (slot, joining) in madeFolds(of: from) {
                folds[slot] = KeptFolds.joined(folds[slot], joining, by: merge, slot)
            }
            return folds
        }
        guard let group = part.group, part.folds.isEmpty else { return part.folds }
        for slot in slots {
            guard let type: any GroupFold.Type = slot.kind.fold?.type else { continue }
            let fold = made(type, slot, of: group)
            if !fold.isEmpty { folds[slot] = fold }
        }
        return folds
    }

    private func made(_ type: any GroupFold.Type, _ slot: FoldSlot, of group: Group) -> any GroupFold {
        func make<Fold: GroupFold>(_ type: Fold.Type) -> any GroupFold {
            Fold(of: group) { person in document(slot.document(of: person)) }
        }
        return make(type)
    }

    /// The slots that a member may have.
    private var slots: [FoldSlot] {
        let list = QuestionnaireList(of: project, packed: document(QuestionnaireList.key(of: project)))
        return DocumentKind.allCases.filter { $0.fold != nil && $0 != .response }.map { FoldSlot($0) }
            + list.entries.map { FoldSlot(.response, part: UInt64(bitPattern: $0.id.rawValue)) }
    }

    private func fold(_ slot: FoldSlot, of part: Part) -> any GroupFold {
        if let known = part.folds[slot] { return known }
        guard let type = slot.kind.fold?.type else { preconditionFailure("A fold of documents that have none.") }
        let packed = part.list?.slots.contains(slot) == true ? view.document(slot.kept(of: part.root)) : nil
        return packed.flatMap { type.init(packed: $0) } ?? type.init(part.root, nil)
    }

    private static func joined(
        _ known: (any GroupFold)?, _ joining: any GroupFold, by merge: Merge, _ slot: FoldSlot
    ) -> any GroupFold {
        func join<Fold: GroupFold>(_ joining: Fold) -> any GroupFold {
            // An empty fold does not affect the order of values.
            guard var joined = known as? Fold else { return joining }
            if joining.isEmpty { return joined }
            joined.join(joining, by: merge.id)
            return joined
        }
        return join(joining)
    }

    private func set(_ fold: any GroupFold, _ slot: FoldSlot, of part: Part) {
        part.folds[slot] = fold
        part.changed.insert(slot)
        if part.list?.slots.contains(slot) != true {
            var list = part.list ?? FoldList()
            list.slots.insert(slot)
            set(list, of: part)
        }
    }

    private func set(_ list: FoldList, of part: Part) {
        part.list = list
        part.hasNewList = true
    }

    // MARK: - Documents to write

    private var changes: [Change] {
        if parts.isEmpty, split.isEmpty { return [] }
        var put: [DocumentKey: (root: PersonID, body: [UInt8])] = [:]
        for (root, list) in left {
            put[FoldList.key(of: root)] = (root, [])
            for slot in list.slots { put[slot.kept(of: root)] = (root, []) }
        }
        var tops: [ObjectIdentifier: Part] = [:]
        for var part in Array(parts.values) + Array(split.values) {
            while let whole = part.whole { part = whole }
            tops[ObjectIdentifier(part)] = part
        }
        for part in tops.values where part.keepsFolds {
            // A group that was split does not exist any more.
            if let group = part.group, split[group.root] != nil, split[group.root] !== part { continue }
            makeStale(of: part)
            if part.changed.isEmpty, !part.hasNewList { continue }
            if part.hasNewList, let list = part.list { put[FoldList.key(of: part.root)] = (part.root, list.packed) }
            for slot in part.changed {
                guard let fold = part.folds[slot] else { continue }
                put[slot.kept(of: part.root)] = (part.root, fold.isEmpty ? [] : fold.packed)
            }
        }
        return put.sorted { one, other in
            (one.key.kind.rawValue, one.value.root, one.key.hash.high)
                < (other.key.kind.rawValue, other.value.root, other.key.hash.high)
        }.map { .documentPut($0.key, $0.value.root, $0.value.body) }
    }
}
