import Foundation
import Testing

/// What Apple wants an SDK to say of itself, in a file of each product.
@Suite("The privacy manifests")
struct PrivacyManifestTests {
    private static let products = ["Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance"]

    private static var sources: URL {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources")
    }

    private func manifest(_ product: String) throws -> [String: Any] {
        let data = try Data(
            contentsOf: PrivacyManifestTests.sources.appending(path: "\(product)/PrivacyInfo.xcprivacy"))
        return try #require(PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any])
    }

    /// The kinds of API that need a reason, and how they look in sources.
    private static let needed: [(category: String, pattern: String)] = [
        ("UserDefaults", #"\bUserDefaults\b"#),
        (
            "FileTimestamp",
            #"\b(creationDate|modificationDate|fileModificationDate|contentModificationDateKey|creationDateKey|attributesOfItem|getattrlist\w*|fgetattrlist|f?l?stat(at)?\()"#
        ),
        ("SystemBootTime", #"\b(systemUptime|mach_absolute_time)\b"#),
        (
            "DiskSpace",
            #"\b(volumeAvailableCapacity\w*|volumeTotalCapacityKey|systemFreeSize|systemSize|statv?fs|fstatv?fs)\b"#
        ), ("ActiveKeyboards", #"\bactiveInputModes\b"#),
    ]

    /// The categories that a text needs a reason for.
    private func categories(_ text: String) -> Set<String> {
        Set(
            PrivacyManifestTests.needed.filter { text.range(of: $0.pattern, options: .regularExpression) != nil }
                .map(\.category))
    }

    @Test("name a reason for each kind of API that the sources use, and none besides", arguments: products)
    func reasons(product: String) throws {
        let folder = PrivacyManifestTests.sources.appending(path: product)
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var used: Set<String> = []
        var count = 0
        for case let file as URL in files where file.pathExtension == "swift" {
            used.formUnion(categories(try String(contentsOf: file, encoding: .utf8)))
            count += 1
        }
        #expect(count > 0)
        let entries = try #require(try manifest(product)["NSPrivacyAccessedAPITypes"] as? [[String: Any]])
        var named: [String: [String]] = [:]
        for entry in entries {
            let type = try #require(entry["NSPrivacyAccessedAPIType"] as? String)
            named[type] = entry["NSPrivacyAccessedAPITypeReasons"] as? [String] ?? []
        }
        let prefix = "NSPrivacyAccessedAPICategory"
        for category in used { #expect(named[prefix + category]?.isEmpty == false, "\(category) has no reason") }
        // A facade reads no API itself: it says what the core below it does.
        #expect(named == ["\(prefix)UserDefaults": ["CA92.1", "1C8F.1"]])
    }

    @Test(
        "a look at the sources finds each kind of API",
        arguments: [
            ("UserDefaults.standard", "UserDefaults"), ("try manager.attributesOfItem(atPath: x)", "FileTimestamp"),
            ("stat(path, &info)", "FileTimestamp"), ("ProcessInfo.processInfo.systemUptime", "SystemBootTime"),
            ("values.volumeAvailableCapacityForImportantUsage", "DiskSpace"),
            ("UITextInputMode.activeInputModes", "ActiveKeyboards"),
        ])
    func look(text: String, category: String) {
        #expect(categories(text) == [category])
        #expect(categories("let defaults = state(of: statement)").isEmpty)
    }

    @Test("say what is collected, for whom and what for, and that nobody is tracked", arguments: products)
    func collected(product: String) throws {
        let manifest = try manifest(product)
        #expect(manifest["NSPrivacyTracking"] as? Bool == false)
        #expect((manifest["NSPrivacyTrackingDomains"] as? [String])?.isEmpty == true)
        let types = try #require(manifest["NSPrivacyCollectedDataTypes"] as? [[String: Any]])
        var purposes: [String: Set<String>] = [:]
        for type in types {
            let name = try #require(type["NSPrivacyCollectedDataType"] as? String)
            #expect(type["NSPrivacyCollectedDataTypeLinked"] as? Bool == true)
            #expect(type["NSPrivacyCollectedDataTypeTracking"] as? Bool == false)
            purposes[String(name.dropFirst("NSPrivacyCollectedDataType".count))] = Set(
                (type["NSPrivacyCollectedDataTypePurposes"] as? [String] ?? []).map {
                    String($0.dropFirst("NSPrivacyCollectedDataTypePurpose".count))
                })
        }
        #expect(
            purposes == [
                "UserID": ["AppFunctionality", "Analytics"], "DeviceID": ["AppFunctionality", "Analytics"],
                "ProductInteraction": ["Analytics"], "PurchaseHistory": ["AppFunctionality"],
            ])
    }
}
