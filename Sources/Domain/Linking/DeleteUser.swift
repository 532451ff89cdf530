/// A call that erases a user with its group. The external id is free after the call (spec/linking.md, decision 10), and late
/// rows are dropped.
package struct DeleteUser: Act {
    package let person: PersonID
    /// The install that calls; nil for a back end. The install must belong to the user.
    package let caller: LinkingCaller?

    package init(_ person: PersonID, by caller: LinkingCaller?) {
        self.person = person
        self.caller = caller
    }

    package static var kinds: [ActKind] { [.erase] }
    /// A deletion that depends on a merge erases all people of the merge, and the notes of their calls with them.
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(people: [person]) }
    package var byteCount: Int { 512 }

    /// Erases the user's group. Throws `otherUser` if the install of the call belongs to another user, `installDeactivated`,
    /// `rowsNotSettled`, and `userNotFound` if the person is no user. A deactivated install may be on a device that another human now has, so
    /// it must not delete the user.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        if let caller {
            let install = try view.install(caller, view.linkingSettings(of: project))
            guard let own = install.user, view.areOne(own, person) else { throw .otherUser }
            // Another human may have the device now.
            if install.state == .deactivated { throw .installDeactivated }
        }
        guard view.linkedUser(person) != nil else { throw .userNotFound }
        do throws(Refusal) {
            let erasure = try ErasePerson(person).decide(stamp, in: project, view)
            return Decision(.deleted, outcome: erasure.outcome)
        } catch {
            if error == .rowsNotSettled { throw error }
            throw .userNotFound
        }
    }
}
