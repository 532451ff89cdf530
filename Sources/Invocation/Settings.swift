/// A setting that the operator of the server can choose.
package struct SettingDefinition: Sendable {
    /// The name in the settings file. The flag has hyphens instead of underscores; the variable has capital letters after
    /// `ONYM_`.
    package let name: String
    package let summary: String
    /// The default value; nil for a setting without a default.
    package let standard: String?
    /// Whether the value is a secret: then the setting has no flag, and its value is never shown.
    package let isSecret: Bool
    /// Whether a part of the value may be a secret: then the value is never shown.
    package let mayHoldSecret: Bool
    /// Whether the settings file may contain the setting.
    package let isInFile: Bool
    /// Answers the rule that a value breaks; nil for a valid value.
    package let demand: @Sendable (String) -> String?

    package init(
        _ name: String, _ summary: String, standard: String? = nil, isSecret: Bool = false,
        mayHoldSecret: Bool = false, isInFile: Bool = true,
        demand: @escaping @Sendable (String) -> String? = { _ in nil }
    ) {
        self.name = name
        self.summary = summary
        self.standard = standard
        self.isSecret = isSecret
        self.mayHoldSecret = isSecret || mayHoldSecret
        self.isInFile = isInFile
        self.demand = demand
    }

    package var flag: String { name.split(separator: "_").joined(separator: "-") }
    package var variable: String { "ONYM_" + name.uppercased() }
}

/// The settings in force, each with its source: the flag, else the environment, else the credential, else the file, else the
/// default.
package struct Settings: Sendable {
    package enum Source: Equatable, Sendable {
        case flag
        case environment
        /// A file of the service manager (systemd's LoadCredential).
        case credential
        case file
        case standard

        package var name: String {
            switch self {
            case .flag: "flag"
            case .environment: "environment"
            case .credential: "credential"
            case .file: "file"
            case .standard: "default"
            }
        }
    }

    package struct Entry: Sendable {
        package let definition: SettingDefinition
        package let value: String?
        package let source: Source
    }

    package let entries: [Entry]

    /// - Parameters:
    ///   - definitions: all settings.
    ///   - flags: the command's flags.
    ///   - environment: the process's environment.
    ///   - credentials: secret settings from the service manager, by name.
    ///   - file: the text of the settings file, and its path for messages; nil without a file.
    package init(
        _ definitions: [SettingDefinition], flags: Arguments, environment: [String: String],
        credentials: [String: String] = [:], file: (path: String, values: [String: String])?
    ) throws(UsageFault) {
        if let file {
            for name in file.values.keys.sorted() where !definitions.contains(where: { $0.name == name && $0.isInFile })
            {
                throw UsageFault(
                    "\(file.path) has an unknown setting \"\(name)\"; \"onym settings\" lists them.")
            }
        }
        var entries: [Entry] = []
        for definition in definitions {
            let entry =
                if !definition.isSecret, let value = flags[definition.flag] {
                    Entry(definition: definition, value: value, source: .flag)
                } else if let value = environment[definition.variable], !value.isEmpty {
                    Entry(definition: definition, value: value, source: .environment)
                } else if let value = credentials[definition.name] {
                    Entry(definition: definition, value: value, source: .credential)
                } else if let value = file?.values[definition.name] {
                    Entry(definition: definition, value: value, source: .file)
                } else {
                    Entry(definition: definition, value: definition.standard, source: .standard)
                }
            if let value = entry.value, let demand = definition.demand(value) {
                throw UsageFault(
                    "\(Settings.place(entry, file?.path)) must be \(demand), not \"\(definition.mayHoldSecret ? "…" : value)\"."
                )
            }
            entries.append(entry)
        }
        self.entries = entries
    }

    package subscript(name: String) -> String? {
        entries.first { $0.definition.name == name }?.value
    }

    private static func place(_ entry: Entry, _ file: String?) -> String {
        switch entry.source {
        case .flag: "--\(entry.definition.flag)"
        case .environment: entry.definition.variable
        case .credential: "the credential \(entry.definition.name)"
        case .file: "\"\(entry.definition.name)\" in \(file ?? "the settings file")"
        case .standard: entry.definition.name
        }
    }
}

/// The settings file: the part of TOML for flat settings, `name = value` on separate lines.
package enum SettingsFile {
    /// Reads names and values: a string in double or single quotes, an integer, `true` or `false`.
    package static func parse(_ text: String, path: String) throws(UsageFault) -> [String: String] {
        var values: [String: String] = [:]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let line = trim(line)
            if line.isEmpty || line.hasPrefix("#") { continue }
            func fault(_ what: String) -> UsageFault { UsageFault("\(path), line \(index + 1): \(what)") }
            guard let equals = line.firstIndex(of: "=") else { throw fault("expected name = value.") }
            let name = String(trim(line[..<equals]))
            guard !name.isEmpty, name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }) else {
                throw fault("\"\(name)\" is not a setting's name.")
            }
            guard values[name] == nil else { throw fault("\"\(name)\" is set twice.") }
            guard let value = value(trim(line[line.index(after: equals)...])) else {
                throw fault("the value of \"\(name)\" must be a \"string\", an integer, true or false.")
            }
            values[name] = value
        }
        return values
    }

    private static func value(_ text: Substring) -> String? {
        if text.hasPrefix("\"") {
            var value = ""
            var rest = text.dropFirst()
            while let character = rest.popFirst() {
                switch character {
                case "\"":
                    let after = trim(rest)
                    return after.isEmpty || after.hasPrefix("#") ? value : nil
                case "\\":
                    guard let escaped = rest.popFirst(), escaped == "\"" || escaped == "\\" else { return nil }
                    value.append(escaped)
                default: value.append(character)
                }
            }
            return nil
        }
        if text.hasPrefix("'") {
            // A string in single quotes has no escapes.
            let rest = text.dropFirst()
            guard let end = rest.firstIndex(of: "'") else { return nil }
            let after = trim(rest[rest.index(after: end)...])
            return after.isEmpty || after.hasPrefix("#") ? String(rest[..<end]) : nil
        }
        let word = trim(text.prefix { $0 != "#" })
        guard word == "true" || word == "false" || Int(word) != nil else { return nil }
        return String(word)
    }

    private static func trim(_ text: Substring) -> Substring {
        let start = text.drop { $0.isWhitespace }
        guard let last = start.lastIndex(where: { !$0.isWhitespace }) else { return "" }
        return start[...last]
    }
}
