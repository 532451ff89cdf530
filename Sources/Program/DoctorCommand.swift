import Domain
import JSON
import StorePostgres
import StoreSQLite

/// `onym doctor`: checks the rules that always hold for a store.
enum DoctorCommand: ProgramCommand {
    static let name = "doctor"
    static let summary = "Checks the store, with or without a running server, and explains each problem."
    static let usage = "onym doctor [--data DIR] [--json]"

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let progress: (String) -> Void = { what in context.terminal.note("Checking the \(what).") }
        let findings: [Finding]
        do throws(StoreFault) {
            if let database = context.database {
                let doctor = try PostgresDoctor(database, progress: progress)
                doctor.now = SystemClock.now()
                findings = try doctor.examine()
            } else {
                let doctor = try Doctor(context.dataFolder.store, progress: progress)
                doctor.now = SystemClock.now()
                findings = try doctor.examine()
            }
        } catch {
            throw CommandFault(error)
        }
        if context.isForPrograms {
            var json = JSONWriter()
            json.object { json in
                json.key("healthy")
                json.bool(findings.isEmpty)
                json.key("findings")
                json.array { json in
                    for finding in findings {
                        json.object { json in
                            json.key("code")
                            json.string(finding.code)
                            json.key("description")
                            json.string(finding.description)
                        }
                    }
                }
            }
            context.terminal.result(String(decoding: json.bytes, as: UTF8.self))
        } else if findings.isEmpty {
            context.terminal.result("The store is healthy.")
        } else {
            for finding in findings { context.terminal.result("\(finding.code): \(finding.description)") }
        }
        return findings.isEmpty ? 0 : 1
    }
}
