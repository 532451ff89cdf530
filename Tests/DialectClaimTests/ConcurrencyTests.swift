import Foundation
import TestKit
import Testing

/// Many clients at once, each on a connection of its own, on every store: what a peer was seen to lose (spec/claim.md 2.4)
/// is not lost here.
@Suite("Clients of the Claim dialect that call at once", .serialized, .timeLimit(.minutes(30)))
struct ConcurrencyTests {
    private static let rounds = 10

    /// Has clients do something at once; answers what each of them came to, in no order.
    ///
    /// All of them are connected before the first one calls.
    private func atOnce<Result: Sendable>(
        _ server: TestServer, clients: Int, _ work: @escaping @Sendable (Int, OwlClient) throws -> Result
    ) throws -> [Result] {
        let crowd = Crowd(of: clients, client: { OwlClient(server) }, http: \.http, work)
        #expect(crowd.faults.isEmpty, "nobody is cut off, and nobody waits for long")
        return crowd.results
    }

    @Test("one user claims eight ids, and has all eight", arguments: StoreKind.allCases)
    func manyClaims(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<ConcurrencyTests.rounds {
            let user = "ada-\(round)"
            @Sendable func anonymous(_ number: Int) -> String { "owl_anon_\(round)-\(number)" }
            for number in 0..<8 where number.isMultiple(of: 2) {
                _ = try client.ingest([OwlClient.event(anonymous(number), "early-\(number)")])
            }
            let answers = try atOnce(server, clients: 8) { number, client in
                try client.claim(anonymous(number), user).body
            }
            #expect(answers.count == 8 && answers.allSatisfy { $0.hasPrefix(#"{"claimed":true"#) }, "\(answers)")
            #expect(answers.count { $0.hasSuffix(":1}") } == 4)
            #expect((try client.person(user)["members"] as? [String])?.count == 9)
            // What comes in late is the user's, whichever of the eight it came with.
            _ = try client.ingest((0..<8).map { OwlClient.event(anonymous($0), "late-\($0)") })
            let expected =
                (0..<8).map { "late-\($0)" } + (0..<8).filter { $0.isMultiple(of: 2) }.map { "early-\($0)" }
            #expect(try Set(client.messages(user)) == Set(expected))
        }
    }

    @Test("the same claim six times makes one merge", arguments: StoreKind.allCases)
    func sameClaim(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<ConcurrencyTests.rounds {
            let (anonymous, user) = ("owl_anon_\(round)", "ada-\(round)")
            _ = try client.ingest([OwlClient.event(anonymous, "a"), OwlClient.event(anonymous, "b")])
            let answers = try atOnce(server, clients: 6) { _, client in try client.claim(anonymous, user).body }
            #expect(answers.count { $0 == #"{"claimed":true,"events_reassigned_count":2}"# } == 1, "\(answers)")
            #expect(answers.count { $0 == #"{"claimed":true,"events_reassigned_count":0}"# } == 5, "\(answers)")
            #expect(server.store.counts.merges == round + 1)
            #expect(try client.messages(user).count == 2)
        }
    }

    @Test("of users that claim one id, one has it, and the others are told", arguments: StoreKind.allCases)
    func rivals(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<ConcurrencyTests.rounds {
            let anonymous = "owl_anon_\(round)"
            _ = try client.ingest([OwlClient.event(anonymous, "a")])
            let answers = try atOnce(server, clients: 2) { number, client in
                (user: "u\(round)-\(number)", status: try client.claim(anonymous, "u\(round)-\(number)").status)
            }
            #expect(Set(answers.map(\.status)) == [200, 409], "\(answers)")
            #expect(server.store.counts.merges == round + 1)
            for (user, status) in answers {
                // Whoever was refused is nobody yet, and can have an id of their own.
                #expect(try client.messages(user) == (status == 200 ? ["a"] : []))
                _ = try client.ingest([OwlClient.event(user, "own")])
                #expect(try client.messages(user) == (status == 200 ? ["own", "a"] : ["own"]))
            }
        }
    }

    @Test("a claim amid uploads leaves no event behind", arguments: StoreKind.allCases)
    func claimAmidUploads(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<ConcurrencyTests.rounds {
            let (anonymous, user) = ("owl_anon_\(round)", "ada-\(round)")
            let accepted = try atOnce(server, clients: 8) { number, client in
                guard number != 3 else { return try client.claim(anonymous, user).status == 200 ? 0 : -1 }
                let answer = try client.ingest((0..<20).map { OwlClient.event(anonymous, "m\(number)-\($0)") })
                return answer.body == #"{"accepted":20,"rejected":0}"# ? 20 : -1
            }
            #expect(accepted.count == 8 && accepted.reduce(0, +) == 140, "\(accepted)")
            #expect(try Set(client.messages(user)).count == 140)
            let users = try client.agent("/v1/app-users?data_mode=all&search=\(anonymous)")["users"] as? [Any]
            #expect(users?.isEmpty == true, "no anonymous user is left")
        }
    }

    @Test("sets beside deletes lose nothing", arguments: StoreKind.allCases)
    func setsBesideDeletes(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<20 {
            let user = "ada-\(round)"
            _ = try client.properties(user, #"{"old":"1","stays":"1"}"#)
            let statuses = try atOnce(server, clients: 7) { number, client in
                try client.properties(user, number == 6 ? #"{"old":""}"# : #"{"k\#(number)":"\#(number)"}"#).status
            }
            #expect(statuses == Array(repeating: 200, count: 7))
            let expected = #"{"k0":"0","k1":"1","k2":"2","k3":"3","k4":"4","k5":"5","stays":"1"}"#
            #expect(try client.properties(user, "{}").body == #"{"updated":true,"properties":\#(expected)}"#)
        }
    }

    @Test("the same batch from several is kept once", arguments: StoreKind.allCases)
    func sameBatch(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        for round in 0..<ConcurrencyTests.rounds {
            let user = "owl_anon_\(round)"
            let events = (0..<8).map { _ in OwlClient.event(user, "metric:load:record") }
            let accepted = try atOnce(server, clients: 4) { _, client in try client.ingest(events).body }
            #expect(accepted.count { $0 == #"{"accepted":8,"rejected":0}"# } == 1, "\(accepted)")
            #expect(accepted.count { $0 == #"{"accepted":0,"rejected":0}"# } == 3, "\(accepted)")
            #expect(try client.messages(user).count == 8)
            #expect(try client.messages(user, kinds: "metric").count == 8, "what a row brings with it comes once too")
        }
    }

    @Test("an id that was claimed leads to the user everywhere, at any time", arguments: StoreKind.allCases)
    func staleIDs(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = OwlClient(server)
        _ = try client.claim("owl_anon_1", "ada")
        let people = server.store.counts.people
        let importKey = server.credentials.claimImportKey
        let statuses = try atOnce(server, clients: 12) { number, client in
            switch number % 3 {
            case 0: try client.properties("owl_anon_1", #"{"k\#(number)":"v"}"#).status
            case 1: try client.ingest([OwlClient.event("owl_anon_1", "sent-\(number)")]).status
            default:
                try client.ingest(
                    [OwlClient.event("owl_anon_1", "imported-\(number)")], path: "/v1/import", key: importKey
                ).status
            }
        }
        #expect(statuses == Array(repeating: 200, count: 12))
        #expect(server.store.counts.people == people, "nobody is made anew")
        #expect(try client.messages("ada").count == 8)
        #expect(
            try client.properties("ada", "{}").body
                == #"{"updated":true,"properties":{"k0":"v","k3":"v","k6":"v","k9":"v"}}"#)
        let users = try client.agent("/v1/app-users?data_mode=all")["users"] as? [[String: Any]]
        #expect(users?.map { $0["user_id"] as? String } == ["ada"])
        let events = try client.agent("/v1/events?data_mode=all")["events"] as? [[String: Any]]
        #expect(Set((events ?? []).map { $0["user_id"] as? String }) == ["ada"])
    }
}

extension OwlClient {
    /// What an agent reads.
    func agent(_ path: String) throws -> [String: Any] {
        let answer = try call("GET", path, key: server.credentials.claimAgentKey)
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }
}
