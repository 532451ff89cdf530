import Foundation

/// An answer, as far as a world looks at it.
struct WireAnswer {
    let status: Int
    let body: String
    /// The id of the request, as the answer has it.
    let id: String
    /// The bytes of the answer.
    let length: Int

    /// The longest head of an answer.
    private static let headBytes = 4096

    /// The place behind the head of an answer; nil if the head is not complete.
    private static func headEnd(_ bytes: [UInt8]) -> Int? {
        let (line, newline) = (UInt8(ascii: "\r"), UInt8(ascii: "\n"))
        var place = 3
        while place < min(bytes.count, headBytes) {
            if bytes[place] == newline, bytes[place - 1] == line, bytes[place - 2] == newline { return place - 3 }
            place += 1
        }
        return nil
    }

    /// The length of the answer at the beginning of some bytes; nil if its head is not complete.
    static func length(_ bytes: [UInt8]) -> Int? {
        guard let end = headEnd(bytes) else { return nil }
        let head = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
        let field = head.split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
        return end + 4 + (field.flatMap { Int($0.dropFirst(16)) } ?? 0)
    }

    /// Reads a complete answer from the beginning of some bytes; nil if it is not complete.
    init?(_ bytes: [UInt8]) {
        guard let end = WireAnswer.headEnd(bytes) else { return nil }
        let head = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
        guard let line = head.first?.split(separator: " "), line.count > 1, let status = Int(line[1]) else {
            return nil
        }
        func field(_ name: String) -> String? {
            head.first { $0.lowercased().hasPrefix(name + ": ") }.map { String($0.dropFirst(name.count + 2)) }
        }
        let length = field("content-length").flatMap { Int($0) } ?? 0
        guard bytes.count >= end + 4 + length else { return nil }
        self.status = status
        body = String(decoding: bytes[end + 4..<end + 4 + length], as: UTF8.self)
        id = field("x-request-id") ?? ""
        self.length = end + 4 + length
    }

    var isSuccess: Bool { (200..<300).contains(status) }

    var json: [String: Any] { WireAnswer.json(body) }

    static func json(_ body: String) -> [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body.utf8))) as? [String: Any] ?? [:]
    }

    func text(_ names: String...) -> String? { WireAnswer.text(names, in: json) }

    /// A value of an answer's body.
    static func text(_ names: [String], in json: [String: Any]) -> String? {
        var value: Any? = json
        for name in names { value = (value as? [String: Any])?[name] }
        return value as? String ?? (value as? NSNumber)?.stringValue
    }
}

/// Chance from a seed (SplitMix64), which can be split by name: taking one stream out does not change the others.
struct Chance: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    init(_ seed: UInt64, _ name: String) { state = seed ^ Trace.hash(name) }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
    mutating func oneIn(_ times: Int) -> Bool { below(times) == 0 }
    mutating func pick<Element>(_ list: [Element]) -> Element? { list.randomElement(using: &self) }
}

/// What a history did, line by line, and the hash of it.
package struct Trace {
    package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    package private(set) var lines: [String] = []
    private let keepsLines: Bool

    init(keepsLines: Bool) { self.keepsLines = keepsLines }

    mutating func add(_ line: String) {
        hash = Trace.hash(line, from: hash)
        if keepsLines { lines.append(line) }
    }

    static func hash(_ text: String, from start: UInt64 = 0xCBF2_9CE4_8422_2325) -> UInt64 {
        text.utf8.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
