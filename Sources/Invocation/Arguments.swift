/// The arguments of a command: its flags, and its other words.
package struct Arguments: Equatable, Sendable {
    package private(set) var words: [String] = []
    private var values: [String: String] = [:]

    /// Reads `--name value`, `--name=value`, `--switch` and words, in any order; after `--` all arguments are words. A negative
    /// number is a word: some vendors' ids of people are such numbers.
    ///
    /// - Parameters:
    ///   - valued: the flags with a value.
    ///   - switches: the flags without a value.
    package init(_ raw: [String], valued: [String], switches: [String]) throws(UsageFault) {
        var rest = raw[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--"), word != "--" else {
                if word == "--" {
                    words += rest
                    return
                }
                let isNumber = word.dropFirst().utf8.allSatisfy { (0x30...0x39).contains($0) }
                guard !word.hasPrefix("-") || isNumber else { throw UsageFault("There is no flag \(word).") }
                words.append(word)
                continue
            }
            let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard values[name] == nil else { throw UsageFault("--\(name) is given twice.") }
            if switches.contains(name) {
                guard parts.count == 1 else { throw UsageFault("--\(name) takes no value.") }
                values[name] = "true"
            } else if valued.contains(name) {
                // A value that looks like a flag means a forgotten value, unless "=" precedes it.
                guard let value = parts.count == 2 ? String(parts[1]) : rest.popFirst(),
                    parts.count == 2 || !value.hasPrefix("--")
                else { throw UsageFault("--\(name) needs a value.") }
                values[name] = value
            } else {
                throw UsageFault("There is no flag --\(name).")
            }
        }
    }

    package subscript(flag: String) -> String? { values[flag] }

    package func has(_ switchName: String) -> Bool { values[switchName] != nil }
}

/// A fault in the command line, the environment or the settings file.
package struct UsageFault: Error, Equatable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
