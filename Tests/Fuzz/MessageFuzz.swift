import HTTPMessage

/// Whatever bytes come, the machine reads the same messages however they are cut, and stays within its input.
enum MessageFuzz {
    /// What was read of a stream of messages.
    private enum Seen: Equatable {
        case head(RequestHead)
        case body([UInt8])
        case end
        case fault(MessageFault)
    }

    static func run(_ bytes: [UInt8]) {
        guard let seed = bytes.first else { return }
        let input = Array(bytes.dropFirst())
        let whole = read(input, piece: max(input.count, 1))
        precondition(read(input, piece: 1) == whole, "Cut at every byte, it reads as something else.")
        precondition(read(input, piece: Int(seed) + 2) == whole, "Cut, it reads as something else.")
        _ = Query(input.span)
        _ = PercentCoding.decodedText(input.span)
    }

    /// Reads a stream that comes in pieces.
    private static func read(_ input: [UInt8], piece: Int) -> [Seen] {
        var limits = RequestParser.Limits()
        (limits.headBytes, limits.targetBytes, limits.fields, limits.chunkOverheadBytes) = (512, 200, 8, 64)
        var parser = RequestParser(limits: limits)
        var seen: [Seen] = []
        var unread: [UInt8] = []
        var position = 0
        while position < input.count {
            let next = min(position + piece, input.count)
            unread += input[position..<next]
            position = next
            var offset = 0
            do {
                while let event = try parser.next(in: unread.span, from: &offset) {
                    switch event {
                    case .head:
                        seen.append(.head(parser.head))
                        parser.bodyLimit = 300
                    case .body(let range):
                        precondition(range.upperBound <= unread.count && !range.isEmpty, "A body outside of the input.")
                        append(Array(unread[range]), to: &seen)
                    case .end: seen.append(.end)
                    }
                }
            } catch {
                return seen + [.fault(error)]
            }
            precondition(offset <= unread.count, "It consumed more than there was.")
            unread.removeFirst(offset)
        }
        return seen
    }

    /// Bodies may come in more pieces than one; what counts is what they say together.
    private static func append(_ bytes: [UInt8], to seen: inout [Seen]) {
        if case .body(let before) = seen.last {
            seen[seen.count - 1] = .body(before + bytes)
        } else {
            seen.append(.body(bytes))
        }
    }
}
