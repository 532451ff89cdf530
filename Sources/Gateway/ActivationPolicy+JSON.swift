package import Domain
package import JSON

extension ActivationPolicy {
    /// Writes it into an object, as the strategy and the answers to installs have it.
    package func write(_ json: inout JSONWriter) {
        json.key("activation")
        json.string(name)
        json.key("active_limit")
        json.integer(limit)
        json.key("device_order")
        json.array { json in
            for device in devices { json.string(device.name) }
        }
    }
}
