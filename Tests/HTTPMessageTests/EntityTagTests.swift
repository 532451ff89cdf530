import HTTPMessage
import Testing

@Suite("Entity tags")
struct EntityTagTests {
    @Test(
        "are found in what a client has",
        arguments: [
            (#""a1""#, true), (#"W/"a1""#, true), ("*", true), (#""x", "a1""#, true), (#" "x","y" , W/"a1" "#, true),
            (#""a2""#, false), ("a1", false), ("", false), (",", false), (#""a1"x"#, false), (#"w/"a1""#, false),
        ])
    func named(_ list: String, _ isNamed: Bool) {
        let bytes = Array(list.utf8)
        #expect(EntityTag("a1").isNamed(by: bytes.span) == isNamed)
    }
}
