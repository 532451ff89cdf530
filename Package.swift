// swift-tools-version: 6.0
import PackageDescription

// Four rings; an arrow may only point inward, and adapters never import each other (docs/architecture.md).
// Every target is built in Swift 6 mode with strict memory safety, and a warning is an error. The SDK is in this manifest too, so
// the manifest says what apps need: tools 6.0 and old platforms. The settings of newer tools are flags here.

let settings: [SwiftSetting] = [
    .unsafeFlags(["-strict-memory-safety"]),
    .unsafeFlags(["-warnings-as-errors"]),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    // The libraries for concurrency and for regular expressions are 2 MB of a static program, which uses neither
    // (docs/decisions/0078).
    .unsafeFlags([
        "-Xfrontend", "-disable-implicit-concurrency-module-import",
        "-Xfrontend", "-disable-implicit-string-processing-module-import",
    ]),
    // Overlapping accesses are found by the compiler where it can, and at run time in debug builds, which all tests run
    // in too. Looking for them at run time in release costs every request some 3 %.
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
    // The linker can leave out single functions.
    .unsafeFlags(["-Xfrontend", "-function-sections"], .when(configuration: .release)),
]

/// Parts in which no call of an app spends its time: the compiler makes them small, and not fast.
let settingsOfCold = settings + [.unsafeFlags(["-Osize"], .when(configuration: .release))]

/// A release run of the tests looks for what the optimizer does to the sources. The tests themselves are not optimized: that took
/// longer than to run them.
let plainTests = SwiftSetting.unsafeFlags(["-Onone"], .when(configuration: .release))

/// Tests handle C only to compare with it, and look at what their kit has put together: there, marking what is unsafe and
/// importing what a kit has imported protects nothing.
let benchSettings: [SwiftSetting] = [
    .unsafeFlags(["-warnings-as-errors"]),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]
let testSettings = benchSettings + [plainTests]

/// A Swift target and the targets it may import.
func ring(
    _ name: String, _ imports: [Target.Dependency] = [], notes: [String] = [], isCold: Bool = false
) -> Target {
    .target(
        name: name, dependencies: imports, exclude: notes, swiftSettings: isCold ? settingsOfCold : settings)
}

/// How the program for machines without the toolchain is linked. Packed relocations take 1.3 MB less; they need the C library of
/// Debian 12 (2.36), which the package needs anyway, and the linker lld. The tables for unwinding take 3.4 MB, and nothing needs
/// them: no code here throws a C++ exception, and debuggers list calls by frame pointers (docs/decisions/0078).
let staticFlags =
    ["-static-stdlib", "-use-ld=lld"]
    + ["-z", "pack-relative-relocs", "--no-eh-frame-hdr", "-T", "\(Context.packageDirectory)/Tools/static.ld"]
    .flatMap { ["-Xlinker", $0] }

/// Where the SDK itself is developed, a warning is an error there too (`make` sets ONYM_STRICT). SwiftPM refuses an app whose
/// dependency has unsafe flags.
let strict: [SwiftSetting] =
    Context.environment["ONYM_STRICT"] == nil ? [] : [.unsafeFlags(["-warnings-as-errors"])]

/// The SDK is for others to build, with their own compiler: it has no flags but these.
let clientSettings: [SwiftSetting] =
    strict + [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]

/// A part of the SDK: Foundation, and nothing of the server.
func client(_ name: String, _ imports: [Target.Dependency] = []) -> Target {
    .target(
        name: name, dependencies: imports, resources: [.process("PrivacyInfo.xcprivacy")],
        swiftSettings: clientSettings)
}

/// The module of a vendor's name, which is a facade under another name.
func vendor(_ name: String, _ facade: String) -> Target {
    .target(name: name, dependencies: [.target(name: facade)], swiftSettings: clientSettings)
}

/// An app of one facade.
func example(_ name: String, _ facade: Target.Dependency) -> Target {
    .executableTarget(
        name: "example-\(name.lowercased())", dependencies: [facade, "Onym"], path: "Examples/\(name)",
        swiftSettings: [.unsafeFlags(["-warnings-as-errors"]), .enableUpcomingFeature("ExistentialAny")])
}

/// The tests of a facade, which hold an app's code as its vendor's pages have it: that names `Error` without `any`, and uses what
/// is deprecated by now.
func facadeTests(_ name: String, _ module: String) -> Target {
    .testTarget(
        name: "\(name)Tests", dependencies: [.target(name: name), .target(name: module), "ClientKit", "Onym"],
        swiftSettings: [
            .unsafeFlags(["-warnings-as-errors"]), .unsafeFlags(["-Wwarning", "DeprecatedDeclaration"]),
            .enableUpcomingFeature("InternalImportsByDefault"), plainTests,
        ])
}

/// The tests of one target, which mirror its sources.
func tests(_ name: String, _ imports: [Target.Dependency] = [], files: [String] = []) -> Target {
    .testTarget(
        name: "\(name)Tests", dependencies: [.target(name: name)] + imports, exclude: files,
        swiftSettings: testSettings)
}

let package = Package(
    name: "onym",
    platforms: [.macOS(.v12), .iOS(.v15), .tvOS(.v15), .watchOS(.v8), .visionOS(.v1)],
    products: [
        .library(name: "Onym", targets: ["Onym"]),
        .library(name: "OnymMParticle", targets: ["OnymMParticle"]),
        .library(name: "OnymOwl", targets: ["OnymOwl"]),
        .library(name: "OnymQonversion", targets: ["OnymQonversion"]),
        .library(name: "OnymSentiance", targets: ["OnymSentiance"]),
        // What an app's own tests and previews need.
        .library(name: "OnymTesting", targets: ["OnymTesting"]),
        // The same facades under the names of the vendors' modules.
        .library(name: "mParticle_Apple_SDK", targets: ["mParticle_Apple_SDK"]),
        .library(name: "Owlmetry", targets: ["Owlmetry"]),
        .library(name: "Qonversion", targets: ["Qonversion"]),
        .library(name: "SENTSDK", targets: ["SENTSDK"]),
    ],
    targets: [
        // C libraries: a module map and what Swift cannot import.
        .systemLibrary(name: "CLinux", path: "Sources/CLinux"),
        .systemLibrary(name: "CUV", path: "Sources/CUV", pkgConfig: "libuv", providers: [.apt(["libuv1-dev"])]),
        .systemLibrary(
            name: "COpenSSL", path: "Sources/COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CCurl", path: "Sources/CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CZlib", path: "Sources/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(
            name: "CSQLite", path: "Sources/CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CPostgres", path: "Sources/CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .target(name: "CSimdJSON", linkerSettings: [.linkedLibrary("simdjson")]),

        // What the benchmarks compare with: the engine and the store without HTTP.
        .executableTarget(
            name: "bench-store",
            dependencies: ["Domain", "Engine", "Postgres", "StorePostgres", "StoreSQLite"], path: "Benchmarks/Store",
            swiftSettings: benchSettings),

        .executableTarget(
            name: "bench-readers", dependencies: ["VendorFiles"], path: "Benchmarks/Readers",
            swiftSettings: benchSettings),

        // What the SDK costs an app.
        .executableTarget(
            name: "bench-sdk", dependencies: ["Onym"], path: "Benchmarks/SDK", swiftSettings: benchSettings),
        // Two apps that differ in the SDK alone.
        .executableTarget(
            name: "size-with", dependencies: ["Onym"], path: "Benchmarks/SizeWith", swiftSettings: benchSettings),
        .executableTarget(name: "size-without", path: "Benchmarks/SizeWithout", swiftSettings: benchSettings),

        // The domain imports nothing, not even Foundation: no I/O, no clock, no chance.
        ring("Domain", ["Threads"]),
        // The writer: batches, replays, recovery. No SQL, no HTTP.
        ring("Engine", ["Domain", "Threads"]),
        // The leaves of the tree over the journal, which all stores on disk keep. No SQL.
        ring("Leaves", ["Crypto", "Domain"]),

        // Programs: what puts the parts together.
        // With ONYM_STATIC it has Swift's libraries in it, for machines without the toolchain (Tools/build). Tests do not link so.
        .executableTarget(
            name: "onym", dependencies: ["Program"], swiftSettings: settings,
            linkerSettings: Context.environment["ONYM_STATIC"] == nil ? [] : [.unsafeFlags(staticFlags)]),
        ring(
            "Program",
            [
                "ByteText", "CLinux", "CivilTime", "Compression", "Console", "ContentFiles", "Copies", "Crypto",
                "Delivery", "DialectClaim", "DialectEntitlements", "Docs",
                "DialectIDSync",
                "DialectLinking",
                "DialectNative",
                "Domain", "Engine",
                "EventLoop",
                "Gateway", "HTTPMessage", "HTTPServer", "Invocation", "JSON", "Outbound", "SQLite", "StorePostgres",
                "StoreSQLite", "TLS",
                "Telemetry", "Threads", "VendorFiles",
            ], isCold: true),

        // The way of a request through a dialect and the engine, and what dialects are made of.
        ring(
            "Gateway",
            [
                "ByteText", "CExamples", "ContentFiles", "Crypto", "Disk", "Domain", "Engine", "HTTPMessage",
                "HTTPServer", "JSON", "Outbound", "Telemetry", "Threads",
            ]),

        // Adapters: none knows another.
        ring(
            "DialectIDSync",
            [
                "ByteText", "CivilTime", "Crypto", "Domain", "Gateway", "HTTPMessage", "HTTPServer", "JSON", "Threads",
            ]),
        ring(
            "DialectClaim",
            [
                "ByteText", "CivilTime", "Compression", "Crypto", "Domain", "Engine", "Gateway", "HTTPMessage",
                "HTTPServer", "JSON",
                "Outbound", "Threads",
            ]),
        ring(
            "DialectEntitlements",
            [
                "ByteText", "CivilTime", "Crypto", "Domain", "Engine", "Gateway", "HTTPMessage", "HTTPServer", "JSON",
                "Outbound", "Threads",
            ]),
        ring(
            "DialectLinking",
            [
                "ByteText", "CivilTime", "Crypto", "Domain", "Gateway", "HTTPMessage", "HTTPServer", "JSON", "Threads",
            ]),
        ring(
            "DialectNative",
            [
                "ByteText", "CivilTime", "Crypto", "Domain", "Gateway", "HTTPMessage", "HTTPServer", "JSON", "Threads",
            ], isCold: true),
        ring("Delivery", ["ByteText", "Domain", "Engine", "Outbound", "Threads"], isCold: true),
        ring("StoreMemory", ["Domain", "Threads"]),
        ring("StorePostgres", ["ByteText", "Crypto", "Domain", "Leaves", "Postgres", "Threads"], notes: ["DESIGN.md"]),
        ring("StoreSQLite", ["Crypto", "Disk", "Domain", "Leaves", "SQLite", "Threads"], notes: ["DESIGN.md"]),

        // The SDK, and its facades for apps that already speak to one of four vendors.
        client("Onym"),
        client("OnymMParticle", ["Onym"]),
        client("OnymOwl", ["Onym"]),
        client("OnymQonversion", ["Onym"]),
        client("OnymSentiance", ["Onym"]),
        .target(name: "OnymTesting", dependencies: ["Onym"], swiftSettings: clientSettings),
        vendor("mParticle_Apple_SDK", "OnymMParticle"),
        vendor("Owlmetry", "OnymOwl"),
        vendor("Qonversion", "OnymQonversion"),
        vendor("SENTSDK", "OnymSentiance"),

        // Apps that show what the facades do, step by step.
        example("IDSync", "OnymMParticle"),
        example("Claim", "OnymOwl"),
        example("Entitlements", "OnymQonversion"),
        example("Linking", "OnymSentiance"),

        // Mechanisms: each does one technical thing and knows nothing of identity.
        ring("ByteText"),
        ring("CivilTime", ["ByteText"]),
        ring("Threads", ["CLinux"]),
        ring("EventLoop", ["CUV", "Threads"]),
        ring("TLS", ["COpenSSL"]),
        ring("Crypto", ["COpenSSL", "Threads"]),
        ring("Compression", ["CZlib", "Threads"]),
        // Examples of calls, in the description of the API.
        .target(name: "CExamples", exclude: ["files"]),
        // The files for browsers, in the program: the console, and the Markdown of the documentation, of which a site is made.
        .target(name: "CFiles", exclude: ["console", "docs"]),
        ring(
            "BrowserFiles", ["ByteText", "CFiles", "Compression", "Crypto", "HTTPMessage", "HTTPServer"], isCold: true),
        ring("Console", ["BrowserFiles", "ByteText", "Gateway", "HTTPMessage", "HTTPServer"], isCold: true),
        ring(
            "Docs", ["BrowserFiles", "ByteText", "Gateway", "HTTPMessage", "HTTPServer", "Threads"], isCold: true),
        ring("ContentFiles", ["ByteText", "Crypto", "Disk", "Threads"]),
        ring("Copies", ["ByteText", "Compression", "Crypto", "JSON", "SQLite"], isCold: true),
        ring("JSON", ["ByteText", "CSimdJSON", "Threads"]),
        ring("Disk", ["CLinux"]),
        ring("SQLite", ["CSQLite", "Disk"]),
        ring("Postgres", ["CPostgres"]),
        ring("Invocation", isCold: true),
        ring("Outbound", ["CCurl", "Threads"]),
        ring("Telemetry", ["ByteText", "CivilTime", "JSON"]),
        ring("VendorFiles", ["ByteText", "CivilTime", "JSON"], isCold: true),
        ring("HTTPMessage", ["ByteText"]),
        ring(
            "HTTPServer",
            ["ByteText", "CivilTime", "Compression", "EventLoop", "HTTPMessage", "TLS", "Threads"]),

        // Tests mirror the sources; what they share is a kit of its own.
        .systemLibrary(
            name: "CHTTPParser", path: "Sources/CHTTPParser", pkgConfig: nil, providers: [.apt(["libhttp-parser-dev"])]),
        // A disk in memory that loses and tears what was not synced, below SQLite and beside it.
        .target(
            name: "CFaultyDisk", path: "Tests/CFaultyDisk",
            linkerSettings: [.linkedLibrary("sqlite3"), .linkedLibrary("crypto")]),
        .target(
            name: "FaultyDisk", dependencies: ["CFaultyDisk", "Disk"], path: "Tests/FaultyDisk",
            swiftSettings: testSettings),
        .target(
            name: "TestKit",
            dependencies: [
                "ByteText", "ContentFiles", "Crypto", "DialectClaim", "DialectIDSync", "Domain", "Engine", "EventLoop",
                "FaultyDisk", "Gateway",
                "JSON",
                "Program",
                "SQLite", "StoreMemory",
                "StorePostgres", "StoreSQLite",
                "Telemetry", "Threads",
            ],
            path: "Tests/TestKit", swiftSettings: testSettings),
        .testTarget(
            name: "StoreContractTests",
            dependencies: ["Domain", "Engine", "FaultyDisk", "SQLite", "StoreSQLite", "TestKit"],
            swiftSettings: testSettings),
        // What somebody can do who has nothing but the keys that are in everybody's hands.
        .testTarget(
            name: "SignedIdentityTests",
            dependencies: ["ByteText", "Crypto", "DialectClaim", "Domain", "Gateway", "Program", "TestKit"],
            swiftSettings: testSettings),
        .testTarget(
            name: "SimulationTests", dependencies: ["Domain", "Engine", "StoreSQLite", "TestKit"],
            swiftSettings: testSettings),
        // Stores over a disk that fails.
        .testTarget(
            name: "FaultyDiskTests",
            dependencies: ["Disk", "Domain", "Engine", "FaultyDisk", "Program", "StoreSQLite", "TestKit"],
            swiftSettings: testSettings),
        // A server's life from one seed, and the program that replays a seed.
        .target(
            name: "OneSeed",
            dependencies: [
                "ByteText", "CFaultyDisk", "ContentFiles", "Crypto", "DialectIDSync", "Domain", "Engine", "EventLoop",
                "FaultyDisk", "Gateway",
                "Program", "StoreSQLite", "TestKit",
            ],
            path: "Tests/OneSeed", swiftSettings: testSettings),
        .executableTarget(
            name: "onym-world", dependencies: ["CFaultyDisk", "OneSeed"], path: "Tests/OnymWorld",
            swiftSettings: testSettings),
        // Stand-ins for app stores, for whoever tries purchases.
        .executableTarget(
            name: "onym-stores", dependencies: ["ByteText", "Crypto", "TestKit", "Threads"], path: "Tests/OnymStores",
            swiftSettings: testSettings),
        .testTarget(
            name: "WorldTests", dependencies: ["Domain", "OneSeed", "TestKit"],
            swiftSettings: testSettings),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "ClientKit", "Domain", "Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance", "Program",
                "SQLite",
                "StorePostgres", "TestKit", "Threads",
                "example-claim",
                "example-entitlements",
                "example-idsync",
                "example-linking", "onym", "onym-stores", "sdk-host",
            ],
            exclude: ["Clients", "VendorNames"], swiftSettings: testSettings),
        // What developers run, `Tools/...`.
        .testTarget(name: "ToolsTests", dependencies: ["TestKit"], swiftSettings: testSettings),
        .target(
            name: "ClientKit", dependencies: ["Onym", "OnymTesting", "TestKit"], path: "Tests/ClientKit",
            swiftSettings: testSettings),
        // An app of the SDK that tests kill.
        .executableTarget(
            name: "sdk-host", dependencies: ["Onym"], path: "Tests/SDKHost", swiftSettings: testSettings),
        tests("Onym", ["ClientKit", "Compression", "Crypto", "OnymTesting", "TestKit"]),
        facadeTests("OnymMParticle", "mParticle_Apple_SDK"),
        facadeTests("OnymOwl", "Owlmetry"),
        facadeTests("OnymQonversion", "Qonversion"),
        facadeTests("OnymSentiance", "SENTSDK"),
        tests("ByteText", ["TestKit"]),
        tests("CivilTime", ["TestKit"]),
        tests("Compression", ["TestKit"]),
        tests("Console", ["BrowserFiles", "Compression", "TestKit"]),
        tests("ContentFiles", ["ByteText", "FaultyDisk", "TestKit"]),
        tests("Docs", ["BrowserFiles", "Console", "TestKit"]),
        tests("Copies", ["ByteText", "Compression", "Crypto", "Domain", "Engine", "SQLite", "StoreSQLite", "TestKit"]),
        tests("Crypto", ["ByteText", "TestKit"]),
        tests(
            "DialectIDSync",
            [
                "ByteText", "CivilTime", "Compression", "Crypto", "Domain", "EventLoop", "Gateway", "HTTPMessage",
                "HTTPServer", "SQLite", "StoreMemory", "TestKit", "Threads",
            ]),
        tests("DialectClaim", ["ByteText", "Compression", "Crypto", "Domain", "Outbound", "TestKit", "Threads"]),
        tests(
            "DialectEntitlements",
            ["ByteText", "CivilTime", "Crypto", "Domain", "Gateway", "Outbound", "TestKit", "Threads"]),
        tests("DialectLinking", ["ByteText", "Crypto", "Domain", "Gateway", "Program", "TestKit"]),
        tests(
            "DialectNative",
            [
                "ByteText", "Crypto", "DialectIDSync", "EventLoop", "Domain", "Gateway", "HTTPMessage", "HTTPServer",
                "JSON", "StoreSQLite", "TestKit", "Threads",
            ]),
        tests("Domain", ["TestKit"]),
        tests("Program", ["DialectIDSync", "Domain", "Engine", "SQLite", "StoreSQLite", "TestKit", "Threads"]),
        tests("Engine", ["Domain", "StoreMemory", "TestKit", "Threads"]),
        tests("StoreSQLite", ["Crypto", "Domain", "SQLite", "TestKit"]),
        tests(
            "StorePostgres", ["Crypto", "Domain", "Engine", "Postgres", "StoreSQLite", "TestKit", "Threads"],
            files: ["Version1.sql"]),
        tests("Postgres", ["TestKit", "Threads"]),
        tests("Gateway", ["ByteText", "Disk", "Domain", "HTTPMessage", "HTTPServer", "TestKit", "Threads"]),
        tests("Invocation"),
        tests("Outbound", ["HTTPServer", "TLS", "TestKit", "Threads"]),
        tests("JSON"),
        tests("Telemetry", ["Threads"]),
        tests("Threads"),
        tests("VendorFiles", files: ["Samples"]),
        tests("HTTPServer", ["Compression", "EventLoop", "HTTPMessage", "TLS", "TestKit", "Threads"]),
        tests("HTTPMessage", ["ByteText", "CHTTPParser", "TestKit"]),
    ],
    swiftLanguageModes: [.v6],
    // The console's files come into the program by #embed, which C23 has.
    cLanguageStandard: .c2x,
    cxxLanguageStandard: .cxx17
)

// The fuzzer, only when it is asked for: it links with what the compiler brings along under `--sanitize fuzzer` alone.
if Context.environment["ONYM_FUZZ"] != nil {
    package.targets += [
        .executableTarget(
            name: "fuzz", dependencies: ["HTTPMessage", "JSON"], path: "Tests/Fuzz",
            exclude: ["messages.dict", "json.dict"],
            swiftSettings: benchSettings + [.unsafeFlags(["-parse-as-library"])])
    ]
}

/// With ONYM_TESTS=DialectClaimTests only some test targets are built: `make test ONLY=DialectClaimTests`.
if let only = Context.environment["ONYM_TESTS"] {
    let names = only.split(separator: ",").map(String.init)
    package.targets.removeAll { $0.type == .test && !names.contains($0.name) }
}
