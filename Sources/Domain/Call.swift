/// Who calls, and how the call can be told from others.
package struct Call: Sendable {
    package let project: ProjectID
    /// The key that it was made with; nil for the command line, and for the server itself.
    package let key: KeyID?
    /// By what a repetition of the call would be recognized.
    package let replayKey: ReplayKey?
    /// Whom the caller may speak for; nil where that is not asked.
    package var proof: IdentityProof?
    /// The request's id, as the answer and the log have it. Only the writer needs it.
    package var requestID = ""
    /// The call's claim to be recognized. Only the writer needs it.
    package var replay: ReplayClaim?

    package init(project: ProjectID, key: KeyID?, replayKey: ReplayKey? = nil) {
        self.project = project
        self.key = key
        self.replayKey = replayKey
    }
}

/// What the writer gives a call when its turn comes: the time, and the id of a person that it may make.
package struct Stamp: Equatable, Sendable {
    /// The call's moment by the clock on the wall: what expires is judged by this. It goes back where the clock is set back.
    package let at: Instant
    /// The call's moment in the journal, where time never goes back.
    package let journalledAt: Instant
    package let person: PersonID

    /// - Parameter journalledAt: the call's moment in the journal; nil where that is the clock's.
    package init(at: Instant, journalledAt: Instant? = nil, person: PersonID) {
        self.at = at
        self.journalledAt = journalledAt ?? at
        self.person = person
    }
}
