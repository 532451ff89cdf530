import Domain
import Engine
import TestKit
import Testing

/// Histories by chance of all calls of the IDSync dialect, under every strategy and mixes of them: all stores answer as the
/// model does, and hold in the end what it holds.
///
/// `make check` makes 2,000 calls, `make soak` a million. `ONYM_SEED=17` runs one history again.
@Suite("Simulated histories of IDSync")
struct IDSyncSimulationTests {
    /// A history has as many calls.
    private static let calls = 200
    static let seeds = Soak.histories(Soak.factor == 1 ? 10 : 250)

    @Test("come out as the specification has it", arguments: seeds)
    func model(_ seed: UInt64) throws {
        let stores = try StoreKind.simulated(seed, postgresOneIn: 5).map {
            try StoreFixture($0, seed: seed, isCounted: seed % 2 == 0)
        }
        var history = IDSyncHistory(seed: seed)
        var model = IDSyncModel(IDSyncHistory.presets[0].rules)
        var number = 0
        while number < IDSyncSimulationTests.calls {
            let batch = history.nextBatch(model, now: stores[0].clock.now.milliseconds)
            number += batch.count
            let commands = batch.map { StoreCommands.command($0.call, preset: $0.preset) }
            let answers = try stores.map { store in
                if history.restarts { try store.reopen() }
                return zip(batch, store.process(commands)).map { StoreCommands.answer(to: $0.call, $1) }
            }
            for (place, step) in batch.enumerated() {
                let now = stores[0].clock.now.milliseconds
                let expected = model.answer(step.call, at: now, fresh: fresh(answers[0][place], model))
                for (store, answers) in zip(stores, answers) where answers[place] != expected {
                    Issue.record(
                        """
                        ONYM_SEED=\(seed): call \(number - batch.count + place) on \(store.kind): \(step.call)
                        under \(model.rules)
                        is answered \(answers[place]), and should be \(expected)
                        """)
                    return
                }
            }
        }
        for store in stores { try compare(store, model, seed) }
        if seed.isMultiple(of: 500) { Soak.report("\(seed) histories of IDSync are as the model's") }
    }

    /// What the server has made: the id that the model does not know yet.
    private func fresh(_ answer: IDSyncModel.Answer, _ model: IDSyncModel) -> Int64 {
        switch answer {
        case .person(let id, _, _) where model.index(of: id) == nil: id
        case .aliased(let id): id
        default: -1
        }
    }

    /// Compares who holds what, and what happened to whom.
    private func compare(_ fixture: StoreFixture, _ model: IDSyncModel, _ seed: UInt64) throws {
        #expect(fixture.store.counts.people == model.people.count, "ONYM_SEED=\(seed) \(fixture.kind)")
        try fixture.store.read { snapshot throws(StoreFault) in
            for person in model.people {
                let id = PersonID(rawValue: person.id)
                let held = try snapshot.identities(of: id).map {
                    IDSyncModel.Name(type: "\($0.type.name)", value: $0.value)
                }
                #expect(Set(held) == Set(person.names), "ONYM_SEED=\(seed) \(fixture.kind): \(id)")
                #expect(held.count == person.names.count, "ONYM_SEED=\(seed) \(fixture.kind): \(id)")
                var filter = Timeline.Filter()
                filter.limit = 10_000
                let rows = try Timeline(of: id, filter, snapshot).rows
                let events = rows.map { String(decoding: $0.row.body, as: UTF8.self) }
                #expect(
                    events == model.timeline(of: person.id).map(String.init), "ONYM_SEED=\(seed) \(fixture.kind): \(id)"
                )
            }
        }
    }
}

/// Calls of the model as the server's commands, and the server's answers as the model's.
private enum StoreCommands {
    private static func identity(_ type: String, _ value: String) -> Identity {
        Identity(self.type(type), value, in: World.project, hash: World.hash)
    }

    private static func type(_ name: String) -> IdentityType {
        guard let type = IdentityType(named: name) else { preconditionFailure("There is no type \(name).") }
        return type
    }

    private static func identities(_ names: [IDSyncModel.Name]) -> [Identity] {
        names.map { identity($0.type, $0.value) }
    }

    private static func device(_ name: String) -> RowHash {
        RowHash(.device, name.utf8.span, in: World.project, hash: World.hash)
    }

    static func command(_ call: IDSyncModel.Call, preset: StrategyPreset?) -> any Act {
        switch call {
        case .identify(let occasion, let names, let previous, let isReadOnly):
            let occasions: [IDSyncModel.Occasion: Identify.Occasion] = [.login: .login, .logout: .logout]
            return
                Identify(
                    occasions[occasion] ?? .start, identities: identities(names),
                    previous: previous.map(PersonID.init), inspection: isReadOnly ? .readOnly : [])
        case .search(let names): return Search(identities: identities(names))
        case .modify(let person, let items):
            return
                Modify(
                    person: PersonID(rawValue: person),
                    items: items.map { item in
                        Modify.Item(
                            type(item.type), old: item.old.map { identity(item.type, $0) },
                            new: item.new.map { identity(item.type, $0) })
                    })
        case .event(let person, let id, let at, let device):
            let row = Row(
                .event, at: Instant(milliseconds: at), device: device.map(self.device), body: Array("\(id)".utf8))
            return Ingest(person: PersonID(rawValue: person), identities: [], rows: [row])
        case .alias(let source, let destination, let start, let end, let device):
            return
                MakeAlias(
                    source: PersonID(rawValue: source), destination: PersonID(rawValue: destination),
                    start: Instant(milliseconds: start), end: Instant(milliseconds: end),
                    device: device.map(self.device), requestID: "r")
        case .undoAlias(let id): return UndoAlias(AliasID(rawValue: id))
        case .setRules(let rules):
            var edit = StrategyEdit()
            edit.preset = preset
            if preset == nil {
                edit.hierarchy = rules.hierarchy.map(type)
                edit.unique = IdentityTypeSet(rules.unique.map(type))
                edit.login = IdentityTypeSet(rules.login.map(type))
                edit.immutable = IdentityTypeSet(rules.immutable.map(type))
                edit.onNewKnown = rules.makesNewKnown ? .create : .keep
                edit.onLogout = rules.returnsOnLogout ? .return : .create
            }
            edit.blockedValues = BlockedValues(rules.blocked.sorted())
            return SetStrategy.edit(edit)
        }
    }

    static func answer(to call: IDSyncModel.Call, _ answer: Writer.Answer) -> IDSyncModel.Answer {
        switch answer {
        case .failure(.refused(let refusal)): return .refused(refusal.code)
        case .failure(let failure): return .refused("\(failure)")
        case .success(let reply):
            switch reply.answer {
            case let identified as Identified: return person(identified, call)
            case let modified as Modified:
                let touched = modified.touched.map {
                    IDSyncModel.Touch(person: $0.person.rawValue, type: "\($0.type.name)")
                }
                // Each is named once.
                return Set(touched).count == touched.count ? .changed(Set(touched)) : .refused("twice: \(touched)")
            case Aliased.made(let id) as Aliased: return .aliased(id.rawValue)
            case Aliased.ignored(let reason) as Aliased: return .aliasIgnored("\(reason.name)")
            default: return .done
            }
        }
    }

    private static func person(_ identified: Identified, _ call: IDSyncModel.Call) -> IDSyncModel.Answer {
        let names: [IDSyncModel.Name]
        switch call {
        case .identify(_, let named, _, _), .search(let named): names = named
        default: names = []
        }
        let matched = names.indices.filter { identified.matched & 1 << UInt64($0) != 0 }.map { names[$0].type }
        return .person(identified.person.rawValue, matched: Set(matched), isLoggedIn: identified.isKnown)
    }
}
