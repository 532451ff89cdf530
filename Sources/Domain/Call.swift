/// The caller of a call, and the marks that distinguish the call from others.
package struct Call: Sendable {
    package let project: ProjectID
    /// The key of the caller; nil for the command line and for the server itself.
    package let key: KeyID?
    /// The key under which the server recognizes a repetition of the call.
    package let replayKey: ReplayKey?
    /// The proof of the identities that the caller may speak for; nil if the project asks for no proof.
    package var proof: IdentityProof?
    /// The id of the request in the answer and in the log. Only the writer needs it.
    package var requestID = ""
    /// The claim under which the journal remembers the call. Only the writer needs it.
    package var replay: ReplayClaim?

    package init(project: ProjectID, key: KeyID?, replayKey: ReplayKey? = nil) {
        self.project = project
        self.key = key
        self.replayKey = replayKey
    }
}

/// The values that the writer gives to each call: the moment, and the id of a person that the call may make.
package struct Stamp: Equatable, Sendable {
    /// The call's moment by the system clock, which may go back. Expiry uses this moment.
    package let at: Instant
    /// The call's moment in the journal. It is the clock's; a step back has a note (``ClockStep``).
    package let journalledAt: Instant
    package let person: PersonID
    /// The place of the call among all sightings: the call sees the person that it finds or makes.
    package let seen: SeenAt

    /// Makes a stamp.
    ///
    /// - Parameters:
    ///   - at: the call's moment by the system clock.
    ///   - journalledAt: the call's moment in the journal; nil if the clock's moment is also the journal's moment.
    ///   - person: the id of a person that the call may make.
    ///   - seen: the place among all sightings; nil for the first place of the moment.
    package init(at: Instant, journalledAt: Instant? = nil, person: PersonID, seen: SeenAt? = nil) {
        self.at = at
        self.seen = seen ?? SeenAt(at)
        self.journalledAt = journalledAt ?? at
        self.person = person
    }
}
