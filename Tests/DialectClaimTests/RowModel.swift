import Domain
import Foundation
import TestKit

/// A row as a plain reading of all rows finds it, to compare reads of runs with.
struct RowModel {
    let number: RowNumber
    let at: Instant
    /// The user id that reads show.
    let user: String?
    let app: Int
    let milliseconds: Int?
    private let members: [String: String]

    subscript(member: String) -> String? { members[member] }

    /// All events, in the order of their moments.
    static func events(_ store: any Store) throws -> [RowModel] { try rows(.event, store) }

    static func rows(_ kind: RowKind, _ store: any Store) throws -> [RowModel] {
        try store.read { snapshot throws(StoreFault) in
            var range = RowsByTime()
            (range.isAscending, range.limit) = (true, 100_000)
            var rows: [RowModel] = []
            for row in try snapshot.rows(of: kind, in: ProjectID(rawValue: 1), range) {
                let json = try? JSONSerialization.jsonObject(with: Data(row.row.body)) as? [String: Any]
                rows.append(
                    RowModel(
                        number: row.number, at: row.row.at, user: try user(of: row.person, snapshot),
                        app: json?["app_id"] as? Int ?? 0, milliseconds: json?["duration_ms"] as? Int,
                        members: (json ?? [:]).compactMapValues { $0 as? String }))
            }
            return rows
        }
    }

    /// The known user at the root of the group, else the person's own id (spec/claim-reads.md, decision 9).
    private static func user(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> String? {
        func id(_ person: PersonID, _ type: IdentityType) throws(StoreFault) -> String? {
            try snapshot.identities(of: person).first { $0.type == type }?.value
        }
        let group = snapshot.group(of: person)
        if let root = try id(group.root, .claimUserID) { return root }
        if let own = try id(person, .claimUserID) { return own }
        for merge in group.merges where merge.rule == .claim && merge.from == person {
            if let into = try id(merge.into, .claimUserID) { return into }
        }
        return try id(person, .claimAnonymousID)
    }
}
