package import Domain
package import Telemetry
import Threads

/// Counts accepted calls without the effect that the client expects, since the server started. The clients do not notice
/// these calls.
package final class ClientWarnings: Sendable {
    private let refusedUploads = Counters(count: 1)

    /// The calls without a type of the hierarchy, by project and type. The table is small: there are few types, and the
    /// directory has all projects.
    private let unmatched = Monitor<[ProjectID: [IdentityType: Int]]>([:])

    package init() {}

    /// Counts an invalid upload whose client got the answer of a kept upload.
    package func refusedUpload() { refusedUploads.add(at: 0) }

    /// Counts a call whose identities all have types outside the project's hierarchy, so that the call finds no person.
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
            help: "Invalid uploads of web clients, answered with 202.", refusedUploads[0])
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
