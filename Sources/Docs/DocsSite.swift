import BrowserFiles
import ByteText

/// The documentation as a small site: a page for each file of `docs`, an index for the search, a style and a script. The program has
/// the Markdown and makes the site of it, so the pages are always those of the program's own version.
package struct DocsSite: Sendable {
    /// A file of the site.
    package struct File: Equatable, Sendable {
        /// The path below the folder of the site, such as `decisions/0001-decide-in-the-index.html`.
        package let name: String
        package let bytes: [UInt8]
    }

    /// The pages by what a reader wants, in the order of the list. Each file of `docs` is in one group; a test compares them.
    package static let groups: [(title: String, pages: [String])] = [
        ("Begin", ["install", "concepts", "console", "support-cookbook"]),
        (
            "Move your app",
            ["idsync", "claim", "entitlements", "linking", "sdk", "moving-in", "from-csv", "moving-out"]
        ),
        ("Use", ["native", "rules", "undo", "stores", "beside"]),
        ("Operate", ["operating", "scaling", "benchmarks", "threat-model"]),
        ("Understand", ["architecture"]),
    ]
    /// The page that lists all others.
    package static let index = "index.html"

    package let files: [File]

    package init() { self.init(EmbeddedFiles.files(of: "docs")) }

    /// Makes the site of some files.
    package init(_ sources: [(name: String, bytes: [UInt8])]) {
        let markdown = sources.filter { $0.name.hasSuffix(".md") }
        let names = Set(sources.map(\.name))
        var pages = markdown.map { Page($0.name, String(decoding: $0.bytes, as: UTF8.self), among: names) }
        pages.sort { DocsSite.place($0.name) < DocsSite.place($1.name) }
        let titles = Dictionary(uniqueKeysWithValues: pages.map { ($0.name, $0.title) })
        files =
            pages.map { File(name: $0.address, bytes: $0.html(titles)) }
            + [
                File(name: DocsSite.index, bytes: DocsSite.list(pages, titles)),
                File(name: "missing.html", bytes: DocsSite.missing(titles)),
                File(name: "search.json", bytes: DocsSite.searchIndex(pages)),
            ] + sources.filter { !$0.name.hasSuffix(".md") }.map { File(name: $0.name, bytes: $0.bytes) }
    }

    /// The place of a page among all pages: by its group, and decisions last.
    private static func place(_ name: String) -> String {
        let all = groups.flatMap(\.pages).map { "\($0).md" }
        guard let place = all.firstIndex(of: name) else { return "9\(name)" }
        return "1" + String(repeating: "0", count: 3 - String(place).count) + String(place)
    }

    // MARK: - Pages

    /// A page of the documentation.
    private struct Page {
        let name: String
        let markdown: Markdown

        init(_ name: String, _ text: String, among names: Set<String>) {
            self.name = name
            let folder = name.split(separator: "/").dropLast()
            markdown = Markdown(text) { DocsSite.address($0, in: folder.map(String.init), names) }
        }

        var address: String { DocsSite.address(of: name) }
        var title: String { markdown.sections.first?.title ?? name }
        /// The way from the page's folder to the folder of the site.
        var root: String { name.contains("/") ? "../" : "" }

        func html(_ titles: [String: String]) -> [UInt8] {
            DocsSite.frame(title, current: name, root: root, titles, markdown.html)
        }
    }

    private static func address(of name: String) -> String {
        if name == "decisions/README.md" { return "decisions/index.html" }
        return name.hasSuffix(".md") ? name.dropLast(3) + ".html" : name
    }

    /// The address of a link in a page for the site; nil for a file that the site does not have.
    private static func address(_ target: String, in folder: [String], _ names: Set<String>) -> String? {
        if target.hasPrefix("https://") || target.hasPrefix("#") { return target }
        let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        var path = folder
        for part in parts[0].split(separator: "/") {
            switch part {
            case ".": break
            case "..":
                guard !path.isEmpty else { return nil }
                path.removeLast()
            default: path.append(String(part))
            }
        }
        let name = path.joined(separator: "/")
        // The server has its own description at its root.
        if name == "openapi.json" { return "/openapi.json" }
        let file = names.contains(name) ? name : name == "decisions" ? "decisions/README.md" : nil
        guard let file else { return nil }
        let anchor = parts.count > 1 ? "#\(parts[1])" : ""
        return String(repeating: "../", count: folder.count) + address(of: file) + anchor
    }

    /// A page with its head, the search and the list of pages.
    private static func frame(
        _ title: String, current: String?, root: String, _ titles: [String: String], _ content: [UInt8]
    ) -> [UInt8] {
        var html: [UInt8] = []
        html.append(text: "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        html.append(text: "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>")
        html.append(escaped: title.utf8)
        html.append(text: title == "Onym" ? "</title>\n" : " · Onym</title>\n")
        html.append(text: "<link rel=\"stylesheet\" href=\"\(root)style.css\">\n")
        html.append(text: "<script src=\"\(root)search.js\" defer></script>\n</head>\n<body>\n")
        html.append(
            text: "<a class=\"skip\" href=\"#main\">Skip to the page</a>\n<header><a href=\"\(root)\(index)\">Onym</a>")
        html.append(text: "<div role=\"search\"><label for=\"q\">Search</label>")
        html.append(text: "<input id=\"q\" type=\"search\" autocomplete=\"off\" aria-controls=\"found\"></div>")
        html.append(text: "<div id=\"found\" aria-live=\"polite\"></div></header>\n<div class=\"page\">\n")
        html.append(text: "<nav aria-label=\"Pages\">\n")
        for group in groups {
            html.append(text: "<h2>\(group.title)</h2>\n<ul>\n")
            for page in group.pages.map({ "\($0).md" }) {
                guard let title = titles[page] else { continue }
                html.append(text: "<li><a href=\"\(root)\(address(of: page))\"")
                if page == current { html.append(text: " aria-current=\"page\"") }
                html.append(text: ">")
                html.append(escaped: title.utf8)
                html.append(text: "</a></li>\n")
            }
            html.append(text: "</ul>\n")
        }
        html.append(
            text:
                "<ul><li><a href=\"\(root)decisions/index.html\">Decisions</a></li></ul>\n</nav>\n<main id=\"main\">\n")
        html += content
        html.append(text: "</main>\n</div>\n</body>\n</html>\n")
        return html
    }

    /// The first page: all pages with their first sentences.
    private static func list(_ pages: [Page], _ titles: [String: String]) -> [UInt8] {
        var html: [UInt8] = []
        html.append(
            text: "<h1>Onym</h1>\n<p>A self-hosted identity server: who is this, and what belongs to them?</p>\n")
        for group in groups {
            html.append(text: "<h2>\(group.title)</h2>\n<ul>\n")
            for name in group.pages {
                guard let page = pages.first(where: { $0.name == "\(name).md" }) else { continue }
                html.append(text: "<li><a href=\"\(page.address)\">")
                html.append(escaped: page.title.utf8)
                html.append(text: "</a>: ")
                html.append(escaped: firstSentence(of: page).utf8)
                html.append(text: "</li>\n")
            }
            html.append(text: "</ul>\n")
        }
        return frame("Onym", current: nil, root: "", titles, html)
    }

    private static func firstSentence(of page: Page) -> String {
        let text = (page.markdown.sections.first?.text ?? "").replacing("\n", with: " ")
            // The section's text begins with its title.
            .dropFirst(page.title.count).drop { $0 == " " }
        let end = text.firstRange(of: ". ")?.lowerBound ?? text.endIndex
        return text[..<end] + "."
    }

    private static func missing(_ titles: [String: String]) -> [UInt8] {
        var html: [UInt8] = []
        html.append(
            text: "<h1>There is no such page</h1>\n<p>The list beside this text, or above it, has all pages.</p>\n")
        // The address of the missing page may be in any folder.
        return frame("There is no such page", current: nil, root: "/docs/", titles, html)
    }

    // MARK: - The search

    private static let wordCharacters = 2...40

    /// The sections, and for each word the places of the sections that have it.
    private static func searchIndex(_ pages: [Page]) -> [UInt8] {
        var sections: [[UInt8]] = []
        var words: [String: [Int]] = [:]
        for page in pages {
            for section in page.markdown.sections {
                var entry: [UInt8] = []
                entry.append(text: "{\"address\":\"\(page.address)#")
                entry.append(contentsOf: json(section.anchor))
                entry.append(text: "\",\"page\":\"")
                entry.append(contentsOf: json(page.title))
                entry.append(text: "\",\"title\":\"")
                entry.append(contentsOf: json(section.title))
                entry.append(text: "\"}")
                for word in DocsSite.words(in: section.text) { words[word, default: []].append(sections.count) }
                sections.append(entry)
            }
        }
        var index: [UInt8] = []
        index.append(text: "{\"sections\":[")
        for (place, section) in sections.enumerated() {
            if place > 0 { index.append(text: ",\n") }
            index += section
        }
        index.append(text: "],\n\"words\":{")
        for (place, entry) in words.sorted(by: { $0.key < $1.key }).enumerated() {
            if place > 0 { index.append(text: ",\n") }
            index.append(text: "\"\(entry.key)\":[\(entry.value.map(String.init).joined(separator: ","))]")
        }
        index.append(text: "}}\n")
        return index
    }

    /// The words of a text, each once, in lower case. A word has letters, digits and underscores of ASCII, as the search has them.
    private static func words(in text: String) -> Set<String> {
        var words: Set<String> = []
        var word: [UInt8] = []
        func end() {
            if wordCharacters.contains(word.count) { words.insert(String(decoding: word, as: UTF8.self)) }
            word.removeAll(keepingCapacity: true)
        }
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                word.append(byte)
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): word.append(byte | 0x20)
            default: end()
            }
        }
        end()
        return words
    }

    private static func json(_ text: String) -> [UInt8] {
        var json: [UInt8] = []
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { json.append(UInt8(ascii: "\\")) }
            json.append(byte < 0x20 ? UInt8(ascii: " ") : byte)
        }
        return json
    }

    /// A hash over all names and bytes, which browsers compare.
    package var hash: String { EmbeddedFiles.hash(of: files.map { ($0.name, $0.bytes) }) }
}
