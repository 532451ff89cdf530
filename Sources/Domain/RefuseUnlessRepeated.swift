/// A call that is refused, unless it repeats an earlier call under one key. Then it gets the answer of the earlier call.
///
/// A reader that refuses a call cannot know whether the call is a repetition. The writer knows.
package struct RefuseUnlessRepeated: Act {
    package let refusal: Refusal

    package init(_ refusal: Refusal) { self.refusal = refusal }
}

extension RefuseUnlessRepeated {
    package static var kinds: [ActKind] { [] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 64 }

    /// Throws the refusal.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        throw refusal
    }
}
