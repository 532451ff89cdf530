import ByteText
import JSON

/// The names of identity types at mParticle, and Onym's names for them.
enum IdentityNames {
    /// The names of devices' types at Onym.
    private static let devices: Set<String> = [
        "ios_idfa", "ios_idfv", "push_token", "device_application_stamp", "android_aaid", "android_uuid", "amp_id",
        "roku_aid", "roku_publisher_id", "fire_aid", "microsoft_aid", "microsoft_publisher_id",
    ]

    /// Whether a type of Onym names a device.
    static func isDevice(_ type: String) -> Bool { devices.contains(type) }

    /// The type for a name of mParticle; nil for a name without a type. Case and underscores do not count, because warehouses
    /// change both.
    static func ours(_ name: JSONText) -> String? { name.withBytes { ours($0) } }

    static func ours(_ name: String) -> String? { ours(name.utf8.span) }

    static func ours(_ name: borrowing Span<UInt8>) -> String? {
        // No vendor has a longer name.
        var letters = [40 of UInt8](repeating: 0)
        var count = 0
        for index in name.indices where name[index] != UInt8(ascii: "_") {
            if count == letters.count { return nil }
            letters[count] = ASCII.lowercased(name[index])
            count += 1
        }
        guard count < byLength.count else { return nil }
        for known in byLength[count] where letters.span.extracting(first: count).equals(known.theirs.span) {
            return known.ours
        }
        return nil
    }

    private static let byLength: [[(theirs: [UInt8], ours: String)]] = {
        let known = names.map { (theirs: Array($0.0.utf8), ours: $0.1) }
        let longest = known.map(\.theirs.count).max() ?? 0
        return (0...longest).map { length in known.filter { $0.theirs.count == length } }
    }()

    /// Their names without underscores, and ours.
    private static let names: [(String, String)] =
        [
            ("customerid", "customerid"), ("email", "email"), ("other", "other"), ("facebook", "facebook"),
            ("facebookid", "facebook"), ("twitter", "twitter"), ("twitterid", "twitter"), ("google", "google"),
            ("googleid", "google"), ("microsoft", "microsoft"), ("microsoftid", "microsoft"), ("yahoo", "yahoo"),
            ("yahoouserid", "yahoo"), ("facebookcustomaudienceid", "facebookcustomaudienceid"),
            ("mobilenumber", "mobile_number"), ("phonenumber2", "phone_number_2"), ("phonenumber3", "phone_number_3"),
            ("iosidfa", "ios_idfa"), ("idfa", "ios_idfa"), ("iosadvertisingid", "ios_idfa"),
            ("iosidfv", "ios_idfv"), ("idfv", "ios_idfv"), ("pushtoken", "push_token"),
            ("deviceapplicationstamp", "device_application_stamp"), ("mpdeviceid", "device_application_stamp"),
            ("androidaaid", "android_aaid"), ("androidadvertisingid", "android_aaid"),
            ("googleadvertisingid", "android_aaid"), ("googleaid", "android_aaid"),
            ("androiduuid", "android_uuid"), ("androidid", "android_uuid"), ("ampid", "amp_id"),
            ("rokuaid", "roku_aid"), ("rokuadvertisingid", "roku_aid"), ("rokupublisherid", "roku_publisher_id"),
            ("fireaid", "fire_aid"), ("fireadvertisingid", "fire_aid"),
            ("microsoftaid", "microsoft_aid"), ("microsoftadvertisingid", "microsoft_aid"),
            ("microsoftpublisherid", "microsoft_publisher_id"),
        ] + (2...10).flatMap { [("other\($0)", "other\($0)"), ("otherid\($0)", "other\($0)")] }

    /// The names of all types that a line may have, for mapping files.
    static let all: Set<String> = devices.union(names.map(\.1)).union([
        "claim_user_id", "claim_anonymous_id", "access_user_id", "access_identity", "sandbox_user_id",
        "sandbox_identity", "linking_external_id", "imported_id",
    ])
}
