public import Foundation

/// A file that goes with an event, in the Claim dialect. The SDK sends the file while the process lives, and does not keep
/// it.
public struct Attachment: Sendable {
    /// The file's name.
    public let name: String
    /// The file's media type: `image/png`.
    public let contentType: String
    private let source: Source

    private enum Source {
        case bytes([UInt8])
        case file(URL)
    }

    /// The greatest size of a file. The SDK does not send larger files, because a file is in memory while the SDK sends it.
    public static let byteLimit = 64 << 20

    /// Makes an attachment of bytes.
    public init(name: String, contentType: String, data: Data) {
        (self.name, self.contentType, source) = (name, contentType, .bytes([UInt8](data)))
    }

    /// Makes an attachment of a file. The SDK reads the file a moment later.
    public init(file: URL, contentType: String = "application/octet-stream") {
        (name, self.contentType, source) = (file.lastPathComponent, contentType, .file(file))
    }

    private static let tooLarge = DropReason.refused(
        .refused(.invalid("an attachment has at most \(byteLimit) bytes")))

    /// The file's bytes, or the reason why the SDK does not send them.
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
