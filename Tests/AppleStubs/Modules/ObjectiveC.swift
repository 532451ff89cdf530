// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

// The module that says that the platform has Objective-C.
