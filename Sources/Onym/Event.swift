/// Something that happened, in the words of the app.
public struct Event: Hashable, Sendable {
    /// What happened.
    public var name: String
    /// The kind of event, as the IDSync dialect has them: `custom_event`, `screen_view`, `commerce_event`, …
    public var type: String
    /// What kind of custom event it is, as the IDSync dialect has them: `navigation`, `search`, `transaction`, …
    public var category: String?
    /// How grave it is, as the Claim dialect has it.
    public var level: Level
    /// The screen that it happened on.
    public var screen: String?
    /// More about it.
    public var attributes: [String: JSON]

    /// How grave an event is.
    public enum Level: String, Sendable {
        /// Worth knowing.
        case info
        /// Of use to developers alone.
        case debug
        /// Not right, but not wrong yet.
        case warn
        /// Wrong.
        case error
    }

    /// Makes an event.
    public init(
        _ name: String, type: String = "custom_event", level: Level = .info, screen: String? = nil,
        attributes: [String: JSON] = [:]
    ) {
        (self.name, self.type, self.level) = (name, type, level)
        (self.screen, self.attributes) = (screen, attributes)
    }

    /// An event that takes more bytes than this is not kept.
    package static let bytes = 64 << 10

    /// As the mailbox keeps it. Written by hand: `log` is called where every microsecond counts.
    package var body: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(128)
        bytes += "{\"n\":".utf8
        JSON.write(name, to: &bytes)
        if type != "custom_event" {
            bytes += ",\"y\":".utf8
            JSON.write(type, to: &bytes)
        }
        if let category {
            bytes += ",\"c\":".utf8
            JSON.write(category, to: &bytes)
        }
        if level != .info {
            bytes += ",\"l\":".utf8
            JSON.write(level.rawValue, to: &bytes)
        }
        if let screen {
            bytes += ",\"s\":".utf8
            JSON.write(screen, to: &bytes)
        }
        if !attributes.isEmpty {
            bytes += ",\"a\":".utf8
            JSON.object(attributes).write(to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    /// As the mailbox has kept it.
    package init?(kept: JSON?) {
        guard let kept, let name = kept["n"]?.text else { return nil }
        self.init(
            name, type: kept["y"]?.text ?? "custom_event",
            level: kept["l"]?.text.flatMap(Level.init) ?? .info, screen: kept["s"]?.text,
            attributes: kept["a"]?.members ?? [:])
        category = kept["c"]?.text
    }
}
