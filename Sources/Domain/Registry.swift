/// The list of all acts. A new act adds a line here, and changes no other shared list.
package enum Registry {
    package static let acts: [any Act.Type] = [
        // Finding people.
        Identify.self, IdentifyUser.self, Search.self, Modify.self, Ingest.self, RefuseUpload.self, MakeAlias.self,
        UndoAlias.self,
        // Calls of administrators.
        MergePeople.self, UndoMerge.self, JoinSameUserIDs.self, SplitPerson.self, UndoSplit.self, ErasePerson.self,
        SettleRows.self, ReleaseTombstone.self,
        AttachIdentity.self, DetachIdentity.self, ReleaseDevice.self, SetUp.self, SetStrategy.self,
        SetClientConfig.self,
        Administer.self, UndoCall.self,
        MakeSigningKey.self, RetireSigningKey.self, MakeWebhook.self, RemoveWebhook.self, ReplayDelivery.self,
        // Imports.
        StartImport.self, ImportRecords.self, FinishImport.self, UndoImport.self,
        // Notes of the server.
        NoteKeyUse.self, NoteDeliveries.self, NoteUnproven.self, NoteEventOfAttachments.self,
        NoteRestored.self, NoteRepaired.self,
        // The console.
        MakeConsoleLink.self, OpenConsole.self, CloseConsole.self, NoteConsoleUse.self,
        // Claim.
        Claim.self, Collect.self, SetProperties.self, Define.self, SendFeedback.self, DeleteFeedback.self,
        SetQuestionnaire.self, AnswerQuestionnaire.self, ReserveAttachment.self, StoreAttachment.self,
        DeleteAttachment.self, PostComment.self, EditComment.self, ReviewFeedback.self, ReviewResponse.self,
        SetIssueStatus.self, MergeIssues.self, KeepRuns.self, ExpireRows.self,
        // Access.
        MakeAccessUser.self, LinkAccessIdentity.self, GrantAccess.self, RevokeAccess.self, RecordPurchase.self,
        RestorePurchases.self, SetAccessProperties.self, RecordAttribution.self, TakeStoreNews.self, NoteChecks.self,
        KeepStoreNotice.self, NoteStoreNotices.self, ReplanChecks.self, NoteMissedNews.self,
        UnfreezePurchase.self,
        UndoTransfer.self, MovePurchase.self,
        CatalogEdit.self, SetStoreOptions.self, RotateMasterKey.self,
        // Installs.
        MakeInstall.self, LinkInstall.self, LinkHard.self, IssueCode.self, RedeemCode.self, LinkLate.self,
        RefreshTokens.self, CheckInstall.self, SubmitRows.self, ResetInstall.self, DeleteUser.self,
        DisableInstall.self, EditLinking.self, MakeLinkingApp.self, MakeLinkingKey.self, RevokeLinkingKey.self,
    ]

    /// All kinds of calls in the journal, including entries that have no act of their own.
    package static let kinds: [UInt8: ActKind] = {
        var kinds: [UInt8: ActKind] = [:]
        for kind in acts.flatMap({ $0.kinds }) + [.refused, .leftOut, .sharedReceipt, .clockStep, .exercise] {
            precondition(kinds.updateValue(kind, forKey: kind.rawValue).map { $0.name == kind.name } ?? true)
        }
        return kinds
    }()

    /// The acts that the journal keeps, by their numbers.
    static let keptActs: [UInt8: any KeptAct.Type] = {
        var types: [UInt8: any KeptAct.Type] = [:]
        for case let act as any KeptAct.Type in acts {
            precondition(types.updateValue(act, forKey: act.keptNumber) == nil, "Two kept acts have one number.")
        }
        return types
    }()

    /// The types of answers, by their tags.
    static let answers: [UInt8: any Answer.Type] = {
        func type<A: Act>(of act: A.Type) -> any Answer.Type { A.Answer.self }
        var types: [UInt8: any Answer.Type] = [:]
        for act in acts {
            let answer = type(of: act)
            for tag in answer.tags {
                precondition(types.updateValue(answer, forKey: tag).map { $0 == answer } ?? true)
            }
        }
        return types
    }()
}
