import Domain
import Engine
import StoreSQLite
import TestKit
import Testing

/// What the contract of stores means for the rules of projects.
@Suite("The contract of stores, for strategies")
struct StrategyContractTests {
    private func preset(_ preset: StrategyPreset) -> SetStrategy {
        var edit = StrategyEdit()
        edit.preset = preset
        return .edit(edit)
    }

    @Test("rules hold for the calls behind them, also in their own batch", arguments: StoreKind.allCases)
    func sameBatch(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let device = try fixture.identify([.iosIDFV: "1"])
        let user = StoreFixture.IdentifyCall([.customerID: "c", .iosIDFV: "1"])
        let answers = fixture.writer.process(
            [
                fixture.job(preset(.profileLink)), fixture.job(user), fixture.job(preset(.default)),
                fixture.job(preset(.default)), fixture.job(preset(.bestMatch)),
            ], at: fixture.clock.now)
        #expect(answers[0] == .success(Reply(StrategySet(version: 2, .profileLink))))
        guard case .success(let reply) = answers[1], let made = reply.as(Identified.self) else { preconditionFailure() }
        #expect(made.person != device.person)
        #expect(answers[2] == .success(Reply(StrategySet(version: 3, .default))))
        #expect(answers[3] == answers[2], "nothing changed")
        #expect(answers[4] == .success(Reply(StrategySet(version: 4, .bestMatch))))
        #expect(fixture.store.directory.strategy(of: World.project) == .bestMatch)
        #expect(fixture.changes == 5)
    }

    @Test("rules and their versions are there after a restart", arguments: StoreKind.allCases)
    func reopened(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        var custom = StrategyEdit()
        (custom.hierarchy, custom.lowercasesEmail) = ([.email, .iosIDFV], true)
        custom.blockedValues = BlockedValues(["a b", "\n", "\u{E9}"])
        for change in [preset(.profileIsolation), .edit(custom), .rollback(to: 1)] { try fixture.set(change) }
        let before = fixture.strategies
        #expect(before.current.number == 4 && before.current.strategy == .default)
        #expect(before[3]?.key == KeyID(rawValue: 7) && before[3]?.at != nil && before[1]?.at == nil)
        try fixture.reopen()
        #expect(fixture.strategies == before)
        #expect(try fixture.set(.rollback(to: 3)) == 5)
        #expect(fixture.strategies.current.strategy == before[3]?.strategy)
        #expect(try fixture.findings().isEmpty)
    }

    @Test("the undo of a change of the rules leaves a store without findings")
    func undone() throws {
        let fixture = try StoreFixture(.sqlite)
        try fixture.set(preset(.bestMatch))
        let (last, directory) = (fixture.store.counts.lastSequence, fixture.store.directory)
        let undoable = try fixture.store.read { snapshot throws(StoreFault) in
            try Undoable(last, in: World.project, directory, snapshot)
        }
        _ = try fixture.process(UndoCall(try #require(undoable).plan, reason: "a mistake"))
        #expect(fixture.strategies.current.strategy == .default)
        let findings = try fixture.findings()
        #expect(findings.isEmpty, "\(findings.map(\.description))")
    }

    @Test("who may be active stays as it was set before that was a rule", arguments: StoreKind.allCases)
    func formerPolicy(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let former = ActivationPolicy(order: .lastWins, limit: 3, devices: [.tablet])
        let settings = LinkingSettings(former: former)
        let put = Change.documentPut(LinkingSettings.key(of: World.project), PersonID(rawValue: 0), settings.packed)
        let entry = JournalEntry(
            Call(project: World.project, key: nil), Stamp(at: fixture.clock.now, person: PersonID(rawValue: 1)),
            Outcome(kind: .linkingSettings, person: nil, changes: [put]), Reply(LinkingReply.settings(settings)))
        try fixture.store.decide(FactKeys()) { $0.apply(entry) }
        try fixture.store.commit([entry])
        try fixture.reopen()
        #expect(fixture.strategies.current.strategy.activation == nil)
        // The next version says it, whatever was set, and so does one that is gone back to.
        for change in [preset(.profileLink), .rollback(to: 1)] {
            try fixture.set(change)
            #expect(fixture.strategies.current.strategy.activation == former)
        }
        var edit = StrategyEdit()
        edit.activation = ActivationPolicy(order: .firstWins)
        try fixture.set(.edit(edit))
        try fixture.reopen()
        #expect(fixture.strategies.current.strategy.activation == edit.activation)
        #expect(try fixture.set(.rollback(to: 1)) == 5)
        #expect(fixture.strategies.current.strategy.activation == former)
    }

    @Test("the keys that tokens are signed with are there after a restart", arguments: StoreKind.allCases)
    func signingKeys(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let make = MakeSigningKey(name: "K", keyID: "k", .eddsa, publicKey: [UInt8](1...32))
        guard let key = try fixture.process(make).as(SigningKey.self) else {
            Issue.record("No key was made.")
            return
        }
        for _ in 0..<2 {
            #expect(fixture.store.directory.signingKeys == [World.project: [key]])
            try fixture.reopen()
        }
        _ = try fixture.process(RetireSigningKey(key.id))
        try fixture.reopen()
        #expect(fixture.store.directory.signingKeys[World.project]?.map { $0.retiredAt != nil } == [true])
    }

    @Test("rules whose commit failed do not hold; those whose answer was lost do", arguments: StoreKind.allCases)
    func faults(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        fixture.failNextCommit(.before)
        #expect(throws: CallFailure.self) { try fixture.set(preset(.bestMatch)) }
        #expect(fixture.writer.recover() == nil)
        #expect(fixture.strategies == .initial)
        fixture.failNextCommit(.after)
        #expect(throws: CallFailure.self) { try fixture.set(preset(.profileLink)) }
        #expect(fixture.writer.recover() == nil)
        #expect(fixture.strategies.current.number == 2 && fixture.strategies.current.strategy == .profileLink)
        #expect(try fixture.set(preset(.profileLink)) == 2)
    }

    @Test("what was shared before its type became unique is no damage")
    func uniqueLater() throws {
        let fixture = try StoreFixture(.sqlite)
        _ = try fixture.identify([.customerID: "1", .email: "e"])
        _ = try fixture.identify([.customerID: "2", .email: "e"])
        try fixture.set(preset(.profileConversion))
        _ = try fixture.identify([.customerID: "3", .email: "e"])
        #expect(try fixture.findings().isEmpty)
    }
}
