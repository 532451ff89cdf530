import Foundation
import TestKit
import Testing

/// Calls a server as its administrator does, and as apps of its demo project do.
struct NativeClient {
    let server: TestServer

    init(_ kind: StoreKind) throws { server = try TestServer(kind) }
    init(_ server: TestServer) { self.server = server }

    /// A client of a server that counts what its reads get from the store.
    init(_ kind: StoreKind, counter: ReadCounter) throws {
        server = try TestServer(
            kind,
            wrap: { store in
                let failing = FailingStore(store)
                failing.readCounter.withLock { $0 = counter }
                return failing
            })
    }

    typealias Answer = JSONAnswer

    func call(_ method: String, _ path: String, _ json: String? = nil) throws -> Answer {
        let fields = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        guard let json else { return Answer(try server.client.call(method, path, fields: fields)) }
        return Answer(try server.client.call(method, path, fields: fields, json: json))
    }

    func get(_ path: String) throws -> Answer { try call("GET", path) }
    func post(_ path: String, _ json: String = "{}") throws -> Answer { try call("POST", path, json) }

    /// Has an app identify somebody; answers the MPID.
    @discardableResult
    func identify(_ identities: String, _ call: String = "identify") throws -> String {
        let answer = Answer(
            try server.client.call(
                "POST", "/v1/\(call)", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
                json: #"{"environment":"development","known_identities":\#(identities)}"#))
        return try #require(answer.text("mpid"), "\(answer)")
    }

    /// Calls the Claim dialect as an app does: `claim` or `properties`.
    func claimDialect(_ call: String, _ json: String) throws -> Answer {
        let fields = [("Authorization", "Bearer \(server.credentials.claimClientKey)")]
        return Answer(try server.client.call("POST", "/v1/identity/\(call)", fields: fields, json: json))
    }

    /// Merges two people; answers the merge.
    func merge(_ from: String, into: String) throws -> String {
        let answer = try post("/onym/v1/merges", #"{"from":"\#(from)","into":"\#(into)"}"#)
        return try #require(answer.text("id"), "\(answer)")
    }

    /// Has e-mail addresses belong to one person each.
    func makeEmailUnique() throws {
        let answer = try call("PUT", "/onym/v1/strategy", #"{"unique":["customerid","email"]}"#)
        #expect(answer.status == 200, "\(answer)")
    }

    /// Has a person replace some e-mail addresses by others, so many times; answers the person.
    func replaceAddresses(_ count: Int, times: Int) throws -> String {
        let person = try identify(#"{"customerid":"changing"}"#)
        for time in 0..<times {
            let changes = (0..<count).map { number in
                let old = time == 0 ? "null" : #""a\#(number).\#(time - 1)""#
                return #"{"identity_type":"email","old_value":\#(old),"new_value":"a\#(number).\#(time)"}"#
            }
            #expect(try modify(person, "[\(changes.joined(separator: ","))]").status == 200)
        }
        return person
    }

    func modify(_ mpid: String, _ changes: String) throws -> Answer {
        Answer(
            try server.client.call(
                "POST", "/v1/\(mpid)/modify", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
                json: #"{"environment":"development","identity_changes":\#(changes)}"#))
    }
}
