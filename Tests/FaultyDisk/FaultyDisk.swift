import CFaultyDisk
package import Disk
import Foundation

/// A disk in memory that keeps no more than it has promised.
///
/// Each file has the bytes that programs see, and the bytes that are durable. Between both stand the changes since the last sync.
/// A power cut keeps, loses or tears each of these changes. So it is with names: a new name is durable when its folder is synced.
/// The sync of one file orders nothing in another file.
///
/// SQLite reaches the disk by its name, and other code by the protocol; both see the same files.
package final class FaultyDisk: Disk, @unchecked Sendable {
    // Unchecked: the lock protects everything.

    private let lock = NSLock()
    private var registered: UnsafeMutableRawPointer?
    package let sqliteName: String?

    private var names: [String: File] = [:]
    private var durableNames: [String: File] = [:]
    private var pendingNames: [NameChange] = []
    /// The folders that were made. The folder of a store, which is there before, is not among them.
    private var folders: Set<String> = []
    private var durableFolders: Set<String> = []
    private var handles: [Int64: Handle] = [:]
    private var lastHandle: Int64 = 0
    /// The number of starts: files that were opened before the last crash are dead.
    private var generation = 0
    /// Whether the machine has no power.
    private var isDead = false
    private var memory: [UnsafeMutableRawPointer] = []
    private var chance: SplitMix

    private var plan = FaultPlan()
    private var time: UInt64 = 1_000_000_000
    /// The number of operations of each kind since the beginning.
    package private(set) var counts: [Operation: Int] = [:]
    /// The number of faults that happened, by their name.
    package private(set) var happened: [String: Int] = [:]

    /// A kind of call that can fail.
    package enum Operation: String, CaseIterable, Sendable {
        case read, write, sync, truncate, remove, rename, makeFolder, syncFolder, shm
    }

    fileprivate enum Change {
        case write(at: Int, [UInt8])
        case truncate(Int)
    }

    private struct NameChange {
        let folder: String
        var puts: (name: String, file: File)?
        var removes: String?
        var makesFolder: String?
    }

    private final class File {
        var shown: [UInt8] = []
        var durable: [UInt8] = []
        var pending: [Change] = []
        var changedAt: Int64 = 0
        /// SQLite's locks, by open file.
        var levels: [Int64: Int32] = [:]
        var owner: Int64?
        var regions: [UnsafeMutableRawPointer] = []
        var shared: [[Int64: Bool]] = Array(repeating: [:], count: 8)
    }

    private struct Handle {
        let file: File
        let generation: Int
        let path: String
        let syncsFolder: Bool
    }

    /// Whether a thread of SQLite that waits for a lock lets other threads go on. Without it a wait takes no real time, as in a life
    /// of one thread.
    private let waits: Bool

    /// Makes an empty disk. Its chance decides what a power cut keeps.
    ///
    /// - Parameter waits: whether several threads use the disk and wait for one another.
    package init(seed: UInt64 = 1, waits: Bool = false) {
        self.waits = waits
        chance = SplitMix(state: seed)
        let name = "faulty-\(UUID().uuidString)"
        sqliteName = name
        registered = onym_disk_register(name, Unmanaged.passUnretained(self).toOpaque()) { disk, call in
            guard let disk, let call else { return SQLiteAnswer.inputOutput }
            let unmanaged = Unmanaged<FaultyDisk>.fromOpaque(disk)
            let code = unmanaged.takeUnretainedValue().answer(&call.pointee)
            // An open file of SQLite keeps the disk alive: a store may free its disk before its connections.
            switch onym_disk_kind(UInt32(call.pointee.kind)) {
            case ONYM_DISK_OPEN where code == SQLiteAnswer.okay: _ = unmanaged.retain()
            case ONYM_DISK_CLOSE: unmanaged.release()
            default: break
            }
            return code
        }
    }

    deinit {
        onym_disk_unregister(registered)
        for region in memory { region.deallocate() }
    }

    // MARK: - Faults

    /// The faults that are to come.
    package struct FaultPlan: Equatable, Sendable {
        /// Calls that fail: how many calls of the kind go well before, and how many fail then.
        package var failing: [Operation: Failure] = [:]
        /// The bytes by which files may still grow; nil for plenty.
        package var room: Int?
        /// The number of changes after which the machine loses its power.
        package var changesUntilPowerCut: Int?
        /// The time that each sync takes.
        package var syncNanoseconds: UInt64 = 0
        /// Whether syncs do nothing at all: a disk that lies about them.
        package var ignoresSyncs = false

        package struct Failure: Equatable, Sendable {
            package var skip: Int
            package var times: Int

            package init(skip: Int = 0, times: Int = 1) { (self.skip, self.times) = (skip, times) }
        }

        package init() {}
    }

    package var faults: FaultPlan {
        get { lock.withLock { plan } }
        set { lock.withLock { plan = newValue } }
    }

    /// Whether the machine lost its power and was not restarted.
    package var hasLostPower: Bool { lock.withLock { isDead } }

    /// The way in which a power cut treats changes that were not synced.
    package enum Loss: CaseIterable, Sendable {
        /// Everything reached the disk by itself.
        case nothing
        /// Nothing that was not synced reached the disk.
        case everything
        /// Each change is kept, lost or torn by chance.
        case any
    }

    /// Ends the process: its open files are dead, and the system keeps all bytes.
    package func endProcess() {
        lock.withLock { endHandles() }
    }

    /// Ends the process by a power cut, and starts the machine again.
    package func cutPower(_ loss: Loss = .any) {
        lock.withLock {
            endHandles()
            (isDead, plan) = (false, FaultPlan())
            var files: [File] = []
            for change in pendingNames where isKept(loss) { keep(change) }
            pendingNames = []
            // What lies in a folder is lost with it.
            for folder in folders.subtracting(durableFolders) {
                durableFolders = durableFolders.filter { !$0.hasPrefix(folder + "/") }
                durableNames = durableNames.filter { !$0.key.hasPrefix(folder + "/") }
            }
            folders = durableFolders
            for name in (Set(names.keys).union(durableNames.keys)).sorted() {
                for file in [names[name], durableNames[name]].compactMap({ $0 })
                where !files.contains(where: { $0 === file }) {
                    files.append(file)
                }
            }
            for file in files { settle(file, loss) }
            names = durableNames
        }
    }

    private func endHandles() {
        generation += 1
        for file in names.values {
            (file.levels, file.owner, file.regions) = ([:], nil, [])
            file.shared = Array(repeating: [:], count: 8)
        }
    }

    private func isKept(_ loss: Loss) -> Bool {
        switch loss {
        case .nothing: true
        case .everything: false
        case .any: chance.next() & 1 == 0
        }
    }

    /// Leaves of a file what the disk kept.
    private func settle(_ file: File, _ loss: Loss) {
        for change in file.pending {
            guard case .any = loss, case .write(let offset, let bytes) = change, chance.next() % 3 == 0 else {
                if isKept(loss) { change.apply(to: &file.durable) }
                continue
            }
            tear(bytes, at: offset, of: file)
        }
        (file.shown, file.pending) = (file.durable, [])
    }

    /// Keeps some sectors of a write, or the bytes up to some byte.
    private func tear(_ bytes: [UInt8], at offset: Int, of file: File) {
        if chance.next() & 1 == 0 {
            let end = Int(chance.next() % UInt64(bytes.count + 1))
            Change.write(at: offset, Array(bytes[..<end])).apply(to: &file.durable)
            return
        }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + 512 - (offset + start) % 512)
            if chance.next() & 1 == 0 {
                Change.write(at: offset + start, Array(bytes[start..<end])).apply(to: &file.durable)
            }
            start = end
        }
    }

    // MARK: - Looking, and rot

    /// The names of all files.
    package var paths: [String] { lock.withLock { names.keys.sorted() } }

    /// The bytes of a file, as programs see them; nil if it does not exist.
    package func bytes(of path: String) -> [UInt8]? { lock.withLock { names[path]?.shown } }

    /// Changes the bytes of a file behind everybody's back; nil deletes the file.
    package func rot(_ path: String, _ change: (inout [UInt8]?) -> Void) {
        lock.withLock {
            var bytes = names[path]?.shown
            change(&bytes)
            guard let bytes else {
                (names[path], durableNames[path]) = (nil, nil)
                return
            }
            let file = names[path] ?? File()
            (file.shown, file.durable, file.pending) = (bytes, bytes, [])
            (names[path], durableNames[path]) = (file, file)
        }
    }

    /// A disk with the same durable and shown files and nothing pending, as a copy of the whole disk is.
    package func copy(seed: UInt64) -> FaultyDisk {
        let other = FaultyDisk(seed: seed)
        lock.withLock {
            for (name, file) in names {
                let copy = File()
                (copy.shown, copy.durable) = (file.shown, file.shown)
                (other.names[name], other.durableNames[name]) = (copy, copy)
            }
            (other.folders, other.durableFolders) = (folders, folders)
        }
        return other
    }

    /// The time of a clock that nobody can set, in nanoseconds.
    package var now: UInt64 { lock.withLock { time } }

    package func advance(nanoseconds: UInt64) { lock.withLock { time += nanoseconds } }

    // MARK: - What happens in a call

    /// Counts a call, and decides whether it fails.
    private func fails(_ operation: Operation) -> Bool {
        counts[operation, default: 0] += 1
        if isDead { return true }
        let isChange = operation != .read && operation != .shm
        if isChange, let left = plan.changesUntilPowerCut {
            plan.changesUntilPowerCut = left - 1
            if left <= 0 {
                isDead = true
                happened["power", default: 0] += 1
                return true
            }
        }
        guard var failure = plan.failing[operation] else { return false }
        if failure.skip > 0 {
            failure.skip -= 1
            plan.failing[operation] = failure
            return false
        }
        failure.times -= 1
        plan.failing[operation] = failure.times > 0 ? failure : nil
        happened[operation.rawValue, default: 0] += 1
        return true
    }

    private func handle(_ number: Int64) -> Handle? {
        guard let handle = handles[number], handle.generation == generation, !isDead else { return nil }
        return handle
    }

    /// The largest file. A damaged store may name pages that lie far behind its end, and files here have no holes.
    private static let bytesAtMost = 1 << 30

    private func write(_ bytes: [UInt8], at offset: Int, to file: File) -> Bool {
        guard offset + bytes.count <= FaultyDisk.bytesAtMost else { return false }
        var bytes = bytes
        var isWhole = true
        let growth = max(0, offset + bytes.count - file.shown.count)
        if let room = plan.room, growth > 0 {
            if growth > room {
                happened["full", default: 0] += 1
                isWhole = false
                // A short write, up to the end of the room.
                bytes.removeLast(min(bytes.count, growth - room))
            }
            plan.room = max(0, room - growth)
        }
        guard !bytes.isEmpty else { return isWhole }
        let change = Change.write(at: offset, bytes)
        change.apply(to: &file.shown)
        file.pending.append(change)
        changed(file)
        return isWhole
    }

    private func changed(_ file: File) {
        time += 1
        file.changedAt = Int64(time)
    }

    private func truncate(_ file: File, to count: Int) -> Bool {
        guard count <= FaultyDisk.bytesAtMost else { return false }
        if let room = plan.room, file.shown.count > count { plan.room = room + file.shown.count - count }
        let change = Change.truncate(count)
        change.apply(to: &file.shown)
        file.pending.append(change)
        changed(file)
        return true
    }

    /// Makes the changes of a file durable. After a failed sync they are lost, and yet nobody writes them again, as in Linux.
    private func sync(_ file: File, isFailed: Bool) {
        time += plan.syncNanoseconds
        if plan.ignoresSyncs { return }
        if !isFailed { for change in file.pending { change.apply(to: &file.durable) } }
        file.pending = []
    }

    private func change(_ folder: String, puts: (name: String, file: File)? = nil, removes: String? = nil) {
        if let removes {
            if let room = plan.room, let file = names[removes], puts == nil { plan.room = room + file.shown.count }
            names[removes] = nil
        }
        if let puts { names[puts.name] = puts.file }
        pendingNames.append(NameChange(folder: folder, puts: puts, removes: removes))
    }

    private func syncNames(_ folder: String) {
        if plan.ignoresSyncs { return }
        for change in pendingNames where change.folder == folder { keep(change) }
        pendingNames.removeAll { $0.folder == folder }
    }

    private func keep(_ change: NameChange) {
        if let name = change.removes { durableNames[name] = nil }
        if let put = change.puts { durableNames[put.name] = put.file }
        if let folder = change.makesFolder { durableFolders.insert(folder) }
    }

    // MARK: - Disk

    package func open(_ path: String, _ purpose: OpenPurpose) throws(DiskFault) -> any DiskFile {
        let number = try checked { () -> Int64? in
            if isDead { return nil }
            if let file = names[path] {
                return purpose == .make ? nil : add(file, path, syncsFolder: false)
            }
            if purpose == .read { return nil }
            let file = File()
            change(Paths.folder(of: path), puts: (path, file))
            return add(file, path, syncsFolder: false)
        }
        guard let number else {
            let code = lock.withLock { isDead ? EIO : names[path] == nil ? ENOENT : EEXIST }
            throw DiskFault(code: code)
        }
        return OpenFile(disk: self, number: number)
    }

    private func checked<Result>(_ body: () -> Result) throws(DiskFault) -> Result { lock.withLock(body) }

    private func add(_ file: File, _ path: String, syncsFolder: Bool) -> Int64 {
        lastHandle += 1
        handles[lastHandle] = Handle(file: file, generation: generation, path: path, syncsFolder: syncsFolder)
        return lastHandle
    }

    package func status(of path: String) throws(DiskFault) -> FileStatus? {
        lock.withLock {
            names[path].map { FileStatus(byteCount: $0.shown.count, changedAt: $0.changedAt, isPrivate: true) }
        }
    }

    package func isWritable(_ path: String) -> Bool { lock.withLock { names[path] != nil } }

    package func rename(_ path: String, to other: String) throws(DiskFault) {
        try run(.rename) { () -> Int32 in
            guard let file = names[path] else { return ENOENT }
            change(Paths.folder(of: other), puts: (other, file), removes: path)
            return 0
        }
    }

    package func remove(_ path: String) throws(DiskFault) {
        try run(.remove) { () -> Int32 in
            guard names[path] != nil else { return ENOENT }
            change(Paths.folder(of: path), removes: path)
            return 0
        }
    }

    package func makeFolder(_ path: String) throws(DiskFault) {
        try run(.makeFolder) { () -> Int32 in
            if folders.insert(path).inserted {
                pendingNames.append(NameChange(folder: Paths.folder(of: path), makesFolder: path))
            }
            return 0
        }
    }

    package func names(in folder: String) throws(DiskFault) -> [String] {
        lock.withLock {
            let start = folder + "/"
            let inside = Set(names.keys).union(folders).filter { $0.hasPrefix(start) }
            return Set(inside.map { String($0.dropFirst(start.count).prefix { $0 != "/" }) }).sorted()
        }
    }

    package func syncFolder(_ path: String) throws(DiskFault) {
        try run(.syncFolder) { () -> Int32 in
            syncNames(path)
            return 0
        }
    }

    /// Runs a call that may fail, and throws what it answers unless that is 0.
    private func run(_ operation: Operation, _ body: () -> Int32) throws(DiskFault) {
        let code = lock.withLock { fails(operation) ? EIO : body() }
        if code != 0 { throw DiskFault(code: code) }
    }

    private final class OpenFile: DiskFile {
        let disk: FaultyDisk
        let number: Int64

        init(disk: FaultyDisk, number: Int64) { (self.disk, self.number) = (disk, number) }

        deinit { disk.close(number) }

        func read(at offset: Int, count: Int) throws(DiskFault) -> [UInt8] {
            let bytes = disk.lock.withLock { () -> [UInt8]? in
                guard !disk.fails(.read), let file = disk.handle(number)?.file else { return nil }
                return Array(file.shown.dropFirst(offset).prefix(count))
            }
            guard let bytes else { throw DiskFault(code: EIO) }
            return bytes
        }

        func write(_ bytes: [UInt8], at offset: Int) throws(DiskFault) {
            try disk.run(.write) { () -> Int32 in
                guard let file = disk.handle(number)?.file else { return EIO }
                return disk.write(bytes, at: offset, to: file) ? 0 : ENOSPC
            }
        }

        func truncate(to byteCount: Int) throws(DiskFault) {
            try disk.run(.truncate) { () -> Int32 in
                guard let file = disk.handle(number)?.file else { return EIO }
                return disk.truncate(file, to: byteCount) ? 0 : EFBIG
            }
        }

        func sync() throws(DiskFault) {
            let code = disk.lock.withLock { () -> Int32 in
                let isFailed = disk.fails(.sync)
                guard let file = disk.handle(number)?.file else { return EIO }
                disk.sync(file, isFailed: isFailed)
                return isFailed ? EIO : 0
            }
            if code != 0 { throw DiskFault(code: code) }
        }

        func status() throws(DiskFault) -> FileStatus {
            let status = disk.lock.withLock {
                disk.handle(number).map {
                    FileStatus(
                        byteCount: $0.file.shown.count, changedAt: $0.file.changedAt, isPrivate: true)
                }
            }
            guard let status else { throw DiskFault(code: EIO) }
            return status
        }

        func lock() -> Bool {
            disk.lock.withLock {
                guard let file = disk.handle(number)?.file, file.owner == nil || file.owner == number else {
                    return false
                }
                file.owner = number
                return true
            }
        }

        func unlock() {
            disk.lock.withLock {
                guard let file = disk.handle(number)?.file, file.owner == number else { return }
                file.owner = nil
            }
        }

        func giveToOwner(of path: String) {}
    }

    private func close(_ number: Int64) {
        lock.withLock {
            if let handle = handles.removeValue(forKey: number), handle.generation == generation {
                release(number, handle.file)
            }
        }
    }

    private func release(_ number: Int64, _ file: File) {
        file.levels[number] = nil
        if file.owner == number { file.owner = nil }
        for slot in file.shared.indices { file.shared[slot][number] = nil }
    }
}

extension FaultyDisk.Change {
    fileprivate func apply(to bytes: inout [UInt8]) {
        switch self {
        case .write(let offset, let written):
            if bytes.count < offset { bytes += [UInt8](repeating: 0, count: offset - bytes.count) }
            let overlap = min(written.count, bytes.count - offset)
            bytes.replaceSubrange(offset..<offset + overlap, with: written[..<overlap])
            bytes += written[overlap...]
        case .truncate(let count):
            if bytes.count > count {
                bytes.removeLast(bytes.count - count)
            } else {
                bytes += [UInt8](repeating: 0, count: count - bytes.count)
            }
        }
    }
}

/// Result codes of SQLite (sqlite.org/rescode.html).
private enum SQLiteAnswer {
    static let okay: Int32 = 0
    static let busy: Int32 = 5
    static let inputOutput: Int32 = 10
    static let full: Int32 = 13
    static let cannotOpen: Int32 = 14
    static let read: Int32 = 266
    static let write: Int32 = 778
    static let sync: Int32 = 1034
    static let truncate: Int32 = 1546
    static let delete: Int32 = 2570
    static let deleteMissing: Int32 = 5898
    static let shm: Int32 = 5386
}

extension FaultyDisk {
    // The flags of SQLite that the disk looks at.
    private static let creates: Int32 = 0x4
    private static let exclusive: Int32 = 0x10
    private static let deletesOnClose: Int32 = 0x8
    private static let isLog: Int32 = 0x80000
    private static let isJournal: Int32 = 0x800

    /// Answers a call of SQLite.
    private func answer(_ call: inout onym_disk_call) -> Int32 {
        if waits, onym_disk_kind(UInt32(call.kind)) == ONYM_DISK_SLEEP {
            // As the system's disk: otherwise the time of a busy connection is over before the other thread has done anything.
            Thread.sleep(forTimeInterval: Double(call.offset) / 1_000_000)
        }
        return lock.withLock {
            switch onym_disk_kind(UInt32(call.kind)) {
            case ONYM_DISK_OPEN: return open(&call)
            case ONYM_DISK_DELETE:
                guard let path = call.path.map({ String(cString: $0) }) else { return SQLiteAnswer.delete }
                if fails(.remove) { return SQLiteAnswer.delete }
                guard names[path] != nil else { return SQLiteAnswer.deleteMissing }
                change(Paths.folder(of: path), removes: path)
                if call.flags != 0 { syncNames(Paths.folder(of: path)) }
                return SQLiteAnswer.okay
            case ONYM_DISK_ACCESS:
                if isDead { return SQLiteAnswer.inputOutput }
                let file = call.path.map { String(cString: $0) }.flatMap { names[$0] }
                // An empty file counts as missing where SQLite asks for existence, as in its own code.
                call.result = file == nil || (call.flags == 0 && file?.shown.isEmpty == true) ? 0 : 1
                return SQLiteAnswer.okay
            case ONYM_DISK_RANDOM:
                let bytes = UnsafeMutableRawBufferPointer(start: call.bytes, count: Int(call.count))
                for place in bytes.indices { bytes[place] = UInt8(truncatingIfNeeded: chance.next()) }
                return SQLiteAnswer.okay
            case ONYM_DISK_SLEEP:
                time += UInt64(call.offset) * 1000
                return SQLiteAnswer.okay
            case ONYM_DISK_TIME:
                // Milliseconds since the year -4713.
                call.result = 210_866_760_000_000 + 1_800_000_000_000 + Int64(time / 1_000_000)
                return SQLiteAnswer.okay
            case ONYM_DISK_CLOSE:
                guard let handle = handles.removeValue(forKey: call.file) else { return SQLiteAnswer.okay }
                if handle.generation == generation {
                    release(call.file, handle.file)
                    if handle.path.isEmpty { return SQLiteAnswer.okay }
                }
                return SQLiteAnswer.okay
            default: return ofOpenFile(&call)
            }
        }
    }

    private func open(_ call: inout onym_disk_call) -> Int32 {
        if isDead { return SQLiteAnswer.cannotOpen }
        let path = call.path.map { String(cString: $0) } ?? ""
        let creates = call.flags & FaultyDisk.creates != 0
        // SQLite's own code for Linux syncs the folder of a log with the first sync of each open file, also if another one has made
        // the log.
        let syncsFolder = creates && call.flags & (FaultyDisk.isLog | FaultyDisk.isJournal) != 0
        if let file = names[path] {
            if call.flags & FaultyDisk.exclusive != 0 { return SQLiteAnswer.cannotOpen }
            call.result = add(file, path, syncsFolder: syncsFolder)
            return SQLiteAnswer.okay
        }
        let file = File()
        if path.isEmpty {
            call.result = add(file, path, syncsFolder: false)
            return SQLiteAnswer.okay
        }
        guard creates else { return SQLiteAnswer.cannotOpen }
        change(Paths.folder(of: path), puts: (path, file))
        call.result = add(file, path, syncsFolder: syncsFolder)
        return SQLiteAnswer.okay
    }

    private func ofOpenFile(_ call: inout onym_disk_call) -> Int32 {
        guard let handle = handle(call.file) else { return SQLiteAnswer.inputOutput }
        let (file, number) = (handle.file, call.file)
        switch onym_disk_kind(UInt32(call.kind)) {
        case ONYM_DISK_READ:
            if fails(.read) { return SQLiteAnswer.read }
            let count = max(0, min(Int(call.count), file.shown.count - Int(call.offset)))
            let start = min(Int(call.offset), file.shown.count)
            UnsafeMutableRawBufferPointer(start: call.bytes, count: count)
                .copyBytes(from: file.shown[start..<start + count])
            call.result = Int64(count)
            return SQLiteAnswer.okay
        case ONYM_DISK_WRITE:
            if fails(.write) { return SQLiteAnswer.write }
            let bytes = Array(UnsafeRawBufferPointer(start: call.bytes, count: Int(call.count)))
            return write(bytes, at: Int(call.offset), to: file) ? SQLiteAnswer.okay : SQLiteAnswer.full
        case ONYM_DISK_TRUNCATE:
            if fails(.truncate) { return SQLiteAnswer.truncate }
            return truncate(file, to: Int(call.offset)) ? SQLiteAnswer.okay : SQLiteAnswer.truncate
        case ONYM_DISK_SYNC:
            let isFailed = fails(.sync)
            if isDead { return SQLiteAnswer.sync }
            sync(file, isFailed: isFailed)
            if handle.syncsFolder, !isFailed { syncNames(Paths.folder(of: handle.path)) }
            return isFailed ? SQLiteAnswer.sync : SQLiteAnswer.okay
        case ONYM_DISK_SIZE:
            call.result = Int64(file.shown.count)
            return SQLiteAnswer.okay
        case ONYM_DISK_LOCK: return lock(file, number, call.flags)
        case ONYM_DISK_UNLOCK:
            file.levels[number] = call.flags == 0 ? nil : call.flags
            return SQLiteAnswer.okay
        case ONYM_DISK_RESERVED:
            call.result = file.levels.contains { $0.value >= 2 } ? 1 : 0
            return SQLiteAnswer.okay
        case ONYM_DISK_SHM_MAP:
            if fails(.shm) { return SQLiteAnswer.shm }
            while file.regions.count <= Int(call.offset) {
                if call.flags == 0 { return SQLiteAnswer.okay }
                let region = UnsafeMutableRawPointer.allocate(byteCount: Int(call.count), alignment: 4096)
                region.initializeMemory(as: UInt8.self, repeating: 0, count: Int(call.count))
                memory.append(region)
                file.regions.append(region)
            }
            call.memory = file.regions[Int(call.offset)]
            return SQLiteAnswer.okay
        case ONYM_DISK_SHM_LOCK: return lockShared(file, number, call)
        case ONYM_DISK_SHM_UNMAP:
            for slot in file.shared.indices { file.shared[slot][number] = nil }
            if call.flags != 0 { file.regions = [] }
            return SQLiteAnswer.okay
        default: return SQLiteAnswer.inputOutput
        }
    }

    /// Takes one of SQLite's locks: 1 shared, 2 reserved, 3 pending, 4 exclusive.
    private func lock(_ file: File, _ number: Int64, _ level: Int32) -> Int32 {
        let own = file.levels[number] ?? 0
        if own >= level { return SQLiteAnswer.okay }
        let others = file.levels.filter { $0.key != number }.map(\.value)
        switch level {
        case 1:
            if others.contains(where: { $0 >= 3 }) { return SQLiteAnswer.busy }
        case 2:
            if others.contains(where: { $0 >= 2 }) { return SQLiteAnswer.busy }
        default:
            if others.contains(where: { $0 >= 2 }) { return SQLiteAnswer.busy }
            if !others.isEmpty {
                file.levels[number] = 3
                return SQLiteAnswer.busy
            }
        }
        file.levels[number] = level
        return SQLiteAnswer.okay
    }

    /// Takes or gives back some of the eight locks of a log: the flags are 1 unlock, 2 lock, 4 shared, 8 exclusive.
    private func lockShared(_ file: File, _ number: Int64, _ call: onym_disk_call) -> Int32 {
        let slots = Int(call.offset)..<Int(call.offset) + Int(call.count)
        if call.flags & 1 != 0 {
            for slot in slots { file.shared[slot][number] = nil }
            return SQLiteAnswer.okay
        }
        let isExclusive = call.flags & 8 != 0
        for slot in slots {
            let others = file.shared[slot].filter { $0.key != number }
            if isExclusive ? !others.isEmpty : others.contains(where: \.value) { return SQLiteAnswer.busy }
        }
        for slot in slots { file.shared[slot][number] = isExclusive }
        return SQLiteAnswer.okay
    }
}

/// Chance from a seed (SplitMix64).
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }
}
