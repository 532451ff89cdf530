import ByteText
import Compression
import Crypto
import Glibc
package import SQLite

/// Writes copies of one store into a folder. One process at a time writes a folder. It belongs to one thread at a time.
///
///     manifest.json                        the list of all files, with digests
///     base/00000001/onym.db.gz             a copy of the file
///     log/00000001-000000000012.gz         the 12th segment of the first chain
///     attachments/ab/abcd…                 the files of attachments, by their contents
package final class CopyWriter {
    package let path: String
    private let lock: CInt
    package private(set) var manifest: CopyManifest
    /// The folder's device and file number, and the manifest there as this process read or wrote it last.
    private let identity: [UInt64]
    private var manifestThere: [UInt8]?
    /// Whether the folder is no longer the one that this process opened, so that it must be opened again.
    package private(set) var isReplaced = false
    /// Whether the next segment of the last chain can be written: there is no file with its name.
    package private(set) var canContinue = true

    /// The bytes of frames in one segment, if no commit is larger.
    private static let segmentBytes = 16 << 20

    /// Opens a folder for copies of a store, and makes it if it does not exist.
    ///
    /// - Parameters:
    ///   - path: the folder.
    ///   - store: the name of the store. A folder with copies of another store is refused.
    ///   - masterKey: a mark of the store's master key.
    package init(_ path: String, store: String, masterKey: String) throws(CopyFault) {
        self.path = path
        for folder in [path, "\(path)/base", "\(path)/log"] { try CopyFiles.make(folder) }
        lock = unsafe Glibc.open("\(path)/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if lock < 0 { throw .system("\(path)/lock cannot be made") }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            close(lock)
            throw CopyFault("Another process writes copies into \(path).")
        }
        do throws(CopyFault) {
            identity = try CopyWriter.identity(of: path)
            manifest = try CopyWriter.known(path, store, masterKey)
            manifestThere = try CopyWriter.manifestThere(path)
        } catch {
            close(lock)
            throw error
        }
        try adoptNewerSegments()
    }

    deinit {
        flock(lock, LOCK_UN)
        close(lock)
    }

    private static func known(
        _ path: String, _ store: String, _ masterKey: String
    ) throws(CopyFault) -> CopyManifest {
        guard CopyFiles.exists("\(path)/\(CopyManifest.name)") else {
            return CopyManifest(store: store, masterKey: masterKey)
        }
        let manifest = try CopyReader.manifest(of: path)
        guard manifest.store == store else {
            throw CopyFault("\(path) has copies of another store. Name another folder.")
        }
        return manifest
    }

    /// Adds segments that a process wrote before it ended without a new manifest.
    private func adoptNewerSegments() throws(CopyFault) {
        guard var chain = manifest.chains.last else { return }
        while true {
            let file = "\(path)/\(CopyManifest.segmentPath(chain.number, chain.last + 1))"
            guard CopyFiles.exists(file) else { break }
            let bytes = try CopyFiles.read(file)
            guard let segment = LogSegment(packed: bytes), Hexadecimal.encode(segment.digestBefore) == chain.digest,
                let last = segment.commits.last
            else { break }
            chain.add(SHA256.digest(of: bytes), last)
        }
        manifest.chains[manifest.chains.count - 1] = chain
        canContinue = !CopyFiles.exists("\(path)/\(CopyManifest.segmentPath(chain.number, chain.last + 1))")
    }

    private static func identity(of path: String) throws(CopyFault) -> [UInt64] {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { throw .system("The folder \(path) cannot be looked at") }
        return [UInt64(status.st_dev), UInt64(status.st_ino)]
    }

    private static func manifestThere(_ path: String) throws(CopyFault) -> [UInt8]? {
        let file = "\(path)/\(CopyManifest.name)"
        return CopyFiles.exists(file) ? try CopyFiles.read(file) : nil
    }

    /// Refuses a folder that was moved away, mounted over, emptied or restored since this process opened it.
    private func checkFolder() throws(CopyFault) {
        guard (try? CopyWriter.identity(of: path)) == identity, try CopyWriter.manifestThere(path) == manifestThere
        else {
            isReplaced = true
            throw CopyFault("\(path) is not as the server left it: somebody moved, emptied or replaced it.")
        }
    }

    /// Refuses to write over a file of copies.
    private func checkFree(_ file: String) throws(CopyFault) {
        if CopyFiles.exists(file) {
            isReplaced = true
            throw CopyFault("\(file) exists already, and a file of copies is never overwritten.")
        }
    }

    /// Whether the manifest in the folder lacks a change.
    private var isManifestOld = false

    private func writeManifest() throws(CopyFault) {
        isManifestOld = true
        try checkFolder()
        let json = manifest.json
        do throws(CopyFault) {
            try CopyFiles.write(json, to: "\(path)/\(CopyManifest.name)")
        } catch {
            // The file may have its name already, although the folder is not durable.
            if let there = try? CopyWriter.manifestThere(path), there == json { manifestThere = json }
            throw error
        }
        manifestThere = json
        isManifestOld = false
    }

    // MARK: - The log

    /// The chain that a process can continue: the last chain.
    package var chain: CopyManifest.Chain? { manifest.chains.last }

    /// Begins a chain, because commits are missing behind the last chain.
    ///
    /// - Parameters:
    ///   - place: the place in the store's log at which the chain begins; nil if the log is empty.
    ///   - last: the last call of the journal, and its moment.
    package func beginChain(after place: LogPlace?, _ last: (sequence: Int64, at: Int64)) throws(CopyFault) {
        var number = (manifest.chains.last?.number ?? 0) + 1
        // An older manifest may lack the chains of files that are there.
        while CopyFiles.exists("\(path)/\(CopyManifest.segmentPath(number, 1))") { number += 1 }
        var chain = CopyManifest.Chain(number: number)
        (chain.place, chain.sequence, chain.at) = (place, last.sequence, last.at)
        manifest.chains.append(chain)
        try writeManifest()
    }

    /// Takes away the token of the last end, because from now on the store may have more commits.
    package func takeToken() throws(CopyFault) {
        precondition(!manifest.chains.isEmpty, "A folder without a chain.")
        manifest.chains[manifest.chains.count - 1].token = ""
        try writeManifest()
    }

    /// Keeps the token of a server that stops, so that the next server can continue the chain.
    package func leave(_ token: [UInt8]) throws(CopyFault) {
        precondition(!manifest.chains.isEmpty, "A folder without a chain.")
        manifest.chains[manifest.chains.count - 1].token = Hexadecimal.encode(token)
        try writeManifest()
    }

    /// Adds commits to the chain. When this returns, they are durable. After a fault the array has the commits that are still
    /// missing.
    package func append(_ commits: inout [LoggedCommit]) throws(CopyFault) {
        guard var chain = manifest.chains.last else { preconditionFailure("A folder without a chain.") }
        if !commits.isEmpty { try checkFolder() }
        while !commits.isEmpty {
            var (count, bytes) = (0, 0)
            while count < commits.count, count == 0 || bytes < CopyWriter.segmentBytes {
                bytes += commits[count].frames.count
                count += 1
            }
            let part = Array(commits.prefix(count))
            let segment = LogSegment(
                chain: chain.number, number: chain.last + 1,
                digestBefore: Hexadecimal.decode(chain.digest.utf8.span) ?? [], commits: part)
            let packed = segment.packed
            let file = "\(path)/\(CopyManifest.segmentPath(chain.number, segment.number))"
            try checkFree(file)
            try CopyFiles.write(packed, to: file)
            chain.add(SHA256.digest(of: packed), part[count - 1])
            manifest.chains[manifest.chains.count - 1] = chain
            isManifestOld = true
            commits.removeFirst(count)
        }
        if isManifestOld { try writeManifest() }
    }

    // MARK: - Bases

    /// A copy of the file in its making.
    package final class NewBase {
        fileprivate let number: Int
        fileprivate let chain: Int
        fileprivate let first: Int
        fileprivate let file: NewFile
        fileprivate let hasher = SHA256()
        fileprivate var bytes: Int64 = 0

        fileprivate init(number: Int, chain: Int, first: Int, _ file: NewFile) {
            (self.number, self.chain, self.first, self.file) = (number, chain, first, file)
            hasher.begin()
        }

        /// Adds the next bytes of the file.
        package func add(_ piece: [UInt8]) throws(CopyFault) {
            let packed = Gzip.deflate(piece, .least)
            hasher.update(packed)
            bytes += Int64(packed.count)
            try file.write(packed)
        }
    }

    /// The largest piece of ``NewBase/add(_:)``.
    package static let pieceBytes = 1 << 20

    /// Begins a copy of the file. All commits that the chain gets from now on belong to the copy. The file must have the pages of
    /// all earlier commits before the first piece is read.
    package func beginBase() throws(CopyFault) -> NewBase {
        guard let chain = manifest.chains.last else { preconditionFailure("A folder without a chain.") }
        var number = (manifest.bases.last?.number ?? 0) + 1
        while CopyFiles.exists("\(path)/\(CopyManifest.basePath(number))") { number += 1 }
        let file = "\(path)/\(CopyManifest.basePath(number))"
        try CopyFiles.make(String(file.dropLast("/onym.db.gz".count)))
        return NewBase(
            number: number, chain: chain.number, first: chain.last + 1, try NewFile(file))
    }

    /// Completes a copy, after the chain has all commits from before its end.
    package func finish(_ base: NewBase, at moment: Int64) throws(CopyFault) {
        guard let chain = manifest.chains.last, chain.number == base.chain else {
            throw CopyFault("The log has a gap since the copy began, so the copy is of no use.")
        }
        try checkFolder()
        try checkFree("\(path)/\(CopyManifest.basePath(base.number))")
        try base.file.finish()
        manifest.bases.append(
            CopyManifest.Base(
                number: base.number, chain: base.chain, first: base.first, complete: chain.last,
                sequence: chain.sequence, at: chain.at, madeAt: moment,
                digest: Hexadecimal.encode(base.hasher.finish().bytes), bytes: base.bytes))
        try writeManifest()
    }

    /// Removes all bases but the last ones, and the segments that only they need.
    package func prune(keeping count: Int) throws(CopyFault) {
        guard manifest.bases.count > count else { return }
        let old = manifest.bases.prefix(manifest.bases.count - count)
        manifest.bases.removeFirst(old.count)
        let needed = manifest.bases[0]
        manifest.chains.removeAll { $0.number < needed.chain }
        // The manifest comes first: it must never name a removed file.
        try writeManifest()
        for base in old {
            CopyFiles.removeFolder("\(path)/" + CopyManifest.basePath(base.number).dropLast("/onym.db.gz".count))
        }
        let first = CopyManifest.segmentPath(needed.chain, needed.first).dropFirst("log/".count)
        for name in CopyFiles.names(in: "\(path)/log") where name < first { CopyFiles.remove("\(path)/log/\(name)") }
    }

    // MARK: - Attachments

    /// Copies the attachments that the folder does not have yet. Answers their number.
    package func copyAttachments(from folder: String) throws(CopyFault) -> Int {
        var copied = 0
        for part in CopyFiles.names(in: folder) where part.utf8.count == 2 {
            let target = "\(path)/attachments/\(part)"
            let known = Set(CopyFiles.names(in: target))
            for name in CopyFiles.names(in: "\(folder)/\(part)") where !known.contains(name) {
                try CopyFiles.make(target)
                do throws(CopyFault) {
                    try CopyFiles.copy("\(folder)/\(part)/\(name)", to: "\(target)/\(name)")
                } catch {
                    // The server may remove an attachment meanwhile.
                    if CopyFiles.exists("\(folder)/\(part)/\(name)") { throw error }
                }
                copied += 1
            }
        }
        return copied
    }
}

extension CopyManifest.Chain {
    /// Adds a segment at the end.
    fileprivate mutating func add(_ digest: Digest, _ commit: LoggedCommit) {
        last += 1
        self.digest = Hexadecimal.encode(digest.bytes)
        (sequence, at, place) = (commit.sequence, commit.at, commit.end)
    }
}
