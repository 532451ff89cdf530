import Domain
import Engine
import StoreSQLite
import TestKit
import Testing

/// Histories by chance, with faults, lost answers, retries and restarts: every store gives the answers of the model.
///
/// `ONYM_SEED=17 swift test --filter SimulationTests` runs one history again; `ONYM_SOAK=50` runs fifty times as many.
@Suite("Simulated histories of identify and modify")
struct IdentifySimulationTests {
    private typealias Call = StoreFixture.IdentifyCall

    static let seeds = Soak.histories(200)

    @Test("give the same answers on all stores", arguments: seeds)
    func sameAnswers(_ seed: UInt64) throws {
        for kind in StoreKind.simulated(seed, postgresOneIn: 20).dropFirst() { try compare(kind, seed) }
        if seed.isMultiple(of: 1000) { Soak.report("histories up to seed \(seed) agree") }
    }

    private func compare(_ kind: StoreKind, _ seed: UInt64) throws {
        let (model, other) = (
            try StoreFixture(.memory, seed: seed), try StoreFixture(kind, seed: seed, isCounted: seed % 2 == 0)
        )
        var history = History(seed: seed)
        for _ in 0..<40 {
            let step = history.next()
            // What is not in memory is not peeked at.
            if case .peek = step, !other.kind.looksIntoMemory { continue }
            let expected = try run(step, on: model)
            history.learn(expected)
            let answers = try run(step, on: other)
            // One sentence rather than two long answers: the seed brings the rest back.
            #expect(answers == expected, "ONYM_SEED=\(seed): \(kind) differs at \(step)")
            #expect(other.store.counts == model.store.counts, "ONYM_SEED=\(seed): \(kind) after \(step)")
            if answers != expected { return }
        }
        try other.reopen()
        #expect(other.store.counts == model.store.counts, "ONYM_SEED=\(seed): \(kind) after the last restart")
        guard let sqlite = other.sqlite else { return }
        sqlite.close()
        let findings = try Doctor(StoreFile(folder: other.folder.path)) { _ in }.examine()
        #expect(findings.isEmpty, "ONYM_SEED=\(seed)")
    }

    /// What happens next.
    private enum Step: CustomStringConvertible {
        case batch([Call])
        /// A batch whose commit fails, and what its clients do then: they try again.
        case faulted([Call], CommitFault)
        case peek(Call)
        case fold
        case restart

        var description: String {
            switch self {
            case .batch(let calls): "a batch of \(calls.count)"
            case .faulted(let calls, let fault): "a batch of \(calls.count) that fails \(fault) its commit"
            case .peek: "a peek"
            case .fold: "a fold"
            case .restart: "a restart"
            }
        }
    }

    private struct History {
        private var generator: SeededGenerator
        /// Whom the answers have named.
        private var people: [PersonID] = []

        /// Takes in what was answered, so that later calls can be about the same people.
        mutating func learn(_ outcomes: [Outcome]) {
            for case .answers(let answers) in outcomes {
                for case .success(let reply) in answers { people += reply.answer.found }
            }
        }

        init(seed: UInt64) { generator = SeededGenerator(seed: seed &* 7919) }

        mutating func next() -> Step {
            switch Int.random(in: 0..<20, using: &generator) {
            case 0: return .fold
            case 1: return .restart
            case 2, 3: return .faulted(calls(), generator.oneIn(2) ? .before : .after)
            case 4..<9: return .peek(Call.random(&generator, among: people))
            default: return .batch(calls())
            }
        }

        private mutating func calls() -> [Call] {
            (0..<Int.random(in: 1...10, using: &generator)).map { _ in Call.random(&generator, among: people) }
        }
    }

    private enum Outcome: Equatable {
        case answers([Writer.Answer])
        case peek(Peek)
        case nothing
    }

    private func run(_ step: Step, on fixture: StoreFixture) throws -> [Outcome] {
        switch step {
        case .batch(let calls): return [.answers(fixture.process(calls))]
        case .peek(let call): return [.peek(fixture.peek(call))]
        case .fold:
            fixture.fold()
            return [.nothing]
        case .restart:
            try fixture.reopen()
            return [.nothing]
        case .faulted(let calls, let fault):
            fixture.failNextCommit(fault)
            let failed = fixture.process(calls)
            if !fixture.writer.needsRecovery {
                // Nothing changed, so nothing was committed: the fault still waits, for a batch that changes something.
                fixture.cancelCommitFault()
                return [.answers(failed)]
            }
            #expect(failed.allSatisfy { if case .failure(.fault) = $0 { true } else { false } })
            #expect(fixture.writer.recover() == nil)
            return [.answers(fixture.process(calls))]
        }
    }
}
