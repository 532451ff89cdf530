/// A call as the journal keeps it: its caller, the identities that it named, and its facts.
package struct RecordedCall: Equatable, Sendable {
    /// An identity that the call named and did not link.
    package struct Input: Equatable, Sendable {
        package let type: IdentityType
        /// Nil if the journal does not keep the value.
        package let value: String?
        package let fate: JournalEntry.Input.Fate

        package init(type: IdentityType, value: String?, fate: JournalEntry.Input.Fate) {
            self.type = type
            self.value = value
            self.fate = fate
        }
    }

    /// A fact that began or ended.
    package enum Fact: Equatable, Sendable {
        case personMade(PersonID)
        case unlinked(PersonID, IdentityType, String)
        case linked(PersonID, IdentityType, String)
        case merged(Merge)
        case mergeUndone(Merge)
        case personErased(PersonID)
        /// The bodies are those of rows that followers read in full: the rows of access.
        case rowsAdded(PersonID, RowKind, count: Int, bodies: [[UInt8]])
        case documentPut(PersonID, DocumentKind)
    }

    /// The answer of the call.
    package enum Answer: Equatable, Sendable {
        case reply(Reply)
        /// The code of the refusal.
        case refused(String)
        /// An erasure removed the answer.
        case forgotten
    }

    package let sequence: JournalSequence
    package let at: Instant
    package let project: ProjectID
    /// The key of the caller; nil for the command line and for the server itself.
    package let key: KeyID?
    package let requestID: String
    package let kind: ActKind
    /// The person that the call found, made or was about.
    package let person: PersonID?
    package let inputs: [Input]
    package let answer: Answer
    /// The reason that the caller gave, in the caller's words.
    package let note: String?
    /// The facts, in the order of the cases above.
    package let facts: [Fact]
    /// The first row that the call added; nil if it added none.
    package let firstRow: RowNumber?

    package init(
        sequence: JournalSequence, at: Instant, project: ProjectID, key: KeyID?, requestID: String,
        kind: ActKind, person: PersonID?, inputs: [Input], answer: Answer, note: String? = nil, facts: [Fact],
        firstRow: RowNumber? = nil
    ) {
        self.sequence = sequence
        self.at = at
        self.project = project
        self.key = key
        self.requestID = requestID
        self.kind = kind
        self.person = person
        self.inputs = inputs
        self.answer = answer
        self.note = note
        self.facts = facts
        self.firstRow = firstRow
    }
}

extension JournalEntry {
    /// The other people of the call: people that it made or merged, that got rows, or that it took an identity from. The histories of
    /// these people also show the call.
    package var otherPeople: [PersonID] {
        var people: [PersonID] = []
        // The people that the call made beside its own, and those that the list has.
        var seen: Set<PersonID> = []
        func add(_ other: PersonID) {
            if other != person, seen.insert(other).inserted { people.append(other) }
        }
        // Rows of one person come together.
        var last: PersonID?
        for change in changes {
            switch change {
            case .personMade(let newcomer, _): if newcomer != person { seen.insert(newcomer) }
            case .rowAdded(let owner, _):
                if owner != last { add(owner) }
                last = owner
            case .linked(let person, _), .unlinked(let person, _, _): add(person)
            case .personErased(let person): add(person)
            case .merged(let merge), .mergeUndone(let merge):
                add(merge.from)
                add(merge.into)
            case .rowSuperseded, .documentPut, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed,
                .strategySet:
                break
            }
        }
        return people
    }
}

extension RecordedCall.Fact {
    /// The people whose fact it is.
    fileprivate var people: [PersonID] {
        switch self {
        case .personMade(let person), .unlinked(let person, _, _), .linked(let person, _, _), .personErased(let person),
            .rowsAdded(let person, _, _, _), .documentPut(let person, _):
            [person]
        case .merged(let merge), .mergeUndone(let merge): [merge.from, merge.into]
        }
    }

    /// The identity that the fact gives or takes; nil for other facts, and for an erased value.
    fileprivate var identity: (type: IdentityType, value: String)? {
        switch self {
        case .unlinked(_, let type, let value), .linked(_, let type, let value): value.isEmpty ? nil : (type, value)
        case .personMade, .merged, .mergeUndone, .personErased, .rowsAdded, .documentPut: nil
        }
    }
}

extension RecordedCall {
    /// The facts about some people, and those about other people's holding of the same identities: where an identity came from, or
    /// went. One call of an import has facts about many people, and a person's journal and export have nothing of theirs.
    package func facts(about people: Set<PersonID>) -> [Fact] {
        let own = facts.map { !people.isDisjoint(with: $0.people) }
        var identities: [IdentityType: Set<String>] = [:]
        for (fact, isOwn) in zip(facts, own) where isOwn {
            if let identity = fact.identity { identities[identity.type, default: []].insert(identity.value) }
        }
        return zip(facts, own).compactMap { fact, isOwn in
            if isOwn { return fact }
            guard let identity = fact.identity, identities[identity.type]?.contains(identity.value) == true else {
                return nil
            }
            return fact
        }
    }
}

extension RecordedCall.Answer {
    /// Reads the bytes of ``Reply/packed``; nil if this version cannot read them.
    package init?(packed: [UInt8]) {
        if packed.isEmpty {
            self = .forgotten
            return
        }
        var unpacker = Unpacker(packed)
        if unpacker.byte() == ActKind.refused.rawValue {
            guard let code = unpacker.text() else { return nil }
            self = .refused(code)
            return
        }
        guard let reply = Reply(packed: packed) else { return nil }
        self = .reply(reply)
    }
}

/// A call of the journal without what it asked and did, for a search through many calls: the facts of an upload are many rows.
package struct CallHead: Equatable, Sendable {
    package let sequence: JournalSequence
    package let at: Instant
    package let project: ProjectID
    package let person: PersonID?
    package let requestID: String

    package init(
        sequence: JournalSequence, at: Instant, project: ProjectID, person: PersonID?, requestID: String
    ) {
        (self.sequence, self.at, self.project) = (sequence, at, project)
        (self.person, self.requestID) = (person, requestID)
    }
}

extension RecordedCall {
    package var head: CallHead {
        CallHead(sequence: sequence, at: at, project: project, person: person, requestID: requestID)
    }
}

/// The other ends of a call's facts: a reader that looks for them in the journal of a person reads all later calls of the person.
package struct FactSpans: Equatable, Sendable {
    /// The calls that ended the links of the call, in the order of its facts; nil for a link in force.
    package var linkEnds: [JournalSequence?] = []
    /// The calls that began the links that the call ended, in the order of its facts.
    package var linkBegins: [JournalSequence] = []
    /// The calls that undid merges of the call.
    package var mergeEnds: [MergeID: JournalSequence] = [:]

    package init() {}
}
