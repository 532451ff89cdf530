import Foundation
import TestKit
import Testing

/// Many clients at once, each on a connection of its own, on every store.
@Suite("Clients that call at once", .serialized, .timeLimit(.minutes(30)))
struct ConcurrencyTests {
    private static let clients = 64

    /// Has clients do something at once; answers what each of them came to, in no order.
    ///
    /// All of them are connected before the first one calls.
    private func atOnce<Result: Sendable>(
        _ server: TestServer, clients: Int = ConcurrencyTests.clients,
        _ work: @escaping @Sendable (Int, IDSyncClient) throws -> Result
    ) throws -> [Result] {
        let crowd = Crowd(of: clients, client: { IDSyncClient(server) }, http: \.http, work)
        #expect(crowd.faults.isEmpty, "nobody is cut off, and nobody waits for long")
        return crowd.results
    }

    @Test("log in for the first time as one and the same", arguments: StoreKind.allCases)
    func firstLogin(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        for round in 1...5 {
            let identities = #"{"customerid":"c\#(round)","email":"c\#(round)@x","ios_idfv":"D\#(round)"}"#
            let answers = try atOnce(server) { _, client in
                let answer = IDSyncClient.Answer(
                    try client.call("/v1/login", IDSyncClient.body(identities), by: .web))
                return "\(answer.wire.status) \(answer.mpid) \(answer.isLoggedIn == true)"
            }
            #expect(answers.count == ConcurrencyTests.clients && Set(answers).count == 1, "\(Set(answers))")
            #expect(answers.first?.hasPrefix("200 ") == true)
            #expect(server.store.counts.people == round)
        }
    }

    @Test("move unique values to and fro, and leave each with one holder", arguments: StoreKind.allCases)
    func crossedModifies(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = IDSyncClient(server)
        let values = (0..<4).map { "v\($0)" }
        let people = try values.map { try client.identify(#"{"customerid":"\#($0)"}"#).mpid }
        let statuses = try atOnce(server) { number, client in
            var statuses: Set<Int> = []
            for turn in 0..<20 {
                // Neighbours move the same two values between the same two people, each the other way.
                let (to, first) = (people[(number + turn) % 4], values[(number + 2 * turn) % 4])
                let second = values[(number + 2 * turn + 1) % 4]
                let changes = [first, second].map {
                    #"{"identity_type":"customerid","old_value":null,"new_value":"\#($0)"}"#
                }
                let ordered = number.isMultiple(of: 2) ? changes : changes.reversed()
                let body = #"{"environment":"development","identity_changes":[\#(ordered.joined(separator: ","))]}"#
                statuses.insert(try client.call("/v1/\(to)/modify", body, by: .web).status)
            }
            return statuses
        }
        #expect(statuses.count == ConcurrencyTests.clients && statuses.allSatisfy { $0 == [200] }, "\(statuses)")
        #expect(server.store.counts.people == 4)
        for value in values {
            let holders = try client.holders("customerid", value)
            #expect(holders.count == 1 && people.contains(holders[0]), "\(value): \(holders)")
            #expect(try client.identify(#"{"customerid":"\#(value)"}"#).mpid == holders.first)
        }
    }

    /// Uploads that are the same when they come again: by what their events are called, and by what they themselves are.
    static let uploads = [
        (0..<10).map { #"{"dt":"e","id":"e\#($0)"}"# },
        (0..<10).map { #"{"dt":"e","n":"without an id, \#($0)"}"# },
    ]

    @Test("send the same upload, and it is kept once", arguments: uploads, StoreKind.allCases)
    func sameUpload(_ events: [String], _ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let mpid = try IDSyncClient(server).identify(#"{"customerid":"c"}"#).mpid
        let body = #"{"id":"upload","mpid":\#(mpid),"ui":[{"n":1,"i":"c"}],"msgs":[\#(events.joined(separator: ","))]}"#
        let statuses = try atOnce(server) { _, client in
            try client.call("/v2/\(client.server.credentials.idsyncKey)/events", body, by: .basic).status
        }
        #expect(statuses == Array(repeating: 202, count: ConcurrencyTests.clients))
        #expect(try IDSyncClient(server).timeline(mpid).count == 10)
        #expect(server.store.counts.people == 1)
    }

    @Test("send the first uploads of one new person, who is one", arguments: StoreKind.allCases)
    func newPerson(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let statuses = try atOnce(server) { number, client in
            let body =
                #"{"user_identities":{"customerid":"new"},"events":[{"event_type":"x","data":{"source_message_id":"\#(number)"}}]}"#
            return try client.call("/v2/events", body, by: .basic).status
        }
        #expect(statuses == Array(repeating: 202, count: ConcurrencyTests.clients))
        #expect(server.store.counts.people == 1)
        let mpid = try IDSyncClient(server).identify(#"{"customerid":"new"}"#).mpid
        #expect(try IDSyncClient(server).timeline(mpid, "?limit=200").count == ConcurrencyTests.clients)
    }

    @Test("lose no event beside aliases that are made and undone", arguments: StoreKind.allCases)
    func aliasesAndUploads(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = IDSyncClient(server)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let pairs = try (0..<4).map { pair in
            (
                source: try client.identify(#"{"ios_idfv":"V\#(pair)"}"#).mpid,
                destination: try client.identify(#"{"customerid":"C\#(pair)"}"#).mpid
            )
        }
        @Sendable func alias(_ pair: Int, _ client: IDSyncClient) throws -> Wire.Answer {
            let data = """
                "source_mpid":\(pairs[pair].source),"destination_mpid":\(pairs[pair].destination),\
                "start_unixtime_ms":\(now - 60_000),"end_unixtime_ms":\(now + 60_000)
                """
            return try client.call(
                "/v1/identity/\(server.credentials.idsyncKey)/alias",
                #"{"request_type":"alias","environment":"development","data":{\#(data)}}"#, by: .basic)
        }
        // Of sixteen clients twelve upload, and four make aliases of the same people and take them back.
        let statuses = try atOnce(server) { number, client in
            let pair = number % 4
            var statuses: Set<Int> = []
            for turn in 0..<8 {
                if number / 4 < 12 {
                    let ids = ["\(number)-\(turn)-a", "\(number)-\(turn)-b"]
                    let events = ids.map { #"{"event_type":"e","id":"\#($0)","ct":\#(now)}"# }.joined(separator: ",")
                    let body = #"{"mpid":\#(pairs[pair].source),"msgs":[\#(events)]}"#
                    statuses.insert(try client.call("/v2/events", body, by: .basic).status)
                } else {
                    let made = try alias(pair, client)
                    statuses.insert(made.status)
                    if let id = made["X-Onym-Alias"].flatMap(Int64.init) {
                        let seen = try client.timeline(pairs[pair].destination, "?limit=200")
                        #expect(Set(seen.compactMap { $0["origin"] as? String }).isSubset(of: [pairs[pair].source]))
                        let undone = try client.http.call(
                            "POST", "/onym/v1/aliases/\(id)/undo",
                            fields: [("Authorization", "Bearer \(server.credentials.adminKey)")], body: [])
                        statuses.insert(undone.status == 200 ? 202 : undone.status)
                    }
                }
            }
            return statuses
        }
        #expect(statuses.count == ConcurrencyTests.clients && statuses.allSatisfy { $0 == [202] }, "\(statuses)")
        for (number, pair) in pairs.enumerated() {
            let own = Set(try client.eventIDs(pair.source))
            #expect(own.count == 12 * 8 * 2)
            #expect(try client.eventIDs(pair.destination).isEmpty, "every alias was taken back")
            #expect(try alias(number, client)["X-Onym-Alias"].flatMap(Int64.init) != nil)
            #expect(Set(try client.eventIDs(pair.destination)) == own)
        }
    }
}

extension IDSyncClient {
    /// The ids of a person's events, as far as one page has them.
    fileprivate func eventIDs(_ mpid: String) throws -> [String] {
        try timeline(mpid, "?kinds=event&limit=200").compactMap { ($0["body"] as? [String: Any])?["id"] as? String }
    }

    /// Who holds an identity.
    fileprivate func holders(_ type: String, _ value: String) throws -> [String] {
        let found = try administrator("/onym/v1/people?type=\(type)&value=\(value)") as? [String: Any]
        return (found?["people"] as? [[String: Any]] ?? []).compactMap { $0["id"] as? String }
    }
}
