import Foundation
import TestKit
import Testing

/// A member that the server ignores can be a setting that the caller believes in, so a call of Onym's own refuses each member that it
/// does not have. Calls of the vendors pass over such members, because newer clients send more of them (docs/decisions/0071).
@Suite("Members of bodies")
struct BodyTests {
    /// The calls about something that the scene does not have, the bodies that stores make, and a call without a key.
    private static let open: Set<String> = [
        "POST /onym/v1/merges/{id}/undo 404", "POST /onym/v1/splits/{id}/undo 404",
        "POST /onym/v1/devices/{type}/{value}/release 400", "POST /onym/v1/imports/{id}/batches 404",
        "POST /onym/v1/stores/apple/{project} 404",
        "POST /onym/v1/stores/google/{project} 404", "POST /onym/v1/stores/google/{project}/{secret} 404",
        "POST /onym/v1/stores/stripe/{project} 404", "POST /onym/v1/console/session 0",
    ]

    @Test("that a call of Onym's own does not have are refused by their names, on every route")
    func unknown() throws {
        let scene = try NumberScene(.memory)
        var others: Set<String> = []
        let own = scene.routes.filter { $0.path.hasPrefix("/onym/v1/") && $0.body != nil && $0.method != "DELETE" }
        for route in own {
            let answer = try scene.answer(route, json: #"{"onym_unknown":1}"#)
            if answer?.status != 400 || answer?.body.contains("onym_unknown") != true {
                others.insert("\(route.name) \(answer?.status ?? 0)")
            }
        }
        #expect(others == Self.open, "\(others.symmetricDifference(Self.open).sorted())")
    }

    @Test("that a call about a merge, a split or a device does not have are refused by their names")
    func named() throws {
        let server = try TestServer(.memory)
        let fields = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        for path in ["merges/m_1/undo", "splits/s_1/undo", "devices/ios_idfv/x/release"] {
            let answer = try server.client.call(
                "POST", "/onym/v1/\(path)", fields: fields, json: #"{"reason":"r","onym_unknown":1}"#)
            #expect(answer.status == 400 && answer.body.contains("onym_unknown"), "\(path): \(answer)")
        }
    }

    @Test("that a call of a vendor's does not have change nothing")
    func vendors() throws {
        let (one, other) = (try NumberScene(.memory), try NumberScene(.memory))
        var count = 0
        for route in one.routes where !route.path.hasPrefix("/onym/v1/") && !["GET", "DELETE"].contains(route.method) {
            let answers = [try one.answer(route, json: "{}"), try other.answer(route, json: #"{"onym_unknown":1}"#)]
            #expect(answers[0]?.status == answers[1]?.status, "\(route.name): \(answers)")
            count += 1
        }
        #expect(count > 40)
    }

    /// What a careless reader would look at once for each byte, or compare with all that was before it.
    private static let large: [String] = {
        let count = 500_000
        let members = (0..<count / 11).map { #""m\#($0)":1"# }
        return [
            #"{"a":"\#(String(repeating: "1", count: count))""#, #"{"a":\#(String(repeating: "1", count: count))"#,
            #"{"a":"\#(String(repeating: #"\ud83d"#, count: count / 6))"}"#,
            #"{"a":"\#(String(repeating: "e\u{301}", count: count / 3))"}"#,
            "{\(members.joined(separator: ","))}", String(repeating: "[", count: count),
            #"{"a":[\#(String(repeating: "{},", count: count / 3)){}]}"#,
        ]
    }()

    @Test("that are large are answered soon, whatever is in them, on every route", .timeLimit(.minutes(10)))
    func large() throws {
        let scene = try NumberScene(.memory)
        var count = 0
        for route in scene.routes where route.body != nil && route.method != "DELETE" {
            for body in Self.large {
                guard let answer = try scene.answer(route, json: body) else { continue }
                #expect(answer.status < 500, "\(route.name): \(answer.body)")
                count += 1
            }
        }
        #expect(count > 600)
    }
}
