import ClientKit
import Foundation
import Onym
import Testing

/// What extensions and widgets see, and what they leave.
@Suite("A reader")
struct ReaderTests {
    private let bench = Bench(
        .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "k"))

    private func reader(_ files: MemoryFiles? = nil) -> OnymReader {
        OnymReader(files: files ?? bench.files, time: bench.time)
    }

    /// Has somebody be logged in everywhere, with something to use until then.
    private func login(until seconds: Int64) throws {
        bench.onym.identity.login(IdentityRequest([.customerID: "ada"]), callback: { _ in })
        bench.answer(.json(200, ["mpid": "7", "is_logged_in": true]))
        try bench.onym.setUser("ada")
        bench.answer(.json(200, ["claimed": true]))
        bench.onym.access.entitlements(.newerThan(300), callback: { _ in })
        bench.answer(.json(201, [:]))
        bench.answer(
            .json(
                200,
                [
                    "data": [
                        ["id": "plus", "active": true, "started": 1, "expires": .integer(1_800_000_000 + seconds)],
                        ["id": "gold", "active": false, "started": 1],
                    ]
                ]))
    }

    @Test("sees who the user is and what the user may use, and changes nothing")
    func sees() throws {
        let empty = reader(MemoryFiles())
        #expect(empty.user == nil && empty.claimUser == nil && empty.accessUser == nil && empty.access.isEmpty)
        try login(until: 3600)
        let before = bench.files.contents
        #expect(reader().user?.id == 7 && reader().user?.isLoggedIn == true)
        #expect(reader().user?.identities == [.customerID: "ada"])
        #expect(reader().claimUser == "ada" && reader().accessUser == bench.onym.access.user)
        #expect(reader().access["plus"]?.isActive == true && reader().access["gold"]?.isActive == false)
        bench.onym.access.identify("bob", callback: { _ in })
        bench.answer(.json(200, ["user_id": "QON_bob"]))
        // Nobody sees what another may use.
        #expect(reader().accessUser?.identityID == "bob" && reader().access.isEmpty)
        #expect(bench.files.contents.keys == before.keys)
    }

    @Test("what has expired is not active, also for whoever only reads")
    func expiry() throws {
        try login(until: 3600)
        bench.time.advance(3601)
        #expect(reader().access["plus"]?.isActive == false)
        bench.time.advance(31 * 86_400)
        #expect(reader().access.isEmpty)
    }

    @Test("a line that is written at this moment, or damaged, is passed over, and nothing is set aside")
    func torn() throws {
        try login(until: 3600)
        let files = MemoryFiles(bench.files.contents)
        try files.append(Array("1c29".utf8), to: "idsync-000001.log")
        try files.append(Array("damage\n".utf8), to: "entitlements-000001.log")
        let names = files.names()
        #expect(reader(files).user?.id == 7 && reader(files).accessUser != nil)
        #expect(files.names() == names)
    }

    @Test("who has opted out is nobody")
    func optedOut() throws {
        try login(until: 3600)
        bench.onym.optOut()
        #expect(reader().user == nil && reader().accessUser == nil && reader().access.isEmpty)
        try reader().log("secret")
        #expect(!bench.files.names().contains(where: OnymReader.isNote))
    }

    private func sent() -> Set<String> {
        bench.advance(6)
        var sent: Set<String> = []
        while let request = bench.answer(.json(200, ["accepted": 1, "rejected": 0])) {
            for event in request.json["events"]?.elements ?? [] {
                if let name = event["data"]?["event_name"]?.text {
                    let time = event["data"]?["timestamp_unixtime_ms"]?.integer ?? 0
                    sent.insert("\(name) \(request.json["mpid"]?.text ?? "") \(time)")
                } else if let name = event["message"]?.text {
                    sent.insert("\(name) \(event["user_id"]?.text ?? "") \(event["timestamp"]?.text ?? "")")
                }
            }
        }
        return sent
    }

    @Test("what it logs is taken in at the next start, for the user of then, with its time, once")
    func takenIn() throws {
        try login(until: 3600)
        try reader().log("tapped", ["a": 1])
        bench.time.advance(60)
        // Somebody else is logged in before the app takes it in.
        bench.onym.identity.login(IdentityRequest([.customerID: "bob"]), callback: { _ in })
        bench.answer(.json(200, ["mpid": "8", "is_logged_in": true]))
        bench.onym.clearUser()
        bench.relaunch()
        #expect(!bench.files.names().contains(where: OnymReader.isNote))
        let expected: Set = ["tapped 7 1800000000000", "tapped ada 2027-01-15T08:00:00.000Z"]
        #expect(sent() == expected)
        bench.relaunch()
        #expect(sent().isEmpty)
    }

    @Test("what it logs is changed, or not kept, by what the app wants, which may ask who the user is")
    func enrich() throws {
        let (phases, users) = (LockedTests.Phases(), Collector<String?>())
        let files = MemoryFiles()
        nonisolated(unsafe) weak var onym: OnymClient?
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"), files: files) {
            $0.lifeCycle = phases
            $0.enrich = [
                { event in
                    users.callback(onym?.claimUser)
                    event.attributes["plan"] = "pro"
                    return event.name != "secret"
                }
            ]
        }
        onym = bench.onym
        for name in ["secret", "open"] { try reader(files).log(name) }
        phases.send(.foreground)
        #expect(!files.names().contains(where: OnymReader.isNote))
        #expect(users.values.compactMap { $0 }.count == users.values.count && users.values.count >= 2)
        bench.advance(5)
        let events = bench.transport.open.first?.json["events"]?.elements ?? []
        let names = events.compactMap { $0["message"]?.text }.filter { !$0.hasPrefix("sdk:") }
        #expect(names == ["open"] && events.contains { $0["custom_attributes"]?["plan"] == "pro" })
    }

    @Test("a process that ends while it takes in takes nothing in twice")
    func crash() throws {
        try login(until: 3600)
        try reader().log("tapped")
        let notes = bench.files.contents.filter { OnymReader.isNote($0.key) }
        #expect(notes.count == 1)
        bench.relaunch()
        // The note is there still.
        bench.relaunch { left in
            let files = left
            for (name, bytes) in notes { try? files.append(bytes, to: name) }
            return files
        }
        let letters = try #require(bench.onym.idsync?.mailbox.letters)
        #expect(letters.count == 1 && bench.onym.claim?.mailbox.letters.count { $0.kind == "e" } == 1)
    }

    @Test("no more than two hundred wait, and what is too large is refused")
    func limits() throws {
        for number in 0..<OnymReader.eventLimit { try reader().log("\(number)") }
        #expect(throws: OnymError.self) { try reader().log("one more") }
        #expect(throws: OnymError.self) {
            try reader(MemoryFiles()).log("large", ["a": .string(String(repeating: "x", count: 70_000))])
        }
        bench.relaunch()
        try reader().log("again")
        #expect(bench.onym.idsync?.mailbox.count == 200)
    }

    @Test("what nobody can read is removed, and a half-written note is left alone")
    func damaged() throws {
        try login(until: 3600)
        try bench.files.append(Array("{".utf8), to: "reader-x.json")
        try bench.files.append(Array("{".utf8), to: "reader-y.new")
        bench.relaunch()
        #expect(bench.files.contents["reader-x.json"] == nil && bench.files.contents["reader-y.new"] != nil)
        #expect(bench.onym.idsync?.mailbox.count == 0)
    }

    @Test("who opts out leaves nothing of what a widget has logged")
    func optOutForgets() throws {
        try login(until: 3600)
        try reader().log("tapped")
        bench.onym.optOut()
        #expect(!bench.files.names().contains(where: OnymReader.isNote))
    }

    @Test("an app group that there is no right to is an error")
    func group() {
        #expect(throws: OnymError.self) { try OnymReader(appGroup: "group.none") }
    }
}
