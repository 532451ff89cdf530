package import Foundation
import Threads

extension Process {
    /// Starts it, one process of the tests at a time: one that is started while another is being started would inherit the socket by
    /// which that one's end is noticed, and who waits for that would wait until both have ended.
    ///
    /// - Parameter ends: those of its files that are to be pipes. These are made here, because another process would inherit them, too,
    ///   and who waits for their end would wait for that one.
    /// - Returns: the pipes.
    @discardableResult
    package func start(piping ends: ReferenceWritableKeyPath<Process, Any?>...) throws -> [Pipe] {
        try Process.starting.write {
            let pipes = ends.map { end in
                let pipe = Pipe()
                for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
                    _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
                }
                self[keyPath: end] = pipe
                return pipe
            }
            try run()
            return pipes
        }
    }

    private static let starting = ReadWriteLock()

    /// Waits for a connection and takes it, so that no process inherits it; negative where there is none.
    package static func acceptForItself(_ listener: Int32) -> Int32 {
        var awaited = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
        guard poll(&awaited, 1, -1) == 1 else { return -1 }
        return starting.write {
            let connection = accept(listener, nil, nil)
            _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
            return connection
        }
    }

    /// Waits until it has ended, and kills it with its group if that takes too long; answers whether it ended by itself.
    @discardableResult
    package func end(withinMilliseconds milliseconds: Int = Patience.milliseconds) -> Bool {
        if Patience.until(milliseconds: milliseconds, { !isRunning }) { return true }
        for process in [-processIdentifier, processIdentifier] { kill(process, SIGKILL) }
        waitUntilExit()
        return false
    }
}
