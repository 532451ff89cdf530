/// Deletes a user: erases it and everybody who is one with it. The external id is free afterwards (spec/linking.md,
/// decision 10), and what was captured before is dropped when it comes in.
package struct DeleteUser: Act {
    package let person: PersonID
    /// The install whose own user it has to be, where an install asks.
    package let caller: LinkingCaller?

    package init(_ person: PersonID, by caller: LinkingCaller?) {
        self.person = person
        self.caller = caller
    }

    package static var kinds: [ActKind] { [.erase] }
    package var subjects: Subjects { Subjects(people: [person]) }
    package var byteCount: Int { 512 }

    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        if let caller {
            let install = try view.install(caller, view.linkingSettings(of: project))
            guard let own = install.user, view.areOne(own, person) else { throw .otherUser }
            // A device that was given away, perhaps.
            if install.state == .deactivated { throw .installDeactivated }
        }
        guard view.linkedUser(person) != nil else { throw .userNotFound }
        do throws(Refusal) {
            let erasure = try ErasePerson(person).decide(stamp, in: project, view)
            return Decision(.deleted, outcome: erasure.outcome)
        } catch {
            throw .userNotFound
        }
    }
}
