import Foundation
import TestKit
import Testing

/// What a reader who tried to break the dialect has found.
@Suite("What once went wrong")
struct FormerMistakesTests {
    @Test(
        "no time in a body ends the server",
        arguments: [
            "-9223372036854775808", "\"-9223372036854775808\"", "-9.223372036854775808e18", "9223372036854775807",
            "1e300",
            "253402300800000", "-62167219200001",
        ])
    func times(_ time: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        let key = client.server.credentials.idsyncWebKey
        let alias =
            #"{"data":{"source_mpid":"1","destination_mpid":"2","start_unixtime_ms":\#(time),"end_unixtime_ms":1}}"#
        #expect(try client.call("/v1/identity/\(key)/Alias", alias, by: .web).status == 400)
        for body in [#"{"mpid":\#(mpid),"ct":\#(time)}"#, #"{"mpid":\#(mpid),"events":[{"ct":\#(time)}]}"#] {
            #expect(try client.call("/v2/events", body, by: .basic).status == 400, "\(body)")
        }
    }

    @Test(
        "uploads of pages are plain text, so that no browser asks first",
        arguments: [
            "/v3/JS/KEY/events", "/v1/JS/KEY/Events", "/v2/JS/KEY/events", "/v1/identity/KEY/Alias",
        ])
    func plainText(_ path: String) throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        let path = path.replacing("KEY", with: client.server.credentials.idsyncWebKey)
        let answer = try client.http.call(
            "POST", path, fields: [("Content-Type", "text/plain;charset=UTF-8")],
            body: Array(#"{"mpid":"\#(mpid)","events":[{"id":"e"}]}"#.utf8))
        #expect(answer.status == (path.hasSuffix("Alias") ? 400 : 202), "\(answer)")
    }

    @Test("two people may have events, and uploads, of one number", arguments: StoreKind.allCases)
    func ownNumbers(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        for user in ["a", "b"] {
            let mpid = try client.identify(#"{"customerid":"\#(user)"}"#).mpid
            let byID =
                #"{"mpid":\#(mpid),"source_request_id":"static","events":[{"event_type":"x","data":{"event_id":1}}]}"#
            let byUser =
                #"{"user_identities":{"customerid":"\#(user)"},"events":[{"event_type":"x","data":{"event_id":2}}]}"#
            for body in [byID, byUser, byID, byUser] {
                #expect(try client.call("/v2/events", body, by: .basic).status == 202)
            }
            #expect(try client.timeline(mpid).count == 2, "\(user)")
        }
    }

    @Test("a refused value is journalled, also where nothing changes", arguments: StoreKind.allCases)
    func refusedValues(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        let other = try client.identify(#"{"customerid":"b","email":"b@x"}"#).mpid
        func rows(_ body: () throws -> Void) rethrows -> Int64 {
            let before = client.server.store.counts.lastSequence.rawValue
            try body()
            return client.server.store.counts.lastSequence.rawValue - before
        }
        #expect(try rows { _ = try client.identify(#"{"customerid":"a","email":"null"}"#) } == 1)
        #expect(try rows { _ = try client.identify(#"{"customerid":"a"}"#) } == 0)
        let modify = #"{"environment":"development","identity_changes":[{"identity_type":"email","new_value":"null"}]}"#
        #expect(try rows { _ = try client.call("/v1/\(mpid)/modify", modify, by: .web) } == 1)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let alias = """
            {"data":{"source_mpid":"\(mpid)","destination_mpid":"\(other)","start_unixtime_ms":\(now - 1000),\
            "end_unixtime_ms":\(now)}}
            """
        let path = "/v1/identity/\(client.server.credentials.idsyncWebKey)/Alias"
        for _ in 0..<2 {
            let written = try rows {
                let status = try client.call(path, alias, by: .web).status
                #expect(status == 202)
            }
            #expect(written == 1)
        }
    }

    @Test("a used Idempotency-Key is 422 at every call")
    func mismatch() throws {
        let client = IDSyncClient(try TestServer(.memory))
        let mpid = try client.identify(#"{"customerid":"a"}"#).mpid
        let key = client.server.credentials.idsyncWebKey
        func send(_ event: String) throws -> Int {
            try client.http.call(
                "POST", "/v3/JS/\(key)/events", fields: [("Idempotency-Key", "k")],
                json: #"{"mpid":"\#(mpid)","events":[{"id":"\#(event)"}]}"#
            ).status
        }
        #expect(try send("a") == 202)
        #expect(try send("a") == 202)
        #expect(try send("b") == 422)
    }

    @Test("a look repeats nothing", arguments: StoreKind.allCases)
    func looks(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let more = #""request_id":"r""#
        _ = try client.identify(#"{"ios_idfv":"V"}"#, more)
        let body = IDSyncClient.body(#"{"ios_idfv":"V"}"#, more)
        let look = IDSyncClient.Answer(try client.call("/v1/identify?read_only=true", body, by: .web))
        #expect(look.matched == ["ios_idfv": "V"])
    }
}
