import Disk
import Domain

/// The files of the log of requests. A file is a row of records of 64 bytes: requests, and the names that the requests of the file use.
///
///     request   id 16 · at 8 · key 8 · project 4 · microseconds 4 · bytes in 4 · bytes out 4 · last call 8 · route 2 · code 2 ·
///               status 2 · kind 1 · whether the client chose the id 1
///     name      text 56 · number 2 · bytes of the text here 2 · - 2 · kind 1 · whether the text continues 1
///
/// A crash can tear the last record of a file, and the next start cuts it off. A record of zeros is no record.
struct RequestSegments {
    /// A file of the log.
    struct File {
        let number: Int
        let path: String
        var byteCount: Int
        let firstAt: Instant?
    }

    private enum Kind: UInt8 {
        case request = 1
        case name = 2
    }

    static let recordBytes = 64
    /// The bits of a place that say which record of its file it is.
    static let placeBits = 20
    /// The number of files that a page of a list reads at most.
    static let filesAtOnce = 16
    private static let fileBytesAtMost = 4 << 20
    private static let filesAtMost = 1024
    private static let nameBytes = 56

    let disk: any Disk
    private let folder: String
    private let bytes: Int
    private let fileBytes: Int
    /// The files, the oldest first.
    private(set) var files: [File] = []
    private var current: (any DiskFile)?
    /// The numbers of the names in the current file.
    private var names: [String: UInt16] = [:]

    init(folder: String, bytes: Int, on disk: any Disk) {
        self.folder = folder
        self.bytes = bytes
        self.disk = disk
        fileBytes = min(RequestSegments.fileBytesAtMost, max(bytes / 8, 1 << 14))
        // A log that cannot be read has no old requests. New requests are dropped and counted if it cannot be written.
        try? disk.makeFolder(folder)
        for name in ((try? disk.names(in: folder)) ?? []).sorted() {
            guard name.hasSuffix(".log"), name.utf8.count == 14, let number = Int(name.prefix(10)) else { continue }
            let path = "\(folder)/\(name)"
            guard let file = try? disk.open(path, .readWrite), let found = try? file.status() else { continue }
            let whole = found.byteCount / RequestSegments.recordBytes * RequestSegments.recordBytes
            if whole < found.byteCount { try? file.truncate(to: whole) }
            let first = (try? file.read(at: 0, count: min(whole, 1 << 14))).flatMap { bytes in
                let content = Content(bytes, number: number)
                return content.entries.first.map { content.entry($0).at }
            }
            files.append(File(number: number, path: path, byteCount: whole, firstAt: first))
        }
        removeOldest()
    }

    /// The moment of the oldest request.
    var firstAt: Instant? { files.lazy.compactMap(\.firstAt).first }

    /// Writes requests behind the others.
    mutating func write(_ entries: [RequestEntry]) throws(DiskFault) {
        var start = 0
        while start < entries.count {
            if let last = files.last, current != nil, last.byteCount >= fileBytes { current = nil }
            let isNew = current == nil
            let room = fileBytes - (isNew ? 0 : files.last?.byteCount ?? 0)
            let end = min(entries.count, start + max(1, room / RequestSegments.recordBytes))
            if isNew { names = [:] }
            var records: [UInt8] = []
            for entry in entries[start..<end] { append(entry, to: &records) }
            do throws(DiskFault) {
                if isNew { try begin(at: entries[start].at) }
                try current?.write(records, at: files[files.count - 1].byteCount)
            } catch {
                // What the disk has of these records is unknown, so the next requests begin a new file.
                if let last = files.last, last.byteCount == 0, current != nil {
                    try? disk.remove(last.path)
                    files.removeLast()
                }
                current = nil
                throw error
            }
            files[files.count - 1].byteCount += records.count
            start = end
            removeOldest()
        }
    }

    private mutating func begin(at moment: Instant) throws(DiskFault) {
        let number = (files.last?.number ?? 0) + 1
        let digits = String(number)
        let path = "\(folder)/\(String(repeating: "0", count: max(0, 10 - digits.utf8.count)))\(digits).log"
        current = try disk.open(path, .make)
        files.append(File(number: number, path: path, byteCount: 0, firstAt: moment))
    }

    private mutating func removeOldest() {
        var total = files.reduce(0) { $0 + $1.byteCount }
        while files.count > 1, total > bytes || files.count > RequestSegments.filesAtMost {
            total -= files[0].byteCount
            try? disk.remove(files[0].path)
            files.removeFirst()
        }
    }

    // MARK: - Records

    private mutating func append(_ entry: RequestEntry, to records: inout [UInt8]) {
        let route = number(of: entry.route, &records)
        let code = number(of: entry.code, &records)
        append(entry.id.high, 8, to: &records)
        append(entry.id.low, 8, to: &records)
        append(UInt64(bitPattern: entry.at.milliseconds), 8, to: &records)
        append(UInt64(bitPattern: entry.key?.rawValue ?? 0), 8, to: &records)
        append(UInt64(UInt32(bitPattern: entry.project.rawValue)), 4, to: &records)
        append(UInt64(UInt32(clamping: entry.microseconds)), 4, to: &records)
        append(UInt64(UInt32(clamping: entry.bytesIn)), 4, to: &records)
        append(UInt64(UInt32(clamping: entry.bytesOut)), 4, to: &records)
        append(UInt64(bitPattern: entry.last.rawValue), 8, to: &records)
        append(UInt64(route), 2, to: &records)
        append(UInt64(code), 2, to: &records)
        append(UInt64(entry.status), 2, to: &records)
        records.append(Kind.request.rawValue)
        records.append(entry.isOwn ? 1 : 0)
    }

    /// The number of a name in the current file; 0 stands for no name. A new name gets records of its own.
    private mutating func number(of name: String?, _ records: inout [UInt8]) -> UInt16 {
        guard let name else { return 0 }
        if let number = names[name] { return number }
        guard names.count < Int(UInt16.max) else { return 0 }
        let number = UInt16(names.count + 1)
        names[name] = number
        var rest = Array(name.utf8)[...]
        repeat {
            let part = rest.prefix(RequestSegments.nameBytes)
            rest = rest.dropFirst(part.count)
            records += part + [UInt8](repeating: 0, count: RequestSegments.nameBytes - part.count)
            append(UInt64(number), 2, to: &records)
            append(UInt64(part.count), 2, to: &records)
            append(0, 2, to: &records)
            records.append(Kind.name.rawValue)
            records.append(rest.isEmpty ? 0 : 1)
        } while !rest.isEmpty
        return number
    }

    private func append(_ value: UInt64, _ count: Int, to records: inout [UInt8]) {
        for byte in 0..<count { records.append(UInt8(truncatingIfNeeded: value >> UInt64(byte * 8))) }
    }

    /// The records of a file.
    struct Content {
        private let bytes: [UInt8]
        private var names: [UInt16: String] = [:]
        /// The numbers of the records that are requests.
        private(set) var entries: [Int] = []

        init(_ bytes: [UInt8], number: Int) {
            self.bytes = bytes
            var text: [UInt8] = []
            for index in 0..<bytes.count / RequestSegments.recordBytes {
                let start = index * RequestSegments.recordBytes
                switch Kind(rawValue: bytes[start + 62]) {
                case .request: entries.append(index)
                case .name:
                    let count = min(Int(value(start + 58, 2)), RequestSegments.nameBytes)
                    text += bytes[start..<start + count]
                    if bytes[start + 63] == 1 { continue }
                    names[UInt16(value(start + 56, 2))] = String(decoding: text, as: UTF8.self)
                    text = []
                case nil: continue
                }
            }
        }

        private func value(_ start: Int, _ count: Int) -> UInt64 {
            var value: UInt64 = 0
            for byte in (0..<count).reversed() { value = value << 8 | UInt64(bytes[start + byte]) }
            return value
        }

        func id(_ index: Int) -> Hash128 {
            let start = index * RequestSegments.recordBytes
            return Hash128(high: value(start, 8), low: value(start + 8, 8))
        }

        func entry(_ index: Int) -> RequestEntry {
            let start = index * RequestSegments.recordBytes
            let key = Int64(bitPattern: value(start + 24, 8))
            return RequestEntry(
                id: id(index), isOwn: bytes[start + 63] == 1,
                at: Instant(milliseconds: Int64(bitPattern: value(start + 16, 8))),
                microseconds: value(start + 36, 4), route: names[UInt16(value(start + 56, 2))],
                status: UInt16(value(start + 60, 2)), code: names[UInt16(value(start + 58, 2))],
                project: ProjectID(rawValue: Int32(bitPattern: UInt32(value(start + 32, 4)))),
                key: key == 0 ? nil : KeyID(rawValue: key), bytesIn: Int(value(start + 40, 4)),
                bytesOut: Int(value(start + 44, 4)),
                last: JournalSequence(rawValue: Int64(bitPattern: value(start + 48, 8))))
        }
    }
}
