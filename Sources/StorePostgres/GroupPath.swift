import Domain

/// Finds the way between two people of a group over few of the group's merges.
///
/// The merges that are no supporting merges form a tree, and the tree has one way. Without the tree in memory the search finds
/// any way first. The last merge of a way is a supporting merge if and only if earlier merges connect the two people too. A search
/// goes from both ends at once, so it ends with the smaller side. It reads the merges of a person with many merges only
/// if nothing else is left to read.
struct GroupPath {
    /// Reads the merges of some people: at most a number of them.
    private let read: (_ people: [PersonID], _ limit: Int) -> [Merge]
    /// The people whose merges were read, with these merges.
    private var known: [PersonID: [Merge]] = [:]
    /// People who have more merges together than a number.
    private var large: [[PersonID]: Int] = [:]
    private var questions = 0

    /// The limit of questions. A search with more of them has no result.
    private static let questionsAtMost = 200

    /// The number of merges that the first question about some people reads.
    private static let firstLimit = 32

    init(read: @escaping (_ people: [PersonID], _ limit: Int) -> [Merge]) { self.read = read }

    /// The way from one person to another; nil if the search has no result.
    mutating func way(from start: PersonID, to end: PersonID) -> [Merge]? { way(from: start, to: end, before: nil) }

    /// The way over merges before a merge.
    private mutating func way(from start: PersonID, to end: PersonID, before bound: MergeID?) -> [Merge]? {
        if start == end { return [] }
        guard let found = anyWay(from: start, to: end, before: bound),
            let last = found.indices.max(by: { found[$0].id < found[$1].id })
        else { return nil }
        if let earlier = way(from: start, to: end, before: found[last].id) { return earlier }
        if questions >= GroupPath.questionsAtMost { return nil }
        var people = [start]
        for merge in found { people.append(merge.from == people[people.count - 1] ? merge.into : merge.from) }
        guard let first = way(from: start, to: people[last], before: found[last].id),
            let second = way(from: people[last + 1], to: end, before: found[last].id)
        else { return nil }
        return first + [found[last]] + second
    }

    /// One end of a search.
    private struct Side {
        /// The people that were reached last.
        var front: [PersonID]
        /// The merge by which a person was reached; nil for the end itself.
        var cameBy: [PersonID: Merge?]

        init(_ end: PersonID) { (front, cameBy) = ([end], [end: nil]) }

        /// The merges from a person back to the end.
        func way(back person: PersonID) -> [Merge] {
            var (way, place): ([Merge], PersonID) = ([], person)
            while let merge = cameBy[place] ?? nil {
                way.append(merge)
                place = merge.from == place ? merge.into : merge.from
            }
            return way
        }

        /// Notes the people to which merges lead, and makes them the front.
        mutating func reach(_ merges: [Merge]) {
            let from = Set(front)
            front = []
            for merge in merges {
                for (one, other) in [(merge.from, merge.into), (merge.into, merge.from)]
                where from.contains(one) && cameBy[other] == nil {
                    cameBy[other] = merge
                    front.append(other)
                }
            }
        }
    }

    /// A way over merges that are older than a merge; nil if there is no such way or if the search would read too much.
    private mutating func anyWay(from start: PersonID, to end: PersonID, before bound: MergeID?) -> [Merge]? {
        var sides = [Side(start), Side(end)]
        var limit = GroupPath.firstLimit
        while questions < GroupPath.questionsAtMost {
            var hasMoved = false
            for place in sides.indices {
                guard let merges = merges(of: sides[place].front, limit: limit) else { continue }
                hasMoved = true
                sides[place].reach(merges.filter { merge in bound.map { merge.id < $0 } ?? true })
                if sides[place].front.isEmpty { return nil }
                if let middle = sides[place].front.first(where: { sides[1 - place].cameBy[$0] != nil }) {
                    return sides[0].way(back: middle).reversed() + sides[1].way(back: middle)
                }
            }
            if !hasMoved { limit *= 8 }
        }
        return nil
    }

    /// All merges of some people; nil if there are more than the limit.
    private mutating func merges(of people: [PersonID], limit: Int) -> [Merge]? {
        let unknown = people.filter { known[$0] == nil }
        if !unknown.isEmpty {
            if let least = large[unknown], least >= limit { return nil }
            questions += 1
            let found = read(unknown, limit + 1)
            if found.count > limit {
                large[unknown] = limit
                return nil
            }
            for person in unknown { known[person] = found.filter { $0.from == person || $0.into == person } }
        }
        return people.flatMap { known[$0] ?? [] }
    }
}
