#if canImport(AdServices)
    import AdServices
#endif

/// The platform's own attribution tokens.
enum PlatformTokens {
    /// The platform's tokens; nil on platforms without tokens.
    static var available: (any AttributionTokens)? {
        #if canImport(AdServices)
            AdServicesTokens()
        #else
            nil
        #endif
    }
}

#if canImport(AdServices)
    private struct AdServicesTokens: AttributionTokens {
        func token() async throws -> String { try AAAttribution.attributionToken() }
    }
#endif
