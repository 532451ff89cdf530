import ByteText
import Foundation
import TestKit
import Testing

@Suite("Text in bytes")
struct ByteTextTests {
    private func text(_ write: (inout [UInt8]) -> Void) -> String {
        var bytes: [UInt8] = []
        write(&bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("writes integers in decimal", arguments: [0, 1, 9, 10, 99, 100, -1, -10, Int.max, Int.min])
    func decimal(_ value: Int) {
        #expect(text { $0.append(decimal: value) } == "\(value)")
    }

    @Test("writes unsigned and narrow integers, with zeros in front")
    func decimalForms() {
        #expect(text { $0.append(decimal: UInt64.max) } == "\(UInt64.max)")
        #expect(text { $0.append(decimal: Int8.min) } == "-128")
        #expect(text { $0.append(decimal: 7, digits: 3) } == "007")
        #expect(text { $0.append(decimal: 1234, digits: 3) } == "1234")
        #expect(text { $0.append(decimal: 0, digits: 2) } == "00")
    }

    @Test("writes and reads hexadecimal digits")
    func hexadecimal() {
        #expect(Hexadecimal.encode([0x00, 0x0F, 0xA0, 0xFF]) == "000fa0ff")
        #expect(decodeHexadecimal("000FA0ff") == [0x00, 0x0F, 0xA0, 0xFF])
        #expect(decodeHexadecimal("") == [])
        #expect(decodeHexadecimal("0") == nil)
        #expect(decodeHexadecimal("0g") == nil)
        #expect(text { $0.append(hexadecimal: 0x0123_4567_89AB_CDEF, 0xF) } == "0123456789abcdef000000000000000f")
    }

    @Test("writes and reads Base64 as Foundation does")
    func base64() {
        var generator = SeededGenerator(seed: 1)
        for count in 0..<100 {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            let expected = Data(bytes).base64EncodedString()
            #expect(Base64.encode(bytes) == expected)
            #expect(decodeBase64(expected) == bytes)
            #expect(decodeBase64(expected.replacing("=", with: "")) == bytes, "padding may be left out")
        }
    }

    @Test(
        "refuses what is not Base64",
        arguments: ["a", "a=", "ab=", "abc==", "a b=", "ab$=", "abcde", "QQ=Q", "Qf==", "===="])
    func badBase64(_ text: String) {
        #expect(decodeBase64(text) == nil)
    }

    @Test("compares with literals, with regard to case and without")
    func comparing() {
        func equals(_ text: String, _ literal: StaticString) -> Bool { Array(text.utf8).span.equals(literal) }
        func matches(_ text: String, _ literal: StaticString) -> Bool {
            Array(text.utf8).span.equalsIgnoringCase(literal)
        }
        #expect(equals("known_identities", "known_identities"))
        #expect(!equals("known_identitiex", "known_identities"))
        #expect(!equals("xnown_identities", "known_identities"))
        #expect(!equals("known", "known_identities"))
        #expect(equals("", ""))
        #expect(matches("Content-LENGTH", "content-length"))
        #expect(!matches("Content-LENGTI", "content-length"))
        #expect(!matches("content[length", "content-length"))
    }

    @Test("finds bytes wherever they are")
    func finding() {
        for count in 0..<40 {
            for place in 0..<count {
                var bytes = [UInt8](repeating: 0x0B, count: count)
                bytes[place] = 0x0A
                for start in 0...count {
                    #expect(first(0x0A, bytes, start) == (start <= place ? place : nil))
                }
            }
            #expect(first(0x0A, [UInt8](repeating: 0x8A, count: count), 0) == nil)
        }
    }

    @Test("trims spaces and tabs")
    func trimming() {
        func trimmed(_ text: String) -> String {
            let bytes = Array(text.utf8)
            return String(decoding: bytes[bytes.span.trimming(0..<bytes.count)], as: UTF8.self)
        }
        #expect(trimmed(" \t a b\t ") == "a b")
        #expect(trimmed("   ") == "")
        #expect(trimmed("") == "")
    }

    // Expectations cannot lend spans, so these do.
    private func decodeHexadecimal(_ text: String) -> [UInt8]? { Hexadecimal.decode(Array(text.utf8).span) }
    private func decodeBase64(_ text: String) -> [UInt8]? { Base64.decode(Array(text.utf8).span) }
    private func first(_ byte: UInt8, _ bytes: [UInt8], _ start: Int) -> Int? {
        bytes.span.firstIndex(of: byte, from: start)
    }
}
