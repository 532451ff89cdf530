import JSON
import Testing

@Suite("Reading JSON")
struct JSONParserTests {
    private let parser = JSONParser()

    private func read<Result>(_ text: String, _ body: (JSONValue) throws(JSONFault) -> Result) throws(JSONFault)
        -> Result
    {
        try parser.read(Array(text.utf8), body)
    }

    private func fault(_ bytes: [UInt8]) -> JSONFault? {
        do throws(JSONFault) {
            try parser.read(bytes) { _ in }
            return nil
        } catch {
            return error
        }
    }

    @Test("keeps integers exact to 64 bits", arguments: [0, -1, 9_007_199_254_740_993, Int64.max, Int64.min])
    func exactIntegers(_ value: Int64) throws {
        let read = try read("[\(value)]") { root throws(JSONFault) in
            var values: [Int64] = []
            try root.forEachElement(at: "it") { element throws(JSONFault) in
                values.append(try element.integer(at: "it"))
            }
            return values
        }
        #expect(read == [value])
    }

    @Test(
        "takes no number that is not an integer for one",
        arguments: ["1.0", "1e3", "9223372036854775808", "\"1\"", "null"])
    func notIntegers(_ text: String) {
        #expect(throws: JSONFault(.wrong("must be a 64-bit integer"), at: "n")) {
            try read("{\"n\":\(text)}") { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { _, value throws(JSONFault) in _ = try value.integer(at: "n") }
            }
        }
    }

    @Test("names the place of what is wrong")
    func namesPlaces() {
        let fault = #expect(throws: JSONFault.self) {
            try read("{\"known_identities\":{\"email\":5}}") { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { _, value throws(JSONFault) in
                    try value.forEachMember(at: "known_identities") { key, value throws(JSONFault) in
                        _ = try value.string(at: "known_identities.\(key.copy())")
                    }
                }
            }
        }
        #expect(fault?.message == "known_identities.email must be a string")
    }

    @Test("gives the members of an object in their order, so that the last of equal keys has the last word")
    func duplicateKeys() throws {
        let members = try read("{\"a\":1,\"b\":2,\"a\":3}") { root throws(JSONFault) in
            var members: [String] = []
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                members.append("\(key.copy())=\(try value.integer(at: "it"))")
            }
            return members
        }
        #expect(members == ["a=1", "b=2", "a=3"])
    }

    @Test("reads escapes, surrogate pairs among them")
    func escapes() throws {
        let text = try read(#"{"s":"a\"\\\/\b\f\n\r\té😀é"}"#) { root throws(JSONFault) in
            var text = ""
            try root.forEachMember(at: "the body") { _, value throws(JSONFault) in text = try value.string(at: "s") }
            return text
        }
        #expect(text == "a\"\\/\u{8}\u{C}\n\r\té😀é")
    }

    @Test(
        "refuses what is not JSON",
        arguments: [
            "{", "}", "{]", "[1,]", "{\"a\":}", "{\"a\" 1}", "{a:1}", "'a'", "{\"a\":1}x", "[01]", "[1.]", "[+1]",
            "nul",
            "[\"a\nb\"]", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\ud800\"]", "[NaN]",
        ])
    func malformed(_ text: String) {
        let fault = fault(Array(text.utf8))
        #expect(fault?.problem == .malformed || fault?.problem == .badNumber)
    }

    @Test("says that an empty body is empty")
    func empty() {
        #expect(fault([])?.problem == .empty)
        #expect(fault(Array("  \n".utf8))?.problem == .empty)
    }

    @Test("refuses bytes that are not UTF-8")
    func notUTF8() {
        #expect(fault(Array("[\"".utf8) + [0xFF] + Array("\"]".utf8))?.problem == .notUTF8)
        #expect(fault(Array("[\"".utf8) + [0xC0, 0xAF] + Array("\"]".utf8))?.problem == .notUTF8)
        #expect(fault(Array("[\"".utf8) + [0xED, 0xA0, 0x80] + Array("\"]".utf8))?.problem == .notUTF8)
    }

    @Test("refuses a NUL, plain or escaped")
    func noNUL() {
        #expect(fault(Array("[\"a\u{0}b\"]".utf8)) != nil)
        #expect(throws: JSONFault(.wrong("must not hold a NUL character"), at: "s")) {
            try read(#"["a\u0000b"]"#) { root throws(JSONFault) in
                try root.forEachElement(at: "it") { element throws(JSONFault) in _ = try element.string(at: "s") }
            }
        }
        #expect(throws: JSONFault(.wrong("must not have a key with a NUL character"), at: "it")) {
            try read(#"{"a\u0000b":1}"#) { root throws(JSONFault) in
                try root.forEachMember(at: "it") { _, _ throws(JSONFault) in }
            }
        }
    }

    @Test("refuses numbers that nothing can hold", arguments: ["[123456789012345678901234567890]", "[1e999]"])
    func hugeNumbers(_ text: String) {
        #expect(fault(Array(text.utf8))?.problem == .badNumber)
    }

    @Test(
        "mends halves of pairs and integers beyond 64 bits, where it is asked to, and nothing else",
        arguments: [
            (
                #"["a\ud83d","\ud83d\ude00","\\ud83d","\"\udc00"]"#,
                "[\"a\u{FFFD}\",\"😀\",\"\\\\ud83d\",\"\\\"\u{FFFD}\"]"
            ),
            (
                #"{"a":123456789012345680000,"b":"123456789012345680000"}"#,
                #"{"a":1.2345678901234568e+20,"b":"123456789012345680000"}"#
            ),
            ("[-9223372036854775808,-9223372036854775809]", "[-9223372036854775808,-9.223372036854776e+18]"),
            ("[18446744073709551615,18446744073709551616]", "[18446744073709551615,1.8446744073709552e+19]"),
            (#"{"1\ud83d":100000000000000000000}"#, "{\"1\u{FFFD}\":1e+20}"),
            ("[1e999]", nil), ("[0123456789012345678901]", nil), ("[1", nil), (#"["\ud83d]"#, nil),
        ] as [(String, String?)])
    func mends(_ text: String, _ mended: String?) throws {
        func read() throws(JSONFault) -> String {
            try parser.read(Array(text.utf8), mends: true) { root in
                var json = JSONWriter()
                json.copy(root)
                return String(decoding: json.bytes, as: UTF8.self)
            }
        }
        if let mended { #expect(try read() == mended) } else { #expect(throws: JSONFault.self) { try read() } }
        if text != mended { #expect(throws: JSONFault.self) { try parser.read(Array(text.utf8)) { _ in } } }
    }

    @Test("mends a large document by reading it once", .timeLimit(.minutes(1)))
    func mendsLarge() throws {
        let digits = String(repeating: "1", count: 4 << 20)
        for (text, isMended) in [
            ("[\"\(digits)\",\"\\ud83d\"]", true), ("[\"\(digits)\",", false), ("[\(digits)\"", false),
        ] {
            let isRead = (try? parser.read(Array(text.utf8), mends: true) { _ in true }) ?? false
            #expect(isRead == isMended)
        }
    }

    @Test("takes as much nesting as it is told to, and no more")
    func depth() {
        func nested(_ depth: Int) -> [UInt8] {
            Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        #expect(fault(nested(JSONParser.defaultDepth)) == nil)
        #expect(fault(nested(JSONParser.defaultDepth + 1))?.problem == .tooDeep)
        #expect(fault(nested(100_000))?.problem == .tooDeep)
        #expect(fault([UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)) != nil)
    }

    @Test("reads a small document after a large one, and the other way round")
    func sizes() throws {
        for size in [1, 100_000, 10, 1_000_000, 3] {
            let text = "{\"s\":\"" + String(repeating: "x", count: size) + "\"}"
            let count = try read(text) { root throws(JSONFault) in
                var count = 0
                try root.forEachMember(at: "the body") { _, value throws(JSONFault) in
                    count = try value.string(at: "s").utf8.count
                }
                return count
            }
            #expect(count == size)
        }
    }

    @Test("tells kinds apart")
    func kinds() throws {
        let kinds = try read(#"[null,true,1,9223372036854775808,1.5,"s",[],{}]"#) { root throws(JSONFault) in
            var kinds: [JSONValue.Kind] = []
            try root.forEachElement(at: "it") { kinds.append($0.kind) }
            return kinds
        }
        #expect(kinds == [.null, .bool, .integer, .unsigned, .double, .string, .array, .object])
    }
}
