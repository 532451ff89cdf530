import Disk
import Domain

/// The file `onym.head`: the name of the store, and its last call. SQLite cannot notice that its log was cut, deleted or damaged,
/// or that somebody put an older file back: it opens the store without the last calls. With the head, the store notices.
///
/// The file has two places of 512 bytes. The writer writes the head after each commit, into one place until that is on the disk, and
/// then into the other, so that a cut write leaves a whole head. So the head is never ahead of a whole store, and a power cut can only
/// leave it behind.
///
///     magic "onymhead" 8, name of the store 16, last call 8, its moment 8, checksum 8
final class HeadFile {
    private let file: any DiskFile
    private let name: Hash128
    private var place = 0
    /// Whether the file has a head that is not yet on the disk.
    private var isUnsynced = false

    struct Head: Equatable {
        let name: Hash128
        let sequence: Int64
        let at: Int64
    }

    fileprivate static let magic = Array("onymhead".utf8)
    private static let placeBytes = 512
    private static let headBytes = 48

    /// Opens the head of a store for writing, and makes the file if it does not exist. The file gets the owner of the store.
    init(of file: StoreFile, name: Hash128) throws(StoreFault) {
        self.name = name
        do throws(DiskFault) {
            self.file = try file.disk.open(file.headPath, .readWrite)
        } catch {
            throw StoreFault(
                .readOnly,
                "\(file.headPath) cannot be written: \(error). Without it, nobody notices lost calls. Give the file to the "
                    + "owner of the store.")
        }
        self.file.giveToOwner(of: file.path)
    }

    /// Reads the newer of the two heads; nil if the file does not exist or has no whole head.
    static func read(_ file: StoreFile) -> Head? {
        guard let head = try? file.disk.open(file.headPath, .read) else { return nil }
        return (0..<2).compactMap { place -> Head? in
            guard let bytes = try? head.read(at: place * placeBytes, count: headBytes), bytes.count == headBytes else {
                return nil
            }
            return Head(bytes)
        }.max { $0.sequence < $1.sequence }
    }

    /// Notes the last call. A failed write is no fault of the commit: the head only stays behind.
    func note(_ sequence: JournalSequence, at moment: Instant?) {
        let bytes = Head(name: name, sequence: sequence.rawValue, at: moment?.milliseconds ?? 0).bytes
        try? file.write(bytes, at: place * HeadFile.placeBytes)
        isUnsynced = true
    }

    /// Forgets earlier heads, because the store goes on without the calls that they name.
    func begin(_ sequence: JournalSequence, at moment: Instant?) {
        for _ in 0..<2 {
            note(sequence, at: moment)
            sync()
        }
    }

    func sync() {
        guard isUnsynced else { return }
        // A head that is behind on the disk does no harm.
        if (try? file.sync()) != nil { place = 1 - place }
        isUnsynced = false
    }
}

extension HeadFile.Head {
    /// The checksum of a head. It finds damage; nobody has to be kept from writing a head.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> Hash128 {
        KeyedHash(key: Hash128(high: 0, low: 0)).hash(tag: 0, Array(bytes).span)
    }

    fileprivate init?(_ bytes: [UInt8]) {
        guard bytes.starts(with: HeadFile.magic),
            HeadFile.Head.checksum(bytes[..<40]).bytes.prefix(8).elementsEqual(bytes[40..<48]),
            let name = Hash128(Array(bytes[8..<24]).span)
        else { return nil }
        func integer(_ place: Int) -> Int64 {
            Int64(bitPattern: bytes[place..<place + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
        self.init(name: name, sequence: integer(24), at: integer(32))
    }

    fileprivate var bytes: [UInt8] {
        var bytes = HeadFile.magic + name.bytes
        for integer in [sequence, at] {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: integer >> Int64(shift)))
            }
        }
        return bytes + HeadFile.Head.checksum(bytes[...]).bytes.prefix(8)
    }
}

extension StoreFault {
    /// The fault of a store that lacks its last calls; nil for a whole store.
    ///
    /// - Parameters:
    ///   - sequence: the last call of the store.
    ///   - head: the head beside the store; nil if it has none.
    ///   - isDamaged: whether the log has transactions behind a damaged frame.
    init?(lostSince sequence: Int64, _ head: HeadFile.Head?, isDamaged: Bool, name: Hash128, path: String) {
        let lost: String
        if let head, head.name == name, head.sequence > sequence {
            lost =
                "the calls \(sequence + 1) to \(head.sequence): its log was cut or damaged, or an older file was put back"
        } else if isDamaged {
            lost = "the calls after \(sequence): its log is damaged, and whole calls stand behind the damage"
        } else {
            return nil
        }
        self.init(
            .corrupt,
            """
            \(path) lacks \(lost). Restore a copy with "onym restore", or go on without these calls with \
            "onym serve --accept-loss".
            """)
    }
}
