import Threads

/// The way from the writer back to the loops, which begin after it.
final class LoopPosts: Sendable {
    typealias Work = @Sendable () -> Void
    /// Has the thread of a lane run some work soon.
    typealias Post = @Sendable (@escaping Work) -> Void

    private let posts = Monitor<[Post]>([])

    /// Has each lane's work go somewhere.
    func open(_ posts: [Post]) { self.posts.withLock { $0 = posts } }

    /// Has all further work go nowhere.
    func close() { open([]) }

    var deliver: @Sendable (Int, @escaping Work) -> Void {
        { [self] lane, work in
            let post = posts.withLock { $0.indices.contains(lane) ? $0[lane] : nil }
            post?(work)
        }
    }
}
