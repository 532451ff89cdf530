/// The people that a project would have if other rules had been in force from the first call. The dry run decides the calls
/// of the journal again in its own index, and compares the results.
///
/// A call may name a person by an id from an earlier answer. Here, that id means the person that the earlier call found in
/// the dry run, because an app sends the ids that it received. The dry run copies facts that the rules do not decide:
/// claims, merges by administrators, and links of installs. Activation and access use the people of the journal, because the
/// rules for finding people do not decide them.
///
/// The journal does not have all data. It keeps no blocked values, so such a value stays blocked. If two people fit equally
/// well, the dry run takes the person seen last, also if the app named a previous person.
package final class StrategyDryRun {
    /// A person of the journal and a person of this index that the same call found.
    private struct Pair: Hashable {
        let was: PersonID
        let would: PersonID
    }

    /// The person of this index for a person of the journal.
    private struct Counterpart {
        /// The person of the call that made the person, or of the first call that found it.
        let home: PersonID
        /// The person of the last call.
        var current: PersonID
    }

    private let project: ProjectID
    private let hash: KeyedHash
    private let joinsSameUserIDs: Bool
    private let joinsAnonymous: Bool
    private let blockedValues: BlockedValues
    private let lowercasesEmail: Bool
    private let index: PeopleIndex
    private var activation: ActivationDryRun
    private var restoring: AccessDryRun
    private var proofs: ProofDryRun
    /// The groups of the journal.
    private let was = GroupIndex()
    private var people: Set<PersonID> = []
    private var counterparts: [PersonID: Counterpart] = [:]
    /// The holders here of user ids of other dialects. Calls of these dialects name the user id instead of a person.
    private var named: [PersonID: PersonID] = [:]
    /// The pairs in which a person of the journal was another person of this index than in its first pair.
    private var others: Set<Pair> = []
    /// The call that made a person of this index.
    private var madeBy: [PersonID: JournalSequence] = [:]
    private var holdsAccess: Set<PersonID> = []
    private var documents: [[UInt8]] = []
    private var lastPerson = PersonID(rawValue: 0)
    private var sequence = JournalSequence.zero
    /// The order in which the calls of the dry run see people.
    private let order = SightingOrder(after: nil)

    package private(set) var calls = 0
    private var elsewhere = 0
    private var refused = 0
    private var samples: [Difference.Elsewhere] = []

    /// - Parameter directory: the present directory, with the rules in force.
    package init(_ strategy: Strategy, for project: ProjectID, _ directory: Directory, hash: KeyedHash) {
        self.project = project
        self.hash = hash
        joinsSameUserIDs = strategy.guards.joinsSameUserIDs
        joinsAnonymous = strategy.restore.joinsAnonymous
        blockedValues = strategy.blockedValues
        lowercasesEmail = strategy.lowercasesEmail
        activation = ActivationDryRun(strategy.activation ?? ActivationPolicy(), for: project, hash: hash)
        restoring = AccessDryRun(strategy.restore, for: project)
        proofs = ProofDryRun(strategy, directory)
        let version = directory.strategies(of: project).current.number + 1
        let rules = JournalEntry(
            Call(project: project, key: nil), Stamp(at: Instant(milliseconds: 0), person: PersonID(rawValue: 0)),
            Outcome(kind: .setStrategy, person: nil, changes: [.strategySet(version: version, strategy)]),
            Reply(StrategySet(version: version, strategy)))
        index = PeopleIndex(directory: directory.applying(rules))
        index.readDocument = { [unowned self] in documents[Int($0) - 1] }
    }

    // MARK: - Deciding a call again

    /// Decides a call of the journal again. Calls come in the journal's order; calls of other projects are skipped.
    package func take(_ call: RecordedCall) {
        guard call.project == project, call.kind != .refused, call.kind != .unproven, call.kind != .leftOut,
            call.person != nil || !call.facts.isEmpty
        else { return }
        calls += 1
        let madeSomebody = call.facts.contains { fact in
            if case .personMade(let person) = fact { person == call.person } else { false }
        }
        if let act = act(of: call, madeSomebody) {
            decide(act, of: call, madeSomebody)
        } else {
            applyRecorded(call)
        }
        for fact in call.facts { note(fact, call) }
        activation.take(call, was)
        restoring.take(call)
        proofs.take(call)
        let erasesSomebody = call.facts.contains { if case .personErased = $0 { true } else { false } }
        if erasesSomebody, let person = call.person { erase(person, call) }
    }

    /// The act of the call, if the rules decide its result.
    private func act(of call: RecordedCall, _ madeSomebody: Bool) -> (any Act)? {
        switch call.kind {
        case .identify: Identify(.start, identities: named(by: call))
        case .login: Identify(.login, identities: named(by: call))
        case .logout: Identify(.logout, identities: named(by: call))
        case .modify: modify(call)
        case .ingest: ingest(call, madeSomebody)
        case .attachIdentity, .detachIdentity, .releaseDevice: byHand(call)
        default: nil
        }
    }

    /// The identities of a call, as far as the journal has them.
    private func named(by call: RecordedCall) -> [Identity] {
        var types = IdentityTypeSet()
        var identities: [Identity] = []
        func add(_ type: IdentityType, _ value: String?) {
            guard !types.contains(type), let identity = identity(type, value) else { return }
            types.insert(type)
            identities.append(identity)
        }
        for case .linked(let person, let type, let value) in call.facts where person == call.person { add(type, value) }
        for input in call.inputs { add(input.type, input.value) }
        return identities.sorted { $0.type.rawValue < $1.type.rawValue }
    }

    private func modify(_ call: RecordedCall) -> Modify? {
        guard let person = call.person else { return nil }
        var (old, new): ([Identity], [Identity]) = ([], [])
        for fact in call.facts {
            switch fact {
            case .unlinked(person, let type, let value): if let named = identity(type, value) { old.append(named) }
            case .linked(person, let type, let value): if let named = identity(type, value) { new.append(named) }
            default: break
            }
        }
        for input in call.inputs {
            guard let named = identity(input.type, input.value) else { continue }
            if input.fate == .notHeld { old.append(named) } else { new.append(named) }
        }
        var items: [Modify.Item] = []
        for identity in new {
            let before = old.firstIndex { $0.type == identity.type }
            items.append(Modify.Item(identity.type, old: before.map { old.remove(at: $0) }, new: identity))
        }
        items += old.map { Modify.Item($0.type, old: $0, new: nil) }
        return Modify(person: whoever(person), items: items)
    }

    /// The upload of a call. A call that made a person did not know the person. All other calls count as calls that knew it.
    private func ingest(_ call: RecordedCall, _ madeSomebody: Bool) -> Ingest? {
        let identities = named(by: call)
        guard let person = call.person, !identities.isEmpty else { return nil }
        return Ingest(person: madeSomebody ? nil : whoever(person), identities: identities, rows: [])
    }

    /// The act of an administrator on one identity.
    private func byHand(_ call: RecordedCall) -> (any Act)? {
        for fact in call.facts {
            switch fact {
            case .linked(let person, let type, let value):
                if let identity = identity(type, value) {
                    return AttachIdentity(identity, to: whoever(person), reason: nil)
                }
            case .unlinked(let person, let type, let value):
                guard let identity = identity(type, value) else { continue }
                if call.kind == .releaseDevice { return ReleaseDevice(identity, reason: nil) }
                return DetachIdentity(identity, from: whoever(person), reason: nil)
            default: break
            }
        }
        return nil
    }

    /// An identity under the rules; nil if the journal no longer has its value.
    private func identity(_ type: IdentityType, _ value: String?) -> Identity? {
        guard let value, !value.isEmpty else { return nil }
        return Identity(type, lowercasesEmail && type == .email ? value.lowercased() : value, in: project, hash: hash)
    }

    private func decide(_ act: any Act, of call: RecordedCall, _ madeSomebody: Bool) {
        let stamp = stamp(at: call.at)
        let view = index.pending
        let result = Result { () throws(Refusal) in try view.decide(act, stamp, in: project) }
        guard case .success(let decision) = result else {
            refused += 1
            return
        }
        if var outcome = decision.outcome {
            if joinsSameUserIDs {
                let names = SameUserID(outcome.linked, except: blockedValues, in: project, hash: hash)
                outcome.changes += names.merges(after: outcome.changes, stamp, in: project, view).changes
            }
            keep(outcome, stamp, call)
        }
        guard let was = call.person, let would = decision.answer.seen else { return }
        index.see(would, at: order.next(at: call.at))
        let isElsewhere = madeSomebody ? would != stamp.person : counterparts[was].map { $0.home != would } ?? false
        meet(was, would)
        guard isElsewhere else { return }
        elsewhere += 1
        guard samples.count < Difference.samples else { return }
        samples.append(Difference.Elsewhere(call, madeBy: madeBy[would]))
    }

    private func meet(_ was: PersonID, _ would: PersonID) {
        guard let counterpart = counterparts[was] else {
            counterparts[was] = Counterpart(home: would, current: would)
            return
        }
        if counterpart.home != would { others.insert(Pair(was: was, would: would)) }
        if counterpart.current != would { counterparts[was]?.current = would }
    }

    /// The present person of this index for a person of the journal. The id 0 means no person.
    private func whoever(_ person: PersonID) -> PersonID {
        counterparts[person]?.current ?? PersonID(rawValue: 0)
    }

    // MARK: - Facts that no rule decides

    private func applyRecorded(_ call: RecordedCall) {
        var changes: [Change] = []
        var stamp = stamp(at: call.at)
        var linked: [Identity] = []
        /// The person of this index for a person of the journal. The dry run makes this person if no call has found it.
        func place(_ person: PersonID) -> PersonID {
            let byName = call.kind == .merge ? nil : named[person]
            if let here = byName ?? counterparts[person]?.current, !index.isErased(here) { return here }
            let newcomer = stamp.person
            stamp = Stamp(at: call.at, person: newcomer.next, seen: order.next(at: call.at))
            lastPerson = newcomer
            changes.append(.personMade(newcomer, at: order.next(at: call.at)))
            meet(person, newcomer)
            return newcomer
        }
        var (added, ended): (Set<Hold>, Set<Hold>) = ([], [])
        func holds(_ hold: Hold) -> Bool {
            if added.contains(hold) { return true }
            if ended.contains(hold) { return false }
            return index.pending.person(hold.person).map { index.pending.holds($0, hold.identity) } ?? false
        }
        for fact in call.facts {
            switch fact {
            case .personMade(let person): if counterparts[person] == nil { _ = place(person) }
            case .linked(let person, let type, let value):
                guard let identity = identity(type, value) else { continue }
                let hold = Hold(person: place(person), identity: identity.key)
                if type.dialect != .idsync, named[person] == nil { named[person] = hold.person }
                if holds(hold) { continue }
                changes.append(.linked(hold.person, identity))
                added.insert(hold)
                linked.append(identity)
            case .unlinked(let person, let type, let value):
                guard let identity = identity(type, value) else { continue }
                let hold = Hold(person: place(person), identity: identity.key)
                guard holds(hold) else { continue }
                changes.append(.unlinked(hold.person, type, identity.key))
                ended.insert(hold)
            case .merged(let merge):
                // The rules decide merges by equal user ids.
                if merge.rule == .sameUserID || merge.rule == .restore && !joinsAnonymous { continue }
                let (from, into) = (place(merge.from), place(merge.into))
                if from == into || index.pending.areMerged(from, into, by: merge.rule) { continue }
                // The call may have supported another reason, which does not exist under these rules.
                if merge.rule == .claim || merge.rule == .linking, !Joined(changes).areOne(from, into, index.pending),
                    mayNotJoin(from, into, merge.rule)
                {
                    continue
                }
                changes.append(.merged(Merge(id: merge.id, from: from, into: into, rule: merge.rule)))
            case .mergeUndone(let merge):
                guard merge.rule == .sameUserID else {
                    if let known = index.pending.merge(merge.id) { changes.append(.mergeUndone(known)) }
                    continue
                }
                let (from, into) = (place(merge.from), place(merge.into))
                for known in index.pending.group(of: from).merges
                where known.rule == .sameUserID && known.isBetween(from, into) {
                    changes.append(.mergeUndone(known))
                }
                changes.append(.documentPut(SameUserID.parted(from, into), from, [1]))
            case .personErased, .rowsAdded, .documentPut: break
            }
        }
        if joinsSameUserIDs, !linked.isEmpty {
            let names = SameUserID(linked, except: blockedValues, in: project, hash: hash)
            changes += names.merges(after: changes, stamp, in: project, index.pending).changes
        }
        if !changes.isEmpty { keep(Outcome(kind: call.kind, person: nil, changes: changes), stamp, call) }
        if case .reply(let reply) = call.answer, let was = reply.seen,
            let would = named[was] ?? counterparts[was]?.current
        {
            index.see(would, at: order.next(at: call.at))
            meet(was, would)
        }
    }

    /// Whether the dry run refuses a claim or a link of two people that are not one. The rules are those of the calls
    /// themselves.
    private func mayNotJoin(_ from: PersonID, _ into: PersonID, _ rule: Merge.Rule) -> Bool {
        let view = index.pending
        if rule == .claim { return view.totals(of: view.group(of: from)).identities[.claimUserID, default: 0] > 0 }
        return view.reasonToKeepApart(from, into) != nil
    }

    /// A person that holds an identity.
    private struct Hold: Hashable {
        let person: PersonID
        let identity: IdentityKey
    }

    /// Notes the facts of the journal about people, independent of the results here.
    private func note(_ fact: RecordedCall.Fact, _ call: RecordedCall) {
        switch fact {
        case .personMade(let person): people.insert(person)
        case .merged(let merge): was.load(merge)
        case .mergeUndone(let merge): was.commitUndo(merge.id)
        case .rowsAdded(let person, let kind, _, _): if kind.isTold { holdsAccess.insert(person) }
        case .documentPut(let person, .linkedUser):
            // Equal user ids never merge two users of the Linking dialect.
            guard let would = counterparts[person]?.current, !index.isErased(would) else { return }
            let document = Change.documentPut(
                DocumentKey(.linkedUser, of: would), would, LinkedUser(of: would).packed)
            keep(Outcome(kind: call.kind, person: nil, changes: [document]), stamp(at: call.at), call)
        case .personErased(let person):
            people.remove(person)
            holdsAccess.remove(person)
        case .linked, .unlinked, .documentPut: break
        }
    }

    /// Erases the group of a person here.
    private func erase(_ person: PersonID, _ call: RecordedCall) {
        guard let would = counterparts[person]?.current else { return }
        var changes: [Change] = []
        for member in index.pending.group(of: would).members {
            guard let place = index.pending.person(member) else { continue }
            index.pending.forEachIdentity(of: place) { type, identity in
                changes.append(.unlinked(member, type, identity))
                return true
            }
            changes.append(.personErased(member))
        }
        if changes.isEmpty { return }
        keep(Outcome(kind: .erase, person: nil, changes: changes), stamp(at: call.at), call)
    }

    // MARK: - The index

    /// A stamp after the last stamp. The time of a journal never goes back, and ids of people only grow.
    private func stamp(at moment: Instant) -> Stamp {
        Stamp(
            at: moment, person: max(PersonID(at: moment, chance: 0), lastPerson.next), seen: order.next(at: moment))
    }

    private func keep(_ outcome: Outcome, _ stamp: Stamp, _ call: RecordedCall) {
        let entry = JournalEntry(Call(project: project, key: nil), stamp, outcome, Reply(Done()))
        index.apply(entry)
        sequence = sequence.next
        index.commit([entry], sequence: sequence)
        for change in outcome.changes {
            switch change {
            case .personMade(let person, _):
                lastPerson = max(lastPerson, person)
                madeBy[person] = call.sequence
            case .merged(let merge): lastPerson = max(lastPerson, PersonID(rawValue: merge.id.rawValue))
            case .documentPut(_, _, let body): documents.append(body)
            default: break
            }
        }
    }

    // MARK: - Differences

    /// The differences after all calls so far.
    package var difference: Difference {
        var difference = Difference(calls: calls, elsewhere: elsewhere, refused: refused)
        difference.samplesElsewhere = samples
        (difference.installs, difference.access) = (activation.finished(), restoring.finished())
        difference.unproven = proofs.count
        difference.peopleNow = Set(people.map { was.group(of: $0).root }).count
        difference.peopleThen = Set(everybody.map { root(of: $0) }).count

        var parts: [PersonID: Set<PersonID>] = [:]
        var wholes: [PersonID: Set<PersonID>] = [:]
        func add(_ person: PersonID, _ would: PersonID) {
            guard people.contains(person), !index.isErased(would) else { return }
            let (from, to) = (was.group(of: person).root, root(of: would))
            parts[from, default: []].insert(to)
            wholes[to, default: []].insert(from)
        }
        for (person, counterpart) in counterparts { add(person, counterpart.home) }
        for pair in others { add(pair.was, pair.would) }

        let split = parts.filter { $0.value.count > 1 }
        let joined = wholes.filter { $0.value.count > 1 }
        difference.split = split.count
        difference.joined = joined.count
        difference.samplesSplit = split.keys.sorted().prefix(Difference.samples).map { person in
            let calls = split[person, default: []].compactMap { madeBy[$0] }.sorted()
            return Difference.Split(person: person, madeBy: calls)
        }
        let wholesOfSeveral = joined.values.map { $0.sorted() }.sorted { $0.lexicographicallyPrecedes($1) }
        difference.samplesJoined = Array(wholesOfSeveral.prefix(Difference.samples))
        let moved = Set(holdsAccess.map { was.group(of: $0).root }).filter { person in
            let parts = parts[person, default: []]
            return parts.count > 1 || parts.contains { joined[$0] != nil }
        }
        difference.accessMoved = moved.count
        difference.samplesAccess = Array(moved.sorted().prefix(Difference.samples))
        return difference
    }

    // MARK: - Results

    /// All people that would exist, in the order of their creation.
    package var everybody: [PersonID] { madeBy.keys.filter { !index.isErased($0) }.sorted() }

    /// The root of a person's group in the dry run.
    package func root(of person: PersonID) -> PersonID { index.committed.group(of: person).root }

    /// The state of each install that was ever linked.
    package var installs: [InstallID: Install.State] { activation.standing }

    /// The owners of a purchase, and the installs whose store account would have paid; nil if nobody would have the purchase.
    package func holders(of purchase: PurchaseID) -> (owners: [PersonID], payers: [PersonID])? {
        restoring.holders(of: purchase)
    }

    /// The holders of an identity in the dry run, the oldest first.
    package func holders(of identity: Identity) -> [PersonID] {
        var holders: [PersonID] = []
        index.pending.forEachHolder(of: identity.key) { holders.append(index.id(of: $0)) }
        return holders.sorted()
    }
}
