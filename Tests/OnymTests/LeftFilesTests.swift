import ClientKit
import Foundation
import Onym
import Testing

/// What one instance leaves for another, when the process may end at any moment.
@Suite("Left files")
struct LeftFilesTests {
    private static let marker = "installed"
    private static let old: [String: [UInt8]] = ["box-000001.log": [1, 2], "idsync.stamp": [3], marker: [0x31, 0x0A]]
    private static let new: [String: [UInt8]] = [
        "box-000001.log": [4], "a.log": [5], "zebra": [6], marker: [0x31, 0x0A],
    ]
    private static let note = Array("whose".utf8)

    /// The files that are not left.
    private func live(_ files: MemoryFiles) -> [String: [UInt8]] {
        files.contents.filter { !$0.key.hasPrefix("left-") }
    }

    /// What was left, with its note.
    private func left(_ files: MemoryFiles) throws -> [[String: [UInt8]]] {
        try LeftFiles.all(in: files).map { left in
            try Dictionary(uniqueKeysWithValues: left.names().map { ($0, try left.read($0)) })
        }
    }

    @Test("a process that ends while it leaves them has left all or none after the next start")
    func leaving() throws {
        var ends = 0
        for changes in 0...20 {
            let mortal = MortalFiles(MemoryFiles(LeftFilesTests.old), changes: changes)
            let isLeft = (try? LeftFiles.leave(LeftFilesTests.note, in: mortal)) != nil
            if !isLeft { ends += 1 }
            let files = mortal.files.survive()
            try LeftFiles.finish(in: files)
            let groups = try left(files)
            if groups.isEmpty {
                #expect(!isLeft && live(files) == LeftFilesTests.old, "\(changes)")
            } else {
                #expect(groups == [LeftFilesTests.old.merging(["note": LeftFilesTests.note]) { $1 }], "\(changes)")
                #expect(live(files).keys.allSatisfy { $0 == LeftFilesTests.marker }, "\(changes)")
            }
        }
        #expect(ends == 6)
    }

    @Test("a second call goes on after a fault")
    func faults() throws {
        for changes in 0...20 {
            let mortal = MortalFiles(MemoryFiles(LeftFilesTests.old), changes: changes)
            try? LeftFiles.leave(LeftFilesTests.note, in: mortal)
            let files = mortal.files
            if live(files) != [:] { try LeftFiles.leave(LeftFilesTests.note, in: files) }
            try LeftFiles.finish(in: files)
            #expect(try left(files) == [LeftFilesTests.old.merging(["note": LeftFilesTests.note]) { $1 }], "\(changes)")
        }
    }

    @Test("a process that ends while it removes them takes none of the files that came after them")
    func removal() throws {
        var ends = 0
        for changes in 0...20 {
            let files = MemoryFiles(LeftFilesTests.old)
            try LeftFiles.leave(LeftFilesTests.note, in: files)
            for (name, bytes) in LeftFilesTests.new { try files.append(bytes, to: name) }
            let mortal = MortalFiles(files, changes: changes)
            if (try? LeftFiles.all(in: mortal).first?.remove()) == nil { ends += 1 }
            let next = mortal.files.survive()
            try LeftFiles.finish(in: next)
            #expect(live(next) == LeftFilesTests.new, "\(changes)")
            #expect(try left(next).count == (changes == 0 ? 1 : 0), "\(changes)")
        }
        #expect(ends == 4)
    }
}
