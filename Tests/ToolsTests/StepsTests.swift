import Foundation
import TestKit
import Testing

/// `Tools/steps` gives `make check` its clock: what hangs in a step must neither hold up CI nor go unnamed.
@Suite("The clock of CI")
struct StepsTests {
    private let folder = TemporaryFolder()
    /// A program that does what it is given the name of.
    private let program: String

    init() throws {
        program = folder.path + "/step"
        try folder.write(
            "step",
            """
            #!/bin/bash
            case $1 in
                passes) echo "fine" ;;
                reads) cat && echo "read to the end" ;;
                fails) echo "this line says why" && exit 3 ;;
                leaves) (setsid sleep 600 & echo $! >"\(folder.path)/pids") ;;
                hangs)
                    echo "this line says where"
                    trap "" TERM
                    sleep 600 & echo $! >"\(folder.path)/pids"
                    (setsid bash -c 'trap "" TERM; echo $$ >>"\(folder.path)/pids"; sleep 600' &)
                    echo $$ >>"\(folder.path)/pids"
                    sleep 600 ;;
                floods) yes ;;
                tests) exec "\(ToolsFolder.path)/run-tests" ;;
            esac
            """)
    }

    private func run(_ words: String..., environment: [String: String]? = nil) throws -> (code: Int32, lines: [String])
    {
        let result = try Shell.result(
            [ToolsFolder.path + "/steps"] + words + ["--", program], environment: environment)
        return (result.code, (result.output + result.errors).split(separator: "\n").map(String.init))
    }

    /// The same without the times that steps took.
    private func timeless(_ lines: some Sequence<String>) -> [String] {
        lines.map {
            $0.replacing(#/ +[0-9]+:[0-9]{2} of/#, with: " T of").replacing(#/ +[0-9]+:[0-9]{2}$/#, with: " T")
        }
    }

    /// The processes that the program has begun and that have not ended.
    private func survivors() throws -> [String] {
        let pids = try String(contentsOfFile: folder.path + "/pids", encoding: .utf8).split(separator: "\n")
        return pids.map(String.init).filter { FileManager.default.fileExists(atPath: "/proc/\($0)") }
    }

    @Test("runs one step after the other, and ends in a table of them")
    func passes() throws {
        let (code, lines) = try run("1m", "passes=20s", "reads=30s")
        #expect(code == 0)
        #expect(
            timeless(lines) == [
                "steps: passes, 0:20 at most", "fine", "steps: passes took T",
                "steps: reads, 0:30 at most", "read to the end", "steps: reads took T",
                "steps: passes T of   0:20, processor time T",
                "steps: reads T of   0:30, processor time T",
                "steps: sum T of   1:00, processor time T",
            ])
    }

    @Test("stops at a step that fails, and names it last")
    func fails() throws {
        let (code, lines) = try run("1m", "fails=20s", "passes=20s")
        #expect(code == 1)
        #expect(
            timeless(lines.suffix(6)) == [
                "steps: fails T of   0:20, processor time T",
                "steps: passes           not run",
                "steps: sum T of   1:00, processor time T",
                "steps: fails has failed with 3. Its last lines:",
                "this line says why",
                "steps: fails has failed with 3.",
            ])
    }

    @Test("kills a step that is late with all its processes, and names it last")
    func hangs() throws {
        let (code, lines) = try run("15s", "hangs=0.5s", "passes=20s")
        #expect(code == 124)
        #expect(lines.suffix(2) == ["this line says where", "steps: hangs has not ended within its limit of 0:00."])
        #expect(try Patience.until { try survivors().isEmpty })
    }

    @Test("ends within the time of the whole run, whatever the limits of its steps")
    func whole() throws {
        let begun = ContinuousClock.now
        let (code, lines) = try run("3s", "passes=1m", "hangs=1m")
        #expect(code == 124)
        #expect(lines.last == "steps: hangs has not ended within the 0:03 of the whole run.")
        #expect(try Patience.until { try survivors().isEmpty })
        #expect(ContinuousClock.now - begun < .seconds(Patience.seconds / 2))
    }

    @Test("ends in time also when nobody reads what it prints")
    func unread() throws {
        let process = Process()
        process.executableURL = URL(filePath: ToolsFolder.path + "/steps")
        process.arguments = ["1s", "floods=1m", "--", program]
        let pipes = try process.start(piping: \.standardOutput)
        defer { withExtendedLifetime(pipes) {} }
        #expect(process.end(withinMilliseconds: Patience.milliseconds))
        #expect(process.terminationStatus == 124)
    }

    @Test("kills what a step has left behind, and says so")
    func leaves() throws {
        let (code, lines) = try run("6s", "leaves=20s")
        #expect(code == 0)
        #expect(lines.contains { $0.hasPrefix("steps: leaves has left a process behind") && $0.hasSuffix("sleep 600") })
        #expect(try Patience.until { try survivors().isEmpty })
    }

    @Test("names the test that hung")
    func namesTest() throws {
        let tests = try FakeTests(
            """
            echo '◇ Test "ends" started.'
            echo '◇ Test "waits for ever" started.'
            echo '✔ Test "ends" passed after 0.001 seconds.'
            exec sleep 600
            """)
        let (code, lines) = try run("3m", "tests=3s", environment: tests.environment)
        #expect(code == 124)
        #expect(
            lines.suffix(2) == [
                "run-tests: FirstTests had begun this, and not ended it: \"waits for ever\"",
                "steps: tests has not ended within its limit of 0:03.",
            ])
    }

    @Test(
        "refuses what it cannot use",
        arguments: [
            ["45m", "-- true"], ["0m", "a=1s"], ["45", "a=1s"], ["1h", "a=1s"], ["1m", "a"], ["1m", "a=x"],
        ])
    func refuses(words: [String]) throws {
        let result = try Shell.result([ToolsFolder.path + "/steps"] + words + ["--", "true"])
        #expect(result.code == 2)
        #expect(result.errors.hasPrefix("steps: "))
    }
}
