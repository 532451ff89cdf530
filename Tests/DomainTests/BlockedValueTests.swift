import Domain
import Testing

/// The matchers of spec/rules.md, section 2.
@Suite("Blocked values")
struct BlockedValueTests {
    static let patterns: [(pattern: String, yes: [String], no: [String])] = [
        ("^[0-]*$", ["", "0", "-", "0-0", "00000000-0000"], ["1", "0a", " 0"]),
        ("a.c", ["abc", "xxaécxx", "a😀c"], ["ac", "abbc"]),
        ("^a|b$", ["axx", "xxb"], ["xa", "bx"]),
        ("^(ab)+$", ["ab", "abab"], ["", "aba"]),
        ("^x{2,3}$", ["xx", "xxx"], ["x", "xxxx"]),
        ("^x{2}$", ["xx"], ["x", "xxx"]),
        ("^x{2,}$", ["xx", "xxxxx"], ["x"]),
        ("^[^a-c]?$", ["", "d", "é"], ["a", "dd"]),
        ("^[]a]$", ["]", "a"], ["b"]),
        ("\\.", ["a.b"], ["ab"]),
        ("^\\[object Object\\]$", ["[object Object]"], ["object Object"]),
        ("test|^$", ["", "a test b"], ["tes"]),
        ("é+", ["éé"], ["e", "\u{C3}"]),
    ]

    @Test("a pattern matches as its grammar says", arguments: patterns)
    func pattern(_ row: (pattern: String, yes: [String], no: [String])) throws {
        let pattern = try #require(BlockedPattern(row.pattern))
        for value in row.yes { #expect(pattern.matches(value), "\(value)") }
        for value in row.no { #expect(!pattern.matches(value), "\(value)") }
    }

    @Test(
        "a pattern that breaks the grammar or a limit is none",
        arguments: [
            "", "(", ")", "a)", "[", "[]", "[b-a]", "[é]", "*a", "a**", "a{", "a{2", "a{3,2}", "a{256}", "^*", "a\\",
            #"\d+"#, #"[\w]"#, #"\bnull"#,
            "}",
            "(a|b)*a(a|b){8}", String(repeating: "a", count: 201),
        ])
    func bad(_ pattern: String) {
        #expect(BlockedPattern(pattern) == nil)
    }

    @Test("many matchers together block what each of them blocks alone")
    func together() throws {
        let patterns = ["^[0-]{2}$", "x+y", "^$", "a|b$", "^é"].compactMap { BlockedPattern($0) }
        var matchers: [BlockedValues.Matcher] = patterns.map { .init(.pattern($0)) }
        for text in ["é", "NaN", "a~b", "0", "'q'"] {
            matchers += [.init(.same(text, isAlsoQuoted: false)), .init(.anyCase(text, isAlsoQuoted: true))]
            matchers += [.init(.same(text, isAlsoQuoted: true), types: [.email]), .init(.contains(text + "!"))]
        }
        matchers += [.init(.blank), .init(.longerThan(9)), .init(.shorterThan(2), types: [.customerID])]
        let all = BlockedValues(matchers)
        let alone = matchers.map { BlockedValues([$0]) }
        let values = [
            "é", "e\u{301}", "'é'", "nan", "NAN", "'nan'", "'nan\"", "a~b", "xa~b!", "0!", "q", "'q'", "''q''", "xxy",
            "00",
            "000", "", " ", "'", "''", "b", "bc", "éa", "1234567890", "plain",
        ]
        var blocked = 0
        for value in values {
            for type in [IdentityType.customerID, .email] {
                let isBlocked = alone.contains { $0.contains(value, type) }
                #expect(all.contains(value, type) == isBlocked, "\(value)")
                blocked += isBlocked ? 1 : 0
            }
        }
        #expect(blocked > 20 && blocked < values.count * 2)
        let same = BlockedValues([.init(.same("é", isAlsoQuoted: false))])
        #expect(same.contains("é", .email) && !same.contains("e\u{301}", .email), "values are compared byte by byte")
    }

    @Test("a pattern reads each byte once", arguments: ["^(a+)+$", "(a|aa)*b"])
    func linear(_ text: String) throws {
        let pattern = try #require(BlockedPattern(text))
        #expect(!pattern.matches(String(repeating: "a", count: 4095) + "!"))
    }

    static let lists: [(list: BlockedList, yes: [String], no: [String])] = [
        (.onym, ["NULL", "guest", "-1"], ["void", "'guest'"]),
        (.segment, ["000-0", "", "-1", "null", "anonymous"], ["NULL", "guest"]),
        (
            .posthog, ["Guest", "'guest'", "\"TRUE\"", "NaN", "'None'", " \u{A0}\n", ""],
            ["nan", "NULL", "'guest\"", "x"]
        ),
        (.revenuecat, ["no_user", "a/b", "\u{0}", "", "NaN"], ["nan", "Guest"]),
        (.mixpanel, ["<nil>", "lmy47d", "00000000-0000-0000-0000-000000000000"], ["ANON", "x"]),
        (.amplitude, ["1234", "anonymous", "üüüü"], ["12345"]),
        (.rudderstack, ["unknown", "NaN"], ["null"]),
        (.snowplow, ["Null"], ["x"]),
    ]

    @Test("a list has the values of its vendor", arguments: lists)
    func list(_ row: (list: BlockedList, yes: [String], no: [String])) {
        let blocked = BlockedValues([BlockedValues.Matcher(.list(row.list))])
        for value in row.yes { #expect(blocked.contains(value, .customerID), "\(value)") }
        for value in row.no { #expect(!blocked.contains(value, .customerID), "\(value)") }
    }

    @Test("a matcher with types leaves other types alone")
    func types() {
        let blocked = BlockedValues([
            .init(.longerThan(3), types: [.email]), .init(.anyCase("x", isAlsoQuoted: false), types: [.other]),
            .init(.list(.mixpanel), types: [.iosIDFA]),
        ])
        #expect(blocked.contains("abcd", .email) && !blocked.contains("abcd", .other))
        #expect(blocked.contains("X", .other) && !blocked.contains("X", .email))
        #expect(blocked.contains("anon", .iosIDFA) && !blocked.contains("anon", .other))
    }
}
