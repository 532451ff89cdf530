import Foundation
import Testing
import VendorFiles

private let identifiers = "canonical_segment_id,type,value,timestamp\n"

@Suite("Reading vendors' files")
struct ReadingTests {
    // MARK: Files that do not fit

    struct Misfit: Sendable, CustomTestStringConvertible {
        let vendor: Vendor
        let text: String
        let demand: String
        var testDescription: String { "\(vendor.rawValue): \(text.prefix(30))" }
    }

    @Test(
        "refuses a file that does not fit, and says what is missing",
        arguments: [
            Misfit(vendor: .mparticle, text: "{\"user\":1}\n", demand: "neither mpid nor mparticleuserid"),
            Misfit(vendor: .mparticle, text: "mpid,email\n1,a@b.c\n", demand: "does not begin with a JSON object"),
            Misfit(vendor: .mparticle, text: "{\"mpid\":1\n", demand: "is not JSON"),
            Misfit(vendor: .segment, text: "id,name\n1,a\n", demand: "fits no table of Segment"),
            Misfit(vendor: .segment, text: "{\"a\":1}\n", demand: "a CSV file is expected"),
            Misfit(vendor: .posthog, text: "uuid,event\n1,a\n", demand: "distinct_id, person_id, timestamp"),
            Misfit(vendor: .posthog, text: "{\"a\":1}", demand: "no page, no person and no event"),
            Misfit(vendor: .revenuecat, text: "store,start_time\na,b\n", demand: "rc_original_app_user_id"),
            Misfit(vendor: .revenuecat, text: "{\"a\":1}\n", demand: "no event with a type"),
            Misfit(vendor: .qonversion, text: "time,amount\n1,2\n", demand: "--from csv --map FILE"),
            Misfit(vendor: .qonversion, text: "{\"event_name\":\"x\",\"user_id\":\"u\"}\n", demand: "--purchase-store"),
            Misfit(vendor: .owlmetry, text: "id,name\n1,2\n", demand: "user_id, message, timestamp"),
            Misfit(vendor: .owlmetry, text: "{\"a\":1}\n", demand: "no array events"),
            Misfit(vendor: .mixpanel, text: "{\"a\":1}\n", demand: "$distinct_id nor properties.distinct_id"),
        ])
    func misfits(_ misfit: Misfit) throws {
        let fault = #expect(throws: VendorFault.self) { try Reading(misfit.vendor, misfit.text) }
        #expect(fault?.message.contains(misfit.demand) == true, "\(fault?.message ?? "")")
    }

    @Test("refuses options that the vendor has no use for")
    func options() throws {
        let map = try VendorMap(json: Array(#"{"format":"csv","vendor":"a","key":"id"}"#.utf8))
        let misuses: [(Vendor, VendorOptions, String)] = [
            (.segment, VendorOptions(development: true), "--development"),
            (.revenuecat, VendorOptions(store: .stripe), "--purchase-store"),
            (.qonversion, VendorOptions(grantUnsupported: true), "--grant-unsupported"),
            (.mparticle, VendorOptions(world: .sandbox), "--world"),
            (.mparticle, VendorOptions(map: map), "--map"),
            (.csv, VendorOptions(), "--map FILE"),
            (.jsonl, VendorOptions(map: map), "--from csv"),
        ]
        for (vendor, options, demand) in misuses {
            let fault = #expect(throws: VendorFault.self) { _ = try VendorReader(vendor, options) }
            #expect(fault?.message.contains(demand) == true, "\(fault?.message ?? "")")
        }
    }

    @Test("an empty file gives nothing", arguments: Vendor.allCases.filter { $0 != .csv && $0 != .jsonl })
    func empty(_ vendor: Vendor) throws {
        for text in ["", "\n", "\u{FEFF}"] {
            let reading = try Reading(vendor, text)
            #expect(reading.lines.isEmpty)
            #expect(reading.report.records == 0)
        }
    }

    // MARK: CSV

    @Test(
        "reads CSV as RFC 4180 has it",
        arguments: [
            ("a,email,x@y.z,\n", "x@y.z"), ("a,email,\"x,y\",\n", "x,y"), ("a,email,\"x\"\"y\",\n", "x\"y"),
            ("a,email,\"x\ny\",\n", "x\ny"), ("a,email,\"x\r\ny\",\r\n", "x\r\ny"),
            ("\"a\",\"email\",\"x\",\"\"\r\n", "x"),
            ("a,email,x,", "x"), ("a,email,\"é\"\"é\",", "é\"é"), ("a,email,5\" pipe,\n", "5\" pipe"),
            ("a,email,\"x\" ,\n", "x "),
        ])
    func cells(_ row: String, _ value: String) throws {
        for mark in ["", "\u{FEFF}"] {
            let reading = try Reading(.segment, mark + identifiers + row)
            let link = try #require(reading.lines.last)
            let fact = try #require(try JSONSerialization.jsonObject(with: Data(link.json)) as? [String: Any])
            #expect(fact["value"] as? String == value)
        }
    }

    @Test("refuses rows that are damaged, and goes on")
    func damagedRows() throws {
        var bytes = Array((identifiers + "a,email,x@y.z,\na,email\na,email,x,y,z,\n").utf8)
        bytes += [0x61, 0x2C, 0x65, 0x6D, 0x61, 0x69, 0x6C, 0x2C, 0xFF, 0x2C, 0x0A]
        bytes += Array("a,email,\0,\nb,email,last@y.z,\n".utf8)
        let reading = try Reading(VendorReader(.segment), [("file", bytes)])
        #expect(reading.refused.map(\.line) == [3, 4, 5, 6])
        #expect(reading.refused.allSatisfy { $0.reason == .malformed })
        for refusal in reading.refused { _ = try JSONSerialization.jsonObject(with: Data(refusal.record)) }
        #expect(reading.facts.last?.contains("last@y.z") == true)
        #expect(reading.report.records == 6)
        #expect(reading.report.refused == [.malformed: 4])
    }

    @Test("numbers lines by the file, with newlines in quotes")
    func lineNumbers() throws {
        let reading = try Reading(.segment, identifiers + "a,email,\"1\n2\n3\",\n\nb,email,x,\n")
        #expect(reading.lines.map(\.line) == [2, 2, 6, 6])
    }

    // MARK: JSON

    @Test("reads JSON lines, documents over several lines, and one array of documents")
    func documents() throws {
        let one = #"{"mpid":1,"user_identities":[{"type":"email","value":"a@b.c"}]}"#
        let two = #"{"mpid":2,"user_identities":[{"type":"other","value":"]}\""}]}"#
        let expected = try Reading(.mparticle, one + "\n" + two + "\n").facts
        #expect(expected.count == 4)
        let spread = { (text: String) in text.replacing(",", with: ",\n ").replacing("{", with: "{\n") }
        for text in [
            one + "\r\n\r\n" + two, "[" + one + "," + two + "]", "[\n" + one + ",\n" + two + "\n]\n",
            spread(one) + "\n" + spread(two), "\u{FEFF}" + one + "\n" + two,
        ] {
            #expect(try Reading(.mparticle, text).facts == expected, "\(text)")
        }
    }

    @Test("refuses lines that are not JSON, and goes on")
    func damagedLines() throws {
        let reading = try Reading(
            .mparticle, "{\"mpid\":1}\n{\"mpid\":2\n\"x\"\n{\"mpid\":1.5}\n{\"mpid\":\"x\"}\n{}\n{\"mpid\":3}\n")
        #expect(reading.refused.map(\.line) == [2, 3, 4, 5, 6])
        #expect(reading.refused.map(\.reason) == [.malformed, .malformed, .malformed, .malformed, .nobody])
        #expect(String(decoding: reading.refused[0].record, as: UTF8.self) == #""{\"mpid\":2""#)
        #expect(reading.facts == [#"{"kind":"person","id":"1"}"#, #"{"kind":"person","id":"3"}"#])
    }

    @Test("keeps numbers beyond 53 bits")
    func exact() throws {
        let reading = try Reading(
            .mparticle,
            #"{"mpid":-9223372036854775808,"user_attributes":{"a":9007199254740993,"b":18446744073709551615}}"# + "\n"
                + #"{"mpid":"9223372036854775807"}"#)
        #expect(reading.facts.first == #"{"kind":"person","id":"-9223372036854775808"}"#)
        #expect(reading.facts.contains { $0.hasSuffix(#""name":"a","value":9007199254740993}"#) })
        #expect(reading.facts.contains { $0.hasSuffix(#""name":"b","value":18446744073709551615}"#) })
        #expect(reading.facts.last == #"{"kind":"person","id":"9223372036854775807"}"#)
    }

    @Test("reads text with a lone surrogate")
    func surrogates() throws {
        let reading = try Reading(.mparticle, #"{"mpid":1,"user_attributes":{"a":"x\ud83d"}}"#)
        #expect(reading.facts.last?.contains("\"x\u{FFFD}\"") == true)
    }

    // MARK: Times

    @Test(
        "reads the times of databases",
        arguments: [
            ("2022-06-22 10:48:00", "2022-06-22T10:48:00.000Z"),
            ("2022-06-22 10:48:00.5 UTC", "2022-06-22T10:48:00.500Z"),
            ("2022-06-22T10:48:00.123456Z", "2022-06-22T10:48:00.123Z"),
            ("2022-06-22 10:48:00+02", "2022-06-22T08:48:00.000Z"),
            ("2022-06-22 10:48:00.000 +0000", "2022-06-22T10:48:00.000Z"), ("2022-06-22", "2022-06-22T00:00:00.000Z"),
            ("1655894880", "2022-06-22T10:48:00.000Z"), ("1655894880.25", "2022-06-22T10:48:00.250Z"),
            ("1655894880123", "2022-06-22T10:48:00.123Z"),
        ])
    func times(_ text: String, _ expected: String) throws {
        let reading = try Reading(.segment, identifiers + "a,email,x,\(text)\n")
        #expect(reading.facts.last?.contains("\"since\":\"\(expected)\"") == true, "\(reading.facts)")
    }

    @Test(
        "refuses texts that are no times",
        arguments: ["never", "2022-13-01", "2022-06-22 25:00:00", "1e9", "99999999999999999"])
    func badTimes(_ text: String) throws {
        let reading = try Reading(.segment, identifiers + "a,email,x,\(text)\n")
        #expect(reading.refused.map(\.reason) == [.malformed])
    }

    // MARK: Damage

    /// A generator with a seed, so that a failure can be repeated.
    struct Chance: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
            return word ^ word >> 31
        }
    }

    @Test(
        "survives flipped, lost and doubled bytes: every line stays JSON, and chunks change nothing",
        arguments: Sample.all)
    func damage(_ sample: Sample) throws {
        var whole = 0
        for seed in 1...60 {
            var chance = Chance(state: UInt64(seed))
            var files: [(name: String, bytes: [UInt8])] = []
            for file in sample.files {
                var bytes = try Sample.bytes(of: file)
                for _ in 0..<Int.random(in: 1...12, using: &chance) where bytes.count > 40 {
                    // Mostly behind the header, which would refuse the whole file.
                    let first = seed % 4 == 0 ? 0 : min(400, bytes.count / 2)
                    let place = Int.random(in: first..<bytes.count - 20, using: &chance)
                    switch Int.random(in: 0..<4, using: &chance) {
                    case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &chance)
                    case 1: bytes.removeSubrange(place..<place + Int.random(in: 1...20, using: &chance))
                    case 2: bytes.insert(contentsOf: bytes[place..<place + 8], at: place)
                    default: bytes.removeSubrange(place...)
                    }
                }
                files.append((file, bytes))
            }
            let chunk = Int.random(in: 1...300, using: &chance)
            let once = try? Reading(VendorReader(sample.vendor, sample.options), files)
            let again = try? Reading(VendorReader(sample.vendor, sample.options), files, chunk: chunk)
            #expect(once == again, "seed \(seed)")
            guard let once else { continue }
            whole += 1
            for line in once.lines {
                let fact = try JSONSerialization.jsonObject(with: Data(line.json)) as? [String: Any]
                #expect(fact?["kind"] is String, "seed \(seed)")
            }
            for refusal in once.refused {
                _ = try JSONSerialization.jsonObject(with: Data(refusal.record), options: .fragmentsAllowed)
            }
        }
        // A page over several lines is one document, which one byte can damage as a whole.
        #expect(whole > 0)
    }
}
