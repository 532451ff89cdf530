// The name of Qonversion's module: an app keeps its import lines.
@_exported public import OnymQonversion
