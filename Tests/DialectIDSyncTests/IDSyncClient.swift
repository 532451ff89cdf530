import ByteText
import Compression
import Crypto
import DialectIDSync
import Foundation
import TestKit

/// Calls the IDSync dialect as its clients do.
struct IDSyncClient {
    let server: TestServer
    let http: HTTPClient

    init(_ server: TestServer) {
        self.server = server
        http = server.client
    }

    /// How a client proves who it is.
    enum Proof: CaseIterable {
        case web, basic, apple, android

        /// The Date field, as each kind of client writes it.
        var date: String { self == .android ? "Sat, 21 Nov 2026 11:00:00 GMT+02:00" : "Sat, 21 Nov 2026 09:00:00 GMT" }
    }

    /// The body of a call, with what clients always send.
    static func body(_ identities: String, _ more: String = "") -> String {
        """
        {"client_sdk":{"platform":"ios","sdk_vendor":"mparticle","sdk_version":"9.4.0"},"context":null,\
        "environment":"development","request_timestamp_ms":1762457821105\(more.isEmpty ? "" : ",\(more)"),\
        "known_identities":\(identities)}
        """
    }

    /// `POST /v1/identify` with identities, given as a JSON object.
    func identify(_ identities: String, _ more: String = "", by proof: Proof = .web) throws -> Answer {
        Answer(try call("/v1/identify", IDSyncClient.body(identities, more), by: proof))
    }

    /// Any call, with a proof of the kind.
    func call(_ path: String, _ body: String, by proof: Proof, signedPath: String? = nil) throws -> Wire.Answer {
        let credentials = server.credentials
        switch proof {
        case .web:
            return try http.call("POST", path, fields: [("x-mp-key", credentials.idsyncWebKey)], json: body)
        case .basic:
            let pair = Base64.encode(Array("\(credentials.idsyncKey):\(credentials.idsyncSecret)".utf8))
            return try http.call("POST", path, fields: [("Authorization", "Basic \(pair)")], json: body)
        case .apple, .android:
            let bytes = Array(body.utf8)
            let head = IDSyncSignature.head("POST", date: Array(proof.date.utf8), path: signedPath ?? path)
            let signature = HMAC(key: Array(credentials.idsyncSecret.utf8)).authenticate(head, bytes)
            var fields = [
                ("x-mp-key", credentials.idsyncKey), ("Date", proof.date),
                ("x-mp-signature", Hexadecimal.encode(signature.bytes)), ("Content-Type", "application/json"),
            ]
            if proof == .android { fields.append(("Content-Encoding", "gzip")) }
            return try http.call("POST", path, fields: fields, body: proof == .android ? Gzip.deflate(bytes) : bytes)
        }
    }

    /// An answer, read.
    struct Answer {
        let wire: Wire.Answer
        private let object: [String: Any]

        init(_ wire: Wire.Answer) {
            self.wire = wire
            object = (try? JSONSerialization.jsonObject(with: Data(wire.body.utf8)) as? [String: Any]) ?? [:]
        }

        var mpid: String { object["mpid"] as? String ?? "none: \(wire)" }
        var isLoggedIn: Bool? { object["is_logged_in"] as? Bool }
        var matched: [String: String] { object["matched_identities"] as? [String: String] ?? [:] }
        var errorCode: String? { object["ErrorCode"] as? String }
        var message: String? { (object["errors"] as? [[String: String]])?.first?["message"] }
    }
}
