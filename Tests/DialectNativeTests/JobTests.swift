import TestKit
import Testing

@Suite("Jobs")
struct JobTests {
    @Test("list imports, dry runs, the copy and the compaction, the running ones first", arguments: StoreKind.allCases)
    func list(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        let idle = try client.get("/onym/v1/jobs").list("jobs")
        #expect(Set(idle.compactMap { $0["id"] as? String }) == ["compact", "backup"], "\(idle)")

        let begun = try client.post("/onym/v1/imports", #"{"name":"people.jsonl"}"#)
        let id = try #require(begun.text("id"), "\(begun)")
        let lines = """
            {"kind":"person","key":"file:p1","made":1}
            {"kind":"link","key":"file:p1","type":"customerid","value":"ada"}
            not a record
            """
        #expect(try client.post("/onym/v1/imports/\(id)/batches?position=0", lines).status == 200)
        let running = try #require(try client.get("/onym/v1/jobs").list("jobs").first)
        #expect(running["id"] as? String == id && running["kind"] as? String == "import", "\(running)")
        #expect(running["state"] as? String == "running" && running["name"] as? String == "people.jsonl", "\(running)")
        #expect(running["done"] as? Int == 3 && running["rejected"] as? Int == 1, "\(running)")
        #expect(try client.call("DELETE", "/onym/v1/jobs/\(id)").code == "not_stoppable")
        clock.advance(milliseconds: 61_000)
        #expect(try client.get("/onym/v1/jobs/\(id)").text("state") == "interrupted", "its sender has gone")
        #expect(try client.post("/onym/v1/imports/\(id)/batches?position=\(lines.utf8.count)", "\n").status == 200)
        #expect(try client.get("/onym/v1/jobs/\(id)").text("state") == "running", "it goes on")
        #expect(try client.post("/onym/v1/imports/\(id)/finish").status == 200)
        let ended = try client.get("/onym/v1/jobs/\(id)")
        #expect(ended.text("state") == "done" && ended.text("ended_at") != nil, "\(ended)")

        let dry = try client.post("/onym/v1/strategy/dry-run", #"{"strategy":{"unique":["customerid","email"]}}"#)
        let run = "dry_run_\(try #require(dry.text("id"), "\(dry)"))"
        #expect(try Patience.until { try client.get("/onym/v1/jobs/\(run)").text("state") == "done" })
        let done = try client.call("DELETE", "/onym/v1/jobs/\(run)")
        #expect(
            done.status == 200 && done.text("state") == "done" && done.number("of") == done.number("done"), "\(done)")
        #expect(try client.call("DELETE", "/onym/v1/jobs/compact").code == "not_stoppable")
        for unknown in ["dry_run_99", "i_1", "x"] {
            #expect(try client.get("/onym/v1/jobs/\(unknown)").status == 404, "\(unknown)")
        }
    }

    @Test("of another project are not shown")
    func projects() throws {
        let client = try NativeClient(.memory)
        let id = try #require(try client.post("/onym/v1/imports", #"{"name":"mine"}"#).text("id"))
        let project = try client.post("/onym/v1/projects", #"{"name":"Other"}"#)
        let fields = [("Authorization", "Bearer \(try #require(project.text("admin_key")))")]
        let jobs = JSONAnswer(try client.server.client.call("GET", "/onym/v1/jobs", fields: fields)).list("jobs")
        #expect(jobs.compactMap { $0["id"] as? String } == ["compact"], "\(jobs)")
        #expect(try client.server.client.call("GET", "/onym/v1/jobs/\(id)", fields: fields).status == 404)
    }
}
