import BrowserFiles
import ByteText

/// The files of the console, with one name for the whole set.
package struct ConsoleFiles: Sendable {
    /// The name of the page, which names the set.
    package static let page = "index.html"
    private static let placeholder = "{set}"

    /// The name of the set: a hash over all names and bytes. Another version of the console has another name.
    package let set: String
    /// The files by their paths below the folder of the set, such as `pages/home.js`.
    package let files: [String: [UInt8]]

    /// The bytes of all files, before they are compressed.
    package var byteCount: Int { files.values.reduce(0) { $0 + $1.count } }

    /// Takes the files of the program.
    package init() { self.init(EmbeddedFiles.files(of: "console")) }

    /// Makes a set of some files. The page has `{set}` where the name of the set belongs.
    package init(_ contents: [(name: String, bytes: [UInt8])]) {
        let set = EmbeddedFiles.hash(of: contents)
        self.set = set
        files = Dictionary(
            uniqueKeysWithValues: contents.map { name, bytes in
                let isPage = name == ConsoleFiles.page
                guard isPage else { return (name, bytes) }
                let page = String(decoding: bytes, as: UTF8.self).replacing(ConsoleFiles.placeholder, with: set)
                return (name, Array(page.utf8))
            })
    }
}
