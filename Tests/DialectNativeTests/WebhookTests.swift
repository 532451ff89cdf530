import ByteText
import Crypto
import Foundation
import StoreSQLite
import TestKit
import Testing
import Threads

/// A receiver of webhooks, and what it has taken.
private final class Receiver: Sendable {
    struct Message: Sendable {
        let id: String
        let seq: Int
        let kind: String
        let person: String
    }

    let standIn: StandIn
    private let taken: Monitor<[Message]>
    private let waited = Monitor<Int64>(0)
    /// Those that were taken, each once, in the order in which they were first taken.
    var messages: [Message] { taken.withLock { $0 } }

    /// - Parameter answer: what is answered; what is not answered with 200 is not taken.
    init(_ answer: @escaping @Sendable (StandIn.Received, Message) -> StandIn.Answer) {
        let taken = Monitor<[Message]>([])
        self.taken = taken
        standIn = StandIn { received in
            guard let message = Receiver.message(received) else { return .status(400, "") }
            let answer = answer(received, message)
            if case .status(200, _, _) = answer {
                taken.change { all in
                    if !all.contains(where: { $0.id == message.id }) { all.append(message) }
                }
            }
            return answer
        }
    }

    static func field(_ name: String, _ received: StandIn.Received) -> String? {
        received.fields.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }

    private static func message(_ received: StandIn.Received) -> Message? {
        guard let body = try? JSONSerialization.jsonObject(with: Data(received.body.utf8)) as? [String: Any],
            let id = field("webhook-id", received), let data = body["data"] as? [String: Any],
            let kind = body["type"] as? String, let seq = data["seq"] as? Int
        else { return nil }
        return Message(id: id, seq: seq, kind: kind, person: data["person"] as? String ?? "")
    }

    /// Waits until so many were taken, as long as more come, and has a clock go on while none do.
    func wait(for count: Int, _ clock: ManualClock? = nil) -> [Message] {
        var (last, lastAt) = (standIn.received.count, ContinuousClock.now)
        while ContinuousClock.now - lastAt < .milliseconds(Patience.milliseconds) {
            let isDone: Bool? = taken.wait(milliseconds: 20) { $0.count >= count ? true : nil }
            if isDone == true { break }
            let now = standIn.received.count
            if now > last {
                (last, lastAt) = (now, .now)
            } else if let clock, goesOn() {
                clock.advance(milliseconds: Receiver.step)
            }
        }
        return messages
    }

    private static let step: Int64 = 20_000

    /// Whether a clock may go on: after a day deliveries are tried no more, and a busy machine may need long for one.
    private func goesOn() -> Bool {
        waited.withLock { waited in
            waited += Receiver.step
            return waited < 20 * 3600 * 1000
        }
    }
}

@Suite("Webhooks", .serialized)
struct WebhookTests {
    private func client(
        _ kind: StoreKind, _ clock: ManualClock = ManualClock(), in folder: TemporaryFolder = TemporaryFolder(),
        allowing: Bool = true
    ) throws -> NativeClient {
        NativeClient(
            try TestServer(kind, in: folder) { configuration in
                configuration.clock = { clock.now }
                configuration.callsPrivateAddresses = allowing
            })
    }

    @discardableResult
    private func hook(_ client: NativeClient, _ url: String, _ more: String = "") throws -> NativeClient.Answer {
        let made = try client.post("/onym/v1/webhooks", #"{"url":"\#(url)"\#(more)}"#)
        #expect(made.status == 201, "\(made)")
        return made
    }

    /// The feed as one reads it, without what happened to webhooks.
    private func feed(_ client: NativeClient, after: Int = 0) throws -> [String] {
        var (all, after): ([String], Int) = ([], after)
        while true {
            let page = try client.get("/onym/v1/changes?after=\(after)&limit=200")
            for change in page.list("changes") {
                all.append("\(change["seq"] ?? "") \(change["kind"] ?? "") \(change["person"] as? String ?? "")")
            }
            let next = try #require(page.number("next_after"))
            if next == after { return all.filter { !$0.contains(" webhook.") } }
            after = next
        }
    }

    private func text(_ messages: [Receiver.Message]) -> [String] {
        messages.filter { !$0.kind.hasPrefix("webhook.") }.map { "\($0.seq) \($0.kind) \($0.person)" }
    }

    /// By person, in the order in which they came.
    private func byPerson(_ lines: [String]) -> [String: [String]] {
        Dictionary(grouping: lines) { String($0.split(separator: " ", omittingEmptySubsequences: false)[2]) }
    }

    @Test("are signed after the convention, and have no value of anybody's", arguments: StoreKind.allCases)
    func signed(_ kind: StoreKind) throws {
        let (clock, receiver) = (ManualClock(), Receiver { _, _ in .status(200, "") })
        let client = try client(kind, clock)
        try client.identify(#"{"customerid":"before"}"#)
        let made = try hook(client, receiver.standIn.url, #","kinds":["person.created","identity.linked"]"#)
        let secret = try #require(made.text("secret"))
        #expect(try !client.get("/onym/v1/webhooks").wire.body.contains(secret))
        let person = try client.identify(#"{"customerid":"secret-value"}"#)
        let messages = receiver.wait(for: 2)
        #expect(messages.map(\.kind) == ["person.created", "identity.linked"] && messages.first?.person == person)

        #expect(secret.hasPrefix("whsec_"))
        let key = try #require(Data(base64Encoded: String(secret.dropFirst(6))))
        let received = try #require(receiver.standIn.received.first)
        #expect(received.line == "POST / HTTP/1.1" && !received.body.contains("secret-value"))
        let (id, at) = (
            Receiver.field("webhook-id", received) ?? "", Receiver.field("webhook-timestamp", received) ?? ""
        )
        #expect(at == String(clock.now.milliseconds / 1000))
        let signature = HMAC(key: Array(key)).authenticate(Array("\(id).\(at).\(received.body)".utf8)).bytes
        #expect(Receiver.field("webhook-signature", received) == "v1,\(Base64.encode(signature))")
        let data = try #require(
            (try JSONSerialization.jsonObject(with: Data(received.body.utf8)) as? [String: Any])?["data"]
                as? [String: Any])
        let change = try #require(try client.get("/onym/v1/changes?kinds=person.created").list("changes").last)
        #expect(data as NSDictionary == change as NSDictionary)

        let id1 = try #require(made.text("id"))
        #expect(try client.call("DELETE", "/onym/v1/webhooks/\(id1)").status == 200)
        #expect(try client.call("DELETE", "/onym/v1/webhooks/\(id1)").status == 404)
        #expect(try client.get("/onym/v1/webhooks").list("webhooks").isEmpty)
        try client.identify(#"{"customerid":"later"}"#)
        let kinds = try client.get("/onym/v1/changes").list("changes").compactMap { $0["kind"] as? String }
        #expect(kinds.contains("webhook.created") && kinds.contains("webhook.removed"))
    }

    @Test(
        "a receiver that fails, hangs up and answers late has all in the end, in order for each person",
        arguments: StoreKind.allCases)
    func unreliable(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let generator = Monitor(SeededGenerator(seed: 7))
        let receiver = Receiver { _, _ in
            switch generator.withLock({ Int.random(in: 0..<10, using: &$0) }) {
            case 0: .status(500, "no")
            case 1: .close
            case 2: .bytes(Array("nonsense".utf8))
            case 3: .status(302, "", fields: ["Location: http://127.0.0.1:1/"])
            default: .status(200, "")
            }
        }
        let client = try client(kind, clock)
        try hook(client, receiver.standIn.url, #","after":0"#)
        var people: [String] = []
        for number in 0..<12 { people.append(try client.identify(#"{"customerid":"c\#(number)","email":"e"}"#)) }
        for number in 0..<6 { _ = try client.merge(people[number], into: people[11 - number]) }
        _ = try client.call("DELETE", "/onym/v1/people/\(people[0])")
        let expected = try feed(client)
        let all = text(receiver.wait(for: expected.count + 1, clock))
        #expect(all.sorted() == expected.sorted())
        #expect(byPerson(all) == byPerson(expected))
        // Nothing waits, once the last is noted.
        #expect(try Patience.until { try client.get("/onym/v1/deliveries").list("deliveries").isEmpty })
    }

    @Test("one that was tried while the clock was ahead is tried again when the clock is right")
    func clockAhead() throws {
        let clock = ManualClock()
        let refuses = Monitor(true)
        let client = try client(.sqlite, clock)
        let start = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let receiver = Receiver { _, _ in refuses.withLock { $0 } ? .status(500, "") : .status(200, "") }
        try hook(client, receiver.standIn.url, #","after":\#(start),"kinds":["identity.linked"]"#)
        clock.advance(milliseconds: 20 * 86_400_000)
        let poor = try client.identify(#"{"customerid":"poor"}"#)
        func tries() throws -> Int? {
            try client.get("/onym/v1/deliveries").list("deliveries").first?["attempts"] as? Int
        }
        #expect(try Patience.until { try tries() == 1 })
        clock.advance(milliseconds: -20 * 86_400_000)
        refuses.withLock { $0 = false }
        #expect(receiver.wait(for: 1).map(\.person) == [poor])
    }

    @Test("one that nobody takes holds up its person only, is parked after a day, and can be replayed")
    func parked() throws {
        let clock = ManualClock()
        let refuses = Monitor(true)
        let client = try client(.sqlite, clock)
        let poor = try client.identify(#"{"customerid":"poor"}"#)
        let start = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let receiver = Receiver { _, message in
            message.person == poor && refuses.withLock { $0 } ? .status(500, "") : .status(200, "")
        }
        try hook(client, receiver.standIn.url, #","after":\#(start),"kinds":["identity.linked"]"#)
        _ = try client.modify(poor, #"[{"identity_type":"email","old_value":null,"new_value":"1"}]"#)
        _ = try client.modify(poor, #"[{"identity_type":"other","old_value":null,"new_value":"2"}]"#)
        try client.identify(#"{"customerid":"rich"}"#)
        #expect(receiver.wait(for: 1).map(\.person) != [poor])
        var list = try client.get("/onym/v1/deliveries").list("deliveries")
        try Patience.until {
            list = try client.get("/onym/v1/deliveries").list("deliveries")
            return list.count >= 2
        }
        #expect(list.map { $0["attempts"] as? Int } == [1, 0], "the second waits behind the first")
        #expect(list.first?["fault"] as? String == "The receiver answered 500.")

        /// How far each has come, as it is noted: the next attempt is due four hours after that at the latest.
        func attempts() throws -> [String] {
            try ["waiting", "parked"].flatMap { state in
                try client.get("/onym/v1/deliveries?state=\(state)").list("deliveries").map { delivery in
                    "\(delivery["id"] ?? ""), \(state), \(delivery["attempts"] ?? "")"
                }
            }
        }
        var parked: [[String: Any]] = []
        for _ in 0..<40 where parked.count < 2 {
            let before = try attempts()
            clock.advance(milliseconds: 4 * 3600 * 1000)
            #expect(try Patience.until { try attempts() != before })
            parked = try client.get("/onym/v1/deliveries?state=parked").list("deliveries")
        }
        #expect(parked.count == 2)
        #expect(
            try Patience.until { try client.get("/metrics").wire.body.contains("\nonym_deliveries_parked 2\n") })
        #expect(receiver.standIn.received.count > 6, "each was tried again and again")
        refuses.withLock { $0 = false }
        for delivery in parked {
            let id = try #require(delivery["id"] as? String)
            let found = try client.get("/onym/v1/search?q=\(id)").list("results")
            #expect(found.map { $0["kind"] as? String } == ["delivery"] && found[0]["state"] as? String == "parked")
            #expect(try client.post("/onym/v1/deliveries/\(id)/replay").status == 200)
            #expect(try client.post("/onym/v1/deliveries/\(id)/replay").status == 404)
        }
        #expect(receiver.wait(for: 3).suffix(2).map(\.person) == [poor, poor])
        #expect(try client.post("/onym/v1/deliveries/d_1_2_3/replay").status == 404)
        #expect(try client.post("/onym/v1/deliveries/x/replay").status == 404)
        #expect(try client.get("/onym/v1/deliveries?state=x").status == 400)
    }

    @Test("a test message has the signature of all messages, and is kept nowhere", arguments: StoreKind.allCases)
    func tested(_ kind: StoreKind) throws {
        let isDown = Monitor(false)
        let bodies = Monitor<[StandIn.Received]>([])
        let receiver = StandIn { received in
            bodies.withLock { $0.append(received) }
            return isDown.withLock { $0 } ? .status(500, "") : .status(204, "")
        }
        let client = try client(kind)
        let made = try hook(client, receiver.url, #","kinds":["person.merged"]"#)
        let id = try #require(made.text("id"))
        let seq = try client.get("/onym/v1/stats").number("last_seq")
        let good = try client.post("/onym/v1/webhooks/\(id)/test")
        #expect(good.status == 200 && good.number("status") == 204 && good["fault"] is NSNull, "\(good)")
        let received = try #require(bodies.withLock { $0.last })
        let (name, at) = (
            Receiver.field("webhook-id", received) ?? "", Receiver.field("webhook-timestamp", received) ?? ""
        )
        let secret = try #require(made.text("secret"))
        let key = try #require(Data(base64Encoded: String(secret.dropFirst(6))))
        let signature = HMAC(key: Array(key)).authenticate(Array("\(name).\(at).\(received.body)".utf8)).bytes
        #expect(Receiver.field("webhook-signature", received) == "v1,\(Base64.encode(signature))")
        #expect(received.body.contains(#""type":"test""#) && received.body.contains(id))

        isDown.withLock { $0 = true }
        #expect(try client.post("/onym/v1/webhooks/\(id)/test").number("status") == 500)
        #expect(try client.get("/onym/v1/deliveries").list("deliveries").isEmpty)
        #expect(try client.get("/onym/v1/stats").number("last_seq") == seq)
        #expect(try client.post("/onym/v1/webhooks/77/test").status == 404)
        #expect(try client.get("/onym/v1/webhooks/77").status == 404)
        #expect(try client.post("/onym/v1/webhooks/77/replay").status == 404)
        #expect(try client.post("/onym/v1/webhooks/\(id)/replay").number("replayed") == 0)
        let lonely = try hook(client, "http://127.0.0.1:9/", #","kinds":["person.merged"]"#)
        let failed = try client.post("/onym/v1/webhooks/\(try #require(lonely.text("id")))/test")
        #expect(failed["status"] is NSNull && failed.text("fault")?.isEmpty == false, "\(failed)")
    }

    @Test("receivers of one project that do not answer hold half of the calls, and not all")
    func hanging() throws {
        let client = try client(.memory)
        let receiver = Receiver { _, _ in .hang }
        for number in 0..<40 { try client.identify(#"{"customerid":"c\#(number)"}"#) }
        for _ in 0..<5 { try hook(client, receiver.standIn.url, #","kinds":["person.created"],"after":0"#) }
        #expect(Patience.until { receiver.standIn.received.count >= 32 })
        usleep(300_000)
        #expect(receiver.standIn.received.count == 32)
    }

    @Test("all parked deliveries can be replayed together, and a webhook says how far it is")
    func replayedTogether() throws {
        let (clock, refuses) = (ManualClock(), Monitor(true))
        let client = try client(.sqlite, clock)
        let receiver = Receiver { _, _ in refuses.withLock { $0 } ? .status(500, "") : .status(200, "") }
        let made = try hook(client, receiver.standIn.url, #","kinds":["person.created"]"#)
        let id = try #require(made.text("id"))
        for number in 0..<3 { try client.identify(#"{"customerid":"c\#(number)"}"#) }
        func state() throws -> NativeClient.Answer { try client.get("/onym/v1/webhooks/\(id)") }
        #expect(try Patience.until { try state().text("last_fault") == "The receiver answered 500." })
        let waiting = try state()
        #expect(waiting.text("waiting_since") != nil && waiting.number("behind_calls") != nil, "\(waiting)")
        // The pause of an attempt begins when its result is noted, which may be after a step of the clock.
        try Patience.until {
            clock.advance(milliseconds: 3_600_000)
            return try state().number("parked") == 3
        }
        #expect(try state().number("parked") == 3)
        refuses.withLock { $0 = false }
        #expect(try client.post("/onym/v1/webhooks/\(id)/replay").number("replayed") == 3)
        #expect(receiver.wait(for: 3).count == 3)
        #expect(try Patience.until { try state().number("parked") == 0 && state().number("waiting") == 0 })
    }

    @Test("a server that ends at any moment misses nothing, and goes on in order")
    func restarted() throws {
        let (folder, clock) = (TemporaryFolder(), ManualClock())
        var generator = SeededGenerator(seed: 11)
        let receiver = Receiver { received, _ in
            received.body.utf8.count % 7 == 0 ? .close : .status(200, "")
        }
        var client = try client(.sqlite, clock, in: folder)
        try hook(client, receiver.standIn.url, #","after":0"#)
        for round in 0..<6 {
            for number in 0..<8 { try client.identify(#"{"customerid":"c\#(number + 4 * round)"}"#) }
            _ = receiver.wait(for: Int.random(in: 1...40, using: &generator) * round / 3, clock)
            client = NativeClient(
                try TestServer(restarting: client.server) { configuration in
                    configuration.clock = { clock.now }
                    configuration.callsPrivateAddresses = true
                })
        }
        let expected = try feed(client)
        let all = text(receiver.wait(for: expected.count + 1, clock))
        #expect(all.sorted() == expected.sorted())
        #expect(byPerson(all) == byPerson(expected))
    }

    @Test(
        "one of several servers tells what happens at any, and another when that one has ended",
        .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
    func several() throws {
        let clock = ManualClock()
        let receiver = Receiver { _, _ in .status(200, "") }
        let client = try client(.postgres, clock)
        let others = try (0..<2).map { _ in
            NativeClient(
                try TestServer(beside: client.server) { configuration in
                    configuration.clock = { clock.now }
                    configuration.callsPrivateAddresses = true
                })
        }
        try hook(client, receiver.standIn.url)
        var servers = [client] + others
        for round in 0..<2 {
            for number in 0..<12 {
                try servers[number % servers.count].identify(#"{"customerid":"\#(round) \#(number)"}"#)
            }
            let expected = try feed(servers[1])
            // And that the webhook was made.
            let told = receiver.wait(for: expected.count + 1, clock)
            #expect(text(told).sorted() == expected.sorted())
            // Where one has ended, what it had not noted yet is told again.
            if round == 0 { #expect(receiver.standIn.received.count == told.count, "none is told twice") }
            var leader: Int?
            Patience.until {
                leader = servers.firstIndex { $0.server.store.leads }
                return leader != nil
            }
            let first = try #require(leader, "nobody leads")
            servers[first].server.end()
            servers.remove(at: first)
        }
    }

    @Test("addresses of this machine are not called unless that is allowed", arguments: StoreKind.allCases)
    func privateAddresses(_ kind: StoreKind) throws {
        let receiver = Receiver { _, _ in .status(200, "") }
        let client = try client(kind, allowing: false)
        try hook(client, receiver.standIn.url)
        try client.identify(#"{"customerid":"a"}"#)
        var fault: String?
        try Patience.until {
            fault = try client.get("/onym/v1/deliveries").list("deliveries").first?["fault"] as? String
            return fault != nil
        }
        #expect(fault?.contains("webhook_private_addresses") == true)
        #expect(receiver.standIn.received.isEmpty)
    }

    @Test(
        "says what is wrong",
        arguments: [
            ("{}", "url is required"), (#"{"url":"ftp://a"}"#, "must be a whole"),
            (#"{"url":"https://"}"#, "must be a whole"), (#"{"url":"https://u:p@host/"}"#, "without a user"),
            (#"{"url":"http://[::1"}"#, "must be a whole address"), (#"{"url":"http://a:99999/"}"#, "must be a whole"),
            (#"{"url":"http://a:x/"}"#, "must be a whole"), (#"{"url":"http://[1.2.3.4]/"}"#, "must be a whole"),
            (#"{"url":"https://a b"}"#, "must be a whole"), (#"{"url":"https://a","kinds":["x"]}"#, "kinds[0]"),
            (#"{"url":"https://a","after":-1}"#, "after must be"),
            (#"{"url":"https://a","after":99}"#, "after must be"),
            (#"{"url":"https://a","secret":"x"}"#, "not a member"),
        ])
    func refuses(_ body: String, _ says: String) throws {
        let answer = try NativeClient(.memory).post("/onym/v1/webhooks", body)
        #expect(answer.status == 400 && answer.text("detail")?.contains(says) == true, "\(answer)")
    }

    @Test("there are only so many")
    func tooMany() throws {
        let client = try NativeClient(.memory)
        for number in 0..<20 { try hook(client, "http://127.0.0.1:1/\(number)") }
        #expect(try client.post("/onym/v1/webhooks", #"{"url":"http://127.0.0.1:1/"}"#).status == 409)
    }
}
