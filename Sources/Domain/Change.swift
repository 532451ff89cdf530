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
        case erase = 16
        case releaseTombstone = 17
        case joinSameUserIDs = 18
        case releaseDevice = 19
        case attachIdentity = 70
        case detachIdentity = 71
        case sendFeedback = 20
        case deleteFeedback = 21
        case setQuestionnaire = 22
        case answer = 23
        case define = 30
        case reserveAttachment = 31
        case storeAttachment = 32
        case deleteAttachment = 33
        case accessUser = 40
        case accessIdentity = 41
        case grantAccess = 42
        case revokeAccess = 43
        case recordPurchase = 44
        case restorePurchases = 45
        case undoTransfer = 46
        case accessProperties = 47
        case editCatalog = 48
        case makeInstall = 50
        case linkInstall = 51
        case issueCode = 52
        case redeemCode = 53
        case refreshTokens = 54
        case changeInstall = 55
        case submitRows = 56
        case resetInstall = 57
        case linkingSettings = 59
        case makeProject = 60
        case makeApp = 61
        case makeKey = 62
        case revoke = 63
        case noteKeyUse = 64
        case makeWebhook = 65
        case removeWebhook = 66
        case noteDeliveries = 67
        case replayDelivery = 68
        /// A call that was taken, though it showed no token for a known user.
        case unproven = 90
        /// A call that was taken, though a person or a group had no room for all that it named.
        case leftOut = 93
        case makeSigningKey = 91
        case retireSigningKey = 92
        /// A call of any kind that was refused.
        case refused = 10

        package var name: String {
            switch self {
            case .setUp: "set_up"
            case .identify: "identify"
            case .login: "login"
            case .logout: "logout"
            case .setStrategy: "set_strategy"
            case .modify: "modify"
            case .ingest: "ingest"
            case .alias: "alias"
            case .undoAlias: "undo_alias"
            case .undoMerge: "undo_merge"
            case .claim: "claim"
            case .collect: "collect"
            case .setProperties: "set_properties"
            case .merge: "merge"
            case .erase: "erase"
            case .releaseTombstone: "release_tombstone"
            case .joinSameUserIDs: "join_same_user_ids"
            case .releaseDevice: "release_device"
            case .attachIdentity: "attach_identity"
            case .detachIdentity: "detach_identity"
            case .sendFeedback: "send_feedback"
            case .deleteFeedback: "delete_feedback"
            case .setQuestionnaire: "set_questionnaire"
            case .answer: "answer"
            case .define: "define"
            case .reserveAttachment: "reserve_attachment"
            case .storeAttachment: "store_attachment"
            case .deleteAttachment: "delete_attachment"
            case .accessUser: "make_access_user"
            case .accessIdentity: "link_access_identity"
            case .grantAccess: "grant_access"
            case .revokeAccess: "revoke_access"
            case .recordPurchase: "purchase"
            case .restorePurchases: "restore"
            case .undoTransfer: "undo_transfer"
            case .accessProperties: "set_access_properties"
            case .editCatalog: "edit_catalog"
            case .makeInstall: "make_install"
            case .linkInstall: "link_install"
            case .issueCode: "issue_code"
            case .redeemCode: "redeem_code"
            case .refreshTokens: "refresh_tokens"
            case .changeInstall: "change_install"
            case .submitRows: "submit_rows"
            case .resetInstall: "reset_install"
            case .linkingSettings: "linking_settings"
            case .makeProject: "make_project"
            case .makeApp: "make_app"
            case .makeKey: "make_key"
            case .revoke: "revoke"
            case .noteKeyUse: "note_key_use"
            case .makeWebhook: "make_webhook"
            case .removeWebhook: "remove_webhook"
            case .noteDeliveries: "note_deliveries"
            case .replayDelivery: "replay_delivery"
            case .unproven: "unproven"
            case .leftOut: "left_out"
            case .makeSigningKey: "make_signing_key"
            case .retireSigningKey: "retire_signing_key"
            case .refused: "refused"
            }
        }
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
    package let kind: Kind
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
        _ call: Call, _ stamp: Stamp, _ refusal: Refusal, person: PersonID?, kind: Kind = .refused,
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
        reply = .refused(refusal)
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
    package var changesDirectory: Bool {
        switch kind {
        case .setUp, .setStrategy, .linkingSettings, .makeProject, .makeApp, .makeKey, .revoke, .makeSigningKey,
            .retireSigningKey:
            true
        default: false
        }
    }

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
