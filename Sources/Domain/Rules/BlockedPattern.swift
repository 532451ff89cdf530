/// A pattern of blocked values, compiled to a deterministic automaton: a check reads each byte of a value once.
///
/// A pattern has literals, `.`, classes, groups, `|`, `?`, `*`, `+`, `{m}`, `{m,}`, `{m,n}`, `^` and `$`. A backslash makes the
/// next character a literal. `.` and a negated class match one Unicode scalar. A class lists ASCII characters only.
package struct BlockedPattern: Equatable, Sendable {
    package let text: String
    private let automaton: Automaton

    /// The limits of a pattern. `{m,n}` repeats its part, so the parts have a limit too.
    package static let bytes = 1...200
    package static let statesAtMost = 256
    private static let nodesAtMost = 4096
    private static let repetitionsAtMost = 255

    /// Compiles a pattern; nil for a pattern that breaks the grammar or a limit.
    package init?(_ text: String) {
        guard BlockedPattern.bytes.contains(text.utf8.count) else { return nil }
        var parser = Parser(Array(text.unicodeScalars))
        guard let tree = parser.alternatives(), parser.isAtEnd else { return nil }
        var machine = Machine()
        guard let part = machine.add(tree), let automaton = Automaton(machine, part) else { return nil }
        self.text = text
        self.automaton = automaton
    }

    package static func == (one: BlockedPattern, other: BlockedPattern) -> Bool { one.text == other.text }

    /// Whether a part of a value matches.
    package func matches(_ value: String) -> Bool { automaton.accepts(value.utf8.span) }

    /// Whether a value with a first byte may match. A pattern that begins with `^` rules out most bytes.
    func mayMatch(beginningWith byte: UInt8) -> Bool { automaton.mayAccept(beginningWith: byte) }

    // The alphabet: the 256 bytes, and one symbol each for the beginning and the end of a value.
    fileprivate static let begin = 256
    fileprivate static let end = 257
    fileprivate static let symbols = 258

    // MARK: - Reading a pattern

    private indirect enum Tree {
        case nothing
        case symbol(Int)
        /// One ASCII character of a set, or also any scalar beyond ASCII.
        case scalar([Bool], beyond: Bool)
        case sequence([Tree])
        case choice([Tree])
        case repeated(Tree, Int, Int?)
    }

    private struct Parser {
        let scalars: [Unicode.Scalar]
        var place = 0
        var depth = 0

        init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars }

        var isAtEnd: Bool { place == scalars.count }
        private var next: Unicode.Scalar? { place < scalars.count ? scalars[place] : nil }

        private mutating func skip(_ scalar: Unicode.Scalar) -> Bool {
            guard next == scalar else { return false }
            place += 1
            return true
        }

        mutating func alternatives() -> Tree? {
            var choices: [Tree] = []
            repeat {
                guard let one = sequence() else { return nil }
                choices.append(one)
            } while skip("|")
            return choices.count == 1 ? choices[0] : .choice(choices)
        }

        private mutating func sequence() -> Tree? {
            var parts: [Tree] = []
            while let scalar = next, scalar != "|", scalar != ")" {
                guard let part = atom() else { return nil }
                guard let whole = quantified(part) else { return nil }
                parts.append(whole)
            }
            return parts.isEmpty ? .nothing : .sequence(parts)
        }

        private mutating func quantified(_ part: Tree) -> Tree? {
            var (low, high): (Int, Int?)
            switch next {
            case "?": (low, high) = (0, 1)
            case "*": (low, high) = (0, nil)
            case "+": (low, high) = (1, nil)
            case "{":
                place += 1
                guard let first = number() else { return nil }
                (low, high) = (first, first)
                if skip(",") { high = next == "}" ? nil : number() ?? -1 }
                guard next == "}", high.map({ $0 >= low }) ?? true else { return nil }
            default: return part
            }
            place += 1
            if case .symbol(let symbol) = part, symbol >= BlockedPattern.begin { return nil }
            // A second quantifier has no meaning here.
            if let after = next, ["?", "*", "+", "{"].contains(after) { return nil }
            return .repeated(part, low, high)
        }

        private mutating func number() -> Int? {
            var number: Int?
            while let digit = next, digit.isASCII, ("0"..."9").contains(digit) {
                number = (number ?? 0) * 10 + Int(digit.value - 48)
                guard number ?? 0 <= BlockedPattern.repetitionsAtMost else { return nil }
                place += 1
            }
            return number
        }

        private mutating func atom() -> Tree? {
            guard let scalar = next else { return nil }
            place += 1
            switch scalar {
            case "^": return .symbol(BlockedPattern.begin)
            case "$": return .symbol(BlockedPattern.end)
            case ".": return .scalar(Array(repeating: true, count: 128), beyond: true)
            case "(":
                depth += 1
                guard depth < 32, let group = alternatives(), skip(")") else { return nil }
                depth -= 1
                return group
            case "[": return characterClass()
            case "\\":
                guard let literal = escaped() else { return nil }
                return self.literal(literal)
            case "?", "*", "+", "{", "}", "]", ")": return nil
            default: return literal(scalar)
            }
        }

        /// The character after a backslash. Letters and digits have other meanings in other dialects of patterns, so they
        /// are refused instead of taken literally.
        private mutating func escaped() -> Unicode.Scalar? {
            guard let scalar = next, scalar.isASCII, !scalar.properties.isAlphabetic, !("0"..."9").contains(scalar)
            else { return nil }
            place += 1
            return scalar
        }

        private func literal(_ scalar: Unicode.Scalar) -> Tree {
            .sequence(String(scalar).utf8.map { .symbol(Int($0)) })
        }

        private mutating func characterClass() -> Tree? {
            let isNegated = skip("^")
            var set = Array(repeating: false, count: 128)
            var isEmpty = true
            while let scalar = next, scalar != "]" || isEmpty {
                guard let low = member() else { return nil }
                var high = low
                if next == "-", place + 1 < scalars.count, scalars[place + 1] != "]" {
                    place += 1
                    guard let end = member(), end >= low else { return nil }
                    high = end
                }
                for value in low...high { set[value] = true }
                isEmpty = false
            }
            guard skip("]") else { return nil }
            return .scalar(isNegated ? set.map { !$0 } : set, beyond: isNegated)
        }

        /// One character of a class.
        private mutating func member() -> Int? {
            if skip("\\") { return escaped().map { Int($0.value) } }
            guard let scalar = next, scalar.isASCII else { return nil }
            place += 1
            return Int(scalar.value)
        }
    }

    // MARK: - The automaton with choices

    /// Nodes with edges. An edge with a set of symbols reads one symbol; an edge without a set reads nothing.
    private struct Machine {
        struct Edge {
            let symbols: [ClosedRange<Int>]
            let to: Int
        }

        var edges: [[Edge]] = []
        var free: [[Int]] = []

        private mutating func node() -> Int? {
            guard edges.count < BlockedPattern.nodesAtMost else { return nil }
            edges.append([])
            free.append([])
            return edges.count - 1
        }

        /// The first and the last node of a part.
        typealias Part = (first: Int, last: Int)

        mutating func add(_ tree: Tree) -> Part? {
            switch tree {
            case .nothing: return node().map { ($0, $0) }
            case .symbol(let symbol): return step([symbol...symbol])
            case .scalar(let ascii, let beyond):
                let single = (0..<128).filter { ascii[$0] }.map { $0...$0 }
                guard let part = step(single) else { return nil }
                guard beyond else { return part }
                // The bytes of a scalar beyond ASCII: one leading byte, and one to three bytes after it.
                let tail = [[0x80...0xBF]]
                for bytes in [
                    [[0xC2...0xDF]] + tail, [[0xE0...0xEF]] + tail + tail, [[0xF0...0xF4]] + tail + tail + tail,
                ] {
                    var from = part.first
                    for (index, symbols) in bytes.enumerated() {
                        guard let to = index == bytes.count - 1 ? part.last : node() else { return nil }
                        edges[from].append(Edge(symbols: symbols, to: to))
                        from = to
                    }
                }
                return part
            case .sequence(let trees):
                var whole: Part?
                for tree in trees {
                    guard let part = add(tree) else { return nil }
                    if let last = whole?.last { free[last].append(part.first) }
                    whole = (whole?.first ?? part.first, part.last)
                }
                return whole ?? add(.nothing)
            case .choice(let trees):
                guard let first = node(), let last = node() else { return nil }
                for tree in trees {
                    guard let part = add(tree) else { return nil }
                    free[first].append(part.first)
                    free[part.last].append(last)
                }
                return (first, last)
            case .repeated(let tree, let low, let high): return repeated(tree, low, high)
            }
        }

        private mutating func repeated(_ tree: Tree, _ low: Int, _ high: Int?) -> Part? {
            guard let first = node(), let last = node() else { return nil }
            var at = first
            for _ in 0..<low {
                guard let part = add(tree) else { return nil }
                free[at].append(part.first)
                at = part.last
            }
            guard let high else {
                guard let part = add(tree), let loop = node() else { return nil }
                free[at].append(loop)
                free[loop].append(part.first)
                free[part.last].append(loop)
                free[loop].append(last)
                return (first, last)
            }
            for _ in low..<high {
                free[at].append(last)
                guard let part = add(tree) else { return nil }
                free[at].append(part.first)
                at = part.last
            }
            free[at].append(last)
            return (first, last)
        }

        private mutating func step(_ symbols: [ClosedRange<Int>]) -> Part? {
            guard let first = node(), let last = node() else { return nil }
            edges[first].append(Edge(symbols: symbols, to: last))
            return (first, last)
        }
    }

    // MARK: - The automaton without choices

    private struct Automaton: Sendable {
        private let classes: [UInt16]
        private let width: Int
        /// The next state for each state and class of symbols.
        private let next: [UInt16]
        private let accepts: [Bool]
        /// The states from which no value matches any more.
        private let isDead: [Bool]

        init?(_ machine: Machine, _ part: Machine.Part) {
            // A match may begin anywhere, so every symbol also leads to the first node again. A match stays a match.
            func closure(_ nodes: Set<Int>) -> Set<Int> {
                var (all, waiting) = (nodes, Array(nodes))
                while let node = waiting.popLast() {
                    for to in machine.free[node] where all.insert(to).inserted { waiting.append(to) }
                }
                return all
            }
            // Symbols that no edge tells apart are one class.
            var bounds: Set<Int> = [0, BlockedPattern.begin, BlockedPattern.end]
            for edge in machine.edges.joined() {
                for range in edge.symbols {
                    bounds.insert(range.lowerBound)
                    bounds.insert(range.upperBound + 1)
                }
            }
            let starts = bounds.filter { $0 < BlockedPattern.symbols }.sorted()
            var classes = Array(repeating: UInt16(0), count: BlockedPattern.symbols)
            for (number, start) in starts.enumerated() {
                let end = number + 1 < starts.count ? starts[number + 1] : BlockedPattern.symbols
                for symbol in start..<end { classes[symbol] = UInt16(number) }
            }
            var states: [Set<Int>] = [closure([part.first])]
            var places: [Set<Int>: Int] = [states[0]: 0]
            var next: [UInt16] = []
            var at = 0
            while at < states.count {
                let isMatch = states[at].contains(part.last)
                for start in starts {
                    var reached: Set<Int> = [part.first]
                    if isMatch { reached.insert(part.last) }
                    for node in states[at] {
                        for edge in machine.edges[node] where edge.symbols.contains(where: { $0.contains(start) }) {
                            reached.insert(edge.to)
                        }
                    }
                    // One state is enough for all values with a match.
                    let whole = closure(reached)
                    let state = whole.contains(part.last) ? [part.last] : whole
                    if places[state] == nil {
                        guard states.count < BlockedPattern.statesAtMost else { return nil }
                        places[state] = states.count
                        states.append(state)
                    }
                    next.append(UInt16(places[state] ?? 0))
                }
                at += 1
            }
            self.classes = classes
            self.width = starts.count
            self.next = next
            let accepts = states.map { $0.contains(part.last) }
            self.accepts = accepts
            let (width, end) = (starts.count, Int(classes[BlockedPattern.end]))
            let bytes = Set(classes[..<BlockedPattern.begin].map(Int.init))
            var lives = states.indices.map { accepts[$0] || accepts[Int(next[$0 * width + end])] }
            var isGrowing = true
            while isGrowing {
                isGrowing = false
                for state in states.indices
                where !lives[state] && bytes.contains(where: { lives[Int(next[state * width + $0])] }) {
                    (lives[state], isGrowing) = (true, true)
                }
            }
            isDead = lives.map { !$0 }
        }

        func accepts(_ value: borrowing Span<UInt8>) -> Bool {
            var state = step(0, BlockedPattern.begin)
            for index in 0..<value.count {
                state = step(state, Int(value[index]))
                if isDead[state] { return false }
            }
            return accepts[step(state, BlockedPattern.end)]
        }

        func mayAccept(beginningWith byte: UInt8) -> Bool { !isDead[step(step(0, BlockedPattern.begin), Int(byte))] }

        private func step(_ state: Int, _ symbol: Int) -> Int { Int(next[state * width + Int(classes[symbol])]) }
    }
}
