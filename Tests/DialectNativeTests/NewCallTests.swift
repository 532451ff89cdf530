import DialectNative
import Domain
import Foundation
import Gateway
import HTTPMessage
import HTTPServer
import JSON
import TestKit
import Testing

// The exercise of CONTRIBUTING.md, "A new call": a call that journals a note about a person. The code between the marks
// stands in CONTRIBUTING.md as it is here.

// exercise: the act
/// A call that journals a note about a person, and changes nothing else.
struct Echo: Act {
    let person: PersonID
    let text: String

    static var kinds: [ActKind] { [.exercise] }
    var subjects: Subjects { Subjects(about: person) }
    var byteCount: Int { 64 + text.utf8.count }

    /// Journals the note; refused where the person does not exist, or the note is longer than a note may be.
    func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision<Done> {
        guard view.person(person, in: project) != nil else { throw .noSuchPerson }
        guard text.utf8.count <= Echo.textBytes else { throw .noteTooLong }
        return Decision(Done(), outcome: Outcome(kind: .exercise, person: person, changes: [], note: text))
    }

    static let textBytes = 1000
}

extension Refusal {
    static let noteTooLong = Refusal(.invalid, "note_too_long", "A note has at most 1000 bytes.")
}
// exercise: the route
/// Notes about people.
enum EchoCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/echo", scope: .admin,
            operation: Operation(
                id: "echo", summary: "Journals a note about a person.",
                request: .object([
                    .init("person", .string(), required: true), .init("text", .string(), required: true),
                ]),
                responses: [.init(.ok, "The note is in the journal.", schema: .object([]))]
                    + Native.problems([.badRequest, .notFound, .unprocessableContent])),
            action: .act(
                Echo.self, body: BufferedBody(),
                decode: { request, _, tools throws(Rejection) in
                    do throws(JSONFault) {
                        return Decoded(try tools.json.read(request.body, EchoCalls.read))
                    } catch {
                        throw Rejection(Native.problem(error, request.id))
                    }
                },
                encode: { _, _, _ in Response(.ok, contentType: "application/json", body: Array("{}".utf8)) }))
    ]

    private static func read(_ root: JSONValue) throws(JSONFault) -> Echo {
        var (person, text): (PersonID?, String?)
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "person": person = Int64(try value.string(at: "person")).map(PersonID.init(rawValue:))
            case "text": text = try value.string(at: "text")
            default: throw JSONFault(.wrong("is not a field of this call"), at: key.shown)
            }
        }
        guard let person else { throw JSONFault(.wrong("is required: the id of a person"), at: "person") }
        guard let text else { throw JSONFault(.wrong("is required"), at: "text") }
        return Echo(person: person, text: text)
    }
}
// exercise: end

@Suite("A new call, as CONTRIBUTING tells it")
struct NewCallTests {
    @Test("is journalled, refused, repeated and forgotten as every call is", arguments: [StoreKind.memory, .sqlite])
    func echo(_ kind: StoreKind) throws {
        let server = try TestServer(kind) { $0.moreRoutes = EchoCalls.routes }
        let client = NativeClient(server)
        let person = try client.identify(#"{"customerid":"a"}"#)

        let note = #"{"person":"\#(person)","text":"called us"}"#
        for _ in 0..<2 {
            let fields = [("Authorization", "Bearer \(server.credentials.adminKey)"), ("Idempotency-Key", "k1")]
            let answer = try server.client.call("POST", "/onym/v1/echo", fields: fields, json: note)
            #expect(answer.status == 200, "\(answer)")
        }
        let calls = try client.get("/onym/v1/people/\(person)/journal").list("calls")
        let notes = calls.filter { $0["kind"] as? String == "exercise" }
        #expect(notes.count == 1, "a repeated call is one line of the journal")
        #expect(notes.first?["reason"] as? String == "called us")

        #expect(try client.post("/onym/v1/echo", #"{"person":"5","text":"x"}"#).status == 404)
        let long = String(repeating: "x", count: 1001)
        let tooLong = try client.post("/onym/v1/echo", #"{"person":"\#(person)","text":"\#(long)"}"#)
        #expect(tooLong.status == 400 && tooLong.text("code") == "note_too_long")
        #expect(try client.post("/onym/v1/echo", #"{"person":"\#(person)"}"#).status == 400)
        #expect(try server.client.call("POST", "/onym/v1/echo", fields: [], json: note).status == 401)

        #expect(try client.call("DELETE", "/onym/v1/people/\(person)").status == 200)
        #expect(try client.post("/onym/v1/echo", note).status == 404)
        let changes = try client.get("/openapi.json")
        #expect(changes.wire.body.contains(#""/onym/v1/echo""#))
    }

    @Test("stands in CONTRIBUTING as the test has it")
    func told() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "CONTRIBUTING.md"), encoding: .utf8)
        let source = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
        let act = try #require(
            source.firstMatch(of: /\/\/ exercise: the act\n((?:.|\n)*?)\/\/ exercise: the route\n/)?.1)
        #expect(page.contains("```swift\n\(act)```"), "CONTRIBUTING.md shows the act of the exercise.")
        for file in page.matches(of: /`((?:Sources|Tests)\/[A-Za-z\/]+\.swift)`/).map(\.1) {
            #expect(FileManager.default.fileExists(atPath: root.appending(path: String(file)).path), "\(file)")
        }
    }
}
