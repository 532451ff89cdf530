import ByteText

/// Cuts a file of JSON documents into records: one document per line, or documents over several lines, or one array of them.
final class JSONSplitter {
    struct Record {
        let bytes: [UInt8]
        /// The number of the record's first line.
        let line: Int
    }

    private enum Mode {
        /// The first line has not ended.
        case undecided
        case lines
        /// Documents over several lines. Brackets outside of every document are those of an array around them.
        case documents
    }

    private var buffer: [UInt8] = []
    private var start = 0
    private var scanned = 0
    private var hasEnded = false
    private var mode = Mode.undecided
    private var line = 1
    // The place of the search in a document.
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    private var documentLine = 1

    func append(_ chunk: [UInt8]) {
        if start > 0 {
            buffer.removeSubrange(..<start)
            scanned -= start
            start = 0
        }
        buffer += chunk
    }

    /// Tells that the last chunk has come.
    func end() { hasEnded = true }

    /// The next record; nil if its end has not come yet.
    func next() throws(RecordTooLong) -> Record? {
        if mode == .undecided { decide() }
        let record: Record?
        switch mode {
        case .undecided: record = nil
        case .lines: record = nextLine()
        case .documents: record = nextDocument()
        }
        if record == nil, buffer.count - start > VendorReader.longestRecord { throw RecordTooLong(line: line) }
        return record
    }

    /// A line that is balanced makes a file of lines; an array, or an object that goes on in the next line, does not.
    private func decide() {
        if buffer.starts(with: CSVTable.byteOrderMark), start == 0 { (start, scanned) = (3, 3) }
        var index = scanned
        while index < buffer.count, JSONSplitter.isSpace(buffer[index]) {
            if buffer[index] == UInt8(ascii: "\n") { line += 1 }
            index += 1
        }
        (start, scanned) = (index, index)
        guard index < buffer.count else { return }
        if buffer[index] == UInt8(ascii: "[") {
            mode = .documents
            return
        }
        let end = lineFeed(from: index)
        guard let end = end ?? (hasEnded ? buffer.count : nil) else { return }
        var (depth, isInString, isEscaped) = (0, false, false)
        for place in index..<end {
            JSONSplitter.step(buffer[place], &depth, &isInString, &isEscaped)
        }
        // A line with a string that does not end is damaged: no document has a newline in a string.
        mode = depth > 0 && !isInString ? .documents : .lines
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\n")
            || byte == UInt8(ascii: "\r")
    }

    private static func isBracket(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "[") || byte == UInt8(ascii: "]")
    }

    @inline(__always)
    private static func step(_ byte: UInt8, _ depth: inout Int, _ isInString: inout Bool, _ isEscaped: inout Bool) {
        if isInString {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString = false
            }
            return
        }
        switch byte {
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
        case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
        default: break
        }
    }

    private func lineFeed(from index: Int) -> Int? {
        let bytes = buffer
        return bytes.span.firstIndex(of: UInt8(ascii: "\n"), from: index)
    }

    private func nextLine() -> Record? {
        while true {
            let found = lineFeed(from: scanned)
            scanned = found ?? buffer.count
            guard let end = found ?? (hasEnded && start < buffer.count ? buffer.count : nil) else { return nil }
            let number = line
            let content = start..<end
            start = found.map { $0 + 1 } ?? buffer.count
            scanned = start
            line += 1
            if content.allSatisfy({ JSONSplitter.isSpace(buffer[$0]) }) { continue }
            return Record(bytes: Array(buffer[content]), line: number)
        }
    }

    private func nextDocument() -> Record? {
        var index = scanned
        while index < buffer.count {
            let byte = buffer[index]
            if byte == UInt8(ascii: "\n") { line += 1 }
            if depth == 0, !isInString {
                // Only an object is a document: brackets and commas here are those of the array around the documents.
                if byte == UInt8(ascii: "{") {
                    (start, depth, documentLine) = (index, 1, line)
                } else if JSONSplitter.isSpace(byte) || byte == UInt8(ascii: ",") || JSONSplitter.isBracket(byte) {
                    start = index + 1
                } else {
                    return damaged(from: index)
                }
                index += 1
                continue
            }
            JSONSplitter.step(byte, &depth, &isInString, &isEscaped)
            index += 1
            if depth == 0 {
                let record = Record(bytes: Array(buffer[start..<index]), line: documentLine)
                (start, scanned) = (index, index)
                return record
            }
        }
        scanned = index
        guard hasEnded, start < buffer.count else { return nil }
        // The file ends within a document.
        let record = Record(bytes: Array(buffer[start...]), line: documentLine)
        (start, scanned) = (buffer.count, buffer.count)
        (depth, isInString) = (0, false)
        return record
    }

    /// The bytes between two documents that belong to neither, up to the next document or the end of the line.
    private func damaged(from first: Int) -> Record? {
        let end = buffer[first...].firstIndex { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "\n") }
        scanned = first
        start = first
        guard let end = end ?? (hasEnded ? buffer.count : nil) else { return nil }
        (start, scanned) = (end, end)
        return Record(bytes: Array(buffer[first..<end]), line: line)
    }
}
