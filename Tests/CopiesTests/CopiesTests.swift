import ByteText
import Compression
import Copies
import Crypto
import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

/// Collects the commits of a store until they are written.
private final class Collected: LogArchive, @unchecked Sendable {
    // Unchecked: the test has one thread.
    var commits: [LoggedCommit] = []
    var hasMissed = false

    func add(_ commit: LoggedCommit) { commits.append(commit) }
    func miss() { hasMissed = true }
}

/// A store with copies of it, and what the store had after each call.
private final class CopiedStore {
    let fixture: StoreFixture
    let folder = TemporaryFolder()
    let archive = Collected()
    let writer: CopyWriter
    var chance: SeededGenerator
    /// The rows of all tables after the last write with a call as the last one.
    private(set) var states: [Int64: [String: String]] = [:]

    var store: SQLiteStore {
        guard let store = fixture.sqlite else { preconditionFailure("The store is a file.") }
        return store
    }
    var file: String { fixture.folder.path + "/onym.db" }
    var last: Int64 { store.counts.lastSequence.rawValue }

    init(seed: UInt64) throws {
        fixture = try StoreFixture(.sqlite, seed: 1)
        chance = SeededGenerator(seed: seed)
        writer = try CopyWriter(folder.path, store: "s", masterKey: "m")
        guard case .new(let place) = try store.begin(archive, after: nil, token: nil) else {
            throw CopyFault("A new archive continues nothing.")
        }
        try writer.beginChain(after: place, store.lastCommitted)
    }

    func flush() throws { try writer.append(&archive.commits) }

    /// Changes the store in some way.
    func change() throws {
        switch Int.random(in: 0..<12, using: &chance) {
        case 0: fixture.fold()
        case 1:
            while case .step = try store.compact() {}
        case 2: try flush()
        case 3:
            let calls = (0..<5).map { number in
                StoreFixture.IdentifyCall([.customerID: "c\(last)-\(number)", .email: "\(last)-\(number)@example.com"])
            }
            _ = fixture.process(calls)
        default:
            _ = try fixture.identify([.customerID: "c\(Int.random(in: 0..<40, using: &chance))", .iosIDFV: "v\(last)"])
        }
        states[last] = try CopiedStore.rows(file)
    }

    /// Copies the file in small pieces, and changes the store between them.
    func makeBase(changesBetween: Bool = true) throws {
        try flush()
        let base = try writer.beginBase()
        let reader = try store.openFile()
        if changesBetween { try change() }
        #expect(try reader.moveLog())
        var offset = 0
        while case let piece = try reader.read(at: offset, count: 60_000), !piece.isEmpty {
            try base.add(piece)
            offset += piece.count
            if changesBetween { try change() }
        }
        try flush()
        try writer.finish(base, at: 1)
    }

    func restore(_ until: CopyReader.Until) throws -> (CopyReader.Restored, [String: String]) {
        let target = TemporaryFolder()
        let reader = try CopyReader(folder.path)
        let restored = try reader.restore(try reader.plan(until), to: target.path + "/onym.db")
        return (restored, try CopiedStore.rows(target.path + "/onym.db"))
    }

    /// The rows of all tables, as text.
    static func rows(_ path: String) throws -> [String: String] {
        let connection = try Connection(path: path, mode: .readWrite)
        var tables: [String] = []
        let names = try connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        while try names.step() { tables.append(names.text(0) ?? "") }
        var rows: [String: String] = [:]
        for table in tables {
            var columns: [String] = []
            let info = try connection.prepare("SELECT name FROM pragma_table_info('\(table)')")
            while try info.step() { columns.append("quote(\(info.text(0) ?? ""))") }
            let all = try connection.prepare("SELECT \(columns.joined(separator: "||','||")) FROM \(table) ORDER BY 1")
            var lines: [String] = []
            while try all.step() { lines.append(all.text(0) ?? "") }
            rows[table] = lines.joined(separator: "\n")
        }
        let check = try connection.prepare("PRAGMA integrity_check")
        _ = try check.step()
        rows["integrity"] = check.text(0)
        return rows
    }
}

@Suite("Copies of a store")
struct CopiesTests {
    @Test("restore the store as it was after every call", arguments: 1...2)
    func everyCall(_ seed: UInt64) throws {
        let copied = try CopiedStore(seed: seed)
        for _ in 0..<6 { try copied.change() }
        try copied.makeBase()
        let first = try #require(CopyReader(copied.folder.path).manifest.bases.first).sequence
        for _ in 0..<12 { try copied.change() }
        try copied.makeBase()
        for _ in 0..<6 { try copied.change() }
        try copied.flush()
        #expect(!copied.archive.hasMissed)
        for sequence in first...copied.last {
            let (restored, rows) = try copied.restore(.call(sequence))
            let expected = try #require(copied.states.keys.filter { $0 <= sequence }.max())
            #expect(restored.sequence == expected && restored.lastSequence == copied.last)
            #expect(rows == copied.states[expected], "seed \(seed), call \(sequence)")
            #expect(rows["integrity"] == "ok")
        }
        let (restored, rows) = try copied.restore(.end)
        #expect(restored.sequence == copied.last)
        #expect(rows == copied.states[copied.last])
        #expect(throws: CopyFault.self) { try copied.restore(.call(first - 1)) }
    }

    @Test("restore the store as it was at a moment")
    func moment() throws {
        let copied = try CopiedStore(seed: 4)
        try copied.makeBase(changesBetween: false)
        _ = try copied.fixture.identify([.customerID: "one"])
        let moment = copied.fixture.clock.now.milliseconds
        let last = copied.last
        _ = try copied.fixture.identify([.customerID: "two"])
        try copied.flush()
        #expect(try copied.restore(.moment(moment)).0.sequence == last)
        #expect(try copied.restore(.moment(moment + 10)).0.sequence == last + 1)
    }

    @Test("restore the last call up to a moment also after the clock was ahead for a while")
    func clockSetBack() throws {
        let copied = try CopiedStore(seed: 4)
        let clock = copied.fixture.clock
        let days: Int64 = 41 * 86_400_000
        func identify(_ name: String) throws -> (call: Int64, at: Int64) {
            clock.advance(milliseconds: 1000)
            _ = try copied.fixture.identify([.customerID: name])
            let at = clock.now.milliseconds
            try copied.flush()
            return (copied.last, at)
        }
        try copied.makeBase(changesBetween: false)
        let right = try identify("right")
        clock.advance(milliseconds: days)
        let ahead = try identify("ahead")
        // With the first copy all is in one log; without it, the only copy is from the time in which the clock was ahead.
        for round in 0..<2 {
            if round == 1 {
                try copied.makeBase(changesBetween: false)
                clock.advance(milliseconds: -days)
                try copied.writer.prune(keeping: 1)
            } else {
                clock.advance(milliseconds: -days)
            }
            let back = try identify("back \(round)")
            let last = try identify("last \(round)")
            #expect(try copied.restore(.moment(back.at)).0.sequence == back.call, "round \(round)")
            #expect(try copied.restore(.moment(last.at)).0.sequence == last.call)
            #expect(try copied.restore(.moment(ahead.at)).0.sequence == last.call)
            if round == 0 { #expect(try copied.restore(.moment(right.at)).0.sequence == right.call) }
            if round == 1 { #expect(throws: CopyFault.self) { try copied.restore(.moment(right.at)) } }
            clock.advance(milliseconds: days)
            if round == 0 { _ = try identify("ahead again") }
        }
    }

    @Test("name damage, and restore what comes before it")
    func damage() throws {
        let copied = try CopiedStore(seed: 5)
        try copied.makeBase(changesBetween: false)
        let first = copied.last
        for number in 0..<6 {
            _ = try copied.fixture.identify([.customerID: "d\(number)"])
            try copied.flush()
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: copied.folder.path + "/log").sorted()
        #expect(files.count == 6)
        for (number, name) in files.enumerated() {
            let path = copied.folder.path + "/log/" + name
            let bytes = try Data(contentsOf: URL(filePath: path))
            for kind in 0..<3 {
                var damaged = bytes
                // A bit of the checksum: a bit in the middle may be a reference that then finds an equal place, which harms nothing.
                if kind == 0 { damaged[bytes.count - 6] ^= 1 }
                if kind == 1 { damaged.removeLast(3) }
                if kind == 2 {
                    try FileManager.default.removeItem(atPath: path)
                } else {
                    try damaged.write(to: URL(filePath: path))
                }
                let plan = try? CopyReader(copied.folder.path).plan(.end)
                #expect(plan.map { $0.gap?.contains(name) ?? false } ?? true, "\(name) \(kind)")
                if let plan {
                    let target = TemporaryFolder()
                    let restored = try CopyReader(copied.folder.path).restore(plan, to: target.path + "/onym.db")
                    #expect(restored.sequence == first + Int64(max(0, number - 1)))
                }
                try bytes.write(to: URL(filePath: path))
            }
        }
        #expect(try copied.restore(.end).0.sequence == copied.last)
        let base = copied.folder.path + "/base/00000001/onym.db.gz"
        var bytes = try Data(contentsOf: URL(filePath: base))
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: URL(filePath: base))
        #expect(throws: CopyFault.self) { try copied.restore(.end) }
    }

    @Test("name a segment with a size that no store has, as any other damage")
    func sizeOfNoStore() throws {
        let copied = try CopiedStore(seed: 5)
        try copied.makeBase(changesBetween: false)
        let last = copied.last
        _ = try copied.fixture.identify([.customerID: "late"])
        try copied.flush()
        let folder = copied.folder.path
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder + "/log").max())
        let bytes = try Data(contentsOf: URL(filePath: "\(folder)/log/\(name)"))
        var log = try InflatingStream().inflate(Array(bytes))
        // The number of pages of the first commit (LogSegment).
        log.replaceSubrange(72..<80, with: [0x7F] + [UInt8](repeating: 0xFF, count: 7))
        let damaged = Gzip.deflate(log)
        try Data(damaged).write(to: URL(filePath: "\(folder)/log/\(name)"))
        func digest(_ bytes: [UInt8]) -> String { Hexadecimal.encode(SHA256.digest(of: bytes).bytes) }
        let manifest = try String(contentsOfFile: folder + "/manifest.json", encoding: .utf8)
        #expect(manifest.contains(digest(Array(bytes))))
        try manifest.replacing(digest(Array(bytes)), with: digest(damaged))
            .write(toFile: folder + "/manifest.json", atomically: true, encoding: .utf8)
        let plan = try CopyReader(folder).plan(.end)
        #expect(plan.gap?.contains("\(name) is damaged.") == true)
        #expect(try copied.restore(.end).0.sequence == last)
    }

    @Test("name the calls that are only in a later log without a copy of the file")
    func laterLog() throws {
        let copied = try CopiedStore(seed: 10)
        try copied.makeBase(changesBetween: false)
        _ = try copied.fixture.identify([.customerID: "first log"])
        try copied.flush()
        let end = (call: copied.last, at: copied.fixture.clock.now.milliseconds)
        #expect(try CopyReader(copied.folder.path).plan(.end).gap == nil)
        copied.store.end(copied.archive)
        _ = try copied.store.begin(copied.archive, after: nil, token: nil)
        try copied.writer.beginChain(after: nil, copied.store.lastCommitted)
        let reader = try CopyReader(copied.folder.path)
        #expect(try reader.plan(.end).gap == nil, "no call is missing yet")
        for number in 0..<3 { _ = try copied.fixture.identify([.customerID: "later log \(number)"]) }
        try copied.flush()
        func gap(_ until: CopyReader.Until) throws -> String? { try CopyReader(copied.folder.path).plan(until).gap }
        let named = "The calls \(end.call + 1) to \(copied.last) are in a log without a copy of the file."
        #expect(try gap(.end) == named && gap(.call(end.call + 1)) == named && gap(.moment(.max)) == named)
        #expect(try gap(.call(end.call)) == nil)
        let last = copied.last
        try copied.makeBase(changesBetween: false)
        #expect(try gap(.end) == nil && gap(.call(last)) == nil)
        let rest = try gap(.call(last - 1))
        #expect(rest == "The calls \(end.call + 1) to \(last - 1) are in a log without a copy of the file.")
    }

    @Test("keep the last bases, and only the log that they need")
    func pruning() throws {
        let copied = try CopiedStore(seed: 6)
        for _ in 0..<4 {
            try copied.makeBase()
            for _ in 0..<5 { try copied.change() }
        }
        try copied.flush()
        try copied.writer.prune(keeping: 2)
        let reader = try CopyReader(copied.folder.path)
        #expect(reader.manifest.bases.map(\.number) == [3, 4])
        let names = try FileManager.default.contentsOfDirectory(atPath: copied.folder.path + "/base").sorted()
        #expect(names == ["00000003", "00000004"])
        for base in reader.manifest.bases { _ = try copied.restore(.call(base.sequence)) }
        #expect(try copied.restore(.end).1 == copied.states[copied.last])
    }

    @Test("from before an erasure have the erased person again, and later copies do not")
    func erased() throws {
        let copied = try CopiedStore(seed: 12)
        let person = try copied.fixture.identify([.customerID: "erased"]).person
        try copied.makeBase(changesBetween: false)
        let before = copied.last
        #expect(try copied.fixture.process(ErasePerson(person)).as(Erased.self)?.people == [person])
        try copied.makeBase(changesBetween: false)
        func identities(_ until: CopyReader.Until) throws -> Int {
            let target = TemporaryFolder()
            let reader = try CopyReader(copied.folder.path)
            _ = try reader.restore(try reader.plan(until), to: target.path + "/onym.db")
            let store = try SQLiteStore(StoreFile(folder: target.path))
            defer { store.close() }
            return try store.read { snapshot throws(StoreFault) in try snapshot.identities(of: person).count }
        }
        #expect(try identities(.call(before)) == 1)
        #expect(try identities(.end) == 0)
    }

    @Test("give attachments back whose content is that of their names, and name the others")
    func attachments() throws {
        let copied = try CopiedStore(seed: 1)
        let (data, restored) = (TemporaryFolder(), TemporaryFolder())
        let names = ["one", "two"].map { text in
            let name = Hexadecimal.encode(SHA256.digest(of: Array(text.utf8)).bytes)
            let folder = "\(data.path)/\(name.prefix(2))"
            try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            #expect(FileManager.default.createFile(atPath: "\(folder)/\(name)", contents: Data(text.utf8)))
            return name
        }
        #expect(try copied.writer.copyAttachments(from: data.path) == 2)
        try copied.flush()
        let rotten = "\(copied.folder.path)/attachments/\(names[1].prefix(2))/\(names[1])"
        try Data("tvo".utf8).write(to: URL(filePath: rotten))
        let damaged = try CopyReader(copied.folder.path).restoreAttachments(to: restored.path)
        #expect(damaged == [rotten])
        let kept = "\(restored.path)/\(names[0].prefix(2))/\(names[0])"
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == "one")
        #expect(!FileManager.default.fileExists(atPath: "\(restored.path)/\(names[1].prefix(2))/\(names[1])"))
    }

    @Test("belong to one store and to one process")
    func oneStore() throws {
        let copied = try CopiedStore(seed: 7)
        #expect(throws: CopyFault.self) { _ = try CopyWriter(copied.folder.path, store: "s", masterKey: "m") }
        let folder = TemporaryFolder()
        do {
            let writer = try CopyWriter(folder.path, store: "one", masterKey: "m")
            try writer.beginChain(after: nil, (0, 0))
        }
        #expect(throws: CopyFault.self) { _ = try CopyWriter(folder.path, store: "two", masterKey: "m") }
        _ = try CopyWriter(folder.path, store: "one", masterKey: "m")
    }

    @Test("are never written over, and not into a folder that is another one")
    func replacedFolder() throws {
        func prepared() throws -> CopiedStore {
            let copied = try CopiedStore(seed: 11)
            try copied.makeBase(changesBetween: false)
            _ = try copied.fixture.identify([.customerID: "one"])
            try copied.flush()
            _ = try copied.fixture.identify([.customerID: "two"])
            return copied
        }
        let files = FileManager.default
        let emptied = try prepared()
        for name in ["base", "log", "manifest.json"] { try files.removeItem(atPath: "\(emptied.folder.path)/\(name)") }
        #expect(throws: CopyFault.self) { try emptied.flush() }
        #expect(emptied.writer.isReplaced && !emptied.archive.commits.isEmpty)

        let moved = try prepared()
        let other = moved.folder.path + "-other"
        defer { try? files.removeItem(atPath: other) }
        try files.copyItem(atPath: moved.folder.path, toPath: other)
        try files.removeItem(atPath: moved.folder.path)
        try files.copyItem(atPath: other, toPath: moved.folder.path)
        #expect(throws: CopyFault.self) { try moved.flush() }
        #expect(moved.writer.isReplaced)

        let taken = try prepared()
        let file = taken.folder.path + "/log/00000001-000000000002.gz"
        try Data("another".utf8).write(to: URL(filePath: file))
        #expect(throws: CopyFault.self) { try taken.flush() }
        #expect(taken.writer.isReplaced)
        #expect(try Data(contentsOf: URL(filePath: file)) == Data("another".utf8))
        let copy = taken.folder.path + "-copy"
        defer { try? files.removeItem(atPath: copy) }
        try files.copyItem(atPath: taken.folder.path, toPath: copy)
        let writer = try CopyWriter(copy, store: "s", masterKey: "m")
        #expect(!writer.canContinue, "the next segment has no free name")
        try writer.beginChain(after: nil, (9, 9))
        #expect(writer.chain?.number == 2)
    }

    @Test("go on after segments that a killed process wrote without a new manifest")
    func killedBetween() throws {
        let copied = try CopiedStore(seed: 8)
        try copied.makeBase(changesBetween: false)
        let folder = TemporaryFolder()
        let old = try Data(contentsOf: URL(filePath: copied.folder.path + "/manifest.json"))
        for number in 0..<3 {
            _ = try copied.fixture.identify([.customerID: "k\(number)"])
            try copied.flush()
        }
        let copy = folder.path + "/copy"
        try FileManager.default.copyItem(atPath: copied.folder.path, toPath: copy)
        try old.write(to: URL(filePath: copy + "/manifest.json"))
        #expect(try CopyReader(copy).plan(.end).gap == nil)
        let writer = try CopyWriter(copy, store: "s", masterKey: "m")
        #expect(writer.chain?.sequence == copied.last && writer.chain?.place == copied.writer.chain?.place)
        _ = try copied.fixture.identify([.customerID: "later"])
        try writer.append(&copied.archive.commits)
        let target = TemporaryFolder()
        let reader = try CopyReader(copy)
        #expect(try reader.restore(try reader.plan(.end), to: target.path + "/onym.db").sequence == copied.last)
    }

    @Test("have what a commit wrote whose answer was lost")
    func lostAnswer() throws {
        for (fault, staysOpen) in [(CommitWatch.FaultPoint.before, true), (.after, true), (.after, false)] {
            let copied = try CopiedStore(seed: 9)
            try copied.makeBase(changesBetween: false)
            // SQLite keeps the log as long as a connection is open, and the recovery keeps it too.
            let reader = staysOpen ? try copied.store.openFile() : nil
            defer { withExtendedLifetime(reader) {} }
            // A log whose pages the file has all starts over with the next commit, and then it is another log.
            _ = try copied.fixture.identify([.customerID: "before"])
            copied.store.failNextCommit(fault)
            _ = copied.fixture.process([StoreFixture.IdentifyCall([.customerID: "lost"])])
            #expect(copied.fixture.writer.recover() == nil)
            _ = try copied.fixture.identify([.customerID: "after"])
            #expect(!copied.archive.hasMissed, "The recovery keeps the log.")
            try copied.flush()
            let (restored, rows) = try copied.restore(.end)
            #expect(restored.sequence == copied.last)
            #expect(rows == (try CopiedStore.rows(copied.file)))
        }
    }

    @Test("continue after a clean close, and only if nobody wrote meanwhile")
    func token() throws {
        let folder = TemporaryFolder()
        let file = StoreFile(folder: folder.path)
        try SQLiteStore.make(file, hashKey: Hash128(high: 1, low: 2)) { _ in }
        let token = [UInt8](repeating: 7, count: 16)
        func close(_ token: [UInt8]?) throws {
            let store = try SQLiteStore(file)
            let archive = Collected()
            _ = try store.begin(archive, after: nil, token: nil)
            _ = try store.agree(on: [1], as: "\(UInt64.random(in: 0..<(.max)))")
            #expect(archive.commits.count == 1)
            store.end(archive, leaving: token)
            store.close()
        }
        func isContinued(_ token: [UInt8]) throws -> Bool {
            let store = try SQLiteStore(file)
            defer { store.close() }
            _ = try store.agree(on: [1], as: "before")
            let archive = Collected()
            let beginning = try store.begin(archive, after: nil, token: token)
            // What came between the opening and the archive is there, too.
            if beginning == .continued { #expect(archive.commits.count <= 1) }
            return beginning == .continued
        }
        try close(token)
        #expect(try isContinued(token))
        #expect(try !isContinued(token), "a token is for one open")
        try close(token)
        #expect(try !isContinued([UInt8](repeating: 8, count: 16)))
        try close(token)
        try SQLiteStore(file).close()
        #expect(try !isContinued(token))
        try close(token)
        do {
            // The log has no frames of the first write any more.
            let store = try SQLiteStore(file)
            _ = try store.agree(on: [1], as: "emptied")
            while case .step = try store.compact() {}
            #expect(try store.begin(Collected(), after: nil, token: token) != .continued)
            store.close()
        }
        try close(token)
        do {
            let store = try SQLiteStore(file)
            let archive = Collected()
            #expect(try store.begin(archive, after: nil, token: token) == .continued)
            store.end(archive)
            #expect(try store.begin(archive, after: nil, token: token) != .continued, "a token is used once")
            store.end(archive, leaving: token)
            _ = try store.agree(on: [1], as: "after the end")
            store.close()
            #expect(try !isContinued(token), "A write came after the end.")
        }
        try close(token)
        // An older program writes, and knows nothing of the token.
        usleep(20_000)
        let connection = try Connection(path: file.path, mode: .readWrite)
        try connection.execute("INSERT INTO settings VALUES ('older', x'00')")
        _ = try connection.checkpoint(.truncate)
        #expect(try !isContinued(token))
    }
}
