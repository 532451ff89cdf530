/// The kind of a document. Stores keep the raw values, so a raw value never changes.
package enum DocumentKind: UInt8, CaseIterable, Sendable {
    /// The attributes of a person in IDSync.
    case attributes = 1
    /// An alias, by its id.
    case alias = 2
    /// The ids of a person's aliases.
    case aliasesOfPerson = 3
    /// The state of a user in the Claim dialect.
    case appUser = 4
    /// The properties of a user in the Claim dialect.
    case properties = 5
    /// The tombstone of an identity, by the hash of the identity.
    case tombstone = 6
    /// The mark that an undo separated two people with equal user ids, by the ids of both.
    case parted = 7
    /// The list of the folds that a large group keeps, by the group's root (Folds/KeptFolds.swift), and these folds.
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
    /// The answers of a person to a questionnaire.
    case response = 22
    /// Whether feedback was deleted, by its id.
    case feedback = 23
    /// The message of the first error of an issue, by the issue's id. It belongs to the person with the error.
    case issueTitle = 29
    /// An issue in Claim, by its id.
    case issue = 30
    /// The last moment at which a session reported an error.
    case errorSession = 31
    /// The funnels and metrics of a project, as older versions stored them.
    case definitions = 32
    /// An attachment, by its id.
    case attachment = 33
    /// The number of bytes of a person's attachments.
    case attachmentUse = 34
    /// The number of bytes of a project's attachments.
    case attachmentUseOfProject = 35
    /// The number of attachments with the same bytes, by the digest of the bytes.
    case content = 36
    /// The attachments whose event has not arrived yet. The event will name their user.
    case awaitedEvent = 37
    /// The list of a project's funnels and metrics.
    case definitionList = 46
    /// A funnel or a metric, by its id.
    case definition = 47
    /// The attachments of an event, by the event's recognition hash.
    case attachmentsOfEvent = 48
    /// The ids of the comments about an issue, feedback or a response.
    case comments = 49
    /// The facts about an app that its uploads tell, by the app's id.
    case appFacts = 57
    /// The status of an issue, and the issues that are parts of it, by the issue's id.
    case issueState = 58
    /// A comment, by its id.
    case comment = 54
    /// The review of a response to a questionnaire, and the place of the response, by the response's id.
    case responseState = 55
    /// The questions of a questionnaire as users answered them, by the questionnaire and the moment of its change.
    case answeredQuestions = 56
    /// The newer body of an event that was imported again, by the event's recognition hash. Older versions of the server wrote it;
    /// now a newer row supersedes the event's row.
    case eventRevision = 38
    /// The moment and the recognition hash of a corrected event, by the number of the event's first row.
    case correctedEvent = 64
    /// The number of errors behind an occurrence, by the occurrence's recognition hash. It is missing while the number is 1.
    case occurrenceErrors = 65
    /// The settings of a project and of an app in the Claim dialect, by the id of the project or the app.
    case claimProjectSettings = 66
    case claimAppSettings = 67
    /// The runs of a project's rows of one kind, and the number of the first row that no run has (docs/decisions/0028).
    case runList = 68
    case runsEnd = 69
    /// A part of a run.
    case runPart = 86
    /// The rows of runs that later rows supersede, by their numbers, and the erased people with rows in runs.
    case removedRows = 84
    case erasedFromRuns = 85
    /// The end of the rows of a project and kind that retention removes.
    case expiredRows = 87
    /// The call up to which superseded versions of documents have no content.
    case historyEnd = 127
    /// The ids of a person's attachments.
    case attachmentList = 39
    /// The state of a user in the Entitlements dialect.
    case accessUser = 40
    /// The properties of a user in the Entitlements dialect.
    case accessProperties = 41
    /// The purchases of a store account, by the account's name.
    case storeAccount = 42
    case purchase = 43
    /// The products of a project.
    case catalog = 44
    /// The purchases that a restore moved, by the restore's id.
    case transfer = 45
    /// Purchases whose check with their store is due in one minute.
    case checkList = 80
    /// The minutes of an hour that have such purchases.
    case checkHour = 81
    /// The first hour that may have due checks, by the project's number.
    case checkStart = 82
    /// What stores have told, and about which the server has not asked yet: a notice, its place in the queue of its project and
    /// store, and the places of a queue.
    case storeNotice = 120
    case storeNoticePlace = 121
    case storeNoticeRange = 122
    /// The moment from which on a project's notifications of Apple have to be read once more, by the project's number.
    case missedNews = 124
    /// The progress of planning questions to stores again after a clock was ahead, by the project's number.
    case checkWalk = 123
    /// The steps by which the clock went back: a version for each.
    case clockSteps = 126
    /// The options of a project for the stores that confirm purchases.
    case storeOptions = 83
    /// An install of the Linking dialect, by its id.
    case install = 50
    /// The state of a user in the Linking dialect.
    case linkedUser = 51
    /// The linking settings of a project.
    case linkingSettings = 52
    /// An authentication code, by its hash.
    case linkCode = 53
    /// The last noted use of a key, by the key's id.
    case keyUse = 60
    /// The webhooks of a project.
    case webhooks = 61
    /// The progress and the waiting deliveries of a webhook, by the webhook's id.
    case deliveries = 62
    /// The members that a project adds to the configuration of its IDSync clients.
    case clientConfig = 63
    /// The links and the sessions of a project's console.
    case consoleBook = 70
    /// The last user that a call named with a device, by the device's identity.
    case deviceUser = 88
    /// The anonymous person of a device that several known users hold, by the device's identity.
    case neutralPerson = 89
    /// The person of calls whose identities all belong to others, by the identities of the call.
    case standIn = 91
    /// The people from whom undone merges keep a person apart.
    case partedFrom = 92
    /// The moments at which a person got the values of types with a window (Rules/LimitWindow.swift).
    case linkTimes = 116
    /// The traits that calls of `POST /onym/v1/identify` gave a person, and their fold over a large group.
    case traits = 93
    case groupTraits = 94
    /// The keys with which a project's customer signs tokens.
    case signingKeys = 90
    /// The master keys of a project over time.
    case masterKeys = 125
    /// The progress of an import, by its id, and the ids of a project's imports.
    case importProgress = 96
    case importList = 97
    /// Whether a call is taken back, by the number of the call.
    case callUndone = 115
    /// The moment at which an imported person was made, and the links that had ended before the import.
    case importedPerson = 98
    /// A split, by its id, and the id of the last split of a project.
    case split = 110
    case lastSplit = 111
    /// The calls whose links an undo of a split gave back to a person.
    case restoredLinks = 112
    /// The splits in force that gave rows to other people, of all projects.
    case rowRoutes = 113
    /// The identities by which later uploads for a person belong to another person.
    case splitLanes = 114
}

/// The kind and the hash under which the store finds a document.
///
/// A document is a small value that the store keeps whole. A decision reads the document and replaces it. The journal keeps
/// the earlier versions.
package struct DocumentKey: Hashable, Sendable {
    package let kind: DocumentKind
    package let hash: Hash128

    package init(_ kind: DocumentKind, hash: Hash128) {
        self.kind = kind
        self.hash = hash
    }

    /// The key of a document of a thing with an id.
    package init(_ kind: DocumentKind, of id: Int64) {
        self.init(kind, hash: Hash128(high: 0, low: UInt64(bitPattern: id)))
    }

    package init(_ kind: DocumentKind, of person: PersonID) { self.init(kind, of: person.rawValue) }
}

extension DocumentKind {
    /// The kinds whose superseded versions lose their content when retention says so: what calls write often, and what is about a
    /// person. Other kinds have few versions, and name the calls of splits, purchases and merges.
    package static let forgetting: [DocumentKind] = [.attributes, .properties, .traits, .accessProperties, .appUser]

    /// Whether the id of a person is the key of such documents.
    var isOfPerson: Bool {
        switch self {
        case .attributes, .aliasesOfPerson, .appUser, .properties, .groupFolds, .groupAttributes, .groupProperties,
            .groupAccessProperties, .groupResponses, .groupAttachmentUse, .groupAppUser, .groupLinkedMembers,
            .attachmentUse, .attachmentList, .accessUser, .accessProperties, .linkedUser, .partedFrom,
            .importedPerson, .traits, .groupTraits, .restoredLinks, .splitLanes, .linkTimes:
            true
        case .alias, .tombstone, .parted, .questionnaires, .questionnaire, .response, .feedback, .issueTitle, .issue,
            .errorSession, .definitions, .attachment, .attachmentUseOfProject, .content, .awaitedEvent,
            .definitionList, .definition, .attachmentsOfEvent, .comments, .appFacts, .issueState, .comment,
            .responseState, .answeredQuestions, .eventRevision, .correctedEvent, .occurrenceErrors,
            .claimProjectSettings, .claimAppSettings, .runList, .runsEnd, .runPart, .removedRows, .erasedFromRuns,
            .expiredRows, .historyEnd, .storeAccount, .purchase, .catalog, .transfer, .checkList, .checkHour,
            .checkStart,
            .storeNotice, .storeNoticePlace, .storeNoticeRange, .checkWalk, .missedNews, .storeOptions, .install,
            .linkingSettings, .linkCode, .keyUse, .webhooks, .deliveries, .clientConfig,
            .consoleBook, .deviceUser, .neutralPerson, .standIn, .signingKeys, .masterKeys, .importProgress,
            .importList, .callUndone, .split, .lastSplit, .rowRoutes, .clockSteps:
            false
        }
    }
}
