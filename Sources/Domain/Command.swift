/// A call that may change something, as a value: all that a decision goes by, but for the facts.
package enum Command: Sendable {
    case identify(Identify)
    case search(Search)
    case modify(Modify)
    case ingest(Ingest)
    case makeAlias(MakeAlias)
    case undoAlias(UndoAlias)
    case mergePeople(MergePeople)
    case undoMerge(UndoMerge)
    case erase(ErasePerson)
    case releaseTombstone(ReleaseTombstone)
    case joinSameUserIDs(JoinSameUserIDs)
    case releaseDevice(ReleaseDevice)
    case attachIdentity(AttachIdentity)
    case detachIdentity(DetachIdentity)
    case claim(Claim)
    case collect(Collect)
    case setProperties(SetProperties)
    case setUp(SetUp)
    case setStrategy(SetStrategy)
    case define(Define)
    case sendFeedback(SendFeedback)
    case deleteFeedback(DeleteFeedback)
    case setQuestionnaire(SetQuestionnaire)
    case answerQuestionnaire(AnswerQuestionnaire)
    case attach(Attach)
    case access(AccessCommand)
    case linking(LinkingCommand)
    case administer(Administer)
    case noteKeyUse(NoteKeyUse)
    case tellWebhook(TellWebhook)
    case signingKeys(EditSigningKeys)
    /// That a question was answered which showed no token for a known user.
    case noteUnproven(IdentityTokenFault, about: PersonID?, by: Dialect)
}

extension Command {
    /// The identities that the call asks about, each once. What an upload brings is no question.
    package var identities: [Identity] {
        switch self {
        case .identify(let identify): identify.identities
        case .search(let search): search.identities
        case .modify(let modify): modify.identities
        default: []
        }
    }

    /// Whether it erases somebody, so that there is something to sweep then.
    package var erases: Bool {
        switch self {
        case .erase, .linking(.deleteUser): true
        default: false
        }
    }

    /// The user ids that it may link.
    package var userIDs: [Identity] {
        let named: [Identity] =
            switch self {
            case .identify(let identify): identify.identities
            case .modify(let modify): modify.items.compactMap(\.new)
            case .ingest(let ingest): ingest.identities
            case .claim(let claim): [claim.user]
            case .collect(let collect): collect.parts.map(\.user)
            case .setProperties(let properties): [properties.user]
            case .access(let access): access.identities
            case .attachIdentity(let attach): [attach.identity]
            default: []
            }
        return named.filter { SameUserID.types.contains($0.type) }
    }

    /// What the caller wants beside the answer.
    package var inspection: Inspection {
        switch self {
        case .identify(let identify): identify.inspection
        case .search(let search): search.inspection
        default: []
        }
    }

    /// What the call carries, roughly, in bytes; it bounds a batch.
    package var byteCount: Int {
        switch self {
        case .identify(let identify): identify.identities.reduce(64) { $0 + $1.value.utf8.count }
        case .search(let search): search.identities.reduce(64) { $0 + $1.value.utf8.count }
        case .modify(let modify):
            modify.items.reduce(64) { $0 + 64 + ($1.old?.value.utf8.count ?? 0) + ($1.new?.value.utf8.count ?? 0) }
        case .ingest(let ingest):
            ingest.rows.reduce(ingest.attributes.reduce(256) { $0 + 64 + ($1.value?.count ?? 0) }) {
                $0 + 64 + $1.body.count
            }
        case .joinSameUserIDs(let join): 64 + join.pairs.count * 16
        case .collect(let collect):
            collect.parts.reduce(256) { bytes, part in
                part.rows.reduce(bytes + 256 + 512 * part.errors.count) { $0 + 64 + $1.body.count }
            }
        case .setProperties(let properties):
            properties.values.reduce(256) { $0 + 64 + $1.name.utf8.count + $1.value.utf8.count }
        case .setUp(let setUp): 256 * (1 + setUp.apps.count + setUp.keys.count)
        case .setStrategy(.edit(let edit)): edit.byteCount
        case .setStrategy(.rollback): 64
        case .define(let define): define.byteCount
        case .sendFeedback(let feedback): 512 + feedback.body.count
        case .deleteFeedback: 128
        case .setQuestionnaire(let set): set.byteCount
        case .answerQuestionnaire(let answer): answer.byteCount
        case .attach: 1024
        case .administer, .noteKeyUse: 4096
        case .tellWebhook: 8192
        case .signingKeys: 1024
        case .access(let access): access.byteCount
        case .linking(let linking): linking.byteCount
        default: 256
        }
    }
}

/// Who calls, and how the call can be told from others.
package struct Call: Sendable {
    package let project: ProjectID
    /// The key that it was made with; nil for the command line, and for the server itself.
    package let key: KeyID?
    /// By what a repetition of the call would be recognized.
    package let replayKey: ReplayKey?
    /// Whom the caller may speak for; nil where that is not asked.
    package var proof: IdentityProof?
    /// The request's id, as the answer and the log have it. Only the writer needs it.
    package var requestID = ""
    /// The call's claim to be recognized. Only the writer needs it.
    package var replay: ReplayClaim?

    package init(project: ProjectID, key: KeyID?, replayKey: ReplayKey? = nil) {
        self.project = project
        self.key = key
        self.replayKey = replayKey
    }
}

/// What the writer gives a call when its turn comes: the time, and the id of a person that it may make.
package struct Stamp: Equatable, Sendable {
    /// The call's moment by the clock on the wall: what expires is judged by this. It goes back where the clock is set back.
    package let at: Instant
    /// The call's moment in the journal, where time never goes back.
    package let journalledAt: Instant
    package let person: PersonID

    /// - Parameter journalledAt: the call's moment in the journal; nil where that is the clock's.
    package init(at: Instant, journalledAt: Instant? = nil, person: PersonID) {
        self.at = at
        self.journalledAt = journalledAt ?? at
        self.person = person
    }
}

/// What a batch of calls needs to see.
package struct Needs: Sendable {
    package private(set) var identities: [IdentityKey] = []
    package private(set) var people: [PersonID] = []
    package private(set) var merges: [MergeID] = []
    package private(set) var replays: [ReplayKey] = []
    /// Codes that say which identity has to be seen.
    package private(set) var codes: [(key: DocumentKey, seal: CodeSeal)] = []

    package init() {}

    package mutating func add(_ identity: IdentityKey) { identities.append(identity) }
    package mutating func add(_ replay: ReplayKey) { replays.append(replay) }

    package mutating func add(_ call: Call, _ command: Command) {
        if let claim = call.replay { add(claim.key) }
        for identity in call.proof?.proven ?? [] { add(identity) }
        switch command {
        case .identify(let identify):
            for identity in identify.identities { add(identity.key) }
        case .search(let search):
            for identity in search.identities { add(identity.key) }
        case .modify(let modify):
            people.append(modify.person)
            for item in modify.items {
                if let new = item.new { add(new.key) }
            }
        case .ingest(let ingest):
            if let person = ingest.person { people.append(person) }
            for identity in ingest.identities + ingest.devices { add(identity.key) }
        case .makeAlias(let alias): people += [alias.source, alias.destination]
        case .claim(let claim):
            add(claim.anonymous.key)
            add(claim.user.key)
        case .collect(let collect):
            for part in collect.parts { add(part.user.key) }
        case .setProperties(let properties): add(properties.user.key)
        case .mergePeople(let merge): people += [merge.from, merge.into]
        case .erase(let erase): people.append(erase.person)
        case .joinSameUserIDs(let join):
            for pair in join.pairs { people += [pair.from, pair.into] }
        case .releaseDevice(let release): add(release.device.key)
        case .attachIdentity(let attach):
            people.append(attach.person)
            add(attach.identity.key)
        case .detachIdentity(let detach): people.append(detach.person)
        case .undoMerge(let undo): merges.append(undo.merge)
        case .access(let access):
            for identity in access.identities { add(identity.key) }
        case .sendFeedback(let feedback): add(feedback.user.key)
        case .answerQuestionnaire(let answer): add(answer.user.key)
        case .attach(.tell(_, let person)): people.append(person)
        case .attach(let attach): if let user = attach.user { add(user.key) }
        case .linking(let linking):
            let needs = linking.needs
            for identity in needs.identities { add(identity) }
            people += needs.people
            codes += needs.codes
        default: break
        }
    }
}

extension Command {
    /// The person that the call names, if it names one.
    package var person: PersonID? {
        switch self {
        case .mergePeople(let merge): merge.from
        case .erase(let erase): erase.person
        case .attachIdentity(let attach): attach.person
        case .detachIdentity(let detach): detach.person
        case .modify(let modify): modify.person
        case .ingest(let ingest): ingest.person
        case .makeAlias(let alias): alias.source
        default: nil
        }
    }

    /// Whether it can be decided from what is in memory; what looks at documents or rows goes to the writer at once.
    package var mayPeek: Bool {
        switch self {
        case .identify, .search, .modify, .setUp: true
        default: false
        }
    }
}

/// What a call is answered with.
package enum Reply: Equatable, Sendable {
    case identified(Identified)
    /// Like ``identified(_:)``, of a call that only asks: the person was not seen by it.
    case found(Identified)
    /// Like either, of a call that asks why, or what would be.
    case inspected(Inspected)
    case modified(Modified)
    case ingested(Ingested)
    case aliased(Aliased)
    case aliasUndone(AliasID)
    case merged(Merge)
    case mergeUndone(MergeID)
    case erased(Erased)
    case tombstoneReleased
    /// How many merges there are more.
    case joined(Int)
    /// How many people held the device.
    case deviceReleased(Int)
    case identityAttached
    case identityDetached
    case claimed(Claimed)
    case collected(Collected)
    /// All that the user's properties are now.
    case propertiesSet([String: String])
    /// Nothing, but a line in the journal: the caller is told why not.
    case refused(Refusal)
    case setUp
    /// The version that holds now, and what it says.
    case strategySet(version: Int, Strategy)
    /// A funnel or a metric is what was said.
    case defined
    case feedbackSent(SentFeedback)
    case feedbackDeleted(FeedbackID)
    /// What the questionnaire is now.
    case questionnaireSet(Questionnaire)
    case answered(Answered)
    /// What an attachment is now.
    case attachment(Attachment)
    case access(AccessReply)
    case linking(LinkingReply)
    case administered(Administered)
    case webhookMade(Int64, at: Instant)
    case webhookRemoved(Int64)
    case signingKeyMade(SigningKey)
    case signingKeyRetired(SigningKey)
    /// What was to be kept in mind is.
    case noted

    /// Who was found or made, where that was asked.
    package var identified: Identified? {
        switch self {
        case .identified(let identified), .found(let identified): identified
        case .inspected(let inspected): inspected.identified
        default: nil
        }
    }

    /// The person that was seen by the call, if it was any.
    package var seen: PersonID? {
        switch self {
        case .identified(let identified): identified.person
        case .modified(let modified): modified.person
        case .ingested(let ingested): ingested.person
        case .inspected(let inspected): inspected.isReadOnly ? nil : inspected.identified.person
        case .claimed(let claimed): claimed.user
        case .linking(let linking): linking.seen
        default: nil
        }
    }
}

/// Why a call was refused: the caller can do something about each of these.
package enum Refusal: Error, Equatable, Sendable {
    /// The idempotency key was used before, with another body.
    case idempotencyMismatch
    /// A login names none of the identities that log in, and the project's strategy needs one.
    case noLoginIdentity
    /// A search found nobody.
    case nobodyFound
    /// There is no person with that id.
    case noSuchPerson
    /// The type is one that a person never changes.
    case immutableIdentity(IdentityType)
    /// The project's strategy has no use for aliases.
    case aliasesNotAllowed
    case invalidAlias(AliasFault)
    case tooManyAliases
    case noSuchAlias
    case noSuchMerge
    case noSuchTombstone
    case noSuchIdentity
    /// The value is one that nobody may hold.
    case blockedIdentity
    /// Another person holds the identity, and one alone may.
    case identityHeld(by: PersonID)
    /// The person holds as many values of the type as one may.
    case tooManyIdentities
    /// The two people are one already.
    case oneAlready
    /// Another known user has claimed the anonymous id.
    case claimedByAnother
    case tooManyProperties
    /// The strategy would not work.
    case badStrategy(StrategyFault)
    /// The project has had no strategy of that version.
    case noSuchStrategyVersion
    /// The project has defined as many funnels or metrics as it may.
    case tooManyDefinitions
    case noSuchFeedback
    case noSuchQuestionnaire
    case tooManyQuestionnaires
    /// The user is not asked, so there is nothing to answer.
    case notEligible(Questionnaire.Ineligibility)
    case badAnswer(AnswerFault)
    case attachment(AttachmentFault)
    case access(AccessRefusal)
    case linking(LinkingFault)
    case noSuch(Administer.Noun)
    case tooMany(Administer.Noun)
    /// A key is to belong to an app that speaks another dialect.
    case appOfOtherDialect(Dialect)
    /// A signing key of the project has, or had, that key id.
    case signingKeyExists
    /// The person or the group is as large as it may become.
    case full(Full, about: PersonID)
    /// The call names or comes to a known user, and shows no token that it may.
    case unproven(IdentityTokenFault, about: PersonID?)

    /// Whether the journal keeps it: not where the answer is an ordinary one, or the mistake is in the sending.
    package var isJournalled: Bool {
        switch self {
        case .idempotencyMismatch, .nobodyFound, .noSuchAlias, .noSuchMerge, .noSuchTombstone, .noSuchIdentity,
            .blockedIdentity, .identityHeld, .tooManyIdentities, .oneAlready,
            .badStrategy,
            .noSuchStrategyVersion:
            false
        case .linking(let fault): fault.isJournalled
        case .noLoginIdentity, .noSuchPerson, .immutableIdentity, .aliasesNotAllowed, .invalidAlias, .tooManyAliases,
            .claimedByAnother, .tooManyProperties, .tooManyDefinitions, .tooManyQuestionnaires:
            true
        case .noSuchFeedback, .noSuchQuestionnaire, .notEligible, .badAnswer: false
        case .attachment(.userQuota), .attachment(.projectQuota): true
        case .attachment: false
        case .access(let refusal): refusal.isJournalled
        case .noSuch, .tooMany, .appOfOtherDialect, .signingKeyExists: false
        case .unproven, .full: true
        }
    }

    /// The person that the refused call was about, where only deciding it has found that out.
    package var person: PersonID? {
        switch self {
        case .access(let refusal): refusal.person
        case .unproven(_, let person): person
        case .full(_, let person): person
        default: nil
        }
    }

    /// What had no room; nil where it was something else.
    package var full: Full? {
        switch self {
        case .full(let full, _): full
        case .linking(.personFull): .person
        case .linking(.groupFull): .group
        default: nil
        }
    }

    /// A stable name, for programs and for the journal.
    package var code: String {
        switch self {
        case .idempotencyMismatch: "idempotency_mismatch"
        case .noLoginIdentity: "no_login_identity"
        case .nobodyFound, .noSuchPerson, .noSuchAlias, .noSuchMerge, .noSuchTombstone, .noSuchIdentity,
            .noSuchStrategyVersion:
            "not_found"
        case .blockedIdentity: "blocked_identity"
        case .identityHeld: "held_elsewhere"
        case .tooManyIdentities: "too_many_values"
        case .immutableIdentity: "immutable_identity"
        case .aliasesNotAllowed: "aliases_not_allowed"
        case .invalidAlias: "invalid_alias"
        case .tooManyAliases: "too_many_aliases"
        case .oneAlready: "one_already"
        case .claimedByAnother: "claimed_by_another"
        case .tooManyProperties: "too_many_properties"
        case .access(let refusal): refusal.code
        case .tooManyDefinitions: "too_many_definitions"
        case .badStrategy, .badAnswer: "validation_error"
        case .noSuchFeedback, .noSuchQuestionnaire: "not_found"
        case .tooManyQuestionnaires: "too_many_questionnaires"
        case .notEligible(let reason): reason.rawValue
        case .attachment(let fault): fault.code
        case .linking(let fault): fault.rawValue
        case .noSuch: "not_found"
        case .tooMany: "too_many"
        case .appOfOtherDialect: "validation_error"
        case .signingKeyExists: "already_exists"
        case .full(let full, _): full.rawValue
        case .unproven(let fault, _): "identity_token_\(fault.rawValue)"
        }
    }

    /// What is wrong with an alias.
    package enum AliasFault: Equatable, Sendable { case timeRange, samePerson, noSource, noDestination }
}

/// What a call comes to: an answer, and what changes.
package struct Decision: Equatable, Sendable {
    package let reply: Reply
    /// Nothing where the call changes nothing.
    package let outcome: Outcome?
    /// Whether it depends on who was seen last; then only the writer, who has been told of all sightings, can tell.
    package let restsOnSightings: Bool
    /// What was left out of the call for want of room, if anything was; it is told now and then.
    package let full: Full?

    package init(reply: Reply, outcome: Outcome? = nil, restsOnSightings: Bool = false, full: Full? = nil) {
        self.reply = reply
        self.outcome = outcome
        self.restsOnSightings = restsOnSightings
        self.full = full
    }
}

/// What changes by a call, and what the journal keeps of the call besides.
package struct Outcome: Equatable, Sendable {
    package let kind: JournalEntry.Kind
    /// The person that the call came to; nil where it is about none.
    package let person: PersonID?
    package let inputs: [JournalEntry.Input]
    package var changes: [Change]
    /// Why somebody wanted it, in their words.
    package let note: String?

    package init(
        kind: JournalEntry.Kind, person: PersonID?, inputs: [JournalEntry.Input] = [], changes: [Change],
        note: String? = nil
    ) {
        self.note = note
        self.kind = kind
        self.person = person
        self.inputs = inputs
        self.changes = changes
    }
}

extension AttachmentFault {
    /// As clients of the Claim dialect know it.
    var code: String {
        switch self {
        case .unknown: "not_found"
        case .userQuota: "user_quota_exhausted"
        case .projectQuota: "quota_exhausted"
        case .otherApp: "forbidden"
        case .storedAlready: "already_uploaded"
        case .gone: "gone"
        }
    }
}

extension Command {
    /// Decides a call, to which no earlier one is the same, over some facts.
    package func decide<V: View>(_ stamp: Stamp, project: ProjectID, in view: V) throws(Refusal) -> Decision {
        switch self {
        case .identify(let identify): try identify.decide(stamp, in: project, view)
        case .search(let search): try search.decide(in: project, view)
        case .modify(let modify): try modify.decide(in: project, view)
        case .ingest(let ingest): try ingest.decide(stamp, in: project, view)
        case .makeAlias(let alias): try alias.decide(stamp, in: project, view)
        case .undoAlias(let undo): try undo.decide(stamp, in: project, view)
        case .mergePeople(let merge): try merge.decide(stamp, in: project, view)
        case .undoMerge(let undo): try undo.decide(stamp, in: project, view)
        case .erase(let erase): try erase.decide(stamp, in: project, view)
        case .releaseTombstone(let release): try release.decide(in: project, view)
        case .joinSameUserIDs(let join): join.decide(stamp, in: project, view)
        case .releaseDevice(let release): try release.decide(view)
        case .attachIdentity(let attach): try attach.decide(in: project, view)
        case .detachIdentity(let detach): try detach.decide(in: project, view)
        case .claim(let claim): try claim.decide(stamp, in: project, view)
        case .collect(let collect): collect.decide(stamp, view)
        case .setProperties(let properties): try properties.decide(stamp, in: project, view)
        case .setUp(let setUp): setUp.decide(stamp)
        case .setStrategy(let setStrategy): try setStrategy.decide(in: project, view)
        case .define(let define): try define.decide(in: project, view)
        case .sendFeedback(let feedback): feedback.decide(stamp, in: project, view)
        case .deleteFeedback(let delete): try delete.decide(stamp, in: project, view)
        case .setQuestionnaire(let set): try set.decide(stamp, in: project, view)
        case .answerQuestionnaire(let answer): try answer.decide(stamp, in: project, view)
        case .attach(let attach): try attach.decide(stamp, in: project, view)
        case .access(let access): try access.decide(stamp, in: project, view)
        case .linking(let linking): try linking.decide(stamp, in: project, view)
        case .administer(let administer): try administer.decide(stamp, in: project, view)
        case .noteKeyUse(let note): note.decide()
        case .tellWebhook(let tell): try tell.decide(stamp, in: project, view)
        case .signingKeys(let edit): try edit.decide(stamp, in: project, view)
        case .noteUnproven(let fault, let person, _): throw .unproven(fault, about: person)
        }
    }
}
