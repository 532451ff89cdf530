import ByteText
import JSON

/// A vendor whose files can be read (spec/moving.md 2). The names are those of `onym import --from`.
package enum Vendor: String, CaseIterable, Sendable {
    case mparticle, segment, posthog, revenuecat, qonversion, owlmetry, mixpanel, amplitude
    /// Files of any vendor, described by a mapping file.
    case csv, jsonl
}

/// The world of a purchase.
package enum VendorWorld: String, Sendable {
    case production, sandbox
}

/// A store of purchases, by its name in the form `facts`.
package enum VendorStore: String, CaseIterable, Sendable {
    case appStore = "app_store"
    case playStore = "play_store"
    case stripe
    case paddle
}

/// The choices of an import that concern the vendor's files.
package struct VendorOptions: Sendable {
    /// The world of purchases whose records do not name a world; nil for production.
    package var world: VendorWorld?
    /// Whether records of mParticle's environment `development` are read.
    package var development: Bool
    /// The store of Qonversion's records that do not name a store.
    package var store: VendorStore?
    /// Whether a purchase of a store that Onym does not know becomes a grant of its entitlements.
    package var grantUnsupported: Bool
    package var map: VendorMap?

    package init(
        world: VendorWorld? = nil, development: Bool = false, store: VendorStore? = nil,
        grantUnsupported: Bool = false, map: VendorMap? = nil
    ) {
        self.world = world
        self.development = development
        self.store = store
        self.grantUnsupported = grantUnsupported
        self.map = map
    }
}

/// The reason why an import cannot go on: a file that does not fit its vendor, or options that do not fit.
package struct VendorFault: Error, Equatable, Sendable {
    /// A sentence for the person who imports.
    package let message: String

    package init(_ message: String) { self.message = message }
}

/// Reads files of a vendor, and writes lines of the form `facts`.
///
/// The caller gives each file in chunks of any size: `begin`, then `read` for each chunk, and `finish` after the last file. The
/// lines depend on the bytes of the files and their order alone, not on the chunks. Memory is constant, apart from the states of
/// purchases (about 60 bytes for each original transaction) and from PostHog's people: about 100 bytes for each person, and
/// about 200 bytes for each distinct id of an export of persons. A reader that has thrown a fault is not used again.
package final class VendorReader {
    /// The longest record, in bytes. A longer record is a fault, because a quote or a bracket is probably missing.
    package static let longestRecord = 64 << 20

    private var form: any VendorForm
    private let expects: Expectation
    private var facts: Facts
    private var file: OpenFile?
    private let parser = JSONParser()

    /// The form that a file has.
    enum Expectation {
        case csv, json, either
    }

    private struct OpenFile {
        let name: String
        var splitter: Splitter
        /// Whether the header or the first record was read.
        var isRecognized = false
    }

    private enum Splitter {
        /// The bytes so far do not tell CSV from JSON.
        case undecided([UInt8])
        case csv(CSVTable)
        case json(JSONSplitter)
    }

    /// Makes a reader for one import.
    package init(_ vendor: Vendor, _ options: VendorOptions = VendorOptions()) throws(VendorFault) {
        try VendorReader.check(options, for: vendor)
        facts = Facts(options)
        switch vendor {
        case .mparticle: (form, expects) = (MParticle(development: options.development), .json)
        case .segment: (form, expects) = (Segment(map: options.map), .csv)
        case .posthog: (form, expects) = (PostHog(), .either)
        case .revenuecat: (form, expects) = (RevenueCat(options), .either)
        case .qonversion: (form, expects) = (Qonversion(options), .either)
        case .owlmetry: (form, expects) = (OwlMetry(), .either)
        case .mixpanel: (form, expects) = (MappedForm(.mixpanel), .json)
        case .amplitude: (form, expects) = (MappedForm(.amplitude), .json)
        case .csv, .jsonl:
            guard let map = options.map else {
                throw VendorFault("--from \(vendor.rawValue) needs --map FILE.")
            }
            guard map.format.rawValue == vendor.rawValue else {
                throw VendorFault("The map has the format \(map.format.rawValue); give --from \(map.format.rawValue).")
            }
            (form, expects) = (MappedForm(map), vendor == .csv ? .csv : .json)
        }
        facts.report.cannotCome = form.cannotCome
    }

    /// Refuses options that the vendor has no use for.
    private static func check(_ options: VendorOptions, for vendor: Vendor) throws(VendorFault) {
        let hasPurchases = [.revenuecat, .qonversion, .csv, .jsonl].contains(vendor)
        if options.development, vendor != .mparticle { throw VendorFault("--development is only for mparticle.") }
        if options.store != nil, vendor != .qonversion { throw VendorFault("--purchase-store is only for qonversion.") }
        if options.grantUnsupported, vendor != .revenuecat {
            throw VendorFault("--grant-unsupported is only for revenuecat.")
        }
        if options.world != nil, !hasPurchases {
            throw VendorFault("--world is for files with purchases; files of \(vendor.rawValue) have none.")
        }
        if options.map != nil, ![.segment, .csv, .jsonl].contains(vendor) {
            throw VendorFault("--map is for segment, csv and jsonl. A map reads this file too: --from csv --map FILE.")
        }
    }

    /// The counts and warnings so far.
    package var report: VendorReport { facts.report }

    /// The names of the files so far. Lines and refusals have the index of their file.
    package private(set) var files: [String] = []

    /// The refused records since the last call. The caller takes them after each chunk, so that memory stays constant.
    package func takeRefused() -> [FactRefusal] {
        defer { facts.refused = [] }
        return facts.refused
    }

    /// Begins a file. The lines of the previous file's last record come with the next chunk.
    package func begin(file name: String) throws(VendorFault) {
        try endFile()
        files.append(name)
        facts.file = files.count - 1
        file = OpenFile(name: name, splitter: .undecided([]))
    }

    /// Reads a chunk of the file, and gives the lines of the records that it completes.
    package func read(_ chunk: [UInt8]) throws(VendorFault) -> [FactLine] {
        precondition(file != nil, "A chunk belongs to a file that has begun.")
        try decide(with: chunk, isEnd: false)
        try readRecords()
        return facts.takeLines()
    }

    /// Ends the last file, and gives the lines that were held back.
    package func finish() throws(VendorFault) -> [FactLine] {
        try endFile()
        form.finish(&facts)
        return facts.takeLines()
    }

    private func endFile() throws(VendorFault) {
        guard file != nil else { return }
        try decide(with: [], isEnd: true)
        switch file?.splitter {
        case .csv(let table): table.end()
        case .json(let splitter): splitter.end()
        case .undecided, nil: break
        }
        try readRecords()
        form.endFile(&facts)
        file = nil
    }

    /// Gives bytes to the splitter of the file; the first byte that is not a space tells which one.
    private func decide(with chunk: [UInt8], isEnd: Bool) throws(VendorFault) {
        guard let open = file else { return }
        switch open.splitter {
        case .csv(let table): return table.append(chunk)
        case .json(let splitter): return splitter.append(chunk)
        case .undecided(var bytes):
            bytes += chunk
            guard let first = VendorReader.firstByte(of: bytes, isEnd: isEnd) else {
                file?.splitter = .undecided(bytes)
                return
            }
            let isJSON = first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
            switch (expects, isJSON) {
            case (.json, false):
                throw VendorFault("\(open.name) does not begin with a JSON object. \(form.wanted)")
            case (.csv, true):
                throw VendorFault("\(open.name) is JSON; a CSV file is expected. \(form.wanted)")
            case (_, true):
                let splitter = JSONSplitter()
                splitter.append(bytes)
                file?.splitter = .json(splitter)
            case (_, false):
                let table = CSVTable()
                table.append(bytes)
                file?.splitter = .csv(table)
            }
        }
    }

    /// The first byte behind a byte order mark and spaces; nil if it has not come yet.
    private static func firstByte(of bytes: [UInt8], isEnd: Bool) -> UInt8? {
        let mark = CSVTable.byteOrderMark
        if bytes.count < mark.count, !isEnd, mark.starts(with: bytes) { return nil }
        return bytes.dropFirst(bytes.starts(with: mark) ? mark.count : 0).first { byte in
            byte != ASCII.space && byte != ASCII.tab && byte != ASCII.lineFeed && byte != ASCII.carriageReturn
        }
    }

    private func readRecords() throws(VendorFault) {
        switch file?.splitter {
        case .csv(let table):
            while try next(table) { try read(table) }
        case .json(let splitter):
            while let record = try next(splitter) { try read(record.bytes, line: record.line) }
        case .undecided, nil: break
        }
    }

    private func next(_ table: CSVTable) throws(VendorFault) -> Bool {
        do throws(RecordTooLong) { return try table.next() } catch { throw tooLong(error) }
    }

    private func next(_ splitter: JSONSplitter) throws(VendorFault) -> JSONSplitter.Record? {
        do throws(RecordTooLong) { return try splitter.next() } catch { throw tooLong(error) }
    }

    private func tooLong(_ error: RecordTooLong) -> VendorFault {
        VendorFault(
            "\(file?.name ?? ""), line \(error.line): the record is longer than \(VendorReader.longestRecord >> 20) MiB. "
                + "Perhaps a quote or a bracket is missing.")
    }

    private func read(_ table: CSVTable) throws(VendorFault) {
        facts.line = table.line
        guard file?.isRecognized == true else {
            guard table.isText else { throw VendorFault("\(file?.name ?? "") is not text in UTF-8.") }
            table.takeHeader()
            do throws(VendorFault) {
                try form.begin(table, &facts)
            } catch {
                throw VendorFault("\(file?.name ?? ""): \(error.message)")
            }
            file?.isRecognized = true
            return
        }
        if table.isBlank { return }
        facts.report.records += 1
        if !table.isText {
            facts.refuse(.malformed, "The record is not text in UTF-8, or holds a NUL character.")
        } else if table.count != table.columns.count {
            facts.refuse(.malformed, "The record has \(table.count) cells; the header has \(table.columns.count).")
        } else {
            form.read(table, &facts)
        }
        facts.keepRefusal { table.recordJSON }
    }

    private func read(_ record: [UInt8], line: Int) throws(VendorFault) {
        facts.line = line
        var fault: VendorFault?
        var problem: JSONFault?
        do throws(JSONFault) {
            try parser.read(record, mends: true) { root throws(JSONFault) in
                guard root.kind == .array else { return try read(root, &fault) }
                // A document may follow in one line with others, as an array.
                try root.forEachElement(at: "the record") { element throws(JSONFault) in
                    if fault == nil { try read(element, &fault) }
                }
            }
        } catch {
            problem = error
        }
        if file?.isRecognized != true, let problem {
            fault = VendorFault("The first record is not JSON. \(problem.message)")
        }
        if let fault { throw VendorFault("\(file?.name ?? ""), line \(line): \(fault.message)") }
        if let problem { facts.refuse(.malformed, problem.message) }
        let isJSON = problem.map { if case .wrong = $0.problem { true } else { false } } ?? true
        facts.keepRefusal { isJSON ? record : VendorReader.quoted(record) }
    }

    private func read(_ record: JSONValue, _ fault: inout VendorFault?) throws(JSONFault) {
        if file?.isRecognized != true {
            do throws(VendorFault) {
                try form.begin(record, &facts)
            } catch {
                fault = error
                return
            }
            file?.isRecognized = true
        }
        facts.report.records += 1
        try form.read(record, &facts)
    }

    /// A text that is not JSON, as a string of JSON.
    private static func quoted(_ record: [UInt8]) -> [UInt8] {
        var json = JSONWriter(reserving: record.count + 2)
        json.string(String(copying: record.span))
        return json.bytes
    }
}

/// A record is longer than ``VendorReader/longestRecord``.
struct RecordTooLong: Error {
    let line: Int
}

/// The records of one vendor: how they become facts.
protocol VendorForm {
    /// The facts of the vendor that its files do not have.
    var cannotCome: [String] { get }
    /// A sentence that names the files that the vendor has.
    var wanted: String { get }
    /// Looks at the header of a table.
    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault)
    /// Looks at the first record of a file of JSON.
    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault)
    mutating func read(_ table: CSVTable, _ facts: inout Facts)
    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault)
    /// Looks at the counts of a file that has ended.
    mutating func endFile(_ facts: inout Facts)
    /// Writes the facts that were held back.
    mutating func finish(_ facts: inout Facts)
}

extension VendorForm {
    mutating func begin(_ table: CSVTable, _ facts: inout Facts) throws(VendorFault) {
        preconditionFailure("The vendor has no tables.")
    }
    mutating func begin(_ record: JSONValue, _ facts: inout Facts) throws(VendorFault) {
        preconditionFailure("The vendor has no files of JSON.")
    }
    mutating func read(_ table: CSVTable, _ facts: inout Facts) {
        preconditionFailure("The vendor has no tables.")
    }
    mutating func read(_ record: JSONValue, _ facts: inout Facts) throws(JSONFault) {
        preconditionFailure("The vendor has no files of JSON.")
    }
    mutating func endFile(_ facts: inout Facts) {}
    mutating func finish(_ facts: inout Facts) {}
}
