import ByteText
import Compression
import Crypto
import JSON
import SQLite

/// Reads a folder of copies: checks its files, and restores the store's file from them.
package struct CopyReader {
    package let path: String
    package let manifest: CopyManifest

    package init(_ path: String) throws(CopyFault) {
        self.path = path
        manifest = try CopyReader.manifest(of: path)
    }

    static func manifest(of path: String) throws(CopyFault) -> CopyManifest {
        let file = "\(path)/\(CopyManifest.name)"
        guard CopyFiles.exists(file) else { throw CopyFault("\(path) has no copies: \(file) does not exist.") }
        let bytes = try CopyFiles.read(file)
        do throws(JSONFault) {
            return try CopyManifest(json: bytes)
        } catch {
            throw CopyFault("\(file) cannot be read: \(error.message).")
        }
    }

    /// The end of the restored calls.
    package enum Until: Equatable, Sendable {
        case end
        /// The last call.
        case call(Int64)
        /// The latest moment of a call, in milliseconds.
        case moment(Int64)

        fileprivate func includes(_ sequence: Int64, _ at: Int64) -> Bool {
            switch self {
            case .end: true
            case .call(let last): sequence <= last
            case .moment(let last): at <= last
            }
        }
    }

    /// The files of a restore, after their digests were checked.
    package struct Plan: Equatable, Sendable {
        package let base: CopyManifest.Base
        fileprivate let segments: [Int]
        fileprivate let until: Until
        /// The gap or the damage behind which nothing can be restored; nil if the log is whole.
        package let gap: String?
        /// The last call that can be restored.
        package let last: Int64
    }

    /// Chooses a copy of the file, and checks it and all segments of the log behind it.
    package func plan(_ until: Until) throws(CopyFault) -> Plan {
        guard let base = try base(until) else {
            guard let first = manifest.bases.first else { throw CopyFault("\(path) has no complete copy.") }
            throw CopyFault("The oldest copy in \(path) is of call \(first.sequence), which is later than that.")
        }
        guard let chain = manifest.chains.first(where: { $0.number == base.chain }) else {
            throw CopyFault("\(path)/\(CopyManifest.name) names no log for the copy \(base.number).")
        }
        try check(base)
        var (number, segments, gap): (Int, [Int], String?) = (base.first, [], nil)
        var before: String?
        var ends: [(sequence: Int64, at: Int64)] = []
        // The last commits of each segment up to the end. The moments of commits may go back with the clock.
        var lasts: [Int64?] = []
        while true {
            let name = CopyManifest.segmentPath(chain.number, number)
            guard CopyFiles.exists("\(path)/\(name)") else {
                if number <= chain.last { gap = "\(name) is missing." }
                break
            }
            let bytes = try CopyFiles.read("\(path)/\(name)")
            let digest = Hexadecimal.encode(SHA256.digest(of: bytes).bytes)
            guard let segment = LogSegment(packed: bytes), segment.chain == chain.number, segment.number == number,
                before.map({ $0 == Hexadecimal.encode(segment.digestBefore) }) ?? true,
                number != chain.last || digest == chain.digest
            else {
                // A segment behind the manifest may be the rest of a killed server.
                if number <= chain.last { gap = "\(name) is damaged." }
                break
            }
            segments.append(number)
            lasts.append(segment.commits.last { until.includes($0.sequence, $0.at) }?.sequence)
            ends.append(segment.commits.last.map { ($0.sequence, $0.at) } ?? (base.sequence, base.at))
            before = digest
            number += 1
        }
        // The digest of a segment stands in the next one, so a gap casts doubt on the segment before it, too.
        if gap != nil, !segments.isEmpty {
            segments.removeLast()
            ends.removeLast()
            lasts.removeLast()
        }
        if (segments.last ?? base.first - 1) < base.complete {
            throw CopyFault(
                "\(gap ?? "The log ends too early.") The copy \(base.number) cannot be restored without it.")
        }
        let end = ends.last ?? (base.sequence, base.at)
        let last = lasts.compactMap(\.self).max() ?? base.sequence
        let through = if case .moment = until { Until.call(max(base.sequence, last)) } else { until }
        return Plan(
            base: base, segments: segments, until: through, gap: gap ?? laterGap(base, end, until), last: end.sequence)
    }

    /// The last copy of the file that is no later than the end of a restore.
    private func base(_ until: Until) throws(CopyFault) -> CopyManifest.Base? {
        var later: CopyManifest.Base?
        for base in manifest.bases.reversed() {
            if until.includes(base.sequence, base.at) { return base }
            if try goesBack(to: until, behind: base, upTo: later) { return base }
            later = base
        }
        return nil
    }

    /// Whether the clock went back behind a copy: the copy has a later moment than the end of a restore, and further calls have not.
    private func goesBack(
        to until: Until, behind base: CopyManifest.Base, upTo later: CopyManifest.Base?
    ) throws(CopyFault) -> Bool {
        guard case .moment = until else { return false }
        var number = base.first
        // The segments from a later copy on were looked at with that copy.
        while later.map({ $0.chain != base.chain || number < $0.first }) ?? true {
            let file = "\(path)/\(CopyManifest.segmentPath(base.chain, number))"
            guard CopyFiles.exists(file), let segment = LogSegment(packed: try CopyFiles.read(file)) else { break }
            if segment.commits.contains(where: { $0.sequence > base.sequence && until.includes($0.sequence, $0.at) }) {
                return true
            }
            number += 1
        }
        return false
    }

    /// Describes the gap of a restore from a base whose log ends too early: a later log has the further calls, and no base begins that
    /// log. Nil if the log of the base has all calls that the restore asks for.
    private func laterGap(_ base: CopyManifest.Base, _ end: (sequence: Int64, at: Int64), _ until: Until) -> String? {
        switch until {
        case .end: break
        case .call(let last): if last <= end.sequence { return nil }
        case .moment(let last): if last <= end.at { return nil }
        }
        let next = manifest.bases.first { $0.number > base.number && $0.chain > base.chain }
        let later = manifest.chains.filter { $0.number > base.chain }.map(\.sequence).max() ?? 0
        let last = next.map { $0.sequence - 1 } ?? later
        guard last > end.sequence else { return nil }
        return "The calls \(end.sequence + 1) to \(last) are in a log without a copy of the file."
    }

    private func check(_ base: CopyManifest.Base) throws(CopyFault) {
        let name = CopyManifest.basePath(base.number)
        guard try CopyReader.digest(of: "\(path)/\(name)") == base.digest else {
            throw CopyFault("\(path)/\(name) is damaged: it has another digest than the manifest names.")
        }
    }

    /// The SHA-256 of a file, in hexadecimal digits.
    private static func digest(of path: String) throws(CopyFault) -> String {
        let (file, hasher) = (try ReadFile(path), SHA256())
        hasher.begin()
        while case let piece = try file.read(1 << 20), !piece.isEmpty { hasher.update(piece) }
        return Hexadecimal.encode(hasher.finish().bytes)
    }

    /// The end of a restored store.
    package struct Restored: Equatable, Sendable {
        package let sequence: Int64
        package let at: Int64
        /// The last call of all copies.
        package let lastSequence: Int64
        /// Whether the server stopped after this call and copied everything before, so that no later call is known.
        package let isClean: Bool
    }

    /// Makes the store's file.
    ///
    /// - Parameters:
    ///   - plan: the checked files.
    ///   - target: the path of the store's file, which does not exist.
    package func restore(_ plan: Plan, to target: String) throws(CopyFault) -> Restored {
        let file = try NewFile(target)
        try copyBase(plan.base, to: file)
        var (sequence, at, length) = (plan.base.sequence, plan.base.at, 0)
        segments: for number in plan.segments {
            let name = CopyManifest.segmentPath(plan.base.chain, number)
            guard let segment = LogSegment(packed: try CopyFiles.read("\(path)/\(name)")) else {
                throw CopyFault("\(path)/\(name) is damaged.")
            }
            for commit in segment.commits {
                // Up to here the copy of the file is not one moment.
                if number > plan.base.complete, !plan.until.includes(commit.sequence, commit.at) { break segments }
                try apply(commit, to: file)
                (sequence, at) = (commit.sequence, commit.at)
                length = commit.databasePages * commit.pageBytes
            }
        }
        if length > 0 { try file.setLength(length) }
        try file.finish()
        let end = manifest.chains.last
        return Restored(
            sequence: sequence, at: at, lastSequence: max(sequence, manifest.chains.map(\.sequence).max() ?? 0),
            isClean: end.map { end in
                !end.token.isEmpty && end.number == plan.base.chain && end.sequence == sequence
                    && end.last == plan.segments.last ?? plan.base.first - 1
            } ?? false)
    }

    private func copyBase(_ base: CopyManifest.Base, to file: NewFile) throws(CopyFault) {
        let name = "\(path)/\(CopyManifest.basePath(base.number))"
        let (source, stream) = (try ReadFile(name), InflatingStream())
        while case let piece = try source.read(CopyReader.pieceBytes), !piece.isEmpty {
            guard let bytes = try? stream.inflate(piece) else { throw CopyFault("\(name) is damaged.") }
            try file.write(bytes)
        }
        guard stream.isComplete else { throw CopyFault("\(name) is damaged.") }
    }

    /// The compressed bytes that a restore decompresses at once.
    private static let pieceBytes = 64 << 10

    private func apply(_ commit: LoggedCommit, to file: NewFile) throws(CopyFault) {
        let step = WriteAheadLog.frameHeaderBytes + commit.pageBytes
        for start in stride(from: 0, to: commit.frames.count, by: step) {
            let page = Int(WriteAheadLog.integer(commit.frames, start))
            let bytes = commit.frames[start + WriteAheadLog.frameHeaderBytes..<start + step]
            try file.write(bytes, at: (page - 1) * commit.pageBytes)
        }
    }

    /// Copies the attachments into a data folder, without those whose content is not that of their names. Answers the paths of these.
    package func restoreAttachments(to folder: String) throws(CopyFault) -> [String] {
        var damaged: [String] = []
        for part in CopyFiles.names(in: "\(path)/attachments") where part.utf8.count == 2 {
            try CopyFiles.make("\(folder)/\(part)")
            for name in CopyFiles.names(in: "\(path)/attachments/\(part)") where !name.hasSuffix(".part") {
                let source = "\(path)/attachments/\(part)/\(name)"
                guard try CopyReader.digest(of: source) == name else {
                    damaged.append(source)
                    continue
                }
                try CopyFiles.copy(source, to: "\(folder)/\(part)/\(name)")
            }
        }
        return damaged
    }
}
