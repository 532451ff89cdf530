import ClientKit
import Foundation
import Onym
import TestKit
import Testing

/// A start before anybody has unlocked the device, as a push may bring about.
@Suite("A device that was not unlocked since its start")
struct LockedTests {
    final class Phases: LifeCycle, @unchecked Sendable {
        private let lock = NSLock()
        private var observers: [Observer] = []

        func observe(_ observer: @escaping Observer) -> @Sendable () -> Void {
            lock.withLock { observers.append(observer) }
            return { [weak self] in _ = self.map { phases in phases.lock.withLock { phases.observers = [] } } }
        }

        func send(_ phase: LifeCyclePhase) { for observer in lock.withLock({ observers }) { observer(phase) {} } }
    }

    private let phases = Phases()

    private func bench(_ keys: Configuration.Key..., files: MemoryFiles = MemoryFiles()) -> Bench {
        files.setDeviceLocked(true)
        let bench = Bench(files: files) {
            $0.keys = keys
            $0.lifeCycle = phases
        }
        return bench
    }

    private func unlock(_ bench: Bench) {
        bench.files.setDeviceLocked(false)
        phases.send(.unlocked)
        bench.settle()
    }

    private static let key = Configuration.Key.claim(key: "owl_client_k", bundleID: "b")

    private func sent(_ bench: Bench) -> [String] {
        bench.advance(5)
        return (bench.transport.open.first?.json["events"]?.elements ?? []).map { event in
            "\(event["message"]?.text ?? "") \(event["user_id"]?.text ?? "") \(event["timestamp"]?.text ?? "")"
        }
    }

    @Test("what is logged waits, and goes under the user whom the device knows, with its time")
    func events() throws {
        let first = Bench(LockedTests.key)
        try first.onym.setUser("ada")
        first.answer(.json(200, ["claimed": true]))
        let bench = bench(LockedTests.key, files: first.files.survive())
        #expect(bench.onym.isLocked && bench.onym.claimUser == nil)
        bench.onym.log("early")
        bench.advance(60)
        #expect(bench.transport.requests.isEmpty)
        unlock(bench)
        bench.onym.log("late")
        #expect(!bench.onym.isLocked && bench.onym.claimUser == "ada" && bench.notices == [.unlocked])
        bench.answer(.json(200, ["claimed": true]))
        #expect(
            sent(bench) == ["early ada 2027-01-15T08:00:00.000Z", "late ada 2027-01-15T08:01:00.000Z"])
    }

    @Test("a logout counts from its moment on, in the order of the events")
    func logout() throws {
        let first = Bench(LockedTests.key)
        try first.onym.setUser("ada")
        first.answer(.json(200, ["claimed": true]))
        let bench = bench(LockedTests.key, files: first.files.survive())
        bench.onym.log("of ada")
        bench.onym.logout()
        bench.onym.log("of nobody")
        let ends = Collector<OnymError?>()
        bench.onym.login("bob", callback: { ends.callback($0.failure) })
        unlock(bench)
        #expect(ends.values == [.refused(.locked)])
        let nobody = try #require(bench.onym.claimUser)
        #expect(nobody.hasPrefix("owl_anon_"))
        bench.answer(.json(200, ["claimed": true]))
        let owners = sent(bench).map { $0.split(separator: " ").suffix(2).first.map(String.init) }
        #expect(owners == ["ada", nobody])
    }

    @Test("the function for tokens may ask the instance that opens", .timeLimit(.minutes(1)))
    func tokensThatAsk() {
        let (instance, asked) = (Collector<OnymClient>(), Collector<Bool>())
        let files = MemoryFiles()
        files.setDeviceLocked(true)
        let bench = Bench(LockedTests.key, files: files) {
            $0.lifeCycle = phases
            $0.identityTokens = {
                for onym in instance.values { asked.callback(onym.isLocked) }
                return []
            }
        }
        instance.callback(bench.onym)
        bench.onym.logout()
        unlock(bench)
        #expect(!bench.onym.isLocked && asked.values.allSatisfy { !$0 })
    }

    @Test("calls say that the device is locked, and work afterwards")
    func calls() throws {
        let bench = bench(.idSync(key: "k", secret: nil), LockedTests.key, .entitlements(key: "k"))
        let ends = Collector<OnymError?>()
        func call() {
            bench.onym.identity.identify(callback: { ends.callback($0.failure) })
            bench.onym.access.userInfo(callback: { ends.callback($0.failure) })
            bench.onym.flush(callback: { ends.callback($0.failure) })
            bench.settle()
        }
        call()
        #expect(ends.values == [.refused(.locked), .refused(.locked), .refused(.locked)])
        #expect(throws: OnymError.refused(.locked)) { try bench.onym.setUser("u") }
        unlock(bench)
        bench.onym.identity.identify(callback: { ends.callback($0.failure) })
        bench.answer(.json(200, ["mpid": "1"]))
        #expect(ends.values.count == 4 && ends.values.last == .some(nil))
        try bench.onym.setUser("u")
    }

    @Test("of more than two hundred events, the oldest go, and one notice a second has the count")
    func limit() throws {
        let bench = bench(.idSync(key: "k", secret: nil))
        for number in 0..<203 { bench.onym.log("\(number)") }
        bench.settle()
        #expect(bench.notices.isEmpty)
        bench.advance(1)
        #expect(bench.notices == [.dropped(3, .overflow)])
        bench.onym.log("203")
        unlock(bench)
        bench.advance(1)
        #expect(bench.notices == [.dropped(3, .overflow), .unlocked, .dropped(1, .overflow)])
        #expect(bench.onym.idsync?.mailbox.count == 200)
        let mailbox = try #require(bench.onym.idsync?.mailbox)
        let first = try mailbox.letters.first.flatMap { try mailbox.content(of: $0) }
        #expect(first?["n"] == "4")
    }

    @Test("an instance that ends tells at once how many events had no room")
    func limitAtEnd() {
        let bench = bench(.idSync(key: "k", secret: nil))
        for number in 0..<203 { bench.onym.log("\(number)") }
        bench.onym.close()
        bench.settle()
        #expect(bench.notices == [.dropped(3, .overflow), .dropped(200, .storage)])
    }

    @Test("it goes on waiting while the files cannot be read, and opens once")
    func again() {
        let bench = bench(LockedTests.key)
        bench.onym.log("a")
        phases.send(.foreground)
        phases.send(.unlocked)
        #expect(bench.onym.isLocked)
        unlock(bench)
        unlock(bench)
        phases.send(.foreground)
        bench.settle()
        #expect(bench.notices == [.unlocked])
        #expect(bench.onym.claim?.mailbox.letters.count { $0.kind == "e" } == 2)
    }

    @Test("whoever opts out is out, and stays so")
    func optOut() {
        let bench = bench(LockedTests.key)
        bench.onym.log("a")
        bench.onym.optOut()
        bench.onym.log("b")
        bench.settle()
        #expect(bench.onym.isOptedOut && bench.notices == [.dropped(1, .optedOut)])
        unlock(bench)
        bench.relaunch()
        #expect(bench.onym.isOptedOut && bench.onym.claim?.mailbox.count == 0)
    }

    @Test("an instance that ends before tells what is lost, and opens nothing any more")
    func end() {
        let bench = bench(LockedTests.key)
        bench.onym.log("a")
        bench.onym.close()
        bench.settle()
        #expect(bench.notices == [.dropped(1, .storage)])
        unlock(bench)
        #expect(bench.files.contents.isEmpty)
    }

    @Test("any other fault of the files is an error, as it was")
    func otherFaults() {
        let files = MemoryFiles()
        files.fill(after: 0)
        var configuration = Bench.configuration([LockedTests.key])
        (configuration.files, configuration.transport) = (files, ScriptedTransport())
        #expect { try OnymClient(configuration) } throws: { error in
            if case .storage = error as? OnymError { true } else { false }
        }
    }
}

@Suite("Where things lie")
struct FoldersTests {
    private let folder = TemporaryFolder()

    private var base: URL { URL(filePath: folder.path) }

    private func configuration(_ folder: URL) -> Configuration {
        var configuration = Bench.configuration([.idSync(key: "k", secret: nil)])
        configuration.folder = folder
        configuration.transport = ScriptedTransport()
        configuration.callbacks = .background
        return configuration
    }

    @Test("two apps have two folders")
    func apps() {
        let (first, second) = (Folders.ofApp("com.a", in: base), Folders.ofApp("com.b", in: base))
        #expect(first != second && first.path.hasSuffix("/com.a/Onym"))
    }

    @Test("the former folder is moved, with who the user is; what is there already stays")
    func move() throws {
        let (former, new) = (base.appendingPathComponent("Onym"), Folders.ofApp("com.a", in: base))
        let first = try OnymClient(configuration(former))
        let stamp = first.users.deviceApplicationStamp
        first.close()
        #expect(try Folders.move(former, to: new) == new)
        let second = try OnymClient(configuration(new))
        #expect(second.users.deviceApplicationStamp == stamp && stamp != nil)
        second.close()
        // Another app finds nothing to move.
        let other = Folders.ofApp("com.b", in: base)
        #expect(try Folders.move(former, to: other) == other)
        let third = try OnymClient(configuration(former))
        third.close()
        #expect(try Folders.move(former, to: new) == new)
        let fourth = try OnymClient(configuration(new))
        #expect(fourth.users.deviceApplicationStamp == stamp)
        fourth.close()
    }

    @Test("a move that was cut off goes on")
    func cutOff() throws {
        let (former, new) = (base.appendingPathComponent("Onym"), Folders.ofApp("com.a", in: base))
        let first = try OnymClient(configuration(former))
        let stamp = first.users.deviceApplicationStamp
        first.close()
        try FileManager.default.createDirectory(at: new, withIntermediateDirectories: true)
        try FileManager.default.moveItem(
            at: former.appendingPathComponent("idsync-000001.log"),
            to: new.appendingPathComponent("idsync-000001.log"))
        #expect(try Folders.move(former, to: new) == new)
        let second = try OnymClient(configuration(new))
        #expect(second.users.deviceApplicationStamp == stamp)
        second.close()
    }

    @Test("the former folder is moved into an app group too, and so is the app's own", arguments: [true, false])
    func intoGroup(isFormer: Bool) throws {
        let (former, own) = (base.appendingPathComponent("Onym"), Folders.ofApp("com.a", in: base))
        let shared = base.appendingPathComponent("group/Onym")
        let first = try OnymClient(configuration(isFormer ? former : own))
        let stamp = first.users.deviceApplicationStamp
        first.close()
        #expect(try Folders.gather(in: shared, from: own, former) == shared)
        let second = try OnymClient(configuration(shared))
        #expect(second.users.deviceApplicationStamp == stamp && stamp != nil)
        second.close()
        #expect(try Folders.gather(in: shared, from: own, former) == shared)
        #expect(try Folders.gather(in: nil, from: own, nil) == own)
    }

    @Test("an app group that the app has no right to is refused")
    func group() {
        var configuration = configuration(base.appendingPathComponent("x"))
        configuration.appGroup = "group.none"
        #expect { try OnymClient(configuration) } throws: { error in
            if case .storage(let why) = error as? OnymError { why.contains("group.none") } else { false }
        }
    }

    @Test("where apps are suspended, nothing is locked but while something is written")
    func lock() throws {
        let files = try DiskFiles(folder: base, isSuspended: true)
        try files.lock("idsync")
        try files.append([1], to: "idsync-000001.log")
        // Another process could lock it now.
        let descriptor = open(folder.path + "/idsync.lock", O_RDWR)
        #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        flock(descriptor, LOCK_UN)
        close(descriptor)
        // Of this process, there is one owner.
        let second = try DiskFiles(folder: base, isSuspended: true)
        #expect(throws: FileFault.self) { try second.lock("idsync") }
        files.unlock("idsync")
        try second.lock("idsync")
        try second.append([2], to: "idsync-000001.log")
        #expect(try second.read("idsync-000001.log") == [1, 2])
        second.unlock("idsync")
    }

    @Test("whoever is not the owner any more writes nothing")
    func takenOver() throws {
        let files = try DiskFiles(folder: base, isSuspended: true)
        try files.lock("idsync")
        try files.append([1], to: "idsync-000001.log")
        // As another process would do it.
        try Data(UUID().uuidString.utf8).write(to: base.appendingPathComponent("idsync.owner"))
        let owner = try #require(FileHandle(forUpdatingAtPath: folder.path + "/idsync.owner"))
        try owner.close()
        #expect(throws: FileFault.self) { try files.append([2], to: "idsync-000001.log") }
        #expect(try files.read("idsync-000001.log") == [1])
        // Nobody's files are anybody's.
        try files.append([3], to: "clock")
        files.unlock("idsync")
    }

    @Test("where apps are not suspended, the lock is held")
    func heldLock() throws {
        let files = try DiskFiles(folder: base, isSuspended: false)
        try files.lock("idsync")
        let descriptor = open(folder.path + "/idsync.lock", O_RDWR)
        #expect(flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        close(descriptor)
        files.unlock("idsync")
    }

    @Test("ids in user defaults outlive the folder, and go with the app")
    func userDefaults() throws {
        let suite = "onym.tests.\(UUID().uuidString)"
        defer { UserDefaults(suiteName: suite)?.removePersistentDomain(forName: suite) }
        let keepsakes = UserDefaultsKeepsakes(suite: suite)
        func stamp() -> String? {
            Bench(.idSync(key: "k", secret: nil), seed: UInt64.random(in: 1...(.max))) { $0.keepsakes = keepsakes }
                .onym.users.deviceApplicationStamp
        }
        let first = stamp()
        // The system has emptied the folder: it is the same device.
        #expect(first != nil && stamp() == first)
        keepsakes.keep(nil, as: "idsync.stamp")
        #expect(stamp() != first)
    }
}
