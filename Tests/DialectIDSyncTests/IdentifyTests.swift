import Domain
import Foundation
import TestKit
import Testing
import Threads

/// `POST /v1/identify` over HTTP, on every store, under the default strategy.
@Suite("POST /v1/identify")
struct IdentifyTests {
    // MARK: - The answer

    @Test("answers to the letter", arguments: StoreKind.allCases)
    func shape(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let first = try client.identify(#"{"customerid":"123456","email":"foo@example.com"}"#)
        #expect(
            first.wire.body
                == #"{"context":null,"matched_identities":{},"is_ephemeral":false,"mpid":"\#(first.mpid)","is_logged_in":true}"#
        )
        #expect(first.wire["Content-Type"] == "application/json; charset=utf-8")
        #expect(first.wire["X-MP-Max-Age"] == "86400")
        #expect(first.wire["X-MP-Trace-Id"]?.wholeMatch(of: /[0-9a-f]{32}/) != nil)
        let mpid = try #require(Int64(first.mpid))
        #expect(mpid > 1 << 53, "a number that a double cannot hold")

        let again = try client.identify(#"{"email":"foo@example.com","customerid":"123456","ios_idfv":"d"}"#)
        #expect(
            again.wire.body
                == #"{"context":null,"matched_identities":{"email":"foo@example.com","customerid":"123456"},"is_ephemeral":false,"mpid":"\#(first.mpid)","is_logged_in":true}"#
        )
    }

    @Test("repeats identities exactly as they came", arguments: StoreKind.allCases)
    func exactValues(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let odd = #"a\"b\\c\/d é😀 \t\u0001 e\u0301"#
        _ = try client.identify("{\"customerid\":\"\(odd)\"}")
        let answer = try client.identify("{\"customerid\":\"\(odd)\"}")
        #expect(answer.matched == ["customerid": "a\"b\\c/d é😀 \t\u{1} e\u{301}"])
        #expect(Array(answer.matched["customerid"]?.utf8 ?? "".utf8) == Array("a\"b\\c/d é😀 \t\u{1} e\u{301}".utf8))
    }

    // MARK: - The examples of spec/idsync.md 3.5, as far as identify under the default strategy goes

    @Test("turns a first launch into a user, and finds both again", arguments: StoreKind.allCases)
    func conversion(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let launch = try client.identify(#"{"ios_idfv":"9876"}"#)
        #expect(launch.isLoggedIn == false)
        let signUp = try client.identify(#"{"customerid":"ABC123","email":"ed.hyde@example.com","ios_idfv":"9876"}"#)
        #expect(signUp.mpid == launch.mpid && signUp.isLoggedIn == true)
        #expect(signUp.matched == ["ios_idfv": "9876"])
        let feed = try client.identify(#"{"email":"h.jekyll.md@example.com"}"#)
        #expect(feed.mpid != launch.mpid && feed.isLoggedIn == false)
        let returning = try client.identify(#"{"customerid":"ABC123","email":"ed.hyde@example.com","ios_idfv":"9876"}"#)
        #expect(returning.mpid == launch.mpid)
        let roku = try client.identify(#"{"roku_aid":"8765"}"#)
        let rokuLogin = try client.identify(#"{"customerid":"ABC123","roku_aid":"8765"}"#)
        #expect(rokuLogin.mpid == launch.mpid && rokuLogin.mpid != roku.mpid)
    }

    @Test("protects a known profile from its device", arguments: StoreKind.allCases)
    func loginProtection(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let known = try client.identify(
            #"{"customerid":"h.jekyll.85","email":"ed.hyde@example.com","ios_idfv":"1234"}"#)
        let device = try client.identify(#"{"ios_idfv":"1234"}"#)
        #expect(device.mpid != known.mpid && device.isLoggedIn == false)
        #expect(try client.identify(#"{"ios_idfv":"1234"}"#).mpid == device.mpid, "the device's anonymous profile")
        #expect(try client.identify(#"{"email":"ed.hyde@example.com"}"#).mpid != known.mpid)
        let customer = try client.identify(#"{"customerid":"h.jekyll.85","ios_idfv":"1234"}"#)
        #expect(customer.mpid == known.mpid && customer.matched.count == 2)
    }

    @Test("breaks ties by the next identity, the profile before, and who was seen last", arguments: StoreKind.allCases)
    func tieBreaks(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let first = try client.identify(#"{"email":"E","ios_idfv":"1234","other":"AAAA"}"#).mpid
        let second = try client.identify(#"{"mobile_number":"N","android_aaid":"2345","other":"BBBB"}"#).mpid
        #expect(try client.identify(#"{"mobile_number":"N","email":"E"}"#).mpid == second)

        #expect(try client.identify(#"{"email":"E","other":"AAAA","ios_idfv":"2345"}"#).mpid == first)
        #expect(try client.identify(#"{"email":"E","android_aaid":"2345"}"#).mpid == second)
        #expect(try client.identify(#"{"email":"E"}"#, #""previous_mpid":"\#(first)""#).mpid == first)
        #expect(try client.identify(#"{"email":"E"}"#, #""previous_mpid":"\#(second)""#).mpid == second)
        #expect(
            try client.identify(#"{"email":"E"}"#, #""previous_mpid":\#(first)"#).mpid == first, "a number past 2^53")
    }

    @Test("makes one profile of many first calls at once", arguments: StoreKind.allCases)
    func concurrentFirstCalls(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let mpids = Monitor<[String]>([])
        let threads = (0..<8).map { number in
            WorkerThread(name: "first-\(number)") {
                let client = IDSyncClient(server)
                for round in 0..<25 {
                    let answer = try? client.identify("{\"device_application_stamp\":\"d-\(round)\"}")
                    mpids.change { $0.append("\(round) \(answer?.mpid ?? "none")") }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(Set(mpids.withLock { $0 }).count == 25)
        #expect(mpids.withLock { $0.count } == 200)
        #expect(server.store.counts.people == 25)
    }

    // MARK: - Repetitions

    @Test("gives a repeated request the answer that it had", arguments: StoreKind.allCases)
    func requestID(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let id = #""request_id":"ad58a7c1-cf35-4be5-8c42-a09989f85cc1""#
        let first = try client.identify(#"{"customerid":"1"}"#, id)
        #expect(try client.identify(#"{"customerid":"1"}"#, id).wire.body == first.wire.body)
        #expect(
            try client.identify(#"{"customerid":"1"}"#).matched == ["customerid": "1"], "without the id: decided anew")
        #expect(try client.identify(#"{"customerid":"2"}"#, id).mpid != first.mpid, "another body is another call")
    }

    @Test("keeps an Idempotency-Key to its call", arguments: StoreKind.allCases)
    func idempotencyKey(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        func call(_ key: String, _ customer: String) throws -> IDSyncClient.Answer {
            IDSyncClient.Answer(
                try server.client.call(
                    "POST", "/v1/identify",
                    fields: [("x-mp-key", server.credentials.idsyncWebKey), ("Idempotency-Key", key)],
                    json: IDSyncClient.body("{\"customerid\":\"\(customer)\"}")))
        }
        let first = try call("k", "1")
        #expect(try call("k", "1").wire.body == first.wire.body)
        let other = try call("k", "2")
        #expect(other.wire.status == 422 && other.wire.body.contains("IDEMPOTENCY_MISMATCH"))
        #expect(other.message?.contains("Idempotency-Key") == true)
        #expect(server.store.counts.people == 1)
        #expect(try call(String(repeating: "x", count: 255), "3").wire.status == 200)
        for bad in ["", String(repeating: "x", count: 256)] { #expect(try call(bad, "4").wire.status == 400) }
    }

    // MARK: - Requests

    struct Request: CustomTestStringConvertible {
        let name: String
        let body: String
        let code: String
        let message: String
        var testDescription: String { name }

        init(_ name: String, _ body: String, _ code: String, _ message: String) {
            self.name = name
            self.body = body
            self.code = code
            self.message = message
        }
    }

    private static func with(_ identities: String) -> String { IDSyncClient.body(identities) }
    private static let long = String(repeating: "x", count: 4097)

    static let refused: [Request] = [
        Request("an empty body", "", "BAD_REQUEST", "The body is empty; it must be a JSON document."),
        Request("no JSON", "hello", "BAD_REQUEST", "The body is not valid JSON."),
        Request("an array", "[]", "VALIDATION_ERROR", "the body must be an object"),
        Request("nothing", "{}", "VALIDATION_ERROR", "environment is required: \"production\" or \"development\""),
        Request(
            "no identities", #"{"environment":"development"}"#, "VALIDATION_ERROR",
            "known_identities is required: an object of identities"),
        Request(
            "another environment", #"{"environment":"staging","known_identities":{"email":"a"}}"#, "VALIDATION_ERROR",
            "environment must be \"production\" or \"development\""),
        Request(
            "an environment that is no string", #"{"environment":1,"known_identities":{"email":"a"}}"#,
            "VALIDATION_ERROR",
            "environment must be a string"),
        Request("empty identities", with("{}"), "LOOKUP_ERROR", "knownIdentities is empty."),
        Request(
            "identities of nothing", with(#"{"email":"","customerid":null}"#), "LOOKUP_ERROR",
            "knownIdentities is empty."),
        Request(
            "a value taken back", with(#"{"email":"a","email":null}"#), "LOOKUP_ERROR", "knownIdentities is empty."),
        Request(
            "an unknown type", with(#"{"email":"a","shoe_size":"44"}"#), "VALIDATION_ERROR",
            "known_identities.shoe_size is not an identity type"),
        Request(
            "an unknown type with a long name", with(#"{"\#(String(repeating: "x", count: 9000))":"a"}"#),
            "VALIDATION_ERROR",
            "known_identities.\(String(repeating: "x", count: 64))… is not an identity type"
        ),
        Request(
            "an MPID with a sign that no client writes", IDSyncClient.body(#"{"email":"a"}"#, #""previous_mpid":"+5""#),
            "VALIDATION_ERROR",
            "previous_mpid must be a 64-bit integer"
        ),
        Request(
            "the events API's spelling", with(#"{"customer_id":"1"}"#), "VALIDATION_ERROR",
            "known_identities.customer_id is not an identity type"),
        Request(
            "a number for a value", with(#"{"email":5}"#), "VALIDATION_ERROR", "known_identities.email must be a string"
        ),
        Request(
            "an object for a value", with(#"{"email":{}}"#), "VALIDATION_ERROR",
            "known_identities.email must be a string"),
        Request(
            "identities in an array", with("[]"), "VALIDATION_ERROR", "known_identities must be an object"),
        Request(
            "identities that are null", with("null"), "VALIDATION_ERROR", "known_identities must be an object"),
        Request(
            "a NUL", with(#"{"email":"a\u0000b"}"#), "VALIDATION_ERROR",
            "known_identities.email must not hold a NUL character"),
        Request(
            "a value that is too long", with("{\"email\":\"\(long)\"}"), "VALIDATION_ERROR",
            "known_identities.email must have at most 4096 bytes"),
        Request(
            "a previous MPID that is no number",
            IDSyncClient.body(#"{"email":"a"}"#, #""previous_mpid":"abc""#), "VALIDATION_ERROR",
            "previous_mpid must be a 64-bit integer"),
        Request(
            "a previous MPID past 64 bits",
            IDSyncClient.body(#"{"email":"a"}"#, #""previous_mpid":"9223372036854775808""#), "VALIDATION_ERROR",
            "previous_mpid must be a 64-bit integer"),
        Request(
            "a previous MPID with a fraction",
            IDSyncClient.body(#"{"email":"a"}"#, #""previous_mpid":1.5"#), "VALIDATION_ERROR",
            "previous_mpid must be a 64-bit integer"),
        Request(
            "a request id that is no string",
            IDSyncClient.body(#"{"email":"a"}"#, #""request_id":5"#), "VALIDATION_ERROR", "request_id must be a string"),
        Request(
            "a request id that is too long",
            IDSyncClient.body(#"{"email":"a"}"#, "\"request_id\":\"\(String(repeating: "x", count: 256))\""),
            "VALIDATION_ERROR", "request_id must have at most 255 bytes"),
        Request(
            "a client that is no object",
            #"{"client_sdk":5,"environment":"development","known_identities":{"email":"a"}}"#,
            "VALIDATION_ERROR", "client_sdk must be an object"),
        Request(
            "a platform that is no string",
            #"{"client_sdk":{"platform":5},"environment":"development","known_identities":{"email":"a"}}"#,
            "VALIDATION_ERROR", "client_sdk.platform must be a string"),
        Request(
            "a body that is nested too deep",
            IDSyncClient.body(
                #"{"email":"a"}"#, "\"x\":\(String(repeating: "[", count: 40))\(String(repeating: "]", count: 40))"),
            "BAD_REQUEST", "The body is nested too deep."),
    ]

    @Test("says what is wrong with a request, and where", arguments: refused)
    func refuses(_ request: Request) throws {
        let server = try TestServer(.memory)
        let answer = try server.client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", server.credentials.idsyncWebKey), ("X-Request-Id", "r-1")],
            json: request.body)
        let read = IDSyncClient.Answer(answer)
        #expect(answer.status == 400)
        #expect(read.errorCode == request.code)
        #expect(read.message == request.message)
        // Both casings, for both kinds of clients.
        let escaped = request.message.replacing("\"", with: "\\\"")
        let error = #"[{"code":"\#(request.code)","message":"\#(escaped)"}]"#
        #expect(
            answer.body
                == #"{"errors":\#(error),"Errors":\#(error),"ErrorCode":"\#(request.code)","StatusCode":400,"RequestId":"r-1"}"#
        )
    }

    @Test(
        "takes what clients send",
        arguments: [
            #"{"environment":"production","known_identities":{"email":"a"}}"#,
            #"{"environment":"development","known_identities":{"email":"a","customerid":null,"other":""}}"#,
            #"{"environment":"development","known_identities":{"email":"b","email":"a"},"previous_mpid":null}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"previous_mpid":0,"context":"opaque"}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"previous_mpid":"-9223372036854775808"}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"previous_mpid":6504934091054997508}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"previous_mpid":"","requestId":"roku"}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"source_request_id":"uwp","client_sdk":null}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"request_id":null,"request_timestamp_ms":null}"#,
            #"{"environment":"development","known_identities":{"email":"a"},"request_timestamp_ms":1.5e12,"client_sdk":{"x":[1]}}"#,
        ])
    func takes(_ body: String) throws {
        let server = try TestServer(.memory)
        let answer = try server.client.call(
            "POST", "/v1/identify", fields: [("x-mp-key", server.credentials.idsyncWebKey)], json: body)
        #expect(answer.status == 200, "\(answer)")
    }

    @Test("takes every type that there is, and both spellings of one")
    func types() throws {
        let client = IDSyncClient(try TestServer(.memory))
        for type in IdentityType.idsync {
            let made = try client.identify("{\"\(type.name)\":\"type test\"}")
            #expect(made.wire.status == 200, "\(type.name)")
        }
        let longest = String(repeating: "é", count: 2048)
        #expect(try client.identify("{\"email\":\"\(longest)\"}").wire.status == 200)
        let one = try client.identify(#"{"facebookcustomaudienceid":"f","ios_idfv":"f"}"#).mpid
        #expect(try client.identify(#"{"facebook_custom_audience_id":"f","ios_idfv":"f"}"#).matched.count == 2)
        #expect(try client.identify(#"{"ios_idfv":"f"}"#).mpid == one)
    }

    @Test("never looks up nor stores a blocked value, and answers all the same", arguments: StoreKind.allCases)
    func blocked(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = IDSyncClient(server)
        let first = try client.identify(#"{"customerid":"null"}"#)
        #expect(first.wire.status == 200 && first.isLoggedIn == false)
        #expect(try client.identify(#"{"customerid":"null"}"#).mpid != first.mpid)
        let device = try client.identify(#"{"customerid":"Undefined","ios_idfv":"d"}"#)
        #expect(try client.identify(#"{"ios_idfv":"d"}"#).mpid == device.mpid)
        #expect(server.store.counts.identities == 1)
    }

    @Test("refuses in the dialect's envelope what HTTP refuses")
    func httpRefusals() throws {
        let server = try TestServer(.memory)
        let key = ("x-mp-key", server.credentials.idsyncWebKey)
        let wrongMethod = IDSyncClient.Answer(try server.client.call("GET", "/v1/identify", fields: [key]))
        #expect(wrongMethod.wire.status == 405 && wrongMethod.errorCode == "BAD_REQUEST")
        #expect(wrongMethod.wire["Allow"] == "POST, OPTIONS")
        let wrongType = IDSyncClient.Answer(
            try server.client.call(
                "POST", "/v1/identify", fields: [key, ("Content-Type", "text/plain")], body: Array("{}".utf8)))
        #expect(wrongType.wire.status == 415 && wrongType.errorCode == "BAD_REQUEST")
        let noBody = IDSyncClient.Answer(try server.client.call("POST", "/v1/identify", fields: [key]))
        #expect(noBody.wire.status == 411)
        let tooLong = IDSyncClient.Answer(
            try server.client.call(
                "POST", "/v1/identify", fields: [key], body: [UInt8](repeating: 32, count: (1 << 20) + 1)))
        #expect(tooLong.wire.status == 413 && tooLong.errorCode == "BAD_REQUEST")
    }

    @Test("answers a web page's preflight")
    func preflight() throws {
        let server = try TestServer(.memory)
        let answer = try server.client.call(
            "OPTIONS", "/v1/identify",
            fields: [
                ("Origin", "https://shop.example"), ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "content-type,x-mp-key"),
            ])
        #expect(answer.status == 204)
        #expect(answer["Access-Control-Allow-Origin"] == "https://shop.example")
        #expect(answer["Access-Control-Allow-Methods"]?.contains("POST") == true)
        let allowed = answer["Access-Control-Allow-Headers"]?.lowercased() ?? ""
        #expect(allowed.contains("content-type") && allowed.contains("x-mp-key"))
        let call = try server.client.call(
            "POST", "/v1/identify",
            fields: [("Origin", "https://shop.example"), ("x-mp-key", server.credentials.idsyncWebKey)],
            json: IDSyncClient.body(#"{"email":"cors@x"}"#))
        let exposed = call["Access-Control-Expose-Headers"] ?? ""
        for field in ["X-MP-Max-Age", "X-Onym-Alias", "X-Onym-Warning"] { #expect(exposed.contains(field), "\(field)") }
    }
}
