import Foundation
import TestKit
import Testing

/// `onym export --tables`, read by DuckDB (spec/moving.md, section 3).
@Suite("Tables of an export", .serialized, .timeLimit(.minutes(30)))
struct TableTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().path()

    private func onym(_ words: [String], _ store: Store) throws -> Shell.Result {
        try Shell.result([ServerProcess.program] + words + ["--data", store.data])
    }

    /// Calls of an administrator about people.
    private struct History {
        let store: Store
        let server: ServerProcess
        var chance = SeededGenerator(seed: 0x7AB1E5)
        var people: [String] = []
        var merges: [String] = []

        func call(_ method: String, _ path: String, _ body: String? = nil) throws -> Wire.Answer {
            try server.client.call(
                method, path, fields: [("Authorization", "Bearer \(store.adminKey)")], json: body ?? "")
        }

        mutating func meet(_ number: Int) throws {
            let mpid = try store.identify("{\"customerid\":\"c, \\\"\(number)\\\"\"}", server.client).mpid
            people.append(try #require(mpid))
        }

        mutating func step() throws {
            let (one, other) = (people.randomElement(using: &chance) ?? "", people.randomElement(using: &chance) ?? "")
            switch Int.random(in: 0..<6, using: &chance) {
            case 0, 1, 2:
                let answer = try call("POST", "/onym/v1/merges", #"{"from":"\#(one)","into":"\#(other)"}"#)
                if let id = answer.body.firstMatch(of: /"id":"(m_\d+)"/) { merges.append(String(id.1)) }
            case 3:
                guard let merge = merges.randomElement(using: &chance) else { return }
                _ = try call("POST", "/onym/v1/merges/\(merge)/undo", "{}")
            default:
                let answer = try server.client.call(
                    "POST", "/v3/JS/\(store.webKey)/events",
                    json: #"{"mpid":"\#(one)","events":[{"n":"click, \"here\"","dt":4}]}"#)
                #expect((200...299).contains(answer.status), "\(answer)")
            }
        }
    }

    @Test("are the same in CSV and Parquet, their roots are the server's, and parts are the whole")
    func whole() throws {
        let store = try Store()
        let facts = store.folder.path + "/facts.jsonl"
        try """
        {"kind":"header","onym":1,"form":"facts"}
        {"kind":"person","id":"-77","made":"2024-03-01T08:00:00.000Z"}
        {"kind":"link","person":"-77","type":"email","value":"ada@example.com","since":"2024-03-02T08:00:00.000Z"}
        {"kind":"link","person":"-77","type":"access_identity","value":"ada","since":"2024-03-02T08:00:00.000Z"}
        {"kind":"grant","principal":"access_identity:ada","entitlement":"pro","from":"2026-01-01T00:00:00.000Z","until":null}
        {"kind":"end","lines":4}

        """.write(toFile: facts, atomically: true, encoding: .utf8)
        #expect(try onym(["entitlements", "set", "--id", "pro"], store).code == 0)
        let taken = try onym(["import", facts], store)
        #expect(taken.code == 0, "\(taken)")

        let server = try ServerProcess(data: store.data)
        var history = History(store: store, server: server)
        for number in 0..<20 { try history.meet(number) }
        for _ in 0..<60 { try history.step() }
        let base = store.folder.path + "/base"
        let first = try onym(["export", "--tables", base], store)
        #expect(first.code == 0 && first.output.contains("people: 21 rows\n"), "\(first)")
        let manifest = try String(contentsOfFile: base + "/manifest.json", encoding: .utf8)
        let upTo = try #require(manifest.firstMatch(of: /"upto":(\d+)/)).1
        for number in 20..<25 { try history.meet(number) }
        for _ in 0..<60 { try history.step() }
        // A device of the first export loses its e-mail: the link ends between the exports.
        let (csv, parquet, later) = (
            store.folder.path + "/csv", store.folder.path + "/parquet", store.folder.path + "/later"
        )
        for words in [
            ["export", "--tables", csv, "--format", "csv"], ["export", "--tables", parquet],
            ["export", "--tables", later, "--since", String(upTo)],
        ] {
            let result = try onym(words, store)
            #expect(result.code == 0, "\(result)")
        }

        let read = try Shell.result(
            [
                TableTests.folder + "../../.venv/bin/python", TableTests.folder + "Clients/tables.py", csv, parquet,
                base, later,
            ])
        try #require(read.code == 0, "\(read)")
        let found = try #require(
            try JSONSerialization.jsonObject(with: Data(read.output.utf8)) as? [String: Any], "\(read)")
        #expect(found["wrong"] as? [String] == [])
        let tables = try #require(found["tables"] as? [String: Int])
        #expect(tables["people"] == 26 && tables["identities"] == 28 && tables["access"] == 1, "\(tables)")
        #expect(tables["merges"] == Set(history.merges).count && tables["events"] ?? 0 > 20, "\(tables)")
        let roots = try #require(found["roots"] as? [String: String])
        for person in history.people {
            let answer = try history.call("GET", "/onym/v1/people/\(person)")
            let root = answer.body.firstMatch(of: /"root":"(-?\d+)"/).map { String($0.1) }
            #expect(roots[person] == root, "\(person)")
        }

        // A complete export is never overwritten, and nothing but the tables is left.
        let again = try onym(["export", "--tables", parquet], store)
        #expect(again.code == 1 && again.errors.contains("has an export already"), "\(again)")
        let names = try FileManager.default.contentsOfDirectory(atPath: parquet).sorted()
        #expect(
            names == [
                "access", "events", "id_graph_updates", "identities", "links", "manifest.json", "merges", "people",
                "purchases",
            ])
        #expect(server.stop() == 0)
    }
}
