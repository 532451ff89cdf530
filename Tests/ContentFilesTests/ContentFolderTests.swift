import ByteText
import ContentFiles
import Crypto
import FaultyDisk
import Foundation
import TestKit
import Testing

@Suite("A folder of contents")
struct ContentFolderTests {
    private func keep(_ folder: ContentFolder, _ pieces: [String]) throws -> Digest {
        let incoming = try folder.receive()
        for piece in pieces { try incoming.append(Array(piece.utf8)) }
        return try folder.keep(incoming)
    }

    private func files(_ path: String) -> [String] {
        let all = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
        return all.filter { $0.contains("/") }.sorted()
    }

    @Test("keeps what is the same once, under the digest of all its pieces")
    func sameOnce() throws {
        let place = TemporaryFolder()
        let folder = ContentFolder(path: "\(place.path)/kept")
        let one = try keep(folder, ["ab", "c"])
        let other = try keep(folder, ["abc"])
        let name = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(one == other && Hexadecimal.encode(one.bytes) == name)
        #expect(files(folder.path) == ["ba/\(name)"])
        let content = try #require(try folder.open(one))
        #expect(content.byteCount == 3)
        #expect(try content.read(atMost: 2) == Array("ab".utf8) && content.read(atMost: 2) == Array("c".utf8))
        #expect(try content.read(atMost: 2).isEmpty)
        #expect(try folder.open(SHA256.digest(of: [])) == nil)
    }

    @Test("removes only what nobody holds and nobody needs")
    func removes() throws {
        let place = TemporaryFolder()
        let folder = ContentFolder(path: "\(place.path)/kept")
        let digest = try keep(folder, ["abc"])
        folder.remove(digest) { true }
        #expect(try folder.open(digest) != nil)
        folder.release(digest)
        folder.remove(digest) { false }
        #expect(try folder.open(digest) != nil)
        folder.remove(digest) { true }
        #expect(try folder.open(digest) == nil)
    }

    @Test("leaves nothing of what was not finished, not even by an earlier process")
    func unfinished() throws {
        let place = TemporaryFolder()
        let path = "\(place.path)/kept"
        let other = ContentFolder(path: path)
        do {
            let incoming = try other.receive()
            try incoming.append([1])
            #expect(files(path).count == 1)
        }
        #expect(files(path).isEmpty)
        for name in ["1", "9"] { try Data([1]).write(to: URL(fileURLWithPath: "\(path)/incoming/\(name)")) }
        // What another process receives at this moment stays.
        let folder = ContentFolder(path: path)
        let (one, two) = (try other.receive(), try folder.receive())
        folder.removeIncomplete()
        #expect(files(path).count == 2 && !files(path).contains("incoming/9"))
        try one.append([7])
        try two.append([8])
        let (first, second) = (try other.keep(one), try folder.keep(two))
        #expect(try folder.open(first)?.read(atMost: 2) == [7])
        #expect(try other.open(second)?.read(atMost: 2) == [8])
    }

    @Test("has a content that it has kept, whatever a power cut loses")
    func durable() throws {
        for (changes, loss) in (0..<12).flatMap({ count in FaultyDisk.Loss.allCases.map { (count, $0) } }) {
            for seed in 1...(loss == .any ? 20 : 1) {
                let disk = FaultyDisk(seed: UInt64(seed))
                disk.faults.changesUntilPowerCut = changes
                let digest = try? keep(ContentFolder(path: "/data/kept", on: disk), ["ab", "c"])
                disk.cutPower(loss)
                let folder = ContentFolder(path: "/data/kept", on: disk)
                for digest in Set([digest].compactMap { $0 } + folder.kept) {
                    let content = try folder.open(digest)?.read(atMost: 10)
                    #expect(content == Array("abc".utf8), "after \(changes) changes, \(loss)")
                }
                // What was not finished goes.
                folder.removeIncomplete()
                _ = try keep(folder, ["other"])
                #expect(!disk.paths.contains { $0.contains("incoming") })
            }
        }
    }

    @Test("takes a content again after each fault of the disk", arguments: FaultyDisk.Operation.allCases)
    func again(_ operation: FaultyDisk.Operation) throws {
        for skip in 0..<6 {
            let disk = FaultyDisk()
            let folder = ContentFolder(path: "/data/kept", on: disk)
            disk.faults.failing[operation] = .init(skip: skip)
            let first = try? keep(folder, ["abc"])
            disk.faults = FaultyDisk.FaultPlan()
            let digest = try keep(folder, ["abc"])
            #expect(first == nil || first == digest)
            disk.cutPower(.everything)
            let content = try ContentFolder(path: "/data/kept", on: disk).open(digest)
            #expect(content?.byteCount == 3)
        }
    }

    @Test("says what is wrong where nothing can be written")
    func faults() throws {
        let place = TemporaryFolder()
        try Data().write(to: URL(fileURLWithPath: "\(place.path)/file"))
        #expect(throws: ContentFault.self) { _ = try ContentFolder(path: "\(place.path)/file/kept").receive() }
    }
}
