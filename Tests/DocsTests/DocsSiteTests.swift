import BrowserFiles
import Docs
import Foundation
import TestKit
import Testing

@Suite("The site of the documentation")
struct DocsSiteTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().standardizedFileURL
    private static let site = DocsSite()

    private func text(_ name: String) throws -> String {
        String(
            decoding: try #require(DocsSiteTests.site.files.first { $0.name == name }, "\(name)").bytes, as: UTF8.self)
    }

    /// The HTML of the main part of a page with some Markdown.
    private func main(_ markdown: String) throws -> String {
        let site = DocsSite([("a.md", Array(markdown.utf8)), ("b.md", Array("# B\n".utf8))])
        let page = String(decoding: try #require(site.files.first { $0.name == "a.html" }).bytes, as: UTF8.self)
        let start = try #require(page.range(of: "<main id=\"main\">\n")).upperBound
        return String(page[start..<(try #require(page.range(of: "</main>")).lowerBound)])
    }

    @Test("The program has every page of docs, byte for byte, and every page is in one group")
    func embedded() throws {
        let folder = DocsSiteTests.root.appending(path: "docs")
        var contents: [String: [UInt8]] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path())
        where path.hasSuffix(".md") || path.hasSuffix(".png") {
            contents[path] = Array(try Data(contentsOf: folder.appending(path: path)))
        }
        for path in ["style.css", "search.js"] {
            contents[path] = Array(
                try Data(contentsOf: DocsSiteTests.root.appending(path: "Sources/CFiles/docs/\(path)")))
        }
        let embedded = Dictionary(uniqueKeysWithValues: EmbeddedFiles.files(of: "docs").map { ($0.name, $0.bytes) })
        #expect(Set(embedded.keys) == Set(contents.keys), "run Tools/docs-list")
        #expect(embedded == contents)
        let pages = contents.keys.filter { $0.hasSuffix(".md") && !$0.contains("/") }.map { String($0.dropLast(3)) }
        let listed = DocsSite.groups.flatMap(\.pages)
        #expect(Set(listed) == Set(pages) && listed.count == pages.count, "add the page to a group of the site")
    }

    @Test("Every link leads to a page, and to a place of that page")
    func links() throws {
        var places: [String: Set<String>] = [:]
        for file in DocsSiteTests.site.files {
            let html = String(decoding: file.bytes, as: UTF8.self)
            places[file.name] = Set(html.matches(of: #/ id="([^"]*)"/#).map { String($0.1) })
        }
        var count = 0
        for file in DocsSiteTests.site.files where file.name.hasSuffix(".html") && file.name != "missing.html" {
            let folder = file.name.split(separator: "/").dropLast().map(String.init)
            for match in String(decoding: file.bytes, as: UTF8.self).matches(of: #/(?:href|src)="([^"]*)"/#) {
                let link = String(match.1)
                if link.hasPrefix("https://") || link == "/openapi.json" { continue }
                let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                var path = folder
                for part in parts[0].split(separator: "/") {
                    if part == ".." { path.removeLast() } else { path.append(String(part)) }
                }
                let name = parts[0].isEmpty ? file.name : path.joined(separator: "/")
                let known = places[name]
                #expect(known != nil, "\(file.name) links to \(link)")
                if parts.count > 1 { #expect(known?.contains(parts[1]) == true, "\(file.name) links to \(link)") }
                count += 1
            }
        }
        #expect(count > 500)
    }

    @Test("A page has no script or style of its own, and nothing of another server")
    func policy() throws {
        for file in DocsSiteTests.site.files where file.name.hasSuffix(".html") {
            let html = String(decoding: file.bytes, as: UTF8.self)
            #expect(html.matches(of: #/<script/#).count == 1 && html.matches(of: #/<link/#).count == 1, "\(file.name)")
            #expect(!html.contains(" style=") && !html.contains(" onclick") && !html.contains("javascript:"))
            #expect(html.matches(of: #/src="https?:/#).isEmpty, "\(file.name)")
            #expect(html.matches(of: #/<h1/#).count == 1, "\(file.name) has one heading of the first level")
        }
        let script = try text("search.js")
        #expect(!script.contains("innerHTML") && !script.contains("http"))
    }

    @Test("The index of the search has each section with its words")
    func search() throws {
        let index = try #require(
            try JSONSerialization.jsonObject(with: Data(try text("search.json").utf8)) as? [String: Any])
        let sections = try #require(index["sections"] as? [[String: String]])
        let words = try #require(index["words"] as? [String: [Int]])
        let found = try #require(words["doctor"]).map { sections[$0]["address"] ?? "" }
        #expect(found.contains { $0.hasPrefix("operating.html#") }, "\(found)")
        #expect(words.values.joined().allSatisfy(sections.indices.contains))
        #expect(sections.allSatisfy { $0["title"] != "" && $0["page"] != "" })
    }

    @Test(
        "Markdown becomes HTML",
        arguments: [
            ("# Title", "<h1 id=\"title\">Title</h1>\n"),
            (
                "## A `b`: c, d?\n## A b c d",
                "<h2 id=\"a-b-c-d\">A <code>b</code>: c, d?</h2>\n<h2 id=\"a-b-c-d-1\">A b c d</h2>\n"
            ),
            ("one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>\n"),
            (
                "**bold** and *soft* 2 * 3 `a*b*`",
                "<p><strong>bold</strong> and <em>soft</em> 2 * 3 <code>a*b*</code></p>\n"
            ),
            ("<script>&\"", "<p>&lt;script&gt;&amp;&quot;</p>\n"),
            (
                "[B](b.md#b), [x](../Sources/x.swift), [o](openapi.json)",
                "<p><a href=\"b.html#b\">B</a>, x, <a href=\"/openapi.json\">o</a></p>\n"
            ),
            ("[bad](javascript:alert(1))", "<p>bad)</p>\n"),
            (
                "[e](https://example.com/a_b) <https://example.com>",
                "<p><a href=\"https://example.com/a_b\">e</a> <a href=\"https://example.com\">https://example.com</a></p>\n"
            ),
            ("![A *b*](b.png)", "<p><img src=\"b.png\" alt=\"A *b*\"></p>\n"),
            ("```sh\na <b\n\n# c\n```\nd", "<pre tabindex=\"0\"><code>a &lt;b\n\n# c\n</code></pre>\n<p>d</p>\n"),
            (
                "- a\n  b\n- c\n\n  ```\n  d\n  ```\n\ne",
                "<ul>\n<li>a\nb</li>\n<li>c<pre tabindex=\"0\"><code>d\n</code></pre>\n</li>\n</ul>\n<p>e</p>\n"
            ),
            ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"),
            (
                "| a | b |\n|---|---|\n| `c\\|d` | [B](b.md) |",
                "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\n<tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr>\n<tr><td><code>c|d</code></td><td><a href=\"b.html\">B</a></td></tr>\n</table></div>\n"
            ),
            ("a ` b * c [d", "<p>a ` b * c [d</p>\n"), ("<!-- note -->\nx", "<p>x</p>\n"), ("", ""),
        ])
    func markdown(_ source: String, _ html: String) throws {
        #expect(try main(source) == html)
    }

    @Test("Any bytes become a page that closes what it opens", arguments: 0..<50)
    func hostile(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let parts = [
            "`", "``", "```\n", "*", "**", "[", "](", ")", "|", "\n", "\n\n", "- ", "1. ", "#", " ", "<", "&", "é", "a",
            "![", "\\|",
        ]
        let text = (0..<200).map { _ in parts[Int.random(in: parts.indices, using: &generator)] }.joined()
        let html = try main(text)
        for tag in ["p", "ul", "ol", "li", "code", "pre", "table", "tr", "td", "strong", "em", "a"] {
            let opened = html.components(separatedBy: "<\(tag)>").count + html.components(separatedBy: "<\(tag) ").count
            #expect(opened - 1 == html.components(separatedBy: "</\(tag)>").count, "\(tag) in \(html) of \(text)")
        }
        #expect(!html.contains("<script"))
    }
}
