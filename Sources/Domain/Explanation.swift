/// The steps by which a search found its person.
package struct Explanation: Equatable, Sendable {
    /// One type of the hierarchy that the call named.
    package struct Step: Equatable, Sendable {
        package let type: IdentityType
        /// The people that hold the value and fit the call.
        package internal(set) var candidates: [PersonID] = []
        /// The people that hold the value and do not fit the call.
        package internal(set) var excluded: [Exclusion] = []
    }

    /// A person that does not fit the call, with the rule that excludes the person.
    package struct Exclusion: Equatable, Sendable {
        package let person: PersonID
        package let rule: Rule
    }

    /// The rule that excludes a person although the person holds a value of the call.
    package enum Rule: CaseIterable, Sendable {
        /// The person's group holds login identities, and the call does not name any of them.
        case login
        /// The person's group holds immutable identities, and the call does not name any of them.
        case immutable

        package var name: StaticString {
            switch self {
            case .login: "no_login_identity_matches"
            case .immutable: "no_immutable_identity_matches"
            }
        }
    }

    /// The reason for the result.
    package enum Ground: Equatable, Sendable {
        /// Only one person remained after this type.
        case identity(IdentityType)
        /// Several people remained, and one of them was the previous person of the device.
        case previousPerson
        /// Several people remained, and this person was seen last.
        case lastSeen
        /// No person fits the call.
        case nobody
        /// The device's last user, or its first.
        case lastKnownUser
        case firstKnownUser
        /// The strategy makes a new person for each call that names only devices.
        case alwaysNew
        /// Several known users hold the device, so the answer is the device's own anonymous person.
        case contestedDevice
        /// All identities belong to other people.
        case standIn
        /// The strategy makes a new person, for a logout or for the first call that names a known user.
        case strategy

        /// The kinds of grounds, with their names. A ground of the first kind has the name of its type.
        package enum Kind: String, CaseIterable, Sendable {
            case identity
            case previousPerson = "previous_mpid"
            case lastSeen = "last_seen"
            case nobody = "nobody_found"
            case lastKnownUser = "last_known_user"
            case firstKnownUser = "first_known_user"
            case alwaysNew = "always_new"
            case contestedDevice = "contested_device"
            case standIn = "stand_in"
            case strategy
        }

        package var kind: Kind {
            switch self {
            case .identity: .identity
            case .previousPerson: .previousPerson
            case .lastSeen: .lastSeen
            case .nobody: .nobody
            case .lastKnownUser: .lastKnownUser
            case .firstKnownUser: .firstKnownUser
            case .alwaysNew: .alwaysNew
            case .contestedDevice: .contestedDevice
            case .standIn: .standIn
            case .strategy: .strategy
            }
        }

        package var name: String {
            if case .identity(let type) = self { "\(type.name)" } else { kind.rawValue }
        }
    }

    /// A group that the call did not get although the group holds an identity of the call.
    package struct KeptApart: Equatable, Sendable {
        /// The rules that no search, no limit and no bound of groups has.
        package enum Rule: String, CaseIterable, Sendable {
            case knownIntoKnown = "known_into_known"
            case targetHasDevice = "target_has_device"
            case deviceIsNotUUID4 = "device_not_uuid4"
            /// The caller has no proof.
            case identityTokenRequired = "identity_token_required"
            /// An undo has parted the two groups.
            case parted
            /// The call has merged as many groups as one call merges.
            case mergesAtOnce = "merges_at_once"
        }

        /// The name of the rule, which is part of the API.
        package let rule: String
        package let root: PersonID
    }

    package internal(set) var steps: [Step] = []
    package internal(set) var keptApart: [KeptApart] = []
    package internal(set) var ground = Ground.nobody
    /// The values that the search ignored. Only refused values are in the journal.
    package internal(set) var setAside: [JournalEntry.Input] = []
}

/// An observer of a search. Most searches have no observer, and then the observation costs nothing.
protocol ResolutionObserver {
    mutating func setsAside(_ inputs: @autoclosure () -> [JournalEntry.Input])
    mutating func begins(_ type: IdentityType)
    mutating func finds(_ person: @autoclosure () -> PersonID)
    mutating func excludes(_ person: @autoclosure () -> PersonID, by rule: Explanation.Rule)
    mutating func demotes(_ identity: Identity, _ fate: JournalEntry.Input.Fate)
    mutating func decides(_ ground: Explanation.Ground)
}

struct NoObserver: ResolutionObserver {
    // A value without a size has no address, and the thread sanitizer reads the address of every value that is passed inout.
    private let size: UInt8 = 0

    @inline(__always) mutating func setsAside(_ inputs: @autoclosure () -> [JournalEntry.Input]) {}
    @inline(__always) mutating func begins(_ type: IdentityType) {}
    @inline(__always) mutating func finds(_ person: @autoclosure () -> PersonID) {}
    @inline(__always) mutating func excludes(_ person: @autoclosure () -> PersonID, by rule: Explanation.Rule) {}
    @inline(__always) mutating func demotes(_ identity: Identity, _ fate: JournalEntry.Input.Fate) {}
    @inline(__always) mutating func decides(_ ground: Explanation.Ground) {}
}

extension Explanation: ResolutionObserver {
    mutating func setsAside(_ inputs: @autoclosure () -> [JournalEntry.Input]) { setAside = inputs() }

    mutating func begins(_ type: IdentityType) { steps.append(Step(type: type)) }

    mutating func finds(_ person: @autoclosure () -> PersonID) {
        steps[steps.count - 1].candidates.append(person())
    }

    mutating func excludes(_ person: @autoclosure () -> PersonID, by rule: Rule) {
        steps[steps.count - 1].excluded.append(Exclusion(person: person(), rule: rule))
    }

    mutating func demotes(_ identity: Identity, _ fate: JournalEntry.Input.Fate) {
        setAside.append(JournalEntry.Input(identity, fate))
    }

    mutating func decides(_ ground: Ground) { self.ground = ground }

    /// The same explanation with other people. People that become nil are left out.
    func replacing(_ other: (PersonID) -> PersonID?) -> Explanation {
        var replaced = self
        for index in replaced.steps.indices {
            replaced.steps[index].candidates = steps[index].candidates.compactMap(other)
            replaced.steps[index].excluded = steps[index].excluded.compactMap { exclusion in
                other(exclusion.person).map { Exclusion(person: $0, rule: exclusion.rule) }
            }
        }
        replaced.keptApart = keptApart.map { KeptApart(rule: $0.rule, root: other($0.root) ?? PersonID(rawValue: 0)) }
        return replaced
    }

    /// The same explanation, in an order that does not depend on the store.
    var sorted: Explanation {
        var sorted = self
        for index in sorted.steps.indices {
            sorted.steps[index].candidates.sort()
            sorted.steps[index].excluded.sort { $0.person < $1.person }
        }
        return sorted
    }
}

/// The parts of an explanation that a caller asks for.
package struct Inspection: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The call changes nothing, and answers the result that the call would have.
    package static let readOnly = Inspection(rawValue: 1)
    /// The identities that matched.
    package static let matches = Inspection(rawValue: 2)
    /// The reason for the person in the answer.
    package static let explains = Inspection(rawValue: 4)
}
