import Domain
import JSON

/// The attachments of events, for the answers of several calls.
enum AttachmentReads {
    /// The event of an attachment; nil until the event has arrived.
    static func event(of attachment: Attachment, _ snapshot: any Snapshot) throws(StoreFault) -> StoredRow? {
        guard let at = attachment.eventAt else { return nil }
        let said = attachment.description
        return try snapshot.event(said.clientEventID, of: said.app, at: at, in: attachment.project)
    }

    /// The attachments of an event, also announced ones without bytes, the oldest first.
    static func attachments(
        of event: EventMembers, in project: ProjectID, at now: Instant, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [Attachment] {
        guard let id = event["client_event_id"] else { return [] }
        let hash = ClaimEvent.recognition(
            id.utf8.span, AppID(rawValue: event.app), in: project, snapshot.hash)
        var attachments: [Attachment] = []
        for id in try AttachmentsOfEvent(hash, snapshot).ids {
            guard let attachment = try snapshot.attachment(id), attachment.isListed(at: now) else { continue }
            attachments.append(attachment)
        }
        return attachments
    }

    /// Writes an attachment as a part of its event.
    static func writeShort(_ attachment: Attachment, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.attachment, attachment.id.rawValue))
        json.key("original_filename")
        json.string(attachment.description.filename)
        json.key("content_type")
        json.string(attachment.description.contentType)
        json.key("size_bytes")
        json.integer(attachment.description.byteCount)
        json.key("uploaded_at")
        if let uploadedAt = attachment.uploadedAt { json.moment(uploadedAt) } else { json.null() }
    }
}

extension Attachment {
    /// The moment at which the bytes arrived; nil for an announced file.
    var uploadedAt: Instant? { state == .stored ? storedAt ?? madeAt : nil }
}

extension Snapshot {
    /// The event of an app with the client's id; nil if no event of the moment has this id.
    func event(
        _ clientID: String, of app: AppID, at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> StoredRow? {
        try event(ClaimEvent.recognition(clientID.utf8.span, app, in: project, hash), at: moment, in: project)
    }

    /// The event with a recognition hash; nil if no event of the moment has this hash.
    func event(
        _ recognition: RowHash, at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> StoredRow? {
        var range = RowsByTime()
        (range.since, range.until) = (moment, moment.advanced(byMilliseconds: 1))
        while true {
            let rows = try self.rows(of: .event, in: project, range)
            if let found = rows.first(where: { $0.row.recognition == recognition }) { return found }
            guard rows.count == range.limit, let last = rows.last else { return nil }
            range.after = RowsByTime.Place(at: last.row.at, number: last.number)
        }
    }
}
