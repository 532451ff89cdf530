package import Domain
package import Telemetry
import Threads

/// Counts calls with which clients reach nothing, since the server started. The clients themselves do not notice them.
package final class ClientWarnings: Sendable {
    private let refusedUploads = Counters(count: 1)

    /// The calls without a type of the hierarchy, by project and by each of their types. There are few types, and the
    /// projects are those of the directory.
    private let unmatched = Monitor<[ProjectID: [IdentityType: Int]]>([:])

    package init() {}

    /// Counts an upload that was refused, and whose client got the answer of a kept upload.
    package func refusedUpload() { refusedUploads.add(at: 0) }

    /// Counts a call that names only identities of types outside its project's hierarchy, so that it finds nobody.
    package func unmatchedCall(_ types: [IdentityType], in project: ProjectID) {
        unmatched.withLock { counts in
            for type in types { counts[project, default: [:]][type, default: 0] += 1 }
        }
    }

    /// The number of such calls by type, in the order of the types.
    package func unmatchedTypes(of project: ProjectID) -> [(type: IdentityType, calls: Int)] {
        unmatched.withLock { $0[project] ?? [:] }.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { ($0.key, $0.value) }
    }

    /// Writes the counts for Prometheus.
    package func write(to text: inout MetricsText) {
        text.counter(
            "onym_refused_uploads_total",
            help: "Uploads of web clients that nobody can keep, and that were answered with 202.", refusedUploads[0])
        text.begin(
            "onym_unmatched_calls_total", .counter,
            help: "Identity calls without any type of the project's hierarchy, by project and type.")
        let counts = unmatched.withLock { $0 }
        for (project, types) in counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            for (type, calls) in types.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                text.sample(
                    "onym_unmatched_calls_total",
                    labels: [("project", "\(project.rawValue)"), ("type", "\(type.name)")], calls)
            }
        }
    }
}
