import Foundation
import VendorFiles

/// The readers of vendors' files without an import: how many megabytes of a file one core turns into facts in a second.
@main
enum BenchReaders {
    private static let piece = 64 << 10
    private static let rounds = 5

    static func main() throws {
        let words = CommandLine.arguments.dropFirst()
        guard words.count >= 2, let vendor = Vendor(rawValue: words.first ?? "") else {
            print("usage: bench-readers <vendor, csv or jsonl> <file> [map]")
            exit(2)
        }
        var options = VendorOptions()
        if words.count == 3 { options.map = try VendorMap(json: bytes(of: words[words.startIndex + 2])) }
        let file = try bytes(of: words[words.startIndex + 1])
        var (seconds, lines) = ([Double](), 0)
        for _ in 0..<rounds {
            let start = ContinuousClock.now
            lines = try read(file, VendorReader(vendor, options))
            seconds.append((ContinuousClock.now - start) / .seconds(1))
        }
        let median = seconds.sorted()[rounds / 2]
        print("\(Int(Double(file.count) / median / 1e6)) MB/s, \(Int(Double(lines) / median)) facts a second")
    }

    private static func read(_ file: [UInt8], _ reader: VendorReader) throws -> Int {
        var (lines, place) = (0, 0)
        try reader.begin(file: "file")
        while place < file.count {
            let end = min(file.count, place + piece)
            lines += try reader.read(Array(file[place..<end])).count
            place = end
        }
        lines += try reader.finish().count
        guard reader.takeRefused().isEmpty else { throw VendorFault("Records were refused.") }
        return lines
    }

    private static func bytes(of path: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: URL(fileURLWithPath: path)))
    }
}
