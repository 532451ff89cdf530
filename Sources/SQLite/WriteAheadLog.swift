package import Disk

/// A place in a write-ahead log: the end of a frame.
package struct LogPlace: Equatable, Sendable {
    /// The number that SQLite gives to a log when the log starts over.
    package let salts: UInt64
    /// The number of the frame; 0 for the beginning of the log.
    package let frame: Int
    /// The checksum of the frame, which depends on all frames before it; 0 for the beginning of the log.
    package let checksum: UInt64

    package init(salts: UInt64, frame: Int, checksum: UInt64) {
        (self.salts, self.frame, self.checksum) = (salts, frame, checksum)
    }
}

/// The pages of one commit, or of several commits together, as the log has them.
package struct LoggedCommit: Equatable, Sendable {
    /// The last call of the journal after the commit, and its moment in milliseconds.
    package let sequence: Int64
    package let at: Int64
    /// The length of the database after the commit, in pages.
    package let databasePages: Int
    package let pageBytes: Int
    /// The frames, each with its header.
    package let frames: [UInt8]
    package let end: LogPlace

    package init(
        sequence: Int64, at: Int64, databasePages: Int, pageBytes: Int, frames: [UInt8], end: LogPlace
    ) {
        (self.sequence, self.at, self.databasePages) = (sequence, at, databasePages)
        (self.pageBytes, self.frames, self.end) = (pageBytes, frames, end)
    }
}

/// The file of a write-ahead log (SQLite's documentation, "WAL-mode File Format").
///
///     header  magic 4, version 4, page size 4, number of restarts 4, salts 8, checksum 8
///     frame   page 4, length of the database after a commit or 0 4, salts 8, checksum 8, then the page
///
/// SQLite has no locks on this file, so a program may open it and close it beside SQLite.
package final class WriteAheadLog {
    package struct Header: Equatable, Sendable {
        package let pageBytes: Int
        package let restarts: UInt32
        package let salts: UInt64
    }

    package static let headerBytes = 32
    package static let frameHeaderBytes = 24

    private let file: any DiskFile

    /// Opens the log beside a database; nil if the log does not exist.
    package init?(ofDatabase path: String, on disk: any Disk) {
        guard let file = try? disk.open(path + "-wal", .read) else { return nil }
        self.file = file
    }

    /// The header of the log; nil for an empty log.
    package var header: Header? {
        guard let bytes = bytes(at: 0, count: WriteAheadLog.headerBytes),
            WriteAheadLog.integer(bytes, 0) & ~1 == 0x377F_0682
        else { return nil }
        return Header(
            pageBytes: Int(WriteAheadLog.integer(bytes, 8)), restarts: WriteAheadLog.integer(bytes, 12),
            salts: WriteAheadLog.long(bytes, 16))
    }

    /// The place at the end of a frame; nil if the log ends before.
    package func place(_ frame: Int, _ header: Header) -> LogPlace? {
        if frame == 0 { return LogPlace(salts: header.salts, frame: 0, checksum: 0) }
        let offset = WriteAheadLog.headerBytes + (frame - 1) * (WriteAheadLog.frameHeaderBytes + header.pageBytes)
        guard let bytes = bytes(at: offset, count: WriteAheadLog.frameHeaderBytes),
            WriteAheadLog.long(bytes, 8) == header.salts
        else { return nil }
        return LogPlace(salts: header.salts, frame: frame, checksum: WriteAheadLog.long(bytes, 16))
    }

    /// Whether a frame is damaged and a whole transaction stands behind it. SQLite reads such a log only up to the damage.
    ///
    /// A power cut damages the last transaction alone, because SQLite begins the next one after a sync. Frames of earlier
    /// transactions may stand behind the end of the log, but only a frame that was written behind a commit has a checksum that
    /// goes on from that commit's.
    package var lacksTransactions: Bool {
        guard let header, let begins = bytes(at: 0, count: WriteAheadLog.headerBytes),
            header.pageBytes.nonzeroBitCount == 1, header.pageBytes >= 512
        else { return false }
        let isBigEndian = WriteAheadLog.integer(begins, 0) & 1 == 1
        var before = WriteAheadLog.checksum(begins[..<24], isBigEndian, after: 0)
        // SQLite takes a log with a damaged header for an empty one, as a power cut leaves it while the log begins again.
        guard before == WriteAheadLog.long(begins, 24) else { return false }
        func isWhole(_ frame: [UInt8], after before: UInt64) -> Bool {
            WriteAheadLog.long(frame, 8) == header.salts
                && WriteAheadLog.checksum(ofFrame: frame, isBigEndian, after: before) == WriteAheadLog.long(frame, 16)
        }
        let length = WriteAheadLog.frameHeaderBytes + header.pageBytes
        var damaged: (place: Int, before: UInt64)?
        /// The page and the length of the database of a whole commit behind the damage.
        var commit: UInt64?
        for place in stride(from: WriteAheadLog.headerBytes, to: Int.max, by: length) {
            guard let frame = bytes(at: place, count: length) else { return false }
            let isIntact = isWhole(frame, after: before)
            // SQLite may write the last frame of a commit twice, to fill a sector.
            if isIntact, let damaged, let commit, WriteAheadLog.long(frame, 0) != commit {
                // A writer beside this reader may have written the frame meanwhile.
                guard self.header == header, let again = bytes(at: damaged.place, count: length) else { return false }
                return !isWhole(again, after: damaged.before)
            }
            if !isIntact, damaged == nil { damaged = (place, before) }
            before = WriteAheadLog.long(frame, 16)
            let isCommit = isIntact && damaged != nil && WriteAheadLog.integer(frame, 4) != 0
            commit = isCommit ? WriteAheadLog.long(frame, 0) : nil
        }
        return false
    }

    /// The checksum of a frame's place, length of the database, and page.
    private static func checksum(ofFrame frame: [UInt8], _ isBigEndian: Bool, after before: UInt64) -> UInt64 {
        checksum(frame[frameHeaderBytes...], isBigEndian, after: checksum(frame[..<8], isBigEndian, after: before))
    }

    /// SQLite's checksum: two sums over pairs of integers. The first is in the upper half.
    private static func checksum(_ bytes: ArraySlice<UInt8>, _ isBigEndian: Bool, after before: UInt64) -> UInt64 {
        var first = UInt32(truncatingIfNeeded: before >> 32)
        var second = UInt32(truncatingIfNeeded: before)
        unsafe bytes.withUnsafeBytes { bytes in
            for place in stride(from: 0, to: bytes.count, by: 8) {
                let left = unsafe bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self)
                let right = unsafe bytes.loadUnaligned(fromByteOffset: place + 4, as: UInt32.self)
                first &+= (isBigEndian ? left.bigEndian : left.littleEndian) &+ second
                second &+= (isBigEndian ? right.bigEndian : right.littleEndian) &+ first
            }
        }
        return UInt64(first) << 32 | UInt64(second)
    }

    /// Reads the frames behind a place up to a frame that ends a commit; nil if the log does not have them.
    package func commit(
        after first: Int, through last: Int, _ header: Header, sequence: Int64, at moment: Int64
    ) -> LoggedCommit? {
        let length = WriteAheadLog.frameHeaderBytes + header.pageBytes
        guard last > first,
            let frames = bytes(at: WriteAheadLog.headerBytes + first * length, count: (last - first) * length)
        else { return nil }
        let end = (last - first - 1) * length
        let databasePages = Int(WriteAheadLog.integer(frames, end + 4))
        guard databasePages > 0, WriteAheadLog.long(frames, end + 8) == header.salts,
            WriteAheadLog.long(frames, 8) == header.salts
        else { return nil }
        return LoggedCommit(
            sequence: sequence, at: moment, databasePages: databasePages, pageBytes: header.pageBytes, frames: frames,
            end: LogPlace(salts: header.salts, frame: last, checksum: WriteAheadLog.long(frames, end + 16)))
    }

    /// The bytes at a place; nil if the log ends before their end.
    func bytes(at offset: Int, count: Int) -> [UInt8]? {
        guard let bytes = try? file.read(at: offset, count: count), bytes.count == count else { return nil }
        return bytes
    }

    package static func integer(_ bytes: [UInt8], _ place: Int) -> UInt32 {
        UInt32(bytes[place]) << 24 | UInt32(bytes[place + 1]) << 16 | UInt32(bytes[place + 2]) << 8
            | UInt32(bytes[place + 3])
    }

    package static func long(_ bytes: [UInt8], _ place: Int) -> UInt64 {
        UInt64(integer(bytes, place)) << 32 | UInt64(integer(bytes, place + 4))
    }
}
