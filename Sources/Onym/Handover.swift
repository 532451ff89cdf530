/// Carries a vendor-shaped callback to the queue of callbacks. Vendors' callbacks are not `@Sendable`; they run on that one
/// queue only.
package struct Handover<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}
