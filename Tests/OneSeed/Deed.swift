package import Domain

/// A kind of call that a world makes. Every act of the registry belongs to a deed, or stands in ``elsewhere`` with the test that
/// shows it: `everyActHasADeed` fails for an act that is in neither list.
package enum Deed: String, CaseIterable, Sendable {
    // IDSync.
    case identify, search, modify, alias, undoAlias, upload, badUpload
    // Claim.
    case claim, ingest, importEvents, properties, define, feedback, deleteFeedback, questionnaire, respond,
        reviewResponse, reserve, storeFile, readFile, deleteFile, comment, editComment, review,
        issueStatus, mergeIssues, partIssues, retention
    // Entitlements.
    case accessUser, accessIdentity, grant, revoke, purchase, restore, accessProperties, attribution,
        storeOptions, catalog, transfer, undoTransfer
    // Linking.
    case install, link, code, redeem, late, hard, refresh, check, rows, reset, deleteUser, disable, linkingSettings,
        linkingApp, linkingKey, revokeLinkingKey
    // The native calls.
    case identifyUser, merge, undoMerge, split, undoSplit, undoCall, attach, detach, releaseDevice, joinUsers,
        sameUsers, erase, strategy, makeKey, revokeKey, signingKey, retireSigningKey, webhook, removeWebhook, config,
        startImport,
        importRecords, finishImport, undoImport, changes, person

    /// The acts that the deed's calls may become.
    package var acts: [any Act.Type] {
        switch self {
        case .identify: [Identify.self]
        case .search: [Search.self]
        case .modify: [Modify.self]
        case .alias: [MakeAlias.self]
        case .undoAlias: [UndoAlias.self]
        case .upload: [Ingest.self]
        case .badUpload: [RefuseUpload.self]
        case .claim: [Claim.self]
        case .ingest, .importEvents: [Collect.self]
        case .properties: [SetProperties.self]
        case .define: [Define.self]
        case .feedback: [SendFeedback.self]
        case .deleteFeedback: [DeleteFeedback.self]
        case .questionnaire: [SetQuestionnaire.self]
        case .respond: [AnswerQuestionnaire.self]
        case .reviewResponse: [ReviewResponse.self]
        case .reserve: [ReserveAttachment.self]
        case .storeFile: [StoreAttachment.self]
        case .readFile: []
        case .deleteFile: [DeleteAttachment.self]
        case .comment: [PostComment.self]
        case .editComment: [EditComment.self]
        case .review: [ReviewFeedback.self]
        case .issueStatus: [SetIssueStatus.self]
        case .mergeIssues, .partIssues: [MergeIssues.self]
        case .retention: [Administer.self, ExpireRows.self]
        case .accessUser: [MakeAccessUser.self]
        case .accessIdentity: [LinkAccessIdentity.self]
        case .grant: [GrantAccess.self]
        case .revoke: [RevokeAccess.self]
        case .purchase: [RecordPurchase.self]
        case .restore: [RestorePurchases.self]
        case .accessProperties: [SetAccessProperties.self]
        case .attribution: [RecordAttribution.self]
        case .storeOptions: [SetStoreOptions.self]
        case .catalog: [CatalogEdit.self]
        case .transfer: [MovePurchase.self]
        case .undoTransfer: [UndoTransfer.self]
        case .install: [MakeInstall.self]
        case .link: [LinkInstall.self]
        case .code: [IssueCode.self]
        case .redeem: [RedeemCode.self]
        case .late: [LinkLate.self]
        case .hard: [LinkHard.self]
        case .refresh: [RefreshTokens.self]
        case .check: [CheckInstall.self]
        case .rows: [SubmitRows.self]
        case .reset: [ResetInstall.self]
        case .deleteUser: [DeleteUser.self]
        case .disable: [DisableInstall.self]
        case .linkingSettings: [EditLinking.self]
        case .linkingApp: [MakeLinkingApp.self]
        case .linkingKey: [MakeLinkingKey.self]
        case .revokeLinkingKey: [RevokeLinkingKey.self]
        case .identifyUser: [IdentifyUser.self]
        case .merge: [MergePeople.self]
        case .undoMerge: [UndoMerge.self]
        case .split: [SplitPerson.self]
        case .undoSplit: [UndoSplit.self]
        case .undoCall: [UndoCall.self]
        case .attach: [AttachIdentity.self]
        case .detach: [DetachIdentity.self]
        case .releaseDevice: [ReleaseDevice.self]
        case .joinUsers: [SetStrategy.self]
        case .sameUsers: [JoinSameUserIDs.self]
        case .erase: [SettleRows.self, ErasePerson.self]
        case .strategy: [SetStrategy.self]
        case .makeKey, .revokeKey: [Administer.self]
        case .signingKey: [MakeSigningKey.self]
        case .retireSigningKey: [RetireSigningKey.self]
        case .webhook: [MakeWebhook.self]
        case .removeWebhook: [RemoveWebhook.self]
        case .config: [SetClientConfig.self]
        case .startImport: [StartImport.self]
        case .importRecords: [ImportRecords.self]
        case .finishImport: [FinishImport.self]
        case .undoImport: [UndoImport.self]
        case .changes, .person: []
        }
    }

    /// The acts that no call of a world makes, and the suites of tests that show them.
    package static let elsewhere: [(act: any Act.Type, suite: String)] = [
        // Each world begins with this act.
        (SetUp.self, "ProgramTests"),
        (ReleaseTombstone.self, "EraseTests"), (ReplayDelivery.self, "WebhookTests"),
        // The first call of a key makes this act.
        (NoteKeyUse.self, "AdminTests"), (NoteDeliveries.self, "WebhookTests"),
        (NoteUnproven.self, "SigningKeyTests"), (NoteEventOfAttachments.self, "AttachmentTests"),
        (NoteRestored.self, "CopiesTests"), (NoteRepaired.self, "RepairTests"),
        (MakeConsoleLink.self, "ConsoleSessionTests"),
        (OpenConsole.self, "ConsoleSessionTests"),
        (CloseConsole.self, "ConsoleSessionTests"), (NoteConsoleUse.self, "ConsoleSessionTests"),
        (KeepRuns.self, "RunTests"),
        (TakeStoreNews.self, "AppleNotificationTests"),
        (NoteChecks.self, "PurchaseCheckTests"), (UnfreezePurchase.self, "SharedReceiptTests"),
        (KeepStoreNotice.self, "NoticeTests"), (NoteStoreNotices.self, "NoticeTests"),
        (NoteMissedNews.self, "NoticeTests"), (ReplanChecks.self, "PurchaseCheckTests"),
        (RotateMasterKey.self, "MasterKeyTests"),
    ]

    /// Whether each success of the deed adds one call to the journal.
    var alwaysWrites: Bool {
        switch self {
        case .feedback, .code, .install, .merge, .split, .webhook, .signingKey, .linkingApp, .makeKey, .startImport:
            true
        default: false
        }
    }

    /// Whether the server remembers the answer under an idempotency key. Answers with a new secret are not remembered.
    var isRemembered: Bool {
        switch self {
        case .feedback, .merge, .split, .startImport: true
        default: false
        }
    }

    /// Whether the deed takes an earlier change back or removes something, so that simple models no longer hold.
    var takesBack: Bool {
        switch self {
        case .undoMerge, .undoSplit, .undoCall, .undoAlias, .undoImport, .split, .erase, .detach, .deleteUser,
            .undoTransfer:
            true
        default: false
        }
    }

    /// Whether the deed's calls write nothing.
    var onlyReads: Bool {
        switch self {
        case .search, .check, .changes, .person, .readFile: true
        default: false
        }
    }

    /// The deeds that make the deed possible, in their order.
    var needs: [Deed] {
        switch self {
        case .alias, .merge: [.identify, .identify, .identify]
        case .undoAlias: Deed.alias.needs + [.alias, .alias]
        case .undoMerge: Deed.merge.needs + [.merge, .merge]
        case .split, .detach: [.identify, .attach, .attach, .attach]
        case .undoSplit: Deed.split.needs + [.split, .split, .split]
        case .undoCall: [.claim, .identify, .link]
        case .ingest, .rows: [.install, .redeem]
        case .respond: [.questionnaire]
        case .reviewResponse: [.feedback, .questionnaire, .respond, .respond, .respond]
        case .issueStatus: [.feedback] + Array(repeating: .ingest, count: 6)
        case .mergeIssues: [.feedback] + Array(repeating: .ingest, count: 12)
        case .partIssues: Deed.mergeIssues.needs + [.mergeIssues, .mergeIssues]
        case .importEvents: [.ingest]
        case .storeFile: Array(repeating: .reserve, count: 6)
        case .readFile, .deleteFile: [.reserve, .storeFile, .reserve, .storeFile, .reserve, .storeFile]
        case .comment, .review, .deleteFeedback: [.feedback]
        case .retention: [.feedback, .ingest, .ingest]
        case .editComment: [.feedback, .comment, .comment]
        case .joinUsers: [.strategy]
        // Equal user ids are two people only as long as the rule is off.
        case .sameUsers:
            [
                .strategy, .identifyUser, .identifyUser, .identifyUser, .claim, .claim, .claim, .code, .redeem,
                .joinUsers,
            ]
        case .accessIdentity, .restore, .accessProperties, .attribution: [.accessUser]
        case .purchase, .grant: [.catalog, .catalog, .catalog, .accessUser]
        case .revoke: Deed.grant.needs + [.grant, .grant, .grant]
        case .transfer:
            Array(repeating: .accessUser, count: 3) + Array(repeating: .accessIdentity, count: 6)
                + [.catalog, .catalog, .purchase, .purchase, .purchase]
        case .undoTransfer: Deed.transfer.needs + [.transfer, .transfer, .transfer, .transfer]
        case .redeem: [.code, .code]
        case .person: [.identify]
        case .late, .hard, .refresh, .check: [.code, .code, .redeem, .redeem]
        case .link, .reset, .deleteUser, .disable: [.install, .code, .redeem]
        case .linkingKey: [.linkingApp]
        case .revokeLinkingKey: [.linkingApp, .linkingKey, .linkingKey]
        case .erase: [.identify, .identify, .identify, .identify, .identify, .identify]
        case .revokeKey: [.makeKey, .makeKey]
        case .retireSigningKey: [.signingKey, .signingKey]
        case .removeWebhook: [.webhook, .webhook]
        case .importRecords: [.startImport]
        case .finishImport: [.startImport, .importRecords, .importRecords]
        case .undoImport: [.startImport, .importRecords, .importRecords, .finishImport]
        default: []
        }
    }
}
