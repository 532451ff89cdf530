/// Why a call was refused: the caller can do something about it. Each refusal is declared beside the act that throws it.
package struct Refusal: Error, Equatable, Sendable {
    /// What a caller can do about it, in general. A server maps each kind to a status.
    package enum Kind: Sendable {
        /// What the call says is wrong.
        case invalid
        /// What the call says can be read, and does not fit what is stored.
        case unprocessable
        /// The caller has shown nothing that holds.
        case unauthorized
        /// The caller may not do this.
        case forbidden
        case notFound
        /// The call was right, and something else stands in its way.
        case conflict
        case gone
        case tooLarge
        /// It may work later.
        case unavailable
    }

    /// A number that helps to understand the refusal.
    package struct Figure: Equatable, Sendable {
        package let name: String
        package let value: Int
    }

    package let kind: Kind
    /// A stable name, for programs and for the journal.
    package let code: String
    /// A sentence for a person. A dialect may have words of its own for a code.
    package let message: String
    /// Whether the journal keeps it: not where the answer is an ordinary one, or the mistake is in the sending.
    package let isJournalled: Bool
    /// The person that the refused call was about, where only the decision has found that out.
    package var about: PersonID?
    /// What had no room; nil where that was not the reason.
    package var full: Full?
    /// What is wrong with the caller's proof; nil where that was not the reason.
    package var tokenFault: IdentityTokenFault?
    package var figures: [Figure] = []

    package init(_ kind: Kind, _ code: String, _ message: String, isJournalled: Bool = false) {
        self.kind = kind
        self.code = code
        self.message = message
        self.isJournalled = isJournalled
    }

    /// The same refusal, about a person.
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
    package static let noSuchIdentity = Refusal(.notFound, "not_found", "The person holds no such identity.")

    /// The person or the group is as large as it may become.
    package static func full(_ full: Full, about person: PersonID) -> Refusal {
        let message =
            switch full {
            case .person:
                "person_full: the person holds as many identities as a person may. Detach some, or raise person_limits."
            case .group: "group_full: as many people are one as may be. Undo some merges, or raise group_limits."
            }
        var refusal = Refusal(.conflict, full.rawValue, message, isJournalled: true).about(person)
        refusal.full = full
        return refusal
    }
}

/// The answer that the journal keeps of a refused call: its code.
package struct Refused: Answer {
    package let refusal: Refusal
    package init(_ refusal: Refusal) { self.refusal = refusal }

    package static let tags: [UInt8] = [ActKind.refused.rawValue]

    package func pack(into packer: inout Packer) { packer.add(refusal.code) }

    /// A code alone is not a refusal: a refused call is decided again when it is repeated.
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) { return nil }
}

extension ActKind {
    /// A call of any kind that was refused.
    package static let refused = ActKind(10, "refused")
}
