public import Foundation

/// A file that goes with an event, in the Claim dialect. It is sent while the process lives, and not kept.
public struct Attachment: Sendable {
    /// What it is called.
    public let name: String
    /// What kind of file it is: `image/png`.
    public let contentType: String
    private let source: Source

    private enum Source {
        case bytes([UInt8])
        case file(URL)
    }

    /// A larger file is not sent: it is in memory while it is.
    public static let byteLimit = 64 << 20

    /// Makes one of bytes.
    public init(name: String, contentType: String, data: Data) {
        (self.name, self.contentType, source) = (name, contentType, .bytes([UInt8](data)))
    }

    /// Makes one of a file, which is read a moment later.
    public init(file: URL, contentType: String = "application/octet-stream") {
        (name, self.contentType, source) = (file.lastPathComponent, contentType, .file(file))
    }

    private static let tooLarge = DropReason.refused(
        .refused(.invalid("an attachment has at most \(byteLimit) bytes")))

    /// Its bytes, or why they are not sent.
    func read() -> Result<[UInt8], DropReason> {
        switch source {
        case .bytes(let bytes):
            return bytes.count > Attachment.byteLimit ? .failure(Attachment.tooLarge) : .success(bytes)
        case .file(let file):
            let size = (try? file.resourceValues(forKeys: [.fileSizeKey]))?.fileSize
            if let size, size > Attachment.byteLimit { return .failure(Attachment.tooLarge) }
            guard let data = try? Data(contentsOf: file) else { return .failure(.storage) }
            return .success([UInt8](data))
        }
    }
}
