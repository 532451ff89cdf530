public import Foundation

extension Configuration {
    /// The server's address, for apps whose vendor's SDK had no such setting: `OnymEndpoint` in the app's Info.plist, or the
    /// environment's `ONYM_ENDPOINT`.
    public static var defaultEndpoint: URL? { text("OnymEndpoint", "ONYM_ENDPOINT").flatMap(URL.init(string:)) }

    /// The key, for apps whose vendor's SDK does not get the key from code: `OnymKey` in the app's Info.plist, or `ONYM_KEY`.
    public static var defaultKey: String? { text("OnymKey", "ONYM_KEY") }

    private static func text(_ entry: String, _ variable: String) -> String? {
        (Bundle.main.object(forInfoDictionaryKey: entry) as? String) ?? ProcessInfo.processInfo.environment[variable]
    }
}
