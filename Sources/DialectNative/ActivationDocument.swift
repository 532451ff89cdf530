import Domain
import Gateway
import JSON

/// The rule for active installs, as the document of a strategy has it: three members that change together, because the limit
/// of one policy has no meaning for another policy.
struct ActivationDocument {
    private var name: String?
    private var limit: Int?
    private var devices: [DeviceClass]?

    /// Reads a member; false if the member is not part of the rule.
    mutating func read(_ name: String, _ value: JSONValue) throws(JSONFault) -> Bool {
        switch name {
        case "activation":
            let text = try value.string(at: name)
            guard ActivationDocument.names.contains(text) else {
                throw JSONFault(.wrong("must be last_wins, first_wins or n_active"), at: name)
            }
            self.name = text
        case "active_limit":
            let (number, limits) = (Int(try value.integer(at: name)), ActivationPolicy.limits)
            guard limits.contains(number) else {
                throw JSONFault(.wrong("must be from \(limits.lowerBound) to \(limits.upperBound)"), at: name)
            }
            limit = number
        case "device_order":
            var devices: [DeviceClass] = []
            try value.forEachElement(at: name) { value throws(JSONFault) in
                let text = try value.string(at: name)
                guard let device = DeviceClass(named: text), !devices.contains(device) else {
                    throw JSONFault(.wrong("must name classes of devices, each once"), at: name)
                }
                devices.append(device)
            }
            self.devices = devices
        default: return false
        }
        return true
    }

    /// The policy, after all members are read; nil if no member was there.
    func policy() throws(JSONFault) -> ActivationPolicy? {
        guard let name else {
            if limit != nil || devices != nil {
                throw JSONFault(.wrong("has to come with active_limit and device_order"), at: "activation")
            }
            return nil
        }
        let isMany = name == "n_active"
        if isMany, limit == nil { throw JSONFault(.wrong("has to come with n_active"), at: "active_limit") }
        // The document also shows `first_wins` with a limit above 1, so this check concerns `last_wins` alone.
        if name == "last_wins", let limit, limit != 1 {
            throw JSONFault(.wrong("must be 1, unless n_active"), at: "active_limit")
        }
        return ActivationPolicy(
            order: name == "first_wins" ? .firstWins : .lastWins, limit: limit ?? 1,
            devices: devices ?? ActivationPolicy().devices)
    }

    private static let names = ["last_wins", "first_wins", "n_active"]

    static let fields: [(String, Schema)] = [
        ("activation", .string(oneOf: names)),
        ("active_limit", .integer("With n_active: the number of active installs.")),
        ("device_order", .array(.string(oneOf: DeviceClass.allCases.map(\.name)))),
    ]
}
