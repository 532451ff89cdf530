import Domain
import JSON

/// The terms of a project: the days for which the server keeps its rows, and the room for its attachments. The server sets
/// them for all projects, and a project can have days and quotas of its own.
struct ProjectTerms: Sendable {
    let retentionDays: [RowKind: Int]
    let quotas: AttachmentQuotas

    func write(_ settings: ClaimSettings, _ json: inout JSONWriter) {
        let days = settings.retentionDays(or: retentionDays)
        for (name, field, kind) in [
            ("events", ClaimSettings.Field.eventDays, RowKind.event), ("metrics", .metricDays, .metric),
            ("funnels", .stepDays, .step),
        ] {
            func write(_ days: Int?) { if let days { json.integer(days) } else { json.null() } }
            json.key("retention_days_\(name)")
            write(settings[field] == nil ? nil : days[kind])
            json.key("effective_retention_days_\(name)")
            // Null means for ever.
            write(days[kind])
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
