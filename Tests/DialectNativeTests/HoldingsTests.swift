import Foundation
import TestKit
import Testing

/// What a person has in every dialect, as it is shown, exported and merged, on every store.
@Suite("What a person has")
struct HoldingsTests {
    /// A person of each dialect, merged one after the other into the one of IDSync.
    private struct Scene {
        let client: NativeClient
        let mpid: String
        let claimed: String
        let buyer: String
        let installed: String
        let installID: String

        private static func call(
            _ client: NativeClient, _ method: String, _ path: String, key: String, _ json: String
        ) throws -> NativeClient.Answer {
            let answer = NativeClient.Answer(
                try client.server.client.call(method, path, fields: [("Authorization", "Bearer \(key)")], json: json))
            #expect((200...201).contains(answer.status), "\(answer)")
            return answer
        }

        private static func person(_ client: NativeClient, _ type: String, _ value: String) throws -> String {
            let people = try client.get("/onym/v1/people?type=\(type)&value=\(value)").list("people")
            return try #require(people.first?["id"] as? String)
        }

        init(_ kind: StoreKind) throws {
            let client = try NativeClient(kind)
            let keys = client.server.credentials
            self.client = client
            mpid = try client.identify(#"{"customerid":"ada"}"#)
            _ = try Scene.call(
                client, "POST", "/v1/identity/claim", key: keys.claimClientKey,
                #"{"anonymous_id":"owl_anon_a","user_id":"ada-claim"}"#)
            _ = try Scene.call(
                client, "POST", "/v1/identity/properties", key: keys.claimClientKey,
                #"{"user_id":"ada-claim","properties":{"plan":"gold"}}"#)
            claimed = try Scene.person(client, "claim_user_id", "ada-claim")
            _ = try Scene.call(
                client, "POST", "/v3/users/QON_ada", key: "test_" + keys.entitlementsProjectKey,
                #"{"environment":"sandbox"}"#)
            _ = try Scene.call(
                client, "POST", "/v3/users/QON_ada/properties", key: "test_" + keys.entitlementsProjectKey,
                #"[{"key":"_q_email","value":"ada@example.com"}]"#)
            _ = try client.call("PUT", "/onym/v1/products/monthly", #"{"type":"subscription","duration":"P1M"}"#)
            _ = try client.call("PUT", "/onym/v1/entitlements/pro", #"{"products":["monthly"]}"#)
            let receipt = try #require(
                try client.post(
                    "/onym/v1/receipts", #"{"product":"monthly","source":"appstore","store_account":"acct"}"#
                )
                .text("receipt"))
            _ = try Scene.call(
                client, "POST", "/v3/users/QON_ada/purchases", key: "test_" + keys.entitlementsProjectKey,
                #"{"price":"1.00","currency":"usd","purchased":1750000000,"app_store_data":{"receipt":"\#(receipt)"}}"#)
            buyer = try Scene.person(client, "sandbox_user_id", "QON_ada")
            let install = try Scene.call(
                client, "POST", "/sdk/installs", key: keys.linkingAppID,
                """
                {"app_id":"\(keys.linkingAppID)","secret":"\(keys.linkingAppSecret)","device":{"class":"phone"},\
                "sdk":{"version":"1.0"}}
                """)
            installID = try #require(install.text("install_id"))
            installed = try #require(try client.get("/onym/v1/installs/\(installID)").text("person"))
        }
    }

    @Test("is read from every member, each thing under the dialect that it came by", arguments: StoreKind.allCases)
    func document(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        for person in [scene.claimed, scene.buyer, scene.installed] {
            _ = try scene.client.merge(person, into: scene.mpid)
        }
        let person = try scene.client.get("/onym/v1/people/\(scene.mpid)")
        let ids = try #require(person["ids"] as? [String: [String]])
        #expect(ids["mpid"]?.count == 5 && ids["qonversion"] == ["QON_ada"] && ids["claim_user_id"] == ["ada-claim"])
        let installs = person.list("installs")
        #expect(installs.count == 1 && installs[0]["install_id"] as? String == scene.installID, "\(person)")
        let purchases = person.list("purchases")
        try #require(!purchases.isEmpty, "\(person)")
        #expect(purchases.count == 1 && purchases[0]["product"] as? String == "monthly", "\(person)")
        #expect(purchases[0]["source"] as? String == "appstore" && purchases[0]["environment"] as? String == "sandbox")
        let properties = try #require(person["properties"] as? [String: [String: [String: Any]]])
        #expect(properties["claim"]?["plan"]?["value"] as? String == "gold", "\(person)")
        #expect(properties["entitlements"]?["_q_email"]?["value"] as? String == "ada@example.com")
    }

    @Test("goes with a merge, which says so before", arguments: StoreKind.allCases)
    func dryRun(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        func moved(_ from: String) throws -> [String: Int] {
            let answer = try scene.client.post(
                "/onym/v1/merges?dry_run=true", #"{"from":"\#(from)","into":"\#(scene.mpid)"}"#)
            let moved = try #require(answer["moved"] as? [String: Any], "\(answer)")
            return moved.compactMapValues { $0 as? Int }
        }
        #expect(try moved(scene.buyer) == ["identities": 1, "purchases": 1, "installs": 0])
        #expect(try moved(scene.installed) == ["identities": 1, "purchases": 0, "installs": 1])
        #expect(try moved(scene.claimed)["purchases"] == 0)
    }

    @Test("is exported whole, also what the whole does not show", arguments: StoreKind.allCases)
    func export(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        _ = try scene.client.merge(scene.claimed, into: scene.mpid)
        _ = try scene.client.merge(scene.buyer, into: scene.mpid)
        _ = try scene.client.merge(scene.installed, into: scene.mpid)
        let lines = try scene.client.post("/onym/v1/people/\(scene.mpid)/export").wire.body.split(separator: "\n")
            .compactMap { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
        func all(_ kind: String) -> [[String: Any]] { lines.filter { $0["kind"] as? String == kind } }
        let properties = all("property")
        #expect(
            Set(properties.map { "\($0["dialect"] ?? "") \($0["name"] ?? "") \($0["value"] ?? "")" })
                == ["claim plan gold", "entitlements _q_email ada@example.com"])
        #expect(all("install").map { $0["install_id"] as? String } == [scene.installID])
        #expect(all("purchase").map { $0["product"] as? String } == ["monthly"])
    }

    @Test("is found by ids that say themselves what they are", arguments: StoreKind.allCases)
    func telling(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        #expect(try scene.client.get("/onym/v1/people/QON_ada").text("id") == scene.buyer)
        let anonymous = try scene.client.get("/onym/v1/people/owl_anon_a")
        #expect(anonymous.text("root") == scene.claimed, "\(anonymous)")
        #expect(try scene.client.get("/onym/v1/people/QON_nobody").status == 404)
    }
}
