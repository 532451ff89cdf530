import Domain
import Gateway
import JSON

/// Reads identities in the form of the project's strategy.
struct IdentityReader: Sendable {
    let project: ProjectID
    let hash: KeyedHash
    private let lowercasesEmail: Bool

    init(_ caller: Caller, _ tools: LoopTools) {
        project = caller.project
        hash = tools.hash
        lowercasesEmail = tools.directory.strategy(of: project).lowercasesEmail
    }

    /// Reads an identity's value. Null and the empty string mean no identity (decision 6).
    func identity(
        _ value: JSONValue, _ type: IdentityType, at path: @autoclosure () -> String
    ) throws(JSONFault) -> Identity? {
        guard let text = try value.optionalText(at: path()), !text.isEmpty else { return nil }
        func tooLong() -> JSONFault {
            JSONFault(.wrong("must have at most \(Identity.valueBytes.upperBound) bytes"), at: path())
        }
        guard Identity.valueBytes.contains(text.byteCount) else { throw tooLong() }
        let value = written(text.copy(), type)
        // Some small letters have more bytes than their capital letters.
        guard Identity.valueBytes.contains(value.utf8.count) else { throw tooLong() }
        return Identity(type, value, in: project, hash: hash)
    }

    private func written(_ value: String, _ type: IdentityType) -> String {
        lowercasesEmail && type == .email ? value.lowercased() : value
    }
}
