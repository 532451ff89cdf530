// The kit for apps' own tests is the kit of the SDK's tests.
@_exported public import OnymTesting
