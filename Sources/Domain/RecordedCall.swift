/// A call as the journal keeps it: who made it, what it named, and the facts that came of it.
package struct RecordedCall: Equatable, Sendable {
    /// An identity that it named and did not link.
    package struct Input: Equatable, Sendable {
        package let type: IdentityType
        /// Nil for a value that is not kept.
        package let value: String?
        package let fate: JournalEntry.Input.Fate

        package init(type: IdentityType, value: String?, fate: JournalEntry.Input.Fate) {
            self.type = type
            self.value = value
            self.fate = fate
        }
    }

    /// Something that came into force, or out of it.
    package enum Fact: Equatable, Sendable {
        case personMade(PersonID)
        case unlinked(PersonID, IdentityType, String)
        case linked(PersonID, IdentityType, String)
        case merged(Merge)
        case mergeUndone(Merge)
        case personErased(PersonID)
        /// The bodies are those of what followers are told in full: what happened to access.
        case rowsAdded(PersonID, RowKind, count: Int, bodies: [[UInt8]])
        case documentPut(PersonID, DocumentKind)
    }

    /// What came of it.
    package enum Answer: Equatable, Sendable {
        case reply(Reply)
        /// The code of the reason.
        case refused(String)
        /// It is no longer kept.
        case forgotten
    }

    package let sequence: JournalSequence
    package let at: Instant
    package let project: ProjectID
    /// The key that it was made with; nil for the command line, and for the server itself.
    package let key: KeyID?
    package let requestID: String
    package let kind: ActKind
    /// The person that it came to, or was about.
    package let person: PersonID?
    package let inputs: [Input]
    package let answer: Answer
    /// Why somebody wanted it, in their words.
    package let note: String?
    /// In the order of their kinds, as they stand above.
    package let facts: [Fact]

    package init(
        sequence: JournalSequence, at: Instant, project: ProjectID, key: KeyID?, requestID: String,
        kind: ActKind, person: PersonID?, inputs: [Input], answer: Answer, note: String? = nil, facts: [Fact]
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
    }
}

extension JournalEntry {
    /// The people that a call made, took something from or merged, beside the one that it came to: it is part of their
    /// stories, too. Who only got rows is not among them.
    package var otherPeople: [PersonID] {
        var people: [PersonID] = []
        var made: [PersonID] = []
        func add(_ other: PersonID) {
            if other != person, !made.contains(other), !people.contains(other) { people.append(other) }
        }
        for change in changes {
            switch change {
            case .personMade(let newcomer, _): if newcomer != person { made.append(newcomer) }
            case .linked(let person, _), .unlinked(let person, _, _): add(person)
            case .personErased(let person): add(person)
            case .merged(let merge), .mergeUndone(let merge):
                add(merge.from)
                add(merge.into)
            case .rowAdded, .documentPut, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .strategySet:
                break
            }
        }
        return people
    }
}

extension RecordedCall.Answer {
    /// Reads what ``Reply/packed`` has kept; nil where this version cannot.
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
