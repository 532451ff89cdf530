/// The groups of people over time, from the merges and their undos in the order of the calls. Each change says the people whose
/// root changed.
///
/// A merge costs the smaller of both groups and the people whose root changed; an undo costs the group. People without merges
/// take no memory.
package struct GroupHistory: Sendable {
    private struct Known: Sendable {
        var members: [PersonID]
        var merges: [Merge]
        var root: PersonID
    }

    private var groups: [Int: Known] = [:]
    private var labels: [PersonID: Int] = [:]
    private var nextLabel = 0

    package init() {}

    /// The person that stands for the group of a person.
    package func root(of person: PersonID) -> PersonID {
        labels[person].flatMap { groups[$0]?.root } ?? person
    }

    /// Joins two people; the people whose root changed, in the order of their ids.
    package mutating func join(_ merge: Merge) -> [PersonID] {
        let (from, into) = (label(of: merge.from), label(of: merge.into))
        guard from != into, let joining = groups[from], let other = groups[into] else {
            groups[from]?.merges.append(merge)
            return []
        }
        let (kept, gone) = joining.members.count > other.members.count ? (from, into) : (into, from)
        if let small = groups.removeValue(forKey: gone) {
            for member in small.members { labels[member] = kept }
            groups[kept]?.members += small.members
            groups[kept]?.merges += small.merges
        }
        groups[kept]?.merges.append(merge)
        groups[kept]?.root = other.root
        return joining.members.sorted()
    }

    /// Undoes a merge; the people whose root changed, in the order of their ids.
    package mutating func undo(_ merge: Merge) -> [PersonID] {
        guard let label = labels[merge.from], let known = groups[label] else { return [] }
        groups[label] = nil
        let whole = ListedGroup(
            members: known.members, merges: known.merges.sorted { $0.id < $1.id }, root: known.root)
        var changed: [PersonID] = []
        for part in whole.parts(without: merge) {
            if part.root != known.root { changed += part.members }
            if part.members.count == 1 {
                labels[part.root] = nil
                continue
            }
            groups[nextLabel] = Known(members: part.members, merges: part.merges, root: part.root)
            for member in part.members { labels[member] = nextLabel }
            nextLabel += 1
        }
        return changed.sorted()
    }

    private mutating func label(of person: PersonID) -> Int {
        if let known = labels[person] { return known }
        defer { nextLabel += 1 }
        labels[person] = nextLabel
        groups[nextLabel] = Known(members: [person], merges: [], root: person)
        return nextLabel
    }
}
