import ByteText

/// Makes HTML of the Markdown of the documentation: headings, paragraphs, lists, tables, blocks of code, links, pictures, emphasis.
///
/// The pages use no other parts of Markdown. HTML in a page is shown as text, so no page brings a script along.
struct Markdown {
    /// A heading, and the text below it up to the next heading.
    struct Section: Equatable {
        let level: Int
        let title: String
        /// The name of the place in the page.
        let anchor: String
        var text = ""
    }

    private(set) var html: [UInt8] = []
    private(set) var sections: [Section] = []
    private var anchors: [String: Int] = [:]
    /// Answers the address of a link for the site; nil for a link that the site cannot follow.
    private let address: (String) -> String?

    init(_ text: String, address: @escaping (String) -> String?) {
        self.address = address
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("<!--") }
        write(blocks: lines[...])
    }

    // MARK: - Blocks

    private mutating func write(blocks lines: ArraySlice<Substring>) {
        var rest = lines
        while let line = rest.first {
            if line.allSatisfy({ $0 == " " }) {
                rest.removeFirst()
            } else if line.hasPrefix("```") {
                writeCode(&rest)
            } else if line.hasPrefix("#") {
                writeHeading(rest.removeFirst())
            } else if line.hasPrefix("|") {
                writeTable(&rest)
            } else if Markdown.marker(line) != nil {
                writeList(&rest)
            } else {
                writeParagraph(&rest)
            }
        }
    }

    private mutating func writeCode(_ rest: inout ArraySlice<Substring>) {
        rest.removeFirst()
        html.append(text: #"<pre tabindex="0"><code>"#)
        while let line = rest.popFirst(), !line.hasPrefix("```") {
            html.append(escaped: line.utf8)
            html.append(text: "\n")
            note(line.utf8)
        }
        html.append(text: "</code></pre>\n")
    }

    private mutating func writeHeading(_ line: Substring) {
        let level = line.prefix { $0 == "#" }.count
        let title = line.dropFirst(level).drop { $0 == " " }
        let plain = Markdown.plain(title)
        var anchor = String(
            plain.lowercased().unicodeScalars.compactMap { scalar -> Character? in
                if scalar == " " { return "-" }
                let isPart = scalar.properties.isAlphabetic || scalar.properties.numericType != nil
                return isPart || scalar == "-" || scalar == "_" ? Character(scalar) : nil
            })
        let times = anchors[anchor, default: 0]
        anchors[anchor] = times + 1
        if times > 0 { anchor += "-\(times)" }
        sections.append(Section(level: level, title: plain, anchor: anchor))
        html.append(text: "<h\(level) id=\"")
        html.append(escaped: anchor.utf8)
        html.append(text: "\">")
        write(inline: title)
        html.append(text: "</h\(level)>\n")
    }

    private mutating func writeTable(_ rest: inout ArraySlice<Substring>) {
        html.append(text: "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\n")
        var isHead = true
        while let line = rest.first, line.hasPrefix("|") {
            rest.removeFirst()
            let cells = Markdown.cells(line)
            if cells.allSatisfy({ !$0.isEmpty && $0.allSatisfy { $0 == "-" || $0 == ":" } }) { continue }
            html.append(text: "<tr>")
            for cell in cells {
                html.append(text: isHead ? "<th scope=\"col\">" : "<td>")
                write(inline: cell)
                html.append(text: isHead ? "</th>" : "</td>")
            }
            html.append(text: "</tr>\n")
            isHead = false
        }
        html.append(text: "</table></div>\n")
    }

    /// The cells of a row. `\|` is a bar inside a cell.
    private static func cells(_ line: Substring) -> [Substring] {
        var cells: [Substring] = []
        var (start, place) = (line.index(after: line.startIndex), line.index(after: line.startIndex))
        var isEscaped = false
        while place < line.endIndex {
            if line[place] == "|", !isEscaped {
                cells.append(line[start..<place])
                start = line.index(after: place)
            }
            isEscaped = line[place] == "\\" && !isEscaped
            place = line.index(after: place)
        }
        return cells.map { cell in
            let cell = cell.drop { $0 == " " }
            let end = cell.lastIndex { $0 != " " }.map { cell.index(after: $0) } ?? cell.startIndex
            return cell[..<end].contains("\\|") ? Substring(cell[..<end].replacing("\\|", with: "|")) : cell[..<end]
        }
    }

    /// The marker of an item of a list: `-` or a number, and the width of the marker with its spaces.
    private static func marker(_ line: Substring) -> (isNumbered: Bool, width: Int)? {
        if line.hasPrefix("- ") { return (false, 2) }
        let digits = line.prefix { $0.isASCII && $0.isNumber }.count
        guard (1...3).contains(digits), line.dropFirst(digits).hasPrefix(". ") else { return nil }
        return (true, digits + 2)
    }

    private mutating func writeList(_ rest: inout ArraySlice<Substring>) {
        guard let first = rest.first, let kind = Markdown.marker(first)?.isNumbered else { return }
        html.append(text: kind ? "<ol>\n" : "<ul>\n")
        while let line = rest.first, let marker = Markdown.marker(line), marker.isNumbered == kind {
            rest.removeFirst()
            var item = [line.dropFirst(marker.width)]
            let indent = String(repeating: " ", count: marker.width)
            while let next = rest.first {
                if next.hasPrefix(indent) {
                    item.append(next.dropFirst(marker.width))
                } else if next.isEmpty, rest.dropFirst().first?.hasPrefix(indent) == true {
                    item.append("")
                } else {
                    break
                }
                rest.removeFirst()
            }
            html.append(text: "<li>")
            write(item: item)
            html.append(text: "</li>\n")
            // An empty line between two items.
            if rest.first?.isEmpty == true, let next = rest.dropFirst().first, Markdown.marker(next)?.isNumbered == kind
            {
                rest.removeFirst()
            }
        }
        html.append(text: kind ? "</ol>\n" : "</ul>\n")
    }

    /// The first lines of an item are text without a paragraph of their own.
    private mutating func write(item lines: [Substring]) {
        let end = lines.dropFirst().firstIndex { $0.isEmpty || $0.hasPrefix("```") || Markdown.marker($0) != nil }
        write(inline: Substring(lines[..<(end ?? lines.count)].joined(separator: "\n")))
        if let end { write(blocks: lines[end...]) }
    }

    private mutating func writeParagraph(_ rest: inout ArraySlice<Substring>) {
        var lines: [Substring] = []
        while let line = rest.first, !line.isEmpty, !line.hasPrefix("```"), !line.hasPrefix("|"), !line.hasPrefix("#"),
            lines.isEmpty || Markdown.marker(line) == nil
        {
            lines.append(line)
            rest.removeFirst()
        }
        html.append(text: "<p>")
        write(inline: Substring(lines.joined(separator: "\n")))
        html.append(text: "</p>\n")
    }

    // MARK: - Text

    /// Adds text to the section, for the index of the search.
    private mutating func note(_ text: some Sequence<UInt8>) {
        guard !sections.isEmpty else { return }
        sections[sections.count - 1].text += String(decoding: Array(text), as: UTF8.self) + " "
    }

    private mutating func write(inline text: Substring) {
        note(Markdown.plain(text).utf8)
        write(Array(text.utf8)[...])
    }

    private mutating func write(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while let byte = rest.first {
            switch byte {
            case UInt8(ascii: "`"):
                guard let (inner, after) = Markdown.code(rest) else { break }
                html.append(text: "<code>")
                html.append(escaped: inner)
                html.append(text: "</code>")
                rest = after
                continue
            case UInt8(ascii: "!") where rest.dropFirst().first == UInt8(ascii: "["):
                guard let link = Markdown.link(rest.dropFirst()) else { break }
                html.append(text: "<img src=\"")
                html.append(escaped: (address(link.target) ?? link.target).utf8)
                html.append(text: "\" alt=\"")
                html.append(escaped: link.label)
                html.append(text: "\">")
                rest = link.after
                continue
            case UInt8(ascii: "["):
                guard let link = Markdown.link(rest) else { break }
                if let address = address(link.target) {
                    html.append(text: "<a href=\"")
                    html.append(escaped: address.utf8)
                    html.append(text: "\">")
                    write(link.label)
                    html.append(text: "</a>")
                } else {
                    write(link.label)
                }
                rest = link.after
                continue
            case UInt8(ascii: "<"):
                // An address in angle brackets.
                guard let end = rest.firstIndex(of: UInt8(ascii: ">")), rest.dropFirst().starts(with: "https://".utf8)
                else { break }
                let inner = rest[rest.index(after: rest.startIndex)..<end]
                html.append(text: "<a href=\"")
                html.append(escaped: inner)
                html.append(text: "\">")
                html.append(escaped: inner)
                html.append(text: "</a>")
                rest = rest[rest.index(after: end)...]
                continue
            case UInt8(ascii: "*"):
                guard let (mark, inner, after) = Markdown.emphasis(rest) else { break }
                html.append(text: mark == 2 ? "<strong>" : "<em>")
                write(inner)
                html.append(text: mark == 2 ? "</strong>" : "</em>")
                rest = after
                continue
            default: break
            }
            html.append(escaped: CollectionOfOne(byte))
            rest = rest.dropFirst()
        }
    }

    /// Code between runs of equally many backticks.
    private static func code(_ bytes: ArraySlice<UInt8>) -> (inner: ArraySlice<UInt8>, after: ArraySlice<UInt8>)? {
        let tick = UInt8(ascii: "`")
        let ticks = bytes.prefix { $0 == tick }.count
        var place = bytes.startIndex + ticks
        while let start = bytes[place...].firstIndex(of: tick) {
            let end = bytes[start...].firstIndex { $0 != tick } ?? bytes.endIndex
            if end - start == ticks { return (bytes[(bytes.startIndex + ticks)..<start], bytes[end...]) }
            place = end
        }
        return nil
    }

    private struct Link {
        let label: ArraySlice<UInt8>
        let target: String
        let after: ArraySlice<UInt8>
    }

    /// `[label](target)`. Brackets inside the label count, and code hides them.
    private static func link(_ bytes: ArraySlice<UInt8>) -> Link? {
        var (depth, place) = (0, bytes.startIndex)
        while place < bytes.endIndex {
            switch bytes[place] {
            case UInt8(ascii: "`"):
                guard let (_, after) = code(bytes[place...]) else { return nil }
                place = after.startIndex
                continue
            case UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            default: break
            }
            if depth == 0 { break }
            place += 1
        }
        guard place < bytes.endIndex, bytes[(place + 1)...].first == UInt8(ascii: "("),
            let end = bytes[place...].firstIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let target = String(decoding: bytes[(place + 2)..<end], as: UTF8.self)
        guard !target.contains(where: \.isWhitespace) else { return nil }
        return Link(label: bytes[(bytes.startIndex + 1)..<place], target: target, after: bytes[(end + 1)...])
    }

    /// Text between one or two stars. A star with a space behind it is a star.
    private static func emphasis(
        _ bytes: ArraySlice<UInt8>
    ) -> (mark: Int, inner: ArraySlice<UInt8>, after: ArraySlice<UInt8>)? {
        let star = UInt8(ascii: "*")
        let mark = min(2, bytes.prefix { $0 == star }.count)
        let start = bytes.startIndex + mark
        guard start < bytes.endIndex, bytes[start] != UInt8(ascii: " "), bytes[start] != star else { return nil }
        var place = start
        while place < bytes.endIndex {
            if bytes[place] == UInt8(ascii: "`"), let (_, after) = code(bytes[place...]) {
                place = after.startIndex
                continue
            }
            let run = bytes[place...].prefix { $0 == star }.count
            if run == mark { return (mark, bytes[start..<place], bytes[(place + mark)...]) }
            place += max(1, run)
        }
        return nil
    }

    /// The text without marks, for anchors and for the index of the search.
    static func plain(_ text: Substring) -> String {
        var (plain, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.first {
            if byte == UInt8(ascii: "`"), let (inner, after) = code(rest) {
                plain += inner
                rest = after
            } else if byte == UInt8(ascii: "["), let link = link(rest) {
                plain += Markdown.plain(Substring(decoding: link.label, as: UTF8.self)).utf8
                rest = link.after
            } else if byte == UInt8(ascii: "*"), let (_, inner, after) = emphasis(rest) {
                plain += Markdown.plain(Substring(decoding: inner, as: UTF8.self)).utf8
                rest = after
            } else {
                plain.append(byte)
                rest = rest.dropFirst()
            }
        }
        return String(decoding: plain, as: UTF8.self)
    }
}

extension [UInt8] {
    mutating func append(text: String) { append(contentsOf: text.utf8) }

    /// Adds text in which no byte is a part of HTML.
    mutating func append(escaped text: some Sequence<UInt8>) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "<"): append(text: "&lt;")
            case UInt8(ascii: ">"): append(text: "&gt;")
            case UInt8(ascii: "&"): append(text: "&amp;")
            case UInt8(ascii: "\""): append(text: "&quot;")
            default: append(byte)
            }
        }
    }
}
