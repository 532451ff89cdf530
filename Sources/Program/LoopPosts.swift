import Threads

/// Carries work from the writer's thread to the loops, which start after the writer.
final class LoopPosts: Sendable {
    typealias Work = @Sendable () -> Void
    /// Runs some work on a loop's thread soon.
    typealias Post = @Sendable (@escaping Work) -> Void

    private let posts = Monitor<[Post]>([])

    /// Sets the loops that get the work.
    func open(_ posts: [Post]) { self.posts.withLock { $0 = posts } }

    /// Discards all further work.
    func close() { open([]) }

    var deliver: @Sendable (Int, @escaping Work) -> Void {
        { [self] lane, work in
            let post = posts.withLock { $0.indices.contains(lane) ? $0[lane] : nil }
            post?(work)
        }
    }
}
