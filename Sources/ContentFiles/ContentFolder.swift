import ByteText
package import Crypto
package import Disk
import Threads

/// A folder of files whose names are the SHA-256 of their contents, so that equal contents are kept once.
///
///     <folder>/ab/abcdef…      a kept content
///     <folder>/incoming/…-17   a content that a server is receiving
///
/// Its calls wait for the disk. Any thread may use it, and several processes may share the folder.
package final class ContentFolder: Sendable {
    package let path: String
    private let disk: any Disk
    /// The number of holders of a content, by its digest: a held content is not removed.
    private let held = Monitor<[Digest: Int]>([:])
    private let receiving = Monitor(Receiving())

    /// The names of incoming contents: several processes may share the folder.
    private struct Receiving {
        /// The part of the names that no other process has; nil before the first content.
        var prefix: String?
        var last = 0
    }

    package init(path: String, on disk: any Disk = SystemDisk()) { (self.path, self.disk) = (path, disk) }

    // MARK: - Receiving

    /// Begins to receive a content.
    package func receive() throws(ContentFault) -> IncomingContent {
        // The first caller makes the folder, and other callers wait for that.
        let name = receiving.withLock { names -> Result<String, ContentFault> in
            do throws(ContentFault) {
                if names.prefix == nil {
                    try begin()
                    names.prefix = Hexadecimal.encode(SecureRandom.bytes(8))
                }
                names.last += 1
                return .success("\(names.prefix ?? "")-\(names.last)")
            } catch {
                return .failure(error)
            }
        }
        return try IncomingContent(path: "\(incoming)/\(try name.get())", on: disk)
    }

    private var incoming: String { "\(path)/incoming" }

    private func begin() throws(ContentFault) {
        for folder in [path, incoming] { try make(folder) }
        // A kept content is durable only in a folder whose own name is.
        try sync(Paths.folder(of: path))
    }

    /// Removes incomplete contents of processes that have ended.
    package func removeIncomplete() {
        for name in names(in: incoming) {
            let path = "\(incoming)/\(name)"
            // Whoever receives a content has the lock of its file.
            guard let file = try? disk.open(path, .readWrite), file.lock() else { continue }
            try? disk.remove(path)
        }
    }

    /// Keeps a received content, and holds it until ``release(_:)``. When this returns, the content is on the disk.
    package func keep(_ content: IncomingContent) throws(ContentFault) -> Digest {
        let digest = try content.finish()
        let file = file(digest)
        try make(folder(digest))
        held.change { $0[digest, default: 0] += 1 }
        do throws(ContentFault) {
            try ContentFault.of("\(file) cannot be made") { () throws(DiskFault) in
                try disk.rename(content.path, to: file)
            }
            content.isKept = true
            try sync(folder(digest))
            try sync(path)
        } catch {
            release(digest)
            throw error
        }
        return digest
    }

    package func release(_ digest: Digest) {
        held.change { held in
            let count = held[digest, default: 0] - 1
            held[digest] = count > 0 ? count : nil
        }
    }

    // MARK: - What is there

    /// Opens a content for reading; nil if it does not exist.
    package func open(_ digest: Digest) throws(ContentFault) -> KeptContent? {
        let path = file(digest)
        return try ContentFault.of("\(path) cannot be read") { () throws(DiskFault) in
            do throws(DiskFault) {
                return try KeptContent(try disk.open(path, .read))
            } catch {
                if error.isMissing { return nil }
                throw error
            }
        }
    }

    /// Removes a content, if it has no holder and a check shows that nothing needs it. No caller can begin to hold it
    /// meanwhile.
    package func remove<Failure>(
        _ digest: Digest, if isUnused: () throws(Failure) -> Bool
    ) throws(Failure) {
        let result = held.withLock { held -> Result<Void, Failure> in
            guard held[digest] == nil else { return .success(()) }
            do throws(Failure) {
                // A file that a power cut brings back is removed again after the next start.
                if try isUnused() { try? disk.remove(file(digest)) }
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    /// The digests of all kept contents.
    package var kept: [Digest] {
        names(in: path).filter { $0.utf8.count == 2 }.flatMap { folder in
            names(in: "\(path)/\(folder)").compactMap { Hexadecimal.decode($0.utf8.span).flatMap { Digest($0) } }
        }
    }

    private func folder(_ digest: Digest) -> String { "\(path)/\(Hexadecimal.encode(digest.bytes.prefix(1)))" }
    private func file(_ digest: Digest) -> String { "\(folder(digest))/\(Hexadecimal.encode(digest.bytes))" }

    private func make(_ folder: String) throws(ContentFault) {
        try ContentFault.of("\(folder) cannot be made") { () throws(DiskFault) in try disk.makeFolder(folder) }
    }

    private func sync(_ folder: String) throws(ContentFault) {
        try ContentFault.of("\(folder) cannot be written") { () throws(DiskFault) in try disk.syncFolder(folder) }
    }

    private func names(in folder: String) -> [String] { (try? disk.names(in: folder)) ?? [] }
}

/// The reason why a file could not be read or written, with the system's message.
package struct ContentFault: Error, CustomStringConvertible {
    package let description: String

    /// Answers what the disk answers.
    ///
    /// - Parameter what: the sentence about a fault.
    static func of<Result>(
        _ what: @autoclosure () -> String, _ body: () throws(DiskFault) -> Result
    ) throws(ContentFault) -> Result {
        do throws(DiskFault) {
            return try body()
        } catch {
            throw ContentFault(description: "\(what()): \(error).")
        }
    }
}
