#if canImport(AdServices)
    import AdServices
#endif

/// The platform's own tokens of attribution.
enum PlatformTokens {
    /// nil where the platform has none.
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
