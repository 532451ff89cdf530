/// The rows and the documents of a store, for the check of what the server has derived from rows.
package protocol RowFacts {
    var hash: KeyedHash { get }

    /// The last version of a document; nil if it does not exist.
    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]?

    /// The documents under several keys of one kind, without those that do not exist.
    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]]

    /// The rows of all projects and kinds after a number, in the order of their numbers.
    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)]
}
