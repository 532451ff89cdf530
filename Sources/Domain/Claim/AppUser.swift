/// The state of an app's user in the Claim dialect (spec/claim.md 2.1). Facts for all dialects are not in it.
package struct AppUser: Equatable, Sendable {
    /// A field of the user or of its device, with the last value. Stores keep the raw values, so a raw value never changes.
    package enum Field: UInt8, CaseIterable, Sendable {
        case countryCode = 1
        case appVersion = 2
        case sdkName = 3
        case sdkVersion = 4
        case locale = 5
        case preferredLanguage = 6
        /// A list as JSON.
        case supportedLanguages = 7
    }

    /// The first and the last use of an app.
    package struct Use: Equatable, Sendable {
        package var first: Instant
        package var last: Instant
    }

    package let person: PersonID
    /// The person whose id clients see as the user's id. A user that was anonymous before keeps the anonymous person's id.
    package internal(set) var idPerson: PersonID
    package internal(set) var firstSeen: Instant
    package internal(set) var lastSeen: Instant
    package internal(set) var apps: [AppID: Use] = [:]
    package internal(set) var fields: [Field: String] = [:]
    /// Whether the last upload that said so came from a development build; nil if no upload has said it. A claim says nothing.
    package internal(set) var development: Bool?
    package var isDevelopment: Bool { development ?? false }

    package init(of person: PersonID, at moment: Instant) {
        self.person = person
        idPerson = person
        firstSeen = moment
        lastSeen = moment
    }

    init?<V: DocumentFacts>(of person: PersonID, _ view: V) {
        guard let packed = view.document(DocumentKey(.appUser, of: person)) else { return nil }
        self.init(of: person, packed: packed)
    }

    var put: Change { .documentPut(DocumentKey(.appUser, of: person), person, packed) }

    /// The fields of a user in an upload.
    package struct Sighting: Equatable, Sendable {
        package var app: AppID
        package var fields: [Field: String] = [:]
        /// Whether the app is a development build; nil if the app does not say.
        package var isDevelopment: Bool?
        /// The moment of the oldest event, if it is in the past.
        package var since: Instant?

        package init(app: AppID) { self.app = app }
    }

    /// Applies the fields of an upload. Returns whether a field changed. The last sighting is kept to the minute, and with each change,
    /// because a group shows the field that was seen last.
    mutating func see(_ sighting: Sighting, at moment: Instant) -> Bool {
        var isNews = false
        for (field, value) in sighting.fields where fields[field] != value {
            fields[field] = value
            isNews = true
        }
        if let isDevelopment = sighting.isDevelopment, isDevelopment != development {
            development = isDevelopment
            isNews = true
        }
        let use = apps[sighting.app]
        let before = min(lastSeen, use?.last ?? lastSeen)
        guard isNews || use == nil || moment.milliseconds - before.milliseconds >= AppUser.granularityMilliseconds
        else { return false }
        lastSeen = max(lastSeen, moment)
        apps[sighting.app] = Use(first: use?.first ?? moment, last: max(use?.last ?? moment, moment))
        return true
    }

    /// Applies the fields of the user's group.
    package mutating func take(_ folded: FoldedAppUser) {
        if folded.isEmpty { return }
        (firstSeen, lastSeen, apps) = (folded.firstSeen, folded.lastSeen, folded.apps)
        (fields, development) = (folded.fields, folded.development)
    }

    private static let granularityMilliseconds: Int64 = 60_000

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: idPerson.rawValue))
        packer.add(firstSeen)
        packer.add(lastSeen)
        packer.add(development.map { $0 ? 1 : 0 } ?? 2 as UInt8)
        packer.add(UInt64(apps.count))
        for (app, use) in apps.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(UInt64(bitPattern: app.rawValue))
            packer.add(use.first)
            packer.add(use.last)
        }
        for (field, value) in fields.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(field.rawValue)
            packer.add(value)
        }
        return packer.bytes
    }

    package init?(of person: PersonID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let idPerson = unpacker.person(), let firstSeen = unpacker.instant(), let lastSeen = unpacker.instant(),
            let said = unpacker.byte(), let count = unpacker.integer()
        else { return nil }
        self.init(of: person, at: firstSeen)
        (self.idPerson, self.lastSeen) = (idPerson, lastSeen)
        development = said == 2 ? nil : said == 1
        for _ in 0..<count {
            guard let app = unpacker.integer(), let first = unpacker.instant(), let last = unpacker.instant()
            else { return nil }
            apps[AppID(rawValue: Int64(bitPattern: app))] = Use(first: first, last: last)
        }
        while !unpacker.isAtEnd {
            guard let field = unpacker.byte().flatMap(Field.init), let value = unpacker.text() else { return nil }
            fields[field] = value
        }
    }
}
