import Threads

/// Carries work from the writer's thread to the loops, which start after the writer.
///
/// A loop accepts calls before all loops are known here. Work that comes that early waits, because its call waits for its answer.
package final class LoopPosts: Sendable {
    package typealias Work = @Sendable () -> Void
    /// Runs some work on a loop's thread soon.
    package typealias Post = @Sendable (@escaping Work) -> Void

    private struct State: Sendable {
        /// The loops; nil before they are known.
        var posts: [Post]?
        var early: [(lane: Int, work: Work)] = []
    }

    private let state = Monitor(State())

    package init() {}

    /// Sets the loops that get the work, and gives them the work that waits.
    package func open(_ posts: [Post]) {
        let early = state.withLock { state in
            defer { state = State(posts: posts) }
            return state.early
        }
        for (lane, work) in early where posts.indices.contains(lane) { posts[lane](work) }
    }

    /// Discards all further work.
    package func close() { state.withLock { $0 = State(posts: []) } }

    package var deliver: @Sendable (Int, @escaping Work) -> Void {
        { [self] lane, work in
            let post = state.withLock { state -> Post? in
                guard let posts = state.posts else {
                    state.early.append((lane, work))
                    return nil
                }
                return posts.indices.contains(lane) ? posts[lane] : nil
            }
            post?(work)
        }
    }
}
