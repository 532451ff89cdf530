import DialectClaim
import EventLoop
import Gateway
import Invocation
import Outbound
import Telemetry

/// What whoever runs the server can choose.
enum ServerSettings {
    static let definitions: [SettingDefinition] = [
        SettingDefinition(
            "data", "The folder of the store, its keys and its settings.", standard: "data", isInFile: false),
        SettingDefinition(
            "listen", "Where to serve: an address and a port; port 0 takes a free one.", standard: "127.0.0.1:8080",
            demand: address),
        SettingDefinition("tls_cert", "A file with the certificate chain, in PEM. With tls_key: serve HTTPS."),
        SettingDefinition("tls_key", "A file with the certificate's private key, in PEM."),
        SettingDefinition(
            "mode", "production, or development: what is only for trying out is refused in production.",
            standard: "production", demand: { oneOf(["production", "development"], $0) }),
        SettingDefinition(
            "metrics_listen", "Where to serve /metrics without a key, for a network that only monitoring reaches.",
            demand: address),
        SettingDefinition(
            "log_level", "The least grave lines to log.", standard: "info",
            demand: { oneOf(Logger.Level.allCases.map(\.name), $0) }),
        SettingDefinition(
            "loops", "Threads that serve connections; 0 takes one per core.", standard: "0",
            demand: { integer(0...256, $0) }),
        SettingDefinition(
            "max_connections", "Connections in all.", standard: "16384", demand: { integer(1...1_000_000, $0) }),
        SettingDefinition(
            "max_connections_per_address", "Connections from one address; raise it behind a proxy.", standard: "2048",
            demand: { integer(1...1_000_000, $0) }),
        SettingDefinition(
            "rate_limit_key", "Calls a second with one key, over all connections; 0 is no limit.",
            standard: String(rates.key.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_key_burst", "Calls at once with one key.", standard: String(rates.key.burst),
            demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "rate_limit_identity", "Calls a second that name one identity; 0 is no limit.",
            standard: String(rates.identity.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_identity_burst", "Calls at once that name one identity.",
            standard: String(rates.identity.burst), demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "rate_limit_claim", "Calls a second of the Claim dialect with one key; 0 is no limit.",
            standard: String(rates.claim.perSecond), demand: { integer(RateLimit.rates, $0) }),
        SettingDefinition(
            "rate_limit_claim_burst", "Calls at once of the Claim dialect with one key.",
            standard: String(rates.claim.burst), demand: { integer(RateLimit.bursts, $0) }),
        SettingDefinition(
            "hmac_date_window_minutes", "How far the Date of a signed IDSync call may be from now; 0 takes any.",
            standard: "0", demand: { integer(0...527_040, $0) }),
        SettingDefinition(
            "apple_attribution_url", "Where Apple is asked which ad led to an app.",
            standard: AdServices.standardURL.description,
            demand: { OutboundURL($0) == nil ? "an address that begins with https:// or http://" : nil }),
        SettingDefinition(
            "apple_attribution_retry_seconds", "When a client should ask again that came before Apple knew.",
            standard: String(AdServices.standardRetrySeconds), demand: { integer(1...604_800, $0) }),
        SettingDefinition(
            "master_key",
            "The key that IDSync secrets are derived from: 64 hexadecimal digits. Else: master.key in the data folder.",
            isSecret: true, isInFile: false,
            demand: { MasterKey(text: $0) == nil ? "64 hexadecimal digits" : nil }),
    ]

    private static let rates = RateLimits()

    /// The limits that were chosen.
    static func rates(_ settings: Settings) -> RateLimits {
        func limit(_ name: String, _ standard: RateLimit) -> RateLimit {
            RateLimit(
                perSecond: settings[name].flatMap(Int.init) ?? standard.perSecond,
                burst: settings["\(name)_burst"].flatMap(Int.init) ?? standard.burst)
        }
        return RateLimits(
            key: limit("rate_limit_key", rates.key), identity: limit("rate_limit_identity", rates.identity),
            claim: limit("rate_limit_claim", rates.claim))
    }

    /// Who is asked where users came from.
    static func attribution(_ settings: Settings) -> AdServices {
        var network = AdServices()
        network.url = settings["apple_attribution_url"].flatMap(OutboundURL.init) ?? network.url
        network.retryAfterSeconds =
            settings["apple_attribution_retry_seconds"].flatMap(Int.init) ?? network.retryAfterSeconds
        network.takesMocks = settings["mode"] == "development"
        return network
    }

    private static let address: @Sendable (String) -> String? = {
        ListeningAddress($0) == nil ? "an address and a port, as in 127.0.0.1:8080" : nil
    }

    private static func oneOf(_ names: [String], _ value: String) -> String? {
        names.contains(value) ? nil : names.joined(separator: " or ")
    }

    private static func integer(_ range: ClosedRange<Int>, _ value: String) -> String? {
        Int(value).map(range.contains) == true ? nil : "a number from \(range.lowerBound) to \(range.upperBound)"
    }
}
