/// The facts that the undo of a call ends and brings back, as a reader finds them in the journal.
package struct UndoPlan: Equatable, Sendable {
    /// A person and an identity.
    package struct Link: Equatable, Sendable {
        package let person: PersonID
        package let identity: Identity
    }

    package let call: JournalSequence
    /// The person of the call; nil if it had none, or if an erasure removed the person.
    package internal(set) var person: PersonID?
    /// The links that the undo ends, and the links that it brings back.
    package internal(set) var ended: [Link] = []
    package internal(set) var back: [Link] = []
    /// The merges that the undo ends, as they are in force.
    package internal(set) var endedMerges: [Merge] = []
    /// The merges that the undo makes again, with their former ids.
    package internal(set) var mergesBack: [Merge] = []
    package internal(set) var documents: [DocumentUndo] = []
    /// The version of the strategy that the call set.
    package internal(set) var strategy: Int?

    init(_ call: JournalSequence) { self.call = call }

    /// The people whose facts the undo changes.
    package var people: [PersonID] {
        var people = Set((ended + back).map(\.person) + documents.map(\.person))
        for merge in endedMerges + mergesBack { people.formUnion([merge.from, merge.into]) }
        people.remove(.nobody)
        return people.sorted()
    }

    /// Whether the undo changes the strategy or a document of the directory.
    var changesDirectory: Bool {
        strategy != nil || documents.contains { Directory.documentKinds.contains($0.key.kind) }
    }

    fileprivate var isEmpty: Bool {
        ended.isEmpty && back.isEmpty && endedMerges.isEmpty && mergesBack.isEmpty && documents.isEmpty
            && strategy == nil
    }
}

/// Whether a call can be taken back, as a reader finds it.
package struct Undoable: Sendable {
    package let call: RecordedCall
    /// The scope that a caller needs for the undo.
    package let scope: Scope
    /// The plan of the undo; empty if the call cannot be taken back.
    package private(set) var plan: UndoPlan
    /// The reason why the call cannot be taken back now; nil if it can.
    package private(set) var refusal: Refusal?
    /// The call that took this call back; nil if the call is in force.
    package private(set) var undoneBy: JournalSequence?
    /// The later calls that changed facts of this call and are in force, the first call first.
    package private(set) var above: [JournalSequence] = []
    /// The facts that the undo ends, and those that it brings back.
    package private(set) var factsEnded: [RecordedCall.Fact] = []
    package private(set) var factsBack: [RecordedCall.Fact] = []

    /// Reads a call of a project with the facts of its undo; nil if the project has no such call.
    package init?(
        _ sequence: JournalSequence, in project: ProjectID, _ directory: Directory, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let call = try snapshot.call(sequence), call.project == project else { return nil }
        self.call = call
        scope = try Undoable.scope(of: call, snapshot)
        plan = UndoPlan(sequence)
        if let marked = try snapshot.undo(of: sequence) {
            (undoneBy, refusal) = (marked, .callAlreadyUndone)
            return
        }
        if case .never(let reason) = call.kind.undo {
            refusal = .cannotUndo(reason)
            if reason == .undoSplit, case .reply(let reply) = call.answer, let split = reply.as(Split.self) {
                refusal = .undoSplit(split.id)
            }
            return
        }
        switch call.answer {
        case .forgotten: refusal = .cannotUndo(.erased)
        case .refused: refusal = .cannotUndo(.nothingChanged)
        case .reply(let reply):
            try read(reply, directory, snapshot)
            try finish(snapshot)
        }
    }

    /// The scope that the undo of a call needs. The undo of an undo makes the first call's facts again, so it needs the first call's
    /// scope. Behind many undos, only an administrator goes on, because each of them is a read.
    private static func scope(of call: RecordedCall, _ snapshot: any Snapshot) throws(StoreFault) -> Scope {
        var call = call
        for _ in 0..<undosAtMost {
            switch call.kind.undo {
            case .facts(let scope): return scope
            // The undo is refused, and the refusal says why.
            case .never: return .consoleAct
            case .asUndone:
                guard case .reply(let reply) = call.answer, let undone = reply.as(CallUndone.self),
                    let first = try snapshot.call(undone.call)
                else { return .admin }
                call = first
            }
        }
        return .admin
    }

    private static let undosAtMost = 100

    private mutating func read(
        _ reply: Reply, _ directory: Directory, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        let project = call.project
        var later = LaterChanges()
        plan.person = call.person.flatMap { snapshot.person($0, in: project) == nil ? nil : $0 }
        for fact in call.facts {
            switch fact {
            case .linked(let person, let type, let value): try readLinked(person, type, value, &later, snapshot)
            case .unlinked(let person, let type, let value): try readUnlinked(person, type, value, &later, snapshot)
            case .merged(let merge): try readMerged(merge, &later, snapshot)
            case .mergeUndone(let merge):
                let isBack = snapshot.group(of: merge.from).merges.contains {
                    $0.rule == merge.rule && $0.isBetween(merge.from, merge.into)
                }
                if !isBack { plan.mergesBack.append(merge) }
            case .personMade, .personErased, .rowsAdded, .documentPut: break
            }
        }
        for (person, sought) in later.sought.sorted(by: { $0.key < $1.key }) {
            try look(for: sought, of: person, snapshot)
        }
        try readDocuments(snapshot)
        if let version = reply.as(StrategySet.self)?.version ?? reply.as(CallUndone.self)?.strategy {
            let history = directory.strategies(of: project)
            if let former = history[version - 1]?.strategy, former != history.current.strategy {
                plan.strategy = version
                if history[version]?.strategy != history.current.strategy { refusal = .builtUpon }
            }
        }
    }

    /// The people that the call merged.
    private var merged: Set<PersonID> {
        var people: Set<PersonID> = []
        for case .merged(let merge) in call.facts { people.formUnion([merge.from, merge.into]) }
        return people
    }

    private mutating func readLinked(
        _ person: PersonID, _ type: IdentityType, _ value: String, _ later: inout LaterChanges,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        // A person that the call made and merged keeps its identities, as after the undo of the merge alone.
        if call.facts.contains(.personMade(person)), merged.contains(person) { return }
        if value.isEmpty || snapshot.person(person, in: call.project) == nil {
            refusal = .cannotUndo(.erased)
            return
        }
        let held = try later.identity(type, value, of: person, snapshot)
        let identity = Identity(type, value, in: call.project, hash: snapshot.hash)
        if let held {
            plan.ended.append(.init(person: person, identity: identity))
            if held.call == call.sequence { return }
        }
        // The link ended, or ended and came back.
        later.sought[person, default: []].insert(.link(type, value))
    }

    private mutating func readUnlinked(
        _ person: PersonID, _ type: IdentityType, _ value: String, _ later: inout LaterChanges,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        if value.isEmpty || snapshot.person(person, in: call.project) == nil {
            refusal = .cannotUndo(.erased)
            return
        }
        let identity = Identity(type, value, in: call.project, hash: snapshot.hash)
        let holders = snapshot.holders(of: identity.key)
        if holders.contains(person) { return }
        plan.back.append(.init(person: person, identity: identity))
        for holder in holders {
            // The undo ends the links of the call itself.
            if call.facts.contains(.linked(holder, type, value)) { continue }
            let link = try later.identity(type, value, of: holder, snapshot)
            if let since = link?.call, since > call.sequence, try isInForce(since, snapshot) { add(above: since) }
        }
    }

    private mutating func readMerged(
        _ merge: Merge, _ later: inout LaterChanges, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard snapshot.person(merge.from, in: call.project) != nil, snapshot.person(merge.into, in: call.project) != nil
        else {
            refusal = .cannotUndo(.erased)
            return
        }
        // An undo of an undo made the merge again, under another id.
        for known in snapshot.group(of: merge.from).merges
        where known.rule == merge.rule && known.isBetween(merge.from, merge.into) {
            if known.id != merge.id, try snapshot.call(ofMerge: known.id)?.kind.isUndo != true { continue }
            plan.endedMerges.append(known)
            return
        }
        later.sought[merge.from, default: []].insert(.end(of: merge))
    }

    private mutating func readDocuments(_ snapshot: any Snapshot) throws(StoreFault) {
        let hasMerge = call.facts.contains { if case .merged = $0 { true } else { false } }
        for written in try snapshot.documents(writtenBy: call.sequence) {
            let (key, person) = (written.version.key, written.person)
            // The end of a merge detaches the installs that the merge attached.
            if hasMerge, key.kind == .install || key.kind == .linkedUser { continue }
            if case .stays = key.kind.undoTreatment { continue }
            if DocumentKind.forgetting.contains(key.kind),
                try call.sequence <= snapshot.historyEnd(of: call.project)
            {
                refusal = .cannotUndo(.historyGone)
                return
            }
            let versions = try snapshot.versions(of: key, since: call.sequence)
            guard let place = versions.firstIndex(where: { $0.madeBy == call.sequence }) else { continue }
            let before = place + 1 < versions.count ? try snapshot.content(of: versions[place + 1]) : nil
            let document = DocumentUndo(
                key, person, before: before, after: try snapshot.content(of: versions[place]))
            guard document.isUndone else { continue }
            if person != .nobody, snapshot.person(person, in: call.project) == nil {
                refusal = .cannotUndo(.erased)
                return
            }
            switch document.undone(try snapshot.document(key), at: call.at) {
            case .none: continue
            case .change: plan.documents.append(document)
            case .builtUpon:
                plan.documents.append(document)
                refusal = .builtUpon
                for version in versions[..<place] where try isInForce(version.madeBy, snapshot) {
                    add(above: version.madeBy)
                }
            }
        }
    }

    private mutating func finish(_ snapshot: any Snapshot) throws(StoreFault) {
        above.sort()
        if !above.isEmpty, refusal == nil { refusal = .builtUpon }
        // Each fact that is not in force any more, and that no later call changed, was taken back by an undo.
        if refusal == nil, plan.isEmpty {
            refusal = undoneBy == nil ? .cannotUndo(reasonForNothing) : .callAlreadyUndone
        }
        guard refusal == nil || refusal == .builtUpon else {
            plan = UndoPlan(call.sequence)
            return
        }
        if refusal == nil { undoneBy = nil }
        factsEnded =
            plan.ended.map { .linked($0.person, $0.identity.type, $0.identity.value) }
            + plan.endedMerges.map { .merged($0) }
            + plan.documents.filter { $0.after != nil }.map { .documentPut($0.person, $0.key.kind) }
        factsBack =
            plan.back.map { .linked($0.person, $0.identity.type, $0.identity.value) }
            + plan.mergesBack.map { .merged($0) }
            + plan.documents.filter { $0.before != nil }.map { .documentPut($0.person, $0.key.kind) }
    }

    /// Sentences about what the undo does not take back.
    package var warnings: [String] {
        guard refusal == nil || refusal == .builtUpon else { return [] }
        var warnings: [String] = []
        for case .personMade(let person) in call.facts {
            warnings.append("Person \(person.rawValue), which the call made, stays with its rows.")
        }
        let rows = call.facts.reduce(0) { sum, fact in
            if case .rowsAdded(_, _, let count, _) = fact { sum + count } else { sum }
        }
        if rows > 0 { warnings.append("\(rows) rows of the call stay.") }
        return warnings
    }

    private var reasonForNothing: Irrevocable {
        call.facts.contains { if case .rowsAdded = $0 { true } else { false } } ? .rowsStay : .nothingChanged
    }

    private mutating func add(above call: JournalSequence) {
        if !above.contains(call) { above.append(call) }
    }

    /// Whether a later call counts as built on this call. An undo counts not: it and its call cancel each other.
    private func isInForce(_ sequence: JournalSequence, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let later = try snapshot.call(sequence) else { return false }
        return try isInForce(later, snapshot)
    }

    private func isInForce(_ later: RecordedCall, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        if later.kind.isUndo { return false }
        return try snapshot.document(UndoCall.mark(later.sequence)) == nil
    }

    /// Looks for later calls of a person that changed some facts: a call in force is above this call, and an undo took it back.
    private mutating func look(
        for sought: Set<LaterChanges.Change>, of person: PersonID, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var before: JournalSequence?
        for _ in 0..<Undoable.pagesAtMost {
            let page = try snapshot.calls(of: person, before: before, limit: Undoable.page)
            for later in page {
                if later.sequence <= call.sequence { return }
                guard later.facts.contains(where: { LaterChanges.Change($0, of: person).map(sought.contains) ?? false })
                else { continue }
                if try isInForce(later, snapshot) {
                    add(above: later.sequence)
                } else if later.kind.isUndo, undoneBy == nil {
                    undoneBy = later.sequence
                }
            }
            guard page.count == Undoable.page, let last = page.last else { return }
            before = last.sequence
        }
        // The history is too long to look for the call, so the undo is refused.
        refusal = .builtUpon
    }

    private static let page = 500
    private static let pagesAtMost = 40

    /// The later calls that came to their person by a link of this call, in the order of the journal; nil if the history is too
    /// long to look for them. Calls of dialects whose journal names no identities count if this call made their person.
    package func followers(_ snapshot: any Snapshot) throws(StoreFault) -> [JournalSequence]? {
        var found: Set<JournalSequence> = []
        var links: [PersonID: [FollowedLink]] = [:]
        for case .linked(let person, let type, let value) in call.facts {
            links[person, default: []].append((type, value, call.sequence))
        }
        for (person, links) in links {
            let isNew = call.facts.contains(.personMade(person))
            guard
                let calls = try Undoable.followers(of: person, by: isNew ? nil : links, after: call.sequence, snapshot)
            else { return nil }
            found.formUnion(calls)
        }
        return found.sorted()
    }

    /// An identity, and the call since which its person holds it.
    package typealias FollowedLink = (type: IdentityType, value: String, since: JournalSequence)

    /// The calls after a call that came to a person by one of some identities, in the order of the journal; nil if the history is too
    /// long to look for them.
    ///
    /// - Parameter links: the identities; nil for all calls that came to the person.
    package static func followers(
        of person: PersonID, by links: [FollowedLink]?, after call: JournalSequence, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [JournalSequence]? {
        var found: [JournalSequence] = []
        var before: JournalSequence?
        for _ in 0..<pagesAtMost {
            let page = try snapshot.calls(of: person, before: before, limit: page)
            for later in page {
                if later.sequence <= call { return found.reversed() }
                guard later.person == person, !later.kind.isUndo else { continue }
                let isFound =
                    links?.contains { link in
                        link.since < later.sequence
                            && later.inputs.contains {
                                $0.fate == .matched && $0.type == link.type && $0.value == link.value
                            }
                    } ?? true
                if isFound { found.append(later.sequence) }
            }
            guard page.count == Undoable.page, let last = page.last else { return found.reversed() }
            before = last.sequence
        }
        return nil
    }
}

/// The changes that the undo of a call looks for in later calls. One reading of a person's calls finds all of them.
private struct LaterChanges {
    enum Change: Hashable {
        case link(IdentityType, String)
        /// The end of a merge of two people by a rule, in any order.
        case mergeEnd(Merge.Rule, PersonID, PersonID)

        static func end(of merge: Merge) -> Change {
            .mergeEnd(merge.rule, min(merge.from, merge.into), max(merge.from, merge.into))
        }

        /// The change of a person that a fact is; nil for other facts.
        init?(_ fact: RecordedCall.Fact, of person: PersonID) {
            switch fact {
            case .linked(person, let type, let value), .unlinked(person, let type, let value): self = .link(type, value)
            case .mergeUndone(let merge): self = .end(of: merge)
            case .personMade, .unlinked, .linked, .merged, .personErased, .rowsAdded, .documentPut: return nil
            }
        }
    }

    var sought: [PersonID: Set<Change>] = [:]
    private var identities: [PersonID: [HeldIdentity]] = [:]

    /// An identity that a person holds now; nil if the person does not hold it.
    mutating func identity(
        _ type: IdentityType, _ value: String, of person: PersonID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> HeldIdentity? {
        if identities[person] == nil { identities[person] = try snapshot.identities(of: person) }
        return identities[person]?.first { $0.type == type && $0.value == value }
    }
}

extension ActKind {
    /// Whether calls of the kind take other calls back.
    package var isUndo: Bool {
        [.undoCall, .undoSettings, .undoMerge, .undoSplit, .undoAlias, .undoTransfer].contains(self)
    }
}

extension Snapshot {
    /// The call with a number; nil if the journal has no such call.
    package func call(_ sequence: JournalSequence) throws(StoreFault) -> RecordedCall? {
        try calls([sequence]).first
    }

    /// The call that took a call back by its number; nil if no such call is in force.
    func undo(of sequence: JournalSequence) throws(StoreFault) -> JournalSequence? {
        let key = UndoCall.mark(sequence)
        guard try document(key) != nil else { return nil }
        return try versions(of: key, since: sequence).first?.madeBy
    }
}
