import ByteText
import Crypto
import Domain
import FaultyDisk
import Foundation
import StoreSQLite

extension DocumentKey {
    /// The person whose document it is.
    fileprivate var person: PersonID { PersonID(rawValue: Int64(bitPattern: hash.low)) }
}

/// A history that is being lived: the machine, what its callers know, and what must be true.
struct Life {
    private let machine: Machine?
    private let maker: CallMaker?
    private var knowledge = Knowledge()
    var trace: Trace
    var coverage = Coverage()
    private(set) var calls = 0
    private let seed: UInt64

    /// The calls of the journal that an answer promised, by their sequence.
    private var promised: [Int64: String] = [:]
    private var lastRead: Int64 = 0
    private var isJournalRead = false
    private var lastMade: (person: Int64, at: Int64) = (0, .min)
    /// The latest moment of the journal.
    private var latestMade = Int64.min
    /// The request ids of the journal, and how many calls it has of each.
    private var written: [String: Int] = [:]
    /// Answered calls that can be repeated, with the wall clock of the answer.
    private var repeatable: [(call: MadeCall, id: String, status: Int, body: String, at: Int64)] = []
    /// Who claimed an anonymous id of the Claim dialect.
    private var claims: [String: String] = [:]
    /// The merges in force before the present step.
    private var mergesBefore: Set<MergeID> = []
    /// Which install redeemed a code.
    private var redeemed: [String: String] = [:]
    private var erased: [String] = []
    private var hasTakenBack = false
    /// Whether a fault may be at work, so that calls may fail.
    private var isDisturbed = false
    /// Whether two identities may own one purchase, because the project's strategy has been to copy.
    private var mayShare = false
    /// How far the clock went ahead, and until when the server has to doubt it, by the clock that only counts.
    private var doubt: (milliseconds: Int64, until: UInt64) = (0, 0)
    /// Whether the clock jumped since the last call.
    private var hasJumped = false
    /// The ends of retention that the journal has, and the number of its entries that were looked at.
    private var ends: (all: [ExpiredRows], lookedAt: Int) = ([], 0)
    /// What a follower of the feed has read: the changes, and where it stands.
    private var feed: (after: Int64, lines: [String]) = (0, [])

    init(_ history: History, keepsTrace: Bool) {
        trace = Trace(keepsLines: keepsTrace)
        seed = history.seed
        machine = try? Machine(seed: history.seed)
        let transfers = history.seed % 4 < 2
        maker = machine.map {
            CallMaker(credentials: $0.credentials, receipts: Machine.receipts, transfersPurchases: transfers)
        }
        guard transfers, let machine, let maker else { return }
        let call = maker.strategy("default")
        _ = machine.send(call.bytes(id: "transfers"))
    }

    // MARK: - Steps

    mutating func take(_ step: History.Step, at place: Int) throws(History.Failure) {
        guard let machine else { throw fail("start", place, "the first start failed") }
        if !step.isCall { trace.add("\(place) \(step)") }
        mergesBefore = Set(machine.shadow.facts.merges.map(\.id))
        if step.disturbs { isDisturbed = true }
        let restore = machine.shadow.facts.directory.strategy(of: ProjectID(rawValue: 1)).restore
        if restore[.sandbox] == .copy || restore[.production] == .copy { mayShare = true }
        switch step {
        case .call(let deed, let seed): try call(deed, seed, at: place)
        case .twice(let deed, let seed): try callTwice(deed, seed, at: place)
        case .both(let one, let other, let seed, let isPipelined):
            try callBoth([one, other], seed, isPipelined: isPipelined, at: place)
        case .flood: try flood(at: place)
        case .restart:
            machine.stop()
            try rest(at: place)
        case .kill:
            machine.kill()
            try rest(at: place)
        case .powerCut(let loss):
            machine.cutPower(loss)
            try rest(at: place)
        case .fail(let operation, let skip, let times):
            machine.disk.faults.failing[operation] = .init(skip: skip, times: times)
        case .powerCutWithin(let changes): machine.disk.faults.changesUntilPowerCut = changes
        case .fill(let room): machine.disk.faults.room = room
        case .makeRoom: machine.disk.faults.room = nil
        case .slowSyncs(let milliseconds): machine.disk.faults.syncNanoseconds = milliseconds * 1_000_000
        case .jump(let milliseconds):
            // The server has noticed the jump before.
            machine.step()
            try checkRetention(at: place)
            machine.jump(byMilliseconds: milliseconds)
            noteJump(milliseconds)
            hasJumped = true
        case .pass(let milliseconds):
            machine.pass(milliseconds: milliseconds)
            machine.step()
        }
    }

    /// Looks at everything at the end of a life, without faults.
    mutating func finish(at place: Int) throws(History.Failure) {
        guard let machine else { throw fail("start", place, "the first start failed") }
        if machine.disk.hasLostPower {
            machine.cutPower(.any)
            try rest(at: place)
        }
        machine.disk.faults = FaultyDisk.FaultPlan()
        for _ in 0..<20 where !machine.isHealthy {
            machine.pass(milliseconds: 3000)
            machine.step()
        }
        guard machine.isHealthy else { throw fail("ready", place, "the server did not recover without faults") }
        try checkOldRows(at: place)
        try checkErased(at: place)
        machine.stop()
        try rest(at: place)
        for _ in 0..<3 { machine.step() }
        try checkFiles(areAlone: true, at: place)
        trace.add("end \(machine.shadow.sequence)")
        if seed % 4 == 3 { try rot(at: place) }
    }

    /// Lets a file of the store rot: the server and its doctor notice it, or it does no harm.
    private mutating func rot(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        var chance = Chance(seed, "rot")
        machine.kill()
        let path = "/data/onym.db" + (chance.oneIn(3) ? "" : chance.oneIn(8) ? ".head" : "-wal")
        let (kind, number) = (chance.below(4), Int(chance.next() >> 2))
        machine.disk.rot(path.replacing(".db.head", with: ".head")) { bytes in
            guard let count = bytes?.count, count > 0 else { return }
            let start = number % count
            switch kind {
            case 0: bytes?[start] ^= 1 << UInt8(number % 8)
            case 1: bytes?.removeLast(count - start)
            case 2: for index in start..<min(start + 64, count) { bytes?[index] = 0 }
            // The log is lost. Without the file of the store there would be no store at all.
            default: bytes = path.hasSuffix("-wal") ? nil : bytes
            }
        }
        trace.add("rot \(kind) of \(path)")
        do throws(StoreFault) {
            if let finding = try machine.findings().first { return trace.add("noticed: \(finding)") }
            try machine.start()
        } catch {
            return trace.add("noticed: \(error)")
        }
        do throws(History.Failure) {
            try readJournal(at: place, fromStart: true)
            try compareWithShadow(at: place)
        } catch {
            throw fail("rot", place, "kind \(kind) of \(path) at \(number): nobody noticed, and \(error.message)")
        }
    }

    private func fail(_ oracle: String, _ place: Int, _ message: String) -> History.Failure {
        History.Failure(oracle: oracle, step: place, message: message)
    }

    // MARK: - Calls

    private mutating func call(_ deed: Deed, _ seed: UInt64, at place: Int) throws(History.Failure) {
        guard let machine, let maker else { return }
        var chance = Chance(seed)
        guard var call = maker.make(deed, &chance, &knowledge, wall: machine.wall) else { return }
        let id = "w\(place)"
        if deed.isRemembered { call.fields.append(("Idempotency-Key", id)) }
        var way = Machine.Way()
        let chunk = chance.oneIn(8) ? 1 + chance.below(40) : nil
        let bytes = call.bytes(id: id, chunk: chunk)
        if chance.oneIn(4) { way.cuts = (0..<1 + chance.below(3)).map { _ in chance.below(bytes.count) } }
        if chance.oneIn(12) { way.window = 20 + chance.below(300) }
        way.leaves = chance.oneIn(40)
        way.endsWriting = chance.oneIn(25)
        if !way.isPlain { trace.add("\(place) \(way)") }
        let merges = knowledge.known["merge"]?.count ?? 0
        let picture = deed == .merge && chance.oneIn(3) && History.takesBack(self.seed) ? pictureOfGroups() : nil
        let answer = try send(call, id, bytes, way, at: place)
        if chunk != nil, answer?.status == 400 { try checkWhole(call, at: place) }
        if let picture, knowledge.known["merge"]?.count ?? 0 > merges {
            try undoAtOnce(picture, changesRules: chance.oneIn(2), at: place)
        }
        if chance.oneIn(5) { try repeatEarlier(&chance, at: place) }
        if deed == .makeKey || deed == .revokeKey { try checkRevoked(at: place) }
        if chance.oneIn(6) { try follow(at: place) }
    }

    @discardableResult
    private mutating func send(
        _ call: MadeCall, _ id: String, _ bytes: [UInt8], _ way: Machine.Way, at place: Int
    ) throws(History.Failure) -> WireAnswer? {
        guard let machine else { return nil }
        calls += 1
        let before = machine.disk.happened
        let rows = machine.store?.counts.rows ?? 0
        let answer = machine.send(bytes, way)
        let fault =
            machine.disk.happened.filter { $0.value != before[$0.key] ?? 0 }.keys.sorted().first
            ?? (hasJumped ? "clock" : way.isPlain ? "none" : "wire")
        hasJumped = false
        note(call, answer, at: place)
        if !way.leaves { try checkAnswered(call.deed, answer, at: place) }
        if let line = machine.overworked.lines.first { throw fail("work", place, line) }
        try readAfter(machine, at: place)
        let isKept = written[id] != nil
        let moment = isKept ? "after commit" : answer.map { $0.status >= 500 } ?? true ? "in commit" : "before"
        coverage.cells[.init(deed: call.deed, fault: fault, moment: moment), default: 0] += 1
        try checkRows(of: call, answer, since: rows, isKnown(call), at: place)
        if let answer { try learn(call, id, answer, at: place) } else if call.deed.takesBack { hasTakenBack = true }
        if answer == nil || answer?.status == 503 { try settle(call, id, bytes, at: place) }
        return answer
    }

    /// A body in chunks is refused only if the same body in one piece is.
    private mutating func checkWhole(_ call: MadeCall, at place: Int) throws(History.Failure) {
        guard let machine, let answer = machine.send(call.bytes(id: "whole\(place)")) else { return }
        trace.add("\(place) whole \(answer.status)")
        try readAfter(machine, at: place)
        if answer.isSuccess { throw fail("whole body", place, "\(call.deed) was refused in chunks only") }
    }

    /// Sends a call again whose result is unknown: the repetition settles it, and nothing happens twice.
    private mutating func settle(
        _ call: MadeCall, _ id: String, _ bytes: [UInt8], at place: Int
    ) throws(History.Failure) {
        guard let machine, call.deed.isRemembered else { return }
        let wasKept = written[id] != nil
        guard let answer = machine.send(bytes) else { return }
        trace.add("\(place) again \(answer.status) \(answer.body)")
        try readJournal(at: place)
        if wasKept, !answer.isSuccess, answer.status < 500, !hasTakenBack {
            throw fail(
                "repeated", place, "\(call.deed) was kept, and its repetition got \(answer.status) \(answer.body)")
        }
        try learn(call, id, answer, at: place)
    }

    /// Sends an answered call again: it gets the same answer.
    private mutating func repeatEarlier(_ chance: inout Chance, at place: Int) throws(History.Failure) {
        guard let machine, let earlier = chance.pick(repeatable) else { return }
        // The server remembers a call for a day.
        guard abs(serverNow(machine) - earlier.at) < 20 * 3_600_000, !hasTakenBack else { return }
        let before = written[earlier.id]
        guard let answer = machine.send(earlier.call.bytes(id: earlier.id)) else {
            if machine.disk.hasLostPower {
                machine.cutPower(.any)
                try rest(at: place)
            }
            return
        }
        trace.add("\(place) repeats \(earlier.id) \(answer.status)")
        try readJournal(at: place)
        if answer.status == 503 || answer.status == 401 { return }
        // The preview in the answer of a merge shows the people as they are now.
        let isSame =
            [.merge, .split].contains(earlier.call.deed)
            ? answer.text("id") == WireAnswer.text(["id"], in: WireAnswer.json(earlier.body))
            : answer.body == earlier.body
        guard answer.status == earlier.status, isSame else {
            throw fail(
                "repeated", place,
                "\(earlier.call.deed) got \(earlier.status) \(earlier.body), and then \(answer.status) \(answer.body)")
        }
        guard written[earlier.id] == before else {
            throw fail("nothing twice", place, "\(earlier.call.deed) \(earlier.id) was written again")
        }
        // The same key with another body is another call, and refused.
        guard earlier.call.deed == .feedback, let body = earlier.call.body else { return }
        let other = MadeCall(
            deed: .feedback, method: earlier.call.method, path: earlier.call.path, fields: earlier.call.fields,
            body: body.replacing("\"message\":\"m", with: "\"message\":\"other"))
        guard let answer = machine.send(other.bytes(id: earlier.id)), !machine.disk.hasLostPower else {
            if machine.disk.hasLostPower {
                machine.cutPower(.any)
                try rest(at: place)
            }
            return
        }
        if answer.isSuccess {
            throw fail("repeated", place, "\(other.deed) with another body got \(answer.status) \(answer.body)")
        }
        try readJournal(at: place)
    }

    /// Takes from an answer what later calls need, and checks what the answer promises.
    private mutating func learn(
        _ call: MadeCall, _ id: String, _ answer: WireAnswer, at place: Int
    ) throws(History.Failure) {
        guard let machine else { return }
        if answer.status == 500 { throw fail("500", place, "\(call.deed): \(answer.body)") }
        // A call whose head did not arrive in time has no id of its own.
        if answer.id != id, answer.status != 408 {
            throw fail("own answer", place, "\(call.deed) \(id) got the answer of \(answer.id)")
        }
        guard answer.isSuccess else { return }
        if call.deed.takesBack { hasTakenBack = true }
        if call.deed.alwaysWrites, isJournalRead {
            guard let count = written[id] else {
                throw fail(
                    "acknowledged is there", place, "\(call.deed) \(id) has 2xx, and the journal does not have it")
            }
            if call.deed.isRemembered {
                guard count == 1 else {
                    throw fail("nothing twice", place, "\(call.deed) \(id) is \(count) times in the journal")
                }
                repeatable.append((call, id, answer.status, answer.body, machine.wall.milliseconds))
            }
        }
        for sequence in machine.shadow.sequence - 3...machine.shadow.sequence where sequence > 1 && place % 7 == 0 {
            knowledge.learn("sequence", String(sequence))
        }
        switch call.deed {
        case .identify, .identifyUser:
            knowledge.learn("mpid", answer.text("mpid") ?? answer.text("person"))
            if let name = call.body?.range(of: #"gone-[0-9]+x"#, options: .regularExpression) {
                knowledge.learn("gone", call.body.map { String($0[name]) })
            }
            try checkPerson(answer.text("mpid"), at: place)
        case .claim: try checkClaim(call, at: place)
        case .accessUser: knowledge.learn("access", call.path.split(separator: "/").last.map(String.init))
        case .feedback:
            knowledge.learn("feedback", answer.text("id") ?? answer.text("feedback", "id"))
            learnProject(at: place)
        case .ingest:
            knowledge.learn("event", call.about["event"])
            if let event = call.about["event"], knowledge.madeAt[event] == nil {
                knowledge.madeAt[event] = machine.wall.milliseconds
            }
            learnList("issue", of: "issues", at: place)
        case .reserve:
            if let id = answer.text("attachment_id"), let content = call.about["content"] {
                knowledge.learn("reserved", "\(id) \(content)")
            }
        case .storeFile:
            if let id = answer.text("attachment_id"), let url = answer.text("download_url").flatMap(URL.init(string:)),
                let content = call.about["content"]
            {
                knowledge.learn("file", "\(id) \(url.path)\(url.query.map { "?\($0)" } ?? "") \(content)")
            }
        case .readFile:
            guard let number = call.about["content"].flatMap(Int.init), answer.body == CallMaker.contents[number] else {
                throw fail("whole file", place, "a file has other bytes than were sent: \(answer.body)")
            }
        case .questionnaire: learnList("questionnaire", of: "questionnaires", at: place)
        case .respond: knowledge.learn("response", answer.text("id"))
        case .comment:
            if let feedback = call.about["feedback"], let comment = answer.text("id") ?? answer.text("comment", "id") {
                knowledge.learn("comment", "\(feedback) \(comment)")
            }
        case .purchase: knowledge.learn("transaction", call.about["transaction"])
        case .transfer, .restore: knowledge.learn("transfer", answer.text("transfer_id") ?? answer.text("id"))
        case .install:
            knowledge.learn("install", answer.text("install_id"))
            learnTokens(answer)
        case .code:
            let code = answer.text("authentication_code")
            knowledge.learn("code", code)
            if let code { knowledge.madeAt[code] = machine.wall.milliseconds }
            try checkExpiry(answer.text("expires_at"), at: place)
        case .redeem, .late:
            learnTokens(answer)
            knowledge.learn("install", answer.text("user_id"))
            try checkCode(call, at: place)
        case .refresh: learnTokens(answer)
        case .linkingApp: knowledge.learn("linking_app", answer.text("app_id"))
        case .linkingKey: knowledge.learn("linking_key", answer.text("id") ?? answer.text("key_id"))
        case .merge: knowledge.learn("merge", answer.text("id"))
        case .split: knowledge.learn("split", answer.text("id"))
        case .alias:
            // The vendor's answer does not name the alias.
            let aliases = machine.shadow.facts.documents.keys.filter { $0.kind == .alias }
            knowledge.learn("alias", aliases.map(\.hash.low).max().map { String($0) })
        case .erase: if let gone = call.about["gone"] { erased.append(gone) }
        case .makeKey:
            if let key = answer.text("id"), let text = answer.text("key") { knowledge.learn("key", "\(key) \(text)") }
        case .revokeKey:
            if let key = call.about["key"] {
                knowledge.forget("key", key)
                knowledge.learn("revoked", key.split(separator: " ").last.map(String.init))
            }
        case .signingKey: knowledge.learn("signing", answer.text("id"))
        case .webhook: knowledge.learn("webhook", answer.text("id"))
        case .startImport: knowledge.learn("import", answer.text("id"))
        case .search, .modify, .undoAlias, .upload, .badUpload, .importEvents, .properties, .define, .deleteFeedback,
            .reviewResponse, .deleteFile, .editComment, .review, .issueStatus, .mergeIssues, .partIssues,
            .retention, .accessIdentity, .attribution, .storeOptions, .grant, .revoke, .accessProperties, .catalog,
            .undoTransfer, .link, .hard, .check, .rows, .reset, .deleteUser, .disable, .linkingSettings,
            .revokeLinkingKey, .undoMerge, .undoSplit, .undoCall, .attach, .detach, .releaseDevice, .joinUsers,
            .sameUsers, .strategy,
            .retireSigningKey, .removeWebhook, .config, .importRecords, .finishImport, .undoImport,
            .changes,
            .person:
            break
        }
    }

    /// Learns the id of the project in the Claim dialect.
    private mutating func learnProject(at place: Int) {
        guard knowledge.known["claim_project"] == nil else { return }
        knowledge.learn("claim_project", ids("projects", at: "/v1/projects", place).first)
    }

    /// Learns the ids of a list of the project in the Claim dialect.
    private mutating func learnList(_ kind: String, of list: String, at place: Int) {
        // A list that fails would use up the fault that waits for the next call.
        guard !isDisturbed, let project = knowledge.known["claim_project"]?.first else { return }
        for id in ids(list, at: "/v1/projects/\(project)/\(list)", place) { knowledge.learn(kind, id) }
    }

    /// The ids of a list of the Claim dialect.
    private func ids(_ list: String, at path: String, _ place: Int) -> [String] {
        guard let machine else { return [] }
        let call = MadeCall(
            deed: .feedback, method: "GET", path: path,
            fields: [("Authorization", "Bearer \(machine.credentials.claimAgentKey)")], body: nil)
        let items = machine.send(call.bytes(id: "p\(place)"))?.json[list] as? [[String: Any]] ?? []
        return items.compactMap { $0["id"] as? String }
    }

    private mutating func learnTokens(_ answer: WireAnswer) {
        knowledge.learn("token", answer.text("access_token") ?? answer.text("token"))
        knowledge.learn("refresh", answer.text("refresh_token"))
    }
}

// MARK: - What must be true

extension Life {
    /// A store at rest: opened again, it has what was acknowledged, its doctor is content, and its facts follow from its journal.
    private mutating func rest(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        // The power may have gone while the server ended.
        if machine.disk.hasLostPower { machine.cutPower(.any) }
        machine.disk.faults = FaultyDisk.FaultPlan()
        isDisturbed = false
        let findings: [String]
        do throws(StoreFault) {
            findings = try machine.findings()
            try machine.start()
        } catch {
            throw fail("opens", place, error.description)
        }
        if let finding = findings.first { throw fail("doctor", place, finding) }
        guard machine.hasMasterKey else { throw fail("master key", place, "the file has not the keys of the start") }
        // A start knows no jump.
        doubt = (0, 0)
        try readJournal(at: place, fromStart: true)
        try compareWithShadow(at: place)
        try checkYoungRows(at: place)
        try checkPurchases(at: place)
        try checkInstalls(at: place)
        try checkFiles(at: place)
        try follow(at: place)
    }

    /// The bytes of each kept attachment are on the disk, whole.
    ///
    /// - Parameter areAlone: whether no other files may be there.
    private func checkFiles(areAlone: Bool = false, at place: Int) throws(History.Failure) {
        guard let machine else { return }
        var wanted: Set<String> = []
        for (key, body) in machine.shadow.facts.documents where key.kind == .attachment {
            guard let attachment = Attachment(packed: body), attachment.state == .stored else { continue }
            let digest = attachment.description.digest
            let name = Hexadecimal.encode(digest)
            let path = "\(Machine.attachments)/\(name.prefix(2))/\(name)"
            wanted.insert(path)
            guard let bytes = machine.disk.bytes(of: path), SHA256.digest(of: bytes).bytes == digest else {
                throw fail("acknowledged is there", place, "the bytes of attachment \(attachment.id.rawValue) are lost")
            }
        }
        guard areAlone else { return }
        let files = machine.disk.paths.filter { $0.hasPrefix(Machine.attachments + "/") }
        if let file = files.first(where: { !wanted.contains($0) }) {
            throw fail("erased", place, "\(file) is still there, and no attachment has it")
        }
    }

    /// Nobody waits, and nobody is told to come again, as long as no fault is at work.
    private func checkAnswered(_ deed: Deed, _ answer: WireAnswer?, at place: Int) throws(History.Failure) {
        guard !isDisturbed, let machine, !machine.disk.hasLostPower else { return }
        guard let answer else { throw fail("nobody waits", place, "\(deed) got no answer") }
        if answer.status == 503 { throw fail("nobody waits", place, "\(deed) got 503 \(answer.body)") }
    }

    /// A purchase has one owner, as long as the project never copied purchases.
    private func checkPurchases(at place: Int) throws(History.Failure) {
        guard let machine, !mayShare else { return }
        for (key, body) in machine.shadow.facts.documents where key.kind == .purchase {
            guard let purchase = Purchase(PurchaseID(hash: key.hash), packed: body) else { continue }
            if purchase.owners.count > 1 {
                throw fail("one owner", place, "\(purchase.transaction) is of \(purchase.owners)")
            }
        }
    }

    /// An install is active exactly if its user's document says so, and a user has no more active installs than the policy lets in.
    private func checkInstalls(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        let documents = machine.shadow.facts.documents
        var active: Set<DocumentKey> = []
        for (key, body) in documents where key.kind == .linkedUser {
            guard let user = LinkedUser(of: key.person, packed: body) else { continue }
            for live in user.live where live.isActive { active.insert(Install.key(of: live.name)) }
        }
        for (key, body) in documents where key.kind == .install {
            // The id of an install is not in its document, and does not matter here.
            let id = InstallID(rawValue: 0)
            guard let install = Install(id, IdentityKey(hash: key.hash), packed: body) else { continue }
            if (install.state == .active) != active.contains(key) {
                throw fail("installs", place, "an install is \(install.state.name), and its user says something else")
            }
        }
    }

    /// Reads the new calls of the journal, and compares the earlier ones with what was promised.
    private mutating func readJournal(at place: Int, fromStart: Bool = false) throws(History.Failure) {
        guard let machine, let store = machine.store else { return }
        var found: [(sequence: Int64, at: Int64, id: String, kind: String, people: [Int64], isImport: Bool)] = []
        let start = fromStart ? 0 : lastRead
        // The world's own look at the journal meets no faults.
        let faults = machine.disk.faults
        machine.disk.faults.failing = faults.failing.filter { ![.read, .shm].contains($0.key) }
        defer { machine.disk.faults.failing = faults.failing }
        isJournalRead = false
        do throws(StoreFault) {
            found = try store.read { snapshot throws(StoreFault) in
                try snapshot.calls(after: JournalSequence(rawValue: start), limit: 100_000).map { call in
                    (
                        call.sequence.rawValue, call.at.milliseconds, call.requestID, call.kind.name,
                        call.facts.compactMap { if case .personMade(let person) = $0 { person.rawValue } else { nil } },
                        call.kind == .importRecords
                    )
                }
            }
        } catch {
            // A machine without power says nothing about the journal.
            return
        }
        isJournalRead = true
        if fromStart {
            let last = found.last?.sequence ?? 0
            for (sequence, line) in promised.sorted(by: { $0.key < $1.key }) {
                guard sequence <= last, let call = found.first(where: { $0.sequence == sequence }) else {
                    throw fail(
                        "acknowledged is there", place, "call \(sequence) (\(line)) is lost; the last is \(last)")
                }
                // An erasure takes the request's id away.
                guard "\(call.id) \(call.kind)" == line || (call.id.isEmpty && line.hasSuffix(" \(call.kind)")) else {
                    throw fail(
                        "acknowledged is there", place, "call \(sequence) was \(line) and is \(call.id) \(call.kind)")
                }
            }
        }
        for call in found where call.sequence > lastRead {
            promised[call.sequence] = "\(call.id) \(call.kind)"
            if call.id.hasPrefix("w") { written[call.id, default: 0] += 1 }
            lastRead = call.sequence
            guard call.at >= lastMade.at || call.kind == "clock_step" else {
                throw fail("time", place, "call \(call.sequence) is at \(call.at), behind \(lastMade.at)")
            }
            lastMade.at = call.at
            latestMade = max(latestMade, call.at)
            for person in call.people where !call.isImport {
                guard person > lastMade.person else {
                    throw fail("ids rise", place, "person \(person) was made after \(lastMade.person)")
                }
                lastMade.person = person
            }
        }
        try checkRetention(at: place)
    }

    /// Notes a jump of the clock, which the server has to doubt for a while.
    private mutating func noteJump(_ milliseconds: Int64) {
        guard let machine, !isDisturbed, machine.isHealthy, milliseconds > 10_000 else {
            doubt = (0, 0)
            return
        }
        let rest = min(milliseconds / 10, Machine.retentionRestMilliseconds)
        let before = machine.disk.now < doubt.until ? doubt : (0, 0)
        doubt = (before.0 + milliseconds, max(before.1, machine.disk.now + UInt64(rest) * 1_000_000))
    }

    /// Retention ends no row that is younger than the fewest days, also by a clock that has just gone ahead.
    private mutating func checkRetention(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        let doubted = machine.disk.now < doubt.until ? doubt.milliseconds : 0
        for entry in machine.shadow.settled[ends.lookedAt...] where entry.kind == .expireRows {
            for case .documentPut(let key, _, let body) in entry.changes where key.kind == .expiredRows {
                guard let end = ExpiredRows(packed: body) else {
                    throw fail("retention", place, "an end of retention cannot be read")
                }
                let age = machine.wall.milliseconds - doubted - end.before.milliseconds
                if age < Life.fewestDays * Life.day {
                    throw fail("retention", place, "rows that are \(age) ms old go, with a doubt of \(doubted) ms")
                }
                if key == Life.endOfEvents { ends.all.append(end) }
            }
        }
        ends.lookedAt = machine.shadow.settled.count
    }

    /// The rows that no end of retention takes are in the store.
    private func checkYoungRows(at place: Int) throws(History.Failure) {
        guard let machine, let store = machine.store else { return }
        var young: Set<RowNumber> = []
        for state in machine.shadow.facts.people.values {
            for row in state.rows where row.row.kind == .event {
                if !ends.all.contains(where: { $0.includes(at: row.row.at, row.number) }) { young.insert(row.number) }
            }
        }
        let found: [StoredRow]
        do throws(StoreFault) {
            found = try store.read { snapshot throws(StoreFault) in try snapshot.rows(young.sorted()) }
        } catch {
            throw fail("retention", place, "the rows cannot be read: \(error)")
        }
        let missing = young.subtracting(found.map(\.number))
        if let row = missing.min() { throw fail("retention", place, "row \(row.rawValue) is young, and gone") }
    }

    /// What is too old by the project's days gets its end, as soon as the clock is believed again.
    private mutating func checkOldRows(at place: Int) throws(History.Failure) {
        guard let machine, let store = machine.store else { return }
        for _ in 0..<8 {
            machine.pass(milliseconds: 200)
            machine.step()
        }
        try readJournal(at: place)
        let settings: ClaimSettings
        do throws(StoreFault) {
            settings = try store.read { snapshot throws(StoreFault) in
                try snapshot.claimSettings(of: .project(ProjectID(rawValue: 1)))
            }
        } catch {
            throw fail("retention", place, "the days cannot be read: \(error)")
        }
        guard let days = settings.retentionDays(or: [:])[.event], store.counts.rows > 0 else { return }
        let body = machine.shadow.facts.documents[Life.endOfEvents]
        let end = ExpiredRows(packed: body)?.before.milliseconds ?? .min
        // Ends are at whole hours.
        let wanted = machine.wall.milliseconds - Int64(days) * Life.day - 3_600_000 - 10_000
        if end < wanted { throw fail("retention", place, "rows end at \(end), and not at \(wanted)") }
    }

    private static let day: Int64 = 86_400_000
    /// The fewest days that a project can have.
    private static let fewestDays: Int64 = 3
    private static let endOfEvents = ExpiredRows.key(of: .event, in: ProjectID(rawValue: 1))

    /// The facts of the store are the facts that follow from its journal alone.
    private func compareWithShadow(at place: Int) throws(History.Failure) {
        guard let machine, let store = machine.store else { return }
        let facts = machine.shadow.facts
        let last = store.counts.lastSequence.rawValue
        guard machine.shadow.sequence == last else {
            throw fail("replayed", place, "the store has \(last) calls, and \(machine.shadow.sequence) were committed")
        }
        var difference: String?
        _ = store.glance { snapshot in
            // The groups of members that were looked at, by the roots that they have.
            var looked: [PersonID: PersonID] = [:]
            for (person, state) in facts.people.sorted(by: { $0.key < $1.key }) {
                if facts.isErased(person) { continue }
                let group = snapshot.group(of: person)
                if let root = looked[person] {
                    if group.root != root {
                        difference = "person \(person.rawValue) is in the group of \(group.root), and not of \(root)"
                        return
                    }
                } else {
                    let expected = facts.group(of: person)
                    let members = Set(expected.members)
                    if group.root != expected.root || Set(group.members) != members {
                        difference = "person \(person.rawValue) is in \(group.members), and not in \(members)"
                        return
                    }
                    for member in members { looked[member] = expected.root }
                }
                for held in state.identities where !snapshot.holders(of: held.key).contains(person) {
                    difference = "person \(person.rawValue) lost an identity of the type \(held.type.name)"
                    return
                }
            }
            for (key, people) in facts.holders where Set(snapshot.holders(of: key)) != Set(people) {
                difference = "an identity is of \(snapshot.holders(of: key)), and not of \(people)"
                return
            }
        }
        if let difference { throw fail("replayed", place, difference) }
    }

    private func checkPerson(_ text: String?, at place: Int) throws(History.Failure) {
        guard let machine, let store = machine.store, let id = text.flatMap(Int64.init), !hasTakenBack else { return }
        let exists = store.glance { $0.person(PersonID(rawValue: id), in: ProjectID(rawValue: 1)) != nil }
        if exists == false {
            throw fail("acknowledged is there", place, "person \(id) was answered and does not exist")
        }
    }

    /// An anonymous id belongs to the first user that claims it, and to the users that were one with this user before.
    private mutating func checkClaim(_ call: MadeCall, at place: Int) throws(History.Failure) {
        guard !hasTakenBack, let body = call.body?.data(using: .utf8),
            let names = try? JSONSerialization.jsonObject(with: body) as? [String: String],
            let anonymous = names["anonymous_id"], let user = names["user_id"]
        else { return }
        if let first = claims[anonymous], first != user, !wereOne(first, user) {
            throw fail("claim", place, "\(anonymous) was claimed by \(first), and then by \(user)")
        }
        claims[anonymous] = user
    }

    /// Whether two users were one person, for another reason than a claim of the present step.
    private func wereOne(_ user: String, _ other: String) -> Bool {
        guard let machine, let store = machine.store else { return false }
        let facts = machine.shadow.facts
        func holder(_ user: String) -> PersonID? {
            facts.holders[Identity(.claimUserID, user, in: ProjectID(rawValue: 1), hash: store.hash).key]?.first
        }
        guard let one = holder(user), let another = holder(other) else { return false }
        let merges = facts.merges.filter { $0.rule != .claim || mergesBefore.contains($0.id) }
        return ListedGroup(of: one, merges).group.members.contains(another)
    }

    /// A code works once, and not longer than ten minutes of the wall clock.
    private mutating func checkCode(_ call: MadeCall, at place: Int) throws(History.Failure) {
        guard let machine, let code = call.about["code"] else { return }
        // An install may show again the code that it has redeemed, and the undo of a redemption opens the code.
        let install = call.fields.first { $0.0 == "Authorization" }?.1 ?? call.body ?? ""
        if let first = redeemed[code] {
            if first == install || hasTakenBack { return }
            throw fail("nothing twice", place, "a code was redeemed twice")
        }
        redeemed[code] = install
        let age = machine.wall.milliseconds - (knowledge.madeAt[code] ?? 0)
        if age > 660_000 { throw fail("expiry", place, "a code was redeemed after \(age) ms") }
    }

    /// A revoked key opens nothing.
    private mutating func checkRevoked(at place: Int) throws(History.Failure) {
        guard let machine, let key = knowledge.known["revoked"]?.last else { return }
        let call = MadeCall(
            deed: .person, method: "GET", path: "/onym/v1/stats", fields: [("Authorization", "Bearer \(key)")],
            body: nil)
        guard let answer = machine.send(call.bytes(id: "r\(place)")) else { return }
        if answer.isSuccess { throw fail("revoked", place, "a revoked key got \(answer.status)") }
    }

    /// Reads the feed on, and compares it with the journal: each person that was made is in it once, in order.
    private mutating func follow(at place: Int) throws(History.Failure) {
        guard let machine, machine.isHealthy, !machine.disk.hasLostPower else { return }
        var after = feed.after
        for _ in 0..<40 {
            // A step of retention may commit behind the answer.
            let last = machine.shadow.sequence
            let call = MadeCall(
                deed: .changes, method: "GET", path: "/onym/v1/changes?after=\(after)&limit=7",
                fields: [("Authorization", "Bearer \(machine.credentials.adminKey)")], body: nil)
            guard let answer = machine.send(call.bytes(id: "f\(place)")), answer.isSuccess else { return }
            let changes = answer.json["changes"] as? [[String: Any]] ?? []
            for change in changes {
                let sequence = (change["seq"] as? NSNumber)?.int64Value ?? 0
                guard sequence > feed.after else {
                    throw fail("feed", place, "the change of call \(sequence) came after \(feed.after)")
                }
                if change["kind"] as? String == "person.created" {
                    feed.lines.append("\(sequence) \(change["person"] ?? "")")
                }
            }
            guard let next = answer.text("next_after").flatMap(Int64.init), next > after else {
                if after < last { throw fail("feed", place, "the feed ends at \(after), and the journal at \(last)") }
                break
            }
            (after, feed.after) = (next, next)
        }
        try compareFeed(at: place)
    }

    private func compareFeed(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        var expected: [String] = []
        for (number, entry) in machine.shadow.settled.enumerated()
        where number < feed.after && entry.kind != .importRecords {
            for case .personMade(let person, _) in entry.changes { expected.append("\(number + 1) \(person.rawValue)") }
        }
        let seen = feed.lines.filter {
            (Int64($0.split(separator: " ")[0]) ?? 0) <= Int64(machine.shadow.settled.count)
        }
        let known = Set(seen)
        if known.count != seen.count { throw fail("feed", place, "a change came twice") }
        let missing = expected.filter { !known.contains($0) }
        if !missing.isEmpty, erased.isEmpty { throw fail("feed", place, "the feed lacks \(missing)") }
    }

    /// After an erasure and a compaction no file of the store has a byte of the erased person.
    private func checkErased(at place: Int) throws(History.Failure) {
        guard let machine, !erased.isEmpty else { return }
        let call = MadeCall(
            deed: .erase, method: "POST", path: "/onym/v1/compact",
            fields: [("Authorization", "Bearer \(machine.credentials.adminKey)")], body: "{}")
        machine.pass(milliseconds: 2000)
        for _ in 0..<20 { machine.step() }
        guard machine.send(call.bytes(id: "compact"))?.isSuccess == true else { return }
        for _ in 0..<400 {
            machine.pass(milliseconds: 20)
            machine.step()
        }
        let files = machine.disk.paths.filter { $0.hasPrefix("/data/onym.db") }
        for name in erased {
            let word = Data(name.utf8)
            for path in files where machine.disk.bytes(of: path).map({ Data($0).range(of: word) != nil }) ?? false {
                throw fail("erased", place, "\(path) has the erased value \(name)")
            }
        }
    }
}

// MARK: - Calls of one moment

extension Life {
    /// Sends the same call twice in one moment. The server does once what it remembers.
    private mutating func callTwice(_ deed: Deed, _ seed: UInt64, at place: Int) throws(History.Failure) {
        guard let machine, let maker else { return }
        var chance = Chance(seed)
        guard var call = maker.make(deed, &chance, &knowledge, wall: machine.wall) else { return }
        let id = "w\(place)"
        if deed.isRemembered { call.fields.append(("Idempotency-Key", id)) }
        let (rows, wasKnown) = (machine.store?.counts.rows ?? 0, isKnown(call))
        let bytes = call.bytes(id: id)
        let answers = machine.sendTogether([bytes, bytes], isPipelined: chance.oneIn(2))
        try settleTogether([call, call], [id, id], answers, at: place)
        let successes = answers.compactMap { $0 }.filter(\.isSuccess)
        // The install that redeemed a code may ask again.
        if deed == .redeem, Set(successes.map { $0.text("install_id") }).count > 1 {
            throw fail("nothing twice", place, "a code was redeemed twice at once")
        }
        try checkRows(of: call, successes.first, since: rows, wasKnown, at: place)
        guard deed.isRemembered, successes.count == 2, isJournalRead else { return }
        let isSame =
            [.merge, .split].contains(deed)
            ? successes[0].text("id") == successes[1].text("id") : successes[0].body == successes[1].body
        if !isSame {
            throw fail("repeated", place, "\(deed) got \(successes[0].body) and \(successes[1].body) at once")
        }
    }

    /// Sends two calls in one moment. Each gets its own answer.
    private mutating func callBoth(
        _ deeds: [Deed], _ seed: UInt64, isPipelined: Bool, at place: Int
    ) throws(History.Failure) {
        guard let machine, let maker else { return }
        var chance = Chance(seed)
        var (made, ids): ([MadeCall], [String]) = ([], [])
        for (number, deed) in deeds.enumerated() {
            guard var call = maker.make(deed, &chance, &knowledge, wall: machine.wall) else { continue }
            let id = "w\(place)\(number == 0 ? "" : "b")"
            if deed.isRemembered { call.fields.append(("Idempotency-Key", id)) }
            made.append(call)
            ids.append(id)
        }
        guard !made.isEmpty else { return }
        let bytes = zip(made, ids).map { $0.bytes(id: $1) }
        let answers = machine.sendTogether(bytes, isPipelined: isPipelined)
        try settleTogether(made, ids, answers, at: place)
    }

    /// Sends many calls and reads nothing for a while. The server keeps little for such a client, and then answers in order.
    private mutating func flood(at place: Int) throws(History.Failure) {
        guard let machine else { return }
        // A long answer goes out in pieces, as the client reads: it has the call that made the large user. Many short answers have to
        // wait for one another.
        let after = place.isMultiple(of: 2) ? 1 : 3
        let key = [("Authorization", "Bearer \(machine.credentials.adminKey)")]
        let call = MadeCall(
            deed: .person, method: "GET", path: "/onym/v1/changes?after=\(after)&limit=8", fields: key, body: nil)
        let ids = (0..<300).map { "flood\(place)-\($0)" }
        let (queued, answers) = machine.flood(ids.map { call.bytes(id: $0) })
        trace.add("\(place) \(answers.count) answers, \(queued) bytes at most")
        calls += ids.count
        if queued > 256 << 10 { throw fail("output", place, "\(queued) bytes waited for a client that reads nothing") }
        for (answer, id) in zip(answers, ids) where answer.id != id {
            throw fail("own answer", place, "\(id) got the answer of \(answer.id)")
        }
        if answers.count < ids.count { try checkAnswered(.person, nil, at: place) }
        try readAfter(machine, at: place)
    }

    /// Notes the answer to a call.
    private mutating func note(_ call: MadeCall, _ answer: WireAnswer?, at place: Int) {
        trace.add("\(place) \(call.deed.rawValue) \(answer?.status ?? 0) \(answer?.body ?? "-")")
        coverage.answers[call.deed, default: [:]][answer?.status ?? 0, default: 0] += 1
    }

    /// Reads the journal after calls, and starts the machine again first if it lost its power.
    private mutating func readAfter(_ machine: Machine, at place: Int) throws(History.Failure) {
        if machine.disk.hasLostPower {
            machine.cutPower(.any)
            try rest(at: place)
        }
        try readJournal(at: place)
    }

    private mutating func settleTogether(
        _ made: [MadeCall], _ ids: [String], _ answers: [WireAnswer?], at place: Int
    ) throws(History.Failure) {
        guard let machine else { return }
        calls += made.count
        for (call, answer) in zip(made, answers) {
            note(call, answer, at: place)
            try checkAnswered(call.deed, answer, at: place)
        }
        try readAfter(machine, at: place)
        for (number, call) in made.enumerated() {
            if let answer = answers[number] {
                try learn(call, ids[number], answer, at: place)
            } else if call.deed.takesBack {
                hasTakenBack = true
            }
        }
    }

    /// The latest moment that the server has known, by which it may have forgotten what it keeps for a time.
    private func serverNow(_ machine: Machine) -> Int64 { max(machine.wall.milliseconds, latestMade) }

    /// Whether a call's event has been accepted before. The server recognizes recent events only.
    private func isKnown(_ call: MadeCall) -> Bool {
        guard let machine, let event = call.about["event"], let at = knowledge.madeAt[event] else { return false }
        return serverNow(machine) - at < 20 * 3_600_000
    }

    /// An event that arrives again adds no row, and an event adds its rows.
    private func checkRows(
        of call: MadeCall, _ answer: WireAnswer?, since rows: Int, _ wasKnown: Bool, at place: Int
    ) throws(History.Failure) {
        guard let machine, call.deed == .ingest, let event = call.about["event"], let store = machine.store,
            answer?.isSuccess == true, isJournalRead
        else { return }
        let added = store.counts.rows - rows
        if added > (wasKnown ? 0 : call.about["rows"].flatMap(Int.init) ?? 1) {
            throw fail("nothing twice", place, "the event \(event) added \(added) rows\(wasKnown ? " again" : "")")
        }
    }

    /// A code ends at most ten minutes from now, by the wall clock.
    private func checkExpiry(_ text: String?, at place: Int) throws(History.Failure) {
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        guard let machine, let date = text.flatMap(formatter.date(from:)) else { return }
        let rest = Int64(date.timeIntervalSince1970 * 1000) - machine.wall.milliseconds
        if rest > 600_000 { throw fail("expiry", place, "a code is good for \(rest) ms") }
    }

    /// The root of each person's group.
    private func pictureOfGroups() -> [PersonID: PersonID]? {
        guard let machine, let store = machine.store, machine.isHealthy else { return nil }
        let facts = machine.shadow.facts
        let people = facts.people.keys.filter { !facts.isErased($0) }
        return store.glance { snapshot in
            Dictionary(
                uniqueKeysWithValues: people.map { person in (person, snapshot.group(of: person).root) })
        }
    }

    /// Takes a merge back at once, with a change of the rules between both: all groups are as they were before.
    private mutating func undoAtOnce(
        _ picture: [PersonID: PersonID], changesRules: Bool, at place: Int
    ) throws(History.Failure) {
        guard let machine, isJournalRead, let merge = knowledge.known["merge"]?.last else { return }
        let admin = [("Authorization", "Bearer \(machine.credentials.adminKey)")]
        func post(_ deed: Deed, _ method: String, _ path: String, _ body: String, _ mark: String) -> WireAnswer? {
            let call = MadeCall(deed: deed, method: method, path: "/onym/v1" + path, fields: admin, body: body)
            return machine.send(call.bytes(id: "\(mark)\(place)"))
        }
        if changesRules { _ = post(.strategy, "PUT", "/strategy", #"{"preset":"profile_isolation"}"#, "s") }
        let answer = post(.undoMerge, "POST", "/merges/\(merge)/undo", "{}", "u")
        trace.add("\(place) undone at once \(answer?.status ?? 0)")
        hasTakenBack = true
        if machine.disk.hasLostPower {
            machine.cutPower(.any)
            try rest(at: place)
        }
        try readJournal(at: place)
        guard answer?.isSuccess == true, let now = pictureOfGroups() else { return }
        for (person, root) in picture.sorted(by: { $0.key < $1.key }) {
            guard let other = now[person] else { continue }
            if other != root {
                throw fail("undo", place, "person \(person.rawValue): \(root) before merge and undo, \(other) after")
            }
        }
    }
}
