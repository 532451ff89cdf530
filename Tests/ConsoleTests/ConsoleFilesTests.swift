import BrowserFiles
import Compression
import Console
import Foundation
import TestKit
import Testing

@Suite("The files of the console")
struct ConsoleFilesTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/CFiles/console").standardizedFileURL

    private func folderContents() throws -> [String: [UInt8]] {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: ConsoleFilesTests.folder.path())
        var contents: [String: [UInt8]] = [:]
        for path in paths where path.contains(".") {
            contents[path] = Array(try Data(contentsOf: ConsoleFilesTests.folder.appending(path: path)))
        }
        return contents
    }

    @Test("The program has every file of the folder, byte for byte")
    func embedded() throws {
        let embedded = Dictionary(uniqueKeysWithValues: EmbeddedFiles.files(of: "console").map { ($0.name, $0.bytes) })
        #expect(try embedded == folderContents())
    }

    @Test("The files are within their budget of bytes")
    func budget() throws {
        let files = ConsoleFiles().files
        let compressed = files.mapValues { Gzip.deflate($0).count }
        #expect(compressed.values.reduce(0, +) <= 70_000)
        #expect(compressed.filter { !$0.key.hasPrefix("pages/") }.values.reduce(0, +) <= 25_000)
        #expect(try #require(files[ConsoleFiles.page]).count <= 3_000)
    }

    @Test("Another byte or another name makes another set")
    func hash() {
        let set = ConsoleFiles([("a.js", [1, 2]), ("index.html", Array("{set}".utf8))])
        #expect(set.set.count == 16)
        #expect(set.files["index.html"] == Array(set.set.utf8))
        #expect(ConsoleFiles([("index.html", Array("{set}".utf8)), ("a.js", [1, 2])]).set == set.set)
        #expect(ConsoleFiles([("a.js", [1, 3]), ("index.html", Array("{set}".utf8))]).set != set.set)
        #expect(ConsoleFiles([("b.js", [1, 2]), ("index.html", Array("{set}".utf8))]).set != set.set)
        #expect(ConsoleFiles([("a", [1]), ("b", [2])]).set != ConsoleFiles([("a", [1, 2]), ("b", [])]).set)
    }

    @Test("No file has an inline script, an inline style, or an address of another server")
    func policy() throws {
        for (name, bytes) in try folderContents() {
            let text = String(decoding: bytes, as: UTF8.self)
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\""] {
                #expect(!text.contains(word), "\(name) has \(word)")
            }
            let addresses = text.split(separator: "https://").dropFirst() + text.split(separator: "http://").dropFirst()
            for address in addresses {
                let isExample = address.hasPrefix("hooks.example.com") || address.hasPrefix("www.w3.org/2000/svg")
                #expect(isExample, "\(name) names \(address.prefix(40))")
            }
        }
    }
}
