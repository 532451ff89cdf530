import ByteText
import Domain
import Foundation
import TestKit
import Testing

/// Exports of all people of a project: what they have, and that an import of them into an empty store has equal reads.
@Suite("An export of all people")
struct ProjectExportTests {
    /// The lines of an export, and its parts.
    private struct Exported {
        var lines: [String] = []
        var parts = 0

        var text: String { lines.map { $0 + "\n" }.joined() }
        var kinds: Set<String> {
            Set(lines.compactMap { ProjectExportTests.object($0)["kind"] as? String })
        }
        func lines(_ kind: String) -> Set<String> {
            Set(lines.filter { $0.hasPrefix(#"{"kind":"\#(kind)""#) })
        }
        func all(_ kind: String) -> [[String: Any]] {
            lines.map(ProjectExportTests.object).filter { $0["kind"] as? String == kind }
        }
    }

    private static func object(_ line: String) -> [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any] ?? [:]
    }

    /// Exports the project. The body runs after each part.
    private static func export(
        _ client: NativeClient, since: Int = 0, between: () throws -> Void = {}
    ) throws -> Exported {
        var exported = Exported()
        var cursor: String?
        repeat {
            // A cursor needs no escapes in an address.
            let query = cursor.map { "&cursor=\($0)" }
            let answer = try client.post("/onym/v1/export?since=\(since)\(query ?? "")")
            #expect(answer.status == 200, "\(answer)")
            var lines = answer.wire.body.split(separator: "\n").map(String.init)
            cursor = lines.last.flatMap { object($0)["cursor"] as? String }
            if cursor != nil { lines.removeLast() }
            exported.lines += lines
            exported.parts += 1
            try between()
        } while cursor != nil
        return exported
    }

    /// Imports a file, and returns the numbers of refused records by their kinds and reasons.
    private static func take(_ text: String, _ client: NativeClient) throws -> (taken: Int, refused: [String: Int]) {
        let id = try #require(try client.post("/onym/v1/imports").text("id"))
        var (position, taken, refused) = (0, 0, [String: Int]())
        let lines = text.split(separator: "\n")
        for start in stride(from: 0, to: lines.count, by: 1000) {
            let batch = lines[start..<min(start + 1000, lines.count)].map { $0 + "\n" }.joined()
            let answer = try client.post("/onym/v1/imports/\(id)/batches?position=\(position)", batch)
            #expect(answer.status == 200, "\(answer)")
            position += batch.utf8.count
            taken += answer["taken"] as? Int ?? 0
            for record in answer.list("refused") {
                let kind = (record["record"] as? [String: Any])?["kind"] as? String ?? ""
                refused["\(kind) \(record["reason"] as? String ?? "")", default: 0] += 1
            }
        }
        #expect(try client.post("/onym/v1/imports/\(id)/finish").status == 200)
        return (taken, refused)
    }

    /// What a server answers about a person, without what only one server can have: its own moments and numbers.
    private static func reads(_ person: String, _ client: NativeClient) throws -> String {
        let answer = try client.get("/onym/v1/people/\(person)")
        guard answer.status == 200 else { return "\(answer.status)" }
        var shown: [String: Any] = [:]
        for name in ["root", "members", "first_seen", "last_seen", "ids"] { shown[name] = answer[name] }
        func list(_ name: String, _ members: [String]) -> [[String: Any]] {
            answer.list(name).map { one in one.filter { members.contains($0.key) } }
        }
        // The order of facts is that of their calls, and an import is one call.
        func sorted(_ name: String, _ members: [String]) -> [String] {
            answer.list(name).map { one in members.map { "\(one[$0] ?? "")" }.joined(separator: " ") }.sorted()
        }
        shown["identities"] = sorted("identities", ["holder", "type", "value"])
        shown["merges"] = sorted("merges", ["from", "into", "rule"])
        shown["aliases"] = sorted("aliases", ["source", "destination", "start", "end"])
        shown["purchases"] = list(
            "purchases",
            [
                "transaction", "product", "source", "environment", "started_at", "purchased_at", "revoked_at", "owners",
                "installs",
            ])
        shown["events"] = (answer["counts"] as? [String: Int])?["event"]
        let timeline = try client.get("/onym/v1/people/\(person)/timeline?kinds=event&limit=200")
        shown["timeline"] = timeline.list("rows").map { row in
            row.filter { ["at", "kind", "body", "origin"].contains($0.key) }
        }
        return String(
            decoding: try JSONSerialization.data(withJSONObject: shown, options: [.sortedKeys]), as: UTF8.self)
    }

    /// A random history of a project.
    private struct History {
        let client: NativeClient
        var chance: SeededGenerator
        var people: [String] = []
        var merges: [String] = []

        init(_ client: NativeClient, seed: UInt64) {
            self.client = client
            chance = SeededGenerator(seed: seed)
        }

        private mutating func number(_ below: Int) -> Int { Int.random(in: 0..<below, using: &chance) }

        private mutating func person() throws -> String { try #require(people.randomElement(using: &chance)) }

        mutating func step() throws {
            let server = client.server
            if people.isEmpty || chance.oneIn(3) {
                let names = [
                    #""customerid":"c\#(number(12))""#, #""email":"e\#(number(20))@example.com""#,
                    #""ios_idfv":"D\#(number(15))""#,
                ].filter { _ in !chance.oneIn(3) }
                people.append(
                    try client.identify("{\((names.isEmpty ? [#""other":"o""#] : names).joined(separator: ","))}"))
                return
            }
            let one = try person()
            switch number(8) {
            case 0, 1:
                let answer = try server.client.call(
                    "POST", "/v3/JS/\(server.credentials.idsyncWebKey)/events",
                    json: """
                        {"mpid":"\(one)","ua":{"plan":"p\(number(3))","n\(number(3))":\(number(9))},\
                        "events":[{"n":"click \(number(99))","dt":4}]}
                        """)
                #expect((200...299).contains(answer.status) || answer.status == 404 || answer.status == 400)
            case 2:
                let value = chance.oneIn(3) ? "null" : "\"e\(number(20))@example.com\""
                let old =
                    try client.get("/onym/v1/people/\(one)").list("identities")
                    .first { $0["type"] as? String == "email" && $0["holder"] as? String == one }?["value"] as? String
                let before = old.map { "\"\($0)\"" } ?? "null"
                _ = try client.modify(
                    one, #"[{"identity_type":"email","old_value":\#(before),"new_value":\#(value)}]"#)
            case 3:
                let answer = try client.post("/onym/v1/merges", #"{"from":"\#(one)","into":"\#(try person())"}"#)
                if let merge = answer.text("id") { merges.append(merge) }
            case 4:
                if let merge = merges.randomElement(using: &chance) {
                    _ = try client.post("/onym/v1/merges/\(merge)/undo")
                }
            case 5:
                let user = number(5)
                _ = try client.claimDialect(
                    "claim", #"{"anonymous_id":"owl_anon_\#(number(9))","user_id":"u\#(user)"}"#)
                _ = try client.claimDialect(
                    "properties", #"{"user_id":"u\#(user)","properties":{"k\#(number(3))":"v\#(number(9))"}}"#)
                let found = try client.get("/onym/v1/people?type=claim_user_id&value=u\(user)").list("people")
                people += found.compactMap { $0["id"] as? String }
            case 6:
                // An alias shows both of its people, also after an erasure of one.
                let hasAlias = try client.get("/onym/v1/people/\(one)").list("aliases").isEmpty == false
                if !hasAlias, chance.oneIn(4) { _ = try client.call("DELETE", "/onym/v1/people/\(one)") }
            default:
                // What came by an import goes out like the rest.
                let start = 1_700_000_000_000 + 100_000 * number(50)
                let lines = """
                    {"kind":"person","id":"-\(1 + number(9))","made":"2024-03-01T08:00:00Z"}
                    {"kind":"alias","source":"\(one)","destination":"\(try person())","from":\(start),"until":\(start + 40_000)}
                    {"kind":"row","person":"\(one)","row":"event","id":"e\(number(99))","at":\(start),"body":{"name":"b"}}

                    """
                _ = try ProjectExportTests.take(lines, client)
            }
        }
    }

    @Test("a part of it looks at a limited number of people, also where these have nothing to tell")
    func work() throws {
        let client = try NativeClient(.sqlite)
        let people = (0..<21_000).map { #"{"kind":"person","key":"customerid:c\#($0)"}"# + "\n" }.joined()
        #expect(try ProjectExportTests.take(people, client).taken == 21_000)
        let exported = try ProjectExportTests.export(client)
        #expect(exported.lines("person").count == 21_000)
        // Two calls of 1,000 people with an identity fill a part. The access of the people of ten calls is looked for in a part.
        #expect(exported.parts == 13)
    }

    @Test(
        "costs what it has, however often a person has changed its identities", arguments: StoreKind.allCases,
        ["", "&form=tables"])
    func changes(_ kind: StoreKind, _ form: String) throws {
        let (addresses, times) = (10, 8)
        for query in ["since=0", "since=last"] {
            let works = try [times, 3 * times].map { times in
                let counter = ReadCounter()
                let client = try NativeClient(kind, counter: counter)
                let last = try client.post("/onym/v1/export?since=0&form=graph").wire.body
                let header = ProjectExportTests.object(String(last.prefix { $0 != "\n" }))
                let upTo = try #require(header["upto"] as? Int)
                _ = try client.replaceAddresses(addresses, times: times)
                _ = counter.take()
                let answer = try client.post(
                    "/onym/v1/export?\(query.replacing("last", with: "\(upTo)"))\(form)")
                #expect(answer.status == 200 && answer.wire.body.contains("a9.\(times - 1)"), "\(answer)")
                return counter.take()
            }
            // The calls, once more for access, and the calls that ended links.
            #expect(works[1].calls - works[0].calls <= 3 * 2 * times, "\(query): \(works)")
            // The beginning and the end of each link.
            #expect(works[1].others - works[0].others <= 2 * 2 * times * addresses, "\(query): \(works)")
            #expect(works[1].people <= works[0].people + 4, "\(query): \(works)")
        }
    }

    @Test("of a random history, imported into an empty store, has equal reads", arguments: StoreKind.allCases)
    func equal(_ kind: StoreKind) throws {
        for seed in 1...(kind == .memory ? 12 : 3) as ClosedRange<UInt64> {
            var history = History(try NativeClient(kind), seed: seed)
            for _ in 0..<90 { try history.step() }
            let exported = try ProjectExportTests.export(history.client)
            #expect(
                exported.kinds.isSuperset(of: ["header", "person", "link", "property", "row", "end"]), "seed \(seed)")

            let other = try NativeClient(kind)
            let taken = try ProjectExportTests.take(exported.text, other)
            let allowed: Set = ["merge past", "alias past"]
            let unexpected = taken.refused.keys.filter { !allowed.contains($0) && !$0.hasPrefix("row ") }
            #expect(unexpected.isEmpty, "seed \(seed): \(taken.refused)")
            for person in Set(history.people) {
                let (before, after) = (
                    try ProjectExportTests.reads(person, history.client), try ProjectExportTests.reads(person, other)
                )
                #expect(
                    before == after,
                    "seed \(seed), \(exported.lines.filter { $0.contains(person) }.joined(separator: "\n"))")
            }
            // The properties of each person, and not those of the groups: of two members with one property the one of the later
            // call counts, and an import is one call.
            let imported = try ProjectExportTests.export(other)
            for kind in ["person", "property"] {
                let (before, after) = (exported.lines(kind), imported.lines(kind))
                #expect(before == after, "seed \(seed)")
            }
            // The same file again changes nothing.
            #expect(try ProjectExportTests.take(exported.text, other).taken == 0, "seed \(seed)")
        }
    }

    @Test("has one moment, and goes on from its cursor", arguments: StoreKind.allCases)
    func moment(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        // More than one part.
        let lines = (1...1100).flatMap { number in
            ["customerid", "ios_idfv", "android_uuid"].map { type in
                #"{"kind":"link","person":"-\#(number)","type":"\#(type)","value":"v\#(number)"}"# + "\n"
            }
        }
        _ = try ProjectExportTests.take(lines.joined(), client)
        _ = try client.modify("-7", #"[{"identity_type":"email","old_value":null,"new_value":"old@example.com"}]"#)
        let quiet = try ProjectExportTests.export(client)
        #expect(quiet.parts >= 2 && quiet.all("person").count == 1100)
        #expect(try ProjectExportTests.export(client).lines.dropFirst() == quiet.lines.dropFirst(), "equal bytes")

        let first = try client.post("/onym/v1/export?since=0").wire.body.split(separator: "\n")
        let end = try #require(first.last)
        let cursor = try #require(ProjectExportTests.object(String(end))["cursor"] as? String)
        var bytes = Base64.decodeForAddresses(cursor.utf8.span) ?? [0]
        bytes[bytes.count - 1] += 1
        let other = try client.post("/onym/v1/export?since=0&cursor=\(Base64.encodeForAddresses(bytes))")
        #expect(other.status == 400 && other.wire.body.contains("another project"), "\(other)")

        var steps = 0
        let busy = try ProjectExportTests.export(client) {
            steps += 1
            _ = try client.identify(#"{"customerid":"late\#(steps)"}"#)
            if steps == 1 {
                _ = try client.modify(
                    "-7", #"[{"identity_type":"email","old_value":"old@example.com","new_value":"new@example.com"}]"#)
            }
        }
        #expect(busy.lines.dropFirst() == quiet.lines.dropFirst(), "calls during the export are not in it")

        // What came since: a base and its increments are one full export.
        let upto = try #require(ProjectExportTests.object(quiet.lines[0])["upto"] as? Int)
        _ = try client.call("DELETE", "/onym/v1/people/-9")
        let increment = try ProjectExportTests.export(client, since: upto)
        let links = increment.all("link")
        #expect(increment.all("person").count == steps, "\(increment.text)")
        #expect(links.contains { $0["value"] as? String == "new@example.com" && $0["until"] is NSNull })
        #expect(links.contains { $0["value"] as? String == "old@example.com" && $0["until"] is String })
        #expect(increment.all("erased").compactMap { $0["person"] as? String } == ["-9"])
        let now = try ProjectExportTests.export(client)
        #expect(now.all("link").contains { $0["value"] as? String == "old@example.com" && $0["until"] is String })
        #expect(!now.text.contains("\"-9\""), "an erased person is in no export")
    }

    @Test("refuses what it cannot answer")
    func refusals() throws {
        let client = try NativeClient(.memory)
        for query in ["since=x", "since=-1", "form=store", "cursor=x", "cursor=AAAA"] {
            let answer = try client.post("/onym/v1/export?\(query)")
            #expect(answer.status == 400 && answer.code == "validation_error", "\(query): \(answer)")
        }
        let last = try #require(try client.get("/onym/v1/stats").number("last_seq"))
        let none = try client.post("/onym/v1/export?since=\(last)")
        #expect(none.status == 200 && none.wire.body.contains(#""lines":0"#), "\(none)")
        // Such a number is of another store, or of this one before it was restored: an empty answer would hide that.
        let later = try client.post("/onym/v1/export?since=\(last + 1)")
        #expect(later.status == 409 && later.code == "since_later_than_store", "\(later)")
    }

    @Test("has access, and gives it to the same principals", arguments: StoreKind.allCases)
    func access(_ kind: StoreKind) throws {
        let lines = """
            {"kind":"link","key":"v:1","type":"access_user_id","value":"QON_1"}
            {"kind":"link","key":"v:1","type":"access_identity","value":"ada"}
            {"kind":"purchase","principal":"access_identity:ada","store":"app_store","transaction":"831","original":"830",\
            "product":"pro","bought":"2026-09-01T00:00:00Z","expires":"2026-10-01T00:00:00Z","period":"trial","as_of":"2026-09-01T00:00:00Z"}
            {"kind":"purchase","principal":"access_identity:ada","store":"app_store","transaction":"832","original":"830",\
            "product":"pro","bought":"2026-10-01T00:00:00Z","expires":"2099-10-01T00:00:00Z","renewal":"canceled","as_of":"2026-11-01T00:00:00Z"}
            {"kind":"purchase","principal":"sandbox_user_id:QON_2","world":"sandbox","store":"stripe","transaction":"9","product":"one","bought":"2026-10-01T00:00:00Z","refunded":"2026-10-02T00:00:00Z"}
            {"kind":"grant","principal":"access_identity:ada","entitlement":"gold","from":"2026-01-01T00:00:00Z","until":null}

            """
        let (client, other) = (try NativeClient(kind), try NativeClient(kind))
        for one in [client, other] { _ = try one.call("PUT", "/onym/v1/entitlements/gold", #"{"name":"Gold"}"#) }
        #expect(try ProjectExportTests.take(lines, client).refused.isEmpty)
        let exported = try ProjectExportTests.export(client)
        #expect(exported.all("purchase").count == 3 && exported.all("grant").count == 1, "\(exported.text)")
        #expect(try ProjectExportTests.take(exported.text, other).refused.isEmpty)
        for name in ["access_identity:ada", "sandbox_user_id:QON_2"] {
            let before = try ProjectExportTests.reads(name, client)
            #expect(
                before == (try ProjectExportTests.reads(name, other)) && before.contains("transaction"), "\(before)")
        }
    }
}
