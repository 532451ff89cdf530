/// A call that may change something, as a value. The value has all that the decision needs, except the facts.
///
/// Each kind of call is one type in one file. The server derives all other steps from this declaration: the facts that a
/// batch loads, the proof that the call needs, and the form in which the journal keeps the answer.
package protocol Act: Sendable {
    /// The type of the answer.
    associatedtype Answer: Domain.Answer

    /// The kinds under which the journal keeps calls of this type; empty for calls that change nothing.
    static var kinds: [ActKind] { get }

    /// The identities and people that the call names, with their roles. There is no default, so an act without subjects does
    /// not compile.
    var subjects: Subjects { get }

    /// The approximate number of bytes of the call. The sum of these numbers limits a batch.
    var byteCount: Int { get }

    /// Decides the call over some facts. The caller has checked that the call repeats no earlier call. Throws the refusals
    /// of the call; the result depends only on the arguments.
    func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision<Answer>

    /// Whether the index in memory has all facts of the decision. Calls of other types go directly to the writer.
    static var isDecidedInMemory: Bool { get }

    /// Whether an undo of a merge decides the call again. The journal keeps such a call with the groups that the decision
    /// read. An act whose decision reads groups is then a ``KeptAct``. False if no merge can change the result, or if the
    /// journal must not keep the act.
    static var readsMerges: Bool { get }

    /// The part of the call that the rules for finding people decide; nil for a call that they do not decide, and for a call
    /// that only looks.
    var naming: NamingAct? { get }

    // The same decision, compiled for each kind of facts in the server. Without these functions a call through `any Act`
    // would run the general code, which is several times slower. Other facts, such as those of the model, take the general
    // code: compiled for them, all decisions would be a twentieth of the program (docs/decisions/0078).
    func decide(_ stamp: Stamp, in project: ProjectID, index: PeopleIndex.IndexFacts) throws(Refusal) -> Decision<Reply>
    func decide(_ stamp: Stamp, in project: ProjectID, loaded: LoadingFacts) throws(Refusal) -> Decision<Reply>
}

extension Act {
    package static var isDecidedInMemory: Bool { false }
    package static var readsMerges: Bool { true }

    package func decide(
        _ stamp: Stamp, in project: ProjectID, index: PeopleIndex.IndexFacts
    ) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, index).boxed.notingLinks(stamp, in: project, index)
    }

    package func decide(
        _ stamp: Stamp, in project: ProjectID, loaded: LoadingFacts
    ) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, loaded).boxed.notingLinks(stamp, in: project, loaded)
    }

    /// Decides over any facts, and puts the answer into a box.
    func decideBoxed<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, view).boxed.notingLinks(stamp, in: project, view)
    }
}

extension PeopleIndex.IndexFacts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        try act.decide(stamp, in: project, index: self)
    }
}

extension LoadingFacts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        try act.decide(stamp, in: project, loaded: self)
    }
}

/// The identities and people that a call names. They determine the facts that a batch loads, proofs of identity, limits, the
/// person in the journal, and merges by equal user ids.
package struct Subjects: Sendable {
    /// The identities whose rate limits count the call.
    package let limitedBy: [Identity]
    /// The identities for which the call speaks. A known user among them needs a proof, and the call may link them.
    package let speaksFor: [Identity]
    /// The identity for which the call speaks, and whose whole group the call reads or writes.
    package let readsGroupOf: Identity?
    /// The signed-in user of the call.
    package let signedIn: Identity?
    /// The identities that the call looks up and does not speak for.
    package let mentions: [IdentityKey]
    /// The people that the call looks up and does not speak for.
    package let mentionedPeople: [PersonID]
    /// The person that the call names by id as its subject. The journal keeps the call under this person, also a refused
    /// call.
    package let about: PersonID?
    /// Other people that the call names by id.
    package let people: [PersonID]
    /// The merges that the call names.
    package let merges: [MergeID]
    /// Other identities that the call may link to a person.
    package let links: [Identity]
    /// The codes whose documents name a user id that the call may link to a person.
    package let codes: [SealedName]
    /// The purchases whose first reporter the call looks up.
    package let purchases: [PurchaseID]

    package init(
        limitedBy: [Identity] = [], speaksFor: [Identity] = [], readsGroupOf: Identity? = nil,
        signedIn: Identity? = nil,
        mentions: [IdentityKey] = [], mentionedPeople: [PersonID] = [], about: PersonID? = nil, people: [PersonID] = [],
        merges: [MergeID] = [],
        links: [Identity] = [], codes: [SealedName] = [], purchases: [PurchaseID] = []
    ) {
        self.limitedBy = limitedBy
        self.speaksFor = speaksFor
        self.readsGroupOf = readsGroupOf
        self.signedIn = signedIn
        self.mentions = mentions
        self.mentionedPeople = mentionedPeople
        self.about = about
        self.people = people
        self.merges = merges
        self.links = links
        self.codes = codes
        self.purchases = purchases
    }

    /// A call that names no identity and no person.
    package static var none: Subjects { Subjects() }

    /// The user ids that the call may link.
    package var userIDs: [Identity] { (spokenFor + links).filter { SameUserID.types.contains($0.type) } }

    /// All identities that the call speaks for.
    package var spokenFor: [Identity] {
        readsGroupOf.map { speaksFor + [$0] } ?? speaksFor
    }
}

/// The user id that a code names, in a document that only the code opens.
package struct SealedName: Sendable {
    package let key: DocumentKey
    package let seal: CodeSeal
    package let hash: KeyedHash

    package init(_ digest: KeyHash, _ seal: CodeSeal, hash: KeyedHash) {
        key = LinkCode.documentKey(digest)
        self.seal = seal
        self.hash = hash
    }

    /// The user id in the code's document as an identity of each dialect.
    func identities(in document: [UInt8]?, of project: ProjectID) -> [IdentityKey] {
        guard let name = document.flatMap(LinkCode.init(packed:))?.external(seal)?.id else { return [] }
        return SameUserID.types.map { IdentityKey($0, name.utf8.span, in: project, hash: hash) }
    }
}

/// The answer to an act, in the forms for the caller and for the journal. A repeated call gets the kept answer.
package protocol Answer: Equatable, Sendable {
    /// The numbers under which answers of this type are kept. The numbers never change.
    static var tags: [UInt8] { get }
    /// The number under which this answer is kept.
    var tag: UInt8 { get }
    /// Writes the bytes from which the answer can be made again, without its tag.
    func pack(into packer: inout Packer)
    /// Reads a kept answer; nil if the bytes are invalid.
    init?(tag: UInt8, unpacking unpacker: inout Unpacker)
    /// The person that the call found and thereby saw; nil if it found nobody.
    var seen: PersonID? { get }
    /// The people that the call found. A caller that needs proofs must prove these people.
    var found: [PersonID] { get }
    /// The events of the call for the feed, in addition to the events of its facts, if the call found a person.
    func events(_ person: PersonID?) -> [ChangeEvent]
    /// The attachment contents that may have no owner after the call.
    var orphans: Orphans { get }
    /// The answer for the caller, without the additional data for the journal.
    var plain: Self { get }
    /// The answer with the identities that the people in it have now, because the journal keeps no identities of people that are
    /// not the call's own.
    func named(by view: some DocumentFacts) -> Self
}

/// Attachment contents that may have no owner after a call.
package enum Orphans: Sendable {
    case none
    /// The content with a digest.
    case content([UInt8])
    /// The contents of erased people.
    case contentsOfPeople
}

extension Answer {
    package var tag: UInt8 { Self.tags[0] }
    package var seen: PersonID? { nil }
    package var found: [PersonID] { [] }
    package func events(_ person: PersonID?) -> [ChangeEvent] { [] }
    package var orphans: Orphans { .none }
    package var plain: Self { self }
    package func named(by view: some DocumentFacts) -> Self { self }
}

/// The answer to a call that returns no data.
package struct Done: Answer {
    // Each act once had a number of its own, and old journals contain these numbers.
    package static let tags: [UInt8] = [64, 1, 17, 30, 70, 71]

    package init() {}
    package func pack(into packer: inout Packer) {}
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {}
}

/// An answer of any type.
package struct Reply: Equatable, Sendable {
    package let answer: any Answer

    package init(_ answer: some Answer) { self.answer = answer }

    /// The answer of a type; nil if the answer has another type.
    @inlinable
    package func `as`<A: Answer>(_ type: A.Type) -> A? { answer as? A }

    /// The person that the call found and thereby saw; nil if it found nobody.
    package var seen: PersonID? { answer.seen }

    /// The answer for the caller.
    package var plain: Reply {
        func open<A: Answer>(_ answer: A) -> Reply { Reply(answer.plain) }
        return open(answer)
    }

    /// The answer with the identities that the people in it have now.
    package func named(by view: some DocumentFacts) -> Reply {
        func open<A: Answer>(_ answer: A) -> Reply { Reply(answer.named(by: view)) }
        return open(answer)
    }

    package static func == (one: Reply, other: Reply) -> Bool {
        func isEqual<A: Answer>(_ answer: A) -> Bool { other.answer as? A == answer }
        return isEqual(one.answer)
    }
}

extension Reply {
    /// The bytes of the answer in the journal: its tag, and its own bytes.
    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(answer.tag)
        answer.pack(into: &packer)
        return packer.bytes
    }

    /// Reads a kept answer; nil if the bytes are invalid.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let tag = unpacker.byte(), let type = Registry.answers[tag],
            let answer = type.init(tag: tag, unpacking: &unpacker), unpacker.isAtEnd
        else { return nil }
        self.init(answer)
    }
}

/// The result of a call: an answer and changes.
package struct Decision<Answer: Equatable & Sendable>: Equatable, Sendable {
    package let answer: Answer
    /// Nil for a call that changes nothing.
    package let outcome: Outcome?
    /// Whether the decision depends on sightings of people. Only the writer knows all sightings.
    package let restsOnSightings: Bool
    /// The thing at its limit, if the call could not keep all that it named; nil otherwise.
    package let full: Full?

    /// Whether a decision without changes rests on facts that only the writer has: on sightings, or on documents that may
    /// name other people.
    func restsOnMore<V: DecisionFacts>(_ isReadOnly: Bool, _ view: V) -> Bool {
        restsOnSightings || isReadOnly && outcome != nil && !view.hasDocuments
    }

    package init(_ answer: Answer, outcome: Outcome? = nil, restsOnSightings: Bool = false, full: Full? = nil) {
        self.answer = answer
        self.outcome = outcome
        self.restsOnSightings = restsOnSightings
        self.full = full
    }
}

extension Decision where Answer: Domain.Answer {
    /// The decision with its answer in a box.
    var boxed: Decision<Reply> {
        Decision<Reply>(Reply(answer), outcome: outcome, restsOnSightings: restsOnSightings, full: full)
    }
}

/// The changes of a call, and the additional data for the journal.
package struct Outcome: Equatable, Sendable {
    package let kind: ActKind
    /// The person that the call found; nil for a call about no person.
    package let person: PersonID?
    package let inputs: [JournalEntry.Input]
    package var changes: [Change]
    /// The reason that the caller gave, in the caller's words.
    package let note: String?

    package init(
        kind: ActKind, person: PersonID?, inputs: [JournalEntry.Input] = [], changes: [Change],
        note: String? = nil
    ) {
        self.note = note
        self.kind = kind
        self.person = person
        self.inputs = inputs
        self.changes = changes
    }
}

extension Outcome {
    /// The identities that the call links, and by which a rule may merge people. A split parts people, so its links and the links
    /// of its undo merge nobody.
    package var linked: [Identity] {
        if kind == .split || kind == .undoSplit { return [] }
        return changes.compactMap { if case .linked(_, let identity) = $0 { identity } else { nil } }
    }
}
