package import Domain

extension Snapshot {
    /// The calls whose results depended on a merge: all pages of the search, as the gateway asks for them. Empty for a merge that does
    /// not exist.
    package func calls(
        dependingOn merge: MergeID, _ directory: Directory
    ) throws(StoreFault) -> [JournalSequence] {
        guard let call = try call(ofMerge: merge) else { return [] }
        for case .merged(let made) in call.facts where made.id == merge {
            let search = DependedCalls(on: made, madeBy: call, directory)
            while true {
                if let calls = try search.page(try RoutedSnapshot.over(self)) { return calls }
            }
        }
        return []
    }
}
