import Foundation
import TestKit
import Testing

/// Merging people and taking it back, as an administrator does, on every store.
@Suite("Merges by an administrator")
struct MergeTests {
    private func identify(_ server: TestServer, _ identities: String) throws -> String {
        let answer = try server.client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
            json: #"{"environment":"development","known_identities":\#(identities)}"#)
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return try #require(object?["mpid"] as? String)
    }

    private func call(_ server: TestServer, _ method: String, _ path: String, _ json: String? = nil) throws
        -> Wire.Answer
    {
        let fields = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        guard let json else { return try server.client.call(method, path, fields: fields) }
        return try server.client.call(method, path, fields: fields, json: json)
    }

    @Test(
        "identify still answers each member's own MPID, and looking shows the whole (decision 14)",
        arguments: StoreKind.allCases)
    func merge(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let (one, two) = (try identify(server, #"{"customerid":"a"}"#), try identify(server, #"{"customerid":"b"}"#))
        let body = #"{"from":"\#(one)","into":"\#(two)"}"#
        let answer = try call(server, "POST", "/onym/v1/merges", body)
        #expect(answer.status == 200 && answer.body.contains(#""into":"\#(two)""#), "\(answer)")
        #expect(try identify(server, #"{"customerid":"a"}"#) == one)
        #expect(try identify(server, #"{"customerid":"b"}"#) == two)
        for id in [one, two, "customerid:a"] {
            let shown = try call(server, "GET", "/onym/v1/people/\(id)")
            let person = try JSONSerialization.jsonObject(with: Data(shown.body.utf8)) as? [String: Any]
            #expect(person?["root"] as? String == two)
            #expect(Set(person?["members"] as? [String] ?? []) == [one, two])
            #expect((person?["identities"] as? [Any])?.count == 2)
        }
        #expect(try call(server, "POST", "/onym/v1/merges", body).status == 409)
        let id = try #require(answer.body.split(separator: "\"").first { $0.hasPrefix("m_") })
        #expect(try call(server, "POST", "/onym/v1/merges/\(id)/undo", "{}").status == 200)
        #expect(try call(server, "POST", "/onym/v1/merges/\(id)/undo", "{}").status == 404)
        let shown = try call(server, "GET", "/onym/v1/people/\(one)")
        #expect(shown.body.contains(#""members":["\#(one)"]"#))
    }

    @Test(
        "refuses what is no merge",
        arguments: [
            ("{}", 400), ("[]", 400), (#"{"from":"1","into":"x"}"#, 400), (#"{"from":1,"into":"2"}"#, 400),
            (#"{"from":"1","into":"2"}"#, 404), (#"{"from":"1","into":"2","because":""}"#, 400),
        ])
    func refuses(_ body: String, _ status: Int) throws {
        let server = try TestServer(.memory)
        #expect(try call(server, "POST", "/onym/v1/merges", body).status == status)
    }
}
