import Domain
import JSON

/// The attachments of events, for the answers of several calls.
enum AttachmentReads {
    /// The attachments of an event, also announced ones without bytes, the oldest first.
    static func attachments(
        of event: EventMembers, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [Attachment] {
        guard let id = event["client_event_id"] else { return [] }
        let hash = ClaimEvent.recognition(
            id.utf8.span, AppID(rawValue: event.app), in: project, snapshot.hash)
        var attachments: [Attachment] = []
        for id in try AttachmentsOfEvent(hash, snapshot).ids {
            guard let attachment = try snapshot.attachment(id), attachment.isListed else { continue }
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

    /// Whether lists show the attachment: its bytes are stored, or are still expected.
    var isListed: Bool {
        switch state {
        case .stored, .reserved: true
        case .deleted, .tooShort, .tooLong, .wrongDigest: false
        }
    }
}
