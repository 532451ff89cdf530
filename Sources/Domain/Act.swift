/// A call that may change something, as a value: all that its decision goes by, except the facts.
///
/// Each kind of call is one type in one file. Everything that the server does with every call follows from this
/// declaration: what is loaded before a batch, whose proof the call needs, how its answer is kept and given again.
package protocol Act: Sendable {
    /// What the caller is answered.
    associatedtype Answer: Domain.Answer

    /// The kinds under which the journal keeps calls of this type; none where they change nothing.
    static var kinds: [ActKind] { get }

    /// The identities and people that the call names, and as what. There is no default: an act that forgets its
    /// subjects does not compile.
    var subjects: Subjects { get }

    /// Roughly how many bytes the call carries. The sum bounds a batch.
    var byteCount: Int { get }

    /// Decides the call over some facts. No earlier call is the same.
    func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision<Answer>

    /// Whether the index in memory has all that the decision reads. Other calls go to the writer at once.
    static var isDecidedInMemory: Bool { get }

    /// Whether the decision may depend on which people are merged.
    static var readsMerges: Bool { get }

    // The same decision, compiled for each kind of facts that the server decides over: a call through `any Act` would
    // otherwise run the general code, which is several times slower.
    func decide(_ stamp: Stamp, in project: ProjectID, index: PeopleIndex.IndexFacts) throws(Refusal) -> Decision<Reply>
    func decide(_ stamp: Stamp, in project: ProjectID, loaded: LoadingFacts) throws(Refusal) -> Decision<Reply>
    func decide(_ stamp: Stamp, in project: ProjectID, facts: Facts) throws(Refusal) -> Decision<Reply>
}

extension Act {
    package static var isDecidedInMemory: Bool { false }
    package static var readsMerges: Bool { true }

    package func decide(
        _ stamp: Stamp, in project: ProjectID, index: PeopleIndex.IndexFacts
    ) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, index).boxed
    }

    package func decide(
        _ stamp: Stamp, in project: ProjectID, loaded: LoadingFacts
    ) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, loaded).boxed
    }

    package func decide(_ stamp: Stamp, in project: ProjectID, facts: Facts) throws(Refusal) -> Decision<Reply> {
        try decide(stamp, in: project, facts).boxed
    }

    /// The decision with its answer in a box, over any facts.
    func decideBoxed<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision<
        Reply
    > {
        try decide(stamp, in: project, view).boxed
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

extension Facts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        try act.decide(stamp, in: project, facts: self)
    }
}

/// The identities and people that a call names. What is loaded before a batch, proofs of identity, limits, the journal's
/// person and the merging of equal user ids all go by it.
package struct Subjects: Sendable {
    /// The identities in whose rate limits the call counts.
    package let limitedBy: [Identity]
    /// The identities that the call speaks for: a known user among them needs a proof, and the call may link them.
    package let speaksFor: [Identity]
    /// The identity that the call speaks for and whose whole group it reads or writes.
    package let readsGroupOf: Identity?
    /// The user who is signed in where the call comes from.
    package let signedIn: Identity?
    /// The identities that the call looks up without speaking for them.
    package let mentions: [IdentityKey]
    /// The person that the call is about, named by id. The journal has the call under this person, also when it is refused.
    package let about: PersonID?
    /// Other people that the call names by id.
    package let people: [PersonID]
    /// Merges that the call names.
    package let merges: [MergeID]
    /// Codes that say which identity has to be loaded.
    package let codes: [(key: DocumentKey, seal: CodeSeal)]

    package init(
        limitedBy: [Identity] = [], speaksFor: [Identity] = [], readsGroupOf: Identity? = nil,
        signedIn: Identity? = nil,
        mentions: [IdentityKey] = [], about: PersonID? = nil, people: [PersonID] = [], merges: [MergeID] = [],
        codes: [(key: DocumentKey, seal: CodeSeal)] = []
    ) {
        self.limitedBy = limitedBy
        self.speaksFor = speaksFor
        self.readsGroupOf = readsGroupOf
        self.signedIn = signedIn
        self.mentions = mentions
        self.about = about
        self.people = people
        self.merges = merges
        self.codes = codes
    }

    /// A call that names no identity and no person.
    package static var none: Subjects { Subjects() }

    /// The user ids that the call may link.
    package var userIDs: [Identity] { spokenFor.filter { SameUserID.types.contains($0.type) } }

    /// All identities that the call speaks for.
    package var spokenFor: [Identity] {
        readsGroupOf.map { speaksFor + [$0] } ?? speaksFor
    }
}

/// The answer to an act: what the caller is told, and how it is kept for when the call is repeated.
package protocol Answer: Equatable, Sendable {
    /// The numbers under which answers of this type are kept. They are for life.
    static var tags: [UInt8] { get }
    /// The number under which this answer is kept.
    var tag: UInt8 { get }
    /// Writes what is needed to make the answer again, without its tag.
    func pack(into packer: inout Packer)
    /// Reads a kept answer; nil where the bytes are not one.
    init?(tag: UInt8, unpacking unpacker: inout Unpacker)
    /// The person that was seen by the call; nil where nobody was.
    var seen: PersonID? { get }
    /// The people that the call came to. A caller who must prove an identity must prove these.
    var found: [PersonID] { get }
    /// What followers are told besides the facts, of a call that came to a person.
    func events(_ person: PersonID?) -> [ChangeEvent]
    /// The kept contents that the call may have left without an owner.
    var orphans: Orphans { get }
    /// The answer as its caller gets it, without what is kept beside it.
    var plain: Self { get }
}

/// Kept contents that may have no owner after a call.
package enum Orphans: Sendable {
    case none
    /// The content with a digest.
    case content([UInt8])
    /// Contents of people who were erased.
    case contentsOfPeople
}

extension Answer {
    package var tag: UInt8 { Self.tags[0] }
    package var seen: PersonID? { nil }
    package var found: [PersonID] { [] }
    package func events(_ person: PersonID?) -> [ChangeEvent] { [] }
    package var orphans: Orphans { .none }
    package var plain: Self { self }
}

/// The answer to a call that has nothing to tell but that it was done.
package struct Done: Answer {
    // Each act had a number of its own once.
    package static let tags: [UInt8] = [64, 1, 17, 30, 70, 71]

    package init() {}
    package func pack(into packer: inout Packer) {}
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {}
}

/// An answer of any type.
package struct Reply: Equatable, Sendable {
    package let answer: any Answer

    package init(_ answer: some Answer) { self.answer = answer }

    /// The answer of a type; nil where it is of another type.
    @inlinable
    package func `as`<A: Answer>(_ type: A.Type) -> A? { answer as? A }

    /// The person that was seen by the call; nil where nobody was.
    package var seen: PersonID? { answer.seen }

    /// The answer as its caller gets it.
    package var plain: Reply {
        func open<A: Answer>(_ answer: A) -> Reply { Reply(answer.plain) }
        return open(answer)
    }

    package static func == (one: Reply, other: Reply) -> Bool {
        func isEqual<A: Answer>(_ answer: A) -> Bool { other.answer as? A == answer }
        return isEqual(one.answer)
    }
}

extension Reply {
    /// What is kept of the answer: its tag, and its own bytes.
    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(answer.tag)
        answer.pack(into: &packer)
        return packer.bytes
    }

    /// Reads a kept answer; nil where the bytes are not one.
    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let tag = unpacker.byte(), let type = Registry.answers[tag],
            let answer = type.init(tag: tag, unpacking: &unpacker), unpacker.isAtEnd
        else { return nil }
        self.init(answer)
    }
}

/// What a call comes to: an answer, and what changes.
package struct Decision<Answer: Equatable & Sendable>: Equatable, Sendable {
    package let answer: Answer
    /// Nil where the call changes nothing.
    package let outcome: Outcome?
    /// Whether it depends on when people were last seen. Only the writer knows all sightings.
    package let restsOnSightings: Bool
    /// What had no room for all that the call named; nil where everything had room.
    package let full: Full?

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

/// What changes by a call, and what the journal keeps of the call besides.
package struct Outcome: Equatable, Sendable {
    package let kind: ActKind
    /// The person that the call came to; nil where it is about nobody.
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
