import Glibc

/// The output of a command: results go to standard output, all other lines to standard error.
package struct Terminal: Sendable {
    private let output: @Sendable (String) -> Void
    private let error: @Sendable (String) -> Void
    /// Whether a person reads standard error, and no log keeps it.
    let isRead: Bool
    /// Whether a person reads standard output, and no file or program.
    let isResultRead: Bool
    /// The form of tables on standard output.
    let layout: TableLayout

    package init(
        isRead: Bool = false, isResultRead: Bool = true, layout: TableLayout = .plain,
        output: @escaping @Sendable (String) -> Void,
        error: @escaping @Sendable (String) -> Void
    ) {
        self.isRead = isRead
        self.isResultRead = isResultRead
        self.layout = layout
        self.output = output
        self.error = error
    }

    /// The output of this process.
    package static let standard = Terminal(
        isRead: isatty(STDERR_FILENO) == 1, isResultRead: isatty(STDOUT_FILENO) == 1,
        layout: Terminal.layout,
        output: { Terminal.write($0, to: STDOUT_FILENO) }, error: { Terminal.write($0, to: STDERR_FILENO) })

    /// The form of tables for standard output: as wide as the terminal, and with color unless NO_COLOR forbids it (no-color.org).
    private static var layout: TableLayout {
        guard isatty(STDOUT_FILENO) == 1 else { return .plain }
        var size = winsize()
        let isKnown = unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        func variable(_ name: String) -> String? { unsafe getenv(name).map { unsafe String(cString: $0) } }
        let forbidsColor = !(variable("NO_COLOR") ?? "").isEmpty || variable("TERM") == "dumb"
        return TableLayout(width: isKnown ? Int(size.ws_col) : nil, hasColor: !forbidsColor)
    }

    /// Prints a line of the result.
    package func result(_ line: String) { output(line + "\n") }

    /// Prints a line for the person at the terminal.
    package func note(_ line: String) { error(line + "\n") }

    private static func write(_ text: String, to descriptor: CInt) {
        // Nobody can be told that a terminal is gone.
        try? Files.append(Array(text.utf8), to: descriptor, of: "The terminal")
    }
}
