import Foundation
import TestKit
import Testing

@Suite("Copies of a store, and what is restored from them", .serialized, .timeLimit(.minutes(30)))
struct BackupTests {
    private func onym(_ words: [String]) throws -> Shell.Result { try Shell.result([ServerProcess.program] + words) }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    /// The state of the copies, as the server tells it.
    private func status(_ store: Store, _ server: ServerProcess) throws -> [String: Any] {
        let answer = try server.client.call(
            "GET", "/onym/v1/backups", fields: [("Authorization", "Bearer \(store.adminKey)")])
        #expect(answer.status == 200, "\(answer)")
        return try object(answer.body)
    }

    /// Waits until the folder of the server has all calls.
    private func waitForLog(_ store: Store, _ server: ServerProcess) throws {
        let last = try server.client.call(
            "GET", "/onym/v1/server", fields: [("Authorization", "Bearer \(store.adminKey)")]
        ).body.firstMatch(of: /"last_seq":(\d+)/).flatMap { Int($0.1) }
        var now: [String: Any] = [:]
        let isThere = try Patience.until {
            now = try status(store, server)
            let log = now["log"] as? [String: Any]
            return log?["seq"] as? Int == last && log?["lag_seconds"] as? Int == 0
        }
        #expect(isThere, "\(String(describing: last)): \(now)")
    }

    /// Restores a copy, and answers the last call.
    private func restore(_ folder: String, _ target: String, _ store: Store, _ more: String...) throws -> Int {
        let result = try onym(
            ["restore", folder, target, "--master-key", store.data + "/master.key", "--json"] + more)
        try #require(result.code == 0, "\(result)")
        return try #require(try object(result.output)["seq"] as? Int)
    }

    private func expectAll(_ acknowledged: [String: String], _ store: Store, in data: String) throws {
        let server = try ServerProcess(data: data)
        for (customer, mpid) in acknowledged {
            let answer = try store.identify("{\"customerid\":\"\(customer)\"}", server.client)
            #expect(answer.mpid == mpid, "\(customer)")
        }
        #expect(server.stop() == 0)
    }

    @Test("a copied log has every acknowledged call, through kills and restarts of the server")
    func killed() throws {
        let store = try Store()
        let folder = store.folder.path + "/copies"
        let flags = ["--backup-to", folder]
        var acknowledged: [String: String] = [:]
        for round in 1...6 * Soak.factor {
            let server = try ServerProcess(data: store.data, flags: flags)
            let load = Load(store, port: server.port, clients: 4, name: "round-\(round)")
            load.wait(for: 100 + 150 * (round % 3))
            if round % 3 == 0 {
                #expect(server.stop() == 0)
            } else {
                server.kill()
            }
            load.stop()
            acknowledged.merge(load.acknowledged) { $1 }
        }
        let server = try ServerProcess(data: store.data, flags: flags)
        try waitForLog(store, server)
        // A power cut now: the folder has all that the server has said.
        server.kill()
        #expect(acknowledged.count > 600)
        let target = store.folder.path + "/restored"
        let last = try restore(folder, target, store)
        #expect(last > 600)
        try expectAll(acknowledged, store, in: target)

        // The killed server may have had later calls.
        #expect(try onym(["audit", "--kind", "restored", "--data", target]).output.contains("after call \(last)"))

        // The first calls alone, as a store of their own.
        let manifest = try object(try String(contentsOfFile: folder + "/manifest.json", encoding: .utf8))
        let bases = try #require(manifest["bases"] as? [[String: Any]])
        let first = try #require(bases.first?["sequence"] as? Int)
        #expect(try restore(folder, store.folder.path + "/first", store, "--until", String(first)) == first)
    }

    @Test("a copy under load has every call that was acknowledged before it, and refuses none")
    func underLoad() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let load = Load(store, port: server.port, clients: 4, name: "load")
        load.wait(for: 300)
        for number in 1...3 {
            let before = load.acknowledged
            let folder = store.folder.path + "/copy-\(number).tar"
            let made = try onym(["backup", folder, "--data", store.data])
            #expect(made.code == 0 && made.errors.contains("healthy"), "\(made)")
            let target = store.folder.path + "/restored-\(number)"
            _ = try restore(folder, target, store)
            try expectAll(before, store, in: target)
        }
        load.stop()
        #expect(load.refused == 0)
        #expect(server.stop() == 0)
    }

    @Test("a store of an earlier moment says so, and readers of lost changes learn it")
    func until() throws {
        let store = try Store()
        let folder = store.folder.path + "/copies"
        let server = try ServerProcess(data: store.data, flags: ["--backup-to", folder])
        var people: [String] = []
        try waitForLog(store, server)
        for number in 0..<6 {
            people.append(try #require(try store.identify("{\"customerid\":\"u\(number)\"}", server.client).mpid))
        }
        try waitForLog(store, server)
        #expect(server.stop() == 0)
        // Call 1 makes the project.
        let target = store.folder.path + "/restored"
        #expect(try restore(folder, target, store, "--until", "4") == 4)
        let doctor = try onym(["doctor", "--data", target])
        #expect(doctor.code == 0, "\(doctor)")

        let restored = try ServerProcess(data: target)
        let client = restored.client
        for number in 0..<6 {
            let answer = try client.call(
                "POST", "/v1/search", fields: [("x-mp-key", store.webKey)],
                json: "{\"environment\":\"development\",\"known_identities\":{\"customerid\":\"u\(number)\"}}")
            #expect(answer.body.contains(people[number]) == (number < 3), "\(number): \(answer)")
        }
        func changes(_ after: Int) throws -> Wire.Answer {
            try client.call(
                "GET", "/onym/v1/changes?after=\(after)", fields: [("Authorization", "Bearer \(store.adminKey)")])
        }
        for call in [5, 6, 7, 1000] {
            let answer = try changes(call)
            #expect(answer.status == 409 && answer.body.contains("rewound"), "\(answer)")
        }
        #expect(try changes(4).status == 200)
        _ = try store.identify("{\"customerid\":\"new\"}", client)
        let next = try #require(try changes(4).body.firstMatch(of: /"next_after":(\d+)/).flatMap { Int($0.1) })
        #expect(next > 1_000_000, "no new call has the number of a lost one")
        #expect(try changes(next).status == 200)
        let journal = try onym(["audit", "--kind", "restored", "--data", target])
        #expect(journal.output.contains("after call 4"), "\(journal)")
        #expect(restored.stop() == 0)
        #expect(try onym(["doctor", "--data", target]).code == 0)
    }

    @Test("a folder that cannot be written shows, and is written again when it can be")
    func folderGone() throws {
        let store = try Store()
        let folder = store.folder.path + "/copies"
        try "a file in the way".write(toFile: folder, atomically: true, encoding: .utf8)
        let server = try ServerProcess(data: store.data, flags: ["--backup-to", folder])
        #expect(server.errors(with: "The backup failed.").contains(folder))
        let ready = try server.client.call("GET", "/readyz")
        #expect(ready.status == 200 && ready.body.contains("backup is"), "\(ready)")
        _ = try store.identify(#"{"customerid":"a"}"#, server.client)
        let isBehind = try Patience.until {
            ((try status(store, server)["log"] as? [String: Any])?["lag_seconds"] as? Int ?? 0) > 0
        }
        #expect(isBehind, "the folder never opened")
        try FileManager.default.removeItem(atPath: folder)
        #expect(server.errors(with: "The backup works again.").contains("works again"))
        try waitForLog(store, server)
        let works = try server.client.call("GET", "/readyz")
        #expect(!works.body.contains("backup is"), "\(works)")
        let metrics = try server.client.call(
            "GET", "/metrics", fields: [("Authorization", "Bearer \(store.adminKey)")])
        #expect(metrics.body.contains("onym_backup_lag_seconds 0"))
        #expect(server.stop() == 0)
        let whole = store.folder.path + "/whole"
        _ = try restore(folder, whole, store)
        let audit = try onym(["audit", "--kind", "restored", "--data", whole])
        #expect(!audit.output.contains("after call"), "The server stopped, so no call is lost: \(audit)")
        // The next server goes on with the same log, without another copy of the file.
        let bases = try FileManager.default.contentsOfDirectory(atPath: folder + "/base").count
        let again = try ServerProcess(data: store.data, flags: ["--backup-to", folder])
        _ = try store.identify(#"{"customerid":"b"}"#, again.client)
        try waitForLog(store, again)
        #expect(again.stop() == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/base").count == bases)
        _ = try restore(folder, store.folder.path + "/restored", store)
    }

    @Test("a folder that was replaced gets a new copy")
    func folderReplaced() throws {
        let store = try Store()
        let folder = store.folder.path + "/copies"
        let server = try ServerProcess(data: store.data, flags: ["--backup-to", folder])
        _ = try store.identify(#"{"customerid":"a"}"#, server.client)
        try waitForLog(store, server)
        try FileManager.default.moveItem(atPath: folder, toPath: folder + "-moved")
        _ = try store.identify(#"{"customerid":"b"}"#, server.client)
        #expect(server.errors(with: "begins anew").contains("begins anew"))
        #expect(try Patience.until { try onym(["backup", folder, "--data", store.data]).code == 0 })
        #expect(try restore(folder, store.folder.path + "/restored", store) == 3)
        #expect(server.stop() == 0)
    }

    @Test("the commands refuse what would lose something")
    func refusals() throws {
        let store = try Store()
        let folder = store.folder.path + "/copies"
        #expect(try onym(["backup", folder, "--data", store.data]).code == 0)
        let full = try onym(["restore", folder, store.data])
        #expect(full.code == 1 && full.errors.contains("not empty"), "\(full)")
        let nothing = try onym(["restore", store.folder.path + "/nothing", store.folder.path + "/x"])
        #expect(nothing.code == 1 && nothing.errors.contains("nothing"), "\(nothing)")
        let word = try onym(["restore", folder, store.folder.path + "/x", "--until", "yesterday"])
        #expect(word.code == 2, "\(word)")
        let far = try onym(["restore", folder, store.folder.path + "/x", "--until", "99"])
        #expect(far.code == 1 && far.errors.contains("end with call 1"), "\(far)")
        let other = try Store()
        let key = try onym(
            ["restore", folder, store.folder.path + "/x", "--master-key", other.data + "/master.key"])
        #expect(key.code == 1 && key.errors.contains("another master key"), "\(key)")
        let mixed = try onym(["backup", folder, "--data", other.data])
        #expect(mixed.code == 1 && mixed.errors.contains("another store"), "\(mixed)")
        let log = try onym(["backup", folder, "--log", "--data", store.data])
        #expect(log.code == 1 && log.errors.contains("backup_to"), "\(log)")
        let database = try onym(["backup", folder, "--data", store.data, "--store", "postgres://nobody@127.0.0.1:1/x"])
        #expect(database.code == 1 && database.errors.contains("pg_basebackup"), "\(database)")
        #expect(!FileManager.default.fileExists(atPath: store.folder.path + "/x"))

        let server = try ServerProcess(data: store.data)
        func post(_ json: String) throws -> Wire.Answer {
            try server.client.call(
                "POST", "/onym/v1/backups", fields: [("Authorization", "Bearer \(store.adminKey)")], json: json)
        }
        let unset = try post("{}")
        #expect(unset.status == 409 && unset.body.contains("no_backup_to"), "\(unset)")
        let elsewhere = try post("{\"to\":\"\(folder)\"}")
        #expect(elsewhere.status == 403 && elsewhere.body.contains("command_line_only"), "\(elsewhere)")
        #expect(try post(#"{"from":"x"}"#).status == 400)
        #expect(server.stop() == 0)
    }

    @Test("a restore that fails leaves nothing, and a restore touches nothing beside its folder")
    func leavesNothing() throws {
        let store = try Store()
        let (parent, files) = (store.folder.path, FileManager.default)
        let (folder, target) = (parent + "/copies", parent + "/x")
        #expect(try onym(["backup", folder, "--data", store.data]).code == 0)
        #expect(try onym(["backup", parent + "/copy.tar", "--data", store.data]).code == 0)
        let manifest = try String(contentsOfFile: folder + "/manifest.json", encoding: .utf8)
        let wrong = manifest.replacing(#""sequence":1"#, with: #""sequence":2"#)
        #expect(wrong != manifest)
        try wrong.write(toFile: folder + "/manifest.json", atomically: true, encoding: .utf8)
        let failed = try onym(["restore", folder, target])
        #expect(failed.code == 1 && failed.errors.contains("ends with call 1"), "\(failed)")
        #expect(!files.fileExists(atPath: target))

        try files.createDirectory(atPath: target, withIntermediateDirectories: false)
        #expect(try onym(["restore", folder, target]).code == 1)
        #expect(try files.contentsOfDirectory(atPath: target).isEmpty)
        // The name that an earlier version used for the unpacked copy.
        try files.createDirectory(atPath: parent + "/mine", withIntermediateDirectories: false)
        try "mine".write(toFile: parent + "/mine/file", atomically: true, encoding: .utf8)
        try files.createSymbolicLink(atPath: target + ".copy.part", withDestinationPath: parent + "/mine")
        let before = try files.contentsOfDirectory(atPath: parent).sorted()
        let restored = try onym(["restore", parent + "/copy.tar", target])
        #expect(restored.code == 0, "\(restored)")
        #expect(try files.contentsOfDirectory(atPath: parent).sorted() == before)
        #expect(try files.contentsOfDirectory(atPath: parent + "/mine") == ["file"])
        #expect(try files.contentsOfDirectory(atPath: target).sorted() == ["onym.db", "onym.head", "onym.lock"])
    }

    @Test("a copy goes through a pipe")
    func pipe() throws {
        let store = try Store()
        let (data, target) = (store.data, store.folder.path + "/restored")
        let program = ServerProcess.program
        let piped = try Shell.result([
            "sh", "-c",
            "'\(program)' backup - --data '\(data)' | '\(program)' restore - '\(target)' --master-key '\(data)/master.key'",
        ])
        #expect(piped.code == 0 && piped.output.contains("up to call 1"), "\(piped)")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: target).sorted() == [
                "master.key", "onym.db", "onym.head", "onym.lock",
            ]
        )
        #expect(try FileManager.default.contentsOfDirectory(atPath: data).allSatisfy { !$0.contains("backup") })
        let cut = try Shell.result([
            "sh", "-c", "'\(program)' backup - --data '\(data)' | head -c 3000 | '\(program)' restore - '\(target)2'",
        ])
        #expect(cut.code == 1 && cut.errors.contains("ends too early"), "\(cut)")
    }

    @Test("a server refuses a store that lost calls, the doctor names them, and --accept-loss goes on")
    func lostCalls() throws {
        let store = try Store()
        let early = try Data(contentsOf: URL(filePath: store.data + "/onym.db"))
        let server = try ServerProcess(data: store.data)
        for number in 0..<3 { _ = try store.identify("{\"customerid\":\"l\(number)\"}", server.client) }
        #expect(server.stop() == 0)
        try early.write(to: URL(filePath: store.data + "/onym.db"))
        let doctor = try onym(["doctor", "--data", store.data, "--json"])
        #expect(doctor.code == 1 && doctor.output.contains("lost_calls"), "\(doctor)")
        let refused = try onym(["serve", "--data", store.data, "--listen", "127.0.0.1:0"])
        #expect(refused.code == 3 && refused.errors.contains("lacks the calls 2 to 4"), "\(refused)")
        #expect(try onym(["keys", "list", "--data", store.data]).code == 3)
        let accepted = try ServerProcess(data: store.data, flags: ["--accept-loss"])
        #expect(try store.identify(#"{"customerid":"new"}"#, accepted.client).status == 200)
        for call in [2, 4, 5, 1_000_000] {
            let answer = try accepted.client.call(
                "GET", "/onym/v1/changes?after=\(call)", fields: [("Authorization", "Bearer \(store.adminKey)")])
            #expect(answer.status == 409 && answer.body.contains("rewound"), "\(answer)")
        }
        #expect(accepted.stop() == 0)
        let again = try ServerProcess(data: store.data)
        #expect(again.stop() == 0)
        #expect(try store.doctor().code == 0)

        let other = try Store()
        try FileManager.default.removeItem(atPath: store.data + "/master.key")
        try FileManager.default.copyItem(atPath: other.data + "/master.key", toPath: store.data + "/master.key")
        let foreign = try store.doctor()
        #expect(foreign.code == 1 && foreign.output.contains("master_key"), "\(foreign)")
        let absent = try onym(["doctor", "--data", store.data + "/absent"])
        #expect(absent.code == 3, "\(absent)")
    }
}
