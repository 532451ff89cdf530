// swift-tools-version: 6.0
import PackageDescription

// The SDK alone, as its archive has it. It needs no C library, and no other package.
let parts = ["Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance"]

// The facades under the names of the vendors' modules: an app keeps its import lines.
let modules = [
    "mParticle_Apple_SDK": "OnymMParticle", "Owlmetry": "OnymOwl", "Qonversion": "OnymQonversion",
    "SENTSDK": "OnymSentiance",
]

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "onym-sdk",
    platforms: [.iOS(.v15), .tvOS(.v15), .watchOS(.v8), .macOS(.v12), .visionOS(.v1)],
    products: (parts + ["OnymTesting"] + modules.keys.sorted()).map { .library(name: $0, targets: [$0]) },
    targets: parts.map { name in
        .target(
            name: name, dependencies: name == "Onym" ? [] : ["Onym"], resources: [.process("PrivacyInfo.xcprivacy")],
            swiftSettings: settings)
    }
        + [.target(name: "OnymTesting", dependencies: ["Onym"], swiftSettings: settings)]
        + modules.sorted { $0.key < $1.key }.map { name, facade in
            .target(name: name, dependencies: [.target(name: facade)], swiftSettings: settings)
        })
