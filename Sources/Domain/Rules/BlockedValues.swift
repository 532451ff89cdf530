/// Values that programs send when they have no real value. Such values would connect strangers (spec/rules.md, section 2).
package struct BlockedValues: Equatable, Sendable {
    /// One rule about blocked values.
    package struct Matcher: Equatable, Sendable {
        package enum Test: Equatable, Sendable {
            /// The same bytes.
            case same(String, isAlsoQuoted: Bool)
            /// The same bytes, without the case of ASCII letters.
            case anyCase(String, isAlsoQuoted: Bool)
            case pattern(BlockedPattern)
            case contains(String)
            /// Nothing but white space.
            case blank
            /// Fewer or more Unicode scalars than a number.
            case shorterThan(Int)
            case longerThan(Int)
            case list(BlockedList)
        }

        package let test: Test
        /// The types of the values; nil for all types.
        package let types: IdentityTypeSet?

        package init(_ test: Test, types: IdentityTypeSet? = nil) {
            self.test = test
            self.types = types
        }

        /// The text of a matcher that blocks one value in any case and for all types.
        package var plain: String? {
            guard case .anyCase(let value, false) = test, types == nil else { return nil }
            return value
        }
    }

    /// The matchers. The matchers of plain texts come first.
    package let matchers: [Matcher]
    /// The values of plain texts, in their original form.
    package var values: [String] { matchers.compactMap(\.plain) }
    private let byLength: [Int: [[UInt8]]]
    /// One bit for each length below 64 of a value that is blocked for all types. Most values need only this check.
    private let lengths: UInt64
    /// The values that are blocked for all types in exactly this form. Texts with other bytes may be equal to Swift, so the matchers
    /// decide.
    private let exact: Set<String>
    private let same: [Matcher]
    /// The matchers that also block a value between quotes, which most values are not.
    private let quoted: [Matcher]
    /// The parts that no value of any type has, by their first bytes.
    private let parts: [UInt8: [[UInt8]]]
    /// One bit for each of these first bytes.
    private let firstBytes: [UInt64]
    /// The patterns for all types, by the first bytes of the values that they may match; the last list is for the empty value.
    private let patterns: [[BlockedPattern]]
    /// The matchers that need a look at each value.
    private let others: [Matcher]

    /// The limit of matchers, and the limits of bytes of one text.
    package static let countLimit = 1000
    package static let valueBytes = 1...63
    package static let patternsAtMost = 100
    package static let lengthRange = 1...4096

    /// Blocks some texts in any case.
    package init(_ values: some Sequence<String>) {
        self.init(values.map { Matcher(.anyCase($0, isAlsoQuoted: false)) })
    }

    package init(_ matchers: [Matcher]) {
        self.matchers = matchers.filter { $0.plain != nil } + matchers.filter { $0.plain == nil }
        let open = self.matchers.flatMap { matcher -> [Matcher] in
            guard case .list(let list) = matcher.test else { return [matcher] }
            return list.matchers.map { Matcher($0.test, types: matcher.types) }
        }
        let forAll = open.filter { $0.types == nil }
        let plain = forAll.compactMap { matcher -> [UInt8]? in
            guard case .anyCase(let text, _) = matcher.test else { return nil }
            return Array(text.utf8).map(BlockedValues.lowercased)
        }
        byLength = Dictionary(grouping: plain, by: \.count)
        lengths = plain.reduce(0) { $1.count < 64 ? $0 | 1 << UInt64($1.count) : $0 }
        exact = Set(forAll.compactMap { if case .same(let text, _) = $0.test { text } else { nil } })
        same = forAll.filter { if case .same = $0.test { true } else { false } }
        quoted = forAll.filter { matcher in
            switch matcher.test {
            case .same(_, let isAlsoQuoted), .anyCase(_, let isAlsoQuoted): isAlsoQuoted
            case .pattern, .contains, .blank, .shorterThan, .longerThan, .list: false
            }
        }
        let texts = forAll.compactMap { matcher -> [UInt8]? in
            if case .contains(let part) = matcher.test, !part.isEmpty { Array(part.utf8) } else { nil }
        }
        parts = Dictionary(grouping: texts) { $0[0] }
        var firstBytes: [UInt64] = [0, 0, 0, 0]
        for byte in parts.keys { firstBytes[Int(byte >> 6)] |= 1 << UInt64(byte & 63) }
        self.firstBytes = firstBytes
        let patterns = forAll.compactMap { if case .pattern(let pattern) = $0.test { pattern } else { nil } }
        self.patterns =
            patterns.isEmpty
            ? [] : (0..<256).map { byte in patterns.filter { $0.mayMatch(beginningWith: UInt8(byte)) } } + [patterns]
        others = open.filter { matcher in
            if matcher.types != nil { return true }
            switch matcher.test {
            case .same, .anyCase, .pattern: return false
            case .contains(let part): return part.isEmpty
            case .blank, .shorterThan, .longerThan, .list: return true
            }
        }
    }

    /// Whether a value of a type is blocked.
    package func contains(_ value: String, _ type: IdentityType) -> Bool {
        if containsPlain(value.utf8.span) { return true }
        if !exact.isEmpty, exact.contains(value), same.contains(where: { $0.blocks(value, type) }) { return true }
        if !patterns.isEmpty, patterns[value.utf8.first.map(Int.init) ?? 256].contains(where: { $0.matches(value) }) {
            return true
        }
        if !parts.isEmpty, containsPart(value.utf8.span) { return true }
        if !quoted.isEmpty, BlockedValues.isQuoted(value), quoted.contains(where: { $0.blocks(value, type) }) {
            return true
        }
        return !others.isEmpty && others.contains { $0.blocks(value, type) }
    }

    private static func isQuoted(_ value: String) -> Bool {
        value.utf8.count > 1 && (value.utf8.first == UInt8(ascii: "'") || value.utf8.first == UInt8(ascii: "\""))
    }

    private func containsPart(_ value: borrowing Span<UInt8>) -> Bool {
        for start in 0..<value.count {
            let byte = value[start]
            guard firstBytes[Int(byte >> 6)] & 1 << UInt64(byte & 63) != 0, let candidates = parts[byte] else {
                continue
            }
            for part in candidates where start + part.count <= value.count {
                var index = 1
                while index < part.count, value[start + index] == part[index] { index += 1 }
                if index == part.count { return true }
            }
        }
        return false
    }

    private func containsPlain(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard bytes.count < 64, lengths & 1 << UInt64(bytes.count) != 0, let candidates = byLength[bytes.count] else {
            return false
        }
        for candidate in candidates {
            var index = 0
            while index < bytes.count, BlockedValues.lowercased(bytes[index]) == candidate[index] { index += 1 }
            if index == bytes.count { return true }
        }
        return false
    }

    fileprivate static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// The blocked values of a project that has not changed them.
    package static let standard = BlockedValues(BlockedList.onymValues)
}

extension BlockedValues.Matcher {
    /// Whether the matcher blocks a value of a type.
    func blocks(_ value: String, _ type: IdentityType) -> Bool {
        if let types, !types.contains(type) { return false }
        switch test {
        case .same(let text, let isAlsoQuoted):
            return isEqual(value, text, isAlsoQuoted) { $0 }
        case .anyCase(let text, let isAlsoQuoted):
            return isEqual(value, text, isAlsoQuoted, BlockedValues.lowercased)
        case .pattern(let pattern): return pattern.matches(value)
        case .contains(let part): return contains(value.utf8.span, part.utf8.span)
        case .blank: return value.unicodeScalars.allSatisfy(\.properties.isWhitespace)
        case .shorterThan(let count): return value.unicodeScalars.prefix(count).count < count
        case .longerThan(let count): return value.unicodeScalars.prefix(count + 1).count > count
        case .list(let list): return list.matchers.contains { $0.blocks(value, type) }
        }
    }

    private func isEqual(_ value: String, _ text: String, _ isAlsoQuoted: Bool, _ form: (UInt8) -> UInt8) -> Bool {
        func equals(_ value: some Collection<UInt8>) -> Bool {
            value.count == text.utf8.count && zip(value, text.utf8).allSatisfy { form($0) == form($1) }
        }
        let bytes = value.utf8
        if equals(bytes) { return true }
        guard isAlsoQuoted, bytes.count >= 2, let first = bytes.first, first == bytes.last,
            first == UInt8(ascii: "'") || first == UInt8(ascii: "\"")
        else { return false }
        return equals(bytes.dropFirst().dropLast())
    }

    private func contains(_ value: borrowing Span<UInt8>, _ part: borrowing Span<UInt8>) -> Bool {
        guard value.count >= part.count else { return false }
        for start in 0...(value.count - part.count) {
            var index = 0
            while index < part.count, value[start + index] == part[index] { index += 1 }
            if index == part.count { return true }
        }
        return false
    }
}

/// A list of blocked values that a vendor publishes. The names are part of the API and stored.
package enum BlockedList: String, CaseIterable, Sendable {
    case onym, segment, posthog, revenuecat, mixpanel, amplitude, rudderstack, mparticle, snowplow

    static let onymValues = [
        "null", "(null)", "nil", "none", "nan", "undefined", "unknown", "anonymous", "guest", "0", "-1", "true",
        "false",
        "[object object]",
        "00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000",
        // A serial number that many old Android phones have in common.
        "9774d56d682e549c",
    ]
    private static let zeroUUID = "00000000-0000-0000-0000-000000000000"
    private static let mixpanelWords = [
        "anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "<nil>", "0", "-1", "true",
        "false", "[]", "{}", "lmy47d",
    ]

    private typealias Matcher = BlockedValues.Matcher

    private static func same(_ texts: [String], isAlsoQuoted: Bool = false) -> [Matcher] {
        texts.map { Matcher(.same($0, isAlsoQuoted: isAlsoQuoted)) }
    }

    private static func anyCase(_ texts: [String], isAlsoQuoted: Bool = false) -> [Matcher] {
        texts.map { Matcher(.anyCase($0, isAlsoQuoted: isAlsoQuoted)) }
    }

    /// The matchers of the list.
    package var matchers: [BlockedValues.Matcher] {
        switch self {
        case .onym, .mparticle, .snowplow: BlockedList.anyCase(BlockedList.onymValues)
        case .segment: BlockedList.zeros + BlockedList.same(["-1", "null", "anonymous"])
        case .posthog:
            BlockedList.anyCase(
                [
                    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email", "undefined",
                    "true", "false",
                ], isAlsoQuoted: true)
                + BlockedList.same(
                    ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"], isAlsoQuoted: true)
                + [Matcher(.blank)]
        case .revenuecat:
            BlockedList.same([
                "no_user", "null", "none", "nil", "(null)", "NaN", "\u{0}", "", "unidentified", "undefined", "unknown",
                "anonymous", "guest", "-1", "0", "[]", "{}", "[object Object]",
            ]) + [Matcher(.contains("/"))]
        case .mixpanel: BlockedList.same([BlockedList.zeroUUID] + BlockedList.mixpanelWords)
        case .amplitude:
            [Matcher(.shorterThan(5))] + BlockedList.same([BlockedList.zeroUUID] + BlockedList.mixpanelWords)
        case .rudderstack: BlockedList.same(["unknown", "NaN"])
        }
    }

    private static let zeros: [Matcher] = {
        guard let pattern = BlockedPattern("^[0-]*$") else {
            preconditionFailure("A pattern of a list does not compile.")
        }
        return [Matcher(.pattern(pattern))]
    }()
}

// MARK: - Bytes in stores

extension BlockedValues {
    /// Writes the matchers that are not plain texts.
    func packOthers(into packer: inout Packer) {
        let others = matchers.filter { $0.plain == nil }
        packer.add(UInt64(others.count))
        for matcher in others { matcher.pack(into: &packer) }
    }
}

extension BlockedValues.Matcher {
    fileprivate func pack(into packer: inout Packer) {
        func add(_ number: UInt8, _ text: String) {
            packer.add(number)
            packer.add(text)
        }
        switch test {
        case .same(let text, let isAlsoQuoted): add(isAlsoQuoted ? 2 : 1, text)
        case .anyCase(let text, let isAlsoQuoted): add(isAlsoQuoted ? 4 : 3, text)
        case .pattern(let pattern): add(5, pattern.text)
        case .contains(let text): add(6, text)
        case .blank: packer.add(7 as UInt8)
        case .shorterThan(let count):
            packer.add(8 as UInt8)
            packer.add(UInt64(count))
        case .longerThan(let count):
            packer.add(9 as UInt8)
            packer.add(UInt64(count))
        case .list(let list): add(10, list.rawValue)
        }
        // No set of types means all types, and a set without types means none.
        packer.add(UInt64(types.map { $0.types.count + 1 } ?? 0))
        for type in types?.types ?? [] { packer.add(type.rawValue) }
    }

    init?(unpacking unpacker: inout Unpacker) {
        func text() -> String? { unpacker.text() }
        func count() -> Int? { unpacker.integer().map { Int(clamping: $0) } }
        let test: Test?
        switch unpacker.byte() {
        case 1: test = text().map { .same($0, isAlsoQuoted: false) }
        case 2: test = text().map { .same($0, isAlsoQuoted: true) }
        case 3: test = text().map { .anyCase($0, isAlsoQuoted: false) }
        case 4: test = text().map { .anyCase($0, isAlsoQuoted: true) }
        case 5: test = text().flatMap { BlockedPattern($0) }.map { .pattern($0) }
        case 6: test = text().map { .contains($0) }
        case 7: test = .blank
        case 8: test = count().map { .shorterThan($0) }
        case 9: test = count().map { .longerThan($0) }
        case 10: test = text().flatMap(BlockedList.init(rawValue:)).map { .list($0) }
        default: return nil
        }
        guard let test, let size = unpacker.integer() else { return nil }
        var types: IdentityTypeSet?
        if size > 0 {
            var set = IdentityTypeSet()
            for _ in 1..<size {
                guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)) else { return nil }
                set.insert(type)
            }
            types = set
        }
        self.init(test, types: types)
    }
}
