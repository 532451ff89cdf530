import Disk
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import TestKit
import Testing
import Threads

@Suite("The files of the log of requests")
struct RequestLogTests {
    /// A log of one loop, in a folder that several logs may share one after the other.
    private static func log(_ folder: TemporaryFolder, bytes: Int = 1 << 20, on disk: any Disk = SystemDisk())
        -> RequestLog
    {
        RequestLog(
            folder: "\(folder.path)/requests", bytes: bytes, on: disk, loops: 1,
            routes: ["GET /short", "GET /" + String(repeating: "long/", count: 40)], hash: World.hash,
            clock: { Instant(milliseconds: 1_800_000_000_000) }, lastCall: { .zero })
    }

    private static func request(_ number: UInt64, route: Int? = 0, code: String? = nil) -> AnsweredRequest {
        AnsweredRequest(
            loop: 0, route: route, id: RequestID(high: 7, low: number), status: .ok, code: code, nanoseconds: 5_000_000,
            bytesIn: 10, bytesOut: 20, caller: CallerMark())
    }

    private static func text(_ number: UInt64) -> String { RequestID(high: 7, low: number).text }
    private static func all(_ log: RequestLog) throws -> [UInt64] {
        try log.requests(before: nil, limit: 1_000_000, readsAll: true, until: .none) { _ in true }.entries
            .map(\.id.low)
    }

    @Test("have routes and codes of any length, and are read after a restart")
    func restart() throws {
        let folder = TemporaryFolder()
        let first = Self.log(folder)
        first.add(Self.request(1, route: 1, code: "too_many_things"))
        first.add(Self.request(2, route: nil))
        first.stop()
        let second = Self.log(folder)
        defer { second.stop() }
        second.add(Self.request(3))
        #expect(try Self.all(second) == [3, 2, 1])
        let found = try second.request(Self.text(1), until: .none) { _ in true }
        #expect(found?.route == "GET /" + String(repeating: "long/", count: 40) && found?.code == "too_many_things")
        #expect(found?.microseconds == 5000 && found?.bytesIn == 10 && found?.bytesOut == 20 && found?.key == nil)
        #expect(try second.request(Self.text(2), until: .none, where: { _ in true })?.route == nil)
        #expect(try second.request(Self.text(4), until: .none) { _ in true } == nil)
    }

    @Test("lose a torn last record at a start, and no other")
    func torn() throws {
        let folder = TemporaryFolder()
        let first = Self.log(folder)
        for number in 1...3 { first.add(Self.request(UInt64(number))) }
        first.stop()
        let disk = SystemDisk()
        let name = try #require(try disk.names(in: "\(folder.path)/requests").first)
        let file = try disk.open("\(folder.path)/requests/\(name)", .readWrite)
        let size = try file.status().byteCount
        try file.truncate(to: size - 30)
        let second = Self.log(folder)
        defer { second.stop() }
        second.add(Self.request(4))
        #expect(try Self.all(second) == [4, 2, 1])
        #expect(try file.status().byteCount == size - 64)
    }

    @Test("keep no more than the limit, and drop the oldest")
    func oldest() throws {
        let folder = TemporaryFolder()
        let log = Self.log(folder, bytes: 1 << 17)
        defer { log.stop() }
        for number in 1...5000 {
            log.add(Self.request(UInt64(number)))
            if number % 100 == 0 { log.flush() }
        }
        let kept = try Self.all(log)
        #expect(kept.first == 5000 && kept == kept.sorted(by: >) && kept.count > 1000 && kept.count <= 1 << 11)
        let disk = SystemDisk()
        let total = try disk.names(in: "\(folder.path)/requests").reduce(0) { sum, name in
            sum + (try disk.status(of: "\(folder.path)/requests/\(name)")?.byteCount ?? 0)
        }
        #expect(total <= 1 << 17 && log.dropped == 0)
        // Pages of a list meet at their places.
        var (paged, place): ([UInt64], Int?) = ([], nil)
        repeat {
            let page = try log.requests(before: place, limit: 700, until: .none) { _ in true }
            paged += page.entries.map(\.id.low)
            place = page.next
        } while place != nil
        #expect(paged == kept)
    }

    @Test("are read up to the limit of the read, and no further")
    func limited() throws {
        let folder = TemporaryFolder()
        let log = Self.log(folder, bytes: 1 << 17)
        defer { log.stop() }
        for number in 1...5000 {
            log.add(Self.request(UInt64(number)))
            if number % 100 == 0 { log.flush() }
        }
        let files = Monitor(0)
        // Over after the second file.
        let limit = ReadLimit {
            files.change { files in
                files += 1
                return files > 2
            }
        }
        #expect(throws: StoreFault.self) { _ = try log.request(Self.text(1), until: limit) { _ in true } }
        #expect(files.withLock(\.self) == 3)
        files.change { $0 = 0 }
        #expect(throws: StoreFault.self) {
            _ = try log.requests(before: nil, limit: 10, until: limit) { $0.id.low == 1 }
        }
        files.change { $0 = 0 }
        #expect(try log.request(Self.text(5000), until: limit) { _ in true } != nil, "it is in the first file")
    }

    @Test("that cannot be written drop and count requests, and go on when the disk has room again")
    func full() throws {
        let (folder, disk) = (TemporaryFolder(), FullDisk())
        let log = Self.log(folder, on: disk)
        defer { log.stop() }
        log.add(Self.request(1))
        log.flush()
        disk.isFull.withLock { $0 = true }
        for number in 2...4 { log.add(Self.request(UInt64(number))) }
        log.flush()
        #expect(log.dropped == 3)
        disk.isFull.withLock { $0 = false }
        log.add(Self.request(5))
        log.flush()
        #expect(try Self.all(log) == [5, 1] && log.dropped == 3)
    }

    @Test("are not waited for: a loop drops what has no room, and counts it")
    func behind() throws {
        let (folder, disk) = (TemporaryFolder(), FullDisk())
        let log = Self.log(folder, bytes: 1 << 24, on: disk)
        defer { log.stop() }
        // The thread waits at the disk, with what it has taken.
        disk.isHeld.change { $0 = true }
        for number in 1...60_000 { log.add(Self.request(UInt64(number))) }
        #expect(log.dropped > 0)
        disk.isHeld.change { $0 = false }
        log.flush()
        #expect(try Self.all(log).count + log.dropped == 60_000)
    }

    /// The disk of the system, which can be full, or hold each write.
    private final class FullDisk: Disk {
        let isFull = Monitor(false)
        let isHeld = Monitor(false)
        private let disk = SystemDisk()

        var sqliteName: String? { nil }
        func open(_ path: String, _ purpose: OpenPurpose) throws(DiskFault) -> any DiskFile {
            FullFile(try disk.open(path, purpose), self)
        }
        func status(of path: String) throws(DiskFault) -> FileStatus? { try disk.status(of: path) }
        func isWritable(_ path: String) -> Bool { disk.isWritable(path) }
        func rename(_ path: String, to other: String) throws(DiskFault) { try disk.rename(path, to: other) }
        func remove(_ path: String) throws(DiskFault) { try disk.remove(path) }
        func makeFolder(_ path: String) throws(DiskFault) { try disk.makeFolder(path) }
        func names(in folder: String) throws(DiskFault) -> [String] { try disk.names(in: folder) }
        func syncFolder(_ path: String) throws(DiskFault) { try disk.syncFolder(path) }
        var now: UInt64 { disk.now }
    }

    private final class FullFile: DiskFile {
        private let file: any DiskFile
        private let disk: FullDisk

        init(_ file: any DiskFile, _ disk: FullDisk) { (self.file, self.disk) = (file, disk) }

        func write(_ bytes: [UInt8], at offset: Int) throws(DiskFault) {
            let _: Bool? = disk.isHeld.wait(milliseconds: Patience.milliseconds) { $0 ? nil : true }
            // A full disk takes a part.
            if disk.isFull.withLock({ $0 }) {
                try file.write(Array(bytes.prefix(70)), at: offset)
                throw DiskFault(code: 28)
            }
            try file.write(bytes, at: offset)
        }
        func read(at offset: Int, count: Int) throws(DiskFault) -> [UInt8] { try file.read(at: offset, count: count) }
        func truncate(to byteCount: Int) throws(DiskFault) { try file.truncate(to: byteCount) }
        func sync() throws(DiskFault) { try file.sync() }
        func status() throws(DiskFault) -> FileStatus { try file.status() }
        func lock() -> Bool { file.lock() }
        func unlock() { file.unlock() }
        func giveToOwner(of path: String) { file.giveToOwner(of: path) }
    }
}
