public import Foundation

/// A file that goes with an event, in the Claim dialect. The SDK does not keep the file, so it sends the file at once and does
/// not wait for the event's batch: a process that ends soon would lose the file. The server takes both in either order.
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

    /// The greatest size of a file: 2 GiB, or one byte less where an Int has 32 bits.
    public static let byteLimit = Int(clamping: Int64(2) << 30)

    /// Makes an attachment of bytes.
    public init(name: String, contentType: String, data: Data) {
        (self.name, self.contentType, source) = (name, contentType, .bytes([UInt8](data)))
    }

    /// Makes an attachment of a file. The SDK reads the file a moment later.
    /// - Parameters:
    ///   - file: the file.
    ///   - name: the name that the server shows; nil for the file's own name.
    ///   - contentType: the file's media type.
    public init(file: URL, name: String? = nil, contentType: String = "application/octet-stream") {
        (self.name, self.contentType, source) = (name ?? file.lastPathComponent, contentType, .file(file))
    }

    private static let tooLarge = DropReason.refused(
        .refused(.invalid("an attachment has at most \(byteLimit) bytes")))

    /// What an upload needs to know of the file.
    struct Content {
        let size: Int
        /// The SHA-256 of the bytes.
        let sum: String
        /// The bytes, if the file is in memory.
        let bytes: [UInt8]
        /// The file, if it is on the disk.
        let file: URL?
    }

    /// The size of the parts in which a file is read.
    private static let part = 1 << 20

    /// Reads the file once, in parts; answers the reason if the SDK does not send it.
    func read() -> Result<Content, DropReason> {
        switch source {
        case .bytes(let bytes):
            if bytes.count > Attachment.byteLimit { return .failure(Attachment.tooLarge) }
            return .success(
                Content(size: bytes.count, sum: hexadecimal(SHA256.digest(bytes)), bytes: bytes, file: nil))
        case .file(let file):
            do {
                let handle = try FileHandle(forReadingFrom: file)
                defer { try? handle.close() }
                var (size, stream) = (0, SHA256.Stream())
                while let part = try handle.read(upToCount: Attachment.part), !part.isEmpty {
                    size += part.count
                    if size > Attachment.byteLimit { return .failure(Attachment.tooLarge) }
                    stream.add(part)
                }
                return .success(Content(size: size, sum: hexadecimal(stream.digest), bytes: [], file: file))
            } catch {
                return .failure(.storage)
            }
        }
    }
}
