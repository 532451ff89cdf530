import Foundation
import Testing

/// A stand-in for a shipped client with its waiting uploads. It deletes, keeps and waits as the sources of these clients have it
/// (spec/idsync-clients.md 2).
package struct ShippedClient {
    package enum Kind: Sendable, CaseIterable { case apple, android, web }

    private let kind: Kind
    /// The uploads that wait, in the order in which the client sends them.
    package var queue: [(path: String, body: String)] = []

    package init(_ kind: Kind) { self.kind = kind }

    /// Sends what waits, as the client does at one interval.
    package mutating func upload(_ send: (String, String) throws -> Wire.Answer) {
        var index = 0
        while index < queue.count {
            let answer = try? send(queue[index].path, queue[index].body)
            guard let answer else { return }
            if [429, 503].contains(answer.status) {
                #expect(answer["Retry-After"] == "5", "without it the client waits for two hours")
            }
            switch kind {
            case .apple:
                // The loop stops at the first upload that is kept.
                guard isDone(answer.status) else { return }
                queue.remove(at: index)
            case .android:
                // The body is read first. Without one an exception ends the loop, and nothing is deleted.
                let body = try? JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
                if answer.status == 202, body == nil { return }
                let isDone = [200, 202].contains(answer.status) || isRefused(answer.status)
                if isDone { queue.remove(at: index) } else { index += 1 }
            case .web:
                if (401..<500).contains(answer.status), answer.status != 429 {
                    queue = []
                    return
                }
                guard (200..<300).contains(answer.status) else { return }
                queue.remove(at: index)
            }
        }
    }

    private func isRefused(_ status: Int) -> Bool { (400..<500).contains(status) && status != 429 }
    private func isDone(_ status: Int) -> Bool { (200..<300).contains(status) || isRefused(status) }
}
