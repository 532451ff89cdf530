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
    case mergeUndone(MergeID)
    case projectMade(Project)
    case appMade(App)
    case keyMade(AccessKey)
    /// The call's project has other rules from now on.
    case strategySet(version: Int, Strategy)
}

/// One accepted call: who, when, what was asked, and what came of it.
package final class JournalEntry: Sendable {
    /// What kind of call it was. The raw values are stored: they never change.
    package enum Kind: UInt8, Sendable {
        case setUp = 1
        case identify = 2
        case login = 3
        case logout = 4
        case setStrategy = 5
        case modify = 6
        case ingest = 7
        case alias = 8
        case undoAlias = 9
        case undoMerge = 11
        case claim = 12
        case collect = 13
        case setProperties = 14
        case merge = 15
        /// A call of any kind that was refused.
        case refused = 10
    }

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
        }

        package let identity: Identity
        package let fate: Fate

        package init(_ identity: Identity, _ fate: Fate) {
            self.identity = identity
            self.fate = fate
        }
    }

    package let at: Instant
    package let project: ProjectID
    package let key: KeyID?
    package let requestID: String
    package let replay: ReplayClaim?
    package let kind: Kind
    /// The person that the call came to, or was about.
    package let person: PersonID?
    package let inputs: [Input]
    package let reply: Reply
    package let changes: [Change]

    /// A call that was refused, and asked for some person and identities. It is decided again when it is repeated.
    package init(_ call: Call, _ stamp: Stamp, _ refusal: Refusal, person: PersonID?) {
        at = stamp.at
        project = call.project
        key = call.key
        requestID = call.requestID
        replay = nil
        kind = .refused
        self.person = person
        inputs = []
        reply = .refused(refusal)
        changes = []
    }

    /// Whether a project, an app, a key or a strategy is among what changed.
    package var changesDirectory: Bool { kind == .setUp || kind == .setStrategy }

    package init(_ call: Call, _ stamp: Stamp, _ outcome: Outcome, _ reply: Reply) {
        at = stamp.at
        project = call.project
        key = call.key
        requestID = call.requestID
        replay = call.replay
        kind = outcome.kind
        person = outcome.person
        inputs = outcome.inputs
        self.reply = reply
        changes = outcome.changes
    }
}
