/// A line of the form `facts`, made of a vendor's record.
package struct FactLine: Equatable, Sendable {
    /// One JSON object, without a newline.
    package let json: [UInt8]
    /// The index of the file in ``VendorReader/files``.
    package let file: Int
    /// The number of the record's first line in its file, from 1.
    package let line: Int
}

/// A record of a vendor that did not become facts, or not all of them.
package struct FactRefusal: Equatable, Sendable {
    /// The reason. The names are part of the file of refused records.
    package enum Reason: String, CaseIterable, Sendable {
        /// The record cannot be read.
        case malformed
        /// The record does not name a person.
        case nobody
        /// The record is a purchase of a store that Onym does not know.
        case unsupportedStore = "unsupported_store"
    }

    /// The index of the file in ``VendorReader/files``.
    package let file: Int
    /// The number of the record's first line in its file, from 1.
    package let line: Int
    package let reason: Reason
    /// A sentence that says what is wrong.
    package let detail: String
    /// The record as JSON: a row of a table is an object with a member for each column, a text that is not JSON a string.
    package let record: [UInt8]
}

/// The counts of an import's reader, for the person who imports.
package struct VendorReport: Equatable, Sendable {
    /// The records that were read, with the refused ones.
    package internal(set) var records = 0
    /// The lines that were written, by kind.
    package internal(set) var lines: [String: Int] = [:]
    /// The refused records by reason.
    package internal(set) var refused: [FactRefusal.Reason: Int] = [:]
    /// What was left out, by reason, with counts.
    package internal(set) var leftOut: [String: Int] = [:]
    /// The columns that no reader knows, each once.
    package internal(set) var unknownColumns: [String] = []
    private var unknownNames: Set<String> = []
    /// Sentences about files that look damaged, each once.
    package internal(set) var warnings: [String] = []
    /// The facts of the vendor that its files do not have.
    package internal(set) var cannotCome: [String] = []

    /// The most different reasons and columns that a report has; the rest is counted together.
    static let mostNames = 200

    mutating func leaveOut(_ reason: String, _ count: Int = 1) {
        let isNew = leftOut[reason] == nil && leftOut.count >= VendorReport.mostNames
        leftOut[isNew ? "others" : reason, default: 0] += count
    }

    mutating func addUnknown(column: String) {
        if unknownColumns.count < VendorReport.mostNames, unknownNames.insert(column).inserted {
            unknownColumns.append(column)
        }
    }

    mutating func warn(_ sentence: String) {
        if !warnings.contains(sentence) { warnings.append(sentence) }
    }
}
