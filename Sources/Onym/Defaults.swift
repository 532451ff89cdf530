public import Foundation

extension Configuration {
    /// Where the server is, for apps whose vendor never asked them: `OnymEndpoint` in the app's Info.plist, or the
    /// environment's `ONYM_ENDPOINT`.
    public static var defaultEndpoint: URL? { text("OnymEndpoint", "ONYM_ENDPOINT").flatMap(URL.init(string:)) }

    /// The key that an app of some vendor gives elsewhere than in its code: `OnymKey`, or `ONYM_KEY`.
    public static var defaultKey: String? { text("OnymKey", "ONYM_KEY") }

    private static func text(_ entry: String, _ variable: String) -> String? {
        (Bundle.main.object(forInfoDictionaryKey: entry) as? String) ?? ProcessInfo.processInfo.environment[variable]
    }
}
