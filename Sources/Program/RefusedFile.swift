import Glibc
import Invocation

/// The file with the refused records of an import.
///
/// A killed import may have decided records whose refusals are not in the file, and may decide records again whose refusals are.
/// An import that goes on offers both again, and the file takes those that it does not have.
final class RefusedFile {
    let path: String
    private var descriptor: CInt = -1
    /// Lines of the runs before, the last ones at least; nil for an import that begins.
    private var kept: Set<[UInt8]>?

    private static let linesKept = 20_000

    init(_ path: String) { self.path = path }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Reads the lines of the runs before, and removes a last line that was cut.
    func goOn() throws(CommandFault) {
        kept = []
        guard Files.exists(path) else { return }
        let file = try ImportFile(path)
        var (before, last, rest, length) = (Set<[UInt8]>(), Set<[UInt8]>(), [UInt8](), 0)
        while let piece = try file.next() {
            rest += piece
            var start = 0
            while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                if last.count == RefusedFile.linesKept { (before, last) = (last, []) }
                last.insert(Array(rest[start...end]))
                start = end + 1
            }
            length += start
            rest.removeFirst(start)
        }
        if !rest.isEmpty, unsafe truncate(path, off_t(length)) != 0 { throw Files.unwritten(path) }
        kept = before.union(last)
    }

    func add(_ record: RefusedRecord) throws(CommandFault) {
        let line = record.bytes
        if let kept, kept.contains(line) { return }
        if descriptor < 0 {
            let flag = kept == nil ? O_TRUNC : O_APPEND
            descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flag, 0o600)
            guard descriptor >= 0 else { throw Files.unwritten(path) }
        }
        try Files.append(line, to: descriptor, of: path)
    }
}
