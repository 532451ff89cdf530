/// One fact that comes into force, or out of it.
package enum Change: Equatable, Sendable {
    case personMade(PersonID, at: Instant)
    case linked(PersonID, Identity)
    /// A person no longer holds an identity. The link stays as history.
    case unlinked(PersonID, IdentityType, IdentityKey)
    case rowAdded(PersonID, Row)
    /// A document takes the place of the one before it. The person is the one that it is about.
    case documentPut(DocumentKey, PersonID, [UInt8])
    case merged(Merge)
    case mergeUndone(Merge)
    /// Nobody finds the person any more, and what was stored under it goes.
    case personErased(PersonID)
    case projectMade(Project)
    case appMade(App)
    case keyMade(AccessKey)
    /// An app's secret is not taken any more.
    case appRevoked(AppID, at: Instant)
    /// A key is not taken any more.
    case keyRevoked(KeyID, at: Instant)
    /// The call's project has other rules from now on.
    case strategySet(version: Int, Strategy)
}

/// One accepted call: who, when, what was asked, and what came of it.
package final class JournalEntry: Sendable {
    /// An identity that the call named and that it did not link: with the links made, all that was asked.
    package struct Input: Equatable, Sendable {
        package enum Fate: UInt8, Sendable {
            /// The person held it before.
            case matched = 1
            /// Another person holds it, and its type is unique.
            case heldElsewhere = 2
            /// The person holds another value, and the type is immutable.
            case immutable = 3
            /// The value is blocked. It is not kept, not even here.
            case blocked = 4
            /// As many people hold it as may.
            case tooCommon = 5
            /// It was to be taken from the person, who does not hold it.
            case notHeld = 6
            /// The person holds as many values of the type as one may.
            case tooMany = 7
            /// The person holds as many identities as a person may.
            case personFull = 8
        }

        package let identity: Identity
        package let fate: Fate

        /// Whether the value was refused, and not only not needed.
        var isRefused: Bool { fate.isRefusal }

        package init(_ identity: Identity, _ fate: Fate) {
            self.identity = identity
            self.fate = fate
        }
    }

    package let at: Instant
    /// The id that the call was given. It is used up, whatever it was used for.
    package let id: PersonID
    package let project: ProjectID
    package let key: KeyID?
    package let requestID: String
    package let replay: ReplayClaim?
    package let kind: ActKind
    /// The person that the call came to, or was about.
    package let person: PersonID?
    package let inputs: [Input]
    package let reply: Reply
    package let changes: [Change]
    /// Whether what it named and what it was answered are no longer kept.
    package let isForgotten: Bool
    /// Why somebody wanted it, in their words.
    package let note: String?
    /// The merges without which it would have come to something else.
    package let dependsOn: [MergeID]

    /// A call that was refused, and asked for some person and identities. It is decided again when it is repeated.
    ///
    /// - Parameter kind: `.unproven` where it was taken all the same.
    package init(
        _ call: Call, _ stamp: Stamp, _ refusal: Refusal, person: PersonID?, kind: ActKind = .refused,
        dependsOn merges: [MergeID] = []
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
        dependsOn = merges
    }

    /// A call as it is kept when people were erased whom it was about, or whose values it named.
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
        inputs = isAbout ? [] : entry.inputs.filter { !values.contains($0.identity.key) }
        reply = entry.reply
        changes = entry.changes.map { change in
            guard case .linked(let person, let identity) = change, people.contains(person) else { return change }
            return .linked(person, identity.withoutValue)
        }
        isForgotten = entry.isForgotten || isAbout
        note = isAbout ? nil : entry.note
        dependsOn = entry.dependsOn
    }

    /// Whether a project, an app, a key or a strategy is among what changed.
    package var changesDirectory: Bool { kind.changesDirectory }

    package init(
        _ call: Call, _ stamp: Stamp, _ outcome: Outcome, _ reply: Reply, dependsOn merges: [MergeID] = []
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
        dependsOn = merges
    }
}
