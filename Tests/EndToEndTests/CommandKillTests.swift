import Foundation
import SQLite
import TestKit
import Testing

/// Commands that are killed at any moment, and run again (spec/moving.md, section 8).
///
/// `make check` kills each a few times, and a soak a hundred times. The log of a server that copies it is in ``BackupTests``.
@Suite("Commands and kill -9", .serialized, .timeLimit(.minutes(30)))
struct CommandKillTests {
    private static let kills = 5 * Soak.factor

    private let store: Store
    private let folder: String
    private let people = CommandKillTests.people(1500)

    init() throws {
        store = try Store()
        folder = store.folder.path
    }

    // MARK: - Tests

    @Test("an import that is killed and runs again has each record once, and each refused one once in its file")
    func imports() throws {
        let file = try write(people, "people.jsonl")
        func words(_ data: String) -> [String] { ["import", file, "--refused", data + ".refused", "--data", data] }
        func outcome(_ data: String) throws -> [String] {
            let refused = try String(contentsOfFile: data + ".refused", encoding: .utf8)
            return try facts(data) + refused.split(separator: "\n").map(String.init).sorted()
        }
        let whole = try copy(store.data, "whole")
        let time = try done(words(whole))
        let expected = try outcome(whole)
        #expect(expected.count { $0.contains(#""reason":"held""#) } == 1500 / 20)
        try killEach("import", after: time) { number, kill in
            let data = try copy(store.data, "data-\(number)")
            try kill(words(data))
            try expectHealthy(data)
            try done(words(data))
            expectSame(try outcome(data), expected)
            try expectHealthy(data)
        }
    }

    @Test("an import of a whole store makes it or nothing")
    func importsStore() throws {
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        let file = folder + "/store.jsonl"
        try done(["export", "--all", "--form", "store", "--output", file, "--data", store.data])
        func words(_ data: String) -> [String] { ["import", "--from", "store", file, "--data", data] }
        let time = try done(words(folder + "/whole"))
        let expected = try rows(store.data)
        try killEach("import --from store", after: time) { number, kill in
            let data = folder + "/data-\(number)"
            try kill(words(data))
            if !FileManager.default.fileExists(atPath: data + "/onym.db") { try done(words(data)) }
            expectSame(try rows(data), expected)
            try expectHealthy(data)
        }
    }

    @Test(
        "an export that is killed leaves no file that looks complete, and runs again",
        arguments: [["--all"], ["--all", "--form", "store"], ["--tables"]])
    func exports(_ form: [String]) throws {
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        let isTables = form == ["--tables"]
        func words(_ path: String) -> [String] {
            let output = isTables ? [path, "--format", "csv"] : ["--output", path]
            return ["export"] + form + output + ["--data", store.data]
        }
        /// The content of a complete export.
        func content(_ path: String) throws -> [String]? {
            let files = FileManager.default
            guard isTables else {
                guard files.fileExists(atPath: path) else { return nil }
                // The header has the moment of the export.
                return try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst()
                    .map(String.init)
            }
            guard files.fileExists(atPath: path + "/manifest.json") else { return nil }
            let paths = try files.subpathsOfDirectory(atPath: path).filter { $0.contains(".csv") }.sorted()
            return try paths.map {
                "\($0) \(try Data(contentsOf: URL(filePath: "\(path)/\($0)")).base64EncodedString())"
            }
        }
        let whole = folder + "/whole"
        let time = try done(words(whole))
        let expected = try #require(try content(whole))
        let before = try rows(store.data)
        try killEach("export \(form)", after: time) { number, kill in
            let path = folder + "/out-\(number)"
            try kill(words(path))
            if let found = try content(path) {
                expectSame(found, expected)
            } else {
                try done(words(path))
                expectSame(try content(path), expected)
            }
        }
        expectSame(try rows(store.data), before)
        try expectHealthy(store.data)
    }

    @Test("a backup that is killed spoils no copy in its folder, and no tar file is made in part")
    func backups() throws {
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        let copies = folder + "/copies"
        let time = try done(["backup", copies, "--data", store.data])
        var before = try rows(store.data)
        try killEach("backup", after: time) { number, kill in
            try done([
                "import", try write(CommandKillTests.people(1, from: 10_000 + number), "new"), "--data", store.data,
            ])
            let after = try rows(store.data)
            let isTar = number % 3 == 0
            let target = isTar ? folder + "/copy-\(number).tar" : copies
            try kill(["backup", target, "--data", store.data])
            let place = folder + "/restored-\(number)"
            if !isTar || FileManager.default.fileExists(atPath: target) {
                let whole = try onym(["restore", target, place])
                if whole.code == 0 {
                    let restored = try rows(place)
                    if restored != before { expectSame(restored, after) }
                } else {
                    // The log begins before the copy of the file: the copy before that is whole, and the command names its end.
                    let last = try #require(whole.errors.firstMatch(of: /Name --until (\d+) to restore/)?.1, "\(whole)")
                    try done(["restore", target, place, "--until", String(last)])
                    expectSame(try rows(place), before)
                }
            }
            try done(["backup", target, "--data", store.data])
            try done(["restore", target, place + "-again"])
            expectSame(try rows(place + "-again"), after)
            let left = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.contains(".copy.") }
            #expect(left.isEmpty)
            #expect(try !FileManager.default.contentsOfDirectory(atPath: copies).contains { $0.contains("verify") })
            if !isTar { before = after }
        }
    }

    @Test("a restore that is killed makes the store or none, and runs again into the same folder")
    func restores() throws {
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        let copies = folder + "/copies"
        try done(["backup", copies, "--data", store.data])
        try done(["backup", copies + ".tar", "--data", store.data])
        func words(_ target: String, _ source: String) -> [String] {
            ["restore", source, target, "--master-key", store.data + "/master.key"]
        }
        let time = try done(words(folder + "/whole", copies))
        let expected = try rows(folder + "/whole")
        expectSame(try rows(store.data), expected)
        try killEach("restore", after: time) { number, kill in
            let target = folder + "/restored-\(number)"
            let source = number % 3 == 0 ? copies + ".tar" : copies
            try kill(words(target, source))
            // A restore that was killed behind its last rename has made the store, and the next command removes the rest.
            let isWhole = FileManager.default.fileExists(atPath: target + "/onym.db")
            if isWhole { _ = try facts(target) } else { try done(words(target, source)) }
            let names = try FileManager.default.contentsOfDirectory(atPath: target)
            #expect(!names.contains { $0.hasPrefix("restore") })
            expectSame(try rows(target), expected)
        }
    }

    @Test("a move into PostgreSQL that is killed is completed, or canceled")
    func moves() throws {
        let cluster = try PostgresCluster.shared.get()
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        func words(_ data: String, _ schema: String) -> [String] {
            ["migrate", "--from", "sqlite:\(data)", "--to", cluster.address, "--store-schema", schema]
        }
        func flags(_ schema: String) -> [String] { ["--store", cluster.address, "--store-schema", schema] }
        let expected = try facts(store.data)
        let time = try done(words(try copy(store.data, "whole"), cluster.newSchema().schema))
        try killEach("migrate", after: time) { number, kill in
            let data = try copy(store.data, "data-\(number)")
            let schema = cluster.newSchema().schema
            try kill(words(data, schema))
            let canceled = number % 3 == 0 ? try onym(words(data, schema) + ["--cancel"]) : nil
            if canceled?.code == 0 {
                try done(["import", try write(CommandKillTests.people(1, from: 10_000), "new"), "--data", data])
                try expectHealthy(data)
                #expect(try facts(data).count > expected.count)
                return
            }
            #expect(canceled?.errors.contains("The move is complete") ?? true, "\(String(describing: canceled))")
            let again = try onym(words(data, schema))
            #expect(again.code == 0 || again.errors.contains("already"), "\(again)")
            try expectHealthy(data, flags(schema))
            expectSame(try facts(data, flags(schema)), expected)
        }
    }

    @Test("a repair that is killed has done all or nothing, and runs again")
    func repairs() throws {
        try done(["import", try write(people, "people.jsonl"), "--data", store.data])
        let copies = folder + "/copies"
        try done(["backup", copies, "--data", store.data])
        let expected = try facts(store.data)
        for statement in [
            "UPDATE links SET value = 'other' WHERE id % 7 = 0", "DELETE FROM links WHERE id % 11 = 0",
            "UPDATE people SET made_by = made_by + 1 WHERE id % 13 = 0", "DELETE FROM keys",
        ] {
            try Connection(path: store.data + "/onym.db", mode: .readWrite).execute(statement)
        }
        func words(_ data: String) -> [String] {
            ["doctor", "--repair", "--yes", "--from-backup", copies, "--data", data]
        }
        let time = try done(words(try copy(store.data, "whole")), [0, 4])
        try killEach("repair", after: time) { number, kill in
            let data = try copy(store.data, "data-\(number)")
            try kill(words(data))
            try done(words(data), [0, 4])
            expectSame(try facts(data), expected)
            try expectHealthy(data)
            #expect(try !FileManager.default.contentsOfDirectory(atPath: data).contains { $0.contains(".copy.") })
        }
    }

    // MARK: - Killing

    /// Has a command killed at moments that are spread over the time it takes.
    ///
    /// - Parameter round: a round: its number, and what runs a command and kills it.
    private func killEach(
        _ name: String, after time: Duration, _ round: (Int, (_ words: [String]) throws -> Void) throws -> Void
    ) throws {
        let seed = Soak.anySeed()
        var generator = SeededGenerator(seed: seed)
        var killed = 0
        let microseconds = Double(time.components.seconds) * 1e6 + Double(time.components.attoseconds) / 1e12
        for number in 0..<CommandKillTests.kills {
            let part = (Double(number) + .random(in: 0..<1, using: &generator)) / Double(CommandKillTests.kills)
            do {
                try round(number) { words in
                    let process = Process()
                    process.executableURL = URL(filePath: ServerProcess.program)
                    process.arguments = words
                    process.standardInput = FileHandle.nullDevice
                    process.standardOutput = FileHandle.nullDevice
                    process.standardError = FileHandle.nullDevice
                    try process.start()
                    usleep(UInt32(microseconds * part))
                    kill(process.processIdentifier, SIGKILL)
                    process.waitUntilExit()
                    if process.terminationReason == .uncaughtSignal { killed += 1 }
                }
            } catch {
                Issue.record(
                    "\(name), ONYM_SEED=\(seed), kill \(number) after \(Int(microseconds * part)) µs: \(error)")
            }
        }
        #expect(killed > 0, "\(name), ONYM_SEED=\(seed): it always ended before")
        Soak.report("\(name): killed \(killed) times, and \(CommandKillTests.kills - killed) times at its end")
    }

    private func onym(_ words: [String]) throws -> Shell.Result { try Shell.result([ServerProcess.program] + words) }

    /// Runs a command that has to succeed; answers how long it took.
    @discardableResult
    private func done(_ words: [String], _ codes: [Int32] = [0]) throws -> Duration {
        let start = ContinuousClock.now
        let result = try onym(words)
        let time = ContinuousClock.now - start
        guard codes.contains(result.code) else {
            throw Shell.Failed(description: "\(words.joined(separator: " ")): \(result)")
        }
        return time
    }

    /// Compares the lines of two stores or files.
    private func expectSame(_ found: [String]?, _ expected: [String]) {
        let changes = (found ?? []).difference(from: expected)
        let shown = (changes.removals + changes.insertions).prefix(6).map { "\($0)".prefix(300) }
        #expect(found != nil && changes.isEmpty, "\(changes.count) differences: \(shown.joined(separator: "\n"))")
    }

    private func expectHealthy(_ data: String, _ flags: [String] = []) throws {
        try done(["doctor", "--data", data] + flags, [0, 4])
    }

    // MARK: - Stores

    private func write(_ lines: [String], _ name: String) throws -> String {
        let path = "\(folder)/\(name)"
        let all =
            [#"{"kind":"header","onym":1,"form":"facts"}"#] + lines + [#"{"kind":"end","lines":\#(lines.count)}"#]
        try (all.joined(separator: "\n") + "\n").write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    /// The lines of people with two identities each; one of twenty claims an identity of the person before.
    private static func people(_ count: Int, from first: Int = 1) -> [String] {
        let made = "2024-03-01T08:00:00Z"
        return (first..<first + count).flatMap { number in
            [
                #"{"kind":"person","id":"-\#(number)","made":"\#(made)"}"#,
                #"{"kind":"link","person":"-\#(number)","type":"customerid","value":"c\#(number)","since":"\#(made)"}"#,
                #"{"kind":"link","person":"-\#(number)","type":"email","value":"\#(number)@x.org","since":"\#(made)"}"#,
            ]
                + (number % 20 == 0
                    ? [
                        #"{"kind":"link","person":"-\#(number)","type":"customerid","value":"c\#(number - 1)","since":"\#(made)"}"#
                    ] : [])
        }
    }

    private func copy(_ data: String, _ name: String) throws -> String {
        let path = "\(folder)/\(name)"
        try FileManager.default.copyItem(atPath: data, toPath: path)
        return path
    }

    /// The lines of an export of a store, sorted.
    private func facts(_ data: String, _ flags: [String] = []) throws -> [String] {
        let exported = try onym(["export", "--all", "--data", data] + flags)
        guard exported.code == 0 else { throw Shell.Failed(description: "export: \(exported)") }
        return exported.output.split(separator: "\n").map(String.init)
            .filter { !$0.hasPrefix(#"{"kind":"header""#) && !$0.hasPrefix(#"{"kind":"end""#) }.sorted()
    }

    /// The rows of all tables of a store, sorted, without the note of a restore and the counts of reading calls.
    private func rows(_ data: String) throws -> [String] {
        let exported = try onym(["export", "--all", "--form", "store", "--data", data])
        guard exported.code == 0 else { throw Shell.Failed(description: "export: \(exported)") }
        func begins(_ line: Substring, _ table: String, _ values: String = "") -> Bool {
            line.utf8.starts(with: #"{"kind":"row","table":"\#(table)","values":[\#(values)"#.utf8)
        }
        return exported.output.split(separator: "\n").filter { line in
            line.utf8.starts(with: #"{"kind":"row""#.utf8) && !begins(line, "call_log")
                && !begins(line, "journal", "1000") && !begins(line, "leaves", "1000")
        }.map(String.init).sorted()
    }
}
