import Compression
import SQLite

/// A piece of the log of a copy: whole commits, and the digest of the segment before.
///
///     magic "onymlog1" 8, chain 8, number 8, digest of the segment before 32
///     each commit: sequence 8, moment 8, database pages 8, page bytes 8, salts 8, frame 8, checksum 8, bytes 8, frames
///
/// The file is gzip of several members. Numbers are big-endian.
struct LogSegment: Equatable {
    let chain: Int
    let number: Int
    /// Empty for the first segment of a chain.
    let digestBefore: [UInt8]
    let commits: [LoggedCommit]

    private static let magic = Array("onymlog1".utf8)
    private static let digestBytes = 32
    private static let memberBytes = 4 << 20

    var packed: [UInt8] {
        var bytes = LogSegment.magic
        bytes.append(UInt64(chain))
        bytes.append(UInt64(number))
        bytes += digestBefore.isEmpty ? [UInt8](repeating: 0, count: LogSegment.digestBytes) : digestBefore
        for commit in commits {
            bytes.append(UInt64(bitPattern: commit.sequence))
            bytes.append(UInt64(bitPattern: commit.at))
            bytes.append(UInt64(commit.databasePages))
            bytes.append(UInt64(commit.pageBytes))
            bytes.append(commit.end.salts)
            bytes.append(UInt64(commit.end.frame))
            bytes.append(commit.end.checksum)
            bytes.append(UInt64(commit.frames.count))
            bytes += commit.frames
        }
        var packed: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: LogSegment.memberBytes) {
            packed += Gzip.deflate(Array(bytes[start..<min(bytes.count, start + LogSegment.memberBytes)]), .least)
        }
        return packed
    }

    /// Reads a segment; nil for bytes that are not a segment.
    init?(packed: [UInt8]) {
        let stream = InflatingStream()
        guard let bytes = try? stream.inflate(packed), stream.isComplete else { return nil }
        var place = LogSegment.magic.count
        func integer() -> Int? {
            guard place + 8 <= bytes.count else { return nil }
            defer { place += 8 }
            return Int(exactly: WriteAheadLog.long(bytes, place))
        }
        func long() -> UInt64? {
            guard place + 8 <= bytes.count else { return nil }
            defer { place += 8 }
            return WriteAheadLog.long(bytes, place)
        }
        guard bytes.starts(with: LogSegment.magic), let chain = integer(), let number = integer(),
            place + LogSegment.digestBytes <= bytes.count
        else { return nil }
        let before = Array(bytes[place..<place + LogSegment.digestBytes])
        place += LogSegment.digestBytes
        var commits: [LoggedCommit] = []
        while place < bytes.count {
            guard let sequence = long(), let at = long(), let databasePages = integer(), let pageBytes = integer(),
                let salts = long(), let frame = integer(), let checksum = long(), let count = integer(),
                databasePages <= UInt32.max, pageBytes > 0, pageBytes <= 65_536, count <= bytes.count - place,
                count % (pageBytes + WriteAheadLog.frameHeaderBytes) == 0
            else { return nil }
            commits.append(
                LoggedCommit(
                    sequence: Int64(bitPattern: sequence), at: Int64(bitPattern: at), databasePages: databasePages,
                    pageBytes: pageBytes, frames: Array(bytes[place..<place + count]),
                    end: LogPlace(salts: salts, frame: frame, checksum: checksum)))
            place += count
        }
        self.init(
            chain: chain, number: number, digestBefore: before.allSatisfy { $0 == 0 } ? [] : before, commits: commits)
    }

    init(chain: Int, number: Int, digestBefore: [UInt8], commits: [LoggedCommit]) {
        (self.chain, self.number, self.digestBefore, self.commits) = (chain, number, digestBefore, commits)
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ integer: UInt64) {
        for shift in stride(from: 56, through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: integer >> UInt64(shift)))
        }
    }
}
