import Foundation
import Telemetry
import Testing
import Threads

@Suite("Telemetry")
struct TelemetryTests {
    @Test("sorts values into buckets by powers of two")
    func histogram() {
        let histogram = Histogram(smallest: 10, buckets: 4)
        for value: UInt64 in [0, 1, 10, 11, 20, 21, 40, 41, 1_000_000] { histogram.record(value) }
        let snapshot = Histogram.sum([histogram])
        #expect(snapshot.bounds == [10, 20, 40, 80])
        #expect(snapshot.counts == [3, 2, 2, 2])
        #expect(snapshot.sum == 1_000_144)
    }

    @Test("adds up what several threads have counted")
    func sums() {
        let (one, other) = (Histogram(smallest: 1, buckets: 3), Histogram(smallest: 1, buckets: 3))
        one.record(1)
        other.record(2)
        other.record(100)
        #expect(Histogram.sum([one, other]).counts == [1, 1, 1])
    }

    @Test("writes the text that Prometheus reads")
    func metricsText() {
        var text = MetricsText()
        text.counter("a_total", help: "How many.", 3)
        text.begin("b", .gauge, help: "With labels.")
        text.sample("b", labels: [("path", "GET /x"), ("odd", "a\"b\\c\nd")], 1)
        let histogram = Histogram(smallest: 1000, buckets: 3)
        histogram.record(500)
        histogram.record(1500)
        histogram.record(9000)
        text.begin("c_seconds", .histogram, help: "Times.")
        text.histogram("c_seconds", labels: [("route", "x")], Histogram.sum([histogram]), unit: 1000)
        #expect(
            String(decoding: text.bytes, as: UTF8.self) == """
                # HELP a_total How many.
                # TYPE a_total counter
                a_total 3
                # HELP b With labels.
                # TYPE b gauge
                b{path="GET /x",odd="a\\"b\\\\c\\nd"} 1
                # HELP c_seconds Times.
                # TYPE c_seconds histogram
                c_seconds_bucket{route="x",le="1.0"} 1
                c_seconds_bucket{route="x",le="2.0"} 2
                c_seconds_bucket{route="x",le="+Inf"} 3
                c_seconds_sum{route="x"} 11.0
                c_seconds_count{route="x"} 3

                """)
    }

    @Test("logs one JSON object a line, from its level on")
    func logs() throws {
        let lines = Monitor<[[UInt8]]>([])
        let logger = Logger(level: .warning) { line in lines.withLock { $0.append(line) } }
        logger.log(.info, "not this")
        logger.log(.error, "a \"quoted\" message", [("route", .text("GET /x")), ("status", .integer(503))])
        let line = try #require(lines.withLock { $0.count == 1 ? $0.first : nil })
        #expect(line.last == UInt8(ascii: "\n"))
        let object = try #require(try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
        #expect(object["level"] as? String == "error")
        #expect(object["message"] as? String == "a \"quoted\" message")
        #expect(object["route"] as? String == "GET /x")
        #expect(object["status"] as? Int == 503)
        #expect((object["at"] as? String)?.hasSuffix("Z") == true)
    }
}
