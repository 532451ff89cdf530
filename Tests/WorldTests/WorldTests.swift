import Domain
import Foundation
import OneSeed
import TestKit
import Testing

@Suite("A world in one seed")
struct WorldTests {
    /// The seeds of `make check`; `ONYM_SOAK=20` lives twenty times as many.
    private static let lives = 32

    @Test("no life breaks a promise")
    func lives() {
        let seeds = Soak.seeds(WorldTests.lives)
        var (coverage, calls) = (Coverage(), 0)
        for seed in seeds {
            let history = History(seed: seed)
            let result = history.run()
            calls += result.calls
            coverage.add(result.coverage)
            if let failure = result.failure {
                let (short, why, _) = history.shrunk(failure, budget: 60)
                Issue.record("seed 0x\(String(seed, radix: 16)): \(why)\n\(short.asTest)")
                return
            }
        }
        #expect(calls > 10 * seeds.count)
        print("world: \(calls) calls; \(coverage.table.split(separator: "\n").last ?? "")")
        Soak.report("world: \(calls) calls\n\(coverage.table)")
    }

    @Test("the same seed is the same life, byte for byte")
    func sameTrace() {
        for seed in UInt64(1)...50 {
            let history = History(seed: seed, calls: 25)
            let (one, other) = (history.run(keepsTrace: true), history.run(keepsTrace: true))
            let difference = zip(one.trace.lines, other.trace.lines).first { $0 != $1 }
            #expect(one.trace.hash == other.trace.hash, "seed \(seed): \(String(describing: difference))")
        }
    }

    /// A connection once lost the calls that waited in its memory while the client read the last piece of a long answer.
    @Test("a client that sends hundreds of calls, and reads late, gets all answers")
    func flood() {
        for seed in UInt64(0)..<6 {
            var history = History(seed: seed, calls: 0)
            history.steps = [.flood]
            #expect(history.run().failure == nil)
        }
    }

    @Test("every act of the registry has a deed, or a test elsewhere")
    func everyActHasADeed() throws {
        let deeds = Deed.allCases.flatMap(\.acts) + Deed.elsewhere.map(\.act)
        let covered = Set(deeds.map { ObjectIdentifier($0) })
        let missing = Registry.acts.filter { !covered.contains(ObjectIdentifier($0)) }
        #expect(missing.isEmpty, "Tests/OneSeed/Deed.swift lacks \(missing)")
        #expect(Deed.elsewhere.count == Set(Deed.elsewhere.map { ObjectIdentifier($0.act) }).count)
        let suites = try WorldTests.suites()
        #expect(suites.contains("WorldTests"))
        for (act, suite) in Deed.elsewhere {
            #expect(suites.contains(suite), "Tests/OneSeed/Deed.swift names \(suite) for \(act), which does not exist")
        }
    }

    /// The names of all suites in the folder of tests.
    private static func suites() throws -> Set<String> {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var names: Set<String> = []
        for case let file as URL in files where file.lastPathComponent.hasSuffix("Tests.swift") {
            for match in try String(contentsOf: file, encoding: .utf8).matches(of: /\bstruct (\w+Tests)\b/) {
                names.insert(String(match.1))
            }
        }
        return names
    }

    @Test("a history that fails is shortened to the steps that matter, and printed as a test")
    func shrinks() {
        let history = History(seed: 2, calls: 40)
        // As if every life with a claim and a feedback failed.
        func fails(_ history: History) -> History.Failure? {
            let deeds = history.steps.compactMap { step -> Deed? in
                if case .call(let deed, _) = step { deed } else { nil }
            }
            guard deeds.contains(.claim), deeds.contains(.feedback) else { return nil }
            return History.Failure(oracle: "exercise", step: history.steps.count - 1, message: "both are there")
        }
        var whole = history
        whole.steps += [.call(.claim, seed: 1), .restart, .call(.feedback, seed: 2), .kill]
        guard let failure = fails(whole) else { return #expect(Bool(false), "The exercise fails.") }
        let (short, why, tries) = whole.shrunk(failure, by: fails)
        #expect(short.steps.count == 2 && why.oracle == "exercise" && tries < 200)
        #expect(short.asTest.contains("History(seed: 0x2, calls: 0)") && short.asTest.contains(".call(.feedback"))
    }

    @Test("the numbers of a history that fails become as small as they may be")
    func shrinksNumbers() {
        var whole = History(seed: 2, calls: 0)
        whole.steps = [
            .fail(.sync, skip: 20, times: 4), .jump(milliseconds: -86_400_000), .pass(milliseconds: 2000),
            .fill(room: 60_000),
        ]
        // As if every life failed that has a jump back of a second or more, and room for more than a thousand bytes.
        func fails(_ history: History) -> History.Failure? {
            var (hasJump, hasRoom) = (false, false)
            for step in history.steps {
                if case .jump(let milliseconds) = step, milliseconds <= -1000 { hasJump = true }
                if case .fill(let room) = step, room > 1000 { hasRoom = true }
            }
            guard hasJump, hasRoom else { return nil }
            return History.Failure(oracle: "exercise", step: history.steps.count - 1, message: "both are there")
        }
        guard let failure = fails(whole) else { return #expect(Bool(false), "The exercise fails.") }
        let short = whole.shrunk(failure, by: fails).history
        #expect(short.steps.map(\.description) == ["jump -1318 ms", "fill the disk but for 1875 bytes"])
    }

    /// Rows become old only by the clock, and a clock that jumps is not believed at once.
    @Test("rows go when they are old, and not because the clock has jumped")
    func retention() {
        for seed in UInt64(0)..<8 {
            var history = History(seed: seed, calls: 0)
            let made = (UInt64(0)..<6).map { History.Step.call(.ingest, seed: seed &* 100 &+ $0) }
            let soon = made.flatMap { [.pass(milliseconds: 50), $0] }
            history.steps =
                [.call(.feedback, seed: seed), .call(.retention, seed: seed)] + made
                + [.pass(milliseconds: 400), .jump(milliseconds: 40 * 86_400_000)] + soon
                + [.pass(milliseconds: 2000)] + made
                + [.restart, .jump(milliseconds: -80 * 86_400_000), .pass(milliseconds: 2000)] + made
            let result = history.run()
            #expect(result.failure == nil)
            let answers = result.coverage.answers
            #expect(answers[.retention] == [200: 1], "seed \(seed): \(answers)")
        }
    }
}
