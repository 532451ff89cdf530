import Foundation
import TestKit
import Testing

/// Imports over HTTP, as programs of an operator make them.
@Suite("Imports")
struct ImportCallTests {
    private static let file = """
        {"kind":"header","onym":1,"form":"facts"}
        {"kind":"person","id":"-5045766802590845105","made":"2024-03-01T08:00:00.000Z","seen":1761955200000}
        {"kind":"link","person":"-5045766802590845105","type":"customerid","value":"ada","since":"2024-03-02T08:00:00Z"}
        {"kind":"link","person":"-5045766802590845105","type":"ios_idfv","value":"8C61","since":null,"until":null}
        {"kind":"property","person":"-5045766802590845105","dialect":"idsync","name":"plan","value":"pro","at":1}
        {"kind":"row","person":"-5045766802590845105","row":"event","id":"e1","at":"2025-01-01T00:00:00Z","body":{"name":"click"}}
        {"kind":"person","key":"posthog:u1","made":"2023-03-01T08:00:00.000Z"}
        {"kind":"link","key":"posthog:u1","type":"access_user_id","value":"QON_ab12"}
        {"kind":"purchase","principal":"access_user_id:QON_ab12","store":"app_store","transaction":"831","original":"830",\
        "product":"pro","bought":"2026-10-01T00:00:00Z","expires":"2099-10-01T00:00:00Z","refunded":null,\
        "renewal":"will_renew","period":"trial","as_of":"2026-11-01T00:00:00Z"}
        {"kind":"merge","from_key":"posthog:u1","into":"-5045766802590845105","rule":"import"}
        {"kind":"alias","source_key":"posthog:u1","destination":"-5045766802590845105","from":1,"until":2}
        {"kind":"end","lines":10}

        """

    private func start(_ client: NativeClient, _ body: String = "{}", query: String = "") throws -> String {
        let answer = try client.post("/onym/v1/imports\(query)", body)
        #expect(answer.status == 201, "\(answer)")
        return try #require(answer.text("id"))
    }

    @Test("keep ids, are answered by all dialects, explained, and taken back", arguments: StoreKind.allCases)
    func whole(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let dryRun = try start(client, query: "?dry_run=true")
        let expected = try client.post("/onym/v1/imports/\(dryRun)/batches?position=0", ImportCallTests.file)
        #expect(expected.status == 200 && expected["taken"] as? Int == 10, "\(expected)")
        #expect(try client.get("/onym/v1/people/customerid:ada").status == 404, "a dry run changes nothing")

        let id = try start(client, #"{"name":"people.jsonl","form":"facts","on_conflict":"refuse"}"#)
        let path = "/onym/v1/imports/\(id)"
        let taken = try client.post("\(path)/batches?position=0&crc=7", ImportCallTests.file)
        #expect(taken["taken"] as? Int == 10 && taken.list("refused").isEmpty, "\(taken)")
        let repeated = try client.post("\(path)/batches?position=0", ImportCallTests.file)
        #expect(repeated.status == 409 && repeated.text("code") == "wrong_position", "\(repeated)")
        let again = try client.post("\(path)/batches?position=\(ImportCallTests.file.utf8.count)", ImportCallTests.file)
        #expect(again["taken"] as? Int == 0 && again["same"] as? Int == 10, "\(again)")
        #expect(try client.post("\(path)/finish").text("state") == "finished")
        #expect(try client.post("\(path)/batches?position=0", ImportCallTests.file).text("code") == "import_ended")
        #expect(try client.get("/onym/v1/imports").list("imports").count == 1)
        let shown = try client.get(path)
        #expect(shown["crc"] as? Int == 0 && shown.list("counts").contains { $0["kind"] as? String == "purchase" })

        #expect(try client.identify(#"{"customerid":"ada","ios_idfv":"8C61"}"#) == "-5045766802590845105")
        let person = try client.get("/onym/v1/people/customerid:ada")
        #expect(person.text("first_seen") == "2023-03-01T08:00:00.000Z", "\(person)")
        #expect(person.list("purchases").count == 1 && person.list("merges").count == 1)
        let chain = try client.get("/onym/v1/explain?a=customerid:ada&b=-5045766802590845105").list("chain")
        let imported = chain.first?["imported"] as? [String: Any]
        #expect(imported?["line"] as? Int == 3 && imported?["import"] as? String == id, "\(chain)")
        #expect(imported?["since"] as? String == "2024-03-02T08:00:00.000Z")
        let kinds = try client.get("/onym/v1/changes?limit=200").list("changes").map { $0["kind"] as? String }
        #expect(kinds.contains("import.finished") && kinds.contains("person.merged"))

        let undone = try client.post("\(path)/undo")
        #expect(undone["merges"] as? Int == 1 && undone["access"] as? Int == 1, "\(undone)")
        #expect(undone["properties"] as? Int == 1 && (undone["links"] as? Int ?? 0) >= 4, "\(undone)")
        #expect(try client.get("/onym/v1/people/customerid:ada").status == 404)
        #expect(try client.get(path).text("state") == "undone")
        #expect(try client.post("\(path)/undo")["links"] as? Int == 0)
    }

    @Test(
        "show in the journal and the export of a person nothing of others in the same file",
        arguments: StoreKind.allCases)
    func others(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let lines = ["ada", "bob"].enumerated().map { number, name in
            #"""
            {"kind":"person","id":"-\#(number + 1)","made":"2024-03-01T08:00:00.000Z"}
            {"kind":"link","person":"-\#(number + 1)","type":"email","value":"\#(name)@example.com","since":null}
            {"kind":"row","person":"-\#(number + 1)","row":"event","id":"\#(name)","at":"2025-01-01T00:00:00Z","body":{"name":"e"}}

            """#
        }
        let id = try start(client)
        let taken = try client.post("/onym/v1/imports/\(id)/batches?position=0", lines.joined())
        #expect(taken["taken"] as? Int == 6, "\(taken)")
        let facts = try client.get("/onym/v1/people/-1/journal").list("calls").flatMap {
            $0["facts"] as? [[String: Any]] ?? []
        }
        #expect(facts.prefix(2).map { $0["fact"] as? String } == ["person_made", "linked"], "\(facts)")
        #expect(facts.allSatisfy { $0["person"] as? String == "-1" })
        for path in ["/onym/v1/people/-1/journal", "/onym/v1/people/-1/export"] {
            let answer = path.hasSuffix("export") ? try client.post(path) : try client.get(path)
            #expect(answer.wire.body.contains("ada@example.com") && !answer.wire.body.contains("bob@"), "\(answer)")
        }
        // The journal of the project has the whole call.
        #expect(try client.get("/onym/v1/audit").wire.body.contains("bob@example.com"))

        let since = #"{"since":"seq:1"}"#
        let dry = try client.post("/onym/v1/people/-1/split?dry_run=true", since)
        #expect(dry.status == 200 && !dry.list("depended").isEmpty && !dry.wire.body.contains("bob@"), "\(dry)")

        // A fact of somebody else stays if it says where an identity went.
        let body = #"{"identities":[{"type":"email","value":"ada@example.com"}]}"#
        let into = try #require(try client.post("/onym/v1/people/-1/split", body).text("into"))
        let split = try client.get("/onym/v1/people/-1/journal").list("calls")[0]["facts"] as? [[String: Any]] ?? []
        #expect(
            split.contains { $0["fact"] as? String == "linked" && $0["person"] as? String == into }, "\(split)")
    }

    @Test(
        "refuse records with the reason, and take the others",
        arguments: [
            ("not json", "malformed", "not valid JSON"), (#"["kind"]"#, "malformed", "must be an object"),
            (#"{"kind":"cat"}"#, "malformed", "kind must be"), (#"{"id":"1"}"#, "malformed", "kind must be"),
            (#"{"kind":"person","id":"0"}"#, "malformed", "not 0"),
            (#"{"kind":"person","id":"-9223372036854775808"}"#, "malformed", "not 0"),
            (#"{"kind":"person","id":"9223372036854775808"}"#, "malformed", "64 bits"),
            (#"{"kind":"person","id":1}"#, "malformed", "id is missing"),
            (#"{"kind":"person","key":"u1"}"#, "malformed", "VENDOR:ID"),
            (#"{"kind":"person","id":"5","made":"soon"}"#, "malformed", "must be a moment"),
            (#"{"kind":"person","id":"5","made":[]}"#, "malformed", "must be a moment"),
            (#"{"kind":"person","id":"5","color":"red"}"#, "malformed", "color is not a member"),
            (#"{"kind":"link","person":"5","type":"shoe","value":"1"}"#, "malformed", "unknown value shoe"),
            (#"{"kind":"link","person":"5","type":"email","value":""}"#, "malformed", "value is empty"),
            (#"{"kind":"link","person":"5","type":"email"}"#, "malformed", "value is missing"),
            (#"{"kind":"link","person":"5","type":"customerid","value":"null"}"#, "blocked", "blocked"),
            (#"{"kind":"link","person":"5","type":"linking_install_id","value":"1"}"#, "unsupported", "not imported"),
            (#"{"kind":"property","person":"5","dialect":"linking","name":"a","value":1}"#, "malformed", "dialect"),
            (#"{"kind":"property","person":"5","dialect":"idsync","name":"a"}"#, "malformed", "value is missing"),
            (#"{"kind":"row","person":"5","row":"metric","at":1,"body":{}}"#, "unsupported", "event"),
            (#"{"kind":"row","person":"5","row":"event","at":1,"body":"x"}"#, "malformed", "body must be"),
            (
                #"{"kind":"purchase","principal":"email:a","store":"stripe","transaction":"1","product":"p","bought":1}"#,
                "malformed", "principal"
            ),
            (
                #"{"kind":"purchase","principal":"access_identity:a","store":"shop","transaction":"1","product":"p","bought":1}"#,
                "unsupported", "app_store"
            ),
            (
                #"{"kind":"purchase","principal":"access_identity:a","store":"stripe","transaction":"1","product":"p","bought":9,"expires":8}"#,
                "malformed", "before bought"
            ),
            (
                #"{"kind":"grant","principal":"access_identity:a","entitlement":"none","from":1}"#,
                "no_such_entitlement", "no such entitlement"
            ),
            (#"{"kind":"merge","from":"5","into":"6"}"#, "no_such_person", "no person"),
            (#"{"kind":"merge","from":"5","into":"6","rule":"magic"}"#, "malformed", "rule must be"),
            (#"{"kind":"merge","from":"5","into":"6","undone":1}"#, "past", "undone"),
            (#"{"kind":"install","person":"5","id":"1"}"#, "unsupported", "install"),
            (#"{"kind":"split","person":"5","into":"6"}"#, "unsupported", "splits"),
            (#"{"kind":"erased","person":"5"}"#, "unsupported", "erases nobody"),
            (#"{"kind":"alias","source":"5","destination":"6","from":1,"until":2,"undone":3}"#, "past", "undone"),
        ])
    func refusals(_ line: String, _ reason: String, _ words: String) throws {
        let client = try NativeClient(.memory)
        let id = try start(client)
        let body = line + "\n" + #"{"kind":"link","person":"77","type":"customerid","value":"ok","x_note":[1]}"#
        let answer = try client.post("/onym/v1/imports/\(id)/batches?position=0", body)
        let refused = answer.list("refused")
        #expect(answer["taken"] as? Int == 1 && refused.count == 1, "\(answer)")
        #expect(refused.first?["reason"] as? String == reason && refused.first?["line"] as? Int == 1, "\(answer)")
        let detail = try #require(refused.first?["detail"] as? String)
        #expect(detail.contains(words), "\(answer)")
    }

    private func take(_ client: NativeClient, _ lines: [String]) throws -> (id: String, answer: NativeClient.Answer) {
        let id = try start(client)
        return (id, try client.post("/onym/v1/imports/\(id)/batches?position=0", lines.joined(separator: "\n")))
    }

    @Test(
        "leave other things with the number of a person alone when the person is erased", arguments: StoreKind.allCases)
    func numbers(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let webhook = try client.post("/onym/v1/webhooks", #"{"url":"https://example.com/hook"}"#)
        #expect(webhook.status == 201 && webhook["imports"] as? Bool == false, "\(webhook)")
        let first = try take(client, [#"{"kind":"person","id":"1"}"#])
        let number = String(first.id.dropFirst(2))
        _ = try take(client, [#"{"kind":"link","person":"1","type":"customerid","value":"one"}"#])
        #expect(try client.call("DELETE", "/onym/v1/people/1").status == 200)
        #expect(try client.get("/onym/v1/webhooks").list("webhooks").count == 1)
        #expect(try client.get("/onym/v1/imports").list("imports").count == 2)
        let again = try take(client, [#"{"kind":"person","id":"1"}"#, #"{"kind":"person","id":"\#(number)"}"#])
        #expect(again.answer.list("refused").first?["reason"] as? String == "erased", "\(again)")
    }

    @Test("end with an undo only what they began themselves", arguments: StoreKind.allCases)
    func undo(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let made = try take(
            client,
            [
                #"{"kind":"link","person":"9","type":"email","value":"old@example.com","until":"2024-01-01T00:00:00Z"}"#,
                #"{"kind":"link","person":"9","type":"customerid","value":"nine"}"#,
                #"{"kind":"link","person":"9","type":"access_identity","value":"wrong"}"#,
            ])
        #expect(made.answer["taken"] as? Int == 3, "\(made)")
        let attach = try client.post("/onym/v1/people/9/identities", #"{"type":"email","value":"old@example.com"}"#)
        #expect((200..<300).contains(attach.status), "\(attach)")
        let undone = try client.post("/onym/v1/imports/\(made.id)/undo")
        #expect(undone["stays"] as? Int == 1 && undone["links"] as? Int == 3, "\(undone)")
        #expect(try client.get("/onym/v1/people/email:old@example.com").text("id") == "9")
        let mended = try take(client, [#"{"kind":"link","person":"9","type":"access_identity","value":"right"}"#])
        #expect(mended.answer["taken"] as? Int == 1, "\(mended)")
        let late = try client.post("/onym/v1/imports/\(mended.id)/undo?after=9000000000000000000")
        #expect(late.status == 400)
    }

    @Test("take numbers at the ends of their ranges, and people of one group as one person")
    func edges() throws {
        let client = try NativeClient(.memory)
        let taken = try take(
            client,
            [
                #"{"kind":"person","id":"5","made":-9223372036854775808}"#,
                #"{"kind":"person","id":"5","x_line":9223372036854775807}"#,
                #"{"kind":"person","id":"5","x_line":-9223372036854775808}"#,
                #"{"kind":"person","key":"v:1"}"#, #"{"kind":"person","key":"v:2","made":1}"#,
                #"{"kind":"link","key":"v:1","type":"customerid","value":"u"}"#,
                #"{"kind":"merge","from_key":"v:2","into_key":"v:1"}"#,
                #"{"kind":"link","key":"v:2","type":"customerid","value":"u"}"#,
                #"{"kind":"link","key":"v:3","type":"customerid","value":"u"}"#,
                #"{"kind":"merge","from_key":"v:3","into_key":"v:1"}"#,
            ])
        let reasons = taken.answer.list("refused").compactMap { $0["reason"] as? String }
        #expect(reasons == ["malformed", "malformed", "malformed", "held", "no_such_person"], "\(taken)")
        #expect(taken.answer["taken"] as? Int == 4 && taken.answer["same"] as? Int == 1, "\(taken)")
    }

    @Test("refuse calls that are no part of an import")
    func calls() throws {
        let client = try NativeClient(.memory)
        #expect(try client.post("/onym/v1/imports", #"{"on_conflict":"maybe"}"#).status == 400)
        #expect(try client.post("/onym/v1/imports", #"{"color":1}"#).status == 400)
        #expect(try client.post("/onym/v1/imports/i_5/batches?position=0", "{}").status == 404)
        #expect(try client.post("/onym/v1/imports/i_5/undo").status == 404)
        #expect(try client.post("/onym/v1/imports/x/finish").status == 404)
        #expect(try client.get("/onym/v1/imports/i_5").status == 404)
        let id = try start(client)
        for query in [
            "", "?position=-1", "?position=x", "?position=5&end=4", "?position=0&cat=1", "?position=0&crc=4294967296",
        ] {
            #expect(try client.post("/onym/v1/imports/\(id)/batches\(query)", "{}").status == 400, "\(query)")
        }
        let many = String(repeating: "{}\n", count: 4097)
        #expect(try client.post("/onym/v1/imports/\(id)/batches?position=0", many).text("code") == "too_many_records")
        for _ in 0..<4 { _ = try start(client, query: "?dry_run=true") }
        #expect(try client.post("/onym/v1/imports?dry_run=true").text("code") == "too_many_dry_runs")
        #expect(try client.post("/onym/v1/imports/d_1/finish").text("state") == "finished")
        #expect(try client.post("/onym/v1/imports?dry_run=true").status == 201)
    }
}
