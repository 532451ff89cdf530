import ByteText
import Invocation
import JSON
import VendorFiles

/// The forms of files that can be imported.
enum ImportForms {
    static let names = ["facts"] + Vendor.allCases.map(\.rawValue) + ["edges"]

    /// The flags that only some forms have.
    static let valuedFlags = ["map", "world", "purchase-store"]
    static let switches = ["development", "grant-unsupported", "map-check"]

    static func lines(
        _ form: String, _ files: [String], _ arguments: Arguments, progress: @escaping (ImportFile) -> Void
    ) throws(CommandFault) -> any ImportLines {
        if let vendor = Vendor(rawValue: form) {
            do throws(VendorFault) {
                return VendorLines(
                    try VendorReader(vendor, try ImportForms.options(arguments)), files, progress: progress)
            } catch {
                throw .usage(error.message)
            }
        }
        for flag in valuedFlags where arguments[flag] != nil { throw .usage("--\(flag) is for files of vendors.") }
        for flag in switches where arguments.has(flag) { throw .usage("--\(flag) is for files of vendors.") }
        switch form {
        case "facts": return FactsLines(files, progress: progress)
        case "edges": return try EdgeLines(files, progress: progress)
        default: throw .usage("--from must be \(names.joined(separator: ", ")).")
        }
    }

    private static let checkedRecords = 5

    /// Shows the facts of the first records of vendors' files, and the records that cannot be read. No server is asked.
    static func check(_ form: String, _ files: [String], _ context: CommandContext) throws(CommandFault) {
        let lines = try lines(form, files, context.arguments) { _ in }
        var shown: [(file: String, number: Int)] = []
        /// Whether one of the first records has this place.
        func take(_ file: String, _ number: Int) -> Bool {
            if shown.contains(where: { $0 == (file, number) }) { return true }
            if shown.count == checkedRecords { return false }
            shown.append((file, number))
            if !context.isForPrograms { context.terminal.result("\(file), line \(number):") }
            return true
        }
        reading: while true {
            let next = try lines.next()
            for refused in lines.takeRefused() {
                guard take(refused.file, refused.line) else { break reading }
                context.terminal.result(
                    context.isForPrograms
                        ? String(decoding: refused.bytes.dropLast(), as: UTF8.self)
                        : "  refused (\(refused.reason)): \(refused.detail)")
            }
            if next.isEmpty { break }
            for line in next {
                guard take(line.file, line.number) else { break reading }
                // The line says its number itself, which the heading has said.
                let rest = line.bytes.firstIndex(of: UInt8(ascii: ",")).map { line.bytes[($0 + 1)...] } ?? []
                let text = String(
                    decoding: context.isForPrograms ? line.bytes : Array("  {".utf8) + rest, as: UTF8.self)
                context.terminal.result(text)
            }
        }
        if shown.isEmpty { throw .failed("\(files.joined(separator: ", ")): there is no record.") }
    }

    private static func options(_ arguments: Arguments) throws(VendorFault) -> VendorOptions {
        var options = VendorOptions(
            development: arguments.has("development"), grantUnsupported: arguments.has("grant-unsupported"))
        if let world = arguments["world"] {
            options.world = VendorWorld(rawValue: world)
            if options.world == nil { throw VendorFault("--world must be production or sandbox.") }
        }
        if let store = arguments["purchase-store"] {
            options.store = VendorStore(rawValue: store)
            if options.store == nil {
                throw VendorFault(
                    "--purchase-store must be \(VendorStore.allCases.map(\.rawValue).joined(separator: ", ")).")
            }
        }
        if let path = arguments["map"] {
            let json: [UInt8]
            do throws(CommandFault) {
                json = try Files.bytes(path, orElse: "\(path) cannot be read")
            } catch {
                throw VendorFault(error.message)
            }
            options.map = try VendorMap(json: json)
        }
        return options
    }
}

/// The lines of a vendor's files.
private final class VendorLines: ImportLines {
    private let reader: VendorReader
    private var files: ArraySlice<String>
    private var file: ImportFile?
    private var isAtEnd = false
    private var refused: [RefusedRecord] = []
    private let progress: (ImportFile) -> Void

    init(_ reader: VendorReader, _ files: [String], progress: @escaping (ImportFile) -> Void) {
        self.reader = reader
        self.files = files[...]
        self.progress = progress
    }

    func next() throws(CommandFault) -> [ImportLine] {
        while !isAtEnd {
            let lines = try step()
            refused += reader.takeRefused().map { refusal in
                RefusedRecord(
                    file: reader.files[refusal.file], line: refusal.line, reason: refusal.reason.rawValue,
                    detail: refusal.detail, record: refusal.record)
            }
            if !lines.isEmpty {
                return lines.map { line in
                    ImportLine(
                        file: reader.files[line.file], number: line.line, bytes: VendorLines.numbered(line),
                        isNumbered: true)
                }
            }
        }
        return []
    }

    private func step() throws(CommandFault) -> [FactLine] {
        do throws(VendorFault) {
            if file == nil {
                guard let path = files.popFirst() else {
                    isAtEnd = true
                    return try reader.finish()
                }
                try open(path)
            }
        } catch {
            throw .failed(error.message)
        }
        guard let file else { return [] }
        progress(file)
        guard let piece = try file.next() else {
            self.file = nil
            return []
        }
        do throws(VendorFault) {
            return try reader.read(piece)
        } catch {
            throw .failed(error.message)
        }
    }

    private func open(_ path: String) throws(VendorFault) {
        do throws(CommandFault) {
            file = try ImportFile(path)
        } catch {
            throw VendorFault(error.message)
        }
        try reader.begin(file: path)
    }

    func takeRefused() -> [RefusedRecord] {
        defer { refused = [] }
        return refused
    }

    /// The line with the number of the record in the vendor's file.
    private static func numbered(_ line: FactLine) -> [UInt8] {
        Array(#"{"x_line":\#(line.line),"#.utf8) + line.json.dropFirst()
    }

    var notes: [String] {
        let report = reader.report
        var notes = report.warnings
        if !report.leftOut.isEmpty {
            let counts = report.leftOut.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            notes.append("Left out: " + counts.joined(separator: ", ") + ".")
        }
        if !report.unknownColumns.isEmpty {
            notes.append("Columns that are not read: " + report.unknownColumns.joined(separator: ", ") + ".")
        }
        if !report.cannotCome.isEmpty {
            notes.append("Not taken along: " + report.cannotCome.joined(separator: ", ") + ".")
        }
        return notes
    }
}

/// The lines of files with edges: each row `a,b[,since]` says that two identities belong to one person.
///
/// The reader first joins the rows to components over hashes of the identities, and then writes one person for each component.
private final class EdgeLines: ImportLines {
    private struct Row {
        let a: String
        let b: String
        let since: String
        let file: Int
        let line: Int
    }

    /// An identity. Two texts that Unicode takes for the same are two identities if their bytes differ.
    private struct Name: Hashable {
        let text: String

        static func == (one: Name, other: Name) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

        func hash(into hasher: inout Hasher) { hasher.combine(text) }
    }

    private let files: [String]
    private let progress: (ImportFile) -> Void
    private var rows: [Row] = []
    private var refused: [RefusedRecord] = []
    private var parents: [Int32] = []
    private var places: [Name: Int32] = [:]
    private var written = 0
    private var hasRead = false
    private var seen: Set<Int32> = []
    private let parser = JSONParser()

    private static let rowsAtOnce = 4000
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    init(_ files: [String], progress: @escaping (ImportFile) -> Void) throws(CommandFault) {
        self.files = files
        self.progress = progress
    }

    var notes: [String] { [] }

    func takeRefused() -> [RefusedRecord] {
        defer { refused = [] }
        return refused
    }

    func next() throws(CommandFault) -> [ImportLine] {
        if !hasRead {
            hasRead = true
            for (place, path) in files.enumerated() { try read(path, place) }
            if rows.isEmpty, refused.isEmpty {
                throw .failed("\(files.joined(separator: ", ")): there is no row, so there is nothing to import.")
            }
        }
        var lines: [ImportLine] = []
        // No lines would mean the end. Many rows behind each other may name only identities that came before.
        while lines.isEmpty, written < rows.count { writeRows(to: &lines) }
        return lines
    }

    private func writeRows(to lines: inout [ImportLine]) {
        let end = min(written + EdgeLines.rowsAtOnce, rows.count)
        for row in rows[written..<end] {
            for name in [row.a, row.b] {
                guard let place = places[Name(text: name)], seen.insert(place).inserted else { continue }
                let key = "edges:\(names[Int(root(place))])"
                var json = JSONWriter()
                json.object { json in
                    json.key("x_line")
                    json.integer(row.line)
                    json.key("kind")
                    json.string("link")
                    json.key("key")
                    json.string(key)
                    json.key("type")
                    let colon = name.firstIndex(of: ":") ?? name.startIndex
                    json.string(String(name[..<colon]))
                    json.key("value")
                    json.string(String(name[name.index(after: colon)...]))
                    if !row.since.isEmpty {
                        json.key("since")
                        json.string(row.since)
                    }
                }
                lines.append(
                    ImportLine(file: files[row.file], number: row.line, bytes: json.bytes, isNumbered: true))
            }
        }
        written = end
    }

    private var names: [String] = []

    private func read(_ path: String, _ place: Int) throws(CommandFault) {
        let file = try ImportFile(path)
        var rest: [UInt8] = []
        var line = 0
        while let piece = try file.next() {
            progress(file)
            rest += piece
            var start = 0
            while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                line += 1
                add(rest[start..<end], place, line)
                start = end + 1
            }
            rest.removeFirst(start)
            guard rest.count < 1 << 20 else { throw .failed("\(path), line \(line + 1): the row is too long.") }
        }
        if !rest.isEmpty { add(rest[...], place, line + 1) }
    }

    private func add(_ content: ArraySlice<UInt8>, _ file: Int, _ line: Int) {
        let bytes = line == 1 && content.starts(with: EdgeLines.byteOrderMark) ? content.dropFirst(3) : content
        // A text that is mended would give two different values one text, and so join two people.
        guard let row = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
            return refuse(
                String(decoding: bytes, as: UTF8.self), file, line,
                "The row is not text in UTF-8, or holds a NUL character.")
        }
        let text = row.trimmingNewline
        if text.isEmpty || line == 1 && text.hasPrefix("a,b") { return }
        let cells = EdgeLines.cells(text)
        guard cells.count == 2 || cells.count == 3, cells[0].contains(":"), cells[1].contains(":") else {
            return refuse(
                text, file, line, "A row must have the form TYPE:VALUE,TYPE:VALUE or TYPE:VALUE,TYPE:VALUE,SINCE.")
        }
        rows.append(
            Row(a: cells[0], b: cells[1], since: cells.count == 3 ? cells[2] : "", file: file, line: line))
        let (one, other) = (root(number(cells[0])), root(number(cells[1])))
        // The smaller number came first, so a component has the name of its first identity.
        if one != other { parents[Int(max(one, other))] = min(one, other) }
    }

    private func refuse(_ text: String, _ file: Int, _ line: Int, _ detail: String) {
        var json = JSONWriter()
        json.string(text)
        refused.append(
            RefusedRecord(file: files[file], line: line, reason: "malformed", detail: detail, record: json.bytes))
    }

    private func number(_ name: String) -> Int32 {
        if let known = places[Name(text: name)] { return known }
        let number = Int32(parents.count)
        parents.append(number)
        names.append(name)
        places[Name(text: name)] = number
        return number
    }

    private func root(_ number: Int32) -> Int32 {
        var root = number
        while parents[Int(root)] != root { root = parents[Int(root)] }
        var place = number
        while parents[Int(place)] != root {
            let next = parents[Int(place)]
            parents[Int(place)] = root
            place = next
        }
        return root
    }

    /// The cells of a row of CSV without newlines in its cells.
    private static func cells(_ text: String) -> [String] {
        var cells: [String] = []
        var cell = ""
        var (isQuoted, wasQuote) = (false, false)
        for character in text.unicodeScalars {
            if isQuoted, character == "\"" {
                isQuoted = false
                wasQuote = true
                continue
            }
            if character == "\"", cell.isEmpty || wasQuote {
                if wasQuote { cell.unicodeScalars.append(character) }
                isQuoted = true
                wasQuote = false
                continue
            }
            wasQuote = false
            if character == ",", !isQuoted {
                cells.append(cell)
                cell = ""
            } else {
                cell.unicodeScalars.append(character)
            }
        }
        return cells + [cell]
    }
}

extension String {
    fileprivate var trimmingNewline: String { hasSuffix("\r") ? String(dropLast()) : self }
}
