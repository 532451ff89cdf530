import Outbound

/// Addresses that a project has the server call.
package enum WebAddress {
    /// Whether a text is a whole address of HTTP or HTTPS: the server will be able to call it, if anybody is there.
    package static func isWhole(_ text: String) -> Bool { OutboundURL(text) != nil }
}
