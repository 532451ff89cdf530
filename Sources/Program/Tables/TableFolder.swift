import Glibc
import JSON

/// The form of the files of an export of tables.
enum TableFormat: String {
    case csv, parquet
}

/// The folder of an export of tables: a folder for each table, with files of up to a million rows. A file has its last name only
/// once it is complete, and the manifest comes last.
final class TableFolder {
    let path: String
    private let format: TableFormat
    private var files: [Table: TableFile] = [:]
    private var parts: [Table: [(name: String, rows: Int)]] = [:]

    static let rowsPerFile = 1_000_000
    /// The lines of the export, until its tables are complete.
    static let linesName = "lines.jsonl.gz"
    private static let manifestName = "manifest.json"

    /// Opens a folder, and makes it if it does not exist. A complete export is never overwritten, and neither is a folder with
    /// the name of a table that no export has made: an interrupted export has its lines beside its tables.
    init(_ path: String, _ format: TableFormat) throws(CommandFault) {
        (self.path, self.format) = (path, format)
        guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Files.unwritten(path) }
        guard Files.isFolder(path) else { throw .failed("\(path) is no folder.") }
        if Files.exists("\(path)/\(TableFolder.manifestName)") {
            throw .failed("\(path) has an export already. Name another folder.")
        }
        if Files.exists("\(path)/\(TableFolder.linesName)") || Files.exists("\(path)/\(TableFolder.linesName).part") {
            return
        }
        for table in Table.allCases where Files.exists("\(path)/\(table.rawValue)") {
            throw .failed("\(path)/\(table.rawValue) is there already, and is of no export. Name another folder.")
        }
    }

    /// Begins all tables. Files of an export that was interrupted go.
    func begin() throws(CommandFault) {
        for table in Table.allCases {
            Files.removeFolder("\(path)/\(table.rawValue)")
            guard unsafe mkdir("\(path)/\(table.rawValue)", 0o700) == 0 else {
                throw Files.unwritten("\(path)/\(table.rawValue)")
            }
            files[table] = try newFile(table)
        }
    }

    func add(_ row: [TableCell], to table: Table) throws(CommandFault) {
        guard let file = files[table] else { preconditionFailure("Rows come after the beginning.") }
        try file.add(row)
        if file.rows == TableFolder.rowsPerFile {
            try end(file, table)
            files[table] = try newFile(table)
        }
    }

    /// Ends all files, and writes the manifest.
    func end(project: String, since: Int64, upTo: Int64, at moment: String) throws(CommandFault) {
        for table in Table.allCases {
            // Every table has a file, also a table without rows.
            guard let file = files.removeValue(forKey: table) else { continue }
            if file.rows > 0 || parts[table] == nil { try end(file, table) } else { file.remove() }
        }
        var json = JSONWriter()
        json.object { json in
            json.key("onym")
            json.integer(1)
            json.key("form")
            json.string("tables")
            json.key("format")
            json.string(format.rawValue)
            json.key("project")
            json.string(project)
            json.key("since")
            json.integer(since)
            json.key("upto")
            json.integer(upTo)
            json.key("at")
            json.string(moment)
            json.key("tables")
            json.object { json in
                for table in Table.allCases {
                    let all = parts[table] ?? []
                    json.key(table.rawValue)
                    json.object { json in
                        json.key("rows")
                        json.integer(all.reduce(0) { $0 + $1.rows })
                        json.key("files")
                        json.array { json in
                            for (name, rows) in all {
                                json.object { json in
                                    json.key("name")
                                    json.string("\(table.rawValue)/\(name)")
                                    json.key("rows")
                                    json.integer(rows)
                                }
                            }
                        }
                    }
                }
            }
        }
        let text = String(decoding: json.bytes, as: UTF8.self) + "\n"
        let part = "\(path)/\(TableFolder.manifestName).part"
        unsafe unlink(part)
        try Files.writeNew(text, to: part)
        guard unsafe rename(part, "\(path)/\(TableFolder.manifestName)") == 0 else { throw Files.unwritten(part) }
    }

    /// The number of rows of a table.
    func rows(_ table: Table) -> Int { parts[table]?.reduce(0) { $0 + $1.rows } ?? 0 }

    private func newFile(_ table: Table) throws(CommandFault) -> TableFile {
        let number = String(parts[table]?.count ?? 0)
        let name = "part-" + String(repeating: "0", count: max(0, 5 - number.utf8.count)) + number
        return try TableFile("\(path)/\(table.rawValue)", "\(name).\(format.rawValue)", table.columns, format)
    }

    private func end(_ file: TableFile, _ table: Table) throws(CommandFault) {
        try file.end()
        parts[table, default: []].append((file.name, file.rows))
    }
}

/// The bytes of a file of a table.
protocol TableText {
    mutating func add(_ row: [TableCell])
    /// Adds what a complete file has behind its rows.
    mutating func end()
    /// The bytes so far, which the text then forgets.
    mutating func take() -> [UInt8]
}

/// A file of a table. Its name ends in .part until it is complete.
private final class TableFile {
    let name: String
    private let path: String
    private let descriptor: CInt
    private var text: any TableText
    private(set) var rows = 0

    /// The file gets so many rows at a time.
    private static let rowsAtOnce = 1000

    init(_ folder: String, _ name: String, _ columns: [TableColumn], _ format: TableFormat) throws(CommandFault) {
        self.name = name
        path = "\(folder)/\(name)"
        descriptor = unsafe open(path + ".part", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Files.unwritten(path) }
        text =
            switch format {
            case .csv: CSVText(columns)
            case .parquet: ParquetText(columns)
            }
    }

    deinit { close(descriptor) }

    func add(_ row: [TableCell]) throws(CommandFault) {
        text.add(row)
        rows += 1
        if rows % TableFile.rowsAtOnce == 0 { try flush() }
    }

    func end() throws(CommandFault) {
        text.end()
        try flush()
        guard fdatasync(descriptor) == 0, unsafe rename(path + ".part", path) == 0 else {
            throw Files.unwritten(path)
        }
    }

    func remove() { unsafe unlink(path + ".part") }

    private func flush() throws(CommandFault) {
        try Files.append(text.take(), to: descriptor, of: path)
    }
}
