/// The reason why a token does not prove an identity. The names are part of the API.
package enum IdentityTokenFault: String, CaseIterable, Sendable {
    /// The call has no token.
    case missing
    case malformed
    /// The project has no valid key with the token's key id, or the token names no key and the project has several keys.
    case unknownKey = "unknown_key"
    /// The token names another algorithm than its key.
    case wrongAlgorithm = "wrong_algorithm"
    case wrongSignature = "wrong_signature"
    case expired
    /// The token is valid for longer than a token may be.
    case tooLong = "too_long"
    /// The token is from the future.
    case notYet = "not_yet"
    /// The token is for another audience or another dialect.
    case wrongAudience = "wrong_audience"
    /// The token is valid for another user or another type of identity.
    case otherIdentity = "other_identity"
}

/// The identities for which a client may speak, in a project that asks for proof (docs/native.md, Signed identities).
///
/// Every user of an app has its public key. With this key alone a caller may speak for unknown people only. For a known user
/// the caller needs a token that the customer's back end has signed. Keys of servers need no token, and their calls have no
/// proof.
package struct IdentityProof: Equatable, Sendable {
    package let dialect: Dialect
    /// The treatment of a missing proof in the caller's dialect.
    package let mode: Guards.Signing
    /// The identities for which the caller may speak.
    package let proven: [IdentityKey]
    /// The reason why other identities are not proven.
    package let fault: IdentityTokenFault

    package init(dialect: Dialect, mode: Guards.Signing, proven: [IdentityKey], fault: IdentityTokenFault) {
        self.dialect = dialect
        self.mode = mode
        self.proven = proven
        self.fault = fault
    }

    /// Whether the caller may speak for an identity.
    package func proves(_ identity: IdentityKey) -> Bool { proven.contains(identity) }
}

extension Strategy {
    /// The types of identity that name a known user in a dialect.
    package func knownTypes(in dialect: Dialect) -> IdentityTypeSet {
        switch dialect {
        case .idsync, .onym:
            var types = login
            types.insert(.customerID)
            return types
        case .claim: return [.claimUserID]
        case .entitlements: return [.accessIdentity, .sandboxIdentity]
        case .linking, .native: return []
        }
    }

    /// Whether an identity needs a token. A blocked value belongs to no person, so it needs no token.
    package func isKnown(_ identity: Identity, in dialect: Dialect) -> Bool {
        knownTypes(in: dialect).contains(identity.type)
            && !(identity.type.dialect == .idsync && blockedValues.contains(identity.value, identity.type))
    }
}

extension DecisionFacts {
    /// One holder of an identity, the same holder at each call.
    fileprivate func firstHolder(of identity: Identity) -> PersonID? {
        var first: PersonID?
        forEachHolder(of: identity.key) { first = min(first ?? id(of: $0), id(of: $0)) }
        return first
    }
}

extension IdentityProof {
    /// The refusal of a call that names unproven identities; nil if the call is allowed.
    func refusal<V: DecisionFacts>(of act: any Act, in project: ProjectID, _ view: V) -> Refusal? {
        let strategy = view.strategy(of: project)
        let subjects = act.subjects
        for identity in subjects.spokenFor
        where strategy.isKnown(identity, in: dialect) && !proves(identity.key) {
            return .unproven(fault, about: view.firstHolder(of: identity))
        }
        var people = subjects.people
        if let person = subjects.about { people.append(person) }
        if let user = subjects.signedIn.flatMap({ view.holder(of: $0) }) { people.append(user) }
        if let refusal = refusal(for: people, in: project, view) { return refusal }
        // A caller that may speak for one member may read the facts of the whole group.
        return subjects.readsGroupOf.flatMap { view.holder(of: $0) }
            .flatMap { refusal(reading: view.group(of: $0), strategy, view) }
    }

    /// The refusal of a call that reads the facts of a group; nil if the call is allowed.
    private func refusal<V: DecisionFacts>(reading group: Group, _ strategy: Strategy, _ view: V) -> Refusal? {
        let types = strategy.knownTypes(in: dialect)
        guard view.totals(of: group).identities.contains(where: { $0.value > 0 && types.contains($0.key) }) else {
            return nil
        }
        for identity in proven {
            var isProven = false
            view.forEachHolder(of: identity) { holder in
                guard !isProven, view.group(of: view.id(of: holder)).root == group.root else { return }
                isProven = view.type(of: identity, heldBy: holder).map(types.contains) ?? false
            }
            if isProven { return nil }
        }
        return .unproven(fault, about: group.root)
    }

    /// The refusal of a decision with unproven people; nil if the decision is allowed. Only a caller with a proof may find,
    /// name or change a known user.
    func refusal<V: DecisionFacts>(of decision: Decision<Reply>, in project: ProjectID, _ view: V) -> Refusal? {
        var people = decision.answer.answer.found
        for change in decision.outcome?.changes ?? [] {
            switch change {
            case .linked(let person, _), .unlinked(let person, _, _): people.append(person)
            case .merged(let merge): people += [merge.from, merge.into]
            case .personMade, .rowAdded, .rowSuperseded, .documentPut, .mergeUndone, .personErased, .projectMade,
                .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        return refusal(for: people, in: project, view)
    }

    /// The refusal of a call that concerns some people; nil if the call is allowed.
    private func refusal<V: DecisionFacts>(for people: [PersonID], in project: ProjectID, _ view: V) -> Refusal? {
        let types = view.strategy(of: project).knownTypes(in: dialect)
        for person in people {
            guard let place = view.person(person, in: project) else { continue }
            var (isKnown, isProven) = (false, false)
            view.forEachIdentity(of: place) { type, key in
                guard types.contains(type) else { return true }
                isKnown = true
                isProven = proves(key)
                return !isProven
            }
            if isKnown, !isProven { return .unproven(fault, about: person) }
        }
        return nil
    }
}

extension Snapshot {
    /// Whether a dialect has known users in a group, and the caller may not speak for any of these users.
    package func isUnproven(
        _ group: Group, in project: ProjectID, _ strategy: Strategy, _ proof: IdentityProof
    ) throws(StoreFault) -> Bool {
        let types = strategy.knownTypes(in: proof.dialect)
        guard try totals(of: group).identities.contains(where: { $0.value > 0 && types.contains($0.key) }) else {
            return false
        }
        for identity in proof.proven {
            for holder in holders(of: identity) where self.group(of: holder).root == group.root {
                let held = try identities(of: holder)
                let isProven = held.contains {
                    types.contains($0.type)
                        && IdentityKey($0.type, $0.value.utf8.span, in: project, hash: hash) == identity
                }
                if isProven { return false }
            }
        }
        return true
    }
}

/// A call of the server itself that notes an answered question about a known user without a token.
package struct NoteUnproven: Act {
    package let fault: IdentityTokenFault
    package let person: PersonID?
    package let dialect: Dialect

    package init(_ fault: IdentityTokenFault, about person: PersonID?, by dialect: Dialect) {
        self.fault = fault
        self.person = person
        self.dialect = dialect
    }

    package static var kinds: [ActKind] { [.unproven] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Throws `unproven` always, because the journal keeps the refusal as the note.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        throw .unproven(fault, about: person)
    }
}

extension Refusal {
    /// The call names or finds a known user without a valid token.
    package static func unproven(_ fault: IdentityTokenFault, about person: PersonID?) -> Refusal {
        var refusal = Refusal(
            .forbidden, "identity_token_\(fault.rawValue)",
            "A client key may not speak for a known user without a token: send Onym-Identity-Token with a JWT that your "
                + "back end has signed for the user. \(fault.message)", isJournalled: true
        ).about(person)
        refusal.tokenFault = fault
        return refusal
    }
}

extension IdentityTokenFault {
    /// One sentence for a person.
    package var message: String {
        switch self {
        case .missing: "The call has none."
        case .malformed: "The token is not a JWT with sub and exp, or has more than 8192 bytes."
        case .unknownKey: "The token's kid is not a signing key of the project, or the key was retired."
        case .wrongAlgorithm: "The token's alg is not the algorithm of its key."
        case .wrongSignature: "The token's signature is invalid."
        case .expired: "The token has expired (exp)."
        case .tooLong: "The token expires more than 24 hours from now (exp)."
        case .notYet: "The token is from the future (nbf, iat)."
        case .wrongAudience: "The token is for another audience (aud)."
        case .otherIdentity: "The token is for another user (sub), or another type of identity (type)."
        }
    }
}

extension ActKind {
    /// An accepted call that had no token for a known user.
    package static let unproven = ActKind(90, "unproven", undo: .never(.noteOfServer))
}
