import ByteText
import Testing

@Suite("Parts of texts")
struct PartsTests {
    @Test("finds the first place of a part, byte by byte")
    func first() {
        func place(_ part: String, _ text: String) -> String? {
            text.firstRange(of: part).map { "\(text[..<$0.lowerBound])|\(text[$0.upperBound...])" }
        }
        #expect(place("://", "https://id.example.com") == "https|id.example.com")
        #expect(place("aab", "aaab") == "a|" && place("ä", "xäy") == "x|y" && place("a", "a") == "|")
        #expect(place("abc", "ab") == nil && place("x", "") == nil && place("", "x") == nil)
        #expect("xayaz".dropFirst(2).firstRange(of: "a").map { "xayaz"[$0.upperBound...] } == "z")
    }

    @Test("says whether a part is there")
    func contains() {
        #expect("refund_issued".contains("fund") && "a".contains("") && "ab".dropFirst().contains("b"))
        #expect(!"refund".contains("funds") && !"".contains("a") && !"ab".dropFirst().contains("a"))
    }

    @Test("replaces all places of a part, and does not look into what it has put there")
    func replaces() {
        #expect("a-b-c".replacing("-", with: "_") == "a_b_c" && "aaa".replacing("aa", with: "a") == "aa")
        #expect("x".replacing("y", with: "z") == "x" && "".replacing("y", with: "z").isEmpty)
        #expect("a\r\nb".replacing("\n", with: " ") == "a\r b" && "a|b".dropFirst().replacing("|", with: "") == "b")
    }
}
