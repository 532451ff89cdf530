import Foundation
import Onym
import TestKit
import Testing

/// The client SDK against the built server, over the system's own network and files.
@Suite("The SDK", .timeLimit(.minutes(30)))
struct SDKTests {
    private let scene: SDKScene
    private var store: Store { scene.store }
    private var server: ServerProcess { scene.server }

    init() throws { scene = try SDKScene() }

    private func device(_ name: String, _ key: Configuration.Key) throws -> OnymClient { try scene.device(name, key) }

    private func administrator(_ path: String) throws -> [String: Any] { try scene.administrator(path) }

    private func events(_ person: String) throws -> [String] { try scene.events(person) }

    @Test("IDSync: two devices of one customer, each event at its user")
    func idsync() async throws {
        let key = Configuration.Key.idSync(key: store.key, secret: store.secret)
        let phone = try device("phone", key)
        phone.log("before anybody")
        let nobody = try await phone.start().user
        phone.log("anonymous")
        let customer = try await phone.identity.login(IdentityRequest([.customerID: "1", .email: "a@x"])).user
        #expect(customer.isLoggedIn)
        phone.log("known", ["n": 1])
        let user = try #require(phone.users.current)
        phone.users.setAttribute("eyes", "brown", of: user)
        try await phone.flush()

        let tablet = try device("tablet", key)
        try await tablet.start()
        #expect(try await tablet.identity.login(IdentityRequest([.customerID: "1"])).user.id == customer.id)
        tablet.log("known on the tablet")
        let left = try await tablet.identity.logout()
        #expect(left.user.id != customer.id && left.previousUser?.id == customer.id)
        tablet.log("after logout")
        try await tablet.flush()

        #expect(try events("\(customer.id)").suffix(2) == ["known", "known on the tablet"])
        let first = try events("\(nobody.id)")
        #expect(first.prefix(2) == ["before anybody", "anonymous"])
        #expect(try events("\(left.user.id)").last == "after logout")
        let properties = try administrator("/onym/v1/people/\(customer.id)")["properties"] as? [String: [String: Any]]
        #expect((properties?["idsync"]?["eyes"] as? [String: Any])?["value"] as? String == "brown")

        let changed = try await tablet.identity.login(IdentityRequest([.customerID: "1"]))
        #expect(changed.user.id == customer.id)
        let result = try await tablet.identity.modify(IdentityRequest([.customerID: "1", .email: "b@x"]))
        #expect(result.changes == [.init(user: customer.id, type: .email)])
        #expect(try await tablet.identity.search(IdentityRequest([.customerID: "1"])).user.id == customer.id)
        await #expect(throws: OnymError.self) { try await tablet.identity.search(IdentityRequest([.email: "nobody"])) }
    }

    @Test("users that come from no vendor: a login, its properties, another device, a logout")
    func own() async throws {
        let key = Configuration.Key.onym(key: try #require(store.onym["client_key"]))
        let phone = try device("phone", key)
        let nobody = try await phone.start()
        #expect(nobody.isKnown == false && phone.users.current?.id == nobody.user.id)
        var request = IdentityRequest([.customerID: "ada"])
        request.traits = ["plan": "pro"]
        let ada = try await phone.identity.login(request)
        #expect(ada.isKnown == true && ada.user.isLoggedIn)
        phone.users.setAttribute("seats", 3, of: ada.user)
        try await phone.flush()
        let properties = try administrator("/onym/v1/people/\(ada.user.id)")["properties"] as? [String: [String: Any]]
        #expect((properties?["onym"]?["plan"] as? [String: Any])?["value"] as? String == "pro")
        #expect((properties?["onym"]?["seats"] as? [String: Any])?["value"] as? Int == 3)
        let tablet = try device("tablet", key)
        let again = try await tablet.login("ada")
        #expect(try again.users[.onym]?.get() == "\(ada.user.id)" && again.failures.isEmpty)
        tablet.logout()
        #expect(tablet.users.current == nil)
        let left = try await tablet.start()
        #expect(left.user.id != ada.user.id && !left.user.isLoggedIn)
    }

    @Test("one login in three dialects, and an event of each is at its user")
    func oneLogin() async throws {
        var configuration = try scene.configuration("phone", .idSync(key: store.key, secret: store.secret))
        configuration.keys += [
            .claim(key: try claimKey(), bundleID: "com.example.demo"),
            .entitlements(key: try #require(store.entitlements["project_key"])),
        ]
        let phone = try OnymClient(configuration)
        try await phone.start()
        phone.log("before")
        let result = try await phone.login("ada", email: "ada@example.com")
        #expect(result.failures.isEmpty && result.users.count == 3)
        phone.log("of ada")
        phone.logout()
        phone.log("of nobody")
        try await phone.start()
        try await phone.flush()
        let ada = try #require(try result.users[.idSync]?.get())
        let nobody = try #require(phone.users.current?.id)
        #expect(try events(ada).contains("of ada") && !events(ada).contains("of nobody"))
        #expect(try events("\(nobody)").contains("of nobody"))
        #expect(phone.access.user?.identityID == nil && phone.claimUser?.hasPrefix("owl_anon_") == true)
    }

    @Test("IDSync: an alias shows what the one did at the other")
    func alias() async throws {
        let phone = try device("phone", .idSync(key: store.key, secret: store.secret))
        let first = try await phone.identity.login(IdentityRequest([.customerID: "1"])).user
        phone.log("of the first")
        let second = try await phone.identity.login(IdentityRequest([.customerID: "2"])).user
        try phone.identity.alias(
            AliasRequest(source: first.id, destination: second.id, start: first.firstSeen, end: Date()))
        try await phone.flush()
        #expect(first.id != second.id)
        #expect(try events("\(second.id)").contains("of the first"))
    }

    /// Loses the first answer to a logout, which the server has carried out.
    private final class Lossy: Transport, @unchecked Sendable {
        private let inner = URLSessionTransport()
        private let lock = NSLock()
        private var answers: [String] = []
        /// The users that the server has answered logouts with.
        var users: [String] { lock.withLock { answers } }

        func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            inner.send(request) { result in
                guard request.url.path.hasSuffix("/logout"), let answer = try? result.get() else {
                    return completion(result)
                }
                let isFirst = self.lock.withLock {
                    self.answers.append(JSON(answer.body)?["mpid"]?.text ?? "")
                    return self.answers.count == 1
                }
                completion(isFirst ? .failure(.timeout) : result)
            }
        }
    }

    @Test("IDSync: a logout that is made again, because its answer was lost, makes one user of nobody")
    func lostLogout() async throws {
        let lossy = Lossy()
        let phone = try scene.device("phone", .idSync(key: store.key, secret: store.secret)) {
            ($0.transport, $0.retry) = (lossy, .automatic(attempts: 3))
        }
        try await phone.identity.login(IdentityRequest([.customerID: "1"]))
        let left = try await phone.identity.logout()
        #expect(lossy.users.count == 2 && Set(lossy.users) == ["\(left.user.id)"])
    }

    @Test("IDSync: what is wrong is told as it is")
    func faults() async throws {
        let wrong = try device("wrong", .idSync(key: store.key, secret: "wrong"))
        await #expect { try await wrong.start() } throws: { ($0 as? OnymError)?.status == 401 }
        let phone = try device("phone", .idSync(key: store.key, secret: store.secret))
        await #expect { try await phone.identity.login(IdentityRequest(["nonsense": "1"])) } throws: { error in
            guard case .http(let failure) = error as? OnymError else { return false }
            return failure.status == 400 && failure.code == "VALIDATION_ERROR" && failure.requestID != nil
        }
        server.kill()
        await #expect { try await phone.start() } throws: { ($0 as? OnymError) == .offline }
    }

    @Test("a server that nobody vouches for is not trusted")
    func untrusted() async throws {
        let (certificate, key) = (store.folder.path + "/cert.pem", store.folder.path + "/key.pem")
        let made = try Shell.result([
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-addext",
            "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", key, "-out", certificate,
        ])
        #expect(made.code == 0, "\(made)")
        let other = try Store()
        let safe = try ServerProcess(data: other.data, flags: ["--tls-cert", certificate, "--tls-key", key])
        let phone = try scene.device("phone", .idSync(key: other.key, secret: other.secret)) {
            $0.endpoint = URL(string: "https://127.0.0.1:\(safe.port)") ?? $0.endpoint
        }
        await #expect { try await phone.start() } throws: { error in
            if case .tls = error as? OnymError { true } else { false }
        }
    }

    @Test("Claim: what two devices did as nobody is the user's, each event once")
    func claim() async throws {
        let key = Configuration.Key.claim(key: try claimKey(), bundleID: "com.example.demo")
        let (phone, tablet) = (try device("phone", key), try device("tablet", key))
        for device in [phone, tablet] {
            device.log("as nobody")
            device.properties.set(["from": "anonymous"])
            try device.setUser("u")
            device.log("as somebody")
            device.properties.set(["plan": "pro"])
            try await device.flush()
        }
        let dropped = Dropped()
        phone.observe { if case .dropped = $0 { dropped.count() } }
        phone.log(
            Event("as somebody"),
            attachments: [Attachment(name: "a.txt", contentType: "text/plain", data: Data("a".utf8))])
        try await phone.flush()
        while try timeline("claim_user_id:u", "attachment").isEmpty, dropped.isNone {
            try await Task.sleep(for: .milliseconds(20))
        }
        phone.clearUser()
        phone.log("as somebody else")
        try await phone.flush()
        #expect(
            try events("claim_user_id:u").sorted() == [
                "as nobody", "as nobody", "as somebody", "as somebody", "as somebody",
            ])
        #expect(dropped.isNone)
        let other = try #require(phone.claimUser)
        #expect(try events("claim_anonymous_id:\(other)") == ["as somebody else"])
    }

    private final class Dropped: @unchecked Sendable {
        private let lock = NSLock()
        private var number = 0
        var isNone: Bool { lock.withLock { number == 0 } }
        func count() { lock.withLock { number += 1 } }
    }

    private func timeline(_ person: String, _ kind: String) throws -> [Any] {
        try administrator("/onym/v1/people/\(person)/timeline?limit=10&kinds=\(kind)")["rows"] as? [Any] ?? []
    }

    private func claimKey() throws -> String {
        try #require(store.claim["client_key"])
    }

    @Test("an app that is killed over and over loses nothing, doubles nothing, and gives nobody what is another's")
    func kills() throws {
        let folder = store.folder.path + "/killed"
        let program = SDKScene.program("sdk-host")
        var generator = SeededGenerator(seed: Soak.seeds(1)[0])
        var lines: [Substring] = []
        func run(_ mode: String, _ seed: Int, for microseconds: UInt32?) throws {
            let process = Process()
            process.executableURL = URL(filePath: program)
            process.arguments = [mode, server.base, folder, store.webKey, try claimKey(), "\(seed)"]
            let output = store.folder.path + "/output"
            try Data().write(to: URL(filePath: output))
            process.standardOutput = try FileHandle(forWritingTo: URL(filePath: output))
            try process.start()
            if let microseconds {
                // However busy the machine is, it is killed in the middle of what it does.
                #expect(try Patience.until { try !process.isRunning || size(of: output) > 0 })
                usleep(microseconds)
                kill(process.processIdentifier, SIGKILL)
            }
            #expect(process.end(withinMilliseconds: 5 * Patience.milliseconds))
            if microseconds == nil { #expect(process.terminationStatus == 0) }
            // The last line may be a part of one.
            let text = try String(contentsOfFile: output, encoding: .utf8)
            lines += text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        }
        for seed in 0..<20 * Soak.factor {
            try run("run", seed, for: UInt32.random(in: 5_000...150_000, using: &generator))
        }
        try run("drain", 0, for: nil)
        try check(lines)
    }

    private func size(of file: String) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: file)[.size] as? Int ?? 0
    }

    private func check(_ lines: [Substring]) throws {
        var (people, users): ([String: Set<String>], [String: Set<String>]) = ([:], [:])
        var (claims, claimed, oldest) = ([String: [String]](), Set<String>(), "")
        var count = 0
        for line in lines {
            let words = line.split(separator: " ").map(String.init)
            switch words[0] {
            case "log":
                people[words[2], default: []].insert(words[1])
                users[words[3], default: []].insert(words[1])
                count += 1
            case "claim": claims[words[1], default: []].append(words[2])
            case "claimed": claimed.insert(words[1])
            default: oldest = words[1]
            }
        }
        #expect(count > 0, "It was killed before it did anything.")
        people[oldest, default: []].formUnion(people.removeValue(forKey: "0") ?? [])
        var total: [String] = []
        for (person, names) in people {
            let found = try events(person)
            total += found
            #expect(names.subtracting(found).isEmpty, "\(person) lacks \(names.subtracting(found).count)")
            for (other, names) in people where other != person {
                #expect(names.intersection(found).isEmpty, "\(person) has what is \(other)'s")
            }
        }
        #expect(Set(total).count == total.count, "Nothing is there twice.")
        // Whose an anonymous id is, the first to claim it has decided.
        for (anonymous, names) in users where anonymous.hasPrefix("owl_anon_") {
            let found = try events("claim_anonymous_id:\(anonymous)")
            #expect(names.subtracting(found).isEmpty)
            guard claimed.contains(anonymous), let claimers = claims[anonymous] else { continue }
            #expect(
                claimers.contains { user in (try? events("claim_user_id:\(user)"))?.contains(names.first ?? "") == true
                })
        }
        var all: [String] = []
        for (user, names) in users where !user.hasPrefix("owl_anon_") {
            let found = try events("claim_user_id:\(user)")
            all += found
            #expect(names.subtracting(found).isEmpty, "\(user) lacks \(names.subtracting(found).count)")
            for (other, names) in users where other != user && !other.hasPrefix("owl_anon_") {
                #expect(names.intersection(found).isEmpty, "\(user) has what is \(other)'s")
            }
        }
        #expect(Set(all).count == all.count, "Nothing is there twice.")
    }
}
