/// The people that a project would have if other rules had been in force from the first call. The dry run decides the calls
/// of the journal again in its own index, and compares the results.
///
/// A call may name a person by an id from an earlier answer. Here, that id means the person that the earlier call found in
/// the dry run, because an app sends the ids that it received. The dry run copies facts that the rules do not decide:
/// claims, merges by administrators, and links of installs. Activation and access use the people of the journal, because the
/// rules for finding people do not decide them.
///
/// The call log has the calls that changed nothing or were refused, and what the journal lacks of other calls. The dry run
/// counts what neither of them has (``Difference/unknown``): if nothing is missing, the people are those of a fresh store that was
/// given the same calls.
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
    private let strategy: Strategy
    /// The erased people. The dry run leaves out their calls, because the journal no longer has them.
    private let erased: Set<PersonID>
    private var erasedPeople = 0
    private var erasedCalls = 0
    private var rules = Difference.Rules()
    private var repeats = RepeatNote()
    /// Whether a call named a value that too many people hold. Such a call may make a person each time.
    private var sawTooCommon = false
    /// The servers that wrote calls of the log about each name at the present place.
    private var writers: (place: JournalSequence, of: [UInt64: UInt64]) = (.zero, [:])
    private let joinsSameUserIDs: Bool
    private let joinsAnonymous: Bool
    private let mergesByRule: Bool
    private let blockedValues: BlockedValues
    /// The strategies that were in force, the first of them last.
    private var later: [Strategy]
    /// Whether the rules in force at the present call block the same values, and compare e-mail addresses in the same way.
    private var blocksTheSame = true
    private var lowercasesTheSame = true
    private var unknown = Difference.Unknown()
    /// The values of the journal that a call of the log needs, because the log has only hashes: values that the tried rules block,
    /// and user ids if equal ones merge people. A user id that the journal does not have is in no other dialect.
    private var values: [IdentityKey: String] = [:]
    /// The identities of the journal that the tried rules do not block, if other rules in force blocked other values.
    private var unblocked: Set<IdentityKey> = []
    private let wereOthersBlocked: Bool
    /// The call of the journal after which the log has all calls; nil if it has all calls.
    private var logBegin: JournalSequence?
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

    /// - Parameters:
    ///   - directory: the present directory, with the rules in force.
    ///   - erased: the people of the project that are erased now.
    package init(
        _ strategy: Strategy, for project: ProjectID, _ directory: Directory, hash: KeyedHash,
        erased: Set<PersonID> = []
    ) {
        self.project = project
        self.hash = hash
        self.strategy = strategy
        self.erased = erased
        joinsSameUserIDs = strategy.guards.joinsSameUserIDs
        joinsAnonymous = strategy.restore.joinsAnonymous
        mergesByRule = strategy.mergesByRule
        blockedValues = strategy.blockedValues
        lowercasesEmail = strategy.lowercasesEmail
        later = directory.strategies(of: project).newestFirst.map(\.strategy)
        wereOthersBlocked = later.contains { $0.blockedValues != strategy.blockedValues }
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
        nextStrategy()
    }

    /// Goes on to the next strategy that was in force.
    private func nextStrategy() {
        guard let strategy = later.popLast() else { return }
        blocksTheSame = strategy.blockedValues == blockedValues
        lowercasesTheSame = strategy.lowercasesEmail == lowercasesEmail
    }

    // MARK: - Deciding a call again

    /// Decides some calls of the journal again, and the calls of the log that came before each of them. Calls come in the journal's
    /// order.
    ///
    /// - Parameter log: the calls of the log of this project, in their order. What is left comes after the calls.
    package func take(_ calls: some Sequence<RecordedCall>, _ log: inout ArraySlice<LoggedCall>) {
        for call in calls {
            while let next = log.first, next.place < call.sequence { take(log.removeFirst()) }
            var rest: LoggedCall?
            if let next = log.first, next.place == call.sequence, next.isJournalled { rest = log.removeFirst() }
            take(call, rest)
        }
    }

    /// Decides a call of the journal again. Calls come in the journal's order; calls of other projects are skipped.
    ///
    /// - Parameter logged: what the journal lacks of the call.
    package func take(_ call: RecordedCall, _ logged: LoggedCall? = nil) {
        guard call.project == project else { return }
        if call.kind == .setStrategy { nextStrategy() }
        guard call.kind != .refused, call.kind != .unproven, call.kind != .leftOut, call.kind != .sharedReceipt,
            call.kind != .clockStep,
            call.person != nil || !call.facts.isEmpty
        else { return }
        if let person = call.person, erased.contains(person) {
            skipErased(call)
            return
        }
        calls += 1
        // An erasure removes its values from calls of other people.
        if logged == nil, call.inputs.contains(where: { $0.value?.isEmpty == true }) { unknown.hashOnly += 1 }
        if let logBegin, call.sequence <= logBegin { unknown.beforeLog += 1 }
        let madeSomebody = call.facts.contains { fact in
            if case .personMade(let person) = fact { person == call.person } else { false }
        }
        if logged != nil { learnValues(of: call) }
        if let act = logged.map({ act(of: $0) }) ?? act(of: call, madeSomebody) {
            if logged == nil, !blocksTheSame, call.inputs.contains(where: { $0.fate == .blocked }) {
                unknown.blockedValues += 1
            }
            decide(act, at: call.at, was: call.person, madeSomebody, call.sequence, call)
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

    /// Decides a call of the log again that the journal does not have.
    package func take(_ call: LoggedCall) {
        // The rest of a call that the journal has lost.
        if call.isJournalled {
            unknown.unreadable += 1
            return
        }
        if call.isAbout(erased) {
            erasedCalls += 1
            return
        }
        if call.writer != 0 { checkOrder(call) }
        calls += 1
        decide(act(of: call), at: call.at, was: call.person, false, call.place, nil)
    }

    /// Leaves out a call of an erased person.
    private func skipErased(_ call: RecordedCall) {
        if call.kind == .erase {
            erasedPeople += call.facts.count { if case .personErased = $0 { true } else { false } }
        } else {
            erasedCalls += 1
        }
        for fact in call.facts {
            switch fact {
            // A merge with a person that is not erased has ended before the erasure.
            case .merged, .mergeUndone: note(fact, call)
            case .personMade, .linked, .unlinked, .personErased, .rowsAdded, .documentPut: break
            }
        }
    }

    /// Counts a call of the log whose order to a call of another server is unknown.
    private func checkOrder(_ call: LoggedCall) {
        if writers.place != call.place { writers = (call.place, [:]) }
        var isUnordered = false
        for name in call.names {
            if let other = writers.of[name], other != call.writer { isUnordered = true }
            writers.of[name] = call.writer
        }
        if isUnordered { unknown.unordered += 1 }
    }

    /// Notes calls that the log left out because they repeat others.
    package func skip(_ repeats: RepeatNote) { self.repeats.add(repeats) }

    /// Whether the tried rules make something of a call that repeats the last call of its naming component.
    private var makesSomethingOfRepeats: Bool {
        let known = IdentityTypeSet(strategy.hierarchy)
        let types = IdentityType.idsync.filter { repeats.types & 1 << UInt64($0.rawValue & 63) != 0 }
        // Tests prove for the presets that a repeated call changes nothing.
        let isPreset = strategy.orderFree != nil
        return !isPreset || wereOthersBlocked || sawTooCommon || types.contains { !known.contains($0) }
    }

    /// Takes the notes of the log about calls that it does not have. This comes before all calls.
    package func take(_ notes: [LogSegment]) {
        for note in notes {
            switch note.content {
            case .calls, .opened, .closed: break
            case .erased(let calls): erasedCalls += calls
            case .missing: logBegin = max(logBegin ?? .zero, note.last)
            case .gap(let milliseconds): unknown.gapSeconds += Int((milliseconds + 999) / 1000)
            }
        }
    }

    /// Notes calls of the log that this version cannot read.
    package func skipUnreadable(_ calls: Int) { unknown.unreadable += calls }

    /// The act of a call of the log, with the ids that the caller would know.
    private func act(of call: LoggedCall) -> any Act {
        if call.namedBlocked, !blocksTheSame { unknown.blockedValues += 1 }
        var lacksValue = false
        let act = call.act.replacing(whoever) { identity in
            if let value = values[identity.key] { return Identity(identity.type, value, key: identity.key) }
            if !blocksTheSame && !unblocked.contains(identity.key) || !lowercasesTheSame && identity.type == .email {
                lacksValue = true
            }
            return identity
        }
        if lacksValue { unknown.hashOnly += 1 }
        if call.namedBlocked, case .identify(let identify) = act { return identify.namingBlocked }
        return act.act
    }

    /// The act of the call, if the rules decide its result.
    private func act(of call: RecordedCall, _ madeSomebody: Bool) -> (any Act)? {
        switch NamingAct.Form(call.kind) {
        case .identify(let occasion): identify(occasion, call)
        case .modify: modify(call)
        case .ingest: ingest(call, madeSomebody)
        case .attach, .detach, .release: identityAct(of: call)
        // The rules do not decide the result of other calls.
        case nil: nil
        }
    }

    private func identify(_ occasion: Identify.Occasion, _ call: RecordedCall) -> Identify {
        let act = Identify(occasion, identities: named(by: call))
        return call.inputs.contains { $0.fate == .blocked } ? act.namingBlocked : act
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
        // The device of an upload found nobody.
        for input in call.inputs where input.fate != .sentFrom { add(input.type, input.value) }
        return identities.sorted { $0.type.rawValue < $1.type.rawValue }
    }

    private func modify(_ call: RecordedCall) -> Modify? {
        guard let person = call.person else { return nil }
        var (old, new): ([Identity], [Identity]) = ([], [])
        for fact in call.facts {
            switch fact {
            case .unlinked(person, let type, let value): if let named = identity(type, value) { old.append(named) }
            case .linked(person, let type, let value): if let named = identity(type, value) { new.append(named) }
            case .personMade, .unlinked, .linked, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut:
                break
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
    private func identityAct(of call: RecordedCall) -> (any Act)? {
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
            case .personMade, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut:
                break
            }
        }
        // The holders of the device were erased, and its value with them. Others may hold it under the tried rules.
        if call.kind == .releaseDevice { unknown.hashOnly += 1 }
        return nil
    }

    /// Notes the values of a call, for calls of the log.
    private func learnValues(of call: RecordedCall) {
        for case .linked(_, let type, let value) in call.facts { _ = identity(type, value) }
        for input in call.inputs { _ = identity(input.type, input.value) }
    }

    /// An identity under the rules; nil if the journal no longer has its value.
    private func identity(_ type: IdentityType, _ value: String?) -> Identity? {
        guard let value, !value.isEmpty else { return nil }
        let identity = Identity(
            type, lowercasesEmail && type == .email ? value.lowercased() : value, in: project, hash: hash)
        if joinsSameUserIDs, SameUserID.types.contains(type), values[identity.key] == nil {
            for other in SameUserID.types {
                values[IdentityKey(other, identity.value.utf8.span, in: project, hash: hash)] = identity.value
            }
        }
        if wereOthersBlocked, values[identity.key] == nil {
            if blockedValues.contains(identity.value, type) {
                values[identity.key] = identity.value
            } else {
                unblocked.insert(identity.key)
            }
        }
        return identity
    }

    private func decide(
        _ act: any Act, at moment: Instant, was: PersonID?, _ madeSomebody: Bool, _ sequence: JournalSequence,
        _ sample: RecordedCall?
    ) {
        let stamp = stamp(at: moment)
        let view = index.pending
        var explanation: Explanation?
        let decision: Decision<Reply>
        do throws(Refusal) {
            if let identify = act as? Identify, !strategy.isPlain {
                var procedure = Procedure(identify, stamp, in: project, view)
                defer { explanation = procedure.explanation }
                decision = try procedure.decide().boxed.notingLinks(stamp, in: project, view)
            } else {
                decision = try view.decide(act, stamp, in: project)
            }
        } catch {
            // A call that was refused, and still would be, makes no difference.
            guard was != nil || sample != nil else { return }
            refused += 1
            rules.refused[error.code, default: 0] += 1
            note(error.code, \.samplesRefused, act, explanation, at: moment, sample)
            return
        }
        if var outcome = decision.outcome {
            if joinsSameUserIDs {
                let names = SameUserID(outcome.linked, except: blockedValues, in: project, hash: hash)
                outcome.changes += names.merges(after: outcome.changes, stamp, in: project, view).changes
            }
            noteRules(outcome, act, explanation, at: moment, sample)
            keep(outcome, stamp, sequence)
        }
        for kept in explanation?.keptApart ?? [] {
            rules.keptApart[kept.rule, default: 0] += 1
            note(kept.rule, \.samplesKeptApart, act, explanation, at: moment, sample)
        }
        guard let would = decision.answer.seen else { return }
        index.see(would, at: order.next(at: moment))
        guard let was else { return }
        let isElsewhere = madeSomebody ? would != stamp.person : counterparts[was].map { $0.home != would } ?? false
        meet(was, would)
        guard isElsewhere else { return }
        elsewhere += 1
        guard let sample, samples.count < Difference.samples else { return }
        samples.append(Difference.Elsewhere(sample, madeBy: madeBy[would]))
    }

    /// Counts what the rules did in a call.
    private func noteRules(
        _ outcome: Outcome, _ act: any Act, _ explanation: Explanation?, at moment: Instant, _ sample: RecordedCall?
    ) {
        if outcome.inputs.contains(where: { $0.fate == .tooCommon }) { sawTooCommon = true }
        var rule: String?
        var makesPerson = false
        for change in outcome.changes {
            switch change {
            case .merged(let merge):
                guard merge.rule == .match || merge.rule == .sameUserID else { continue }
                rule = "\(merge.rule.name)"
                rules.merged["\(merge.rule.name)", default: 0] += 1
            case .personMade: makesPerson = true
            case .documentPut(let key, _, _) where key.kind == .standIn && makesPerson:
                rules.standIns += 1
                note("stand_in", \.samplesStandIns, act, explanation, at: moment, sample)
            case .documentPut(let key, _, _) where key.kind == .neutralPerson && makesPerson:
                rules.neutral += 1
                note("contested_device", \.samplesNeutral, act, explanation, at: moment, sample)
            case .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .mergeUndone, .personErased,
                .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        if let rule { note(rule, \.samplesMerged, act, explanation, at: moment, sample) }
    }

    /// Keeps a call as a sample, if there is room.
    private func note(
        _ rule: String, _ samples: WritableKeyPath<Difference.Rules, [Difference.Ruled]>, _ act: any Act,
        _ explanation: Explanation?, at moment: Instant, _ sample: RecordedCall?
    ) {
        guard rules[keyPath: samples].count < Difference.samples else { return }
        var explanation = explanation
        if explanation == nil, let identify = act as? Identify {
            // The short way of plain strategies explains nothing by itself.
            var procedure = Procedure(identify, stamp(at: moment), in: project, index.pending)
            _ = try? procedure.decide()
            explanation = procedure.explanation
        }
        rules[keyPath: samples].append(
            Difference.Ruled(
                answered: sample.map(Difference.Answered.init), at: moment,
                kind: sample?.kind ?? act.naming?.journalKind ?? .identify, rule: rule,
                explanation: explanation.map(inPresentPeople)))
    }

    /// An explanation with people of the journal in the place of people of the dry run. People without a counterpart are left out.
    private func inPresentPeople(_ explanation: Explanation) -> Explanation {
        var present: [PersonID: PersonID] = [:]
        for (was, counterpart) in counterparts where present[counterpart.home].map({ was < $0 }) ?? true {
            present[counterpart.home] = was
        }
        return explanation.sorted.replacing { present[$0] }
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
        var (changes, linked): ([Change], [Identity]) = ([], [])
        var stamp = stamp(at: call.at)
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
        for fact in call.facts where !concernsErased(fact) {
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
                // A merge by a rule has another id here.
                let isByRule = [.sameUserID, .match, .restore].contains(merge.rule)
                let (from, into) = isByRule ? (place(merge.from), place(merge.into)) : (merge.from, merge.into)
                let known =
                    isByRule
                    ? index.pending.group(of: from).merges.filter {
                        $0.rule == merge.rule && $0.isBetween(from, into)
                    } : index.pending.merge(merge.id).map { [$0] } ?? []
                changes += known.map { .mergeUndone($0) }
                if isByRule {
                    changes += SameUserID.part([(from, into)], index.pending)
                } else if mergesByRule {
                    changes += SameUserID.part(known.map { ($0.from, $0.into) }, index.pending)
                }
            case .personErased, .rowsAdded, .documentPut: break
            }
        }
        if joinsSameUserIDs, !linked.isEmpty {
            let names = SameUserID(linked, except: blockedValues, in: project, hash: hash)
            changes += names.merges(after: changes, stamp, in: project, index.pending).changes
        }
        let kept = StrategyDryRun.once(changes)
        if !kept.isEmpty { keep(Outcome(kind: call.kind, person: nil, changes: kept), stamp, call.sequence) }
        if case .reply(let reply) = call.answer, let was = reply.seen,
            let would = named[was] ?? counterparts[was]?.current
        {
            index.see(would, at: order.next(at: call.at))
            meet(was, would)
        }
    }

    /// The changes in which each merge ends once. Several people of the journal may be one here, and so several of their merges.
    private static func once(_ changes: [Change]) -> [Change] {
        var undone: Set<MergeID> = []
        return changes.filter { change in
            guard case .mergeUndone(let merge) = change else { return true }
            return undone.insert(merge.id).inserted
        }
    }

    /// Whether a fact concerns an erased person, whose calls the dry run leaves out.
    private func concernsErased(_ fact: RecordedCall.Fact) -> Bool {
        if erased.isEmpty { return false }
        switch fact {
        case .personMade(let person), .linked(let person, _, _), .unlinked(let person, _, _), .personErased(let person),
            .rowsAdded(let person, _, _, _), .documentPut(let person, _):
            return erased.contains(person)
        case .merged(let merge), .mergeUndone(let merge):
            return erased.contains(merge.from) || erased.contains(merge.into)
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
        case .personMade(let person): if !erased.contains(person) { people.insert(person) }
        case .merged(let merge): was.load(merge)
        case .mergeUndone(let merge): was.commitUndo(merge.id)
        case .rowsAdded(let person, let kind, _, _): if kind.isTold { holdsAccess.insert(person) }
        case .documentPut(let person, .linkedUser):
            // Equal user ids never merge two users of the Linking dialect.
            guard let would = counterparts[person]?.current, !index.isErased(would) else { return }
            let document = Change.documentPut(
                DocumentKey(.linkedUser, of: would), would, LinkedUser(of: would).packed)
            keep(Outcome(kind: call.kind, person: nil, changes: [document]), stamp(at: call.at), call.sequence)
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
        keep(Outcome(kind: .erase, person: nil, changes: changes), stamp(at: call.at), call.sequence)
    }

    // MARK: - The index

    /// A stamp after the last stamp. The time of a journal never goes back, and ids of people only grow.
    private func stamp(at moment: Instant) -> Stamp {
        Stamp(
            at: moment, person: max(PersonID(at: moment, chance: 0), lastPerson.next), seen: order.next(at: moment))
    }

    private func keep(_ outcome: Outcome, _ stamp: Stamp, _ call: JournalSequence) {
        let entry = JournalEntry(Call(project: project, key: nil), stamp, outcome, Reply(Done()))
        index.apply(entry)
        sequence = sequence.next
        index.commit([entry], sequence: sequence)
        for change in outcome.changes {
            switch change {
            case .personMade(let person, _):
                lastPerson = max(lastPerson, person)
                madeBy[person] = call
            case .merged(let merge): lastPerson = max(lastPerson, PersonID(rawValue: merge.id.rawValue))
            case .documentPut(_, _, let body): documents.append(body)
            case .linked, .unlinked, .rowAdded, .rowSuperseded, .mergeUndone, .personErased, .projectMade, .appMade,
                .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                break
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
        difference.unknown = unknown
        difference.unknown.repeats = makesSomethingOfRepeats ? repeats.calls : 0
        difference.rules = rules
        (difference.erasedPeople, difference.erasedCalls) = (erasedPeople, erasedCalls)
        // Calls may also be missing where the journal has none.
        if logBegin != nil, unknown.beforeLog == 0, calls > 0 { difference.unknown.beforeLog = 1 }
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
