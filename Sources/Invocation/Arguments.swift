/// What a command was given: its flags and the words that are none.
package struct Arguments: Equatable, Sendable {
    package private(set) var words: [String] = []
    private var values: [String: String] = [:]

    /// Reads `--name value`, `--name=value`, `--switch` and words, in any order; behind `--` all are words.
    ///
    /// - Parameters:
    ///   - valued: the flags that take a value.
    ///   - switches: the flags that take none.
    package init(_ raw: [String], valued: [String], switches: [String]) throws(UsageFault) {
        var rest = raw[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--"), word != "--" else {
                if word == "--" {
                    words += rest
                    return
                }
                guard !word.hasPrefix("-") || word == "-" else { throw UsageFault("There is no flag \(word).") }
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
                // A value that begins like a flag is a value that was forgotten, unless it is given by "=".
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

/// The command line, the environment or the settings file says something that cannot be done.
package struct UsageFault: Error, Equatable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
