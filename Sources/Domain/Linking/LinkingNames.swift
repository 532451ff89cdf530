/// The id of an install: a copy of an app on a device. The server never reuses it.
package struct InstallID: Hashable, Comparable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }

    package static func < (one: InstallID, other: InstallID) -> Bool { one.rawValue < other.rawValue }

    /// The id for clients.
    package var text: String { HexadecimalName.text(rawValue, isInstall: true) }

    package init?(text: String) {
        guard let number = HexadecimalName.number(text, isInstall: true) else { return nil }
        rawValue = number
    }

    package init(_ value: UInt64) { rawValue = Int64(bitPattern: value) }
}

extension PersonID {
    /// The person's id for clients of the Linking dialect.
    package var linkingText: String { HexadecimalName.text(rawValue, isInstall: false) }

    package init?(linkingText text: String) {
        guard let number = HexadecimalName.number(text, isInstall: false) else { return nil }
        self.init(rawValue: number)
    }
}

/// Ids in the form of the dialect's clients: 24 lower-case hexadecimal digits that begin with a time.
///
///     32 bits: seconds since 1970 | 1 bit: an install's | 63 bits: the number
///
/// So an install's id never equals a user's id, and an id with a wrong digit is mostly invalid.
enum HexadecimalName {
    static func text(_ number: Int64, isInstall: Bool) -> String {
        let seconds = UInt64(bitPattern: PersonID(rawValue: number).madeAt.milliseconds / 1000) & 0xFFFF_FFFF
        let rest = UInt64(bitPattern: number) & ~mark | (isInstall ? mark : 0)
        return digits(seconds, 8) + digits(rest, 16)
    }

    static func number(_ text: String, isInstall: Bool) -> Int64? {
        guard text.utf8.count == 24, let rest = UInt64(text.suffix(16), radix: 16) else { return nil }
        let number = Int64(bitPattern: rest & ~mark)
        return self.text(number, isInstall: isInstall) == text ? number : nil
    }

    private static let mark: UInt64 = 1 << 63

    private static func digits(_ value: UInt64, _ count: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: count - text.count) + text
    }
}
