import ByteText
import CConsole
import Compression
import Crypto

/// The files of the console: plain and in gzip, with one name for the whole set.
package struct ConsoleFiles: Sendable {
    package struct File: Equatable, Sendable {
        /// The path below the folder of the set, such as `pages/home.js`.
        package let name: String
        package let bytes: [UInt8]
        package let compressed: [UInt8]
    }

    /// The name of the page, which names the set.
    package static let page = "index.html"
    /// The number of hexadecimal digits in the name of a set.
    private static let digits = 16
    private static let placeholder = Array("{set}".utf8)

    /// The name of the set: a hash over all names and bytes. Another version of the console has another name.
    package let set: String
    /// The files by their names.
    package let files: [String: File]

    /// Takes the files of the program, and compresses each of them once.
    package init() { self.init(ConsoleFiles.embedded) }

    /// Makes a set of some files. The page has `{set}` where the name of the set belongs.
    package init(_ contents: [(name: String, bytes: [UInt8])]) {
        let contents = contents.sorted { $0.name < $1.name }
        let hash = SHA256()
        hash.begin()
        for (name, bytes) in contents {
            // The length keeps two files from having the hash of one.
            hash.update(Array("\(name) \(bytes.count)\n".utf8))
            hash.update(bytes)
        }
        let set = String(Hexadecimal.encode(hash.finish().bytes).prefix(ConsoleFiles.digits))
        self.set = set
        var files: [String: File] = [:]
        for (name, bytes) in contents {
            let content =
                name == ConsoleFiles.page ? bytes.replacing(ConsoleFiles.placeholder, with: Array(set.utf8)) : bytes
            files[name] = File(name: name, bytes: content, compressed: Gzip.deflate(content))
        }
        self.files = files
    }

    /// The files of the program.
    package static var embedded: [(name: String, bytes: [UInt8])] {
        (0..<onym_console_count()).map { place in
            let file = unsafe onym_console_file_at(place)
            return unsafe (
                name: String(cString: file.name),
                bytes: Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
            )
        }
    }
}
