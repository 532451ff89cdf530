package import Domain
package import JSON

extension ActivationPolicy {
    /// Writes the policy into an object, in the form that the strategy's document and the answers to installs share.
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
