/// One fact that begins or ends.
package enum Change: Equatable, Sendable {
    case personMade(PersonID, at: SeenAt)
    case linked(PersonID, Identity)
    /// A person no longer holds an identity. The link stays as history.
    case unlinked(PersonID, IdentityType, IdentityKey)
    case rowAdded(PersonID, Row)
    /// A newer row of the call says what a row of the person said, or nothing says it any more. The row stays in the store, and no
    /// read or count has it.
    case rowSuperseded(PersonID, RowKind, RowNumber)
    /// A document replaces the earlier document under its key. The person is the person of the document.
    case documentPut(DocumentKey, PersonID, [UInt8])
    case merged(Merge)
    case mergeUndone(Merge)
    /// An erased person. No call finds the person any more, and the store removes its rows and documents.
    case personErased(PersonID)
    case projectMade(Project)
    case appMade(App)
    case keyMade(AccessKey)
    /// An app's secret is revoked.
    case appRevoked(AppID, at: Instant)
    /// A key is revoked.
    case keyRevoked(KeyID, at: Instant)
    /// A project or an app has a new name.
    case renamed(Named, String)
    /// The call's project has a new strategy.
    case strategySet(version: Int, Strategy)

    /// Whether documents that the store derives may change with it: the folds of large groups, and the removed rows of runs.
    var mayChangeFolds: Bool {
        switch self {
        case .documentPut, .merged, .mergeUndone, .personErased, .rowSuperseded: true
        case .personMade, .linked, .unlinked, .rowAdded, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked,
            .renamed, .strategySet:
            false
        }
    }
}

/// A thing with a name that people can change.
package enum Named: Equatable, Sendable {
    case project(ProjectID)
    case app(AppID)
}

/// One accepted call in the journal: its caller, its moment, its inputs and its result.
package final class JournalEntry: Sendable {
    /// An identity that the call named and did not link. The inputs and the links together are all identities of the call.
    package struct Input: Equatable, Sendable {
        /// The reason why the call did not link the identity. Stores keep the raw values, so a raw value never changes.
        package enum Fate: UInt8, CaseIterable, Sendable {
            /// The person already held the value.
            case matched = 1
            /// Another person holds the value, and the type is unique.
            case heldElsewhere = 2
            /// The person holds another value, and the type is immutable.
            case immutable = 3
            /// The value is blocked. The journal does not keep it either.
            case blocked = 4
            /// The value has as many holders as the limit allows.
            case tooCommon = 5
            /// The call removes a value that the person does not hold.
            case notHeld = 6
            /// The person holds as many values of the type as the strategy allows.
            case tooMany = 7
            /// The person holds as many identities as a person may hold.
            case personFull = 8
            /// With the value the search would have found a person that may not hold another value of the call.
            case demoted = 9
            /// Several known users hold the device, and the call names no login identity.
            case contested = 10
            /// The call brought something for a person that it named by id, and this identity of the device came with it.
            case sentFrom = 11
            /// The value names a user, and the person belongs to another user.
            case otherUser = 12
        }

        package let identity: Identity
        package let fate: Fate

        /// Whether a rule refused the value. A value that was only unnecessary is not refused.
        var isRefused: Bool { fate.isRefusal }

        package init(_ identity: Identity, _ fate: Fate) {
            self.identity = identity
            self.fate = fate
        }
    }

    package let at: Instant
    /// The id that the writer gave to the call. No other call gets this id, even if the call makes no person.
    package let id: PersonID
    package let project: ProjectID
    package let key: KeyID?
    package let requestID: String
    package let replay: ReplayClaim?
    package let kind: ActKind
    /// The person that the call found, made or was about.
    package let person: PersonID?
    package let inputs: [Input]
    package let reply: Reply
    package let changes: [Change]
    /// Whether an erasure removed the inputs and the answer.
    package let isForgotten: Bool
    /// The reason that the caller gave, in the caller's words.
    package let note: String?
    /// The groups that the decision read, with the act; nil if an undo of a merge need not decide the call again.
    package let groupNote: GroupNote?

    /// A refused call that named a person and identities. The server decides it again when a client repeats it.
    ///
    /// - Parameters:
    ///   - call: the caller and the marks of the call.
    ///   - stamp: the values that the writer gave to the call.
    ///   - refusal: the answer.
    ///   - person: the person that the call was about.
    ///   - kind: `.unproven` if the server accepted the call without a proof.
    ///   - groupNote: the groups that the decision read.
    package init(
        _ call: Call, _ stamp: Stamp, _ refusal: Refusal, person: PersonID?, kind: ActKind = .refused,
        groupNote: GroupNote? = nil
    ) {
        at = stamp.journalledAt
        id = stamp.person
        project = call.project
        key = call.key
        requestID = call.requestID
        replay = nil
        self.kind = kind
        self.person = person
        inputs = []
        reply = Reply(Refused(refusal))
        changes = []
        isForgotten = false
        note = nil
        self.groupNote = groupNote
    }

    /// The entry as the journal keeps it after an erasure of its people or of its values.
    package func forgetting(_ people: Set<PersonID>, _ values: Set<IdentityKey>) -> JournalEntry {
        JournalEntry(forgetting: people, values, in: self)
    }

    private init(forgetting people: Set<PersonID>, _ values: Set<IdentityKey>, in entry: JournalEntry) {
        let isAbout = entry.kind != .erase && entry.person.map(people.contains) == true
        at = entry.at
        id = entry.id
        project = entry.project
        key = entry.key
        requestID = isAbout ? "" : entry.requestID
        replay = isAbout ? nil : entry.replay
        kind = entry.kind
        person = entry.person
        inputs =
            isAbout
            ? []
            : entry.inputs.map { input in
                values.contains(input.identity.key) && input.fate != .blocked
                    ? Input(input.identity.withoutValue, input.fate) : input
            }
        reply = entry.reply
        changes = entry.changes.map { change in
            guard case .linked(let person, let identity) = change, people.contains(person) else { return change }
            return .linked(person, identity.withoutValue)
        }
        isForgotten = entry.isForgotten || isAbout
        note = isAbout ? nil : entry.note
        groupNote = isAbout || entry.groupNote?.roots.contains(where: people.contains) == true ? nil : entry.groupNote
    }

    /// The last id that the call gave: to itself, or with its changes.
    ///
    /// - Parameter latest: the latest moment of the journal with this call.
    package func lastGiven(upTo latest: Instant) -> PersonID {
        max(id, PersonID.lastGiven(in: changes, of: id, upTo: latest) ?? id)
    }

    /// Whether the call changed a project, an app, a key or a strategy.
    package var changesDirectory: Bool { kind.changesDirectory }

    package init(
        _ call: Call, _ stamp: Stamp, _ outcome: Outcome, _ reply: Reply, groupNote: GroupNote? = nil
    ) {
        at = stamp.journalledAt
        id = stamp.person
        project = call.project
        key = call.key
        requestID = call.requestID
        replay = call.replay
        kind = outcome.kind
        person = outcome.person
        inputs = outcome.inputs
        self.reply = reply
        changes = outcome.changes
        isForgotten = false
        note = outcome.note
        self.groupNote = groupNote
    }
}
