import ClientKit
import Foundation
import Onym
import OnymMParticle
import OnymOwl
import OnymQonversion
import OnymSentiance
import TestKit
import Testing

extension FacadeTests {
    /// Devices on which a vendor's SDK has left its values, and the facade begins: half of them after the import of the vendor's
    /// files, and the other half before it (spec/sdk-apple.md 10).
    @Suite("Devices of the vendors' SDKs, with and without the import", .serialized, .timeLimit(.minutes(30)))
    struct MovedDeviceTests {
        private static let count = 40
        private let scene: SDKScene
        private let network = URLSessionTransport()

        // The devices are quicker than one app's devices may be.
        init() throws { scene = try SDKScene(flags: ["--rate-limit-claim", "0"]) }

        /// Counts the requests of a device.
        private final class Counter: Transport, @unchecked Sendable {
            private let inner: any Transport
            private let lock = NSLock()
            private var number = 0
            var count: Int { lock.withLock { number } }

            init(_ inner: any Transport) { self.inner = inner }

            func send(
                _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
            ) -> @Sendable () -> Void {
                lock.withLock { number += 1 }
                return inner.send(request, completion: completion)
            }
        }

        /// A device with the app on it.
        private final class Device {
            let requests: Counter
            private(set) var files = MemoryFiles()
            var store: any VendorStore = MemoryVendorStore()

            init(_ network: any Transport) { requests = Counter(network) }

            var configure: (inout Configuration) -> Void {
                { [self] in
                    ($0.files, $0.transport, $0.callbacks) = (files, requests, .background)
                    ($0.vendorStore, $0.log) = (store, .nothing)
                    $0.device.platform = "ios"
                }
            }

            /// What the ended process has left.
            func relaunch() { files = files.survive() }
        }

        /// Sends all that waits; a device that says nothing refuses to.
        private func flush(_ onym: OnymClient?, isSilent: Bool) async throws {
            guard isSilent else {
                try await onym?.flush()
                return
            }
            try? await onym?.flush()
        }

        private func importFiles(_ vendor: String, _ files: [(String, [String])], _ more: String...) throws {
            let paths = try files.map { name, lines in
                let path = scene.store.folder.path + "/\(name)"
                try (lines + [""]).joined(separator: "\n").write(toFile: path, atomically: true, encoding: .utf8)
                return path
            }
            let done = try Shell.result(
                [ServerProcess.program, "import", "--from", vendor, "--data", scene.store.data] + more + paths)
            #expect(done.code == 0 && !done.output.contains("refused ("), "\(done)")
        }

        /// The person's root; nil if the server does not know the person.
        private func root(_ person: String) throws -> String? {
            try scene.administrator("/onym/v1/people/\(person.escaped)")["root"] as? String
        }

        private func names(_ person: String) throws -> Set<String> {
            let names = try scene.events(person.escaped).filter { $0 != "sdk:session_started" }
            #expect(Set(names).count == names.count, "Nothing is there twice: \(names)")
            return Set(names)
        }

        private func properties(_ person: String, _ dialect: String) throws -> [String: String] {
            let person = try scene.administrator("/onym/v1/people/\(person.escaped)")
            let values = (person["properties"] as? [String: [String: [String: Any]]])?[dialect] ?? [:]
            return values.compactMapValues { $0["value"] as? String }
        }

        // MARK: - mParticle

        /// Starts the app, and waits for the answer to its first identify.
        private func start(_ device: Device) async -> MParticle {
            let app = MParticle()
            let options = MParticleOptions(key: scene.store.key, secret: scene.store.secret)
            options.environment = .production
            options.networkOptions = MPNetworkOptions()
            options.networkOptions?.customBaseURL = URL(string: scene.server.base)
            (options.automaticSessionTracking, options.shouldBeginSession) = (false, false)
            options.configure = device.configure
            await withCheckedContinuation { continuation in
                options.onIdentifyComplete = { _, _ in continuation.resume() }
                app.start(with: options)
            }
            return app
        }

        @Test("of mParticle", arguments: Soak.seeds(1))
        func mParticle(seed: UInt64) async throws {
            let before = LeftByMParticle.all(MovedDeviceTests.count, seed: seed, tag: "b")
            let after = LeftByMParticle.all(MovedDeviceTests.count, seed: seed &+ 1000, tag: "a")
            try importFiles("mparticle", [("before.txt", before.flatMap(\.export))])
            var current: [String: Int64] = [:]
            for state in before { current[state.tag] = try await move(state, isImported: true) }
            for state in after { current[state.tag] = try await move(state, isImported: false) }
            try importFiles("mparticle", [("after.txt", after.flatMap(\.export))], "--on-conflict", "join")
            for state in before + after {
                let user = current[state.tag] ?? 0
                let isAfter = state.tag.hasPrefix("a")
                // The customer's name alone joins two people. Without it, each of them keeps its own events.
                let isOne = isAfter ? state.sentCustomer != nil : state.isFoundAgain
                #expect(try (root("\(state.mpid)") == root("\(user)")) == isOne, "\(state)")
                let names = try names("\(state.mpid)")
                #expect(names == (isOne ? ["at the vendor", "on the device"] : ["at the vendor"]), "\(state)")
                #expect(try isOne || user == 0 || self.names("\(user)") == ["on the device"], "\(state)")
                if state.hasSecondUser { #expect(try self.names("\(state.second)") == ["at the vendor"], "\(state)") }
            }
        }

        /// Begins with the facade on a device; answers the MPID there, or 0 if the device sends nothing.
        private func move(_ state: LeftByMParticle, isImported: Bool) async throws -> Int64 {
            let device = Device(network)
            var stamp: String?
            if state.own != .none {
                let first = await start(device)
                stamp = first.uniqueIdentifier
                if state.own == .optedOut { first.optOut = true }
                first.close()
                device.relaunch()
            }
            device.store = state.store
            let sent = device.requests.count
            var app = await start(device)
            app.logEvent("on the device", eventType: .other, eventInfo: nil)
            try await flush(app.core, isSilent: state.isSilent)
            #expect(app.optOut == state.isSilent, "\(state)")
            #expect((app.uniqueIdentifier == state.stampText) == state.keepsStamp, "\(state)")
            if state.own == .before { #expect(app.uniqueIdentifier == stamp, "\(state)") }
            if state.isSilent {
                #expect(device.requests.count == sent && app.identity.currentUser == nil, "\(state)")
                app.close()
                return 0
            }
            let user = try #require(app.identity.currentUser, "\(state)")
            let mpid = user.userId.int64Value
            #expect((mpid == state.mpid) == (isImported && state.isFoundAgain), "\(state)")
            #expect((user.userAttributes["plan"] as? String == "pro") == (state.keepsUser || mpid == state.mpid))
            if state.keepsUser {
                #expect(user.userIdentities[.customerId] == state.sentCustomer, "\(state)")
                #expect(user.userIdentities[.email] == state.sentEmail, "\(state)")
            }
            #expect(app.identity.getAllUsers().contains { $0.userId.int64Value == state.second } == secondStays(state))
            if !isImported {
                #expect(try root("\(state.mpid)") == nil, "\(state)")
                try checkNames(of: mpid, state)
            }
            // The next launch knows the user at once, and the vendor's values change nothing any more.
            app.close()
            device.relaunch()
            app = await start(device)
            #expect(app.identity.currentUser?.userId.int64Value == mpid, "\(state)")
            #expect((app.uniqueIdentifier == state.stampText) == state.keepsStamp, "\(state)")
            app.close()
            return mpid
        }

        private func secondStays(_ state: LeftByMParticle) -> Bool { state.own == .none && state.hasSecondUser }

        /// A new person has what the vendor's SDK has left, so that a later import finds it.
        private func checkNames(of mpid: Int64, _ state: LeftByMParticle) throws {
            let person = try scene.administrator("/onym/v1/people/\(mpid)")
            let list = person["identities"] as? [[String: Any]] ?? []
            let held = Set(list.map { "\($0["type"] as? String ?? ""):\($0["value"] as? String ?? "")" })
            let wanted = [
                state.keepsStamp ? "device_application_stamp:\(state.stampText)" : nil,
                state.sentCustomer.map { "customerid:\($0)" }, state.sentEmail.map { "email:\($0)" },
            ]
            #expect(held.isSuperset(of: wanted.compactMap { $0 }), "\(state): \(held)")
        }

        // MARK: - OwlMetry

        private func configure(_ device: Device) throws {
            let key = try #require(scene.store.claim["client_key"])
            try Owl.configure(
                endpoint: scene.server.base, apiKey: key, bundleID: "com.example.demo", attributionEnabled: false,
                device.configure)
        }

        @Test("of OwlMetry", arguments: Soak.seeds(1))
        func owlmetry(seed: UInt64) async throws {
            let before = LeftByOwl.all(MovedDeviceTests.count, seed: seed, tag: "b")
            let after = LeftByOwl.all(MovedDeviceTests.count, seed: seed &+ 1000, tag: "a")
            func files(_ states: [LeftByOwl], _ name: String) -> [(String, [String])] {
                [
                    ("\(name)-users.csv", [LeftByOwl.headers.users] + states.map(\.userRow)),
                    ("\(name)-events.csv", [LeftByOwl.headers.events] + states.map(\.eventRow)),
                ]
            }
            try importFiles("owlmetry", files(before, "before"))
            var users: [String: String] = [:]
            for state in before + after { users[state.tag] = try await move(state) }
            for state in after { #expect(try properties(state.person, "claim")["plan"] == nil, "\(state)") }
            try importFiles("owlmetry", files(after, "after"), "--on-conflict", "join")
            for state in before + after {
                // The ids are the names of the person here: the same person, whichever came first.
                var expected: Set<String> = ["at the vendor"]
                if state.sendsLeft { expected.insert("left") }
                if state.next != nil, !state.isSilent { expected.insert("on the device") }
                let found = try names(state.person)
                #expect(found == expected, "\(state): \(found)")
                #expect(try properties(state.person, "claim")["plan"] == "pro", "\(state)")
                if state.next == nil, let user = users[state.tag] {
                    let own = try names("claim_anonymous_id:\(user)")
                    #expect(own == ["on the device"], "\(state): \(own)")
                }
            }
        }

        /// Begins with the facade on a device; answers the user there, or nil if the device sends nothing.
        private func move(_ state: LeftByOwl) async throws -> String? {
            let device = Device(network)
            var user: String?
            if state.own != .none {
                try configure(device)
                if state.own == .optedOut { Owl.core?.optOut() }
                user = Owl.currentUserId
                Owl.core?.close()
                device.relaunch()
            }
            device.store = state.store
            let sent = device.requests.count
            try configure(device)
            #expect(Owl.core?.isOptedOut == state.isSilent, "\(state)")
            if let next = state.next { #expect(Owl.currentUserId == next, "\(state)") }
            if state.own == .before { #expect(Owl.currentUserId == user, "\(state)") }
            user = Owl.currentUserId
            #expect(user?.isEmpty == false && (state.next != nil || user?.contains(state.tag) == false), "\(state)")
            Owl.info("on the device")
            try await flush(Owl.core, isSilent: state.isSilent)
            if state.isSilent { #expect(device.requests.count == sent, "\(state)") }
            Owl.core?.close()
            device.relaunch()
            try configure(device)
            #expect(Owl.currentUserId == user, "\(state)")
            try await flush(Owl.core, isSilent: state.isSilent)
            await Owl.shutdown()
            return state.isSilent ? nil : user
        }

        // MARK: - Qonversion

        private func initialize(_ device: Device, _ state: LeftByQonversion) throws -> Qonversion {
            let key = try #require(scene.store.entitlements["project_key"])
            let configuration = QONConfiguration(projectKey: key, launchMode: .analytics)
            configuration.setProxyURL(scene.server.base)
            configuration.configure = {
                device.configure(&$0)
                if let suite = state.suiteName { $0.imports = [.qonversion(suite: suite)] }
            }
            return Qonversion.initWithConfig(configuration)
        }

        private func entitlements(_ app: Qonversion) async -> (active: Bool, error: (any Error)?) {
            await withCheckedContinuation { continuation in
                app.checkEntitlements { list, error in
                    continuation.resume(returning: (list["plus"]?.isActive == true, error))
                }
            }
        }

        @Test("of Qonversion", arguments: Soak.seeds(1))
        func qonversion(seed: UInt64) async throws {
            try scene.administrator("/onym/v1/entitlements/plus", "PUT", "{}")
            try scene.administrator(
                "/onym/v1/products/pro", "PUT",
                #"{"type":"subscription","duration_seconds":2592000,"entitlements":["plus"]}"#)
            let before = LeftByQonversion.all(MovedDeviceTests.count, seed: seed, tag: "b")
            let after = LeftByQonversion.all(MovedDeviceTests.count, seed: seed &+ 1000, tag: "a")
            try importFiles("qonversion", [("before.jsonl", before.flatMap(\.export))])
            var users: [String: String] = [:]
            for state in before { users[state.tag] = try await move(state, isImported: true) }
            for state in after { users[state.tag] = try await move(state, isImported: false) }
            try importFiles("qonversion", [("after.jsonl", after.flatMap(\.export))], "--on-conflict", "join")
            for state in before + after {
                let buyer = "access_user_id:\(state.buyer)"
                var expected = ["plan": "pro"]
                if state.current == state.buyer, !state.isSilent { expected["color"] = "red" }
                #expect(try properties(buyer, "entitlements") == expected, "\(state)")
                guard let user = users[state.tag] else { continue }
                let isOne = state.current == state.buyer
                #expect(try (root("access_user_id:\(user)") == root(buyer)) == isOne, "\(state)")
                let device = Device(network)
                device.store = state.own == .none ? state.store : MemoryVendorStore()
                let app = try initialize(device, state)
                // The access is there for each device of the user, also for one whose import came late.
                #expect(await entitlements(app).active == isOne, "\(state)")
                app.close()
            }
        }

        /// Begins with the facade on a device; answers the user there, or nil if the device sends nothing.
        private func move(_ state: LeftByQonversion, isImported: Bool) async throws -> String? {
            let device = Device(network)
            var user: String?
            if state.own != .none {
                let first = try initialize(device, state)
                user = first.core?.access.user?.id
                if state.own == .optedOut { first.core?.optOut() }
                first.close()
                device.relaunch()
            }
            device.store = state.store
            let sent = device.requests.count
            var app = try initialize(device, state)
            app.setCustomUserProperty("color", value: "red")
            let (isActive, error) = await entitlements(app)
            try await flush(app.core, isSilent: state.isSilent)
            #expect(app.core?.isOptedOut == state.isSilent, "\(state)")
            if state.isSilent {
                #expect(device.requests.count == sent && error != nil, "\(state)")
                app.close()
                return nil
            }
            #expect(error == nil, "\(state): \(error as Any)")
            #expect(isActive == (isImported && state.current == state.buyer), "\(state)")
            let now = try #require(app.core?.access.user)
            if state.own == .before { #expect(now.id == user, "\(state)") }
            #expect(state.current.map { $0 == now.id } ?? !now.id.contains(state.tag), "\(state)")
            #expect(now.identityID == state.keptName, "\(state)")
            app.close()
            device.relaunch()
            app = try initialize(device, state)
            #expect(app.core?.access.user == now, "\(state)")
            app.close()
            return now.id
        }

        // MARK: - Sentiance

        /// The vendor's values, and whether somebody has looked at them.
        private final class Watched: VendorStore, @unchecked Sendable {
            private let inner: MemoryVendorStore
            private let lock = NSLock()
            private var number = 0
            var reads: Int { lock.withLock { number } }

            init(_ inner: MemoryVendorStore) { self.inner = inner }

            private func read<Value>(_ body: (MemoryVendorStore) -> Value) -> Value {
                lock.withLock { number += 1 }
                return body(inner)
            }

            func value(_ key: String, suite: String?) -> JSON? { read { $0.value(key, suite: suite) } }
            func keys(prefix: String, suite: String?) -> [String] { read { $0.keys(prefix: prefix, suite: suite) } }
            func keychain(service: String, account: String) -> String? {
                read { $0.keychain(service: service, account: account) }
            }
            func file(_ path: VendorPath) -> [UInt8]? { read { $0.file(path) } }
        }

        /// What the app's own back end does.
        private func code(_ user: String) throws -> String {
            let key = try #require(scene.store.linking["api_key"])
            let answer = try scene.server.client.call(
                "POST", "/users/auth-code", fields: [("Authorization", "Bearer \(key)")],
                json: #"{"external_id":"\#(user)"}"#)
            let body = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
            return try #require(body?["authentication_code"] as? String, "\(answer)")
        }

        private func initialize(_ device: Device) -> Sentiance {
            let app = Sentiance()
            let options = SENTOptions(for: .appLaunch)
            options.platformUrl = scene.server.base
            options.configure = device.configure
            app.initialize(options: options)
            return app
        }

        private func create(_ app: Sentiance, _ user: String) async throws -> String? {
            let options = SENTUserCreationOptions(authenticationCode: try code(user))
            return await withCheckedContinuation { continuation in
                app.createUser(options: options) { result, _ in
                    continuation.resume(returning: result?.userInfo.userId)
                }
            }
        }

        @Test("of Sentiance", arguments: Soak.seeds(1))
        func sentiance(seed: UInt64) async throws {
            let before = LeftBySentiance.all(MovedDeviceTests.count, seed: seed, tag: "b")
            let after = LeftBySentiance.all(MovedDeviceTests.count, seed: seed &+ 1000, tag: "a")
            let map = scene.store.folder.path + "/s.map.json"
            try #"""
            {"format":"csv","vendor":"sentiance","key":"external_id",
            "identities":[{"type":"linking_external_id","from":"external_id"}],
            "properties":{"dialect":"idsync","from":"*","except":["external_id"]}}
            """#.write(toFile: map, atomically: true, encoding: .utf8)
            func file(_ states: [LeftBySentiance], _ name: String) -> [(String, [String])] {
                [(name, ["external_id,plan"] + states.map { "\($0.external),pro" })]
            }
            try importFiles("csv", file(before, "before.csv"), "--map", map)
            var users: [String: String] = [:]
            for state in before + after { users[state.tag] = try await move(state) }
            for state in after where !state.isSilent {
                #expect(try properties("linking_external_id:\(state.external)", "idsync") == [:], "\(state)")
            }
            try importFiles("csv", file(after, "after.csv"), "--map", map, "--on-conflict", "join")
            for state in before + after {
                let person = "linking_external_id:\(state.external)"
                let properties = try properties(person, "idsync")
                #expect(properties == ["plan": "pro"], "\(state): \(properties)")
                let installs = try scene.administrator("/onym/v1/people/\(person.escaped)")["installs"] as? [Any]
                #expect(installs?.isEmpty == false, "\(state)")
                // Another device of the user has the same user, also after the import.
                guard let user = users[state.tag] else { continue }
                let other = initialize(Device(network))
                #expect(try await create(other, state.external) == user, "\(state)")
                other.close()
            }
        }

        /// Begins with the facade on a device; answers the user there, or nil if the device sends nothing.
        private func move(_ state: LeftBySentiance) async throws -> String? {
            let device = Device(network)
            var user: String?
            if state.own != .none {
                let first = initialize(device)
                user = try await create(first, state.external)
                if state.own == .optedOut { first.core?.optOut() }
                first.close()
                device.relaunch()
            }
            let watched = Watched(state.store)
            device.store = watched
            let sent = device.requests.count
            let app = initialize(device)
            #expect(app.core?.isOptedOut == state.isSilent, "\(state)")
            if state.isSilent {
                #expect(try await create(app, state.external) == nil && device.requests.count == sent, "\(state)")
                app.close()
                return nil
            }
            // The vendor's values make no user. A user of the facade's own is there at once.
            #expect(app.userId == user && watched.reads == 0, "\(state)")
            if user == nil { user = try await create(app, state.external) }
            #expect(user != nil && app.userId == user && app.isUserLinked && watched.reads == 0, "\(state)")
            app.close()
            return user
        }
    }
}
