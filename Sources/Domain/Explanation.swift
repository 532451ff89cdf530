/// How a look-up came to its person, for whoever asks why.
package struct Explanation: Equatable, Sendable {
    /// One type of the hierarchy that the call named.
    package struct Step: Equatable, Sendable {
        package let type: IdentityType
        /// Who holds the value and could be meant.
        package internal(set) var candidates: [PersonID] = []
        /// Who holds the value and could not.
        package internal(set) var excluded: [Exclusion] = []
    }

    package struct Exclusion: Equatable, Sendable {
        package let person: PersonID
        package let rule: Rule
    }

    /// Why somebody who holds a value is not meant by it.
    package enum Rule: Equatable, Sendable {
        /// The person holds identities that log in, and the call names none of these.
        case login
        /// The person holds identities that never change, and the call names none of these.
        case immutable

        package var name: StaticString {
            switch self {
            case .login: "no_login_identity_matches"
            case .immutable: "no_immutable_identity_matches"
            }
        }
    }

    /// What decided.
    package enum Ground: Equatable, Sendable {
        /// Only one person was left after this type.
        case identity(IdentityType)
        /// Several were left, and the device was one of them before.
        case previousPerson
        /// Several were left, and this one was seen last.
        case lastSeen
        /// Nobody could be meant.
        case nobody
        /// The call names a user for the first time, or a user who goes, and the strategy makes a person for each.
        case strategy

        package var name: String {
            switch self {
            case .identity(let type): "\(type.name)"
            case .previousPerson: "previous_mpid"
            case .lastSeen: "last_seen"
            case .nobody: "nobody_found"
            case .strategy: "strategy"
            }
        }
    }

    package internal(set) var steps: [Step] = []
    package internal(set) var ground = Ground.nobody
    /// Values that were neither looked up nor kept.
    package internal(set) var setAside: [JournalEntry.Input] = []
}

/// Follows a look-up. Most are followed by nobody, at no cost.
protocol ResolutionObserver {
    mutating func setsAside(_ inputs: @autoclosure () -> [JournalEntry.Input])
    mutating func begins(_ type: IdentityType)
    mutating func finds(_ person: @autoclosure () -> PersonID)
    mutating func excludes(_ person: @autoclosure () -> PersonID, by rule: Explanation.Rule)
    mutating func decides(_ ground: Explanation.Ground)
}

struct NoObserver: ResolutionObserver {
    @inline(__always) mutating func setsAside(_ inputs: @autoclosure () -> [JournalEntry.Input]) {}
    @inline(__always) mutating func begins(_ type: IdentityType) {}
    @inline(__always) mutating func finds(_ person: @autoclosure () -> PersonID) {}
    @inline(__always) mutating func excludes(_ person: @autoclosure () -> PersonID, by rule: Explanation.Rule) {}
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

    mutating func decides(_ ground: Ground) { self.ground = ground }

    /// The same, in an order that does not depend on the store.
    var sorted: Explanation {
        var sorted = self
        for index in sorted.steps.indices {
            sorted.steps[index].candidates.sort()
            sorted.steps[index].excluded.sort { $0.person < $1.person }
        }
        return sorted
    }
}

/// What a caller wants beside the answer.
package struct Inspection: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Nothing is to change: the caller only wants to know what would.
    package static let readOnly = Inspection(rawValue: 1)
    /// The identities that the look-up went by.
    package static let matches = Inspection(rawValue: 2)
    /// Why it is this person.
    package static let explains = Inspection(rawValue: 4)
}
