import ByteText
import Compression
import Domain
import Glibc
import Invocation
import JSON
import StoreSQLite

/// The form `store` of an export: every row of every table of the embedded store, for an empty folder (docs/moving-out.md).
enum StoreForm {
    static let name = "store"
    /// The member with a blob, in base64. Numbers, texts and null stand for themselves.
    static let blob = "b64"

    private static let bytesAtOnce = 1 << 20

    /// Writes the store of the data folder, also beside its server.
    static func export(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let arguments = context.arguments
        for flag in ["since", "project", "anew"] where arguments.has(flag) {
            throw .usage("--\(flag) is not for --form store, which is a whole store.")
        }
        if context.database != nil {
            throw .usage(
                "--form store is for the embedded store. Copy a PostgreSQL database with pg_basebackup or pg_dump.")
        }
        let store: WholeStore
        do throws(StoreFault) {
            store = try WholeStore(context.dataFolder.store)
        } catch {
            throw .unreadable(error.description)
        }
        let file = try arguments["output"].map { path throws(CommandFault) in try StoreFile(path) }
        var (lines, rows) = ([UInt8](), 0)
        func flush(_ isLast: Bool) throws(CommandFault) {
            guard isLast || lines.count >= bytesAtOnce else { return }
            if let file {
                try file.append(lines)
            } else {
                context.terminal.result(String(decoding: lines.dropLast(), as: UTF8.self))
            }
            lines = []
        }
        lines += header(store)
        var sums: [(name: String, sum: WholeSum)] = []
        for table in store.tables {
            var sum = WholeSum()
            let fault = try store.forEach(in: table) { values throws(CommandFault) in
                sum.add(values)
                lines += row(values, of: table)
                rows += 1
                try flush(false)
            }
            if let fault { throw CommandFault(fault) }
            sums.append((table.name, sum))
        }
        lines += end(rows, sums)
        try flush(true)
        if let file {
            try file.finish()
            context.terminal.result(
                "\(file.path) has \(rows) rows of \(store.tables.count) tables, up to call \(store.sequence).")
        }
        return 0
    }

    private static func line(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.object(write)
        return json.bytes + [UInt8(ascii: "\n")]
    }

    private static func header(_ store: WholeStore) -> [UInt8] {
        line { json in
            json.key("kind")
            json.string("header")
            json.key("onym")
            json.integer(1)
            json.key("form")
            json.string(name)
            json.key("store")
            json.string(Hexadecimal.encode(store.name.bytes))
            json.key("schema")
            json.integer(WholeStore.schema)
            json.key("upto")
            json.integer(store.sequence)
            json.key("tables")
            json.object { json in
                for table in store.tables {
                    json.key(table.name)
                    json.array { json in for column in table.columns { json.string(column) } }
                }
            }
        }
    }

    private static func row(_ values: [WholeValue], of table: WholeStore.Table) -> [UInt8] {
        line { json in
            json.key("kind")
            json.string("row")
            json.key("table")
            json.string(table.name)
            json.key("values")
            json.array { json in
                for value in values {
                    switch value {
                    case .integer(let value): json.integer(value)
                    case .text(let text): json.string(text)
                    case .bytes(let bytes):
                        json.object { json in
                            json.key(blob)
                            json.string(Base64.encode(bytes))
                        }
                    case .none: json.null()
                    }
                }
            }
        }
    }

    private static func end(_ rows: Int, _ sums: [(name: String, sum: WholeSum)]) -> [UInt8] {
        line { json in
            json.key("kind")
            json.string("end")
            json.key("lines")
            json.integer(rows)
            json.key("sums")
            json.object { json in
                for (name, sum) in sums {
                    json.key(name)
                    json.array { json in
                        json.integer(sum.rows)
                        json.string(checksum(sum))
                    }
                }
            }
        }
    }

    static func checksum(_ sum: WholeSum) -> String {
        Hexadecimal.encode((0..<8).map { UInt8(truncatingIfNeeded: sum.checksum >> UInt64(56 - $0 * 8)) })
    }

    /// The file of an export. It has its name when it is complete.
    private final class StoreFile {
        let path: String
        private let descriptor: CInt
        private var part: String { path + ".part" }

        init(_ path: String) throws(CommandFault) {
            self.path = path
            descriptor = unsafe open(path + ".part", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw Files.unwritten(path) }
        }

        deinit { close(descriptor) }

        func append(_ lines: [UInt8]) throws(CommandFault) {
            try Files.append(path.hasSuffix(".gz") ? Gzip.deflate(lines) : lines, to: descriptor, of: part)
        }

        func finish() throws(CommandFault) {
            guard fdatasync(descriptor) == 0, unsafe rename(part, path) == 0 else { throw Files.unwritten(path) }
        }
    }
}

/// One run of `onym import --from store`: it makes a store in an empty folder.
struct StoreFormImport {
    private let context: CommandContext
    private let path: String
    private let parser = JSONParser()
    private var tables: [String: WholeStore.Table] = [:]
    private var sums: [String: WholeSum] = [:]
    private var name = ""
    private var rows = 0
    private var isComplete = false

    /// - Parameter files: the one file.
    init(_ files: [String], _ context: CommandContext) throws(CommandFault) {
        guard files.count == 1 else { throw .usage("--from store takes one file, which is a whole store.") }
        for flag in ["map", "on-conflict", "refused", "project", "dry-run", "anew", "world"]
        where context.arguments.has(flag) {
            throw .usage("--\(flag) is not for --from store, which makes a new store.")
        }
        if context.database != nil {
            throw .usage("--from store makes an embedded store. Move it to PostgreSQL with \"onym migrate\" then.")
        }
        (path, self.context) = (files[0], context)
    }

    mutating func run() throws(CommandFault) -> Int32 {
        let folder = context.dataFolder
        try folder.make()
        let maker: WholeStoreMaker
        do throws(StoreFault) {
            maker = try WholeStoreMaker(folder.store)
        } catch {
            throw CommandFault(error)
        }
        do throws(CommandFault) {
            try read(into: maker)
            guard isComplete else { throw .failed("\(path) is cut: its last line is missing. Nothing was made.") }
            do throws(StoreFault) { try maker.finish(sums) } catch { throw CommandFault(error) }
        } catch {
            maker.abandon()
            throw error
        }
        for (name, sum) in sums.sorted(by: { $0.key < $1.key }) where sum.rows > 0 {
            context.terminal.result("\(name): \(sum.rows) rows, checksum \(StoreForm.checksum(sum))")
        }
        context.terminal.result(
            "\(folder.store.path) has all \(rows) rows. Copy master.key and the folder attachments of the old store beside it."
        )
        return 0
    }

    private mutating func read(into maker: WholeStoreMaker) throws(CommandFault) {
        let file = try ImportFile(path)
        var (rest, number) = ([UInt8](), 0)
        while let piece = try file.next() {
            rest += piece
            var place = 0
            while let end = rest[place...].firstIndex(of: UInt8(ascii: "\n")) {
                number += 1
                try take(Array(rest[place..<end]), number, maker)
                place = end + 1
            }
            rest.removeFirst(place)
        }
        guard rest.isEmpty else { throw .failed("\(path) is cut: its last line has no end. Nothing was made.") }
    }

    private mutating func take(_ bytes: [UInt8], _ number: Int, _ maker: WholeStoreMaker) throws(CommandFault) {
        let line: StoreLine
        do throws(JSONFault) {
            line = try parser.read(bytes) { root throws(JSONFault) in try StoreLine(root) }
        } catch {
            throw .failed("\(path), line \(number): \(error.message) Nothing was made.")
        }
        guard !isComplete else { throw .failed("\(path) has a line behind its end. Nothing was made.") }
        if number == 1 {
            guard case .header = line else { throw .failed("\(path) does not begin with a header. Nothing was made.") }
        }
        switch line {
        case .header(let header):
            guard number == 1 else { throw .failed("\(path), line \(number): a second header. Nothing was made.") }
            guard header.form == StoreForm.name else {
                throw .failed("\(path) has the form \(header.form), and not store. Nothing was made.")
            }
            guard header.schema == WholeStore.schema, header.tables.allSatisfy(maker.takes) else {
                throw .failed(
                    "\(path) has tables of another version (schema \(header.schema); this version has \(WholeStore.schema)). Import it "
                        + "with the version that wrote it.")
            }
            name = header.store
            for table in header.tables { tables[table.name] = table }
        case .row(let table, let values):
            guard let table = tables[table], values.count == table.columns.count else {
                throw .failed("\(path), line \(number): the header has no such table. Nothing was made.")
            }
            sums[table.name, default: WholeSum()].add(values)
            rows += 1
            do throws(StoreFault) { try maker.add(values, to: table) } catch { throw CommandFault(error) }
        case .end(let lines, let kept):
            guard lines == rows, kept.allSatisfy({ sums[$0.key] ?? WholeSum() == $0.value }),
                sums.keys.allSatisfy({ kept[$0] != nil })
            else { throw .failed("\(path) was changed: its rows have other checksums. Nothing was made.") }
            isComplete = true
        }
    }
}

extension StoreLine {
    /// A value of a row.
    private static func value(_ value: JSONValue) throws(JSONFault) -> WholeValue {
        switch value.kind {
        case .integer: return .integer(try value.integer(at: "values"))
        case .string: return .text(try value.string(at: "values"))
        case .null: return .none
        case .object:
            var bytes: [UInt8]?
            try value.forEachMember(at: "values") { key, value throws(JSONFault) in
                if case "b64" = key { bytes = Base64.decode(try value.string(at: "b64").utf8.span) }
            }
            guard let bytes else { throw JSONFault(.wrong("must have a blob in base64"), at: "values") }
            return .bytes(bytes)
        case .bool, .unsigned, .double, .array:
            throw JSONFault(.wrong("must be an integer, a text, a blob or null"), at: "values")
        }
    }
}

/// A line of the form `store`.
private enum StoreLine {
    struct Header {
        var form = ""
        var store = ""
        var schema = 0
        var tables: [WholeStore.Table] = []
    }

    case header(Header)
    case row(table: String, [WholeValue])
    case end(lines: Int, [String: WholeSum])

    init(_ root: JSONValue) throws(JSONFault) {
        var (kind, header, table, values, lines) = ("", Header(), "", [WholeValue](), 0)
        var sums: [String: WholeSum] = [:]
        try root.forEachMember(at: "the line") { key, value throws(JSONFault) in
            switch key {
            case "kind": kind = try value.string(at: "kind")
            case "form": header.form = try value.string(at: "form")
            case "store": header.store = try value.string(at: "store")
            case "schema": header.schema = Int(try value.integer(at: "schema"))
            case "table": table = try value.string(at: "table")
            case "lines": lines = Int(try value.integer(at: "lines"))
            case "values":
                try value.forEachElement(at: "values") { value throws(JSONFault) in
                    values.append(try StoreLine.value(value))
                }
            case "tables":
                try value.forEachMember(at: "tables") { name, value throws(JSONFault) in
                    var columns: [String] = []
                    try value.forEachElement(at: "tables") { column throws(JSONFault) in
                        columns.append(try column.string(at: "a column"))
                    }
                    header.tables.append(WholeStore.Table(name: name.copy(), columns: columns))
                }
            case "sums":
                try value.forEachMember(at: "sums") { name, value throws(JSONFault) in
                    var (rows, checksum) = (0, UInt64?.none)
                    try value.forEachElement(at: "sums") { part throws(JSONFault) in
                        if case .string = part.kind {
                            checksum = UInt64(try part.string(at: "a checksum"), radix: 16)
                        } else {
                            rows = Int(try part.integer(at: "a count"))
                        }
                    }
                    guard let checksum else { throw JSONFault(.wrong("must have a count and a checksum"), at: "sums") }
                    sums[name.copy()] = WholeSum(rows: rows, checksum: checksum)
                }
            default: break
            }
        }
        switch kind {
        case "header": self = .header(header)
        case "row": self = .row(table: table, values)
        case "end": self = .end(lines: lines, sums)
        default: throw JSONFault(.wrong("must be header, row or end"), at: "kind")
        }
    }
}
