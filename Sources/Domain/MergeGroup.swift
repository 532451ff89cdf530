/// Who is one with a person by some merges, or by those without one of them.
///
/// The root is the one that the last merge of the group was made into, or that those before it left.
package struct MergeGroup: Sendable {
    package let members: [PersonID]
    /// Those that hold the group together, in the order in which they were made.
    package let merges: [Merge]
    package let root: PersonID

    package init(of person: PersonID, without hidden: MergeID? = nil, _ all: [Merge]) {
        let all = all.filter { $0.id != hidden }.sorted { $0.id < $1.id }
        var members: Set<PersonID> = [person]
        var isGrowing = true
        while isGrowing {
            let before = members.count
            for merge in all where members.contains(merge.from) || members.contains(merge.into) {
                members.formUnion([merge.from, merge.into])
            }
            isGrowing = members.count > before
        }
        var above: [PersonID: PersonID] = [:]
        func root(_ person: PersonID) -> PersonID {
            var root = person
            while let next = above[root] { root = next }
            return root
        }
        merges = all.filter { members.contains($0.from) }
        for merge in merges {
            let (from, into) = (root(merge.from), root(merge.into))
            // Merges that were not read of one moment could go round in a circle.
            if from != into { above[from] = into }
        }
        self.members = members.sorted()
        self.root = root(person)
    }
}
