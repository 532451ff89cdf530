import Foundation
import TestKit
import Testing

/// Access that a support team grants without a purchase, and takes back.
@Suite("Grants of access by a support team")
struct GrantTests {
    private func user(_ client: NativeClient, _ id: String) throws -> String {
        let credentials = client.server.credentials
        let answer = JSONAnswer(
            try client.server.client.call(
                "POST", "/v3/users/\(id)", fields: [("Authorization", "Bearer \(credentials.entitlementsProjectKey)")],
                json: #"{"environment":"prod"}"#))
        #expect(answer.status == 201, "\(answer)")
        return id
    }

    private func entitlements(_ answer: NativeClient.Answer, _ name: String) -> [String] {
        answer.list(name).compactMap { $0["entitlement"] as? String }
    }

    @Test("give access, are journalled with their reason, and end", arguments: StoreKind.allCases)
    func whole(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        #expect(try client.call("PUT", "/onym/v1/entitlements/pro", "{}").status == 200)
        let person = "access_user_id:\(try user(client, "QON_one"))"
        let path = "/onym/v1/people/\(person)"
        let body = #"{"entitlement":"pro","until":"2099-01-31T00:00:00Z","reason":"lost receipt"}"#
        let dry = try client.post("\(path)/grants?dry_run=true", body)
        #expect(dry.status == 200 && entitlements(dry, "now").isEmpty && entitlements(dry, "then") == ["pro"], "\(dry)")
        #expect(try client.get("\(path)/access").list("access").isEmpty, "a dry run changes nothing")

        let made = try client.post("\(path)/grants", body)
        #expect(made.status == 200 && made.text("principal") == "QON_one", "\(made)")
        #expect(made.list("then").first?["until"] as? String == "2099-01-31T00:00:00.000Z", "\(made)")
        let access = try client.get("\(path)/access")
        #expect(entitlements(access, "access") == ["pro"], "\(access)")
        let journal = try client.get("\(path)/journal")
        #expect(journal.wire.body.contains("lost receipt"), "\(journal)")
        // A grant that is still active stays.
        let again = try client.post("\(path)/grants", #"{"entitlement":"pro"}"#)
        #expect(again.list("then").first?["until"] as? String == "2099-01-31T00:00:00.000Z", "\(again)")

        let ending = try client.call("DELETE", "\(path)/grants/pro?dry_run=true")
        #expect(entitlements(ending, "now") == ["pro"] && entitlements(ending, "then").isEmpty, "\(ending)")
        #expect(try client.call("DELETE", "\(path)/grants/pro", #"{"reason":"found it"}"#).status == 200)
        #expect(try client.get("\(path)/access").list("access").isEmpty)
        #expect(try client.get("\(path)/journal").wire.body.contains("found it"))
        #expect(try client.call("DELETE", "\(path)/grants/pro").status == 404)
    }

    @Test("are refused in words that say what to do")
    func refusals() throws {
        let client = try NativeClient(.memory)
        #expect(try client.call("PUT", "/onym/v1/entitlements/pro", "{}").status == 200)
        let person = try client.identify(#"{"customerid":"ada"}"#)
        let none = try client.post("/onym/v1/people/\(person)/grants", #"{"entitlement":"pro"}"#)
        #expect(none.status == 409 && none.code == "no_access_user", "\(none)")
        for id in ["QON_a", "QON_b"] { _ = try user(client, id) }
        let path = "/onym/v1/people/access_user_id:QON_a/grants"
        #expect(try client.post(path, #"{"entitlement":"plus"}"#).code == "not_found")
        #expect(try client.post(path, #"{"entitlement":"pro","until":"2001-01-01T00:00:00Z"}"#).status == 400)
        #expect(try client.post(path, "{}").code == "validation_error")
        #expect(try client.post(path, #"{"entitlement":"pro","color":"red"}"#).status == 400)
        #expect(try client.post("/onym/v1/people/77/grants", #"{"entitlement":"pro"}"#).status == 404)
        // Two users of one person: the name of one user means this user.
        _ = try client.merge("access_user_id:QON_a", into: person)
        _ = try client.merge("access_user_id:QON_b", into: person)
        let both = try client.post("/onym/v1/people/\(person)/grants", #"{"entitlement":"pro"}"#)
        #expect(both.status == 409 && both.code == "ambiguous", "\(both)")
        #expect(try client.post(path, #"{"entitlement":"pro"}"#).text("principal") == "QON_a")
    }
}
