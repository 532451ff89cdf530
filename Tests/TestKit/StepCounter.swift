package import Domain
import Testing
import Threads

/// Counts the work of decisions in steps: each question to the facts, each identity and person that is gone through, each hundred
/// bytes of a document. Releases have nothing of it.
package final class StepCounter: @unchecked Sendable {
    // Unchecked: one thread decides.
    package fileprivate(set) var steps = 0
    /// The most steps of a decision, and its share of the act's bound, for each act.
    package private(set) var most: [String: (steps: Int, share: Double)] = [:]
    /// The members of the groups that an undo or an erasure of the present decision lists, because it must.
    fileprivate var listed = 0
    /// Whether the present decision lists the members of a group that is too small to keep folds.
    fileprivate var listsSmall = false
    /// The identities of the largest person through whose identities the present decision goes.
    fileprivate var largest = 0
    private var pending: (act: any Act, answered: Int)?

    private let report: @Sendable (String) -> Void

    /// - Parameter report: gets what is wrong with a decision that took too many steps.
    package init(_ report: @escaping @Sendable (String) -> Void = { Issue.record("\($0)") }) { self.report = report }

    fileprivate func begin(_ act: any Act) {
        settle(people: 1)
        (steps, listed, listsSmall, largest, pending) = (0, 0, false, 0, (act, 0))
    }

    fileprivate func answered(_ decision: Decision<Reply>) {
        let changes = decision.outcome?.changes ?? []
        pending?.answered = changes.count + StepCounter.bytes(of: changes) / 100 + decision.answer.packed.count / 100
    }

    fileprivate func followed(by changes: [Change]) {
        pending?.answered += changes.count + StepCounter.bytes(of: changes) / 100
    }

    /// Ends the present decision, and compares it with the bound of its act.
    fileprivate func settle(people: Int) {
        guard let (act, answered) = pending else { return }
        pending = nil
        let bound =
            (listsSmall ? WorkBound.small : 0)
            + WorkBound.of(act).steps(
                named: StepCounter.named(by: act), answered: answered, listed: listed, held: largest, people: people)
        let name = "\(type(of: act))"
        let share = Double(steps) / Double(bound)
        if share > most[name]?.share ?? -1 { most[name] = (steps, share) }
        if steps > bound {
            let sizes = "\(StepCounter.named(by: act)) named, \(answered) answered, \(listed) listed, \(largest) held"
            report("\(name) took \(steps) steps, and may take \(bound): \(sizes)")
        }
    }

    /// The size of what a call names.
    private static func named(by act: any Act) -> Int {
        let subjects = act.subjects
        return subjects.spokenFor.count + subjects.mentions.count + subjects.mentionedPeople.count
            + subjects.people.count + subjects.merges.count + subjects.links.count + subjects.codes.count
            + subjects.purchases.count + (subjects.about == nil ? 0 : 1) + act.byteCount / 100
    }

    private static func bytes(of changes: [Change]) -> Int {
        changes.reduce(0) { sum, change in
            switch change {
            case .documentPut(_, _, let body): sum + body.count
            case .rowAdded(_, let row): sum + row.body.count
            case .personMade, .linked, .unlinked, .rowSuperseded, .merged, .mergeUndone, .personErased, .projectMade,
                .appMade,
                .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                sum
            }
        }
    }
}

/// The most steps that a decision may take: `fixed + named · n + answered · c + log · log₂(people)`. A bound names only what the call
/// names and answers, and never the size of a group, of a person or of the store. The exceptions are in the table, with their reasons.
struct WorkBound: Sendable {
    var fixed = 60
    var named = 24
    var answered = 6
    var log = 2
    /// The steps for each member of a group that the call lists.
    var listed = 0
    /// The steps for each identity of the largest person that the call finds. `person_limits` bounds these identities.
    var held = 0

    func steps(named: Int, answered: Int, listed: Int, held: Int, people: Int) -> Int {
        let log2 = Int.bitWidth - max(people, 1).leadingZeroBitCount
        return fixed + self.named * named + self.answered * answered + self.listed * listed + self.held * held
            + log * log2
    }

    /// The steps that a decision may take besides, where it lists groups that are too small to keep folds: each fold is then made from
    /// their members.
    static let small = 40 * Group.membersWithFolds

    /// The bound of an act. Acts that are not in this table have the usual bound.
    static func of(_ act: any Act) -> WorkBound { others[ObjectIdentifier(type(of: act))] ?? WorkBound() }

    private static let others: [ObjectIdentifier: WorkBound] = [
        // The two sides of an undone merge are listed, and their folds are made anew.
        ObjectIdentifier(UndoMerge.self): WorkBound(listed: 12),
        ObjectIdentifier(UndoCall.self): WorkBound(listed: 12, held: 2),
        ObjectIdentifier(UndoImport.self): WorkBound(listed: 12),
        // An erasure looks for each kind of document of each member and of each identity, and ends each link.
        ObjectIdentifier(ErasePerson.self): WorkBound(fixed: 300, listed: 240, held: 120),
        ObjectIdentifier(DeleteUser.self): WorkBound(fixed: 300, listed: 240, held: 120),
        // Each member may have a part of the response.
        ObjectIdentifier(ReviewResponse.self): WorkBound(listed: 3),
        // The rules ask whether the found person holds a login identity, or is at a limit.
        ObjectIdentifier(Identify.self): WorkBound(held: 3),
        ObjectIdentifier(IdentifyUser.self): WorkBound(held: 8),
        ObjectIdentifier(Search.self): WorkBound(held: 2),
        ObjectIdentifier(Ingest.self): WorkBound(held: 2),
        ObjectIdentifier(Modify.self): WorkBound(held: 2),
        ObjectIdentifier(AttachIdentity.self): WorkBound(held: 3),
        ObjectIdentifier(DetachIdentity.self): WorkBound(held: 2),
        ObjectIdentifier(SplitPerson.self): WorkBound(held: 2),
        ObjectIdentifier(UndoSplit.self): WorkBound(held: 3),
        // The person of an install may have one user id of the dialect.
        ObjectIdentifier(LinkInstall.self): WorkBound(held: 2),
        ObjectIdentifier(LinkHard.self): WorkBound(held: 2),
        ObjectIdentifier(LinkLate.self): WorkBound(held: 2),
        ObjectIdentifier(RedeemCode.self): WorkBound(held: 2),
    ]
}

/// Facts that count what is looked at.
package struct CountingFacts<Base: DecisionFacts>: OverlaidFacts {
    package let base: Base
    package let counter: StepCounter

    package init(base: Base, counter: StepCounter) {
        self.base = base
        self.counter = counter
    }

    package func forEachHolder(of identity: IdentityKey, _ body: (Base.Person) -> Void) {
        counter.steps += 1
        base.forEachHolder(of: identity) { holder in
            counter.steps += 1
            body(holder)
        }
    }

    package func holderCount(of identity: IdentityKey) -> Int {
        counter.steps += 1
        return base.holderCount(of: identity)
    }

    package func holdersByAge(of identity: IdentityKey) -> [Base.Person] {
        let holders = base.holdersByAge(of: identity)
        counter.steps += 1 + holders.count
        return holders
    }

    package func forEachIdentity(of person: Base.Person, _ body: (IdentityType, IdentityKey) -> Bool) {
        counter.largest = max(counter.largest, base.identityCount(of: person))
        base.forEachIdentity(of: person) { type, key in
            counter.steps += 1
            return body(type, key)
        }
    }

    package func document(_ key: DocumentKey) -> [UInt8]? {
        let document = base.document(key)
        counter.steps += 1 + (document?.count ?? 0) / 100
        return document
    }

    package func person(_ id: PersonID, in project: ProjectID) -> Base.Person? {
        counter.steps += 1
        return base.person(id, in: project)
    }

    package func person(_ id: PersonID) -> Base.Person? {
        counter.steps += 1
        return base.person(id)
    }

    package func knowsRow(_ hash: RowHash) -> Bool {
        counter.steps += 1
        return base.knowsRow(hash)
    }

    package func namedRow(_ hash: RowHash) -> NamedRow? {
        counter.steps += 1
        return base.namedRow(hash)
    }

    package func merge(_ id: MergeID) -> Merge? {
        counter.steps += 1
        return base.merge(id)
    }

    package func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        counter.steps += 1
        return base.areMerged(one, other, by: rule)
    }

    package func group(of person: PersonID) -> Group {
        counter.steps += 1
        let group = base.group(of: person)
        return group.count == 1
            ? group : Group(root: group.root, count: group.count, CountingGroup(group: group, counter: counter))
    }

    package func totals(of group: Group) -> GroupTotals {
        // A small group is counted from its members.
        counter.steps += group.count < Group.membersWithFolds ? group.count : 1
        return base.totals(of: base.group(of: group.root))
    }
}

private final class CountingGroup: GroupSource {
    let group: Group
    let counter: StepCounter

    init(group: Group, counter: StepCounter) {
        self.group = group
        self.counter = counter
    }

    private func list() {
        counter.steps += group.count
        counter.listed += group.count
        // A group of two small groups makes its folds from their members once.
        if group.count < 2 * Group.membersWithFolds { counter.listsSmall = true }
    }

    func members(ofGroupWith person: PersonID) -> [PersonID] {
        list()
        return group.members
    }

    func merges(ofGroupWith person: PersonID) -> [Merge] {
        list()
        return group.merges
    }

    func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        counter.steps += min(limit, group.count)
        return group.members(after: after, limit: limit)
    }
}

/// The facts of a batch, whose decisions are counted.
private final class CountingBatchFacts<Base: DecidingBatchFacts>: BatchFacts {
    private let base: Base
    private let counter: StepCounter
    private let people: Int
    private var view: CountingFacts<Base.Seen> { CountingFacts(base: base.view, counter: counter) }

    init(_ base: Base, _ counter: StepCounter, people: Int) {
        self.base = base
        self.counter = counter
        self.people = people
    }

    func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        counter.settle(people: people)
        counter.begin(act)
        base.trace.clear()
        let decision = try view.decide(act, stamp, in: project)
        counter.answered(decision)
        return decision
    }

    func refusal(of act: any Act, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        base.refusal(of: act, by: proof, in: project)
    }

    func refusal(of decision: Decision<Reply>, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        base.refusal(of: decision, by: proof, in: project)
    }

    func merges(
        _ names: SameUserID, after changes: [Change], _ stamp: Stamp, in project: ProjectID
    ) -> (changes: [Change], full: Full?) {
        base.merges(names, after: changes, stamp, in: project)
    }

    var groupsRead: Set<PersonID> { base.groupsRead }
    var peopleRead: Set<PersonID> { base.peopleRead }

    func folds(after changes: [Change], by call: PersonID, in project: ProjectID) -> [Change] {
        let folds = KeptFolds.changes(after: changes, by: call, in: project, view)
        counter.followed(by: folds)
        return folds + RemovedRows.changes(after: changes, view)
    }

    func earlier(_ claim: ReplayClaim) -> RememberedCall? { base.earlier(claim) }

    func named(_ reply: Reply) -> Reply { base.named(reply) }
    func apply(_ entry: JournalEntry) { base.apply(entry) }
    func see(_ person: PersonID, at moment: SeenAt) { base.see(person, at: moment) }
    func holders(of identities: [Identity], limit: Int) -> [PersonID] { base.holders(of: identities, limit: limit) }

    func end() { counter.settle(people: people) }
}

/// A store whose decisions are counted, and compared with the bounds of their acts.
package final class CountingStore: Store {
    package let base: any Store
    package let counter: StepCounter

    package init(_ base: any Store, _ counter: StepCounter = StepCounter()) {
        (self.base, self.counter) = (base, counter)
    }

    package func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        let people = base.counts.people
        try base.decide(needs) { facts in
            guard let deciding = facts as? any DecidingBatchFacts else {
                preconditionFailure("A store decides over facts that cannot be counted.")
            }
            run(body, over: deciding, people)
        }
    }

    private func run<Facts: DecidingBatchFacts>(_ body: (any BatchFacts) -> Void, over facts: Facts, _ people: Int) {
        let counting = CountingBatchFacts(facts, counter, people: people)
        body(counting)
        counting.end()
    }

    package func discard() throws(StoreFault) { try base.discard() }
    package func sweep() throws(StoreFault) -> Bool { try base.sweep() }
    package func compact() throws(StoreFault) -> Compaction { try base.compact() }
    package var hash: KeyedHash { base.hash }
    package var lastPerson: PersonID? { base.lastPerson }
    package var lastMoment: Instant? { base.lastMoment }
    package var latestMoment: Instant? { base.latestMoment }
    package var counts: StoreCounts { base.counts }
    package var directory: Directory { base.directory }
    package func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek { base.peek(call, act, stamp) }
    package func commit(_ entries: [JournalEntry]) throws(StoreFault) { try base.commit(entries) }
    package func see(_ sightings: [PersonID: SeenAt]) { base.see(sightings) }
    package func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? {
        try base.expire(old, limit: limit)
    }
    package func forgetVersions(
        after place: Int64, supersededUpTo call: JournalSequence, limit: Int
    ) throws(StoreFault) -> Int64 {
        try base.forgetVersions(after: place, supersededUpTo: call, limit: limit)
    }
    package func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        try base.keep(segments, within: limit)
    }
    package func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) { try base.replace(segments) }
    package var isShared: Bool { base.isShared }
    package var leads: Bool { base.leads }
    package var trouble: StoreFault? { base.trouble }
    package func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void) { base.watchHolds(note) }
    package func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool { try base.fold(sightings) }
    package func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result { try base.read(until: limit, body) }
    package func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? { base.glance(body) }
    package func recover() throws(StoreFault) { try base.recover() }
}

/// Makes many people one with a person, and gives the person many identities: in one call, as no call of a client does.
package struct Grow: Act {
    let person: PersonID
    let members: Int
    let identities: Int
    let hash: KeyedHash

    package init(_ person: PersonID, members: Int, identities: Int, hash: KeyedHash) {
        self.person = person
        self.members = members
        self.identities = identities
        self.hash = hash
    }

    package static var kinds: [ActKind] { [.exercise] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(about: person) }
    package var byteCount: Int { 1 }

    /// Makes the members and the identities.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var changes: [Change] = []
        var next = stamp.person
        func identity(_ type: IdentityType, _ number: Int) -> Identity {
            Identity(type, "\(person.rawValue)-\(stamp.person.rawValue)-\(number)", in: project, hash: hash)
        }
        for number in 0..<members {
            let merge = Merge(id: MergeID(rawValue: next.rawValue), from: next, into: person, rule: .administrator)
            changes += [
                .personMade(next, at: stamp.seen), .linked(next, identity(.other8, number)), .merged(merge),
            ]
            next = next.next
        }
        for number in 0..<identities { changes.append(.linked(person, identity(.other9, number))) }
        return Decision(Done(), outcome: Outcome(kind: .exercise, person: person, changes: changes))
    }
}
