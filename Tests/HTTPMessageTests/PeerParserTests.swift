import CHTTPParser
import HTTPMessage
import TestKit
import Testing

/// Ours beside http-parser, which real servers have used for a decade: on valid input both say the same.
@Suite("The request machine beside http-parser")
struct PeerParserTests {
    @Test("agrees on valid requests", arguments: Corpus.valid)
    func agrees(_ text: String) {
        expectAgreement(Array(text.utf8))
    }

    @Test("agrees on requests made by chance")
    func agreesByChance() {
        var generator = SeededGenerator(seed: 20_260_131)
        for _ in 0..<2000 {
            expectAgreement(Array(randomRequest(&generator).utf8))
        }
    }

    private func expectAgreement(_ bytes: [UInt8]) {
        let ours = Dialogue([bytes])
        #expect(ours.fault == nil, "\(String(decoding: bytes, as: UTF8.self))")
        let peer = Peer.read(bytes)
        #expect(peer.fault == nil, "\(String(decoding: bytes, as: UTF8.self))")
        #expect(ours.messages.map { Peer.Message($0) } == peer.messages)
    }

    private func randomRequest(_ generator: inout SeededGenerator) -> String {
        let method = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"].randomElement(using: &generator) ?? "GET"
        let letters = Array("abcXYZ019-._~!$&'()*+,;=:@%/?")
        var target = "/"
        for _ in 0..<Int.random(in: 0..<30, using: &generator) {
            target.append(letters.randomElement(using: &generator) ?? "a")
        }
        var head = "\(method) \(target) HTTP/1.1\r\nHost: h\r\n"
        for index in 0..<Int.random(in: 0..<6, using: &generator) {
            let value = (0..<Int.random(in: 0..<20, using: &generator)).map { _ in
                String(UnicodeScalar(UInt8.random(in: 0x21...0x7E, using: &generator)))
            }
            head += "X-\(index): \(value.joined())\r\n"
        }
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: return head + "\r\n"
        case 1:
            let body = String(repeating: "b", count: Int.random(in: 0..<50, using: &generator))
            return head + "Content-Length: \(body.utf8.count)\r\n\r\n" + body
        default:
            var text = head + "Transfer-Encoding: chunked\r\n\r\n"
            for _ in 0..<Int.random(in: 0..<4, using: &generator) {
                let size = Int.random(in: 1..<40, using: &generator)
                text += String(size, radix: 16) + "\r\n" + String(repeating: "c", count: size) + "\r\n"
            }
            return text + "0\r\n\r\n"
        }
    }
}

/// http-parser, as far as the comparison needs it.
private enum Peer {
    struct Message: Equatable {
        var method = ""
        var target = ""
        var fields: [String] = []
        var body = ""
        var keepsAlive = false

        init() {}

        /// What ours says, put the same way. The peer has a field's value without the white space in front only.
        init(_ message: Dialogue.Message) {
            let words = message.line.split(separator: " ").map(String.init)
            method = words[0]
            target = words[1]
            fields = message.fields
            body = message.body
            keepsAlive = message.line.hasSuffix("keep=true")
        }
    }

    struct Reading {
        var messages: [Message] = []
        var fault: String?
    }

    final class State {
        var messages: [Message] = []
        var name = ""
        var value = ""
        var isInValue = false
        /// What comes after the head are trailers, which ours drops.
        var hasHead = false

        func endField() {
            defer { (name, value, isInValue) = ("", "", false) }
            guard isInValue, !hasHead else { return }
            while value.hasSuffix(" ") || value.hasSuffix("\t") { value.removeLast() }
            messages[messages.count - 1].fields.append("\(name): \(value)")
        }
    }

    static func read(_ bytes: [UInt8]) -> Reading {
        let state = State()
        var parser = http_parser()
        http_parser_init(&parser, HTTP_REQUEST)
        parser.data = Unmanaged.passUnretained(state).toOpaque()
        var settings = http_parser_settings()
        http_parser_settings_init(&settings)
        settings.on_message_begin = { parser in
            let state = Peer.reading(of: parser)
            state.messages.append(Message())
            state.hasHead = false
            return 0
        }
        settings.on_url = { parser, start, count in
            Peer.change(parser) { $0.target += Peer.text(start, count) }
        }
        settings.on_header_field = { parser, start, count in
            let state = Peer.reading(of: parser)
            if state.isInValue { state.endField() }
            state.name += Peer.text(start, count)
            return 0
        }
        settings.on_header_value = { parser, start, count in
            let state = Peer.reading(of: parser)
            state.isInValue = true
            state.value += Peer.text(start, count)
            return 0
        }
        settings.on_headers_complete = { parser in
            let state = Peer.reading(of: parser)
            state.endField()
            state.hasHead = true
            guard let parser = parser else { return 1 }
            let method = http_method_str(http_method(rawValue: UInt32(parser.pointee.method)))
            let keeps = http_should_keep_alive(parser) != 0
            return Peer.change(parser) { message in
                message.method = method.map { Peer.ours(String(cString: $0)) } ?? ""
                message.keepsAlive = keeps
            }
        }
        settings.on_body = { parser, start, count in
            Peer.change(parser) { $0.body += Peer.text(start, count) }
        }
        let read = bytes.withUnsafeBytes { bytes in
            http_parser_execute(
                &parser, &settings, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        let code = http_errno(rawValue: parser.http_errno)
        for index in state.messages.indices {
            state.messages[index].target = Peer.path(of: state.messages[index].target)
        }
        return Reading(
            messages: state.messages,
            fault: read == bytes.count && code.rawValue == 0 ? nil : String(cString: http_errno_name(code)))
    }

    /// Ours knows no method beyond those that routes have.
    private static func ours(_ method: String) -> String {
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        return known.contains(method) ? method.lowercased() : "other"
    }

    /// Ours has split the path off an absolute target.
    private static func path(of target: String) -> String {
        guard target.hasPrefix("http://") else { return target }
        let rest = target.dropFirst("http://".count)
        return rest.firstIndex(of: "/").map { String(rest[$0...]) } ?? ""
    }

    private static func reading(of parser: UnsafeMutablePointer<http_parser>?) -> State {
        guard let data = parser?.pointee.data else { preconditionFailure("A parser without its state.") }
        return Unmanaged<State>.fromOpaque(data).takeUnretainedValue()
    }

    private static func change(_ parser: UnsafeMutablePointer<http_parser>?, _ body: (inout Message) -> Void) -> CInt {
        let state = reading(of: parser)
        body(&state.messages[state.messages.count - 1])
        return 0
    }

    private static func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
        String(
            decoding: UnsafeRawBufferPointer(start: start, count: count).map { $0 }, as: UTF8.self)
    }
}
