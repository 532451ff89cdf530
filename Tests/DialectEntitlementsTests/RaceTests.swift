import Foundation
import TestKit
import Testing

/// Clients that call at once, each on a connection of its own, on every store.
@Suite("Clients of Entitlements that call at once", .serialized, .timeLimit(.minutes(30)))
struct RaceTests {
    private static let clients = 16

    /// Has clients do something at once; answers what each came to, in no order.
    private func atOnce(
        _ access: AccessClient, _ work: @escaping @Sendable (Int, HTTPClient) throws -> String
    ) throws -> [String] {
        let server = access.server
        let crowd = Crowd(of: RaceTests.clients, client: { server.client }, http: { $0 }, work)
        #expect(crowd.faults.isEmpty, "\(crowd.faults)")
        return crowd.results
    }

    @Test("one identity is made once, and whoever comes too late finds it", arguments: StoreKind.allCases)
    func identity(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let fields = [("Authorization", "Bearer \(client.projectKey)")]
        for number in 0..<RaceTests.clients { try client.makeUser("D\(number)") }
        for round in 0..<5 {
            let path = "/v3/identities/u\(round)"
            let users = try (0..<RaceTests.clients).map { number in
                let user = "r\(round)-\(number)"
                try client.makeUser(user)
                return user
            }
            let results = try atOnce(client) { number, http in
                let answer = try http.call("POST", path, fields: fields, json: #"{"user_id":"\#(users[number])"}"#)
                guard answer.status == 422 else { return "\(answer.status) \(answer.body)" }
                let found = try http.call("GET", path, fields: fields)
                return "\(answer.body.contains("linked to another user")) \(found.body)"
            }
            let owner = try client.call("GET", path).body
            #expect(results.sorted() == (["201 \(owner)"] + Array(repeating: "true \(owner)", count: 15)).sorted())
        }
    }

    @Test("a grant and a revocation leave one or the other", arguments: StoreKind.allCases)
    func grants(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let fields = [("Authorization", "Bearer \(client.secretKey)")]
        try client.makeUser("A")
        let results = try atOnce(client) { number, http in
            let path = "/v3/users/A/entitlements"
            let answer =
                number.isMultiple(of: 2)
                ? try http.call("POST", path, fields: fields, json: #"{"id":"X","expires":18000000\#(10 + number)}"#)
                : try http.call("DELETE", "\(path)/X", fields: fields)
            return "\(answer.status)"
        }
        #expect(results == Array(repeating: "200", count: RaceTests.clients))
        let events = try client.events("A")
        // What was granted was taken back before it was granted again.
        for (place, event) in events.reversed().enumerated() {
            #expect(event == (place.isMultiple(of: 2) ? "entitlement_granted" : "entitlement_lost"))
        }
        #expect(try client.active("A") == (events.first == "entitlement_granted" ? ["X"] : []))
    }

    @Test("one of many restores has it in the end, and each moved it once", arguments: StoreKind.allCases)
    func restores(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "transfer")
        let receipt = client.receipt("X", "t1")
        try client.makeUser("A")
        _ = try client.purchase("A", receipt)
        let users = try (0..<RaceTests.clients).map { number in
            let user = "D\(number)"
            try client.makeUser(user)
            _ = try client.call("POST", "/v3/identities/u\(number)", #"{"user_id":"\#(user)"}"#)
            return user
        }
        let fields = [("Authorization", "Bearer \(client.secretKey)")]
        let results = try atOnce(client) { number, http in
            let answer = try http.call(
                "POST", "/v3/users/\(users[number])/restore", fields: fields, json: #"{"transactions":["\#(receipt)"]}"#
            )
            let from = answer.body.firstMatch(of: /"from":\["(u[0-9]+)"\]/)?.1
            return "\(from ?? "nobody") u\(number)"
        }
        // Each had it from the one before: all of them are one chain from nobody on.
        let steps = Dictionary(
            uniqueKeysWithValues: results.map { text in
                let words = text.split(separator: " ").map(String.init)
                return (words[0], words[1])
            })
        var (last, count) = ("nobody", 0)
        while let next = steps[last] {
            last = next
            count += 1
        }
        #expect(count == RaceTests.clients)
        for (number, user) in users.enumerated() {
            #expect(try client.active(user) == (last == "u\(number)" ? ["X"] : []))
        }
    }

    @Test("one purchase that is told of at once is known once", arguments: StoreKind.allCases)
    func purchases(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let receipt = client.receipt("X", "t1")
        for number in 0..<RaceTests.clients { try client.makeUser("D\(number)") }
        let fields = [("Authorization", "Bearer \(client.projectKey)")]
        let results = try atOnce(client) { number, http in
            let body = #"{"price":"1","currency":"EUR","app_store_data":{"receipt":"\#(receipt)"}}"#
            return try "\(http.call("POST", "/v3/users/D\(number)/purchases", fields: fields, json: body).status)"
        }
        #expect(results.sorted() == Array(repeating: "200", count: 15) + ["201"])
        let seen = try (0..<RaceTests.clients).filter { try client.active("D\($0)") == ["X"] }
        #expect(seen.count == RaceTests.clients, "each of them has proven that it has the account")
    }
}
