import Gateway
import TestKit
import Testing
import Threads

/// Readings that would never end by themselves.
@Suite("A reading that takes for ever")
struct ReadingTests {
    /// A server whose readings are held, and a call that reads.
    private final class Held {
        let server: TestServer
        let store: Monitor<FailingStore?>
        let fields: String

        init(
            _ times: ReadTimes, drainMilliseconds: UInt64 = 10_000, drainReadsMilliseconds: UInt64 = 10_000
        ) throws {
            let holder = Monitor<FailingStore?>(nil)
            server = try TestServer(.memory) {
                $0.readTimes = times
                // The rows stay in no run.
                ($0.runs.short, $0.runs.long) = (1 << 16, 1 << 16)
                $0.limits.drainMilliseconds = drainMilliseconds
                $0.limits.drainReadsMilliseconds = drainReadsMilliseconds
            } wrap: {
                let failing = FailingStore($0)
                holder.withLock { $0 = failing }
                return failing
            }
            store = holder
            fields = "Host: x\r\nAuthorization: Bearer \(server.credentials.adminKey)\r\n\r\n"
        }

        var readings: Monitor<FailingStore.Readings> {
            guard let store = store.withLock({ $0 }) else { preconditionFailure("The server has its store.") }
            return store.readings
        }

        /// Sends a call whose reading is held; returns when it is.
        func hold() throws -> Wire {
            readings.change { $0.areHeld = true }
            let wire = try Wire(port: server.port)
            try wire.send("GET /onym/v1/people?type=email&value=a HTTP/1.1\r\n" + fields)
            #expect(held(1))
            return wire
        }

        /// Whether there come to be so many.
        func held(_ count: Int) -> Bool {
            readings.wait(milliseconds: Patience.milliseconds) { $0.held == count ? true : nil } == true
        }
    }

    private static func times(_ milliseconds: UInt64, silent: UInt64) -> ReadTimes {
        var times = ReadTimes()
        (times.milliseconds, times.silentMilliseconds) = (milliseconds, silent)
        return times
    }

    private static let never: UInt64 = 3_600_000

    @Test("is ended at its time, with an answer that says to come again")
    func deadline() throws {
        let held = try Held(Self.times(20, silent: Self.never))
        let wire = try held.hold()
        let answer = try wire.readAnswer()
        #expect(answer.status == 503 && answer["Retry-After"] == "1", "\(answer)")
        #expect(held.held(0))
    }

    @Test("in slices is ended when all its slices together take too long, however short each of them is")
    func slices() throws {
        var times = Self.times(Self.never, silent: Self.never)
        times.slicedMilliseconds = 4000
        let held = try Held(times)
        func call(_ method: String, _ path: String, _ key: String, _ json: String? = nil) throws -> Wire.Answer {
            let fields = [("Authorization", "Bearer \(key)")]
            guard let json else { return try held.server.client.call(method, path, fields: fields) }
            return try held.server.client.call(method, path, fields: fields, json: json)
        }
        // These are more rows than a first slice reads, and few enough to be read as a run.
        let event = #"{"message":"m","level":"info","session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}"#
        let events = Array(repeating: event, count: 100).joined(separator: ",")
        let body = #"{"bundle_id":"com.example.demo","events":[\#(events)]}"#
        for _ in 0..<170 {
            let answer = try call("POST", "/v1/ingest", held.server.credentials.claimClientKey, body)
            #expect(answer.body.contains(#""accepted":100"#), "\(answer)")
        }
        let slices = Monitor(0)
        let store = try #require(held.store.withLock { $0 })
        store.beforeReading.withLock {
            $0 = {
                slices.change { $0 += 1 }
                // A slice takes more than half of the time of all.
                _ = slices.wait(milliseconds: 2400) { _ in nil as Void? }
            }
        }
        let answer = try call("GET", "/v1/events/count?data_mode=all", held.server.credentials.claimAgentKey)
        #expect(answer.status == 503 && answer["Retry-After"] == "1", "\(answer)")
        #expect((1...2).contains(slices.withLock(\.self)), "it ends in the second, or on a slow machine in the first")
    }

    @Test("is ended when its client leaves")
    func clientLeaves() throws {
        let held = try Held(Self.times(Self.never, silent: Self.never))
        for _ in 0..<4 {
            try held.hold().reset()
            #expect(held.held(0))
        }
    }

    @Test("is ended soon when its client sends nothing more, who may wait for it that long")
    func clientIsSilent() throws {
        let held = try Held(Self.times(Self.never, silent: 20))
        let wire = try held.hold()
        wire.finishSending()
        #expect(try wire.readAnswer().status == 503)
        try held.hold().close()
        #expect(held.held(0))
    }

    @Test("is ended when the server stops")
    func serverStops() throws {
        let held = try Held(Self.times(Self.never, silent: Self.never), drainMilliseconds: 20)
        let wire = try held.hold()
        held.server.stop()
        #expect(held.held(0))
        withExtendedLifetime(wire) {}
    }

    @Test("is ended some time after the server has begun to stop, and answered")
    func serverStopsReads() throws {
        let held = try Held(Self.times(Self.never, silent: Self.never), drainReadsMilliseconds: 20)
        let wire = try held.hold()
        held.server.stop()
        let answer = try wire.readAnswer()
        #expect(answer.status == 503 && answer["Connection"] == "close", "\(answer)")
        #expect(held.held(0) && wire.isClosedByPeer)
    }

    @Test("that waits for a commit makes room when its client leaves")
    func waitingClients() throws {
        let held = try Held(Self.times(Self.never, silent: Self.never))
        let fields = [("Authorization", "Bearer \(held.server.credentials.adminKey)")]
        let feed = JSONAnswer(try held.server.client.call("GET", "/onym/v1/changes", fields: fields))
        let end = try #require(feed.number("next_after"), "\(feed)")
        // So many may wait at once.
        for _ in 0..<1024 {
            let wire = try Wire(port: held.server.port)
            try wire.send("GET /onym/v1/changes?after=\(end)&wait=60 HTTP/1.1\r\n" + held.fields)
            wire.close()
        }
        // Without room the answer comes at once. Whoever has left is noticed a little later.
        var took = Duration.zero
        for _ in 0..<20 where took < .milliseconds(900) {
            took = try ContinuousClock().measure {
                let answer = try held.server.client.call(
                    "GET", "/onym/v1/changes?after=\(end)&wait=1", fields: fields)
                #expect(answer.status == 200, "\(answer)")
            }
        }
        #expect(took >= .milliseconds(900))
    }

    @Test("has no part in what others read when it has ended")
    func othersGoOn() throws {
        let held = try Held(Self.times(20, silent: 20))
        for _ in 0..<4 { _ = try held.hold().readAnswer() }
        held.readings.change { $0.areHeld = false }
        let answer = try held.server.client.call(
            "GET", "/onym/v1/people?type=email&value=a",
            fields: [("Authorization", "Bearer \(held.server.credentials.adminKey)")])
        #expect(answer.status == 200, "\(answer)")
    }
}
