// The name of mParticle's module: an app keeps its import lines.
@_exported public import OnymMParticle
