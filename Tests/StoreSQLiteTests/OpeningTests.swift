import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

@Suite("Opening a store")
struct OpeningTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path + "/onym.db" }
    private var file: StoreFile { StoreFile(folder: folder.path) }

    private func fault(_ body: () throws -> Void) -> StoreFault? {
        do {
            try body()
            return nil
        } catch {
            return error as? StoreFault
        }
    }

    private func make() throws { try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in } }

    private func contents() throws -> Data { try Data(contentsOf: URL(filePath: path)) }

    @Test("makes a file that only its owner can read")
    func mode() throws {
        try make()
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(folder.names == ["onym.db", "onym.head", "onym.lock"])
    }

    @Test("gives its lock back when it is closed, even if a program that was just started has a copy of it")
    func copiedLock() throws {
        try make()
        let store = try SQLiteStore(file)
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let descriptor = try #require(
            descriptors.first {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)"))
                    == folder.path + "/onym.lock"
            })
        let copy = dup(try #require(CInt(descriptor)))
        defer { close(copy) }
        #expect(fault { _ = try SQLiteStore(file) }?.kind == .locked)
        store.close()
        try SQLiteStore(file).close()
    }

    @Test("finds no store where there is none, and makes none")
    func missing() {
        let fault = fault { _ = try SQLiteStore(file) }
        #expect(fault?.kind == .notFound)
        #expect(fault?.description.contains("onym init") == true)
        #expect(!folder.names.contains("onym.db"))
    }

    @Test("makes no store where there is one")
    func exists() throws {
        try make()
        let before = try contents()
        #expect(fault(make)?.kind == .locked)
        #expect(try contents() == before)
    }

    @Test("makes all of a store or nothing")
    func makingFails() throws {
        let failure = StoreFault(.diskFull, "The test says so.")
        let fault = fault {
            try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ throws(StoreFault) in throw failure }
        }
        #expect(fault == failure)
        #expect(!folder.names.contains("onym.db"))
        try make()
        #expect(!folder.names.contains { $0.hasPrefix("onym.db.") }, "what the attempt left is gone")
    }

    @Test(
        "refuses a file that is not a store, and leaves it as it was",
        arguments: ["some text that is no database", String(repeating: "x", count: 10_000), "SQLite format 3"])
    func notAStore(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        #expect(fault { _ = try SQLiteStore(file) }?.kind == .notAStore)
        #expect(try contents() == Data(text.utf8))
    }

    @Test("refuses an empty file")
    func empty() throws {
        try Data().write(to: URL(filePath: path))
        #expect(fault { _ = try SQLiteStore(file) }?.kind == .notFound)
        #expect(try contents().isEmpty)
    }

    @Test("refuses another program's database, and leaves it as it was")
    func foreign() throws {
        do {
            let connection = try Connection(path: path, mode: .create)
            try connection.execute("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
        }
        let before = try contents()
        let fault = fault { _ = try SQLiteStore(file) }
        #expect(fault?.kind == .notAStore)
        #expect(fault?.description.contains("another program") == true)
        #expect(try contents() == before)
        #expect(!folder.names.contains("onym.db-wal"))
    }

    @Test("refuses a store that a newer version wrote, and leaves it as it was")
    func newer() throws {
        try make()
        do {
            let connection = try Connection(path: path, mode: .readWrite)
            try connection.execute("PRAGMA user_version = 99")
            _ = try connection.checkpoint(.truncate)
        }
        let before = try contents()
        let fault = fault { _ = try SQLiteStore(file) }
        #expect(fault?.kind == .newerSchema)
        #expect(fault?.description.contains("schema 99") == true)
        #expect(try contents() == before)
    }

    @Test("of before a change of the default strategy keeps the types that its projects had")
    func formerDefault() throws {
        let fixture = try StoreFixture(.sqlite)
        let device = try fixture.identify([.ampID: "same"]).person
        let seenAt = fixture.clock.now
        var edit = StrategyEdit()
        edit.sharedDevicePeople = 7
        _ = try fixture.process(SetStrategy.edit(edit))
        fixture.sqlite?.close()
        let old = StoreFile(folder: fixture.folder.path)
        do {
            let connection = try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite)
            // The version before: the last seven migrations have not run.
            try connection.execute("DROP TABLE leaves; DROP TABLE tree")
            try connection.execute("DROP TABLE call_log; DROP INDEX people_by_call")
            try connection.execute(
                "ALTER TABLE documents DROP COLUMN previous; DROP TABLE call_groups; DROP TABLE call_acts")
            try connection.execute("UPDATE people SET last_seen = last_seen >> 20")
            try connection.execute(
                "DROP INDEX rows_superseded; ALTER TABLE rows DROP COLUMN superseded_by; DROP TABLE row_names")
            try connection.execute("PRAGMA user_version = \((try connection.integer("PRAGMA user_version") ?? 0) - 7)")
        }
        for _ in 0..<2 {
            let store = try SQLiteStore(old)
            let history = store.directory.strategies(of: World.project)
            #expect(history.newestFirst.map(\.number) == [2, 1])
            #expect(history[1]?.strategy.hierarchy == Strategy.olderDefault.hierarchy)
            #expect(history[1]?.strategy.hierarchy.count == 18 && history[1]?.at == nil)
            #expect(store.counts.people == 1)
            #expect(try #require(store.lastPerson) >= device)
            let summary = try store.read { snapshot throws(StoreFault) in
                snapshot.person(device, in: World.project)
            }
            #expect(summary?.lastSeen == seenAt)
            store.close()
            #expect(try Doctor(old) { _ in }.examine().isEmpty)
        }
    }

    @Test("lets only one have a store")
    func locked() throws {
        try make()
        let store = try SQLiteStore(file)
        let fault = fault { _ = try SQLiteStore(file) }
        #expect(fault?.kind == .locked)
        #expect(fault?.description.contains("process \(ProcessInfo.processInfo.processIdentifier)") == true)
        store.close()
        try SQLiteStore(file).close()
    }

    @Test("refuses a damaged store with a clear fault")
    func corrupt() throws {
        try make()
        var bytes = try contents()
        for index in 100..<bytes.count { bytes[index] = 0x5A }
        try bytes.write(to: URL(filePath: path))
        let fault = fault { _ = try SQLiteStore(file) }
        #expect(fault?.kind == .corrupt || fault?.kind == .notAStore)
    }

    @Test("refuses a store whose directory has a document without content (Console)")
    func emptyDocument() throws {
        let fixture = try StoreFixture(.sqlite)
        _ = try fixture.process(MakeSigningKey(name: "K", keyID: "k", .eddsa, publicKey: [UInt8](1...32)))
        fixture.sqlite?.close()
        let place = fixture.folder.path + "/onym.db"
        for statement in [
            """
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'body BLOB NOT NULL', 'body BLOB') WHERE name = 'documents'
            """, "UPDATE documents SET body = NULL",
        ] {
            let connection = try Connection(path: place, mode: .readWrite)
            try connection.execute(statement)
        }
        let fault = fault { _ = try SQLiteStore(StoreFile(folder: fixture.folder.path)) }
        #expect(fault?.kind == .corrupt, "\(String(describing: fault))")
    }

    @Test(
        "refuses a store with a row that it cannot read, in whichever thread it is found",
        arguments: [
            "UPDATE links SET person = 5 WHERE id = 20", "UPDATE links SET type = 250 WHERE id = 20",
            "UPDATE documents SET kind = 250", "UPDATE people SET rows = x'FF' WHERE id = (SELECT max(id) FROM people)",
        ])
    func brokenRow(change: String) throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<50 { _ = try fixture.identify([.customerID: "\(number)"]) }
        _ = try fixture.process(MakeSigningKey(name: "K", keyID: "k", .eddsa, publicKey: [UInt8](1...32)))
        fixture.sqlite?.close()
        try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite).execute(change)
        let fault = fault { _ = try SQLiteStore(StoreFile(folder: fixture.folder.path)) }
        #expect(fault?.kind == .corrupt, "\(String(describing: fault))")
    }

    @Test("finds the people of all links, which one thread reads while another adds them")
    func manyLinks() throws {
        let fixture = try StoreFixture(.sqlite)
        var people: [Int: PersonID] = [:]
        for number in 1...2500 {
            people[number] = try fixture.identify([.customerID: "u\(number)", .email: "\(number)@x.de"]).person
        }
        try fixture.reopen()
        #expect(fixture.store.counts.links == 5000)
        for (number, person) in people {
            #expect(try fixture.identify([.customerID: "u\(number)"]).person == person)
        }
    }

    @Test("opens a store whose server was killed, log and all")
    func killed() throws {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<50 { _ = try fixture.identify([.customerID: "\(number)"]) }
        // What a kill leaves: the file and its log as they are, copied while the store is open.
        for name in ["onym.db", "onym.db-wal"] {
            try FileManager.default.copyItem(atPath: "\(fixture.folder.path)/\(name)", toPath: "\(folder.path)/\(name)")
        }
        let store = try SQLiteStore(file)
        defer { store.close() }
        #expect(store.counts == fixture.store.counts)
    }

    @Test("keeps its log short under a steady stream of writes")
    func logLength() throws {
        let fixture = try StoreFixture(.sqlite)
        let padding = String(repeating: "x", count: 2000)
        for round in 0..<300 {
            let calls = (0..<64).map { number in
                StoreFixture.IdentifyCall([
                    .customerID: "\(round)-\(number)", .email: "\(round)-\(number)@\(padding)",
                    .iosIDFV: "0f3c8a6e-7f0d-4a1c-9a3e-\(round)-\(number)",
                ])
            }
            for answer in fixture.process(calls) { _ = try answer.get() }
        }
        let log = try FileManager.default.attributesOfItem(atPath: fixture.folder.path + "/onym.db-wal")[.size] as? Int
        let store = try FileManager.default.attributesOfItem(atPath: fixture.folder.path + "/onym.db")[.size] as? Int
        #expect(try #require(log) < 64 << 20)
        #expect(try #require(store) > 8 << 20, "the log has been copied while the store was written")
    }

    @Test("keeps its lock on the file after a fault, so that no other program takes its log away")
    func lockAfterFault() throws {
        let fixture = try StoreFixture(.sqlite)
        let attributes = try FileManager.default.attributesOfItem(atPath: fixture.folder.path + "/onym.db")
        let inode = try #require(attributes[.systemFileNumber] as? Int)
        /// The locks of this process on the file.
        func locks() throws -> Int {
            let lines = try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n")
            return lines.count { $0.contains(" POSIX ") && $0.contains(":\(inode) ") }
        }
        _ = try fixture.identify([.customerID: "a"])
        // A connection that waits for the next read.
        _ = try fixture.store.read { snapshot throws(StoreFault) in try snapshot.lastCall() }
        try #require(try locks() > 0)
        fixture.failNextCommit(.before)
        #expect(fixture.process([StoreFixture.IdentifyCall([.customerID: "b"])]).allSatisfy { (try? $0.get()) == nil })
        #expect(fixture.writer.recover() == nil)
        #expect(try locks() > 0)
        _ = try fixture.identify([.customerID: "b"])
        #expect(try locks() > 0)
    }
}
