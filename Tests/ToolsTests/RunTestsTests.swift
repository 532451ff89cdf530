import Foundation
import TestKit
import Testing

/// `Tools/run-tests` runs the tests of targets side by side: none may be lost on the way, and none may fail unnoticed.
@Suite("Running tests side by side")
struct RunTestsTests {
    private static let list = [
        "FirstTests.A/a()", "SimulationTests.B/b()", "SimulationTests.B/c()", "DomainTests.C/d()",
    ]

    /// What tests print that pass, as many as there are in the target of the filter.
    private static let passing = """
        case $4 in
            *SimulationTests*) count=2 ;;
            *) count=1 ;;
        esac
        echo "✔ Test run with $count tests in 1 suite passed after 0.001 seconds."
        """

    private func run(
        _ words: String..., script: String, list: [String] = RunTestsTests.list
    ) throws -> (code: Int32, lines: [String]) {
        let tests = try FakeTests(script, list: list)
        let result = try Shell.result([ToolsFolder.path + "/run-tests"] + words, environment: tests.environment)
        return (result.code, (result.output + result.errors).split(separator: "\n").map(String.init))
    }

    @Test("runs each test once, the larger targets in processes of their own")
    func passes() throws {
        let (code, lines) = try run(script: RunTestsTests.passing)
        #expect(code == 0, "\(lines)")
        #expect(
            lines.dropLast().map { $0.split(separator: " ")[1] }.sorted() == [
                "DomainTests", "FirstTests", "SimulationTests",
            ])
        #expect(lines.last == "run-tests: all 4 tests passed")
    }

    @Test("runs the slow suites of a target in a process of their own, and each test once")
    func slowSuites() throws {
        let list = [
            "EndToEndTests.ServeTests/a()", "EndToEndTests.ConsoleStoryTests/b()", "EndToEndTests.SDKTests/c()",
        ]
        let script = """
            case $4 in
                *'(?=.*\\.(App'*) count=1 ;;
                *'(?!.*\\.(App'*) count=2 ;;
            esac
            echo "✔ Test run with $count tests in 1 suite passed after 0.001 seconds."
            """
        let (code, lines) = try run(script: script, list: list)
        #expect(code == 0 && lines.count == 3 && lines.last == "run-tests: all 3 tests passed", "\(lines)")
        #expect(lines.contains { $0.hasPrefix("run-tests: EndToEndTests, slow suites") }, "\(lines)")
    }

    @Test("runs those that a filter matches, and a target once more behind a pooler")
    func filters() throws {
        let script = #"echo "$4 $ONYM_POOLER" >>"${0%/*}/asked"; "# + RunTestsTests.passing
        let tests = try FakeTests(script, list: RunTestsTests.list)
        let words = ["--filter", "Simulation|Nothing", "--pooled", "SimulationTests", "--pooled", "DomainTests"]
        let result = try Shell.result([ToolsFolder.path + "/run-tests"] + words, environment: tests.environment)
        #expect(result.code == 0, "\(result)")
        let asked = try String(contentsOfFile: tests.folder.path + "/asked", encoding: .utf8).split(separator: "\n")
        #expect(
            asked.sorted() == [
                #"^(?=(SimulationTests)\.)(?!.*\.(ActTableTests|DependedTests|WorkTests)(/|$)) 1"#,
                "^(?=(SimulationTests)\\.)(?=.*(Simulation|Nothing)) ",
            ])
    }

    @Test("names what failed, last")
    func fails() throws {
        let script = """
            case $4 in *Domain*) echo '✘ Test "d" recorded an issue at C.swift:1:1'; exit 1 ;; esac

            """
        let (code, lines) = try run(script: script + RunTestsTests.passing)
        #expect(code == 1)
        #expect(lines.contains { $0.hasPrefix("run-tests: DomainTests failed with 1; all that it printed is in ") })
        #expect(lines.contains("✘ Test \"d\" recorded an issue at C.swift:1:1"))
    }

    @Test("names the test in which a process crashed")
    func crashes() throws {
        let script = #"echo '◇ Test "d" started.'; kill -SEGV $$"#
        let (code, lines) = try run(script: script, list: ["DomainTests.C/d()"])
        #expect(code == 1)
        #expect(lines.last == "run-tests: DomainTests had begun this, and not ended it: \"d\"")
    }

    @Test("fails when a test that is there has not run")
    func drops() throws {
        let (code, lines) = try run(script: #"echo "✔ Test run with 1 test in 1 suite passed after 0.001 seconds.""#)
        #expect(code == 1)
        #expect(lines.last == "run-tests: SimulationTests has 2 tests, and 1 have run")
    }
}
