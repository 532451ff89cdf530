import Compression
import Foundation
import TestKit

/// A stand-in for the uploads of the vendor's Node and Android clients (spec/claim.md 3.2, 3.3): batches of 20 events, long bodies in
/// gzip, and a batch again after the answers after which the client repeats it.
struct OwlTransport {
    enum Kind { case node, android }

    let kind: Kind
    let http: HTTPClient
    let key: String
    /// The app's id in its shop; the Node client has none.
    var bundleID: String?

    /// The answers to all calls.
    private(set) var answers: [Wire.Answer] = []
    /// The number of bodies in gzip.
    private(set) var compressed = 0
    /// The events that wait for the next flush: the Android client keeps what the server did not take.
    private(set) var waiting: [String] = []
    /// The events that the client does not send again: the Node client has no queue on the disk.
    private(set) var dropped: [String] = []

    init(_ kind: Kind, _ http: HTTPClient, key: String, bundleID: String? = nil) {
        (self.kind, self.http, self.key, self.bundleID) = (kind, http, key, bundleID)
    }

    static let eventsPerBatch = 20

    /// How often the client sends a batch: at first, and after each wait.
    private var attempts: Int { kind == .node ? 6 : 5 }

    /// Sends events, after those that wait.
    mutating func flush(_ events: [String] = []) throws {
        let all = waiting + events
        waiting = []
        for start in stride(from: 0, to: all.count, by: OwlTransport.eventsPerBatch) {
            let batch = Array(all[start..<min(all.count, start + OwlTransport.eventsPerBatch)])
            if try send(batch) { continue }
            if kind == .node { dropped += batch } else { waiting += batch }
        }
    }

    /// Sends a batch until the server takes it, refuses it, or has failed too often; answers whether the server took it.
    private mutating func send(_ batch: [String]) throws -> Bool {
        let bundle = bundleID.map { #""bundle_id":"\#($0)","# } ?? ""
        for attempt in 0..<attempts {
            // The waits of the client, in a twentieth of their time.
            if attempt > 0 { Thread.sleep(forTimeInterval: 0.05 * Double(1 << (attempt - 1))) }
            let answer = try post("/v1/ingest", "{\(bundle)\"events\":[\(batch.joined(separator: ","))]}")
            answers.append(answer)
            if answer.status == 200 { return true }
            guard answer.status >= 500 || kind == .node && answer.status == 429 else { return false }
        }
        return false
    }

    /// Makes a call with the fields of the client. Uploads are in gzip from 513 characters (Node) or 512 bytes (Android).
    mutating func post(_ path: String, _ json: String, more: [(String, String)] = []) throws -> Wire.Answer {
        // Node's client writes the names of fields in small letters, Android's writes the charset.
        var fields =
            kind == .node
            ? [("authorization", "Bearer \(key)"), ("content-type", "application/json")]
            : [("Authorization", "Bearer \(key)"), ("Content-Type", "application/json; charset=utf-8")]
        fields += more
        let isLong = kind == .node ? json.utf16.count > 512 : json.utf8.count >= 512
        guard path == "/v1/ingest", isLong else {
            return try http.call("POST", path, fields: fields, body: Array(json.utf8))
        }
        compressed += 1
        fields.append((kind == .node ? "content-encoding" : "Content-Encoding", "gzip"))
        return try http.call("POST", path, fields: fields, body: Gzip.deflate(Array(json.utf8)))
    }
}
