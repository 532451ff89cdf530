import Domain
import Engine
import TestKit
import Testing

/// What holds for every act, shown for each of the registry: a new act is in this table as soon as it is in the registry, and
/// the test asks for a call of it.
@Suite("Every act")
struct ActTableTests {
    @Test("is kept, packed and repeated as any other", arguments: [StoreKind.memory, .sqlite])
    func repeats(_ kind: StoreKind) throws {
        let world = try ActWorld(kind)
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            let reply = try world.make(act).get()
            if act is any KeptAct {
                let stamp = Stamp(at: world.fixture.clock.now, person: PersonID(rawValue: 1))
                func note(_ act: any Act) -> GroupNote? {
                    GroupNote(act, stamp, readRootsOf: [PersonID(rawValue: 1)], .default)
                }
                let packed = try #require(note(act)).act
                let kept = try #require(KeptCall(packed: packed), "\(type(of: act)): a kept act is read again")
                #expect(type(of: kept.act) == type(of: act) && kept.at == stamp.at && note(kept.act)?.act == packed)
            }
            if type(of: act).kinds.isEmpty {
                #expect(world.fixture.store.counts.lastSequence == before, "\(act) changes nothing")
                return reply
            }
            // The names of other people are not kept: a repetition finds them anew.
            let kept = Reply(packed: reply.packed)
            #expect(kept?.packed == reply.packed, "\(type(of: act)): what is kept is read again")
            let calls = try world.calls(after: before)
            #expect(calls.count <= 1)
            if let call = calls.first {
                #expect(type(of: act).kinds.contains(call.kind), "\(type(of: act)) is journalled as \(call.kind.name)")
                if let about = act.subjects.about, let person = call.person {
                    #expect(
                        ([about] + act.subjects.people).contains(person),
                        "\(type(of: act)) is journalled under a person it names")
                }
                let again = try world.repeatLast(act).get()
                #expect(again == reply, "\(type(of: act)): a repeated call gets the same answer")
                #expect(try world.calls(after: before).count == 1, "\(type(of: act)) is journalled once")
            }
            return reply
        }
        let missing = Registry.acts.filter { act in !world.played.contains(ObjectIdentifier(act)) }
        #expect(missing.isEmpty, "There is no call of \(missing).")
    }

    /// The documents whose form has a type of its own, and how they are read.
    private static let documents: [DocumentKind: @Sendable ([UInt8]) -> Bool] = [
        .alias: { Alias(packed: $0) != nil }, .attachment: { Attachment(packed: $0) != nil },
        .attributes: { Attributes(packed: $0) != nil }, .catalog: { Catalog(packed: $0) != nil },
        .consoleBook: { ConsoleBook(packed: $0) != nil }, .deliveries: { Deliveries(packed: $0) != nil },
        .importProgress: { Import(packed: $0) != nil }, .linkCode: { LinkCode(packed: $0) != nil },
        .linkingSettings: { LinkingSettings(packed: $0) != nil },
        .masterKeys: { MasterKeyHistory(packed: $0) != nil },
        .split: { Split(packed: $0) != nil },
        .storeOptions: { StoreOptions(packed: $0) != nil }, .tombstone: { Tombstone(packed: $0) != nil },
    ]

    /// The bytes with a number in place of each byte that is greater than any number of things, and without their ends.
    private static func damaged(_ bytes: [UInt8]) -> [[UInt8]] {
        var all = bytes.indices.map { Array(bytes[..<$0]) }
        for number in [UInt64.max, 1 << 63, 1 << 62, 1 << 53] {
            var packer = Packer()
            packer.add(number)
            all += bytes.indices.map { bytes[..<$0] + packer.bytes + bytes[($0 + 1)...] }
        }
        return all
    }

    @Test("leaves bytes that do not end the server when they are damaged")
    func damaged() throws {
        let world = try ActWorld(.memory)
        var unread = 0
        try world.playAll { act in
            let reply = try world.make(act).get()
            for bytes in Self.damaged(reply.packed) where Reply(packed: bytes) == nil { unread += 1 }
            let stamp = Stamp(at: world.fixture.clock.now, person: PersonID(rawValue: 1))
            if act is any KeptAct,
                let note = GroupNote(act, stamp, readRootsOf: [PersonID(rawValue: 1)], .default)?.act
            {
                for bytes in Self.damaged(note) where KeptCall(packed: bytes) == nil { unread += 1 }
            }
            return reply
        }
        #expect(unread > 1000)
        var kinds: Set<DocumentKind> = []
        let journal = try #require(world.fixture.store as? FailingStore).journal
        for case .documentPut(let key, _, let body) in journal.flatMap(\.changes) {
            guard let read = Self.documents[key.kind], !body.isEmpty else { continue }
            if read(body) { kinds.insert(key.kind) }
            for bytes in Self.damaged(body) where !read(bytes) { unread += 1 }
        }
        let missing = Set(Self.documents.keys).subtracting(kinds)
        #expect(missing.isEmpty, "No call wrote \(missing).")
        let packed = Strategy.default.packed
        #expect(Strategy(packed: packed) != nil)
        for bytes in Self.damaged(packed) where Strategy(packed: bytes) == nil { unread += 1 }
        let heads = [RowHead(kind: .event, last: RowNumber(rawValue: 7), count: 3)].packed
        for bytes in Self.damaged(heads) where [RowHead](packed: bytes) == nil { unread += 1 }
        #expect([RowHead](packed: heads)?.first?.count == 3)
        // A split with rows, and the routes of its rows.
        func split(_ ranges: Int, _ number: UInt64) -> Split? {
            var packer = Packer()
            for number: UInt64 in [1, 1, 7, 8] { packer.add(number) }
            packer.add(16 as UInt8)
            packer.add(0 as UInt64)
            packer.add(UInt64(ranges))
            for _ in 0..<2 * ranges { packer.add(number) }
            packer.add(0 as UInt64)
            return Split(packed: packer.bytes)
        }
        #expect(split(1100, 1 << 40)?.rows?.ranges.count == 1100)
        #expect(split(1100, 1 << 53 - 1) == nil && split(1, .max) == nil && split(1, 1 << 62 - 1) == nil)
        var routes = Packer()
        for number: UInt64 in [1, 7, 8, 1] { routes.add(number) }
        routes.add(RowKind.event.rawValue)
        routes.add(9 as UInt64)
        #expect(RowRoutes(packed: routes.bytes).routes.first?.counts == [.event: 9])
        for bytes in Self.damaged(routes.bytes) where RowRoutes(packed: bytes).routes.isEmpty { unread += 1 }
    }

    @Test("survives a commit that fails, and one whose answer is lost", arguments: [CommitFault.before, .after])
    func faults(_ fault: CommitFault) throws {
        let world = try ActWorld(.sqlite)
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            world.fixture.failNextCommit(fault)
            let first = world.make(act)
            if !world.fixture.writer.needsRecovery {
                world.fixture.cancelCommitFault()
                return try first.get()
            }
            #expect(world.fixture.writer.recover() == nil)
            let reply = try world.repeatLast(act).get()
            #expect(try world.calls(after: before).count == 1, "\(type(of: act)) took effect once")
            return reply
        }
    }

    @Test("is refused without a proof where it speaks for a known user")
    func proofs() throws {
        let world = try ActWorld(.memory)
        var refused = 0
        try world.playAll { act in
            for dialect in Dialect.allCases {
                let strategy = world.fixture.store.directory.strategy(of: World.project)
                guard act.subjects.spokenFor.contains(where: { strategy.isKnown($0, in: dialect) }) else { continue }
                let proof = IdentityProof(dialect: dialect, mode: .require, proven: [], fault: .missing)
                guard case .failure(.refused(let refusal)) = world.make(act, proof) else {
                    Issue.record("\(type(of: act)) speaks for a known user, and took no proof.")
                    continue
                }
                #expect(refusal.tokenFault == .missing)
                refused += 1
            }
            return try world.make(act).get()
        }
        #expect(refused >= 9)
    }

    @Test("is taken back as if it had never been made, and its undo too, or says why not")
    func undos() throws {
        var (undone, refused): (Set<String>, [String: Set<String>]) = ([], [:])
        var number = 0
        while true {
            // The first world takes the call with this number back. The second world stops before the call.
            let (one, other) = (try ActWorld(.memory), try ActWorld(.memory))
            guard let call = try one.play(upTo: number + 1).last else { break }
            guard try other.play(upTo: number).count == number else { break }
            number += 1
            let made = try one.calls(after: call.before).first
            guard let made else { continue }
            let kind = made.kind
            let undoable = try #require(try one.undoable(made.sequence), "\(kind.name)")
            if case .never(let reason) = kind.undo {
                #expect(undoable.refusal?.code == reason.rawValue, "\(kind.name): \(undoable)")
                #expect(undoable.plan.people.isEmpty && undoable.factsEnded.isEmpty && undoable.factsBack.isEmpty)
                refused[kind.name, default: []].insert(reason.rawValue)
                continue
            }
            if let refusal = undoable.refusal {
                #expect(["rows_stay", "nothing_changed"].contains(refusal.code), "\(kind.name): \(refusal)")
                refused[kind.name, default: []].insert(refusal.code)
                continue
            }
            let played = try one.reading(of: nil)
            let planned = try one.reading(of: nil, after: one.fixture.rehearse(UndoCall(undoable.plan)))
            let undo = try one.undo(made.sequence)
            undone.insert(kind.name)
            if undoable.plan.strategy == nil {
                #expect(try planned == one.reading(of: nil), "\(kind.name): as the answer showed it before")
            }
            let people = try other.people()
            let difference = try one.reading(of: people).difference(from: other.reading(of: people))
            #expect(difference.isEmpty, "\(kind.name), call \(made.sequence.rawValue): \(difference)")
            let after = try #require(try one.undoable(made.sequence))
            #expect(after.refusal?.code == "already_undone" && after.undoneBy == undo.sequence, "\(kind.name)")
            #expect(undo.events.contains { $0.kind == .callUndone }, "\(kind.name)")
            #expect(one.make(UndoCall(undoable.plan)).isRefused, "\(kind.name) is taken back once")
            // An alias and a transfer that came back are as before, apart from the moment of their undo.
            let redo = try one.undo(undo.sequence)
            #expect(redo.kind == undo.kind)
            #expect(try one.reading(of: nil) == played, "\(kind.name): the undo is taken back")
            #expect(try one.undoable(made.sequence)?.refusal == nil, "\(kind.name) can be taken back again")
        }
        let missing = Registry.kinds.values.filter { kind in
            if case .never = kind.undo { return false }
            return !undone.contains(kind.name) && refused[kind.name] == nil
        }
        #expect(Set(missing.map(\.name)) == ActTableTests.notInTheTable, "\(missing.map(\.name))")
    }

    @Test("leaves a store that opens when it is taken back, and has the same directory")
    func opensAfterUndo() throws {
        var (number, undone) = (0, 0)
        while true {
            let world = try ActWorld(.sqlite)
            let played = try world.play(upTo: number + 1)
            guard played.count == number + 1, let call = played.last else { break }
            number += 1
            guard let made = try world.calls(after: call.before).first,
                try world.undoable(made.sequence)?.refusal == nil
            else { continue }
            _ = try world.undo(made.sequence)
            undone += 1
            let before = world.fixture.store.directory
            try world.fixture.reopen()
            let after = world.fixture.store.directory
            #expect(
                after.storeOptions(of: World.project) == before.storeOptions(of: World.project), "\(made.kind.name)")
            #expect(after.strategy(of: World.project) == before.strategy(of: World.project), "\(made.kind.name)")
            #expect(Set(after.apps.keys) == Set(before.apps.keys) && Set(after.keys.keys) == Set(before.keys.keys))
            #expect(try world.undoable(made.sequence)?.refusal?.code == "already_undone", "\(made.kind.name)")
        }
        #expect(undone > 40)
    }

    @Test("of the first options for stores leaves a store that opens", arguments: StoreKind.allCases)
    func firstStoreOptions(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        func options() -> StoreOptions { fixture.store.directory.storeOptions(of: World.project) }
        let before = options()
        _ = try fixture.process(SetStoreOptions(["app_store.app_id": .plain("5")]))
        let (last, directory) = (fixture.store.counts.lastSequence, fixture.store.directory)
        let undoable = try fixture.store.read { snapshot throws(StoreFault) in
            try Undoable(last, in: World.project, directory, snapshot)
        }
        _ = try fixture.process(UndoCall(try #require(undoable).plan, reason: "a mistake"))
        for _ in 0..<2 {
            #expect(options() == before)
            try fixture.reopen()
        }
        _ = try fixture.process(SetStoreOptions(["app_store.app_id": .plain("6")]))
        let set = options()
        try fixture.reopen()
        #expect(options() == set && set != before)
    }

    /// The kinds of calls that can be taken back and that no act of the table makes.
    private static let notInTheTable: Set<String> = ["logout", "undo_settings"]

    /// The greatest limit of a person's identities, with room for the identities that acts add.
    private static let largest = Bounds.identitiesPerPersonRange.upperBound - 100

    @Test(
        "takes as many steps as what it names and answers asks for, however large its people, groups and store are",
        arguments: [1, 100, Soak.factor > 1 ? ActTableTests.largest : 2_000])
    func work(_ size: Int) throws {
        let world = try ActWorld(.sqlite, isCounted: true)
        var edit = StrategyEdit()
        edit.membersPerGroup = Bounds.membersPerGroupRange.upperBound
        edit.identitiesPerPerson = Bounds.identitiesPerPersonRange.upperBound
        edit.identitiesPerDeviceType = Bounds.identitiesPerDeviceTypeRange.upperBound
        _ = try world.make(SetStrategy.edit(edit)).get()
        try world.playAll { act in
            try world.grow(act, to: size)
            return try world.make(act).get()
        }
        let counted = try #require(world.fixture.counter).most
        let missing = Registry.acts.map { "\($0)" }.filter { counted[$0] == nil }
        #expect(missing.isEmpty, "No steps of \(missing) were counted.")
        for (name, most) in counted.sorted(by: { $0.value.share > $1.value.share }) {
            Soak.report("\(name) takes \(most.steps) steps at size \(size), \(Int(most.share * 100)) % of its bound")
        }
    }

    @Test("has numbers and a name of its own")
    func registry() {
        for (number, kind) in Registry.kinds {
            #expect(ActKind(rawValue: number) == kind && !kind.name.isEmpty)
        }
        #expect(Set(Registry.kinds.values.map(\.name)).count == Registry.kinds.count)
        #expect(ActKind(rawValue: 254) == nil)
    }

    /// The kinds of calls that no history of a person shows, by the reason.
    private static let inNoHistory: [String: Set<String>] = [
        "The call changes a project, its apps, its keys or its settings.": [
            "set_up", "make_app", "change_settings", "set_strategy", "set_client_config", "set_store_options",
            "linking_settings", "edit_catalog", "make_signing_key", "retire_signing_key", "rotate_master_key",
            "make_webhook", "remove_webhook", "replay_delivery",
        ],
        "The call is about a definition, a questionnaire or an issue of the project.": [
            "define", "set_questionnaire", "set_issue_status", "merge_issues",
        ],
        "The call is a session of the console.": [
            "make_console_link", "open_console", "close_console", "note_console_use",
        ],
        "The call begins or ends an import of many people.": ["start_import", "finish_import", "undo_import"],
        "The entry is a note of the server.": [
            "note_key_use", "note_deliveries", "note_missed_notifications", "note_store_notice", "note_purchase_checks",
            "replan_purchase_checks", "keep_row_runs", "expire_rows", "settle_split_rows", "restored", "repaired",
        ],
        "The server knows no person of the upload.": ["refuse_upload"],
        "The person was erased, and its history with it.": ["erase", "release_tombstone"],
    ]

    @Test("is shown in the histories of its people under the name of its kind, or is about nobody")
    func histories() throws {
        let world = try ActWorld(.memory)
        var (shown, about): (Set<String>, Set<String>) = ([], [])
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            let reply = try world.make(act).get()
            for call in try world.calls(after: before) {
                about.insert(call.kind.name)
                for person in try world.present(ActWorld.people(of: call)) {
                    shown.insert(call.kind.name)
                    let history = try world.fixture.store.read { snapshot throws(StoreFault) in
                        try snapshot.calls(of: person, before: nil, limit: 100)
                    }
                    let found = history.first { $0.sequence == call.sequence }
                    #expect(found?.kind.name == call.kind.name, "\(call.kind.name) is in the history of \(person)")
                }
            }
            return reply
        }
        let listed = ActTableTests.inNoHistory.values.reduce(into: Set()) { $0.formUnion($1) }
        #expect(about.subtracting(shown) == listed)
    }

    @Test("leaves no identity value of its person in the store once the person is erased")
    func erasures() throws {
        var (number, checked) = (0, Set<String>())
        while true {
            let world = try ActWorld(.sqlite)
            var values: [PersonID: Set<String>] = [:]
            let played = try world.play(upTo: number + 1) { calls in
                for case .linked(let person, _, let value) in calls.flatMap(\.facts) {
                    values[person, default: []].insert(value)
                }
            }
            guard played.count > number, let last = played.last else { break }
            number += 1
            var people = try world.people(of: last.act)
            for call in try world.calls(after: last.before) { people.formUnion(ActWorld.people(of: call)) }
            for person in try world.present(people) where try world.present([person]) == [person] {
                if case .failure(let refusal) = world.make(ErasePerson(person)) {
                    Issue.record("\(type(of: last.act)): \(refusal)")
                }
            }
            while try world.fixture.store.sweep() {}
            while try world.fixture.store.compact() != .done {}
            let present = Set(try world.present(Set(values.keys)))
            let held = values.filter { present.contains($0.key) }.values.reduce(into: Set()) { $0.formUnion($1) }
            let gone = values.filter { !present.contains($0.key) }.flatMap(\.value)
                .filter { $0.utf8.count >= 12 && !held.contains($0) }
            if gone.isEmpty { continue }
            let name = "\(type(of: last.act))"
            checked.insert(name)
            let traces = try world.traces(of: gone)
            #expect(traces.isEmpty, "\(name) leaves \(traces) of an erased person")
        }
        #expect(checked.count >= 50, "\(checked.count) acts are about people with identities")
    }

    @Test(
        "answers and changes in a rehearsal what it answers and changes itself, and nothing is kept",
        arguments: StoreKind.allCases)
    func rehearsals(_ kind: StoreKind) throws {
        let world = try ActWorld(kind)
        try world.playAll { act in
            let people = try world.people()
            let (before, reading) = (world.fixture.store.counts.lastSequence, try world.reading(of: people))
            let rehearsal = try world.fixture.rehearse(act)
            #expect(world.fixture.store.counts.lastSequence == before, "\(type(of: act)): nothing is journalled")
            #expect(try world.reading(of: people) == reading, "\(type(of: act)): nothing changes")
            let reply = try world.make(act).get()
            #expect(rehearsal.reply.withoutNumbers == reply.withoutNumbers, "\(type(of: act))")
            let made = try world.calls(after: before).flatMap(\.facts).flatMap(\.short)
            #expect(rehearsal.changes.compactMap(\.short).sorted() == made.sorted(), "\(type(of: act))")
            return reply
        }
    }

    @Test("is decided again by a dry run of a strategy where the rules for finding people decide the act")
    func naming() throws {
        let world = try ActWorld(.memory)
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            let reply = try world.make(act).get()
            for call in try world.calls(after: before) {
                #expect(NamingAct.hasForm(of: call.kind) == (act.naming != nil), "\(type(of: act))")
                if let naming = act.naming { #expect(naming.journalKind == call.kind, "\(type(of: act))") }
            }
            return reply
        }
    }

    /// The acts whose decisions read no group, so the journal has nothing to keep. The test of the steps makes each of these
    /// acts with people of large groups, and an assertion fails if a decision reads a group.
    private static let readNoGroup: Set<String> = [
        "MakeAccessUser", "GrantAccess", "RevokeAccess", "RecordPurchase", "SetAccessProperties",
        "UndoTransfer", "SendFeedback", "DeleteFeedback", "StoreAttachment", "DeleteAttachment",
        "NoteEventOfAttachments", "DetachIdentity", "ReleaseDevice", "MakeInstall", "CheckInstall", "SubmitRows",
        "RefreshTokens", "ResetInstall", "DisableInstall", "EditLinking", "MakeLinkingApp", "MakeLinkingKey",
        "RevokeLinkingKey",
    ]

    @Test("is kept by the journal if an undo of a merge decides it again")
    func kept() {
        let unkept = Registry.acts.filter { $0.readsMerges && !($0 is any KeptAct.Type) }
        #expect(Set(unkept.map { "\($0)" }) == ActTableTests.readNoGroup)
    }
}

extension Reply {
    /// The letters of the answer as text, without ids and moments, of which each try of a call has others. Dictionaries have no order.
    fileprivate var withoutNumbers: String { String("\(plain)".replacing(/[0-9]{10,}/, with: "#").sorted()) }
}

extension Change {
    /// What the change has in common with the same change of another try; nil for changes that the journal does not list as facts.
    fileprivate var short: String? {
        switch self {
        case .personMade: "made"
        case .linked(_, let identity): "linked \(identity.type.name)"
        case .unlinked(_, let type, _): "unlinked \(type.name)"
        case .rowAdded(_, let row): "row \(row.kind)"
        case .merged(let merge): "merged \(merge.rule.name)"
        case .mergeUndone(let merge): "ended \(merge.rule.name)"
        case .personErased: "erased"
        case .documentPut, .rowSuperseded, .projectMade, .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed,
            .strategySet:
            nil
        }
    }
}

extension RecordedCall.Fact {
    /// The same for a fact of the journal, which lists the rows of a kind together.
    fileprivate var short: [String] {
        switch self {
        case .personMade: ["made"]
        case .linked(_, let type, _): ["linked \(type.name)"]
        case .unlinked(_, let type, _): ["unlinked \(type.name)"]
        case .rowsAdded(_, let kind, let count, _): Array(repeating: "row \(kind)", count: count)
        case .merged(let merge): ["merged \(merge.rule.name)"]
        case .mergeUndone(let merge): ["ended \(merge.rule.name)"]
        case .personErased: ["erased"]
        case .documentPut: []
        }
    }
}
