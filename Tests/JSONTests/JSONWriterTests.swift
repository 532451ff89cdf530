import Foundation
import JSON
import Testing

@Suite("Writing JSON")
struct JSONWriterTests {
    private func text(_ write: (inout JSONWriter) -> Void) -> String {
        var json = JSONWriter()
        write(&json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    @Test("puts commas and colons where they belong")
    func structure() {
        let text = text { json in
            json.object { json in
                json.key("a")
                json.array { json in
                    json.integer(1)
                    json.null()
                    json.bool(true)
                    json.object { _ in }
                    json.array { _ in }
                    json.string("x")
                }
                json.key("dynamic \"key\"")
                json.decimalString(Int64.min)
                json.key("b")
                json.object { json in
                    json.key("c")
                    json.double(0.5)
                    json.key("d")
                    json.double(.infinity)
                    json.key("e")
                    json.plainString(Array("2021".utf8))
                }
            }
        }
        #expect(
            text
                == #"{"a":[1,null,true,{},[],"x"],"dynamic \"key\"":"-9223372036854775808","b":{"c":0.5,"d":null,"e":"2021"}}"#
        )
    }

    @Test("escapes every code point so that it is read back as it was")
    func everyCodePoint() throws {
        // A thousand at a time, so that escapes fall on every place in a word.
        var scalars: [Unicode.Scalar] = []
        func check() throws {
            let original = String(String.UnicodeScalarView(scalars))
            let written = text { json in json.array { $0.string(original) } }
            let read = try JSONSerialization.jsonObject(with: Data(written.utf8)) as? [String]
            #expect(read.map { Array($0[0].unicodeScalars) } == scalars)
            scalars = []
        }
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            scalars.append(scalar)
            if scalars.count == 997 { try check() }
        }
        try check()
    }

    @Test("escapes a character wherever it stands", arguments: ["\"", "\\", "\n", "\u{1}", "\u{1F}"])
    func everyPlace(_ special: String) throws {
        for length in 0..<24 {
            for place in 0...length {
                let original =
                    String(repeating: "é", count: place / 2) + String(repeating: "a", count: place % 2) + special
                    + String(repeating: "b", count: length - place)
                let written = text { json in json.array { $0.string(original) } }
                let read = try JSONSerialization.jsonObject(with: Data(written.utf8)) as? [String]
                #expect(read == [original])
            }
        }
    }

    @Test("uses the short escapes and lower-case digits")
    func shortEscapes() {
        #expect(text { $0.string("\u{8}\t\n\u{C}\r\u{0}\u{1f}\u{7f}/") } == "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}/\"")
    }

    @Test("writes texts of bytes, and parts of an object")
    func parts() {
        let name = Array("a\"b".utf8)
        let written = text { json in
            json.part(#"{"kind":"#)
            json.string(name.span)
            json.part(#","list":"#)
            json.array { json in
                json.integer(1)
                json.object { json in
                    json.key(name.span)
                    json.string("é".utf8.span)
                }
            }
            json.endObject()
        }
        #expect(written == #"{"kind":"a\"b","list":[1,{"a\"b":"é"}]}"#)
    }
}
