package import Testing

/// Lets other tasks run until a condition holds, for twenty seconds at most. Then it records an issue at the place of the call.
package func eventually(
    isolation: isolated (any Actor)? = #isolation, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () -> Bool
) async {
    let end = ContinuousClock.now.advanced(by: .seconds(20))
    while !condition() {
        guard ContinuousClock.now < end else {
            Issue.record("What the test waits for did not happen.", sourceLocation: sourceLocation)
            return
        }
        await Task.yield()
    }
}
