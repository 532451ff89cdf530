import Domain
import Threads

/// What projects sell, read once for as long as it stays the same: it is needed for every read of entitlements.
final class CatalogCache: Sendable {
    private struct Entry {
        let packed: [UInt8]
        let catalog: Catalog
    }

    private let entries = Monitor<[ProjectID: Entry]>([:])

    /// The catalog that a project has in a snapshot.
    func catalog(of project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Catalog {
        guard let packed = try snapshot.document(Catalog.key(project)) else { return Catalog() }
        // The same bytes mostly are the very same array, which is seen at a glance.
        if let entry = entries.withLock({ $0[project] }), entry.packed == packed { return entry.catalog }
        let catalog = Catalog(packed: packed) ?? Catalog()
        entries.withLock { $0[project] = Entry(packed: packed, catalog: catalog) }
        return catalog
    }
}
