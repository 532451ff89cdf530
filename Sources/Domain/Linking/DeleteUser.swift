/// Deletes a user: erases it and everybody who is one with it. The external id is free afterwards (spec/linking.md,
/// decision 10), and what was captured before is dropped when it comes in.
package struct DeleteUser: Sendable {
    package let person: PersonID
    /// The install whose own user it has to be, where an install asks.
    package let caller: LinkingCaller?

    package init(_ person: PersonID, by caller: LinkingCaller?) {
        self.person = person
        self.caller = caller
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(LinkingFault) -> Decision {
        if let caller {
            let install = try view.install(caller, view.linkingSettings(of: project))
            guard let own = install.user, view.areOne(own, person) else { throw .otherUser }
            // A device that was given away, perhaps.
            if install.state == .deactivated { throw .installDeactivated }
        }
        guard view.linkedUser(person) != nil else { throw .userNotFound }
        do throws(Refusal) {
            let erasure = try ErasePerson(person).decide(stamp, in: project, view)
            return Decision(reply: .linking(.deleted), outcome: erasure.outcome)
        } catch {
            throw .userNotFound
        }
    }
}
