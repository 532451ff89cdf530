import Foundation
import Threads

/// Keeps one call of each kind as an example for the description of the API, in a folder: where `ONYM_EXAMPLES` names one
/// (`Tools/examples`). A call that shows more members is a better example, up to a length.
final class ExampleRecorder: Sendable {
    static let shared = ProcessInfo.processInfo.environment["ONYM_EXAMPLES"].map { ExampleRecorder(folder: $0) }

    private let folder: String
    private let scores = Monitor<[String: Int]>([:])
    private static let bytesAtMost = 3000

    private init(folder: String) { self.folder = folder }

    func note(_ id: String, _ path: String, _ request: [UInt8]?, _ answer: Wire.Answer) {
        let sent = request.map { String(decoding: $0, as: UTF8.self) }
        let parts = [("request", sent), ("response", answer.body)].compactMap { name, text in
            text.flatMap { text in APIDescription.Tree(text).map { (name: name, text: text, tree: $0) } }
        }
        guard parts.reduce(0, { $0 + $1.text.utf8.count }) <= ExampleRecorder.bytesAtMost else { return }
        let score = parts.reduce(0) { $0 + $1.tree.names }
        scores.withLock { scores in
            if let best = scores[id], best >= score { return }
            scores[id] = score
            let path = (try? JSONEncoder().encode(path)).map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
            let texts = parts.map { ",\"\($0.name)\":\($0.text)" }.joined()
            let example = "{\"id\":\"\(id)\",\"path\":\(path),\"status\":\(answer.status)\(texts)}"
            try? example.write(toFile: "\(folder)/\(id).\(score)", atomically: true, encoding: .utf8)
        }
    }
}

extension APIDescription.Tree {
    /// The number of members that have a value.
    fileprivate var names: Int {
        switch self {
        case .null: 0
        case .bool, .integer, .number, .string: 1
        case .array(let elements): elements.first.map { 1 + $0.names } ?? 0
        case .object(let members): members.reduce(0) { $0 + 1 + $1.value.names }
        }
    }
}
