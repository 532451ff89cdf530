/// The rule by which calls of a kind can be taken back. Each kind declares its rule beside its act.
package enum UndoRule: Equatable, Sendable {
    /// The undo ends the facts that the call began, and brings back the facts that the call ended. It needs a scope: the one of
    /// the administrator if only an administrator can make the call or set what it sets.
    case facts(needs: Scope)
    /// The call is an undo. Its own undo needs the scope that it needed itself.
    case asUndone
    /// The call cannot be taken back.
    case never(Irrevocable)
}

/// The reason why a call cannot be taken back. The raw values are codes of the API.
package enum Irrevocable: String, CaseIterable, Sendable {
    case erased
    case rowsStay = "rows_stay"
    case storeVouches = "store_vouches"
    case delivered
    case noteOfServer = "note_of_server"
    case revokeInstead = "revoke_instead"
    case secretGone = "secret_gone"
    case callAgain = "call_again"
    case undoSplit = "undo_split"
    case splitAgain = "split_again"
    case partOfImport = "part_of_import"
    case nothingChanged = "nothing_changed"
    case historyGone = "history_gone"

    /// The sentence for a person.
    package var message: String {
        switch self {
        case .erased: "An erasure removed facts of this call for good."
        case .rowsStay: "The call only brought rows, and an undo removes no row. Erase the person to remove them."
        case .storeVouches: "A store vouches for the purchase of this call. Move the purchase instead."
        case .delivered: "A webhook has delivered the change already."
        case .noteOfServer: "The entry is a note of the server, and no call of a client."
        case .revokeInstead: "The call gave out a secret. Revoke the secret, or remove the thing, instead."
        case .secretGone: "The call ended a secret for good. Make a new one instead."
        case .callAgain: "Make the same call again with the former value instead."
        case .undoSplit: "The call split a person. Undo the split by its id, s_ and a number, instead."
        case .splitAgain: "The call gave back what a split had taken. Split the person again instead."
        case .partOfImport:
            "The call is part of an import. onym import undo, or POST /onym/v1/imports/{id}/undo, takes the import back."
        case .historyGone:
            "The call is older than retention_days_history, so the values from before it are gone."
        case .nothingChanged: "The call changed nothing that an undo can take back."
        }
    }
}

extension Refusal {
    /// The call cannot be taken back.
    package static func cannotUndo(_ reason: Irrevocable) -> Refusal {
        Refusal(.conflict, reason.rawValue, reason.message)
    }

    /// A split is taken back by its id.
    static func undoSplit(_ split: SplitID) -> Refusal {
        let id = split.text
        return Refusal(
            .conflict, Irrevocable.undoSplit.rawValue,
            "The call made the split \(id). onym undo \(id), or POST /onym/v1/splits/\(id)/undo, takes it back.")
    }

    package static let noSuchCall = Refusal(.notFound, "not_found", "The journal has no call with this number.")
    package static let callAlreadyUndone = Refusal(.conflict, "already_undone", "The call was taken back already.")
    package static let builtUpon = Refusal(
        .conflict, "built_upon",
        "A later call changed a fact of this call. Take the later call back first, or let this call do that (cascade).")

    /// Later calls changed facts of the call.
    package static func builtUpon(_ above: [JournalSequence]) -> Refusal {
        if above.isEmpty { return .builtUpon }
        let calls = above.map { "\($0.rawValue)" }.joined(separator: ", ")
        return Refusal(
            .conflict, builtUpon.code,
            "Later calls changed facts of this call: \(calls). Take them back first, or let this call do that (cascade)."
        )
    }
    package static let changedMeanwhile = Refusal(
        .conflict, "changed_meanwhile", "One of the people changed after the dry run. Make the dry run again.")
}
