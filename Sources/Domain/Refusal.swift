/// The reason why the server did not do a call. The caller can act on it. Each refusal is declared beside the act that throws
/// it.
package struct Refusal: Error, Equatable, Sendable {
    /// The general kind of a refusal. A server maps each kind to a status.
    package enum Kind: Sendable {
        /// The call itself is wrong.
        case invalid
        /// The call is readable, but does not fit the stored facts.
        case unprocessable
        /// The caller has shown no valid key or token.
        case unauthorized
        /// The caller may not do this.
        case forbidden
        case notFound
        /// The call is correct, but conflicts with stored facts.
        case conflict
        case gone
        case tooLarge
        /// The same call may succeed later.
        case unavailable
    }

    /// A number that helps to understand the refusal.
    package struct Figure: Equatable, Sendable {
        package let name: String
        package let value: Int
    }

    package let kind: Kind
    /// A stable name for programs and for the journal.
    package let code: String
    /// A sentence for a person. A dialect may have its own words for a code.
    package let message: String
    /// Whether the journal keeps the refusal. It does not keep ordinary answers and malformed calls.
    package let isJournalled: Bool
    /// The person of the refused call, if only the decision found the person.
    package var about: PersonID?
    /// The thing at its limit; nil for refusals with another reason.
    package var full: Full?
    /// The problem of the caller's proof; nil for refusals with another reason.
    package var tokenFault: IdentityTokenFault?
    package var figures: [Figure] = []

    /// Whether the writer notes the refusal. A call that is refused before the writer has decided it leaves no trace.
    package var leavesTrace: Bool { isJournalled || full != nil }

    package init(_ kind: Kind, _ code: String, _ message: String, isJournalled: Bool = false) {
        self.kind = kind
        self.code = code
        self.message = message
        self.isJournalled = isJournalled
    }

    /// The same refusal with a person.
    func about(_ person: PersonID?) -> Refusal {
        var refusal = self
        refusal.about = person
        return refusal
    }
}

// MARK: - Refusals of several acts

extension Refusal {
    package static let noSuchPerson = Refusal(
        .notFound, "not_found", "There is no person with this id.", isJournalled: true)
    /// The act was not done, because another act of its request was refused.
    package static let otherActRefused = Refusal(
        .conflict, "other_act_refused", "Another part of the request was refused, so no part was done.")
    package static let noSuchIdentity = Refusal(.notFound, "not_found", "The person holds no such identity.")

    /// The person or the group is at its limit.
    package static func full(_ full: Full, about person: PersonID) -> Refusal {
        let message =
            switch full {
            case .person:
                "person_full: the person holds as many identities as a person may hold. Detach some, or raise person_limits."
            case .group:
                "group_full: the group has as many members as a group may have. Undo some merges, or raise group_limits."
            case .receipt:
                "shared_receipt: more installs or identities have proven a purchase in 30 days than is usual."
            }
        var refusal = Refusal(.conflict, full.rawValue, message, isJournalled: true).about(person)
        refusal.full = full
        return refusal
    }
}

/// The answer that the journal keeps for a refused call: the code.
package struct Refused: Answer {
    package let refusal: Refusal
    package init(_ refusal: Refusal) { self.refusal = refusal }

    package static let tags: [UInt8] = [ActKind.refused.rawValue]

    package func pack(into packer: inout Packer) { packer.add(refusal.code) }

    /// A code alone is not a refusal. The server decides a refused call again when a client repeats it.
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) { return nil }
}

extension ActKind {
    /// A call of any kind that was refused.
    package static let refused = ActKind(10, "refused", undo: .never(.nothingChanged))
}
