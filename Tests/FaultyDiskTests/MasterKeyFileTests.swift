import FaultyDisk
import Program
import Testing

/// The file of the master keys over a disk that loses what was not synced.
@Suite("The file of the master keys")
struct MasterKeyFileTests {
    private static let path = "/data/master.key"

    private func keys(_ digits: String...) throws -> MasterKeyText {
        try #require(MasterKeyText(text: digits.map { String(repeating: $0, count: 64) }.joined(separator: " ")))
    }

    private func read(_ disk: FaultyDisk) -> MasterKeyText? {
        try? MasterKeyFile(path: MasterKeyFileTests.path, on: disk).read()
    }

    /// Runs a change on a disk that loses its power after each number of changes, in each way.
    ///
    /// - Parameter first: the keys that the file has before; nil for no file.
    private func cut(
        _ first: MasterKeyText?, _ change: (MasterKeyFile) throws -> Void,
        check: (FaultyDisk, _ isDone: Bool) throws -> Void
    ) throws {
        for (changes, loss) in (0..<12).flatMap({ count in FaultyDisk.Loss.allCases.map { (count, $0) } }) {
            for seed in 1...(loss == .any ? 20 : 1) {
                let disk = FaultyDisk(seed: UInt64(seed))
                let file = MasterKeyFile(path: MasterKeyFileTests.path, on: disk)
                if let first { _ = try file.make(first) }
                disk.faults.changesUntilPowerCut = changes
                let isDone = (try? change(file)) != nil
                disk.cutPower(loss)
                try check(disk, isDone)
            }
        }
    }

    @Test("is there whole after a power cut, or not at all")
    func made() throws {
        let one = try keys("1")
        try cut(nil) { file in
            _ = try file.make(one)
        } check: { disk, isDone in
            let isThere = disk.paths.contains(MasterKeyFileTests.path)
            #expect(!isThere || read(disk) == one)
            #expect(isThere || !isDone)
            // The next start makes it then, whatever the first one left.
            let two = try keys("2")
            let file = MasterKeyFile(path: MasterKeyFileTests.path, on: disk)
            let kept = try file.make(two)
            #expect(kept == (isThere ? one : two))
        }
    }

    @Test("has its old keys or the new ones after a power cut")
    func replaced() throws {
        let (one, both) = (try keys("1"), try keys("1", "2"))
        try cut(one) { file in
            try file.replace(one, with: both)
        } check: { disk, isDone in
            let found = read(disk)
            #expect(found == both || !isDone && found == one)
        }
    }

    private let busy = "Another process has changed /data/master.key, or changes it now. Call the same command again."

    @Test("keeps the key that another command has added meanwhile")
    func meanwhile() throws {
        let (disk, one, both) = (FaultyDisk(), try keys("1"), try keys("1", "2"))
        let file = MasterKeyFile(path: MasterKeyFileTests.path, on: disk)
        let read = try file.make(one)
        try file.replace(read, with: both)
        #expect(throws: CommandFault.failed(busy)) { try file.replace(read, with: try keys("1", "3")) }
        #expect(try file.read() == both)
    }

    @Test("is made by one process only")
    func once() throws {
        let (disk, one) = (FaultyDisk(), try keys("1"))
        let file = MasterKeyFile(path: MasterKeyFileTests.path, on: disk)
        let other = try disk.open(MasterKeyFileTests.path + ".lock", .readWrite)
        #expect(other.lock())
        #expect(throws: CommandFault.failed(busy)) {
            _ = try file.make(one)
        }
        other.unlock()
        #expect(try file.make(one) == one)
        #expect(try file.make(try keys("2")) == one)
        #expect(disk.paths == [MasterKeyFileTests.path])
    }
}
