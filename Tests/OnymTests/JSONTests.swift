import Onym
import Testing

@Suite("JSON")
struct JSONTests {
    @Test(
        "is read and written as it was",
        arguments: [
            "null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.5", "\"\"",
            "\"ü\\\"\\\\\"", "[]", "[1,[2,null]]", "{}", "{\"a\":{\"b\":[1,2]},\"c\":\"d\"}",
        ])
    func roundTrip(text: String) throws {
        let value = try #require(JSON(text.utf8))
        #expect(String(decoding: value.bytes, as: UTF8.self) == text)
    }

    @Test("reads escapes, spaces and numbers beyond 64 bits")
    func reading() {
        #expect(JSON(" [ \"\\u00e9\\uD83D\\uDE00\\n\\/\" , 1e3 ] ".utf8) == ["é😀\n/", 1000.0])
        #expect(JSON("9223372036854775808".utf8) == .number(9_223_372_036_854_775_808))
    }

    @Test(
        "takes nothing else",
        arguments: [
            "", " ", "{", "[1,", "[1,]", "{\"a\":1,}", "{a:1}", "nul", "tru", "01", "-00", "01x", "1.", "+1", "-", "\"",
            "\"\\x\"",
            "\"\\uD800\"", "\"\\u+123\"", "\"\n\"", "1 2", "[1}", String(repeating: "[", count: 100_000), "\u{feff}1",
        ])
    func refusal(text: String) {
        #expect(JSON(text.utf8) == nil)
    }

    @Test("never writes what is not JSON")
    func infinity() {
        #expect(JSON.number(.infinity).bytes == Array("null".utf8))
        #expect(JSON(JSON.string("\u{1}\u{1f}\u{7f}").bytes) == "\u{1}\u{1f}\u{7f}")
    }

    @Test("no byte from outside that is cut or changed breaks the reader")
    func garbage() {
        let whole = Array("{\"mpid\":\"123\",\"list\":[1,-2.5e3,true,null,\"\\u00e9\"]}".utf8)
        for end in whole.indices { #expect(JSON(whole[..<end]) == nil) }
        for place in whole.indices {
            for byte in [UInt8(0), 0x22, 0x5C, 0x7B, 0xFF] {
                var bytes = whole
                bytes[place] = byte
                if let value = JSON(bytes) { #expect(JSON(value.bytes) != nil) }
            }
        }
    }
}

@Suite("SHA-256")
struct SHA256Tests {
    @Test("digests as the standard does")
    func digest() {
        #expect(
            hexadecimal(SHA256.digest("abc".utf8))
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            hexadecimal(SHA256.digest([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)))
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test("signs the vendor's example as the vendor does")
    func signature() {
        let body = """
            {"client_sdk":{"platform":"android","sdk_vendor":"mparticle","sdk_version":"5.0.0"},"environment":"development",\
            "request_timestamp_ms":1499875715564,"request_id":"ad58a7c1-cf35-4be5-8c42-a09989f85cc1",\
            "known_identities":{"android_uuid":"f924f1e5707b34b7"}}
            """
        let message = "POST\nWed, 12 Jul 2017 22:41:27 GMT\n/v1/identify" + body
        #expect(
            hexadecimal(SHA256.authenticate(message.utf8, key: "example-api-secret".utf8))
                == "0c041378e90f5b1261798355dfe0cbb3998612453b172713cfcbf4038b8ba661")
    }
}
