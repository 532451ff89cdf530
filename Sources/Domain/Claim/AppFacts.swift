/// The facts about an app that its uploads tell: its newest version, and its languages.
package struct AppFacts: Equatable, Sendable {
    package private(set) var version: String?
    /// The moment at which the newest version came first.
    package private(set) var versionAt: Instant?
    /// A list as JSON.
    package private(set) var languages: String?

    fileprivate init() {}

    fileprivate static func key(of app: AppID) -> DocumentKey { DocumentKey(.appFacts, of: app.rawValue) }

    /// Takes the facts of an upload; returns whether a fact changed. Development builds have versions that users do not have.
    fileprivate mutating func take(_ sighting: AppUser.Sighting, at moment: Instant) -> Bool {
        let before = self
        if sighting.isDevelopment != true, let new = sighting.fields[.appVersion],
            version.map({ AppVersion.isNewer(new, than: $0) }) ?? true
        {
            (version, versionAt) = (new, moment)
        }
        if let new = sighting.fields[.supportedLanguages] { languages = new }
        return self != before
    }

    fileprivate var packed: [UInt8] {
        var packer = Packer()
        packer.add(version.map { Array($0.utf8) })
        packer.add(versionAt ?? Instant(milliseconds: 0))
        packer.add(languages.map { Array($0.utf8) })
        return packer.bytes
    }

    fileprivate init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let version = unpacker.optionalBytes(), let versionAt = unpacker.instant(),
            let languages = unpacker.optionalBytes(), unpacker.isAtEnd
        else { return nil }
        self.version = version.map { String(decoding: $0, as: UTF8.self) }
        self.versionAt = version == nil ? nil : versionAt
        self.languages = languages.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// The changes of app facts by an upload.
struct AppFactsNoting {
    private var known: [AppID: (facts: AppFacts, isNew: Bool)] = [:]

    mutating func note<V: DecisionFacts>(_ sighting: AppUser.Sighting, at moment: Instant, _ view: V) {
        if sighting.fields[.appVersion] == nil, sighting.fields[.supportedLanguages] == nil { return }
        let stored = view.document(AppFacts.key(of: sighting.app)).flatMap(AppFacts.init(packed:))
        var entry = known[sighting.app] ?? (stored ?? AppFacts(), false)
        if entry.facts.take(sighting, at: moment) { entry.isNew = true }
        known[sighting.app] = entry
    }

    var changes: [Change] {
        known.sorted { $0.key.rawValue < $1.key.rawValue }.filter(\.value.isNew).map { app, entry in
            .documentPut(AppFacts.key(of: app), .nobody, entry.facts.packed)
        }
    }
}

/// The order of the versions of an app.
package enum AppVersion {
    /// Whether a version comes after another version, part by part: 1.10 comes after 1.9. Missing parts count as zero. A part that
    /// is no number comes before a number, so 2.0-beta comes before 2.0.
    package static func isNewer(_ version: String, than other: String) -> Bool {
        let (one, two) = (parts(version), parts(other))
        for place in 0..<max(one.count, two.count) {
            let (a, b) = (place < one.count ? one[place] : .number("0"), place < two.count ? two[place] : .number("0"))
            if a != b { return b < a }
        }
        return false
    }

    private enum Part: Comparable {
        case text(String)
        /// Digits without zeros at the beginning; a version may have more digits than an integer.
        case number(String)

        static func < (one: Part, other: Part) -> Bool {
            switch (one, other) {
            case (.text(let a), .text(let b)): a.utf8.lexicographicallyPrecedes(b.utf8)
            case (.text, .number): true
            case (.number, .text): false
            case (.number(let a), .number(let b)):
                a.utf8.count != b.utf8.count ? a.utf8.count < b.utf8.count : a.utf8.lexicographicallyPrecedes(b.utf8)
            }
        }
    }

    private static func parts(_ version: String) -> [Part] {
        version.split { $0 == "." || $0 == "-" || $0 == "+" || $0 == "_" || $0 == " " }.map { part in
            guard part.utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 }) else { return .text(String(part)) }
            let digits = part.drop { $0 == "0" }
            return .number(digits.isEmpty ? "0" : String(digits))
        }
    }
}

extension Snapshot {
    /// The facts about an app; nil before the first upload.
    package func appFacts(_ app: AppID) throws(StoreFault) -> AppFacts? {
        try document(AppFacts.key(of: app)).flatMap(AppFacts.init(packed:))
    }
}
