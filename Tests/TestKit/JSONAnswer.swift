import Foundation

/// An answer, and what its body says.
package struct JSONAnswer: CustomStringConvertible {
    package let wire: Wire.Answer
    package let object: [String: Any]

    package init(_ wire: Wire.Answer) {
        self.wire = wire
        object = (try? JSONSerialization.jsonObject(with: Data(wire.body.utf8)) as? [String: Any]) ?? [:]
    }

    package var status: Int { wire.status }
    package var code: String? { object["code"] as? String }
    package var description: String { "\(wire.status) \(wire.body)" }

    package subscript(_ name: String) -> Any? { object[name] }
    package func text(_ name: String) -> String? { object[name] as? String }
    package func list(_ name: String) -> [[String: Any]] { object[name] as? [[String: Any]] ?? [] }
    package func number(_ name: String) -> Int? { object[name] as? Int }
}
