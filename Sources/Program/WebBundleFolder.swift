import ByteText
import Compression
import Crypto
import DialectIDSync
import Glibc
import Threads

/// The operator's folder with the vendor's web client. The server reads the file again when its time or its size changes.
final class WebBundleFolder: Sendable {
    /// The facts by which the server sees that a file has changed.
    private struct Mark: Equatable {
        let file: UInt
        let bytes: Int
        let seconds: Int
        let nanoseconds: Int

        init(_ status: stat) {
            file = status.st_ino
            bytes = status.st_size
            (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
        }
    }

    /// The present file, and the scripts of the keys that pages have asked for.
    private struct State {
        var mark: Mark?
        var file: [UInt8] = []
        var bundles: [String: WebBundle] = [:]
    }

    private let path: String
    private let state = Monitor(State())

    static let fileName = "mparticle.js"
    private static let bytesAtMost = 16 << 20
    /// A project has few keys for web pages.
    private static let bundlesAtMost = 64

    init(path: String) { self.path = path }

    /// The client for the pages of a key; nil without a readable file.
    func bundle(for key: String) -> WebBundle? {
        guard let start = WebBundle.start(for: key) else { return nil }
        return state.withLock { state -> WebBundle? in
            guard refresh(&state) else { return nil }
            if let known = state.bundles[key] { return known }
            let script = state.file + Array(start.utf8)
            let digest = Hexadecimal.encode(SHA256.digest(of: script).bytes.prefix(16))
            let bundle = WebBundle(script: script, compressed: Gzip.deflate(script), tag: digest)
            if state.bundles.count == WebBundleFolder.bundlesAtMost { state.bundles = [:] }
            state.bundles[key] = bundle
            return bundle
        }
    }

    /// The size and the version of the file; nil without a readable file.
    func describe() -> (bytes: Int, version: String?)? {
        state.withLock { state in
            refresh(&state) ? (state.file.count, WebBundleFolder.version(in: state.file)) : nil
        }
    }

    /// Reads the file if it has changed; false without a readable file.
    private func refresh(_ state: inout State) -> Bool {
        guard let descriptor = open() else {
            state = State()
            return false
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_size <= WebBundleFolder.bytesAtMost
        else {
            state = State()
            return false
        }
        let mark = Mark(status)
        if state.mark == mark { return true }
        state = State()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(status.st_size)
        var piece = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= WebBundleFolder.bytesAtMost {
            let count = unsafe read(descriptor, &piece, piece.count)
            if count < 0 { return false }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        (state.file, state.mark) = (bytes, mark)
        return true
    }

    /// Opens the file. A link that leaves the folder is not followed.
    private func open() -> CInt? {
        guard let folder = WebBundleFolder.real(path),
            let file = WebBundleFolder.real("\(folder)/\(WebBundleFolder.fileName)"), file.hasPrefix("\(folder)/")
        else { return nil }
        let descriptor = unsafe Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        return descriptor < 0 ? nil : descriptor
    }

    /// The path without links; nil if it does not exist.
    private static func real(_ path: String) -> String? {
        guard let real = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(real) }
        return unsafe String(cString: real)
    }

    /// The version that a client of the vendor has in its code: three numbers in quotes after the word "version", or else the
    /// first three numbers in quotes.
    static func version(in file: [UInt8]) -> String? {
        let word = Array("version".utf8)
        var (first, place) = (String?.none, 0)
        while place < file.count {
            defer { place += 1 }
            guard file[place] == UInt8(ascii: "\"") || file[place] == UInt8(ascii: "'"),
                let version = version(in: file[(place + 1)...].prefix(20), until: file[place])
            else { continue }
            let before = file[max(0, place - 16)..<place].map { $0 | 0x20 }
            if before.indices.contains(where: { before[$0...].starts(with: word) }) { return version }
            first = first ?? version
        }
        return first
    }

    private static func version(in bytes: ArraySlice<UInt8>, until quote: UInt8) -> String? {
        guard let end = bytes.firstIndex(of: quote) else { return nil }
        let parts = bytes[..<end].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let isVersion = parts.allSatisfy { !$0.isEmpty && $0.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }
        return parts.count == 3 && isVersion ? String(decoding: bytes[..<end], as: UTF8.self) : nil
    }
}
