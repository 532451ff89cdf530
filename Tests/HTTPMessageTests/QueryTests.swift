import HTTPMessage
import Testing

@Suite("Percent-encoding")
struct QueryTests {
    private func decoded(_ text: String) -> String? { PercentCoding.decodedText(Array(text.utf8).span) }
    private func query(_ text: String) -> Query? { Query(Array(text.utf8).span) }

    @Test(
        "decodes text once",
        arguments: [
            ("plain", "plain"), ("a%20b", "a b"), ("%2F", "/"), ("%252F", "%2F"), ("%c3%A9", "é"), ("a+b", "a+b"),
            ("", ""),
        ])
    func decodes(_ encoded: String, _ expected: String) {
        #expect(decoded(encoded) == expected)
    }

    @Test(
        "refuses escapes that are cut, malformed, not UTF-8, or hide a NUL",
        arguments: ["%", "%2", "%zz", "%ff", "%00", "a%"])
    func refuses(_ encoded: String) {
        #expect(decoded(encoded) == nil)
    }

    @Test("reads queries, the last of several values first")
    func readsQueries() throws {
        let query = try #require(self.query("a=1&b=x%20y+z&&c&d=&a=2&e=a=b"))
        #expect(query["a"] == "2")
        #expect(query["b"] == "x y z")
        #expect(query["c"] == "")
        #expect(query["d"] == "")
        #expect(query["e"] == "a=b")
        #expect(query["f"] == nil)
        #expect(self.query("a=%") == nil)
    }
}
