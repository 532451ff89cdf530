/// Something that is wrong with a store, and what to do.
package struct Finding: Equatable, Sendable {
    /// A stable name of the invariant.
    package let code: String
    package let description: String

    package init(code: String, description: String) {
        self.code = code
        self.description = description
    }
}
