import Foundation
import TestKit
import Testing

@Suite("The program, serving", .serialized, .timeLimit(.minutes(60)))
struct ServeTests {
    @Test("makes a demo project in an empty folder, and shows a call that works when pasted")
    func firstRun() throws {
        let folder = TemporaryFolder()
        let data = folder.path + "/data"
        let terminal = try PseudoTerminal()
        let server = try ServerProcess(data: data, flags: ["--mode", "development"], terminal: terminal)
        let welcome = terminal.text(with: "person ada")
        #expect(welcome.contains("onym_admin_"))
        try lastLines(welcome, server)
        let call = try #require(welcome.firstMatch(of: /curl [^}]*}}'/)).output
        let answer = try Shell.result(["sh", "-c", String(call)])
        #expect(answer.output.contains(#""mpid":""#) && answer.output.contains(#""is_logged_in":true"#), "\(answer)")
        #expect(server.stop() == 0)

        // The second start tells the same, and a start that nobody reads tells no key.
        let another = try PseudoTerminal()
        let second = try ServerProcess(data: data, flags: ["--mode", "development"], terminal: another)
        try lastLines(another.text(with: "person ada"), second)
        #expect(second.stop() == 0)
        let again = try ServerProcess(data: data, flags: ["--mode", "development"])
        #expect(again.stop() == 0)
        #expect(!again.errors.contains("onym_admin_"))

        // Without the file, the lines say how to get a key.
        try FileManager.default.removeItem(atPath: data + "/first-keys.json")
        let third = try PseudoTerminal()
        let without = try ServerProcess(data: data, flags: ["--mode", "development"], terminal: third)
        let told = third.text(with: "person ada")
        #expect(told.contains("keys create --kind admin") && told.contains("x-mp-key: KEY"), "\(told)")
        #expect(without.stop() == 0)
    }

    /// The last lines of a start on a terminal: at most twelve, with the console, the keys, a call and the next step.
    private func lastLines(_ text: String, _ server: ServerProcess) throws {
        let start = try #require(text.range(of: "\nOnym serves \(server.base)"), "\(text)")
        let lines = text[start.lowerBound...].split(separator: "\n")
        #expect(lines.count <= 12, "\(lines)")
        for part in ["/console#code=oc_", "onym_admin_", "keys show", "curl -s \(server.base)", "demo", "person ada"] {
            #expect(lines.contains { $0.contains(part) }, "\(part) in \(text)")
        }
    }

    @Test(
        "secrets go to a terminal, into a file or to a program that asks for them, and never into a log",
        arguments: ["development", "production"])
    func secrets(_ mode: String) throws {
        let folder = TemporaryFolder()
        let data = folder.path + "/data"
        let server = try ServerProcess(data: data, flags: ["--mode", mode])
        #expect(server.errors(with: "first-keys.json").contains("first-keys.json"))
        #expect(server.stop() == 0)
        let keys = try String(contentsOfFile: data + "/first-keys.json", encoding: .utf8)
        let all = keys.matches(of: /"([A-Za-z0-9_-]{20,})"/).map { String($0.1) }
        #expect(all.count > 5 && all.allSatisfy { !server.errors.contains($0) })
        func onym(_ words: [String]) throws -> Shell.Result {
            try Shell.result([ServerProcess.program] + words + ["--data", data])
        }
        let file = folder.path + "/keys"
        for command in [
            ["projects", "create", "Second"], ["keys", "create", "--kind", "admin"],
            ["apps", "create", "--name", "A", "--dialect", "linking"], ["signing-keys", "add"],
        ] {
            let words = command + (command[0] == "projects" ? [] : ["--project", "1"])
            let before = try onym(["projects", "list", "--json"]).output
            let piped = try onym(words)
            #expect(piped.code == 2 && piped.output == "" && piped.errors.contains("--keys-file"), "\(piped)")
            #expect(try onym(["projects", "list", "--json"]).output == before)
            #expect(try onym(words + ["--json"]).output.contains("{"))
            let filed = try onym(words + ["--keys-file", file])
            #expect(filed.code == 0 && filed.output == "" && filed.errors.contains(file), "\(filed)")
            #expect(try String(contentsOfFile: file, encoding: .utf8).hasPrefix("{"))
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            let again = try onym(words + ["--keys-file", file])
            #expect(again.code == 1, "a file is never written over")
            try FileManager.default.removeItem(atPath: file)
        }
        let second = folder.path + "/second"
        let made = try Shell.result([ServerProcess.program, "init", "--data", second])
        #expect(made.code == 2 && !FileManager.default.fileExists(atPath: second), "\(made)")
    }

    @Test("keeps the keys of a new store even if it cannot serve, and stops in order whatever signals come")
    func keysAreShownFirst() throws {
        let store = try Store()
        let taken = try ServerProcess(data: store.data)
        let folder = TemporaryFolder()
        let failed = try Shell.result([
            ServerProcess.program, "serve", "--data", folder.path + "/data", "--listen", "127.0.0.1:\(taken.port)",
        ])
        #expect(failed.code == 1 && failed.errors.contains("already in use"), "\(failed)")
        let keys = try Shell.result([ServerProcess.program, "keys", "show", "--data", folder.path + "/data"])
        #expect(keys.code == 0 && keys.output.contains("onym_admin_"), "\(keys)")

        let busy = try Wire(port: taken.port)
        // Who has answered the first has read half of the second.
        try busy.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHo")
        #expect(try busy.readAnswer().status == 200)
        taken.signal(SIGTERM)
        #expect(taken.errors(with: "Stopping.").contains("Stopping."))
        taken.signal(SIGHUP)
        try busy.send("st: a\r\n\r\n")
        #expect(try busy.readAnswer().status == 200)
        #expect(taken.process.end() && taken.process.terminationStatus == 0)
    }

    @Test("stops in order under load: what was acknowledged is there, and the exit code is 0")
    func stopping() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let load = Load(store, port: server.port, clients: 8, name: "stop")
        load.wait(for: 500)
        #expect(server.stop() == 0)
        load.stop()
        #expect(load.refused == 0)
        try expectAll(load.acknowledged, in: store)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: store.data).sorted() == [
                "master.key", "onym.db", "onym.head", "onym.lock", "requests",
            ])
    }

    @Test("loses nothing that it acknowledged when it is killed under load, ten times")
    func killed() throws {
        let store = try Store()
        for round in 1...10 * Soak.factor {
            let server = try ServerProcess(data: store.data)
            let load = Load(store, port: server.port, clients: 8, name: "kill-\(round)")
            load.wait(for: 200 + 50 * (round % 20))
            server.kill()
            load.stop()
            #expect(load.acknowledged.count >= 200)
            try expectAll(load.acknowledged, in: store)
            let doctor = try store.doctor()
            #expect(doctor.code == 0, "\(doctor.output)")
            Soak.report("kill \(round): all of the \(load.acknowledged.count) acknowledged people are there")
        }
    }

    private func expectAll(_ acknowledged: [String: String], in store: Store) throws {
        let server = try ServerProcess(data: store.data)
        let client = server.client
        for (customer, mpid) in acknowledged {
            let answer = try store.identify("{\"customerid\":\"\(customer)\"}", client)
            #expect(answer.mpid == mpid, "\(customer)")
        }
        #expect(server.stop() == 0)
    }

    @Test("turns calls away while the disk is full, says so, and heals by itself")
    func fullDisk() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let load = Load(store, port: server.port, clients: 4, name: "full")
        load.wait(for: 100)
        // A limit on the size of files fails the same writes that a full disk does.
        func limitFiles(_ bytes: String) throws {
            try Shell.run("prlimit", "--pid", "\(server.process.processIdentifier)", "--fsize=\(bytes):unlimited")
        }
        try limitFiles("4096")
        #expect(Patience.until { load.refused >= 20 })
        let client = server.client
        let refused = try client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", store.webKey)],
            json: #"{"environment":"development","known_identities":{"customerid":"during"}}"#)
        #expect(refused.status == 503 && refused["Retry-After"] == "5", "\(refused)")
        let ready = try client.call("GET", "/readyz")
        #expect(ready.status == 503 && ready.body.contains("cannot be written"))
        #expect(try client.call("GET", "/healthz").status == 200)
        if let known = load.acknowledged.first {
            #expect(
                try store.identify("{\"customerid\":\"\(known.key)\"}", client).mpid == known.value, "reading goes on")
        }

        // Room for a page or two is none for calls: it stays unready, and does not say so with each call.
        try limitFiles("262144")
        let (start, refusedBefore) = (ContinuousClock.now, load.refused)
        #expect(Patience.until { load.refused >= refusedBefore + 20 })
        #expect(try client.call("GET", "/readyz").status == 503)
        #expect(!server.errors.contains("The store is open again."))
        let seconds = Int((ContinuousClock.now - start).components.seconds)
        let lines = server.errors.components(separatedBy: "The store failed.").count - 1
        #expect(lines <= 2 * (seconds + 10), "\(lines) lines")

        try limitFiles("unlimited")
        #expect(try Patience.until { try client.call("GET", "/readyz").status == 200 })
        #expect(try store.identify(#"{"customerid":"after"}"#, client).status == 200)
        load.stop()
        #expect(server.stop() == 0)
        #expect(server.errors.contains("The store failed.") && server.errors.contains("The store is open again."))
        try expectAll(load.acknowledged, in: store)
        #expect(try store.doctor().code == 0)
    }

    @Test("says clearly why it cannot start")
    func cannotStart() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        func failure(_ words: String...) throws -> Shell.Result {
            try Shell.result([ServerProcess.program, "serve"] + words)
        }
        let sameData = try failure("--data", store.data, "--listen", "127.0.0.1:0")
        #expect(
            sameData.code == 3 && sameData.errors.contains("is in use by process \(server.process.processIdentifier)"))
        let other = try Store()
        let samePort = try failure("--data", other.data, "--listen", "127.0.0.1:\(server.port)")
        #expect(samePort.code == 1 && samePort.errors.contains("address already in use"))
        let noCertificate = try failure("--data", other.data, "--tls-cert", "/nowhere", "--tls-key", "/nowhere")
        #expect(noCertificate.code == 1 && noCertificate.errors.contains("/nowhere"))
        let notOurs = other.folder.path + "/foreign"
        try FileManager.default.createDirectory(atPath: notOurs, withIntermediateDirectories: true)
        try Data("hello".utf8).write(to: URL(filePath: notOurs + "/onym.db"))
        try Data(String(repeating: "ab", count: 32).utf8).write(to: URL(filePath: notOurs + "/master.key"))
        try Shell.run("chmod", "600", notOurs + "/master.key")
        let foreign = try failure("--data", notOurs, "--listen", "127.0.0.1:0")
        #expect(foreign.code == 3 && foreign.errors.contains("is not a store of Onym"))
        #expect(try Data(contentsOf: URL(filePath: notOurs + "/onym.db")) == Data("hello".utf8))
    }

    @Test("says clearly that a folder cannot be written")
    func readOnlyFolder() throws {
        let store = try Store()
        // Root may write everywhere, so it has somebody else try.
        let nobody = geteuid() == 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []
        if !nobody.isEmpty { try Shell.run("chown", "-R", "65534:65534", store.folder.path) }
        try Shell.run("chmod", "-R", "a-w", store.folder.path)
        defer { _ = try? Shell.run("chmod", "-R", "u+w", store.folder.path) }
        let result = try Shell.result(
            nobody + [ServerProcess.program, "serve", "--data", store.data, "--listen", "127.0.0.1:0"])
        #expect(result.code == 3)
        #expect(result.errors.contains("Check its"), "\(result.errors)")
    }

    @Test("serves TLS, and reads its certificate anew when it is told to")
    func tls() throws {
        let store = try Store()
        let (certificate, key) = (store.folder.path + "/cert.pem", store.folder.path + "/key.pem")
        func makeCertificate(_ name: String) throws {
            try Shell.run(
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                "1",
                "-subj", "/CN=\(name)", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
        }
        func subject(_ server: ServerProcess) throws -> String {
            let result = try Shell.result([
                "curl", "-sSv", "--cacert", certificate, "https://127.0.0.1:\(server.port)/healthz",
            ])
            #expect(result.output.hasPrefix(#"{"status":"ok","version":""#), "\(result.errors)")
            return result.errors.firstMatch(of: /subject: CN=(\w+)/).map { String($0.1) } ?? ""
        }
        try makeCertificate("first")
        let server = try ServerProcess(data: store.data, flags: ["--tls-cert", certificate, "--tls-key", key])
        #expect(server.base.hasPrefix("https://"))
        #expect(try subject(server) == "first")
        try makeCertificate("second")
        server.signal(SIGHUP)
        #expect(server.errors(with: "was read again").contains("was read again"))
        #expect(try subject(server) == "second")
        try Data("broken".utf8).write(to: URL(filePath: key))
        server.signal(SIGHUP)
        #expect(server.errors(with: "could not be read").contains("could not be read"))
        #expect(try subject(server) == "second", "the old one stays in use")
        #expect(server.stop() == 0)
    }

    @Test("serves metrics without a key on an address of their own")
    func metrics() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data, flags: ["--metrics-listen", "127.0.0.1:0"])
        let address = try #require(
            server.errors(with: "Serving.").firstMatch(of: /"metrics":"http:\/\/127\.0\.0\.1:(\d+)"/).flatMap {
                UInt16($0.1)
            })
        let answer = try HTTPClient(port: address).call("GET", "/metrics")
        #expect(answer.status == 200 && answer.body.contains("onym_people 0"))
        #expect(try server.client.call("GET", "/metrics").status == 401)
        #expect(server.stop() == 0)
    }

    @Test("is examined by the doctor while it serves")
    func doctorBeside() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let load = Load(store, port: server.port, clients: 4, name: "doctor")
        load.wait(for: 200)
        for _ in 0..<3 { #expect(try store.doctor().code == 0) }
        load.stop()
        #expect(load.refused == 0)
        #expect(server.stop() == 0)
    }

    @Test("logs no identity and no secret")
    func quietLogs() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data, flags: ["--log-level", "debug"])
        let client = server.client
        _ = try store.identify(#"{"customerid":"very-secret-customer"}"#, client)
        _ = try store.identify(#"{"nonsense":"very-secret-customer"}"#, client)
        _ = try client.call("POST", "/v1/very-secret-customer", json: "very-secret-customer")
        #expect(server.stop() == 0)
        #expect(!server.errors.contains("very-secret-customer") && !server.errors.contains(store.webKey))
    }

    @Test("ends with code 1 and a message if the system gives too little memory to start")
    func shortOfMemory() throws {
        let folder = TemporaryFolder()
        let data = folder.path + "/data"
        _ = try Shell.result([ServerProcess.program, "init", "--data", data, "--json"])
        // Each thread takes the limit of the stack from the 10 GiB of addresses, so the threads that start are always the same.
        for gibibytes in [1, 2, 3, 5] {
            let result = try Shell.result([
                "timeout", "--signal=KILL", "30", "prlimit", "--as=\(10 << 30)", "--stack=\(gibibytes << 30)",
                ServerProcess.program, "serve", "--data", data, "--listen", "127.0.0.1:0",
            ])
            #expect(result.code == 1, "\(gibibytes) GiB for each thread: \(result.errors.prefix(300))")
            #expect(
                result.errors.hasPrefix("onym: The system gives no memory for the thread"),
                "\(result.errors.prefix(300))")
            #expect(!result.output.contains("listening"))
        }
        // Too little for OpenSSL, for the store, or for threads. With less, the system does not load the program at all.
        for mebibytes in stride(from: 48, through: 88, by: 4) {
            let result = try Shell.result([
                "timeout", "--signal=KILL", "30", "prlimit", "--as=\(mebibytes << 20)",
                ServerProcess.program, "serve", "--data", data, "--listen", "127.0.0.1:0",
            ])
            if result.code == 127, result.errors.contains("shared librar") { continue }
            #expect(result.code == 1, "\(mebibytes) MiB: \(result)")
            #expect(
                result.errors.contains("onym: The system gives no memory for") || result.errors.contains("memory"),
                "\(mebibytes) MiB: \(result.errors.prefix(300))")
        }
    }

    /// The bytes that a server has made itself: pages of its file come and go with what else the machine does.
    private func allocated(_ server: ServerProcess) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(server.process.processIdentifier)/status", encoding: .utf8)
        return try #require(text.firstMatch(of: /RssAnon:\s+(\d+) kB/).flatMap { Int($0.1) }) << 10
    }

    @Test("keeps little of the answers that 1,200 clients ask for, twenty each, and do not read")
    func unreadMemory() throws {
        // Each client is a file of this process too.
        var files = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #expect(getrlimit(resource, &files) == 0)
        files.rlim_cur = files.rlim_max
        #expect(setrlimit(resource, &files) == 0)
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        for _ in 0..<20 { #expect(try client.call("GET", "/openapi.json").status == 200) }
        let before = try allocated(server)
        let request = String(repeating: "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n", count: 20)
        let wires = try (0..<1200).map { _ in
            let wire = try Wire(port: server.port)
            try wire.send(request)
            return wire
        }
        // Whoever comes later is served, and by then the server has read what it reads of the others.
        for _ in 0..<50 { #expect(try HTTPClient(port: server.port).call("GET", "/healthz").status == 200) }
        #expect(try allocated(server) - before < 64 << 20)
        // The next one reads, and is served. (The others are closed if they read nothing for half a minute.)
        let reader = try Wire(port: server.port)
        try reader.send(request)
        for _ in 0..<20 { #expect(try reader.readAnswer().status == 200) }
        #expect(try allocated(server) - before < 64 << 20)
        for wire in wires { wire.reset() }
        #expect(server.stop() == 0)
    }

    @Test("keeps its memory under a steady load")
    func memory() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        func calls(_ count: Int) throws {
            for number in 0..<count { _ = try store.identify("{\"customerid\":\"c\(number % 50)\"}", client) }
        }
        try calls(3000)
        let before = try allocated(server)
        #expect(before < 60 << 20, "\(before)")
        try calls(6000)
        #expect(try allocated(server) - before < 2 << 20)
        #expect(server.stop() == 0)
    }
}
