import Foundation
import TestKit
import Testing

/// Calls with `?if_seq=`: what a person has seen in a dry run is done, or nothing is done.
@Suite("A call after its dry run")
struct IfUnchangedTests {
    /// A call that can be tried first, and the person whose change it must notice.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let method: String
        let path: String
        let body: String?
        let changing: String
        var testDescription: String { name }

        static let all = [
            Case(
                name: "merge", method: "POST", path: "/merges",
                body: #"{"from":"customerid:ada","into":"email:ada@example.com"}"#, changing: "email:ada@example.com"),
            Case(
                name: "erase", method: "DELETE", path: "/people/customerid:ada", body: nil, changing: "customerid:ada"),
            Case(
                name: "grant", method: "POST", path: "/people/access_user_id:QON_one/grants",
                body: #"{"entitlement":"pro"}"#, changing: "access_user_id:QON_one"),
            Case(
                name: "attach", method: "POST", path: "/people/customerid:ada/identities",
                body: #"{"type":"google","value":"g"}"#, changing: "customerid:ada"),
            Case(
                name: "detach", method: "DELETE", path: "/people/customerid:ada/identities/ios_idfv/PHONE-1", body: nil,
                changing: "customerid:ada"),
            Case(
                name: "release", method: "POST", path: "/devices/ios_idfv/PHONE-1/release", body: "{}",
                changing: "customerid:ada"),
        ]
    }

    private func client(_ kind: StoreKind) throws -> NativeClient {
        let client = try NativeClient(kind)
        _ = try client.identify(#"{"customerid":"ada","ios_idfv":"PHONE-1"}"#)
        _ = try client.identify(#"{"email":"ada@example.com"}"#)
        #expect(try client.call("PUT", "/onym/v1/entitlements/pro", "{}").status == 200)
        let key = client.server.credentials.entitlementsProjectKey
        let made = try client.server.client.call(
            "POST", "/v3/users/QON_one", fields: [("Authorization", "Bearer \(key)")], json: #"{"environment":"prod"}"#)
        #expect(made.status == 201)
        return client
    }

    private func change(_ client: NativeClient, _ person: String, _ value: String) throws {
        let made = try client.post(
            "/onym/v1/people/\(person)/identities", #"{"type":"facebook","value":"\#(value)"}"#)
        #expect(made.status == 200, "\(made)")
    }

    private func repeated(_ client: NativeClient, _ wanted: Case, _ seen: Int) throws -> JSONAnswer {
        let fields = [("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", "k")]
        let path = "/onym/v1\(wanted.path)?if_seq=\(seen)"
        guard let body = wanted.body else {
            return JSONAnswer(try client.server.client.call(wanted.method, path, fields: fields))
        }
        return JSONAnswer(try client.server.client.call(wanted.method, path, fields: fields, json: body))
    }

    private func dry(_ client: NativeClient, _ wanted: Case) throws -> Int {
        let answer = try client.call(wanted.method, "/onym/v1\(wanted.path)?dry_run=true", wanted.body)
        #expect(answer.status == 200, "\(answer)")
        return try #require(answer["last_seq"] as? Int, "\(answer)")
    }

    @Test("is refused if one of its people changed meanwhile, and is done otherwise", arguments: Case.all)
    func refused(_ wanted: Case) throws {
        for kind in StoreKind.allCases {
            let client = try client(kind)
            let first = try dry(client, wanted)
            try change(client, wanted.changing, "f1")
            let late = try client.call(wanted.method, "/onym/v1\(wanted.path)?if_seq=\(first)", wanted.body)
            #expect(late.status == 409 && late.code == "changed_meanwhile", "\(late)")
            let dry = try client.call(wanted.method, "/onym/v1\(wanted.path)?dry_run=true&if_seq=\(first)", wanted.body)
            #expect(dry.status == 409 && dry.code == "changed_meanwhile", "\(dry)")
            let second = try self.dry(client, wanted)
            #expect(second > first)
            let done = try client.call(wanted.method, "/onym/v1\(wanted.path)?if_seq=\(second)", wanted.body)
            #expect(done.status == 200, "\(done)")
        }
    }

    @Test("does not mind changes of other people", arguments: Case.all)
    func others(_ wanted: Case) throws {
        let client = try client(.memory)
        let seen = try dry(client, wanted)
        _ = try client.identify(#"{"customerid":"bob"}"#)
        let done = try client.call(wanted.method, "/onym/v1\(wanted.path)?if_seq=\(seen)", wanted.body)
        #expect(done.status == 200, "\(done)")
    }

    @Test(
        "that is sent again under its key gets the first answer, although the first call changed the people",
        arguments: Case.all.filter { $0.name != "erase" && $0.name != "release" && $0.name != "detach" })
    func again(_ wanted: Case) throws {
        for kind in StoreKind.allCases {
            let client = try client(kind)
            let seen = try dry(client, wanted)
            let (first, second) = (try repeated(client, wanted, seen), try repeated(client, wanted, seen))
            #expect(first.status == 200 && second.status == 200, "\(second)")
            try change(client, wanted.changing, "f1")
            let fresh = JSONAnswer(
                try client.server.client.call(
                    wanted.method, "/onym/v1\(wanted.path)?if_seq=\(seen)",
                    fields: [
                        ("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", "other"),
                    ], json: wanted.body ?? "{}"))
            #expect(fresh.status == 409 && ["changed_meanwhile", "one_already"].contains(fresh.code), "\(fresh)")
        }
    }

    @Test("that undoes a merge notices a change on both sides", arguments: StoreKind.allCases)
    func undo(_ kind: StoreKind) throws {
        let client = try client(kind)
        let merge = try client.merge("customerid:ada", into: "email:ada@example.com")
        let path = "/onym/v1/merges/\(merge)/undo"
        for (place, person) in ["customerid:ada", "email:ada@example.com"].enumerated() {
            let seen = try #require(try client.post("\(path)?dry_run=true")["last_seq"] as? Int)
            try change(client, person, "f\(place)")
            for query in ["", "&dry_run=true"] {
                let late = try client.post("\(path)?if_seq=\(seen)\(query)")
                #expect(late.status == 409 && late.code == "changed_meanwhile", "\(late)")
            }
        }
        let seen = try #require(try client.post("\(path)?dry_run=true")["last_seq"] as? Int)
        #expect(try client.post("\(path)?if_seq=\(seen)").status == 200)
    }

    @Test("attaches and detaches what the dry run said, and tells refusals in the dry run already")
    func identities() throws {
        let client = try client(.memory)
        let two = try client.identify(#"{"customerid":"bob"}"#)
        let path = "/onym/v1/people/\(two)/identities"
        let held = try client.post("\(path)?dry_run=true", #"{"type":"customerid","value":"ada"}"#)
        #expect(held.status == 409 && held.code == "held_elsewhere", "\(held)")
        let gone = try client.call("DELETE", "\(path)/ios_idfv/PHONE-1?dry_run=true")
        #expect(gone.status == 404, "\(gone)")
        let dry = try client.post("\(path)?dry_run=true", #"{"type":"ios_idfv","value":"PHONE-1"}"#)
        #expect((dry["now"] as? [String])?.count == 1 && (dry["then"] as? [String])?.count == 2, "\(dry)")
        #expect((dry["then"] as? [String])?.contains(two) == true && dry["dry_run"] as? Bool == true)
        #expect(try client.get("/onym/v1/people?type=ios_idfv&value=PHONE-1").list("people").count == 1)
        #expect(try client.post(path, #"{"type":"ios_idfv","value":"PHONE-1"}"#).status == 200)
        let free = try client.post("/onym/v1/devices/ios_idfv/PHONE-1/release?dry_run=true")
        #expect(free["released_from"] as? Int == 2 && (free["now"] as? [String])?.count == 2, "\(free)")
        #expect((free["then"] as? [String])?.isEmpty == true)
        #expect(try client.post("/onym/v1/devices/ios_idfv/NONE/release?dry_run=true").status == 404)
        for query in ["if_seq=x", "if_seq=-1", "dry_run=maybe"] {
            #expect(try client.post("/onym/v1/devices/ios_idfv/PHONE-1/release?\(query)").status == 400, "\(query)")
        }
    }
}
