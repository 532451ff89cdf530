import ByteText
import Compression
import Crypto
import Foundation
import TestKit
import Testing

/// One session of each client of the Claim dialect, call by call, in the shape in which the client sends it (spec/claim.md 1). The
/// bodies have members that the server does not read, because newer clients send more of them.
@Suite("Recorded exchanges of Claim clients")
struct RecordedExchangeTests {
    private static let device = """
        "bundle_id":"com.example.demo","environment":"ios","os_version":"26.1","app_version":"4.2.0","build_number":"77",\
        "sdk_name":"owlmetry-swift","sdk_version":"1.9.0","device_model":"iPhone17,1","locale":"de_DE",\
        "preferred_language":"de-DE","is_dev":false,"experiments":{"onboarding":"b"}
        """
    private static let session = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"

    /// Whether an answer has exactly these members.
    private func check(_ answer: Wire.Answer, _ status: Int, _ members: Set<String>, _ what: String) {
        let object = try? JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        #expect(answer.status == status && Set((object ?? [:]).keys) == members, "\(what): \(answer)")
    }

    @Test("of the Swift client: uploads in gzip, an attachment, feedback, a claim", arguments: StoreKind.allCases)
    func swift(_ kind: StoreKind) throws {
        let client = OwlClient(try TestServer(kind))
        let bearer = ("Authorization", "Bearer \(client.clientKey)")
        // The device collects events under its anonymous id, and sends them in gzip.
        let event = "0B5B1C9A-9E0C-4E6B-8C57-2E4A6B0C7D11"
        let upload = """
            {"bundle_id":"com.example.demo","sent_at":"2026-06-12T10:00:00Z","events":[{"client_event_id":"\(event)",\
            "user_id":"owl_anon_1","session_id":"\(Self.session)","level":"error","message":"payment failed",\
            "source_module":"Shop.swift:pay():12","screen_name":"Shop","custom_attributes":{"_error_type":"Timeout","n":3},\
            "supported_languages":["de","en"],\(Self.device)},\
            {"client_event_id":"\(UUID().uuidString)","user_id":"owl_anon_1","session_id":"\(Self.session)","level":"info",\
            "message":"metric:load:complete","custom_attributes":{"duration_ms":"120","tracking_id":"\(UUID().uuidString)"},\
            "queued_ms":17,\(Self.device)}]}
            """
        for expected in [#"{"accepted":2,"rejected":0}"#, #"{"accepted":0,"rejected":0}"#] {
            let answer = try client.http.call(
                "POST", "/v1/ingest",
                fields: [bearer, ("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
                body: Gzip.deflate(Array(upload.utf8)))
            #expect(answer.status == 200 && answer.body == expected, "\(answer)")
        }
        // The file of the event is announced, and then sent as bytes.
        let bytes = Array("crash".utf8)
        let digest = Hexadecimal.encode(SHA256.digest(of: bytes).bytes)
        let announced = try client.call(
            "POST", "/v1/ingest/attachment",
            """
            {"client_event_id":"\(event)","user_id":"owl_anon_1","original_filename":"log.txt","content_type":"text/plain",\
            "size_bytes":\(bytes.count),"sha256":"\(digest)","is_dev":false,"compressed":false}
            """)
        check(announced, 201, ["attachment_id", "upload_url", "expires_at"], "the announcement")
        let id = JSONAnswer(announced).text("attachment_id") ?? ""
        let put = try client.http.call(
            "PUT", "/v1/ingest/attachment/\(id)", fields: [bearer, ("Content-Type", "application/octet-stream")],
            body: bytes)
        check(
            put, 200, ["attachment_id", "size_bytes", "sha256", "download_url", "download_url_expires_at"], "the file")
        // The person logs in, and sets properties and sends feedback under the new id.
        let claim = try client.call(
            "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_1","user_id":"ada","reason":"login"}"#)
        #expect(claim.status == 200 && claim.body == #"{"claimed":true,"events_reassigned_count":2}"#, "\(claim)")
        let properties = try client.call(
            "POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{"plan":"pro"},"merge":true}"#)
        #expect(properties.status == 200 && properties.body == #"{"updated":true,"properties":{"plan":"pro"}}"#)
        let feedback = try client.call(
            "POST", "/v1/feedback",
            """
            {"message":" nice ","user_id":"ada","session_id":"\(Self.session)","submitter_email":"a@b.c",\
            "rating":5,\(Self.device)}
            """)
        check(feedback, 201, ["id", "created_at"], "feedback")
        // An agent finds all of it at the user.
        let events = try client.agent("/v1/events?user_id=ada")["events"] as? [[String: Any]] ?? []
        #expect(events.count == 2 && events.allSatisfy { $0["sdk_version"] as? String == "1.9.0" })
        #expect(events.contains { ($0["custom_attributes"] as? [String: String])?["n"] == "3" })
        let files = try client.agent("/v1/attachments?event_client_id=\(event)")["attachments"] as? [[String: Any]]
        #expect(files?.count == 1 && files?.first?["user_id"] as? String == "ada")
        #expect((try client.agent("/v1/feedback")["feedback"] as? [Any])?.count == 1)
    }

    @Test("of a back end with an import key, and of an agent", arguments: StoreKind.allCases)
    func backEnd(_ kind: StoreKind) throws {
        let client = OwlClient(try TestServer(kind))
        let (first, second) = (UUID().uuidString.lowercased(), UUID().uuidString.lowercased())
        func row(_ id: String, _ more: String) -> String {
            """
            {"client_event_id":"\(id)","user_id":"ada","session_id":"\(Self.session)","level":"info","message":"step:cart",\
            "timestamp":"2024-02-01T10:00:00.000Z","environment":"ios","source":"warehouse"\(more)}
            """
        }
        // A bundle_id is ignored, right or wrong, as other unknown members are.
        for (body, expected) in [
            (#"{"events":[\#(row(first, ""))]}"#, #"{"accepted":1,"updated":0,"rejected":0}"#),
            (
                #"{"bundle_id":"wrong","dry_run":false,"events":[\#(row(first, #","screen_name":"Shop""#)),\#(row(second, ""))]}"#,
                #"{"accepted":1,"updated":1,"rejected":0}"#
            ),
        ] {
            let answer = try client.call("POST", "/v1/import", body, key: client.server.credentials.claimImportKey)
            #expect(answer.status == 200 && answer.body == expected, "\(answer)")
        }
        let agent = client.server.credentials.claimAgentKey
        let project = (try client.agent("/v1/projects")["projects"] as? [[String: Any]])?.first?["id"] as? String ?? ""
        let made = try client.call(
            "POST", "/v1/projects/\(project)/funnels",
            #"{"name":"Buy","slug":"buy","steps":[{"name":"Cart","event_filter":{"step_name":"cart"}}],"color":"red"}"#,
            key: agent)
        check(
            made, 201,
            ["id", "project_id", "name", "slug", "description", "steps", "created_at", "updated_at"], "the funnel")
        let counts = try client.agent("/v1/events/count?user_id=ada")
        #expect(counts["count"] as? Int == 2 && counts["unique_sessions"] as? Int == 1)
        let query = try client.agent("/v1/projects/\(project)/funnels/buy/query?since=2024-01-01")
        #expect((query["analytics"] as? [String: Any])?["total_users"] as? Int == 1, "\(query)")
    }
}
