import Domain
import Engine
import HTTPMessage
import HTTPServer

// Calls that read committed facts.

extension Gateway {
    /// Answers a question on a thread that may wait for the disk.
    func ask(
        _ query: @escaping Endpoint.EndpointQuery, _ id: RequestID, _ exchange: Exchange, _ kind: CallKind
    ) throws(Rejection) -> Handling {
        let limit = limit(for: exchange)
        let isTaken = readers.submit { [store] in
            let response: Response
            do throws(StoreFault) {
                response = try store.read(until: limit()) { snapshot throws(StoreFault) in
                    try query(try RoutedSnapshot.over(snapshot))
                }
            } catch {
                response = kind.unavailable(id)
            }
            exchange.post { exchange.answer(response) }
        }
        guard isTaken else { throw kind.refusal(.http(.overloaded), id) }
        return .later
    }

    /// Repeats a question until it has an answer.
    func wait(
        _ watch: Endpoint.EndpointWatch, _ id: RequestID, _ exchange: Exchange, _ kind: CallKind
    ) throws(Rejection) -> Handling {
        let limit = limit(for: exchange)
        let isTaken = watchers.watch(milliseconds: watch.waitMilliseconds, for: exchange.presence) {
            [store] isLast in
            var response: Response?
            do throws(StoreFault) {
                response = try store.read(until: limit()) { snapshot throws(StoreFault) in
                    try watch.look(snapshot, isLast)
                }
            } catch {
                response = kind.unavailable(id)
            }
            guard let answer = response else { return false }
            exchange.post { exchange.answer(answer) }
            return true
        }
        guard isTaken else { throw kind.refusal(.http(.overloaded), id) }
        return .later
    }

    /// The time limit for reading. The limit starts when the reading starts; this function runs on the loop's thread.
    ///
    /// - Parameter spent: the nanoseconds that earlier slices of the same call took.
    func limit(for exchange: Exchange, spent: UInt64 = 0) -> @Sendable () -> ReadLimit {
        let client = exchange.presence
        return { [readTimes, readers, monotonic] in readTimes.limit(client, readers, monotonic, spent: spent) }
    }
}
