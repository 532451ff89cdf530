// The name of OwlMetry's module: an app keeps its import lines.
@_exported public import OnymOwl
