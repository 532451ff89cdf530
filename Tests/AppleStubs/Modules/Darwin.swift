// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

// The C library of Apple's platforms.
@_exported import Glibc
