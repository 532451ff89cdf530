/// A log of lines in files that only grow. The log stays readable after a crash at any byte.
///
/// A line consists of a checksum in eight digits, a space, JSON, and a line feed:
///
///     1c291ca3 ["a",17]\n
///
/// A line with a wrong checksum is skipped. A crash leaves a last line without its end. This line counts if only the line
/// feed is missing; any other bad line goes to a file of its own, and is reported. The log consists of several files,
/// `<name>-000001.log` and so on. The first line of each file is a complete state, so an older file is needed only for its
/// own letters.
package final class Journal {
    /// The place of a line.
    package struct Place: Hashable, Sendable {
        package let segment: Int
        package let offset: Int
        package let count: Int
    }

    /// The log begins a new file when a file has this size.
    package static let segmentBytes = 256 << 10

    private let files: any FileStore
    private let name: String
    /// The number and the size of the file that the log appends to.
    private(set) package var segment = 0
    private(set) package var size = 0
    /// Bytes that end a possibly incomplete last line, so that later bytes cannot complete it.
    private var mend: [UInt8] = []
    /// The numbers of the existing files.
    private(set) package var segments: [Int] = []

    package init(_ name: String, in files: any FileStore) {
        (self.name, self.files) = (name, files)
    }

    private func fileName(_ segment: Int) -> String {
        let digits = String(segment)
        return "\(name)-" + String(repeating: "0", count: max(0, 6 - digits.count)) + digits + ".log"
    }

    package var currentFile: String { fileName(segment) }

    // MARK: - Reading

    /// Reads all lines, the oldest first. Answers the names of the files that got bad lines.
    /// - Parameter body: gets the JSON of a line, and answers whether it can be read.
    package func replay(_ body: (ArraySlice<UInt8>, Place) -> Bool) throws(FileFault) -> [String] {
        segments = try files.names().compactMap(number).sorted()
        var setAside: [String] = []
        for number in segments {
            let bytes = try files.read(fileName(number))
            let bad = replay(bytes, number, isLast: number == segments.last, body)
            if bad.isEmpty { continue }
            let other = "\(fileName(number))\(Journal.bad)"
            // Each start finds the same bad lines again, as long as the log needs their file.
            if (try? files.read(other)) == bad { continue }
            // A lack of room for bad lines must not stop the start.
            try? files.remove(other)
            try? files.append(bad, to: other)
            setAside.append(other)
        }
        segment = segments.last ?? 0
        return setAside
    }

    /// The ending of file names for bad lines.
    private static let bad = ".bad"

    /// The number of a file of this log; nil for other files.
    private func number(_ file: String) -> Int? {
        guard file.hasPrefix("\(name)-"), file.hasSuffix(".log"),
            let number = Int(file.dropFirst(name.count + 1).dropLast(4)), (1..<1_000_000_000).contains(number)
        else { return nil }
        return fileName(number) == file ? number : nil
    }

    /// Answers the unreadable lines.
    private func replay(
        _ bytes: [UInt8], _ segment: Int, isLast: Bool, _ body: (ArraySlice<UInt8>, Place) -> Bool
    ) -> [UInt8] {
        var bad: [UInt8] = []
        var start = 0
        while start < bytes.count {
            let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.count
            mend = []
            let place = Place(segment: segment, offset: start, count: end - start)
            if let text = Journal.text(bytes[start..<end]), body(text, place) {
                if end == bytes.count { mend = [0x0A] }
            } else if end == bytes.count {
                mend = Journal.spoil
            } else if end > start, bytes[end - 1] != Journal.spoil[0] {
                bad += bytes[start...end]
            }
            start = end + 1
        }
        if isLast { size = bytes.count }
        return bad
    }

    /// Ends a bad line.
    private static let spoil: [UInt8] = [UInt8(ascii: "#"), 0x0A]

    /// Reads lines again; nil for a line that is lost: it has changed, or its file does not exist any more. Neighboring lines are read
    /// together.
    package func read(_ places: [Place]) throws(FileFault) -> [JSON?] {
        var values: [JSON?] = []
        var run: [Place] = []
        for place in places {
            if let last = run.last, last.segment != place.segment || place.offset < last.offset {
                values += try read(run: run)
                run = []
            }
            run.append(place)
        }
        return values + (try read(run: run))
    }

    private func read(run: [Place]) throws(FileFault) -> [JSON?] {
        guard let first = run.first, let last = run.last else { return [] }
        let count = last.offset + last.count - first.offset
        let file = fileName(first.segment)
        var bytes: [UInt8] = []
        do throws(FileFault) {
            bytes = try files.read(file, from: first.offset, count: count)
        } catch {
            // A file that is there can be read later.
            if try files.names().contains(file) { throw error }
        }
        return run.map { place in
            let start = place.offset - first.offset
            return start + place.count <= bytes.count ? Journal.value(bytes[start..<start + place.count]) : nil
        }
    }

    private static func value(_ line: ArraySlice<UInt8>) -> JSON? { text(line).flatMap { JSON($0) } }

    /// The JSON of a line; nil for a line with a wrong sum.
    private static func text(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard line.count > 9 else { return nil }
        let text = line.dropFirst(9)
        guard line[line.startIndex + 8] == 0x20,
            let claimed = UInt32(String(decoding: line.prefix(8), as: UTF8.self), radix: 16), claimed == CRC32.sum(text)
        else { return nil }
        return text
    }

    // MARK: - Writing

    /// Adds a line.
    package func append(_ json: [UInt8]) throws(FileFault) -> Place {
        var line: [UInt8] = []
        line.reserveCapacity(json.count + 11)
        line += mend
        let start = line.count
        let sum = CRC32.sum(json)
        for shift in stride(from: 28, through: 0, by: -4) { line.append(hexadecimal(UInt8(sum >> shift & 15))) }
        line.append(0x20)
        line += json
        line.append(0x0A)
        do throws(FileFault) {
            try files.append(line, to: currentFile)
        } catch {
            mend = Journal.spoil
            // Only the file itself shows how much of the line is there.
            size = (try? files.read(currentFile).count) ?? size
            throw error
        }
        mend = []
        let place = Place(segment: segment, offset: size + start, count: line.count - start - 1)
        size += line.count
        return place
    }

    /// Whether the log needs a new file: the present file is large enough, or does not exist.
    package var isFull: Bool { size >= Journal.segmentBytes || segments.last != segment }

    /// Begins a new file with a state. Without room for the state, the log continues in the old file: a new file without a
    /// state would cause the removal of the older files, and of the state with them.
    package func begin(_ state: [UInt8]) throws(FileFault) {
        let old = (segment: segment, size: size, mend: mend)
        segment += 1
        (size, mend) = (0, [])
        do throws(FileFault) {
            _ = try append(state)
        } catch {
            try? files.remove(currentFile)
            (segment, size, mend) = old
            throw error
        }
        segments.append(segment)
    }

    /// Removes all files, also the files with bad lines.
    package func clear() throws(FileFault) {
        for number in segments { try files.remove(fileName(number)) }
        segments = []
        (size, mend) = (0, [])
        try forgetSetAside()
    }

    /// Removes the files with bad lines.
    package func forgetSetAside() throws(FileFault) {
        for file in try files.names() where file.hasSuffix(Journal.bad) && number(String(file.dropLast(4))) != nil {
            try files.remove(file)
        }
    }

    /// Files that no letter needs.
    package struct Garbage: Sendable {
        /// The file that has to be synced before the others are removed: it has the state.
        package let state: String
        package let names: [String]
    }

    /// Answers the files before a number, when no letter needs them. The log knows them no longer: if they are not removed, the next
    /// start finds them again.
    package func garbage(before needed: Int) -> Garbage? {
        let old = segments.filter { $0 < min(needed, segment) }
        segments.removeAll { $0 < min(needed, segment) }
        return old.isEmpty ? nil : Garbage(state: currentFile, names: old.map(fileName))
    }

    /// Removes the files before a number, when no letter needs them.
    package func forget(before needed: Int) throws(FileFault) {
        guard let garbage = garbage(before: needed) else { return }
        try files.sync(garbage.state)
        try remove(garbage)
    }

    package func remove(_ garbage: Garbage) throws(FileFault) {
        for name in garbage.names { try files.remove(name) }
    }

    package func sync() throws(FileFault) { try files.sync(currentFile) }
}
