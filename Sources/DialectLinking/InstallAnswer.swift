import Domain
import Gateway
import HTTPMessage
import JSON

/// The answers about an install.
enum InstallAnswer {
    static let session: [Schema.Property] = [
        .init("install_id", .string("24 hexadecimal digits."), required: true),
        .init("user_id", .anyOf([.string(), .null]), required: true),
        .init("token", .string("A JWT; Bearer, or DPoP for an install with a key."), required: true),
        .init("token_type", .string(oneOf: ["Bearer", "DPoP"]), required: true),
        .init("expires_at", .string("The end of the token's validity."), required: true),
        .init("refresh_token", .string(), required: true),
    ]

    static func write(
        _ session: Session, _ status: InstallStatus, _ tokens: LinkingTokens, at now: Instant, _ json: inout JSONWriter
    ) {
        json.key("install_id")
        json.string(session.install.text)
        json.key("user_id")
        if let user = status.user { json.string(user.linkingText) } else { json.null() }
        json.key("token")
        json.string(tokens.accessToken(session, user: status.user, at: now))
        json.key("token_type")
        json.string(session.thumbprint == nil ? "Bearer" : "DPoP")
        json.key("expires_at")
        json.moment(session.expiresAt)
        json.key("refresh_token")
        json.string(tokens.refreshToken(session))
    }

    static let status: [Schema.Property] = [
        .init("is_active", .boolean("Whether the server accepts new events of the install."), required: true),
        .init(
            "state", .string(oneOf: ["unlinked", "active", "blocked", "deactivated", "reset", "disabled", "deleted"]),
            required: true),
        .init("killswitch_action", .string(oneOf: ["enable_sdk", "disable_sdk"]), required: true),
        .init("reason", .anyOf([.string("superseded, blocked, disabled, deleted or reset"), .null]), required: true),
        .init("by_device_class", .anyOf([.string("The device class of the active install."), .null]), required: true),
        .init("since", .anyOf([.string("The moment from which the install is not active."), .null]), required: true),
        .init("activation_epoch", .integer("The epoch in which the install got its state."), required: true),
        .init("current_epoch", .integer("The present epoch of the user."), required: true),
        .init(
            "policy",
            .object([
                .init("activation", .string(oneOf: ["last_wins", "first_wins", "n_active"]), required: true),
                .init("active_limit", .integer(), required: true),
                .init("device_order", .array(.string()), required: true),
            ]), required: true),
    ]

    static func write(_ status: InstallStatus, _ json: inout JSONWriter) {
        json.key("is_active")
        json.bool(status.isActive)
        json.key("state")
        json.string(status.isDeleted ? "deleted" : status.isDisabled ? "disabled" : "\(status.state.name)")
        json.key("killswitch_action")
        json.string(status.isActive ? "enable_sdk" : "disable_sdk")
        json.key("reason")
        if let reason = reason(status) { json.string(reason) } else { json.null() }
        let ending = status.isActive ? nil : status.ending
        json.key("by_device_class")
        if let device = ending?.by { json.string(device.name) } else { json.null() }
        json.key("since")
        if let since = ending?.at { json.moment(since) } else { json.null() }
        json.key("activation_epoch")
        json.integer(status.epoch)
        json.key("current_epoch")
        json.integer(status.currentEpoch)
        json.key("policy")
        json.object { status.policy.write(&$0) }
    }

    private static func reason(_ status: InstallStatus) -> String? {
        if status.isActive { return nil }
        if status.isDeleted { return "deleted" }
        if status.isDisabled { return "disabled" }
        return status.ending.map { "\($0.reason.name)" }
    }
}
