/// What a document is about. The raw values are stored: they never change.
package enum DocumentKind: UInt8, CaseIterable, Sendable {
    /// The attributes of a person in IDSync.
    case attributes = 1
    /// An alias, by its id.
    case alias = 2
    /// The ids of a person's aliases.
    case aliasesOfPerson = 3
    /// What the Claim dialect keeps of a user.
    case appUser = 4
    /// The properties of a user in Claim.
    case properties = 5
    /// That whoever held an identity was erased, by the hash of the identity.
    case tombstone = 6
    /// That two people with equal user ids were parted, by the ids of both.
    case parted = 7
    /// Which folds a large group keeps, by the group's root (Folds/KeptFolds.swift); and these folds.
    case groupFolds = 8
    case groupAttributes = 9
    case groupProperties = 10
    case groupAccessProperties = 11
    case groupResponses = 12
    case groupAttachmentUse = 13
    case groupAppUser = 14
    case groupLinkedMembers = 15
    /// The questionnaires of a project.
    case questionnaires = 20
    /// A questionnaire, by its id.
    case questionnaire = 21
    /// What a person has answered to a questionnaire.
    case response = 22
    /// Whether feedback was deleted, by its id.
    case feedback = 23
    /// What the first of the errors of an issue said, by the issue's id. It is whose error it was.
    case issueTitle = 29
    /// An issue in Claim, by its id.
    case issue = 30
    /// When a session last reported an error.
    case errorSession = 31
    /// The funnels and metrics that a project has defined.
    case definitions = 32
    /// An attachment, by its id.
    case attachment = 33
    /// How many bytes of attachments a person has.
    case attachmentUse = 34
    /// How many bytes of attachments a project has.
    case attachmentUseOfProject = 35
    /// How many attachments have some bytes, by the digest of these.
    case content = 36
    /// The attachments that an event which is yet to come will tell the user of.
    case awaitedEvent = 37
    /// What an event says since it was imported again, by what it is recognized by.
    case eventRevision = 38
    /// The ids of a person's attachments.
    case attachmentList = 39
    /// What access keeps of a user.
    case accessUser = 40
    /// The properties of a user in Entitlements.
    case accessProperties = 41
    /// What a store account with a name has paid for.
    case storeAccount = 42
    case purchase = 43
    /// What a project sells.
    case catalog = 44
    /// What a restore has moved, by its id.
    case transfer = 45
    /// An install of the Linking dialect, by its id.
    case install = 50
    /// What the Linking dialect keeps of a user.
    case linkedUser = 51
    /// How a project links.
    case linkingSettings = 52
    /// An authentication code, by its hash.
    case linkCode = 53
    /// When a key was used, by its id.
    case keyUse = 60
    /// The webhooks of a project.
    case webhooks = 61
    /// How far a webhook has been told, by its id.
    case deliveries = 62
    /// The keys that a project's customers sign tokens with.
    case signingKeys = 90
}

/// By what a document is found.
///
/// A document is something small that belongs together and is kept whole: a decision reads it, and puts another in its
/// place. The earlier ones stay as history.
package struct DocumentKey: Hashable, Sendable {
    package let kind: DocumentKind
    package let hash: Hash128

    package init(_ kind: DocumentKind, hash: Hash128) {
        self.kind = kind
        self.hash = hash
    }

    /// The document of a kind that something with an id has.
    package init(_ kind: DocumentKind, of id: Int64) {
        self.init(kind, hash: Hash128(high: 0, low: UInt64(bitPattern: id)))
    }

    package init(_ kind: DocumentKind, of person: PersonID) { self.init(kind, of: person.rawValue) }
}
