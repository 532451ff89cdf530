// The name of Sentiance's module: an app keeps its import lines.
@_exported public import OnymSentiance
