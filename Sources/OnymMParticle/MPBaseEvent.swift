public import Foundation
import Onym

/// The common part of all events of the app. The SDK logs a copy: later changes of the object have no effect.
public class MPBaseEvent: Hashable {
    /// The time of the event. Without a value of the app's own, it is the present time, and at last the time of logging.
    public var timestamp: Date {
        get { ownTimestamp ?? Date() }
        set { ownTimestamp = newValue }
    }
    /// The app's own time of the event.
    private(set) var ownTimestamp: Date?
    /// The kind of event.
    public var type: MPEventType
    /// Further values of the event.
    public var customAttributes: [String: Any]?
    /// Values for integrations; nil without such values.
    public private(set) var customFlags: NSMutableDictionary?
    /// Whether the event begins a session if no session runs.
    public var shouldBeginSession = true
    /// Whether the SDK sends the event to the server.
    public var shouldUploadEvent = true

    init(_ type: MPEventType) { self.type = type }

    /// Adds a value for integrations.
    public func addCustomFlag(_ customFlag: String, withKey key: String) { addCustomFlags([customFlag], withKey: key) }

    /// Adds values for integrations.
    public func addCustomFlags(_ customFlags: [String], withKey key: String) {
        let flags = self.customFlags ?? NSMutableDictionary()
        flags[key] = (flags[key] as? [String] ?? []) + customFlags
        self.customFlags = flags
    }

    /// The event as the SDK keeps it.
    var event: Event { preconditionFailure("Only subclasses of MPBaseEvent can be logged.") }

    /// The members of each event's data.
    var details: [String: JSON] {
        guard let customFlags else { return [:] }
        var flags: [String: JSON] = [:]
        for (key, value) in customFlags { flags["\(key)"] = JSON(plain: value) }
        return ["custom_flags": .object(flags)]
    }

    /// Whether both are the same object.
    public static func == (first: MPBaseEvent, second: MPBaseEvent) -> Bool { first === second }
    /// Hashes the object.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// An event of the app.
public class MPEvent: MPBaseEvent {
    /// The event's name.
    public var name: String
    /// The app's category of the event.
    public var category: String?
    /// The start of a timed event.
    public var startTime: Date?
    /// The end of a timed event.
    public var endTime: Date?
    /// The duration of a timed event in milliseconds.
    public var duration: NSNumber?

    /// Makes an event.
    public init?(name: String, type: MPEventType) {
        guard !name.isEmpty else { return nil }
        self.name = name
        super.init(type)
    }

    /// Sets the start of a timed event to the present time.
    public func beginTiming() { (startTime, endTime, duration) = (Date(), nil, nil) }

    /// Sets the end and the duration of a timed event.
    public func endTiming() {
        guard let startTime else { return }
        let now = Date()
        endTime = now
        duration = NSNumber(value: Int64((now.timeIntervalSince(startTime) * 1000).rounded()))
    }

    override var event: Event { event(of: "custom_event") }

    /// The event with a type of the wire.
    func event(of type: String) -> Event {
        var event = Event(name, type: type, attributes: JSON.attributes(customAttributes))
        // The vendor's names of both values.
        if let duration { event.attributes["EventLength"] = JSON(plain: duration) }
        if let category { event.attributes["$Category"] = .string(category) }
        if type == "custom_event" { event.category = self.type.wireName }
        (event.details, event.time) = (details, ownTimestamp)
        return event
    }
}
