import Foundation
import TestKit
import Testing

/// The pages of the console in Chromium, with the built program behind them.
@Suite("The console in a browser", .timeLimit(.minutes(30)))
struct ConsoleStoryTests {
    /// The stories of `make test`. `make check` and `make console` run all stories.
    private static let quick = [
        "a_link_opens_the_first_page", "a_person_is_found", "why_they_are_one_and_why_not", "a_merge_and_its_undo",
        "hostile_values",
    ]

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path()
    private static let files = root + "Sources/CFiles/console"
    private static let clients = root + "Tests/EndToEndTests/Clients/console/"

    private struct Outcome: Decodable {
        let story: String
        let fault: String?
    }

    @Test("People do what they came for")
    func stories() throws {
        let python = ConsoleStoryTests.root + ".venv/bin/python"
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Shell.Failed(description: "There is no Python to drive a browser: run Tools/setup tests.")
        }
        let isWhole = ProcessInfo.processInfo.environment["CONSOLE_STORIES"] == "all"
        // All stories take five minutes alone, and more than ten beside other tests on a slow machine. A story that hangs ends itself.
        let result = try Shell.result(
            [
                python, "-W", "ignore", ConsoleStoryTests.clients + "stories.py", ServerProcess.program,
                ConsoleStoryTests.files, ConsoleStoryTests.root + ".build/console",
            ] + (isWhole ? [] : ConsoleStoryTests.quick), withinMilliseconds: 1_500_000)
        let outcomes = result.output.split(separator: "\n").compactMap {
            try? JSONDecoder().decode(Outcome.self, from: Data($0.utf8))
        }
        #expect(!outcomes.isEmpty, "\(result.errors)")
        #expect(isWhole || outcomes.map(\.story) == ConsoleStoryTests.quick, "\(result.errors)")
        for outcome in outcomes {
            #expect(outcome.fault == nil, "\(outcome.story): \(outcome.fault ?? "")")
        }
        #expect(result.code == 0, "\(result.errors)")
    }

    @Test("Pictures have the same places for the same facts")
    func modules() throws {
        let result = try Shell.result(
            ["node", "--test", ConsoleStoryTests.clients + "modules/"],
            environment: ["CONSOLE_FILES": ConsoleStoryTests.files])
        #expect(result.code == 0, "\(result.output) \(result.errors)")
    }
}
