import Domain
import TestKit
import Testing

@Suite("The groups over time")
struct GroupHistoryTests {
    @Test(
        "are those of the merges in force after each merge and undo, and each change names the people whose root changed",
        arguments: 0..<20)
    func random(seed: UInt64) {
        var chance = SeededGenerator(seed: seed)
        let people = (1...12).map { PersonID(rawValue: Int64($0)) }
        var history = GroupHistory()
        var inForce: [Merge] = []
        for number in 1...120 {
            let before = Dictionary(uniqueKeysWithValues: people.map { ($0, history.root(of: $0)) })
            let changed: [PersonID]
            if !inForce.isEmpty, chance.oneIn(3) {
                changed = history.undo(inForce.remove(at: Int.random(in: 0..<inForce.count, using: &chance)))
            } else {
                guard let from = people.randomElement(using: &chance), let into = people.randomElement(using: &chance),
                    from != into
                else { continue }
                let merge = Merge(id: MergeID(rawValue: Int64(number)), from: from, into: into, rule: .administrator)
                inForce.append(merge)
                changed = history.join(merge)
            }
            for person in people {
                #expect(
                    history.root(of: person) == ListedGroup(of: person, inForce).root, "seed \(seed), step \(number)")
            }
            #expect(changed == people.filter { before[$0] != history.root(of: $0) }, "seed \(seed), step \(number)")
        }
    }
}
