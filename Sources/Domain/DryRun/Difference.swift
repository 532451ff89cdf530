/// In what other rules would have come out otherwise, with a few samples of each kind.
package struct Difference: Equatable, Sendable {
    /// A call that would have come to another person.
    package struct Elsewhere: Equatable, Sendable {
        package let answered: Answered
        /// Whom it came to.
        package let person: PersonID?
        /// The call that would have made the one whom it would have come to: itself, where it would have made somebody.
        package let instead: JournalSequence?

        init(_ call: RecordedCall, madeBy: JournalSequence?) {
            answered = Answered(call)
            person = call.person
            instead = madeBy
        }
    }

    /// A call that would have been answered otherwise.
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

    /// What another policy of who may be active would have come to.
    package struct Installs: Equatable, Sendable {
        package struct Call: Equatable, Sendable {
            package let answered: Answered
            package let install: InstallID
            package let now: Domain.Install.State
            /// Nil where the call would have been refused.
            package let then: Domain.Install.State?

            init(_ answered: Answered, install: InstallID, now: Domain.Install.State, then: Domain.Install.State?) {
                self.answered = answered
                (self.install, self.now, self.then) = (install, now, then)
            }
        }

        /// An install that would stand otherwise in the end.
        package struct Install: Equatable, Sendable {
            package let install: InstallID
            package let person: PersonID
            package let device: DeviceClass
            package let now: Domain.Install.State
            package let then: Domain.Install.State
        }

        package internal(set) var activeNow = 0
        package internal(set) var activeThen = 0
        /// Installs that would stand otherwise in the end.
        package internal(set) var otherwise = 0
        /// How often an install has made way for another, for good.
        package internal(set) var displacedNow = 0
        package internal(set) var displacedThen = 0
        /// Calls that would have been answered otherwise.
        package internal(set) var calls = 0
        /// Calls of which the journal does not keep enough: of installs that were reset before it kept which.
        package internal(set) var unknown = 0
        package internal(set) var samples: [Install] = []
        package internal(set) var samplesOfCalls: [Call] = []
    }

    /// What other ways of restoring would have come to.
    package struct Access: Equatable, Sendable {
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

        /// Somebody who would have access that they have not, or have it no longer.
        package struct Holder: Equatable, Sendable {
            package let person: PersonID
            package let product: String
            package let entitlements: [String]
            package let isGained: Bool
        }

        package internal(set) var restores = 0
        /// Calls that would have been answered otherwise.
        package internal(set) var calls = 0
        package internal(set) var gaining = 0
        package internal(set) var losing = 0
        /// Calls of which the journal does not keep enough: those from before it kept who called, and about what.
        package internal(set) var unknown = 0
        package internal(set) var samples: [Holder] = []
        package internal(set) var samplesOfCalls: [Call] = []
    }

    /// A person that would have been several.
    package struct Split: Equatable, Sendable {
        package let person: PersonID
        /// The calls that would have made them.
        package let madeBy: [JournalSequence]
    }

    /// As many samples of each kind are kept.
    package static let samples = 20

    package let calls: Int
    package let elsewhere: Int
    /// Calls that would have been refused.
    package let refused: Int
    package internal(set) var peopleNow = 0
    package internal(set) var peopleThen = 0
    /// People that would have been several.
    package internal(set) var split = 0
    /// People that several would have been.
    package internal(set) var joined = 0
    /// People with access who would have been several, or one with others: it would have been read under another person.
    package internal(set) var accessMoved = 0

    package internal(set) var installs = Installs()
    package internal(set) var access = Access()
    /// Calls of clients that have named a known user, where they would have had to show a token: whether they could have is
    /// nowhere kept.
    package internal(set) var unproven = 0

    package internal(set) var samplesElsewhere: [Elsewhere] = []
    package internal(set) var samplesSplit: [Split] = []
    /// Those that would have been one.
    package internal(set) var samplesJoined: [[PersonID]] = []
    package internal(set) var samplesAccess: [PersonID] = []

    init(calls: Int, elsewhere: Int, refused: Int) {
        self.calls = calls
        self.elsewhere = elsewhere
        self.refused = refused
    }
}
