import Invocation
import Testing

@Suite("Arguments")
struct ArgumentsTests {
    private func arguments(_ words: String...) throws(UsageFault) -> Arguments {
        try Arguments(words, valued: ["data", "listen"], switches: ["json"])
    }

    @Test("are flags with values, switches and words, in any order")
    func forms() throws {
        let read = try arguments("one", "--data", "x", "--json", "--listen=y=z", "two")
        #expect(read.words == ["one", "two"])
        #expect(read["data"] == "x")
        #expect(read["listen"] == "y=z")
        #expect(read.has("json"))
        #expect(read["other"] == nil)
    }

    @Test("are words behind two hyphens")
    func words() throws {
        #expect(try arguments("--json", "--", "--data", "-x").words == ["--data", "-x"])
    }

    @Test("are words if they are negative numbers, as ids of people can be")
    func negative() throws {
        #expect(try arguments("-5045766802590845105", "-", "--json").words == ["-5045766802590845105", "-"])
    }

    @Test("that cannot be understood are refused, by name")
    func refused() {
        func message(_ words: String...) -> String? {
            do throws(UsageFault) {
                _ = try Arguments(words, valued: ["data"], switches: ["json"])
                return nil
            } catch {
                return error.message
            }
        }
        #expect(message("--nonsense") == "There is no flag --nonsense.")
        #expect(message("-x") == "There is no flag -x.")
        #expect(message("--data") == "--data needs a value.")
        #expect(message("--json=1") == "--json takes no value.")
        #expect(message("--data", "a", "--data", "b") == "--data is given twice.")
    }
}

@Suite("Settings")
struct SettingsTests {
    static let definitions = [
        SettingDefinition("listen", "Where.", standard: "here"),
        SettingDefinition(
            "log_level", "What.", standard: "info", demand: { $0 == "info" || $0 == "debug" ? nil : "info or debug" }),
        SettingDefinition(
            "secret", "Hush.", isSecret: true, isInFile: false, demand: { $0.count == 3 ? nil : "three letters" }),
        SettingDefinition("empty", "Nothing."),
    ]

    private func settings(
        _ words: [String] = [], environment: [String: String] = [:], file: String? = nil
    ) throws(UsageFault) -> Settings {
        let flags = try Arguments(words, valued: ["listen", "log-level", "empty"], switches: [])
        var parsed: (path: String, values: [String: String])?
        if let file { parsed = ("onym.toml", try SettingsFile.parse(file, path: "onym.toml")) }
        return try Settings(SettingsTests.definitions, flags: flags, environment: environment, file: parsed)
    }

    @Test("come from the flag, else the environment, else the file, else the standard")
    func order() throws {
        func source(_ settings: Settings) -> String {
            let entry = settings.entries[0]
            return "\(entry.value ?? "") (\(entry.source.name))"
        }
        let environment = ["ONYM_LISTEN": "environment"]
        let file = "listen = \"file\""
        #expect(source(try settings(["--listen", "flag"], environment: environment, file: file)) == "flag (flag)")
        #expect(source(try settings(environment: environment, file: file)) == "environment (environment)")
        #expect(source(try settings(file: file)) == "file (file)")
        #expect(source(try settings()) == "here (default)")
        #expect(try settings()["empty"] == nil)
    }

    @Test("have hyphens in flags and capitals in variables")
    func names() throws {
        #expect(try settings(["--log-level", "debug"])["log_level"] == "debug")
        #expect(try settings(environment: ["ONYM_LOG_LEVEL": "debug"])["log_level"] == "debug")
    }

    private func message(_ body: () throws(UsageFault) -> Settings) -> String? {
        do throws(UsageFault) {
            _ = try body()
            return nil
        } catch {
            return error.message
        }
    }

    @Test("that are wrong are refused where they stand")
    func demands() {
        #expect(
            message { () throws(UsageFault) in try settings(["--log-level", "x"]) }
                == "--log-level must be info or debug, not \"x\".")
        #expect(
            message { () throws(UsageFault) in try settings(environment: ["ONYM_LOG_LEVEL": "x"]) }
                == "ONYM_LOG_LEVEL must be info or debug, not \"x\".")
        #expect(
            message { () throws(UsageFault) in try settings(file: "log_level = \"x\"") }
                == "\"log_level\" in onym.toml must be info or debug, not \"x\".")
        #expect(
            message { () throws(UsageFault) in try settings(file: "nonsense = 1") }
                == "onym.toml has an unknown setting \"nonsense\"; \"onym settings\" lists them.")
    }

    @Test("that are secret are taken from the environment only, and never shown")
    func secrets() throws {
        #expect(try settings(environment: ["ONYM_SECRET": "abc"])["secret"] == "abc")
        let shown = message { () throws(UsageFault) in try settings(environment: ["ONYM_SECRET": "hunter2"]) }
        #expect(shown?.contains("hunter2") == false)
        #expect(message { () throws(UsageFault) in try settings(file: "secret = \"abc\"") } != nil)
    }

    @Test("are read from a file of names and values")
    func file() throws {
        let values = try SettingsFile.parse(
            """
            # A comment.
            listen = "127.0.0.1:80"   # and another
              loops=4
            flag = true
            text = "a \\"b\\" \\\\ # no comment"

            """, path: "f")
        #expect(values == ["listen": "127.0.0.1:80", "loops": "4", "flag": "true", "text": "a \"b\" \\ # no comment"])
    }

    @Test(
        "in a file that cannot be read are refused by line",
        arguments: [
            "novalue", "a = ", "a = b", "a = \"b", "a = \"b\" c", "= 1", "a b = 1", "a = 1\na = 2", "a = \"\\x\"",
            "[section]",
        ])
    func badFile(_ text: String) {
        let fault = #expect(throws: UsageFault.self) { try SettingsFile.parse(text, path: "f") }
        #expect(fault?.message.hasPrefix("f, line ") == true)
    }
}
