import Domain
import Threads

/// The catalogs of projects. Every read of entitlements needs the catalog, so the cache parses it once, and again after a
/// change.
final class CatalogCache: Sendable {
    private struct Entry {
        let packed: [UInt8]
        let catalog: Catalog
    }

    private let entries = Monitor<[ProjectID: Entry]>([:])

    /// A project's catalog in a snapshot.
    func catalog(of project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> Catalog {
        guard let packed = try snapshot.document(Catalog.key(project)) else { return Catalog() }
        // Unchanged bytes are mostly the same array, so this comparison is fast.
        if let entry = entries.withLock({ $0[project] }), entry.packed == packed { return entry.catalog }
        let catalog = Catalog(packed: packed) ?? Catalog()
        entries.withLock { $0[project] = Entry(packed: packed, catalog: catalog) }
        return catalog
    }
}
