package import Domain

/// The roles of callers without a key, by the kinds of their calls. A test demands that each kind is in one list, so that the audit
/// does not show the call of a device as a call of the operator.
package enum KeylessRoles {
    /// The kinds of calls that only an install of the Linking dialect, an app store, or the command line makes without a key.
    package static let kinds: [(role: String, kinds: Set<ActKind>)] = [
        (
            "device",
            [
                .makeInstall, .linkInstall, .redeemCode, .refreshTokens, .submitRows, .resetInstall,
            ]
        ),
        ("store", [.storeNews, .storeNotice]),
        (
            "operator",
            [
                .makeProject, .makeApp, .makeKey, .revoke, .rename, .changeSettings, .noteKeyUse, .alias, .undoAlias,
                .attachIdentity, .answer, .reviewResponse, .reserveAttachment, .storeAttachment, .deleteAttachment,
                .claim, .collect, .postComment, .editComment, .define, .sendFeedback, .deleteFeedback,
                .reviewFeedback, .setIssueStatus, .mergeIssues, .keepRuns, .setQuestionnaire, .setProperties,
                .setClientConfig, .closeConsole, .makeConsoleLink, .noteConsoleUse, .openConsole, .detachIdentity,
                .accessUser, .accessProperties, .editCatalog, .grantAccess, .revokeAccess, .accessIdentity,
                .movePurchase, .noteChecks, .missedNews, .recordAttribution, .recordPurchase, .replanChecks,
                .restorePurchases, .setStoreOptions, .undoTransfer, .unfreezePurchase, .releaseTombstone,
                .expireRows, .identify, .login, .logout, .startImport, .finishImport, .undoImport, .importRecords,
                .ingest, .linkingSettings, .issueCode, .merge, .modify, .repaired, .restored, .refuseUpload,
                .releaseDevice, .joinSameUserIDs, .setStrategy, .setUp, .rotateMasterKey, .makeSigningKey,
                .retireSigningKey, .settleRows, .split, .undoSplit, .undoCall, .undoSettings, .undoMerge,
                .makeWebhook, .removeWebhook, .noteDeliveries, .replayDelivery,
            ]
        ),
    ]

    /// The kinds of calls that both devices and the command line make without a key.
    package static let several: Set<ActKind> = [
        .erase, .changeInstall, .refused, .unproven, .leftOut, .sharedReceipt, .clockStep, .exercise,
    ]
}
