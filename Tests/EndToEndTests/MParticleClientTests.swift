import Foundation
import TestKit
import Testing

/// mParticle's own client for Python against the built server: what it uploads lands, and it is told so.
@Suite("The official Python client", .timeLimit(.minutes(30)))
struct MParticleClientTests {
    private let store: Store
    private let server: ServerProcess

    init() throws {
        store = try Store()
        server = try ServerProcess(data: store.data)
    }

    @Test("uploads a batch for a person by MPID, once")
    func one() throws {
        let mpid = try person("one")
        #expect(try upload("one", [mpid]) == [202, 202])
        let timeline = try timeline(mpid)
        #expect(timeline.map(\.type) == ["custom_event", "session_start"])
        #expect(timeline.first?.name == "opened")
        #expect(timeline.allSatisfy { $0.at == "2026-11-21T12:00:00.000Z" })

        let profile = try profile(mpid)
        #expect(profile.identities == ["customerid": "one", "other2": "two"])
        #expect(profile.attributes["eyes"] as? String == "brown")
        #expect(profile.attributes["favorite_foods"] as? [String] == ["indian", "chinese"])
    }

    @Test("uploads batches for several people, whose MPIDs no double could hold")
    func bulk() throws {
        let people = try (0..<20).map { try person("person-\($0)") }
        #expect(people.allSatisfy { (Int64($0) ?? 0) > 1 << 53 })
        #expect(try upload("bulk", people) == [202])
        for mpid in people { #expect(try timeline(mpid).map(\.name) == ["of \(mpid)"]) }
    }

    @Test("uploads batches for people by their identities, of every type that it knows")
    func identities() throws {
        let customer = try person("customerid-value")
        #expect(try upload("identities", []) == [202, 202])
        // The customer of the second upload is who it was; all the other names are its names now as well.
        #expect(try timeline(customer).map(\.name) == ["by all", "by customerid"])
        let names = try profile(customer).identities
        #expect(names.count == 21 && names["alias"] == nil)
        #expect(names["other10"] == "other_id_10-value")
        #expect(names["facebookcustomaudienceid"] == "facebook_custom_audience_id-value")
        // Who was known by one of those alone is somebody else.
        for (type, value) in names where type != "customerid" {
            let holders = try administrator("/onym/v1/people?type=\(type)&value=\(value)")["people"] as? [[String: Any]]
            let others = (holders ?? []).compactMap { $0["id"] as? String }.filter { $0 != customer }
            #expect(others.count == 1, "\(type)")
            for other in others { #expect(try timeline(other).map(\.name) == ["by \(value.dropLast(6))"]) }
        }
    }

    @Test("uploads whatever it can put into a batch")
    func everything() throws {
        let mpid = try person("everything")
        #expect(try upload("everything", [mpid]) == [202])
        let timeline = try timeline(mpid)
        #expect(timeline.count == 16)
        #expect(timeline.contains { $0.data["screen_name"] as? String == "Größe \u{1F45F}" })
        #expect(timeline.contains { ($0.data["session_id"] as? NSNumber)?.int64Value == 1 << 62 })
        let attributes = try profile(mpid).attributes
        #expect(Set(attributes.keys) == ["age", "score", "vip", "names", "eyes", "gone"], "null is a tag")
        #expect(attributes["eyes"] as? String == "grün" && attributes["score"] as? Double == 1.5)
    }

    @Test("is told what cannot be kept")
    func refused() throws {
        #expect(try upload("refused", []) == [400, 400])
    }

    // MARK: - The client

    /// Runs one scene of the script; answers the statuses that the client saw.
    private func upload(_ scene: String, _ people: [String]) throws -> [Int] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().path()
        let python = folder + "../../.venv/bin/python"
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Shell.Failed(description: "There is no Python client to drive: run Tools/setup tests.")
        }
        let result = try Shell.result(
            [python, "-W", "ignore", folder + "Clients/mparticle_client.py", server.base, scene] + people,
            environment: ["API_KEY": store.key, "API_SECRET": store.secret])
        guard let statuses = try? JSONDecoder().decode([Int].self, from: Data(result.output.utf8)) else {
            throw Shell.Failed(description: "The Python client failed: \(result.errors) \(server.errors)")
        }
        return statuses
    }

    // MARK: - What is there then

    /// Makes a person who is called something; answers its MPID.
    private func person(_ customer: String) throws -> String {
        try #require(try store.identify("{\"customerid\":\"\(customer)\"}", server.client).mpid)
    }

    private func administrator(_ path: String) throws -> [String: Any] {
        let answer = try server.client.call("GET", path, fields: [("Authorization", "Bearer \(store.adminKey)")])
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    private struct Event {
        let at: String?
        let type: String?
        let data: [String: Any]
        var name: String? { data["event_name"] as? String }
    }

    /// The events of a person, the last first.
    private func timeline(_ mpid: String) throws -> [Event] {
        let rows = try administrator("/onym/v1/people/\(mpid)/timeline?kinds=event")["rows"] as? [[String: Any]]
        return (rows ?? []).map { row in
            let body = row["body"] as? [String: Any]
            return Event(
                at: row["at"] as? String, type: body?["event_type"] as? String,
                data: body?["data"] as? [String: Any] ?? [:])
        }
    }

    private func profile(_ mpid: String) throws -> (identities: [String: String], attributes: [String: Any]) {
        let person = try administrator("/onym/v1/people/\(mpid)")
        var identities: [String: String] = [:]
        for identity in person["identities"] as? [[String: Any]] ?? [] {
            if let type = identity["type"] as? String { identities[type] = identity["value"] as? String }
        }
        let properties = (person["properties"] as? [String: [String: [String: Any]]])?["idsync"] ?? [:]
        return (identities, properties.compactMapValues { $0["value"] })
    }
}
