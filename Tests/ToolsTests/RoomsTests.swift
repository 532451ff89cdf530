import Foundation
import TestKit
import Testing

/// `Tools/rooms` keeps the rooms of the domain apart.
@Suite("The rooms of the domain")
struct RoomsTests {
    private let folder = TemporaryFolder()

    private func check(_ domain: String...) throws -> (code: Int32, lines: [String]) {
        let result = try Shell.result([ToolsFolder.path + "/rooms"] + domain)
        return (result.code, result.output.split(separator: "\n").map(String.init))
    }

    /// A copy of the domain, in which a file has more text.
    private func domain(adding text: String, to file: String) throws -> String {
        let copy = folder.path + "/" + UUID().uuidString
        let domain = URL(filePath: ToolsFolder.path).deletingLastPathComponent().appending(path: "Sources/Domain")
        try FileManager.default.copyItem(at: domain, to: URL(filePath: copy))
        let changed = URL(filePath: copy + "/" + file)
        try Data((String(contentsOf: changed, encoding: .utf8) + text).utf8).write(to: changed)
        return copy
    }

    @Test("name no other room than they may")
    func domain() throws {
        let result = try check()
        #expect(result.code == 0 && result.lines.isEmpty, "\(result.lines.joined(separator: "\n"))")
    }

    @Test(
        "are told where a room names another one",
        arguments: [
            ("Claim/Claim.swift", "Receipt", "claiming", "access"), ("Identity.swift", "AppUser", "facts", "claiming"),
            ("Entitlements/Access.swift", "Install", "access", "linking"),
            ("Resolution.swift", "ErasePerson", "resolving", "stewardship"),
        ])
    func fault(_ file: String, _ type: String, _ room: String, _ other: String) throws {
        let result = try check(try domain(adding: "func stray(_ stray: \(type)) {}\n", to: file))
        #expect(result.code == 1 && result.lines.count == 1)
        let line = result.lines.first ?? ""
        #expect(line.contains("\(file) (\(room)) names \(type)") && line.hasSuffix("\(other))"), "\(line)")
    }

    @Test("have a place for each act")
    func acts() throws {
        let act = "struct Stray: Act { static var kinds: [ActKind] { [] } }\n"
        let result = try check(try domain(adding: act, to: "Identity.swift"))
        #expect(
            result.code == 1
                && result.lines == [
                    "rooms: \(result.lines.first?.split(separator: " ")[1] ?? "") "
                        + "declares an act, and has no place in a room"
                ], "\(result.lines)")
    }

    @Test("may say the name in a comment or in a text")
    func words() throws {
        let result = try check(try domain(adding: "// Receipt\nlet stray = \"Receipt\"\n", to: "Claim/Claim.swift"))
        #expect(result.code == 0, "\(result.lines)")
    }
}
