// swift-tools-version: 6.0
import PackageDescription

// The SDK alone, as its archive has it. It needs no C library, and no other package.
let parts = ["Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance"]

let package = Package(
    name: "onym-sdk",
    platforms: [.iOS(.v15), .tvOS(.v15), .watchOS(.v8), .macOS(.v12), .visionOS(.v1)],
    products: parts.map { .library(name: $0, targets: [$0]) },
    targets: parts.map { name in
        .target(
            name: name, dependencies: name == "Onym" ? [] : ["Onym"], resources: [.process("PrivacyInfo.xcprivacy")],
            swiftSettings: [
                .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
                .enableUpcomingFeature("MemberImportVisibility"),
            ])
    })
