import Foundation
import Program
import TestKit
import Testing

/// The examples of the help, played as a reader would: in a shell, in one folder, with demo data.
@Suite("The examples of the help", .serialized)
struct HelpExampleTests {
    private let folder = TemporaryFolder()

    private func shell(_ line: String, _ environment: [String: String] = [:]) throws -> Shell.Result {
        let programs = URL(filePath: ServerProcess.program).deletingLastPathComponent().path()
        let path = "\(programs):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        return try Shell.result(
            ["sh", "-c", line], environment: environment.merging(["PATH": path, "NO_COLOR": "1"]) { $1 },
            folder: folder.path)
    }

    /// Whether lines are as the answer of an example says; … stands for any text, and alone for any lines.
    private func matches(_ lines: ArraySlice<String>, _ answer: ArraySlice<String>) -> Bool {
        guard let wanted = answer.first else { return lines.isEmpty }
        if wanted == "…" {
            return matches(lines, answer.dropFirst()) || !lines.isEmpty && matches(lines.dropFirst(), answer)
        }
        guard let line = lines.first, matches(line, wanted) else { return false }
        return matches(lines.dropFirst(), answer.dropFirst())
    }

    private func matches(_ line: String, _ wanted: String) -> Bool {
        let parts = wanted.components(separatedBy: "…")
        guard parts.count > 1 else { return line == wanted }
        guard line.hasPrefix(parts[0]), line.hasSuffix(parts[parts.count - 1]) else { return false }
        var rest = line.dropFirst(parts[0].count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.range(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return rest.count >= parts[parts.count - 1].count
    }

    @Test("matches what … stands for, and nothing else")
    func matcher() {
        #expect(matches("a 12 b", "a … b") && matches("a", "a…") && !matches("a 12 c", "a … b") && !matches("aa", "a"))
        #expect(
            matches(["x", "a", "b"], ["…", "a", "b"]) && !matches(["a"], ["a", "b"]) && !matches(["a", "c"], ["a"]))
    }

    @Test("answer what the help says")
    func examples() throws {
        try """
        {"format":"csv","vendor":"shop","key":"user_id","identities":[{"type":"customerid","from":"user_id"}]}
        """.write(toFile: folder.path + "/shop.map.json", atomically: true, encoding: .utf8)
        try "user_id\ns1\ns2\n".write(toFile: folder.path + "/shop.csv", atomically: true, encoding: .utf8)
        try #"{"web":{"a":1}}"#.write(toFile: folder.path + "/config.json", atomically: true, encoding: .utf8)
        let keys = """
            openssl genpkey -algorithm ed25519 -out private.pem && openssl pkey -in private.pem -pubout -out public.pem
            openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 9 -subj /CN=x
            """
        #expect(try shell(keys).code == 0)
        var server: ServerProcess?
        defer { server?.kill() }
        // The ids of this store for the ids that the help shows.
        var ids: [String: String] = [:]
        func note(_ output: String, _ pattern: Regex<(Substring, Substring)>, as id: String) {
            ids[id] = output.firstMatch(of: pattern).map { String($0.1) }
        }
        for example in Example.all {
            if example.command == "serve" {
                server = try ServerProcess(data: folder.path + "/data", flags: ["--mode", "development"])
                // A first request, for the log of requests.
                #expect(try shell("curl -sf http://127.0.0.1:\(server?.port ?? 0)/readyz").code == 0)
                continue
            }
            if example.command == "webhooks list" {
                // No example makes a webhook, because it needs a receiver.
                let address = "--unix-socket data/onym.sock http://localhost/onym/v1/webhooks"
                let hook = #"{"url":"http://127.0.0.1:9/","kinds":["webhook.removed"]}"#
                let made = try shell("curl -s \(address) -H 'Content-Type: application/json' -d '\(hook)'")
                note(made.output, /"id":"(\d+)"/, as: "912746264890769790")
            }
            if example.command == "migrate" {
                #expect(server?.stop() == 0)
                // A machine without PostgreSQL plays all the others.
                guard PostgresCluster.absence == nil else { continue }
                let schema = try PostgresCluster.shared.get().newSchema().schema
                ids["postgres://onym@db/onym"] =
                    "'\(try PostgresCluster.shared.get().address)' --store-schema \(schema)"
            }
            let line = ids.reduce(example.line) { $0.replacing($1.key, with: $1.value) }
            let result = try shell(line)
            let text = result.output.isEmpty ? result.errors : result.output
            switch example.command {
            case "import": note(result.output, /Import (i_\d+)/, as: "i_912746264890769779")
            case "signing-keys add": note(result.output, /id +(\d+)/, as: "912746264890769780")
            case "master-key list": note(result.output, /([0-9a-f]{8})  older/, as: "a7d318e0")
            default: break
            }
            let answer = ids.reduce(example.answer) { $0.replacing($1.key, with: $1.value) }
                .replacing("127.0.0.1:8080", with: "127.0.0.1:\(server?.port ?? 8080)")
            var lines = text.components(separatedBy: "\n")
            if lines.last == "" { lines.removeLast() }
            #expect(
                matches(lines[...], answer.components(separatedBy: "\n")[...]),
                "\(line)\n\(lines.prefix(12).joined(separator: "\n"))\n\(result.errors.prefix(300))")
        }
        #expect(Set(Example.all.map(\.command)).count == Example.all.count, "one example for each command")
    }
}
