import Domain
import JSON

/// The terms of a project: the days for which the server keeps its rows, and the room for its attachments. The server sets
/// them for all projects, and a project can have quotas of its own.
struct ProjectTerms: Sendable {
    let retentionDays: [RowKind: Int]
    let quotas: AttachmentQuotas

    func write(_ settings: ClaimSettings, _ json: inout JSONWriter) {
        for (name, kind) in [("events", RowKind.event), ("metrics", .metric), ("funnels", .step)] {
            json.key("retention_days_\(name)")
            json.null()
            json.key("effective_retention_days_\(name)")
            // Null means for ever.
            if let days = retentionDays[kind] { json.integer(days) } else { json.null() }
        }
        let quotas = settings.quotas(or: quotas)
        for (name, field, bytes) in [
            ("user", ClaimSettings.Field.userQuota, quotas.userBytes), ("project", .projectQuota, quotas.projectBytes),
        ] {
            json.key("attachment_\(name)_quota_bytes")
            if settings[field] == nil { json.null() } else { json.integer(bytes) }
            json.key("effective_attachment_\(name)_quota_bytes")
            json.integer(bytes)
        }
        json.key("issue_alert_frequency")
        json.null()
        json.key("effective_issue_alert_frequency")
        json.string("none")
    }
}
