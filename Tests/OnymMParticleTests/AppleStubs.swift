import Foundation

// What the seed's snippets use of Apple's frameworks.

final class UIApplication {
    struct LaunchOptionsKey: Hashable {
        let rawValue: String
    }
}

final class ASIdentifierManager: Sendable {
    private static let only = ASIdentifierManager()
    static func shared() -> ASIdentifierManager { only }
    let advertisingIdentifier = UUID()
}
