import Foundation
import Testing
import VendorFiles

/// A file of a vendor beside its facts. `Samples/make.py` writes the files; ONYM_RECORD=1 records the facts.
struct Sample: CustomTestStringConvertible, Sendable {
    let vendor: Vendor
    let files: [String]
    var options = VendorOptions()

    var testDescription: String { files.joined(separator: " ") }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Samples")

    static let all = [
        Sample(vendor: .mparticle, files: ["mparticle-s3.jsonl"]),
        Sample(vendor: .mparticle, files: ["mparticle-profiles.jsonl"]),
        Sample(vendor: .mparticle, files: ["mparticle-snowflake.jsonl"]),
        Sample(vendor: .segment, files: ["segment-identifiers.csv"]),
        Sample(vendor: .segment, files: ["segment-traits.csv"]),
        Sample(vendor: .segment, files: ["segment-graph.csv", "segment-external.csv"]),
        Sample(vendor: .posthog, files: ["posthog-page.json"]),
        Sample(vendor: .posthog, files: ["posthog-persons.csv"]),
        Sample(vendor: .posthog, files: ["posthog-events.csv"]),
        Sample(vendor: .posthog, files: ["posthog-events.jsonl"]),
        Sample(vendor: .revenuecat, files: ["revenuecat-v3.csv"]),
        Sample(vendor: .revenuecat, files: ["revenuecat-webhooks.jsonl"]),
        Sample(vendor: .qonversion, files: ["qonversion-webhooks.jsonl"]),
        Sample(vendor: .qonversion, files: ["qonversion-report.csv"], options: VendorOptions(store: .appStore)),
        Sample(vendor: .owlmetry, files: ["owlmetry-app_users.csv"]),
        Sample(vendor: .owlmetry, files: ["owlmetry-events.csv"]),
        Sample(vendor: .owlmetry, files: ["owlmetry-import.jsonl"]),
        Sample(vendor: .mixpanel, files: ["mixpanel.jsonl"]),
        Sample(vendor: .amplitude, files: ["amplitude.jsonl"]),
        Sample(vendor: .csv, files: ["acme.csv"], options: VendorOptions(map: acme)),
    ]

    /// The map of the sample `acme.csv`.
    private static let acme: VendorMap = {
        do {
            return try VendorMap(json: bytes(of: "acme.map.json"))
        } catch {
            fatalError("The map of the sample is not usable: \(error)")
        }
    }()

    static func bytes(of file: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: folder.appending(path: file)))
    }

    /// Reads the files in chunks of a size.
    func read(chunk: Int = 1 << 16) throws -> Reading {
        let reader = try VendorReader(vendor, options)
        return try Reading(reader, files.map { ($0, try Sample.bytes(of: $0)) }, chunk: chunk)
    }
}

/// The result of an import's reader.
struct Reading: Equatable {
    var lines: [FactLine] = []
    var refused: [FactRefusal] = []
    var report: VendorReport

    init(_ reader: VendorReader, _ files: [(name: String, bytes: [UInt8])], chunk: Int = 1 << 16) throws {
        for (name, bytes) in files {
            try reader.begin(file: name)
            var start = 0
            while start < bytes.count {
                let end = min(start + chunk, bytes.count)
                lines += try reader.read(Array(bytes[start..<end]))
                refused += reader.takeRefused()
                start = end
            }
        }
        lines += try reader.finish()
        refused += reader.takeRefused()
        report = reader.report
    }

    /// Reads one file of text.
    init(_ vendor: Vendor, _ options: VendorOptions, _ text: String) throws {
        try self.init(VendorReader(vendor, options), [("file", Array(text.utf8))])
    }

    init(_ vendor: Vendor, _ text: String) throws { try self.init(vendor, VendorOptions(), text) }

    /// The lines as texts.
    var facts: [String] { lines.map { String(decoding: $0.json, as: UTF8.self) } }

    /// All that a golden file shows.
    var text: String {
        var text = ""
        for line in lines { text += "\(line.file):\(line.line) \(String(decoding: line.json, as: UTF8.self))\n" }
        for refusal in refused {
            text += "refused \(refusal.file):\(refusal.line) \(refusal.reason.rawValue): \(refusal.detail) "
            text += String(decoding: refusal.record, as: UTF8.self) + "\n"
        }
        func sorted(_ counts: [String: Int]) -> String {
            counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        }
        text += "records \(report.records), lines: \(sorted(report.lines))\n"
        text += "left out: \(sorted(report.leftOut))\n"
        text += "unknown columns: \(report.unknownColumns.joined(separator: ", "))\n"
        for warning in report.warnings { text += "warning: \(warning)\n" }
        text += "cannot come: \(report.cannotCome.joined(separator: ", "))\n"
        return text
    }
}

@Suite("Samples of vendors' files")
struct SampleTests {
    @Test("become their recorded facts", arguments: Sample.all)
    func golden(_ sample: Sample) throws {
        let text = try sample.read().text
        let golden = Sample.folder.appending(path: sample.files.joined(separator: "+") + ".facts")
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] != nil { try Data(text.utf8).write(to: golden) }
        let recorded = try String(contentsOf: golden, encoding: .utf8)
        for (line, expected) in zip(text.split(separator: "\n"), recorded.split(separator: "\n")) where line != expected
        {
            #expect(line == expected)
        }
        #expect(text == recorded)
    }

    @Test("give the same lines for every size of chunks", arguments: Sample.all)
    func chunks(_ sample: Sample) throws {
        let whole = try sample.read()
        for chunk in 1...64 {
            let reading = try sample.read(chunk: chunk)
            #expect(reading == whole, "chunks of \(chunk) bytes")
        }
    }

    @Test("give lines that are JSON and name a person of the same import before", arguments: Sample.all)
    func people(_ sample: Sample) throws {
        var people: Set<String> = []
        for line in try sample.read().lines {
            let fact = try #require(try JSONSerialization.jsonObject(with: Data(line.json)) as? [String: Any])
            if fact["kind"] as? String == "person" {
                let name = try #require((fact["id"] ?? fact["key"]) as? String)
                people.insert(name)
            } else {
                for member in ["person", "key", "from", "into", "from_key", "into_key"] where fact[member] is String {
                    let name = try #require(fact[member] as? String)
                    if fact["kind"] as? String != "grant" { #expect(people.contains(name), "\(name)") }
                }
            }
        }
        #expect(!people.isEmpty)
    }

    @Test("read twice by one import give no other people and identities", arguments: Sample.all)
    func again(_ sample: Sample) throws {
        func named(_ reading: Reading) -> Set<String> {
            Set(reading.facts.filter { $0.hasPrefix(#"{"kind":"person""#) || $0.hasPrefix(#"{"kind":"link""#) })
        }
        let once = try sample.read()
        let reader = try VendorReader(sample.vendor, sample.options)
        let files = try (sample.files + sample.files).map { ($0, try Sample.bytes(of: $0)) }
        let twice = try Reading(reader, files)
        #expect(named(twice) == named(once))
        #expect(twice.report.records == 2 * once.report.records)
    }
}
