import Foundation
import TestKit
import Testing

/// Uploads of events over HTTP, in every form that clients send, on every store.
@Suite("Uploads of events")
struct EventCallsTests {
    /// The forms of one upload of one event, as each kind of client writes them: what they say is the same.
    struct Form: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let path: String
        /// The body, for an MPID and an event's id.
        let body: @Sendable (_ mpid: String, _ event: String) -> String
    }

    static let forms = [
        Form(testDescription: "native", path: "/v2/KEY/events") { mpid, event in
            """
            {"dt":"h","id":"upload-\(event)","ct":1795213137087,"sdk":"8.20.0","das":"D","mpid":\(mpid),\
            "ai":{"an":"com.example"},"di":{"vid":"V"},"ui":[{"n":1,"i":"u1"}],"ua":{"plan":"pro"},\
            "msgs":[{"dt":"e","id":"\(event)","ct":1795213137000,"n":"Opened","attrs":{"a":"b"}}]}
            """
        },
        Form(testDescription: "native, at a host of its own", path: "/nativeevents/v2/KEY/events") { mpid, event in
            #"{"dt":"h","mpid":"\#(mpid)","msgs":[{"dt":"e","id":"\#(event)","ct":1795213137000,"n":"Opened"}]}"#
        },
        Form(testDescription: "web", path: "/v3/JS/KEY/events") { mpid, event in
            """
            {"source_request_id":"upload-\(event)","mpid":"\(mpid)","environment":"development","mp_deviceid":"D",\
            "timestamp_unixtime_ms":1795213137087,"user_attributes":{"plan":"pro"},"user_identities":{"customer_id":"u1"},\
            "events":[{"event_type":"custom_event","data":{"event_name":"Opened","source_message_id":"\(event)",\
            "timestamp_unixtime_ms":1795213137000,"custom_event_type":"other","event_id":77}}]}
            """
        },
        Form(testDescription: "web, at a host of its own", path: "/webevents/v3/JS/KEY/events") { mpid, event in
            #"{"mpid":"\#(mpid)","events":[{"event_type":"custom_event","data":{"source_message_id":"\#(event)"}}]}"#
        },
        Form(testDescription: "older web", path: "/v2/JS/KEY/Events") { mpid, event in
            """
            {"n":"Opened","et":1,"dt":4,"id":"\(event)","ct":1795213137000,"mpid":"\(mpid)","das":"D","ua":{"plan":"pro"},\
            "ui":[{"Identity":"u1","Type":1}],"attrs":{"a":"b"}}
            """
        },
        Form(testDescription: "back end", path: "/v2/events") { mpid, event in
            """
            {"mpid":\(mpid),"environment":"development","user_identities":{"customerid":"u1"},\
            "user_attributes":{"plan":"pro"},\
            "events":[{"event_type":"custom_event","data":{"event_name":"Opened","source_message_id":"\(event)"}}]}
            """
        },
        Form(testDescription: "back end, several", path: "/v2/bulkevents") { mpid, event in
            """
            [{"mpid":\(mpid),"events":[{"event_type":"custom_event","data":{"source_message_id":"\(event)"}}]},\
            {"user_identities":{"customerid":"somebody else"},"events":[{"event_type":"x","data":{"event_id":1}}]}]
            """
        },
    ]

    @Test("land at the person, once", arguments: forms, StoreKind.allCases)
    func land(_ form: Form, _ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"ios_idfv":"V"}"#).mpid
        let path = form.path.replacing("KEY", with: client.server.credentials.idsyncKey)
        for event in ["e1", "e2", "e1"] {
            let answer = try client.call(path, form.body(mpid, event), by: .basic)
            #expect(answer.status == 202, "\(answer)")
            // Clients of this form alone read a body.
            let isNative = form.path.contains("/v2/KEY/") && !form.path.contains("JS")
            #expect(answer.body.isEmpty != isNative, "\(answer)")
        }
        let timeline = try client.timeline(mpid)
        let bodies = timeline.compactMap { $0["body"] as? [String: Any] }
        let ids = bodies.map { ($0["data"] as? [String: Any])?["source_message_id"] as? String ?? $0["id"] as? String }
        #expect(ids == ["e2", "e1"])
        #expect(timeline.allSatisfy { $0["origin"] as? String == mpid && $0["kind"] as? String == "event" })
        if form.body(mpid, "").contains("1795213137000") {
            #expect(timeline.allSatisfy { $0["at"] as? String == "2026-11-20T22:18:57.000Z" })
        }
        guard form.body(mpid, "").contains("plan") else { return }
        let person = try client.person(mpid)
        let properties = (person["properties"] as? [String: [String: [String: Any]]])?["idsync"]
        #expect(properties?["plan"]?["value"] as? String == "pro")
        // What the upload calls the person is what it is called from now on.
        #expect(try client.identify(#"{"customerid":"u1"}"#).mpid == mpid)
    }

    @Test("find the person by identities where no MPID is known", arguments: StoreKind.allCases)
    func byIdentities(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        func send(_ upload: String) throws -> Wire.Answer { try client.call("/v2/events", upload, by: .basic) }
        // A back end's number is as good as a string, and an MPID from elsewhere is none.
        let event = #""events":[{"event_type":"x","data":{}}]"#
        #expect(try send(#"{"user_identities":{"customer_id":7},\#(event)}"#).status == 202)
        #expect(try send(#"{"mpid":42,"user_identities":{"customerid":"7"},\#(event)}"#).status == 202)
        #expect(try client.timeline(mpid).count == 2, "events without ids are all kept")
        // A type that is none any more says nothing, by name as by number.
        #expect(try send(#"{"user_identities":{"customerid":"7","alias":"x"},\#(event)}"#).status == 202)
        #expect(try send(#"{"ui":[{"n":1,"i":"7"},{"n":8,"i":"x"}],\#(event)}"#).status == 202)
        #expect(try client.timeline(mpid).count == 4)
        #expect(try send(#"{"user_identities":{"email":"new@x"},\#(event)}"#).status == 202)
        let new = try client.identify(#"{"email":"new@x"}"#)
        #expect(new.matched == ["email": "new@x"])
        #expect(try client.timeline(new.mpid).count == 1)
    }

    @Test("keep MPIDs exact", arguments: StoreKind.allCases)
    func exact(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        // Two people whose ids a double could not tell apart are sure to be among these.
        let people = try (0..<20).map { try client.identify(#"{"customerid":"c\#($0)"}"#).mpid }
        #expect(people.allSatisfy { (Int64($0) ?? 0) > 1 << 53 })
        for mpid in people {
            let event = #"{"event_type":"x","id":"\#(mpid)"}"#
            #expect(
                try client.call("/v2/events", #"{"mpid":\#(mpid),"events":[\#(event)]}"#, by: .basic).status == 202)
        }
        for mpid in people {
            #expect(try client.timeline(mpid).map { ($0["body"] as? [String: Any])?["id"] as? String } == [mpid])
        }
    }

    static let refused = [
        (#"{}"#, "mpid"), (#"{"mpid":1,"events":[{"event_type":"x"}]}"#, "There is no person"),
        (#"{"mpid":1,"events":[{"event_type":1}]}"#, "events[0].event_type"), (#"[]"#, "the body"),
        (#"{"mpid":1,"events":{}}"#, "events"), (#"{"mpid":1,"events":[1]}"#, "events[0]"),
        (#"{"mpid":1,"user_identities":{"shoe_size":"1"}}"#, "user_identities.shoe_size"),
        (#"{"mpid":"x"}"#, "mpid"), (#"{"mpid":1.5}"#, "mpid"),
        (#"{"mpid":1,"ct":"yesterday"}"#, "timestamp_unixtime_ms"),
        (#"{"mpid":1,"ct":99999999999999999}"#, "timestamp_unixtime_ms"),
    ]

    @Test("that cannot be read say where", arguments: refused)
    func refuses(_ body: String, _ place: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let answer = IDSyncClient.Answer(try client.call("/v2/events", body, by: .basic))
        #expect(answer.wire.status == 400 && answer.message?.contains(place) == true, "\(answer.wire)")
    }

    @Test(
        "of several people are kept together or not at all", arguments: StoreKind.allCases,
        ["first", "middle", "last"])
    func bulk(_ kind: StoreKind, _ place: String) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        func upload(_ person: String, _ id: String) -> String {
            #"{\#(person),"source_request_id":"u-\#(id)","events":[{"event_type":"x","data":{"event_id":\#(id)}}]}"#
        }
        let good = [
            upload(#""mpid":\#(mpid)"#, "1"), upload(#""user_identities":{"customerid":"new"}"#, "2"),
            upload(#""mpid":5,"user_identities":{"customerid":"7"}"#, "3"),
        ]
        let number = ["first": 0, "middle": 1, "last": 3][place] ?? 0
        let before = client.server.store.counts.people
        // The wrong one is found when it is read, or when its person is looked for.
        let wrong = [
            (upload(#""mpid":5"#, "4"), "[\(number)].mpid: "),
            (#"{"mpid":\#(mpid),"events":[{"data":{}}]}"#, "[\(number)].events[0].event_type: "),
            (#"{"mpid":\#(mpid),"events":7}"#, "[\(number)].events "), (#"{"events":[]}"#, "[\(number)].mpid "),
        ]
        for (wrong, message) in wrong {
            var all = good
            all.insert(wrong, at: number)
            let answer = IDSyncClient.Answer(
                try client.call("/v2/bulkevents", "[\(all.joined(separator: ","))]", by: .basic))
            #expect(answer.wire.status == 400 && answer.message?.hasPrefix(message) == true, "\(answer.wire)")
            #expect(try client.timeline(mpid).isEmpty && client.server.store.counts.people == before)
        }
        for _ in 0..<2 {
            let all = "[\(good.joined(separator: ","))]"
            #expect(try client.call("/v2/bulkevents", all, by: .basic).status == 202)
        }
        // Each upload is known by its id, also in other company.
        #expect(try client.call("/v2/bulkevents", "[\(good[2]),\(good[0])]", by: .basic).status == 202)
        #expect(try client.timeline(mpid).count == 2, "an MPID that nobody has does not count where identities do")
        #expect(try client.timeline(try client.identify(#"{"customerid":"new"}"#).mpid).count == 1)
        #expect(client.server.store.counts.people == before + 1)
    }

    @Test("of several people may be none, and at most a hundred")
    func bulkLimits() throws {
        let client = IDSyncClient(try TestServer(.memory))
        #expect(try client.call("/v2/bulkevents", "[]", by: .basic).status == 202)
        let tooMany = "[" + Array(repeating: #"{"mpid":1}"#, count: 101).joined(separator: ",") + "]"
        #expect(try client.call("/v2/bulkevents", tooMany, by: .basic).status == 400)
    }

    @Test(
        "of back ends need the type of each event, in the vendor's words",
        arguments: ["{}", #"{"event_type":""}"#, #"{"event_type":null,"data":{}}"#, #"{"dt":"e","n":"x"}"#])
    func eventType(_ event: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let body = #"{"mpid":\#(mpid),"user_attributes":{"a":1},"events":[{"event_type":"x"},\#(event)]}"#
        let answer = IDSyncClient.Answer(try client.call("/v2/events", body, by: .basic))
        #expect(answer.wire.status == 400 && answer.errorCode == "BAD_REQUEST")
        #expect(answer.message == #"Required event field "event_type" is missing or empty."#)
        #expect(try client.timeline(mpid).isEmpty && client.attributes(of: mpid).isEmpty)
    }

    @Test("of apps and pages get the type unknown where an event has none", arguments: StoreKind.allCases)
    func unknownType(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let key = client.server.credentials.idsyncKey
        let native = #"{"mpid":\#(mpid),"msgs":[{"n":"a"},{"dt":"e","n":"b"}]}"#
        let web = #"{"mpid":"\#(mpid)","events":[{"event_type":"","data":{"event_name":"c"}},{"event_type":"page"}]}"#
        #expect(try client.call("/v2/\(key)/events", native, by: .basic).status == 202)
        #expect(try client.call("/v3/JS/\(key)/events", web, by: .basic).status == 202)
        let bodies = try client.timeline(mpid).compactMap { $0["body"] as? [String: Any] }.reversed()
        #expect(
            bodies.map { $0["event_type"] as? String ?? $0["dt"] as? String } == ["unknown", "e", "unknown", "page"])
        #expect((bodies.dropFirst(2).first?["data"] as? [String: String]) == ["event_name": "c"])
    }

    @Test("leave out attributes that are too long or too many, and take the rest", arguments: StoreKind.allCases)
    func attributeLimits(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let long = String(repeating: "x", count: 4097)
        let body = """
            {"mpid":\(mpid),"user_attributes":{"long":"\(long)","fits":"\(long.dropFirst())","list":["a","b"],"number":1.5,\
            "vip":null,"nested":{"a":1},"\(long)":"name"},"deleted_user_attributes":["number","\(long)"]}
            """
        #expect(try client.call("/v2/events", body, by: .basic).status == 202)
        #expect(Set(try client.attributes(of: mpid).keys) == ["fits", "list", "number", "vip"])
    }
}

extension IDSyncClient {
    /// What an administrator reads.
    func administrator(_ path: String) throws -> Any {
        let answer = try http.call("GET", path, fields: [("Authorization", "Bearer \(server.credentials.adminKey)")])
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8))
    }

    /// The rows of a person, as an administrator sees them.
    func timeline(_ mpid: String, _ query: String = "") throws -> [[String: Any]] {
        let page = try administrator("/onym/v1/people/\(mpid)/timeline\(query)") as? [String: Any]
        return page?["rows"] as? [[String: Any]] ?? []
    }

    /// The attributes of a person, as JSON.
    func attributes(of mpid: String) throws -> [String: String] {
        let properties = (try person(mpid)["properties"] as? [String: [String: [String: Any]]])?["idsync"] ?? [:]
        return try properties.mapValues { entry in
            let value = try JSONSerialization.data(
                withJSONObject: entry["value"] ?? "missing", options: [.fragmentsAllowed, .sortedKeys])
            return String(decoding: value, as: UTF8.self)
        }
    }

    /// A person, as an administrator sees it.
    func person(_ name: String) throws -> [String: Any] {
        try administrator("/onym/v1/people/\(name)") as? [String: Any] ?? [:]
    }
}
