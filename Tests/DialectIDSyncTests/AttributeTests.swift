import Domain
import Foundation
import TestKit
import Testing

/// Tags and deletions of user attributes, in every form of every client (spec/idsync-clients.md 3).
@Suite("User attributes")
struct AttributeTests {
    /// A way in which a client removes an attribute.
    struct Way: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let path: String
        /// The body, for an MPID, a name and a time.
        let body: @Sendable (_ mpid: String, _ name: String, _ time: Int64) -> String
    }

    static let ways: [Way] = [
        Way(testDescription: "a back end's list", path: "/v2/events") { mpid, name, time in
            #"{"mpid":\#(mpid),"timestamp_unixtime_ms":\#(time),"deleted_user_attributes":["\#(name)"]}"#
        },
        Way(testDescription: "a native list", path: "/v2/KEY/events") { mpid, name, time in
            #"{"mpid":\#(mpid),"ct":\#(time),"uad":["\#(name)"],"msgs":[]}"#
        },
        Way(testDescription: "a native event", path: "/v2/KEY/events") { mpid, name, time in
            """
            {"mpid":\(mpid),"ct":\(time),"msgs":[{"dt":"uac","n":"\(name)","nv":null,"ov":"1","d":true,"na":false,\
            "ct":\(time)}]}
            """
        },
        Way(testDescription: "a web event", path: "/v3/JS/KEY/events") { mpid, name, time in
            """
            {"mpid":"\(mpid)","timestamp_unixtime_ms":\(time),"user_attributes":{},"events":[\
            {"event_type":"user_attribute_change","data":{"user_attribute_name":"\(name)","new":null,"old":"1",\
            "deleted":true,"is_new_attribute":false,"timestamp_unixtime_ms":\(time)}}]}
            """
        },
    ]

    private func send(_ client: IDSyncClient, _ path: String, _ body: String) throws {
        let answer = try client.call(
            path.replacing("KEY", with: client.server.credentials.idsyncKey), body, by: .basic)
        #expect(answer.status == 202, "\(answer)")
    }

    /// The state of a client's attributes, in the form of the path's clients.
    private func set(_ client: IDSyncClient, _ path: String, _ mpid: String, _ values: String, _ time: Int64) throws {
        let isNative = path == "/v2/KEY/events"
        let (time, key) = (
            isNative ? #""ct":\#(time)"# : #""timestamp_unixtime_ms":\#(time)"#, isNative ? "ua" : "user_attributes"
        )
        try send(client, path, #"{"mpid":\#(mpid),\#(time),"\#(key)":\#(values)}"#)
    }

    @Test("are no lists of lists, and together no more than each change may write", arguments: StoreKind.allCases)
    func bounded(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        func send(_ name: String, _ value: String) throws {
            try self.send(client, "/v2/events", #"{"mpid":\#(mpid),"user_attributes":{"\#(name)":\#(value)}}"#)
        }
        try send("nested", #"[["deep"]]"#)
        try send("objects", #"[{"a":"deep"}]"#)
        try send("list", #"["a",1,true]"#)
        #expect(try client.attributes(of: mpid) == ["list": #"["a",1,true]"#])
        let element = "\"\(String(repeating: "x", count: 510))\""
        let large = "[\(Array(repeating: element, count: 400).joined(separator: ","))]"
        for name in ["a", "b", "c", "d", "e", "f"] { try send(name, large) }
        #expect(try Set(client.attributes(of: mpid).keys) == ["list", "a", "b", "c", "d", "e"])
        try send("a", "1")
        try send("f", large)
        #expect(try client.attributes(of: mpid)["f"] == large, "a smaller value makes room")
    }

    @Test("are tagged and removed in four ways", arguments: ways, StoreKind.allCases)
    func fourWays(_ way: Way, _ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        try set(client, way.path, mpid, #"{"vip":null,"plan":"pro","big":9007199254740993}"#, 1000)
        let all = ["vip": "null", "plan": #""pro""#]
        #expect(try client.attributes(of: mpid).filter { $0.key != "big" } == all)
        // Numbers keep their digits.
        #expect(try client.personText(mpid).contains(#""big":{"value":9007199254740993,"#))
        // JavaScript writes long integers, and halves of what it has cut.
        try set(client, way.path, mpid, #"{"long":123456789012345680000,"cut":"a\ud83d"}"#, 1000)
        #expect(try client.attributes(of: mpid)["cut"] == "\"a\u{FFFD}\"")
        #expect(try client.personText(mpid).contains(#""long":{"value":1.2345678901234568e+20,"#))
        try send(client, way.path, way.body(mpid, "long", 1100))
        try send(client, way.path, way.body(mpid, "cut", 1100))
        try send(client, way.path, way.body(mpid, "vip", 2000))
        #expect(try client.attributes(of: mpid)["vip"] == nil)
        // An upload from before the removal comes late; one from after it counts.
        try set(client, way.path, mpid, #"{"vip":null,"plan":"basic"}"#, 1500)
        #expect(try client.attributes(of: mpid)["vip"] == nil && client.attributes(of: mpid)["plan"] == #""basic""#)
        try send(client, way.path, way.body(mpid, "plan", 1400))
        #expect(try client.attributes(of: mpid)["plan"] == #""basic""#, "a late removal undoes nothing newer")
        // The history has the names, and says which went.
        let calls = try client.administrator("/onym/v1/people/\(mpid)/journal") as? [String: Any]
        let facts = (calls?["calls"] as? [[String: Any]] ?? []).flatMap { $0["facts"] as? [[String: Any]] ?? [] }
        #expect(facts.contains { $0["removed"] as? [String] == ["vip"] && $0["written"] as? [String] == [] })
    }

    @Test("are removed on the side of a merge that had them, and come back with an undo", arguments: ways)
    func merges(_ way: Way) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let (one, two) = (
            try client.identify(#"{"customerid":"1"}"#).mpid, try client.identify(#"{"customerid":"2"}"#).mpid
        )
        try set(client, way.path, one, #"{"vip":null,"one":"1"}"#, 1000)
        try set(client, way.path, two, #"{"two":"2"}"#, 1000)
        let merge = try client.post("/onym/v1/merges", #"{"from":"\#(one)","into":"\#(two)","reason":"test"}"#)
        let id = try #require(merge["id"] as? String)
        #expect(try client.attributes(of: two).keys.sorted() == ["one", "two", "vip"])
        try send(client, way.path, way.body(one, "vip", 2000))
        #expect(try client.attributes(of: two).keys.sorted() == ["one", "two"])
        try set(client, way.path, two, #"{"vip":null}"#, 3000)
        #expect(try client.attributes(of: one)["vip"] == "null")
        _ = try client.post("/onym/v1/merges/\(id)/undo", #"{"reason":"test"}"#)
        #expect(try client.attributes(of: one).keys.sorted() == ["one"])
        #expect(try client.attributes(of: two).keys.sorted() == ["two", "vip"])
    }

    @Test(
        "of an upload count in one order: removals, changes by their time, the client's state",
        arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        func change(_ name: String, _ value: String, _ time: Int64, deleted: Bool = false) -> String {
            #"{"dt":"uac","n":"\#(name)","nv":\#(value),"d":\#(deleted),"ct":\#(time)}"#
        }
        let events = [
            change("late", "2", 20), change("late", "1", 10), change("tag", "null", 10), change("gone", "3", 10),
            change("gone", "null", 20, deleted: true), change("state", "null", 30, deleted: true),
            change("list", #"["a","b"]"#, 10),
        ]
        let body = """
            {"mpid":\(mpid),"ct":100,"ua":{"state":"end","both":"kept"},"uad":["both","late"],\
            "msgs":[\(events.joined(separator: ","))]}
            """
        try send(client, "/v2/KEY/events", body)
        #expect(
            try client.attributes(of: mpid)
                == ["late": "2", "tag": "null", "state": #""end""#, "both": #""kept""#, "list": #"["a","b"]"#])
        // What is said again is no change for followers, and still is newer than what comes late.
        let before = client.server.store.counts.lastSequence
        try set(client, "/v2/KEY/events", mpid, #"{"both":"kept"}"#, 300)
        try set(client, "/v2/KEY/events", mpid, #"{"both":"old"}"#, 200)
        #expect(try client.attributes(of: mpid)["both"] == #""kept""#)
        let told = try client.server.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: before, limit: 10).flatMap(\.events)
        }
        #expect(told.isEmpty)
    }

    @Test("of an erased person do not come back with a late upload", arguments: ways)
    func erasure(_ way: Way) throws {
        let client = IDSyncClient(try TestServer(.sqlite))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        try set(client, way.path, mpid, #"{"vip":null}"#, 1000)
        try send(client, way.path, way.body(mpid, "plan", 1000))
        let erased = try client.http.call(
            "DELETE", "/onym/v1/people/\(mpid)",
            fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")],
            json: #"{"confirm":"\#(mpid)"}"#)
        #expect(erased.status == 200, "\(erased)")
        try set(client, way.path, mpid, #"{"vip":null}"#, 2000)
        try send(client, way.path, way.body(mpid, "vip", 3000))
        let again = try client.identify(#"{"customerid":"7"}"#).mpid
        #expect(again != mpid && client.server.store.counts.people == 1)
        #expect(try client.attributes(of: again).isEmpty && client.attributes(of: mpid).isEmpty)
    }

    @Test("of a client whose clock is ahead do not outdo what comes after")
    func future() throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        try set(client, "/v2/events", mpid, #"{"plan":"pro"}"#, 9_000_000_000_000)
        try send(client, "/v2/events", #"{"mpid":\#(mpid),"user_attributes":{"plan":"basic"}}"#)
        #expect(try client.attributes(of: mpid)["plan"] == #""basic""#)
    }

    @Test("of changed identities are history alone", arguments: ["/v2/KEY/events", "/v3/JS/KEY/events"])
    func identityChanges(_ path: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let event =
            path == "/v2/KEY/events"
            ? #""msgs":[{"dt":"uic","ni":{"n":7,"i":"new@x"},"oi":{"n":7,"i":"old@x"}}]"#
            : #""events":[{"event_type":"user_identity_change","data":{"new":{"identity_type":"email","identity":"new@x"}}}]"#
        try send(client, path, #"{"mpid":\#(mpid),\#(event)}"#)
        #expect(try client.timeline(mpid).count == 1)
        #expect(try client.identify(#"{"email":"new@x"}"#).matched.isEmpty)
    }
}

extension IDSyncClient {
    /// A person in the server's own text.
    func personText(_ name: String) throws -> String {
        try http.call(
            "GET", "/onym/v1/people/\(name)", fields: [("Authorization", "Bearer \(server.credentials.adminKey)")]
        ).body
    }

    /// A call of an administrator.
    func post(_ path: String, _ body: String) throws -> [String: Any] {
        let fields = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        let answer = try http.call("POST", path, fields: fields, json: body)
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }
}
