import ClientKit
import Foundation
import Onym
import TestKit
import Testing

@Suite("The system's network", .timeLimit(.minutes(30)))
struct TransportTests {
    enum Kind: String, CaseIterable {
        case session
        case curl

        func transport(_ timeout: TimeInterval, _ pins: [Pin] = []) throws -> any Transport {
            switch self {
            case .session: URLSessionTransport(timeout: timeout, pins: pins)
            case .curl: try #require(CurlTransport(timeout: timeout, pins: pins), "libcurl is not installed")
            }
        }
    }

    private func send(
        _ url: String, _ kind: Kind, timeout: TimeInterval = 20, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> Result<HTTPAnswer, TransportFault> {
        let transport = try kind.transport(timeout)
        let url = try #require(URL(string: url))
        var request = HTTPRequest(method: "POST", url: url, fields: ["X-Test": "ü?"], body: Array("body".utf8))
        change(&request)
        return await withCheckedContinuation { [request] continuation in
            _ = transport.send(request) { continuation.resume(returning: $0) }
        }
    }

    @Test("carries what it is given, and brings what comes", arguments: Kind.allCases)
    func roundTrip(kind: Kind) async throws {
        let server = StandIn(.status(429, "no", fields: ["Retry-After: 7"]))
        let answer = try await send(server.url + "path", kind).get()
        #expect(answer.status == 429 && answer.fields["retry-after"] == "7" && answer.body == Array("no".utf8))
        let received = try #require(server.received.first)
        #expect(received.line.hasPrefix("POST /path") && received.body == "body")
    }

    @Test("tells faults apart", arguments: Kind.allCases)
    func faults(kind: Kind) async throws {
        #expect(try await send("http://127.0.0.1:\(StandIn.deadPort)/", kind) == .failure(.offline))
        #expect(try await send(StandIn(.hang).url, kind, timeout: 1) == .failure(.timeout))
        let garbage = try await send(StandIn(.bytes(Array("nonsense\r\n\r\n".utf8))).url, kind)
        if case .success(let answer) = garbage { #expect(answer.status != 200) }
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
        if case .success(let answer) = try await send(StandIn(.bytes(Array(half.utf8))).url, kind) {
            #expect(answer.object.failure != nil)
        }
    }

    @Test("a connection that closes within the head of an answer ends no process", arguments: 0..<5)
    func cutHead(part: Int) async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: r\r\n\r\n"
        let cut = Array(head.utf8.prefix([1, 9, 17, 30, head.utf8.count - 1][part]))
        guard case .failure = try await send(StandIn(.bytes(cut)).url, .curl) else {
            Issue.record("half a head counts as an answer")
            return
        }
    }

    @Test("a file is sent as it is, and a canceled request ends")
    func files() async throws {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/file")
        try Data("the whole file".utf8).write(to: file)
        let server = StandIn(.status(200, "{}"))
        _ = try await send(server.url, .curl) { ($0.method, $0.body, $0.file) = ("PUT", [], file) }.get()
        let received = try #require(server.received.first)
        #expect(received.line.hasPrefix("PUT / ") && received.body == "the whole file")
        let hanging = StandIn(.hang)
        let transport = try Kind.curl.transport(60)
        let url = try #require(URL(string: hanging.url))
        let result: Result<HTTPAnswer, TransportFault> = await withCheckedContinuation { continuation in
            let cancel = transport.send(HTTPRequest(method: "POST", url: url)) { continuation.resume(returning: $0) }
            cancel()
        }
        #expect(result == .failure(.connection("given up")))
    }

    @Test(
        "follows nobody elsewhere: a call that is redirected has lost its body", arguments: [301, 302, 303, 307, 308],
        Kind.allCases)
    func redirection(status: Int, kind: Kind) async throws {
        let other = StandIn(.status(404, "{}"))
        let server = StandIn(.status(status, "", fields: ["Location: \(other.url)v1/ingest"]))
        switch try await send(server.url + "v1/ingest", kind) {
        case .success(let answer): #expect(answer.status == status)
        case .failure(.connection(let why)): #expect(why.contains("redirects"))
        case .failure(let fault): Issue.record("\(fault)")
        }
    }

    @Test("pins that nobody would look at are refused")
    func pins() throws {
        var configuration = Bench.configuration([.idSync(key: "k", secret: nil)])
        configuration.files = MemoryFiles()
        configuration.pins = [.certificate([1])]
        if Pin.areSupported { return }
        #expect(throws: OnymError.refused(.unavailable)) { try OnymClient(configuration) }
        // A transport of the app's own may look.
        configuration.transport = ScriptedTransport()
        _ = try OnymClient(configuration)
    }
}

@Suite("The system's files")
struct DiskFilesTests {
    private let folder = TemporaryFolder()

    @Test("keep what was added, in private, over instances")
    func files() throws {
        let url = URL(filePath: folder.path + "/a/b")
        let files = try DiskFiles(folder: url)
        try files.append([1, 2], to: "x")
        try files.append([3], to: "x")
        try files.sync("x")
        let again = try DiskFiles(folder: url)
        #expect(try again.read("x") == [1, 2, 3])
        #expect(try again.read("x", from: 1, count: 9) == [2, 3])
        let mode = try FileManager.default.attributesOfItem(atPath: url.path + "/x")[.posixPermissions] as? Int
        #expect(mode == 0o600)
        try again.rename("x", to: "y")
        #expect(try again.names() == ["y"])
        try again.remove("y")
        try again.remove("y")
        #expect(try again.names() == [])
        #expect(throws: FileFault.self) { try again.read("y") }
    }

    @Test("a folder that cannot be used is an error of the SDK's")
    func noFolder() throws {
        try Data().write(to: URL(filePath: folder.path + "/file"))
        let configuration = Configuration(
            endpoint: URL(filePath: "/"), key: .idSync(key: "k", secret: nil),
            folder: URL(filePath: folder.path + "/file/below"))
        #expect { try OnymClient(configuration) } throws: { error in
            if case .storage = error as? OnymError { true } else { false }
        }
    }

    @Test("two instances do not share what is kept; what one leaves, the next has")
    func sharing() throws {
        func open(_ keys: Configuration.Key...) throws -> OnymClient {
            var configuration = Bench.configuration(keys)
            configuration.folder = URL(filePath: folder.path + "/onym")
            configuration.transport = ScriptedTransport()
            configuration.callbacks = .background
            return try OnymClient(configuration)
        }
        let first = try open(.idSync(key: "k", secret: nil))
        #expect {
            try open(.claim(key: "owl_client_k", bundleID: "b"), .idSync(key: "k", secret: nil))
        } throws: { error in
            guard case .storage(let why) = error as? OnymError else { return false }
            return why.contains("in use by another instance")
        }
        // Another dialect is another log, as two facades in one app have it.
        let claim = try open(.claim(key: "owl_client_k", bundleID: "b"))
        first.log("kept")
        first.close()
        let second = try open(.idSync(key: "k", secret: nil))
        #expect(second.idsync?.mailbox.count == 1)
        second.close()
        claim.close()
    }

    @Test("an instance that is let go gives its folder free, and its calls end")
    func letGo() async throws {
        var configuration = Bench.configuration([
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"),
        ])
        configuration.folder = URL(filePath: folder.path + "/onym")
        let transport = ScriptedTransport()
        configuration.transport = transport
        configuration.callbacks = .background
        let ends = Collector<Result<IdentityResult, OnymError>>()
        weak var gone: OnymClient?
        do {
            let onym = try OnymClient(configuration)
            gone = onym
            onym.log("kept")
            onym.identity.identify(callback: ends.callback)
        }
        #expect(gone != nil, "a call that has not ended holds it")
        await eventually { !transport.open.isEmpty }
        transport.answer(.json(200, ["mpid": "1"]))
        await eventually { gone == nil }
        #expect(try ends.values.count == 1 && ends.values[0].get().user.id == 1)
        // What lets it go may be at it still.
        var opened = try? OnymClient(configuration)
        while opened == nil { opened = try? OnymClient(configuration) }
        let again = try #require(opened)
        #expect(again.users.current?.id == 1 && again.idsync?.mailbox.count == 1)
    }
}

@Suite("Reinstalls")
struct ReinstallTests {
    private final class Keychain: Keepsakes, @unchecked Sendable {
        private let lock = NSLock()
        private var texts: [String: String] = [:]
        func text(_ name: String) -> String? { lock.withLock { texts[name] } }
        func keep(_ text: String?, as name: String) { lock.withLock { texts[name] = text } }
    }

    private func ids(_ bench: Bench) -> [String?] {
        [bench.onym.users.deviceApplicationStamp, bench.onym.claimUser, bench.onym.access.user?.deviceID]
    }

    private func bench(_ keychain: Keychain, _ reinstall: Configuration.Reinstall) -> Bench {
        Bench(
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"),
            seed: UInt64.random(in: 1...1_000_000)
        ) {
            $0.keepsakes = keychain
            $0.reinstall = reinstall
        }
    }

    @Test("an app that is new on the device does not find the ids of an earlier one, unless it wants to")
    func reinstall() {
        let keychain = Keychain()
        let first = bench(keychain, .wipe)
        let old = ids(first)
        first.relaunch()
        #expect(ids(first) == old)
        #expect(ids(bench(keychain, .restore)) == old)
        let wiped = ids(bench(keychain, .wipe))
        #expect(Set(wiped).isDisjoint(with: old))
        #expect(ids(bench(keychain, .restore)) == wiped)
    }

    @Test("an update from a vendor's SDK is no reinstall: its user defaults are still there")
    func update() {
        let stores: [(VendorImport, MemoryVendorStore, isUpdate: Bool)] = [
            (.mParticle, MemoryVendorStore(["mParticle::mpid": 5]), true),
            (
                .qonversion(suite: nil),
                MemoryVendorStore(suites: [
                    "qonversion.localstorage.main": [
                        "com.qonversion.keys.originalUserID": "QON_a"
                    ]
                ]), true
            ),
            (.owlmetry, MemoryVendorStore(["owlmetry.userId": "ada"]), true),
            // The keychain outlives the app.
            (.owlmetry, MemoryVendorStore(keychain: ["com.owlmetry.sdk/anonymousId": "owl_anon_1"]), false),
            (.mParticle, MemoryVendorStore(["owlmetry.userId": "ada"]), false),
        ]
        for (vendor, store, isUpdate) in stores {
            let keychain = Keychain()
            keychain.keep("the app's own", as: "idsync.stamp")
            let bench = Bench(.idSync(key: "k", secret: nil)) {
                $0.keepsakes = keychain
                $0.imports = [vendor]
                $0.vendorStore = store
            }
            #expect((bench.onym.users.deviceApplicationStamp == "the app's own") == isUpdate, "\(vendor)")
        }
    }

    @Test("who opts out leaves no id behind")
    func optOut() {
        let keychain = Keychain()
        let first = bench(keychain, .restore)
        let old = ids(first)
        first.onym.optOut()
        #expect(Set(ids(bench(keychain, .restore))).isDisjoint(with: old))
    }
}

@Suite("Delegates and streams")
struct DelegateTests {
    /// An app's view model: it lives on the main actor, and compiles without a word about threads.
    @MainActor
    private final class ViewModel: OnymDelegate {
        private(set) var heard: [String] = []

        func onym(_ onym: OnymClient, didChangeUserFrom old: String?, to new: String?, in dialect: Dialect) {
            heard.append("\(old ?? "nobody") to \(new ?? "nobody")")
        }
        func onym(_ onym: OnymClient, didDrop count: Int, _ reason: DropReason) { heard.append("dropped \(count)") }

        func identify(_ onym: OnymClient) { onym.identity.identify { _ in self.heard.append("identified") } }
        func flush(_ onym: OnymClient) { onym.flush { result in self.heard.append("flush \(result.failure == nil)") } }
    }

    @MainActor
    @Test("hear on the main actor what happens, in its order, before the call's own end", .timeLimit(.minutes(5)))
    func order() async {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.eventLimit = 1 }
        let model = ViewModel()
        let end = bench.onym.addDelegate(model)
        bench.onym.log("a")
        bench.onym.log("b")
        bench.advance(1)
        model.identify(bench.onym)
        bench.answer(.json(200, ["mpid": "7"]))
        model.flush(bench.onym)
        bench.answer(.json(202, [:]))
        await eventually { model.heard.count >= 4 }
        #expect(model.heard == ["dropped 1", "nobody to 7", "identified", "flush true"])
        end()
        bench.onym.optOut()
        bench.settle()
        let more = Task { @MainActor in model.heard.count }
        #expect(await more.value == 4)
    }

    @Test("a task that is canceled ends at once, and its call goes on", .timeLimit(.minutes(5)))
    func cancelled() async {
        let bench = Bench(.idSync(key: "k", secret: nil))
        let onym = bench.onym
        let task = Task { () -> OnymError? in
            do throws(OnymError) { try await onym.start() } catch { return error }
            return nil
        }
        await eventually { !bench.transport.open.isEmpty }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(bench.transport.open.count == 1)
        bench.answer(.json(200, ["mpid": "7"]))
        #expect(bench.onym.users.current?.id == 7)
        // A task that was canceled before it began makes its call as well.
        let late = Task { () -> OnymError? in
            while !Task.isCancelled { await Task.yield() }
            do throws(OnymError) { try await onym.identity.login() } catch { return error }
            return nil
        }
        late.cancel()
        #expect(await late.value == .cancelled)
        #expect(bench.transport.open.count == 1)
    }

    @Test("hear of a file that was set aside before anybody could listen")
    func early() {
        let files = MemoryFiles(["idsync-000001.log": Array("damage\n".utf8)])
        let bench = Bench(.idSync(key: "k", secret: nil), files: files)
        let late = Collector<Notice>()
        bench.onym.observe(late.callback)
        bench.settle()
        #expect(bench.notices == [.fileSetAside("idsync-000001.log.bad")] && late.values == bench.notices)
    }

    @Test("a stream brings what happens from when it is asked for")
    func stream() async {
        let bench = Bench(.idSync(key: "k", secret: nil))
        var notices = bench.onym.notices.makeAsyncIterator()
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(.json(200, ["mpid": "7"]))
        #expect(await notices.next() == .userChanged(.idSync, from: nil, to: "7"))
    }
}

@Suite("Many threads", .timeLimit(.minutes(30)))
struct ThreadsTests {
    /// A server that answers at once, on whatever thread.
    private struct Server: Transport {
        func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            Task.detached {
                let body: JSON =
                    request.url.path == "/v1/ingest"
                    ? ["accepted": 1, "rejected": 0]
                    : [
                        "mpid": .string("\(request.body.count)"), "user_id": "QON_x", "claimed": true, "data": [],
                        "install_id": "i", "token": "t", "refresh_token": "r", "expires_at": "2020-01-15T09:00:00Z",
                        "person_id": "p", "is_active": true, "id": "f",
                    ]
                completion(.success(HTTPAnswer(status: 200, fields: ["X-Request-Id": "r"], body: body.bytes)))
            }
            return {}
        }
    }

    @Test("may call all of it at once: each call ends once, and all that was logged is sent")
    func all() async throws {
        var configuration = Bench.configuration([
            .idSync(key: "k", secret: "s"), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"),
            .linking(appID: "a", secret: "s"),
        ])
        let files = MemoryFiles()
        configuration.files = files
        configuration.transport = Server()
        configuration.callbacks = .background
        let onym = try OnymClient(configuration)
        let ends = Collector<Int>()
        await withTaskGroup { group in
            for worker in 0..<8 {
                group.addTask {
                    for round in 0..<50 {
                        onym.log("\(worker) \(round)")
                        switch (worker + round) % 11 {
                        case 0:
                            onym.identity.login(
                                IdentityRequest([.customerID: "\(round)"]), callback: { _ in ends.callback(0) })
                        case 1: onym.identity.logout(callback: { _ in ends.callback(0) })
                        case 2:
                            try? onym.setUser("u\(worker)")
                            ends.callback(0)
                        case 3: onym.access.identify("\(round % 3)", callback: { _ in ends.callback(0) })
                        case 4: onym.device.createUser("c\(round)", callback: { _ in ends.callback(0) })
                        case 5: onym.device.createUser(linker: { _ in true }) { _ in ends.callback(0) }
                        case 6: onym.device.refresh(callback: { _ in ends.callback(0) })
                        case 7: onym.device.token(callback: { _ in ends.callback(0) })
                        case 8: onym.device.reset(callback: { _ in ends.callback(0) })
                        case 9: onym.flush(callback: { _ in ends.callback(0) })
                        default:
                            onym.access.logout()
                            onym.access.entitlements(callback: { _ in ends.callback(0) })
                        }
                    }
                }
            }
        }
        await eventually { ends.values.count >= 400 }
        try await onym.flush()
        #expect(ends.values.count == 400)
        #expect(onym.idsync?.mailbox.count == 0 && onym.claim?.mailbox.count == 0)
    }
}

@Suite("Times")
struct DateTests {
    @Test("a time that was made of milliseconds stays the same")
    func roundTrip() {
        for value in Int64(1_763_800_000_000)..<1_763_800_002_000 {
            #expect(Date(milliseconds: value).milliseconds == value)
        }
        #expect(Date(milliseconds: 1234).milliseconds == 1234)
    }
}
