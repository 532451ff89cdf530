/// A log of lines in files that are only ever added to, which a crash at any byte leaves readable.
///
/// A line is the sum of what follows in eight digits, a space, JSON, and a line feed:
///
///     1c291ca3 ["a",17]\n
///
/// What does not fit its sum is skipped. A last line without its end is what a crash leaves, and counts if nothing but the
/// line feed is missing; any other is set aside in a file of its own, and reported. The log goes over several files,
/// `<name>-000001.log` and on; the first line of each is a whole state, so that an older file is needed only for what it alone
/// has.
package final class Journal {
    /// Where a line is.
    package struct Place: Hashable, Sendable {
        package let segment: Int
        package let offset: Int
        package let count: Int
    }

    /// A file of this size is followed by another.
    package static let segmentBytes = 256 << 10

    private let files: any FileStore
    private let name: String
    /// The number of the file that is added to, and its size.
    private(set) package var segment = 0
    private(set) package var size = 0
    /// What ends the last line, which may be a part of one: that must not become whole by what follows.
    private var mend: [UInt8] = []
    /// The numbers of the files that there are.
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

    /// Reads all lines, the oldest first. Answers the names of files in which something was set aside.
    package func replay(_ body: (JSON, Place) -> Void) throws(FileFault) -> [String] {
        segments = try files.names().compactMap(number).sorted()
        var setAside: [String] = []
        for number in segments {
            let bytes = try files.read(fileName(number))
            let bad = replay(bytes, number, isLast: number == segments.last, body)
            if bad.isEmpty { continue }
            let other = "\(fileName(number))\(Journal.bad)"
            // The same lines are found at every start, as long as their file is needed.
            if (try? files.read(other)) == bad { continue }
            // That there is no room for them is no reason not to start.
            try? files.remove(other)
            try? files.append(bad, to: other)
            setAside.append(other)
        }
        segment = segments.last ?? 0
        return setAside
    }

    /// What ends the names of files with lines that could not be read.
    private static let bad = ".bad"

    /// The number of a file of this log; nil for what somebody else has put there.
    private func number(_ file: String) -> Int? {
        guard file.hasPrefix("\(name)-"), file.hasSuffix(".log"),
            let number = Int(file.dropFirst(name.count + 1).dropLast(4)), (1..<1_000_000_000).contains(number)
        else { return nil }
        return fileName(number) == file ? number : nil
    }

    /// Answers the lines that could not be read.
    private func replay(_ bytes: [UInt8], _ segment: Int, isLast: Bool, _ body: (JSON, Place) -> Void) -> [UInt8] {
        var bad: [UInt8] = []
        var start = 0
        while start < bytes.count {
            let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.count
            mend = []
            if let value = Journal.value(bytes[start..<end]) {
                body(value, Place(segment: segment, offset: start, count: end - start))
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

    /// Ends a line that is none.
    private static let spoil: [UInt8] = [UInt8(ascii: "#"), 0x0A]

    /// Reads lines anew; nil for one that is not what it was. Lines that follow each other are read at once.
    package func read(_ places: [Place]) -> [JSON?] {
        var values: [JSON?] = []
        var run: [Place] = []
        for place in places {
            if let last = run.last, last.segment != place.segment || place.offset < last.offset {
                values += read(run: run)
                run = []
            }
            run.append(place)
        }
        return values + read(run: run)
    }

    private func read(run: [Place]) -> [JSON?] {
        guard let first = run.first, let last = run.last else { return [] }
        let count = last.offset + last.count - first.offset
        let bytes = (try? files.read(fileName(first.segment), from: first.offset, count: count)) ?? []
        return run.map { place in
            let start = place.offset - first.offset
            return start + place.count <= bytes.count ? Journal.value(bytes[start..<start + place.count]) : nil
        }
    }

    private static func value(_ line: ArraySlice<UInt8>) -> JSON? {
        guard line.count > 9 else { return nil }
        let text = line.dropFirst(9)
        guard line[line.startIndex + 8] == 0x20,
            let claimed = UInt32(String(decoding: line.prefix(8), as: UTF8.self), radix: 16), claimed == CRC32.sum(text)
        else { return nil }
        return JSON(text)
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
            // How much of it is there nobody knows but the file.
            size = (try? files.read(currentFile).count) ?? size
            throw error
        }
        mend = []
        let place = Place(segment: segment, offset: size + start, count: line.count - start - 1)
        size += line.count
        return place
    }

    /// Whether another file has to follow: this one is large enough, or there is none.
    package var isFull: Bool { size >= Journal.segmentBytes || segments.last != segment }

    /// Goes on in a new file, which begins with a state. If there is no room for that, it goes on where it was: a file without
    /// a state would have those before it removed, and the state with them.
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

    /// Removes all there is, also what was set aside.
    package func clear() throws(FileFault) {
        for number in segments { try files.remove(fileName(number)) }
        segments = []
        (size, mend) = (0, [])
        try forgetSetAside()
    }

    /// Removes what was set aside.
    package func forgetSetAside() throws(FileFault) {
        for file in try files.names() where file.hasSuffix(Journal.bad) && number(String(file.dropLast(4))) != nil {
            try files.remove(file)
        }
    }

    /// Removes the files before one, which nobody needs any more. What the file after them begins with must be safe first.
    package func forget(before needed: Int) throws(FileFault) {
        let old = segments.filter { $0 < min(needed, segment) }
        if old.isEmpty { return }
        try files.sync(currentFile)
        for number in old { try files.remove(fileName(number)) }
        segments.removeAll { $0 < min(needed, segment) }
    }

    package func sync() throws(FileFault) { try files.sync(currentFile) }
}
