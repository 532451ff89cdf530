package import Domain

/// A difference between the list of a person's calls and the facts of the calls.
package struct ListDifference: Sendable {
    package let call: Int64
    package let person: Int64
    /// Whether the list lacks the call. Otherwise the call did not touch the person.
    package let isMissing: Bool

    /// The finding about the difference.
    ///
    /// - Parameter canRepair: whether `onym doctor --repair` works on the store.
    package func finding(canRepair: Bool) -> Finding {
        let state = isMissing ? "lacks call \(call)." : "has call \(call), which did not touch the person."
        let advice = canRepair ? "\"onym doctor --repair\" puts it right." : LeafDifference.restore
        return Finding(
            code: "call_people", description: "The list of the calls of person \(person) \(state) \(advice)",
            call: JournalSequence(rawValue: call), person: PersonID(rawValue: person))
    }
}
