/// Carries a vendor-shaped callback over to the queue of callbacks. Vendors' callbacks are not `@Sendable`; they are called on
/// that one queue and nowhere else.
package struct Handover<Value>: @unchecked Sendable {
    package let value: Value

    package init(_ value: Value) { self.value = value }
}
