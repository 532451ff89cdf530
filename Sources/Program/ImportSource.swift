import ByteText
import Compression
import Glibc
import JSON

/// The lines of an import in the form `facts`, out of one file or several.
protocol ImportLines: AnyObject {
    /// The next lines; empty at the end.
    func next() throws(CommandFault) -> [ImportLine]
    /// The records that cannot be written in the form at all.
    func takeRefused() -> [RefusedRecord]
    /// Sentences about the files for the person at the terminal.
    var notes: [String] { get }
}

/// A line in the form `facts`.
struct ImportLine {
    let file: String
    /// The number of the line in its file.
    let number: Int
    /// The line without its end.
    let bytes: [UInt8]
    /// Whether the line itself has its number, because several lines come from one record of a vendor.
    var isNumbered = false
}

/// A record that was not imported.
struct RefusedRecord {
    let file: String
    let line: Int
    let reason: String
    let detail: String
    /// The record as JSON.
    let record: [UInt8]

    /// The line of the file with refused records.
    var bytes: [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("file")
            json.string(file)
            json.key("line")
            json.integer(line)
            json.key("reason")
            json.string(reason)
            json.key("detail")
            json.string(detail)
            json.key("record")
            json.raw(record)
        }
        return json.bytes + [UInt8(ascii: "\n")]
    }
}

/// The bytes of a file or of standard input, decompressed if they are gzip.
final class ImportFile {
    let path: String
    private let descriptor: CInt
    private var inflating: InflatingStream?
    private var isFirst = true
    /// The bytes that were read from the file, and the length of the file; nil for a pipe.
    private(set) var readBytes = 0
    let length: Int?

    private static let pieceBytes = 256 << 10

    /// Opens a file; `-` is standard input.
    init(_ path: String) throws(CommandFault) {
        self.path = path
        if path == "-" {
            (descriptor, length) = (STDIN_FILENO, nil)
            return
        }
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw .failed("\(path) cannot be read: \(unsafe String(cString: strerror(errno))).")
        }
        var status = stat()
        let isFile = unsafe fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        length = isFile ? Int(status.st_size) : nil
    }

    deinit { if descriptor != STDIN_FILENO { close(descriptor) } }

    /// The next bytes; nil at the end.
    func next() throws(CommandFault) -> [UInt8]? {
        while true {
            var piece = [UInt8](repeating: 0, count: ImportFile.pieceBytes)
            var count = unsafe read(descriptor, &piece, piece.count)
            while count < 0, errno == EINTR { count = unsafe read(descriptor, &piece, piece.count) }
            guard count >= 0 else {
                throw .failed("\(path) cannot be read: \(unsafe String(cString: strerror(errno))).")
            }
            if count == 0 {
                if let inflating, !inflating.isComplete { throw .failed("\(path) is cut: its gzip has no end.") }
                return nil
            }
            piece.removeLast(piece.count - count)
            readBytes += count
            if isFirst {
                isFirst = false
                if InflatingStream.isGzip(piece) { inflating = InflatingStream() }
            }
            guard let inflating else { return piece }
            do throws(Gzip.Fault) {
                let bytes = try inflating.inflate(piece)
                if !bytes.isEmpty { return bytes }
            } catch {
                throw .failed("\(path) begins like gzip and is not gzip.")
            }
        }
    }
}

/// The lines of files in the form `facts`, or of files with refused records.
final class FactsLines: ImportLines {
    private var files: ArraySlice<String>
    private var file: ImportFile?
    private var rest: [UInt8] = []
    private var number = 0
    private var records = 0
    private var hasHeader = false
    private var hasEnd = false
    private var isOfRefused = false
    private let parser = JSONParser()
    private let progress: (ImportFile) -> Void

    private static let lineBytes = 1 << 20

    /// - Parameter progress: gets the present file from time to time.
    init(_ files: [String], progress: @escaping (ImportFile) -> Void) {
        self.files = files[...]
        self.progress = progress
    }

    var notes: [String] { [] }
    func takeRefused() -> [RefusedRecord] { [] }

    func next() throws(CommandFault) -> [ImportLine] {
        while true {
            guard let file = try openFile() else { return [] }
            progress(file)
            var lines: [ImportLine] = []
            if let piece = try file.next() {
                rest += piece
                var start = 0
                while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                    try add(Array(rest[start..<end]), file.path, to: &lines)
                    start = end + 1
                }
                rest.removeFirst(start)
                guard rest.count <= FactsLines.lineBytes else {
                    throw .failed("Line \(number + 1) of \(file.path) is longer than \(FactsLines.lineBytes) bytes.")
                }
            } else {
                if !rest.isEmpty { try add(rest, file.path, to: &lines) }
                rest = []
                guard isOfRefused || hasEnd else {
                    throw .failed(
                        "\(file.path) is cut: its last line is not the line of the kind end. Nothing of it is lost: "
                            + "export it again, and import it with the same command and --anew.")
                }
                self.file = nil
            }
            if !lines.isEmpty { return lines }
        }
    }

    private func openFile() throws(CommandFault) -> ImportFile? {
        if let file { return file }
        guard let path = files.popFirst() else { return nil }
        (number, records, hasHeader, hasEnd, isOfRefused) = (0, 0, false, false, false)
        let opened = try ImportFile(path)
        file = opened
        return opened
    }

    private func add(_ line: [UInt8], _ path: String, to lines: inout [ImportLine]) throws(CommandFault) {
        number += 1
        if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return }
        if hasEnd { throw .failed("Line \(number) of \(path) is behind the line of the kind end.") }
        // Only the first line and the last one are read here; the server reads all others.
        if !hasHeader, !isOfRefused {
            let first = frame(line)
            isOfRefused = first.record != nil
            hasHeader = first.kind == "header"
            guard hasHeader || isOfRefused else {
                throw .failed(
                    "\(path) does not begin with a line of the kind header, so it is not in the form facts. "
                        + "--from names another form.")
            }
            guard isOfRefused || first.version == 1 && first.form == "facts" else {
                throw .failed(#"The header of \#(path) must have "onym":1 and "form":"facts"."#)
            }
        }
        if isOfRefused {
            // A refused record was mended, and is imported as it is.
            guard let record = frame(line).record else {
                throw .failed("Line \(number) of \(path) has no record.")
            }
            lines.append(ImportLine(file: path, number: number, bytes: record))
            return
        }
        if line.count < 4096 || FactsLines.mayBeEnd(line), FactsLines.mayBeEnd(line) {
            let last = frame(line)
            if last.kind == "end" {
                guard last.lines.map({ $0 == records }) ?? true else {
                    throw .failed("\(path) has \(records) records, and its last line says \(last.lines ?? 0).")
                }
                hasEnd = true
                return
            }
        }
        if number == 1 || (hasHeader && records == 0 && frame(line).kind == "header") { return }
        records += 1
        lines.append(ImportLine(file: path, number: number, bytes: line))
    }

    private static let endMark = Array(#""end""#.utf8)

    /// Whether a line has the text `"end"`.
    private static func mayBeEnd(_ line: [UInt8]) -> Bool {
        line.indices.contains { line[$0] == endMark[0] && line[$0...].starts(with: endMark) }
    }

    private struct Frame {
        var kind: String?
        var form: String?
        var version: Int64?
        var lines: Int?
        var record: [UInt8]?
    }

    private func frame(_ line: [UInt8]) -> Frame {
        var frame = Frame()
        do throws(JSONFault) {
            try parser.read(line) { root throws(JSONFault) in
                try root.forEachMember(at: "the line") { key, value throws(JSONFault) in
                    switch key {
                    case "kind" where value.kind == .string: frame.kind = try value.string(at: "kind")
                    case "form" where value.kind == .string: frame.form = try value.string(at: "form")
                    case "onym" where value.kind == .integer: frame.version = try value.integer(at: "onym")
                    case "lines" where value.kind == .integer: frame.lines = Int(try value.integer(at: "lines"))
                    case "record" where value.kind == .object:
                        var json = JSONWriter()
                        json.copy(value)
                        frame.record = json.bytes
                    default: break
                    }
                }
            }
        } catch {
            return Frame()
        }
        return frame
    }
}
