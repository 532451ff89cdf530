import Domain
import Foundation
import Gateway
import TestKit
import Testing
import Threads

/// Stand-ins for shipped clients, which delete, keep and wait as their sources have it (spec/idsync-clients.md 2).
/// Each sends 60 uploads, and the specification's 1,000 with `ONYM_SOAK=17`.
@Suite("Stand-ins for shipped clients")
struct ClientStandInTests {
    private struct Cut: Error {}

    @Test(
        "lose nothing and send nothing twice, whatever fails in between", arguments: ShippedClient.Kind.allCases,
        [1, 2])
    func faults(_ kind: ShippedClient.Kind, _ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 7919)
        let failing = Monitor<FailingStore?>(nil)
        let rates = RateLimits(key: RateLimit(perSecond: 400, burst: 10), identity: .off)
        var server = try TestServer(
            .sqlite, configure: { $0.rates = rates },
            wrap: { store in
                let wrapped = FailingStore(store)
                failing.withLock { $0 = wrapped }
                return wrapped
            })
        let credentials = server.credentials
        let people = try (0..<3).map { number in
            try IDSyncClient(server).identify(#"{"customerid":"c\#(number)"}"#, by: .basic).mpid
        }
        let key = kind == .web ? credentials.idsyncWebKey : credentials.idsyncKey
        let path = kind == .web ? "/v3/JS/\(key)/events" : "/v2/\(key)/events"
        var client = ShippedClient(kind)
        let count = min(1000, 60 * Soak.factor)
        for number in 0..<count {
            let mpid = people[number % 3]
            let body =
                kind == .web
                ? #"{"source_request_id":"u\#(number)","mpid":"\#(mpid)","events":[{"event_type":"x","data":{"n":\#(number)}}]}"#
                : #"{"dt":"h","id":"u\#(number)","mpid":\#(mpid),"msgs":[{"dt":"e","number":\#(number)}]}"#
            client.queue.append((path, body))
            // Uploads that nobody can keep must not hold up the others. A web client would drop all after a 401.
            if generator.oneIn(6) { client.queue.append((path, String(body.dropLast(20)))) }
            if generator.oneIn(10) { client.queue.append((path, #"{"mpid":5,"msgs":[{"dt":"e"}]}"#)) }
            if kind != .web, generator.oneIn(10) {
                client.queue.append(("/v2/us1-\(String(repeating: "0", count: 32))/events", body))
            }
        }
        func send(_ path: String, _ body: String) throws -> Wire.Answer {
            if generator.oneIn(15) {
                failing.withLock { $0?.failNextCommit(generator.oneIn(2) ? .before : .after) }
            }
            let fields: [(String, String)] = kind == .web ? [("Content-Type", "text/plain;charset=UTF-8")] : []
            let caller = IDSyncClient(server)
            let answer =
                kind == .web
                ? try caller.http.call("POST", path, fields: fields, body: Array(body.utf8))
                : try caller.call(path, body, by: path.contains("us1-00000") ? .web : .basic)
            // The connection is cut after the server has answered.
            if generator.oneIn(10) { throw Cut() }
            return answer
        }
        var rounds = 0
        while !client.queue.isEmpty, rounds < 2000 {
            rounds += 1
            client.upload(send)
            // A server that ends and another that takes over its store.
            if rounds == 5 {
                failing.withLock { $0 = nil }
                server = try TestServer(restarting: server) { $0.rates = rates }
            }
            Thread.sleep(forTimeInterval: 0.005)
        }
        #expect(client.queue.isEmpty, "\(kind) with seed \(seed) still has \(client.queue.count) uploads")
        for (place, mpid) in people.enumerated() {
            let rows = try server.store.read { snapshot throws(StoreFault) in
                try snapshot.rows(of: PersonID(rawValue: Int64(mpid) ?? 0), .event, from: nil, limit: 2 * count)
            }
            let numbers = rows.map { row in
                let body = try? JSONSerialization.jsonObject(with: Data(row.row.body)) as? [String: Any]
                return (body?["data"] as? [String: Any] ?? body)?[kind == .web ? "n" : "number"] as? Int ?? -1
            }
            #expect(numbers.sorted() == (0..<count).filter { $0 % 3 == place }, "\(kind) with seed \(seed)")
        }
    }

    @Test(
        "set and remove attributes, and the server has what the order rule says",
        arguments: Soak.seeds(6))
    func attributes(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 104_729)
        let client = IDSyncClient(try TestServer(seed % 3 == 0 ? .sqlite : .memory))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let key = client.server.credentials.idsyncKey
        // The model: the last write of each name with its time.
        var model: [String: (value: String?, at: Int)] = [:]
        for step in 0..<60 {
            let batchAt = Int.random(in: 1...40, using: &generator)
            var writes: [(name: String, value: String?)] = []
            func name() -> String { "n\(Int.random(in: 0...4, using: &generator))" }
            func value() -> String { ["null", "1", "\"x\"", "[\"a\"]"][Int.random(in: 0...3, using: &generator)] }
            let removed = (0..<Int.random(in: 0...2, using: &generator)).map { _ in name() }
            var changes: [(name: String, value: String, isDeleted: Bool, at: Int)] = []
            for _ in 0..<Int.random(in: 0...3, using: &generator) {
                changes.append((name(), value(), generator.oneIn(2), Int.random(in: 1...9, using: &generator)))
            }
            var state: [String: String] = [:]
            for _ in 0..<Int.random(in: 0...2, using: &generator) { state[name()] = value() }
            writes += removed.map { ($0, nil) }
            let sorted = changes.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
            writes += sorted.map { ($0.element.name, $0.element.isDeleted ? nil : $0.element.value) }
            writes += state.map { ($0.key, $0.value) }
            let late = model
            for write in writes where (late[write.name]?.at ?? 0) <= batchAt {
                model[write.name] = (write.value, batchAt)
            }

            let isNative = generator.oneIn(2)
            let list = removed.map { "\"\($0)\"" }.joined(separator: ",")
            let values = state.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
            let events = changes.map { change in
                isNative
                    ? #"{"dt":"uac","n":"\#(change.name)","nv":\#(change.value),"d":\#(change.isDeleted),"ct":\#(change.at)}"#
                    : """
                    {"event_type":"user_attribute_change","data":{"user_attribute_name":"\(change.name)",\
                    "new":\(change.value),"deleted":\(change.isDeleted),"timestamp_unixtime_ms":\(change.at)}}
                    """
            }.joined(separator: ",")
            let body =
                isNative
                ? #"{"mpid":\#(mpid),"ct":\#(batchAt),"uad":[\#(list)],"ua":{\#(values)},"msgs":[\#(events)]}"#
                : """
                {"mpid":"\(mpid)","timestamp_unixtime_ms":\(batchAt),"deleted_user_attributes":[\(list)],\
                "user_attributes":{\(values)},"events":[\(events)]}
                """
            let path = isNative ? "/v2/\(key)/events" : generator.oneIn(2) ? "/v2/events" : "/v3/JS/\(key)/events"
            #expect(try client.call(path, body, by: .basic).status == 202)
            let expected = model.compactMapValues(\.value)
            let found = try client.attributes(of: mpid)
            #expect(found == expected, "seed \(seed), step \(step): \(body)")
            if found != expected { return }
        }
    }
}
