public import Foundation

/// An event, as the app describes it.
public struct Event: Hashable, Sendable {
    /// The event's name.
    public var name: String
    /// The kind of event, in the IDSync dialect: `custom_event`, `screen_view`, `commerce_event`, …
    public var type: String
    /// The kind of custom event, in the IDSync dialect: `navigation`, `search`, `transaction`, …
    public var category: String?
    /// The severity, in the Claim dialect.
    public var level: Level
    /// The screen of the event.
    public var screen: String?
    /// Further values of the event.
    public var attributes: [String: JSON]
    /// Members of the event's data besides name and attributes, in the IDSync dialect: `product_action`, `session_uuid`, …
    public var details: [String: JSON] = [:]
    /// The time of the event; nil for the time at which the app logs the event.
    public var time: Date?

    /// The severity of an event.
    public enum Level: String, Sendable {
        /// Normal information.
        case info
        /// Information for developers.
        case debug
        /// A problem that is not an error yet.
        case warn
        /// An error.
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

    /// The greatest size of a kept event in bytes.
    package static let bytes = 64 << 10

    /// The event in the mailbox's form. The code writes JSON directly, because `log` has to be fast.
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
        if !details.isEmpty {
            bytes += ",\"d\":".utf8
            JSON.object(details).write(to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    /// Reads an event in the mailbox's form.
    package init?(kept: JSON?) {
        guard let kept, let name = kept["n"]?.text else { return nil }
        self.init(
            name, type: kept["y"]?.text ?? "custom_event",
            level: kept["l"]?.text.flatMap(Level.init) ?? .info, screen: kept["s"]?.text,
            attributes: kept["a"]?.members ?? [:])
        category = kept["c"]?.text
        details = kept["d"]?.members ?? [:]
    }
}
