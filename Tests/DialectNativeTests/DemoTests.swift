import Domain
import Foundation
import TestKit
import Testing

/// The demo data (spec/console.md 4): what it has, and that its removal leaves nothing of it and takes nothing else.
@Suite("Demo data")
struct DemoTests {
    private static let path = "/onym/v1/demo"

    private func names(_ client: NativeClient) throws -> Set<String> {
        let all = try client.post("/onym/v1/export").wire.body
        return Set(
            all.split(separator: "\n").compactMap { line -> String? in
                guard let json = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
                    json["kind"] as? String == "link", let type = json["type"] as? String, type != "linking_install_id"
                else { return nil }
                return "\(type):\(json["value"] as? String ?? "")"
            })
    }

    @Test(
        "has 200 people of all dialects, twelve merges, and can be removed and made again",
        arguments: StoreKind.allCases)
    func whole(_ kind: StoreKind) throws {
        let client = NativeClient(try TestServer(kind, configure: { $0.isForTrying = true }))
        let planned = try client.post("\(DemoTests.path)?dry_run=true")
        #expect(planned.status == 200 && planned["people"] as? Int == 200, "\(planned)")
        #expect(try client.get("/onym/v1/stats")["people"] as? Int == 0, "a dry run changes nothing")

        let made = try client.post(DemoTests.path)
        #expect(made.status == 201, "\(made)")
        let stats = try client.get("/onym/v1/stats")
        #expect(stats["people"] as? Int == 200 && made["people"] as? Int == 200, "\(stats)")
        #expect(stats["merges"] as? Int == 12 && made["merges"] as? Int == 12, "\(stats)")
        let imported = try #require(try client.get("/onym/v1/imports").list("imports").first)
        #expect(imported["refused"] as? Int == 0, "every record is taken: \(imported)")

        // Each dialect finds its people.
        for name in [
            "customerid:demo-1001", "claim_user_id:demo-1117", "access_identity:demo-1161",
            "linking_external_id:demo-1185",
        ] {
            #expect(try client.get("/onym/v1/people/\(name)").status == 200, "\(name)")
        }
        let tablet = try #require(made.text("shared_tablet"))
        let colon = try #require(tablet.firstIndex(of: ":"))
        let holders = try client.get(
            "/onym/v1/people?type=\(tablet[..<colon])&value=\(tablet[tablet.index(after: colon)...])")
        #expect(holders.list("people").count == 4, "\(holders)")
        // Some purchases give access, and some have ended.
        let customers = try (1161...1184).compactMap { number -> NativeClient.Answer? in
            let access = try client.get("/onym/v1/people/access_identity:demo-\(number)/access")
            return access.status == 200 ? access : nil
        }
        #expect(customers.contains { !$0.list("access").isEmpty } && customers.contains { !$0.list("ended").isEmpty })
        // One merge is wrong, and can be undone; one call was refused.
        let wrong = try #require(made.text("wrong_merge"))
        #expect(try client.post("/onym/v1/merges/\(wrong)/undo?dry_run=true").status == 200)
        let kinds = try client.get("/onym/v1/changes?kinds=refused&limit=10").list("changes")
        #expect(kinds.count == 1, "\(kinds)")
        let first = try names(client)

        #expect(try client.get(DemoTests.path)["made"] as? Bool == true)
        let again = try client.post(DemoTests.path)
        #expect(again.status == 409 && again.text("code") == "not_empty", "\(again)")

        let counted = try client.call("DELETE", "\(DemoTests.path)?dry_run=true")
        #expect(counted["erased"] as? Int == 200 && counted.list("left").isEmpty, "\(counted)")
        let removed = try client.call("DELETE", DemoTests.path)
        #expect(removed["erased"] as? Int == 200, "\(removed)")
        #expect(try client.get("/onym/v1/people/customerid:demo-1001").status == 404)
        #expect(try client.get("/onym/v1/entitlements").list("entitlements").isEmpty, "the product is removed, too")
        #expect(try client.get(DemoTests.path)["possible"] as? Bool == true)
        #expect(try names(client).isEmpty)

        // No tombstone is left, so the same people can be made again.
        let second = try client.post(DemoTests.path)
        #expect(second.status == 201, "\(second)")
        #expect(try names(client) == first, "the names are the same each time")
        #expect(try client.call("DELETE", DemoTests.path)["erased"] as? Int == 200)
    }

    @Test("leaves other people alone: it is made beside them, and none is erased with it")
    func others() throws {
        let client = NativeClient(try TestServer(.memory, configure: { $0.isForTrying = true }))
        let first = try client.identify(#"{"customerid":"first","email":"ada.berg@example.com"}"#)
        #expect(try client.get(DemoTests.path)["possible"] as? Bool == true)
        let made = try client.post(DemoTests.path)
        #expect(made.status == 201 && made["people"] as? Int == 200, "\(made)")
        // A person who is no demo data, and one whom a merge joined with demo data.
        let own = try client.identify(#"{"customerid":"own"}"#)
        let joined = try client.identify(#"{"customerid":"joined"}"#)
        _ = try client.merge(joined, into: "customerid:demo-1002")
        let removed = try client.call("DELETE", DemoTests.path)
        #expect(removed["erased"] as? Int == 199 && removed["left"] as? [String] != [], "\(removed)")
        #expect(try client.get("/onym/v1/people/\(own)").status == 200)
        #expect(try client.get("/onym/v1/people/\(joined)").status == 200)
        #expect(try client.get("/onym/v1/people/customerid:demo-1002").status == 200)
        #expect(try client.get("/onym/v1/people/\(first)").status == 200)
        let refused = try client.post(DemoTests.path)
        #expect(refused.status == 409 && refused.text("code") == "not_empty", "\(refused)")
        #expect(refused.text("detail")?.contains("Undo") == true, "\(refused)")
    }

    @Test("can be made again after one of its people was erased alone", arguments: StoreKind.allCases)
    func erasedAlone(_ kind: StoreKind) throws {
        let client = NativeClient(try TestServer(kind, configure: { $0.isForTrying = true }))
        #expect(try client.post(DemoTests.path).status == 201)
        // A member of a merge, so that making the data again needs the person.
        #expect(try client.call("DELETE", "/onym/v1/people/customerid:demo-1004").status == 200)
        #expect(try client.call("DELETE", DemoTests.path).status == 200)
        let again = try client.post(DemoTests.path)
        #expect(again.status == 201, "\(again)")
        let imported = try #require(try client.get("/onym/v1/imports").list("imports").first)
        #expect(imported["refused"] as? Int == 0, "every record is taken: \(imported)")
        #expect(try client.get("/onym/v1/people/customerid:demo-1004").status == 200)
    }

    @Test("is for development mode only")
    func production() throws {
        let client = NativeClient(try TestServer(.memory, configure: { $0.isForTrying = false }))
        let refused = try client.post(DemoTests.path)
        #expect(refused.status == 409 && refused.text("code") == "not_empty", "\(refused)")
        #expect(refused.text("detail")?.contains("production") == true)
        #expect(try client.get(DemoTests.path)["possible"] as? Bool == false)
    }
}
