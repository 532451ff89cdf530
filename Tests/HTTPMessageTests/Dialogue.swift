import ByteText
import HTTPMessage

/// What a parser made of some bytes, as text that can be compared.
struct Dialogue: Equatable, CustomStringConvertible {
    private(set) var messages: [Message] = []
    private(set) var fault: MessageFault?
    /// Whether the bytes ended between two messages.
    private(set) var endedBetweenMessages = true

    struct Message: Equatable {
        var line = ""
        var fields: [String] = []
        var body = ""
        var isComplete = false
    }

    var description: String {
        messages.map { "\($0.line) \($0.fields) [\($0.body)]\($0.isComplete ? "" : "…")" }.joined(separator: "\n")
            + (fault.map { "\n! \($0)" } ?? "")
    }

    /// Feeds a parser with pieces, as a connection would: what it leaves is there again with the next piece.
    init(_ pieces: [[UInt8]], limits: RequestParser.Limits = .init(), bodyLimit: Int = .max) {
        var parser = RequestParser(limits: limits)
        var input: [UInt8] = []
        do throws(MessageFault) {
            for piece in pieces {
                input += piece
                var offset = 0
                while let event = try parser.next(in: input.span, from: &offset) {
                    take(event, parser, input, offset)
                    if event == .head { parser.bodyLimit = bodyLimit }
                }
                input.removeFirst(offset)
            }
            endedBetweenMessages = parser.isIdle && input.isEmpty
        } catch {
            fault = error
            endedBetweenMessages = false
        }
    }

    init(_ text: String, limits: RequestParser.Limits = .init(), bodyLimit: Int = .max) {
        self.init([Array(text.utf8)], limits: limits, bodyLimit: bodyLimit)
    }

    private mutating func take(_ event: RequestParser.Event, _ parser: RequestParser, _ input: [UInt8], _ offset: Int) {
        switch event {
        case .head:
            let head = parser.head
            let bytes = Array(input[offset - head.byteCount..<offset])
            func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
            let target =
                switch head.target {
                case .asterisk: "*"
                case .path(let path, let query): text(path) + (query.map { "?" + text($0) } ?? "")
                }
            messages.append(
                Message(
                    line: "\(head.method) \(target) 1.\(head.minorVersion) \(head.framing) keep=\(head.keepsAlive)",
                    fields: head.fields.map { "\(text($0.name)): \(text($0.value))" }))
        case .body(let range):
            messages[messages.count - 1].body += String(decoding: input[range], as: UTF8.self)
        case .end:
            messages[messages.count - 1].isComplete = true
        }
    }
}

extension String {
    /// The text with CR LF for each line end, as it goes over the wire.
    var wire: String { split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\r\n") }
}
