import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

@Suite("Lost calls")
struct HeadTests {
    /// The files of a store at one moment, as a power cut leaves them.
    private struct Image {
        let files: [String: Data]

        init(_ folder: String) throws {
            var files: [String: Data] = [:]
            for name in ["onym.db", "onym.db-wal", "onym.head"] {
                let path = folder + "/" + name
                if FileManager.default.fileExists(atPath: path) {
                    files[name] = try Data(contentsOf: URL(filePath: path))
                }
            }
            self.files = files
        }

        /// Writes the files, some of them changed, and all but one.
        func place(_ changes: [String: Data] = [:], without left: String? = nil) throws -> TemporaryFolder {
            let folder = TemporaryFolder()
            for (name, data) in files.merging(changes, uniquingKeysWith: { $1 }) where name != left {
                try data.write(to: URL(filePath: folder.path + "/" + name))
            }
            return folder
        }
    }

    /// A store after some calls, and after some more.
    private func images() throws -> (early: Image, late: Image, calls: Int64) {
        let fixture = try StoreFixture(.sqlite)
        for number in 0..<5 { _ = try fixture.identify([.customerID: "early \(number)"]) }
        let early = try Image(fixture.folder.path)
        for number in 0..<5 { _ = try fixture.identify([.customerID: "late \(number)"]) }
        return (early, try Image(fixture.folder.path), fixture.store.counts.lastSequence.rawValue)
    }

    /// The last call of the store in a folder; nil if the store refuses to open.
    private func last(_ folder: TemporaryFolder, acceptsLoss: Bool = false) throws -> Int64? {
        do throws(StoreFault) {
            let store = try SQLiteStore(StoreFile(folder: folder.path), acceptsLoss: acceptsLoss)
            defer { store.close() }
            return store.counts.lastSequence.rawValue
        } catch {
            #expect(error.description.contains("lacks the calls") && error.description.contains("--accept-loss"))
            return nil
        }
    }

    private func findings(_ folder: TemporaryFolder) throws -> [String] {
        try Doctor(StoreFile(folder: folder.path)) { _ in }.examine().map(\.code)
    }

    @Test("a store after a power cut has all calls, and its doctor is content")
    func whole() throws {
        let (early, late, calls) = try images()
        for image in [early, late] {
            let folder = try image.place()
            #expect(try findings(folder).isEmpty)
            #expect(try last(folder) == (image.files == late.files ? calls : calls - 5))
        }
        // A head that is behind is healthy.
        #expect(try last(late.place(["onym.head": #require(early.files["onym.head"])])) == calls)
        let headless = try late.place(without: "onym.head")
        #expect(try findings(headless) == ["no_head"])
        #expect(try last(headless) == calls)
        #expect(try findings(headless).isEmpty, "the open made the head anew")
    }

    @Test("a log that was cut, damaged or deleted, and an older file, are found, and nothing is changed")
    func lost() throws {
        let (early, late, calls) = try images()
        let log = try #require(late.files["onym.db-wal"])
        let older = early.files.filter { $0.key != "onym.head" }
        var damages: [(changes: [String: Data], left: String?)] = [
            ([:], "onym.db-wal"), (["onym.db-wal": Data()], nil), (older, nil),
        ]
        for place in stride(from: 40, to: log.count - 8300, by: log.count / 9) {
            var garbled = log
            garbled[place] ^= 0x10
            damages += [(["onym.db-wal": garbled], nil), (["onym.db-wal": Data(log.prefix(place))], nil)]
        }
        #expect(damages.count > 15)
        for damage in damages {
            let folder = try late.place(damage.changes, without: damage.left)
            let before = try Image(folder.path).files.filter { !$0.value.isEmpty }
            #expect(try findings(folder).contains("lost_calls"))
            #expect(try last(folder) == nil)
            #expect(try Image(folder.path).files.filter { !$0.value.isEmpty } == before, "a refusal changes nothing")
            #expect(try last(folder, acceptsLoss: true) != nil)
            #expect(try last(folder) == nil, "a loss is found again until it is accepted")
            let store = try SQLiteStore(StoreFile(folder: folder.path), acceptsLoss: true)
            #expect(store.lastLost?.rawValue == calls)
            try store.acceptLoss()
            let rest = store.counts.lastSequence.rawValue
            store.close()
            #expect(rest < calls)
            #expect(try last(folder) == rest, "an accepted loss is accepted for ever")
            #expect(try findings(folder).isEmpty)
        }
    }

    @Test("without a head, calls behind a damaged frame are found lost, and a damaged last call is a power cut's")
    func lostWithoutHead() throws {
        let (_, late, calls) = try images()
        let log = try #require(late.files["onym.db-wal"])
        let frame = 24 + 8192
        let frames = (log.count - 32) / frame
        // A commit has the length of the database in its last frame.
        let commits = (1...frames).filter {
            !log[(32 + ($0 - 1) * frame + 4)..<(32 + ($0 - 1) * frame + 8)].allSatisfy { $0 == 0 }
        }
        let (last, beforeLast) = (try #require(commits.last), commits[commits.count - 2])
        #expect(last == frames && commits.count > 8)
        for number in 1...frames where number < 4 || number > beforeLast - 2 {
            for place in [2, 4, 10, 18, 24, 8000] {
                // The last but one commit is known by its last frame, which follows from the checksum of the frame before.
                if number == beforeLast || number == beforeLast - 1 && place == 18 { continue }
                var garbled = log
                garbled[32 + (number - 1) * frame + place] ^= 0x10
                let folder = try late.place(["onym.db-wal": garbled], without: "onym.head")
                if number > beforeLast {
                    #expect(try findings(folder) == ["no_head"], "frame \(number) of \(commits), byte \(place)")
                    #expect(try self.last(folder) == calls - 1)
                    continue
                }
                #expect(try findings(folder) == ["lost_calls"], "frame \(number), byte \(place)")
                #expect(try self.last(folder) == nil)
                let store = try SQLiteStore(StoreFile(folder: folder.path), acceptsLoss: true)
                #expect(store.lastLost == store.counts.lastSequence && store.counts.lastSequence.rawValue < calls - 1)
                try store.acceptLoss()
                let rest = store.counts.lastSequence.rawValue
                store.close()
                #expect(try self.last(folder) == rest, "an accepted loss is accepted for ever")
                #expect(try findings(folder).isEmpty)
            }
        }
    }

    @Test("a damaged head is no reason to refuse a store, and the newer of its two places is enough")
    func damagedHead() throws {
        let (early, late, calls) = try images()
        let head = try #require(late.files["onym.head"])
        let (first, second) = (head[24..<32], head[536..<544])
        let older = first.lexicographicallyPrecedes(second) ? 0 : 512
        for place in [3, 20, 30, 44] {
            var one = head
            one[place + older] ^= 1
            var both = one
            both[place + 512 - older] ^= 1
            #expect(try last(late.place(["onym.head": one])) == calls)
            #expect(try last(late.place(["onym.head": both])) == calls)
            let older = early.files.filter { $0.key != "onym.head" }
            #expect(try last(late.place(older.merging(["onym.head": one]) { $1 })) == nil)
            #expect(try last(late.place(older.merging(["onym.head": both]) { $1 })) == calls - 5)
        }
    }

    @Test("a head that cannot be written is a warning, and it gets the owner of the store")
    func owner() throws {
        let (_, late, calls) = try images()
        let folder = try late.place(without: "onym.head")
        try FileManager.default.createDirectory(atPath: folder.path + "/onym.head", withIntermediateDirectories: false)
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        #expect(store.headFault?.contains("onym.head cannot be written") == true)
        #expect(store.counts.lastSequence.rawValue == calls)
        store.close()
        // Only the superuser can give a file away.
        if geteuid() != 0 { return }
        let own = try late.place(without: "onym.head")
        try #require(unsafe chown(own.path + "/onym.db", 12345, 12346) == 0)
        #expect(try last(own) == calls)
        let attributes = try FileManager.default.attributesOfItem(atPath: own.path + "/onym.head")
        #expect(attributes[.ownerAccountID] as? Int == 12345 && attributes[.groupOwnerAccountID] as? Int == 12346)
    }

    @Test("the head of another store says nothing")
    func otherStore() throws {
        let (_, late, _) = try images()
        let folder = TemporaryFolder()
        try SQLiteStore.make(StoreFile(folder: folder.path), hashKey: Hash128(high: 8, low: 9)) { _ in }
        try #require(late.files["onym.head"]).write(to: URL(filePath: folder.path + "/onym.head"))
        #expect(try findings(folder) == ["no_head"])
        #expect(try last(folder) == 0)
        #expect(try findings(folder).isEmpty)
    }
}
