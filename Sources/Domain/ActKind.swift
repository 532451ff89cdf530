/// The kind of a call in the journal. Its number and its name never change.
package struct ActKind: Hashable, Sendable {
    package let rawValue: UInt8
    /// The name that explain, feeds and webhooks show.
    package let name: String
    /// The rule by which such a call can be taken back.
    package let undo: UndoRule
    /// Whether calls of the kind change projects, apps, keys or strategies.
    let changesDirectory: Bool

    package init(_ rawValue: UInt8, _ name: String, undo: UndoRule, changesDirectory: Bool = false) {
        self.rawValue = rawValue
        self.name = name
        self.undo = undo
        self.changesDirectory = changesDirectory
    }

    /// The kind with a number; nil if this version does not know the number.
    package init?(rawValue: UInt8) {
        guard let kind = Registry.kinds[rawValue] else { return nil }
        self = kind
    }

    package static func == (one: ActKind, other: ActKind) -> Bool { one.rawValue == other.rawValue }
    package func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}

extension ActKind {
    /// The kind of the exercise in CONTRIBUTING.md. Only the exercise's test uses it, and no server writes it.
    package static let exercise = ActKind(255, "exercise", undo: .never(.noteOfServer))
}
