import Foundation
import TestKit
import Testing

@Suite("The program, asked on the command line while it serves", .serialized)
struct ControlTests {
    private func onym(_ store: Store, _ words: String..., input: String = "") throws -> Shell.Result {
        try Shell.result([ServerProcess.program] + words + ["--data", store.data], input: input)
    }

    private func logout(_ store: Store, _ client: HTTPClient) throws -> String {
        try client.call(
            "POST", "/v1/logout", fields: [("x-mp-key", store.webKey)],
            json: #"{"environment":"development","known_identities":{"ios_idfv":"1"}}"#
        ).body
    }

    @Test("changes the rules of the server that runs, from its next call on")
    func running() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        #expect(try logout(store, client) != logout(store, client), "somebody new each time")
        let set = try onym(store, "strategy", "set", "--file", "-", input: #"{"preset":"profile_isolation"}"#)
        #expect(set.code == 0 && set.output.contains("preset           profile_isolation\n"), "\(set)")
        let back = try logout(store, client)
        #expect(try logout(store, client).firstMatch(of: /"mpid":"\d+"/)?.0 == back.firstMatch(of: /"mpid":"\d+"/)?.0)
        let document = try client.call(
            "GET", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(store.adminKey)")]
        ).body
        #expect(try onym(store, "strategy", "show", "--json").output == document + "\n")
        let refused = try onym(store, "strategy", "set", "--file", "-", input: "{")
        #expect(refused.code == 1 && refused.errors.contains("not valid JSON"), "\(refused)")
        #expect(server.stop() == 0)

        #expect(try onym(store, "strategy", "rollback", "--version", "1").code == 0)
        let again = try ServerProcess(data: store.data)
        #expect(try onym(store, "strategy", "versions").output.split(separator: "\n").count == 3)
        #expect(again.stop() == 0)
    }

    @Test("listens where only its owner can ask, and leaves nothing behind")
    func socket() throws {
        let store = try Store()
        let path = store.data + "/onym.sock"
        let killed = try ServerProcess(data: store.data)
        func mode() throws -> Int? { try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int }
        #expect(try mode() == 0o600)
        killed.kill()
        // What it left is in nobody's way.
        #expect(try onym(store, "strategy", "show").code == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
        let server = try ServerProcess(data: store.data)
        #expect(try mode() == 0o600)
        let ready = try Shell.run("curl", "-s", "--unix-socket", path, "http://onym/metrics")
        #expect(ready.contains("\nonym_people 0\n"), "no key is needed")
        #expect(
            try Shell.run("curl", "-s", "--unix-socket", path, "-X", "POST", "http://onym/v1/identify").contains("404"))
        #expect(server.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("is reached in a folder whose path is longer than a socket's address")
    func longPath() throws {
        let store = try Store(in: String(repeating: "long", count: 40))
        #expect(try onym(store, "strategy", "set", "--preset", "best_match").code == 0)
        let server = try ServerProcess(data: store.data)
        #expect(try onym(store, "strategy", "show").output.contains("best_match"))
        #expect(!server.errors.contains("cannot reach"))
        #expect(server.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: store.data + "/onym.sock"))
    }

    @Test("serves without a socket rather than not at all, and removes no file that is none")
    func noSocket() throws {
        let store = try Store()
        let path = store.data + "/onym.sock"
        try Data("mine".utf8).write(to: URL(filePath: path))
        let server = try ServerProcess(data: store.data)
        #expect(server.errors(with: "Serving.").contains("The command line cannot reach this server."))
        #expect(try store.identify(#"{"customerid":"a"}"#, server.client).status == 200)
        let show = try onym(store, "strategy", "show")
        #expect(show.code == 1 && show.errors.contains("is in use by process"), "\(show)")
        #expect(server.stop() == 0)
        #expect(try Data(contentsOf: URL(filePath: path)) == Data("mine".utf8))
    }
}
