import ByteText
import CFiles
import Crypto

/// The files that the program has for browsers (`Tools/docs-list` writes their list).
package enum EmbeddedFiles {
    /// The files of a folder by their paths below it.
    ///
    /// - Parameter folder: `console` or `docs`.
    package static func files(of folder: String) -> [(name: String, bytes: [UInt8])] {
        (0..<onym_file_count()).compactMap { place in
            let file = unsafe onym_file_at(place)
            guard unsafe String(cString: file.folder) == folder else { return nil }
            return unsafe (
                name: String(cString: file.name),
                bytes: Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
            )
        }
    }

    /// A hash over the names and bytes of some files, in 16 hexadecimal digits. The order of the files does not matter.
    package static func hash(of files: [(name: String, bytes: [UInt8])]) -> String {
        let hash = SHA256()
        hash.begin()
        for (name, bytes) in files.sorted(by: { $0.name < $1.name }) {
            // The length keeps two files from having the hash of one.
            hash.update(Array("\(name) \(bytes.count)\n".utf8))
            hash.update(bytes)
        }
        return String(Hexadecimal.encode(hash.finish().bytes).prefix(16))
    }
}
