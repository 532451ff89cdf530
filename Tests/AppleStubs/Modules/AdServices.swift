// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

open class AAAttribution {
    open class func attributionToken() throws -> String { "" }
}
