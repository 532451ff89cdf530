import Outbound

/// Checks the addresses that a project wants the server to call.
package enum WebAddress {
    /// Whether a text is a complete address of HTTP or HTTPS, so that the server can call it.
    package static func isWhole(_ text: String) -> Bool { OutboundURL(text) != nil }
}
