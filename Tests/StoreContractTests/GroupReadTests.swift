import Domain
import TestKit
import Testing

/// Reads of groups: members, pages, merges, ways and totals, in every store.
@Suite("Every store reads groups as the model does")
struct GroupReadTests {
    /// Makes or undoes a merge, also a supporting merge.
    private struct Tie: Act {
        let merges: [Merge]
        var isUndo = false

        static var kinds: [ActKind] { [.exercise] }
        static var readsMerges: Bool { false }
        var subjects: Subjects {
            Subjects(
                about: merges.first?.from, people: merges.flatMap { [$0.from, $0.into] }, merges: merges.map(\.id))
        }
        var byteCount: Int { 64 }

        func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
            let changes = merges.map { isUndo ? Change.mergeUndone($0) : .merged($0) }
            return Decision(Done(), outcome: Outcome(kind: .exercise, person: merges.first?.from, changes: changes))
        }
    }

    @Test(
        "groups with supporting merges are read as a list of their merges says",
        arguments: StoreKind.allCases, Soak.seeds(4))
    func asListed(_ kind: StoreKind, _ seed: UInt64) throws {
        let fixture = try StoreFixture(kind, seed: seed)
        var random = SeededGenerator(seed: seed)
        let people = try (0..<48).map { try fixture.identify([.iosIDFV: "phone \($0)"]).person }
        var inForce: [Merge] = []
        var last = MergeID(rawValue: 0)
        for round in 0..<6 {
            var made: [Merge] = []
            for _ in 0..<10 {
                // Some people are in many merges, and a few people are in none.
                let from = people[Int.random(in: 0..<44, using: &random)]
                let into = people[Int.random(in: 0..<(random.oneIn(2) ? 4 : 44), using: &random)]
                if from == into { continue }
                let rule: Merge.Rule = random.oneIn(2) ? .claim : .administrator
                let pair = inForce + made
                if pair.contains(where: { $0.from == from && $0.into == into && $0.rule == rule }) { continue }
                last = MergeID(rawValue: max(last.rawValue, people.max()!.rawValue) + 1)
                made.append(Merge(id: last, from: from, into: into, rule: rule))
            }
            if made.isEmpty { continue }
            _ = try fixture.process(Tie(merges: made))
            inForce += made
            if round > 1, let undone = inForce.randomElement(using: &random) {
                _ = try fixture.process(Tie(merges: [undone], isUndo: true))
                inForce.removeAll { $0.id == undone.id }
            }
            try fixture.store.read { snapshot throws(StoreFault) in
                try check(people, inForce, snapshot)
            }
        }
        #expect(people.contains { ListedGroup(of: $0, inForce).group.keepsFolds })
    }

    private func check(_ people: [PersonID], _ inForce: [Merge], _ snapshot: any Snapshot) throws(StoreFault) {
        let several = try snapshot.groups(of: people)
        for person in people {
            let (expected, found) = (ListedGroup(of: person, inForce), snapshot.group(of: person))
            #expect(found.root == expected.root && found.count == expected.members.count)
            #expect(several[person]?.root == (found.count == 1 ? nil : found.root))
            #expect(found.members == expected.members && found.merges == expected.merges)
            let paged = GroupReadTests.paged(found)
            #expect(paged.count == found.count && Set(paged) == Set(expected.members))
            #expect(found.merges(limit: 3).allSatisfy(expected.merges.contains))
            #expect(found.merges(limit: 3).count == min(3, expected.merges.count))
            for other in Set([expected.members[0], expected.members[found.count / 2], expected.root]) {
                let way = expected.path(from: person, to: other)
                #expect(found.path(from: person, to: other) == way, "\(person) to \(other)")
            }
            let totals = try snapshot.totals(of: found)
            #expect(totals.first == expected.members[0])
            #expect(totals.identities == [.iosIDFV: found.count])
        }
    }

    private static func paged(_ group: Group) -> [PersonID] {
        var (paged, last): ([PersonID], PersonID?) = ([], nil)
        repeat {
            let page = group.members(after: last, limit: 5)
            paged += page
            last = page.count == 5 && paged.count < group.count ? page.last : nil
        } while last != nil
        return paged
    }
}
