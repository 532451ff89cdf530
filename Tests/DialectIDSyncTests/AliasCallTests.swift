import CivilTime
import Domain
import Foundation
import TestKit
import Testing

/// Aliases over HTTP, on every store.
@Suite("POST /v1/identity/{key}/alias")
struct AliasCallTests {
    /// A server with an anonymous person of some events, and a known one.
    private struct Scene {
        let client: IDSyncClient
        let source: String
        let destination: String
        let now = Int64(Date().timeIntervalSince1970 * 1000)

        init(_ kind: StoreKind) throws {
            client = IDSyncClient(try TestServer(kind))
            source = try client.identify(#"{"ios_idfv":"V"}"#).mpid
            destination = try client.identify(#"{"customerid":"C"}"#).mpid
            for (event, minutes) in [("old", 60), ("in", 5), ("new", 0)] {
                let body = """
                    {"mpid":\(source),"das":"D","msgs":[{"id":"\(event)","ct":\(now - Int64(minutes) * 60_000)}]}
                    """
                _ = try client.call("/v2/\(client.server.credentials.idsyncKey)/events", body, by: .basic)
            }
        }

        func alias(_ members: [String: String] = [:], by proof: IDSyncClient.Proof = .basic, path: String? = nil) throws
            -> Wire.Answer
        {
            var data = [
                "source_mpid": source, "destination_mpid": "\"\(destination)\"",
                "start_unixtime_ms": "\(now - 10 * 60_000)", "end_unixtime_ms": "\(now - 60_000)",
            ]
            data.merge(members) { $1 }
            let text = data.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
            let body = #"{"request_type":"alias","environment":"development","data":{\#(text)}}"#
            let key = proof == .web ? client.server.credentials.idsyncWebKey : client.server.credentials.idsyncKey
            return try client.call(
                path ?? "/v1/identity/\(key)/alias", body, by: proof, signedPath: "/v1/identity/\(key)/alias")
        }

        func events(of mpid: String) throws -> [String] {
            try client.timeline(mpid).compactMap { ($0["body"] as? [String: Any])?["id"] as? String }
        }

        func administrator(_ method: String, _ path: String, _ json: String = "") throws -> Wire.Answer {
            try client.http.call(
                method, path, fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")],
                body: method == "POST" ? Array(json.utf8) : nil)
        }
    }

    @Test("gives events to another person as well, can be seen, and taken back", arguments: StoreKind.allCases)
    func lifetime(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let answer = try scene.alias()
        #expect(answer.status == 202 && answer.body.isEmpty)
        let id = try #require(answer["X-Onym-Alias"])
        #expect(try scene.events(of: scene.destination) == ["in"])
        #expect(try scene.events(of: scene.source) == ["new", "in", "old"])

        let shown = try scene.administrator("GET", "/onym/v1/aliases/\(id)")
        #expect(shown.status == 200 && shown.body.contains(#""source":"\#(scene.source)""#))
        #expect(shown.body.contains(#""scope":"mpid""#) && !shown.body.contains("undone_at"))
        let person = try scene.client.person(scene.destination)
        #expect((person["aliases"] as? [[String: Any]])?.first?["id"] as? String == id)
        let source = try scene.client.person(scene.source)
        #expect(person["first_seen"] as? String == source["first_seen"] as? String)

        let dry = try scene.administrator("POST", "/onym/v1/aliases/\(id)/undo?dry_run=true")
        #expect(dry.status == 200 && dry.body.hasPrefix(#"{"undone":"\#(id)","dry_run":true,"last_seq":"#), "\(dry)")
        #expect(try scene.events(of: scene.destination) == ["in"], "a dry run changes nothing")
        let seen = try #require(dry.body.firstMatch(of: /"last_seq":([0-9]+)/)?.1)
        let attached = try scene.administrator(
            "POST", "/onym/v1/people/\(scene.destination)/identities", #"{"type":"facebook","value":"f"}"#)
        #expect(attached.status == 200, "\(attached)")
        let late = try scene.administrator("POST", "/onym/v1/aliases/\(id)/undo?if_seq=\(seen)")
        #expect(late.status == 409 && late.body.contains("changed_meanwhile"), "\(late)")
        let undone = try scene.administrator("POST", "/onym/v1/aliases/\(id)/undo")
        #expect(undone.status == 200 && undone.body == #"{"undone":"\#(id)","dry_run":false}"#, "\(undone)")
        #expect(try scene.events(of: scene.destination).isEmpty)
        #expect(try scene.administrator("GET", "/onym/v1/aliases/\(id)").body.contains("undone_at"))
        #expect(try scene.administrator("POST", "/onym/v1/aliases/7/undo").status == 404)
        #expect(try scene.administrator("GET", "/onym/v1/aliases/x").status == 404)
    }

    @Test("takes any kind of client, under every prefix", arguments: IDSyncClient.Proof.allCases)
    func proofs(_ proof: IDSyncClient.Proof) throws {
        for prefix in ["/v1/identity/KEY", "/nativeevents/v1/identity/KEY", "/webevents/v1/identity/KEY", "/KEY"] {
            let scene = try Scene(.memory)
            let credentials = scene.client.server.credentials
            let key = proof == .web ? credentials.idsyncWebKey : credentials.idsyncKey
            for name in ["Alias", "alias"] {
                let answer = try scene.alias(by: proof, path: "\(prefix.replacing("KEY", with: key))/\(name)")
                #expect(answer.status == 202, "\(prefix) \(answer)")
            }
        }
        let scene = try Scene(.memory)
        #expect(try scene.alias(by: proof, path: "/v1/identity/us1-00/alias").status == 401)
    }

    @Test("is of one device, where it says so", arguments: StoreKind.allCases)
    func device(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        #expect(try scene.alias(["scope": "\"device\"", "device_application_stamp": "\"E\""]).status == 202)
        #expect(try scene.events(of: scene.destination).isEmpty)
        let other = try Scene(kind)
        #expect(try other.alias(["scope": "\"device\"", "device_application_stamp": "\"D\""]).status == 202)
        #expect(try other.events(of: other.destination) == ["in"])
    }

    static let refused: [[String: String]] = [
        ["source_mpid": ""], ["destination_mpid": "0"], ["start_unixtime_ms": ""], ["end_unixtime_ms": "null"],
        ["source_mpid": "1"], ["destination_mpid": "1"], ["source_mpid": "DESTINATION"], ["end_unixtime_ms": "1"],
        ["start_unixtime_ms": "9999999999999"], ["scope": "\"all\""], ["scope": "\"device\""],
        ["start_unixtime_ms": "\"x\""], ["end_unixtime_ms": "1e300"],
    ]

    @Test("refuses what cannot be an alias, in an envelope of its own", arguments: refused)
    func refuses(_ members: [String: String]) throws {
        let scene = try Scene(.memory)
        let answer = try scene.alias(members.mapValues { $0 == "DESTINATION" ? scene.destination : $0 })
        #expect(answer.status == 400 && answer.body.hasPrefix(#"{"code":"INVALID_DATA","message":""#), "\(answer)")
    }

    @Test("takes some and does nothing, and says why", arguments: StoreKind.allCases)
    func ignored(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let third = try scene.client.identify(#"{"customerid":"T"}"#).mpid
        #expect(try scene.alias()["X-Onym-Alias"]?.first?.isNumber == true)
        #expect(try scene.alias()["X-Onym-Alias"] == "ignored; reason=overlaps")
        // Another time of the same source is not the same.
        let earlier = [
            "start_unixtime_ms": "\(scene.now - 90 * 60_000)", "end_unixtime_ms": "\(scene.now - 30 * 60_000)",
        ]
        #expect(try scene.alias(earlier)["X-Onym-Alias"]?.first?.isNumber == true)
        let backwards = ["source_mpid": scene.destination, "destination_mpid": third]
        #expect(try scene.alias(backwards)["X-Onym-Alias"] == "ignored; reason=source_was_destination")
        let onto = ["source_mpid": third, "destination_mpid": scene.source]
        #expect(try scene.alias(onto)["X-Onym-Alias"] == "ignored; reason=destination_was_source")
        #expect(try scene.events(of: scene.destination) == ["in", "old"])
    }

    @Test("reaches no further back than the window", arguments: StoreKind.allCases)
    func window(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let answer = try scene.alias(["start_unixtime_ms": "1"])
        let id = try #require(answer["X-Onym-Alias"])
        let shown = try scene.administrator("GET", "/onym/v1/aliases/\(id)").body
        let alias = try #require(try JSONSerialization.jsonObject(with: Data(shown.utf8)) as? [String: String])
        func moment(_ name: String) -> Int64? { alias[name].flatMap { ISO8601.parse($0.utf8.span) } }
        #expect(try #require(moment("start")) == #require(moment("made_at")) - Alias.windowMilliseconds)
    }
}
