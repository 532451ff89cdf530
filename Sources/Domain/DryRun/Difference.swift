/// The differences that other rules would make, with a few samples of each kind.
package struct Difference: Equatable, Sendable {
    /// A call that would find another person.
    package struct Elsewhere: Equatable, Sendable {
        package let answered: Answered
        /// The person that the call found.
        package let person: PersonID?
        /// The call that would make the other person. It is this call if the call would make a person.
        package let instead: JournalSequence?

        init(_ call: RecordedCall, madeBy: JournalSequence?) {
            answered = Answered(call)
            person = call.person
            instead = madeBy
        }
    }

    /// A call with a different answer.
    package struct Answered: Equatable, Sendable {
        package let call: JournalSequence
        package let at: Instant
        package let kind: ActKind
        package let requestID: String

        init(_ call: RecordedCall) {
            self.call = call.sequence
            at = call.at
            kind = call.kind
            requestID = call.requestID
        }
    }

    /// The differences of another activation policy.
    package struct Installs: Equatable, Sendable {
        /// A call with its answers about installs, before and in the dry run.
        package struct Call: Equatable, Sendable {
            package let answered: Answered
            package let install: InstallID
            package let now: Domain.Install.State
            /// Nil if the call would be refused.
            package let then: Domain.Install.State?

            init(_ answered: Answered, install: InstallID, now: Domain.Install.State, then: Domain.Install.State?) {
                self.answered = answered
                (self.install, self.now, self.then) = (install, now, then)
            }
        }

        /// An install with a different final state.
        package struct Install: Equatable, Sendable {
            package let install: InstallID
            package let person: PersonID
            package let device: DeviceClass
            package let now: Domain.Install.State
            package let then: Domain.Install.State
        }

        package internal(set) var activeNow = 0
        package internal(set) var activeThen = 0
        /// The number of installs with a different final state.
        package internal(set) var otherwise = 0
        /// The number of times that an install replaced another install for good.
        package internal(set) var displacedNow = 0
        package internal(set) var displacedThen = 0
        /// The number of calls with a different answer.
        package internal(set) var calls = 0
        /// The number of calls without enough data in the journal. They are resets from before the journal kept the install.
        package internal(set) var unknown = 0
        package internal(set) var samples: [Install] = []
        package internal(set) var samplesOfCalls: [Call] = []
    }

    /// The differences of other restore strategies.
    package struct Access: Equatable, Sendable {
        /// A call with its answers about access, before and in the dry run.
        package struct Call: Equatable, Sendable {
            package let answered: Answered
            package let person: PersonID?
            package let now: String
            package let then: String

            init(_ answered: Answered, person: PersonID?, now: String, then: String) {
                self.answered = answered
                (self.person, self.now, self.then) = (person, now, then)
            }
        }

        /// A person that would gain or lose access.
        package struct Holder: Equatable, Sendable {
            package let person: PersonID
            package let product: String
            package let entitlements: [String]
            package let isGained: Bool
        }

        package internal(set) var restores = 0
        /// The number of calls with a different answer.
        package internal(set) var calls = 0
        package internal(set) var gaining = 0
        package internal(set) var losing = 0
        /// The number of calls without enough data in the journal. They are from before the journal kept the caller and the
        /// purchase.
        package internal(set) var unknown = 0
        package internal(set) var samples: [Holder] = []
        package internal(set) var samplesOfCalls: [Call] = []
    }

    /// A person that would be several people.
    package struct Split: Equatable, Sendable {
        package let person: PersonID
        /// The calls that would make these people.
        package let madeBy: [JournalSequence]
    }

    /// What the journal and the call log do not have.
    package struct Unknown: Equatable, Sendable {
        /// The calls of the journal from before the call log. Calls of that time that changed nothing are lost.
        package var beforeLog = 0
        /// The seconds before an end of the server for which the log has no calls.
        package var gapSeconds = 0
        /// The calls with values that were blocked, where the tried rules block other values.
        package var blockedValues = 0
        /// The calls whose values the log does not have, where the tried rules need the values.
        package var hashOnly = 0
        /// The calls that this version cannot read.
        package var unreadable = 0
        /// The calls of several servers whose order the log does not have, although they name the same identity or person.
        package var unordered = 0
        /// The calls that the log left out because they repeat others, where the tried rules make something of a repetition.
        package var repeats = 0

        package init() {}
    }

    /// A call that a rule of the tried strategy decided in a way of its own, with the explanation under these rules.
    package struct Ruled: Equatable, Sendable {
        /// The call of the journal; nil for a call of the log.
        package let answered: Answered?
        package let at: Instant
        package let kind: ActKind
        /// The name of the rule, or the code of the refusal.
        package let rule: String
        package let explanation: Explanation?
    }

    /// What the rules of the tried strategy did, by the name of the rule.
    package struct Rules: Equatable, Sendable {
        /// The merges by rules.
        package internal(set) var merged: [String: Int] = [:]
        /// The groups that calls did not get although they hold an identity of the call.
        package internal(set) var keptApart: [String: Int] = [:]
        /// The refused calls, by code.
        package internal(set) var refused: [String: Int] = [:]
        /// The people that calls made as stand-ins, and as neutral people of devices.
        package internal(set) var standIns = 0
        package internal(set) var neutral = 0
        package internal(set) var samplesMerged: [Ruled] = []
        package internal(set) var samplesKeptApart: [Ruled] = []
        package internal(set) var samplesRefused: [Ruled] = []
        package internal(set) var samplesStandIns: [Ruled] = []
        package internal(set) var samplesNeutral: [Ruled] = []
    }

    /// The limit of samples of each kind.
    package static let samples = 20

    package let calls: Int
    package let elsewhere: Int
    /// The number of calls that would be refused.
    package let refused: Int
    package internal(set) var peopleNow = 0
    package internal(set) var peopleThen = 0
    /// The number of people that would be several people.
    package internal(set) var split = 0
    /// The number of people that several people would become.
    package internal(set) var joined = 0
    /// The number of people with access that would be split or merged, so that reads show the access with another person.
    package internal(set) var accessMoved = 0

    package internal(set) var rules = Rules()
    /// The erased people, and the number of their calls, which neither side has.
    package internal(set) var erasedPeople = 0
    package internal(set) var erasedCalls = 0

    package internal(set) var unknown = Unknown()
    /// Whether the people are those of a fresh store that was given the same calls under the tried rules.
    package var isExact: Bool { unknown == Unknown() }

    package internal(set) var installs = Installs()
    package internal(set) var access = Access()
    /// The number of client calls that named a known user and would need a token. The journal does not say whether the
    /// clients had a token.
    package internal(set) var unproven = 0

    package internal(set) var samplesElsewhere: [Elsewhere] = []
    package internal(set) var samplesSplit: [Split] = []
    /// Samples of people that would be one person.
    package internal(set) var samplesJoined: [[PersonID]] = []
    package internal(set) var samplesAccess: [PersonID] = []

    init(calls: Int, elsewhere: Int, refused: Int) {
        self.calls = calls
        self.elsewhere = elsewhere
        self.refused = refused
    }
}
