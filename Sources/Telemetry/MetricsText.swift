import ByteText

/// Writes metrics for Prometheus (its text format, version 0.0.4).
package struct MetricsText: Sendable {
    package private(set) var bytes: [UInt8] = []

    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package init() {}

    /// Begins a metric, with its description in one sentence.
    package mutating func begin(_ name: String, _ kind: Kind, help: String) {
        line("# HELP \(name) \(help)")
        line("# TYPE \(name) \(kind.rawValue)")
    }

    package mutating func sample(_ name: String, labels: [(String, String)] = [], _ value: some BinaryInteger) {
        line("\(name)\(MetricsText.format(labels)) \(value)")
    }

    package mutating func sample(_ name: String, labels: [(String, String)] = [], _ value: Double) {
        line("\(name)\(MetricsText.format(labels)) \(value)")
    }

    /// A metric of a single value.
    package mutating func gauge(_ name: String, help: String, _ value: some BinaryInteger) {
        begin(name, .gauge, help: help)
        sample(name, value)
    }

    package mutating func counter(_ name: String, help: String, _ value: some BinaryInteger) {
        begin(name, .counter, help: help)
        sample(name, value)
    }

    /// Writes the samples of a histogram, with the values divided by `unit`. Empty buckets at both ends are left out.
    package mutating func histogram(
        _ name: String, labels: [(String, String)] = [], _ histogram: Histogram.Snapshot, unit: Double
    ) {
        var total: UInt64 = 0
        for (index, count) in histogram.counts.enumerated().dropLast() {
            total += count
            sample("\(name)_bucket", labels: labels + [("le", "\(Double(histogram.bounds[index]) / unit)")], total)
        }
        total += histogram.counts.last ?? 0
        sample("\(name)_bucket", labels: labels + [("le", "+Inf")], total)
        sample("\(name)_sum", labels: labels, Double(histogram.sum) / unit)
        sample("\(name)_count", labels: labels, total)
    }

    private mutating func line(_ text: String) {
        bytes.append(contentsOf: text.utf8)
        bytes.append(ASCII.lineFeed)
    }

    private static func format(_ labels: [(String, String)]) -> String {
        if labels.isEmpty { return "" }
        let pairs = labels.map { name, value in
            let escaped = value.map { character in
                switch character {
                case "\\": "\\\\"
                case "\"": "\\\""
                case "\n": "\\n"
                default: String(character)
                }
            }
            return "\(name)=\"\(escaped.joined())\""
        }
        return "{\(pairs.joined(separator: ","))}"
    }
}
