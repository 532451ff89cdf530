package import Domain
package import Engine
import Threads

/// Makes runs of rows, so that reads of many rows need not read the rows themselves (docs/decisions/0028). It works behind the
/// writer: an upload writes no runs. Of several processes on one store, one makes them.
package final class RunKeeper: Sendable {
    /// The lengths of runs.
    package struct Lengths: Sendable {
        /// The row numbers of a new run. Reads look at fewer rows beside the runs.
        package var short: Int64 = 2048
        /// The row numbers of a run that short runs become, a multiple of the short length.
        package var long: Int64 = 65_536
        /// The pause between two looks at the store.
        package var pauseMilliseconds = 500

        package init() {}
    }

    private struct State {
        var isStopping = false
        var isWaiting = false
    }

    private let store: any Store
    private let engine: Engine
    /// The engine's queue whose answers may arrive on any thread.
    private let lane: Int
    private let lengths: Lengths
    /// Tells the operator that a run could not be read and is made again.
    private let tell: @Sendable (RunRepair) -> Void
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    package init(
        _ store: any Store, _ engine: Engine, lane: Int, _ lengths: Lengths,
        tell: @escaping @Sendable (RunRepair) -> Void
    ) {
        (self.store, self.engine, self.lane, self.lengths, self.tell) = (store, engine, lane, lengths, tell)
        thread.withLock { $0 = WorkerThread(name: "onym-runs") { [self] in run() } }
    }

    /// Ends the thread after its present step.
    package func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        var plan = RunPlan(lengths)
        while !state.withLock({ $0.isStopping }) {
            // The store logs its own faults; the next look tries again.
            let next = try? store.leads ? plan.next(store) : nil
            if let next {
                if let repair = next.repair { tell(repair) }
                keep(next.act, in: next.project)
            } else {
                let _: Bool? = state.wait(milliseconds: lengths.pauseMilliseconds) { $0.isStopping ? true : nil }
            }
        }
    }

    /// Keeps runs, and waits for the writer.
    private func keep(_ act: KeepRuns, in project: ProjectID) {
        state.withLock { $0.isWaiting = true }
        let job = Job(call: Call(project: project, key: nil), act: act) { [state] _ in
            state.change { $0.isWaiting = false }
        }
        guard engine.submit([job], lane: lane) else {
            let _: Bool? = state.wait(milliseconds: lengths.pauseMilliseconds) { $0.isStopping ? true : nil }
            return
        }
        let _: Bool? = state.wait(milliseconds: RunKeeper.answerMilliseconds) {
            $0.isStopping || !$0.isWaiting ? true : nil
        }
    }

    private static let answerMilliseconds = 10_000
}

/// A run that the server makes again, because a document of it was missing or damaged.
package struct RunRepair: Equatable, Sendable {
    package let project: ProjectID
    package let kind: RowKind
    package let first: RowNumber
}

/// The next runs to make.
package struct RunPlan {
    /// A step: the project in whose journal it is, and the run that it repairs.
    package typealias Next = (project: ProjectID, act: KeepRuns, repair: RunRepair?)

    private let lengths: RunKeeper.Lengths
    /// The end of the runs when the plan last found no short runs to join.
    private var joined: Int64?

    package init(_ lengths: RunKeeper.Lengths) {
        precondition(
            lengths.short > 0 && lengths.long % lengths.short == 0 && lengths.long <= RowRun.numbersAtMost,
            "The lengths of runs do not fit.")
        self.lengths = lengths
    }

    /// The next step, and the project in whose journal it is; nil if all rows that can be in runs are in runs.
    package mutating func next(_ store: any Store) throws(StoreFault) -> Next? {
        let projects = store.directory.projects.keys.sorted { $0.rawValue < $1.rawValue }
        guard let project = projects.first else { return nil }
        let (lengths, joined) = (lengths, joined)
        if let (act, repair) = try store.read({ snapshot throws(StoreFault) in try RunPlan.repairing(snapshot) }) {
            return (project, act, repair)
        }
        let (act, nowJoined) = try store.read {
            snapshot throws(StoreFault) -> (KeepRuns?, Int64?) in
            let end = RunList.end(try snapshot.document(RunList.endKey))
            if let act = try RunPlan.withoutErased(projects, snapshot) { return (act, joined) }
            if joined != end {
                let lists = try RunPlan.lists(projects, snapshot)
                if let act = try RunPlan.joining(lists, end, lengths, snapshot) { return (act, nil) }
                if let act = try RunPlan.withoutExpired(lists, snapshot) { return (act, nil) }
            }
            return (try RunPlan.sealing(end, lengths, snapshot), end)
        }
        self.joined = nowJoined
        return act.map { (project, $0, nil) }
    }

    /// Makes a run again that a read could not read.
    private static func repairing(_ snapshot: any Snapshot) throws(StoreFault) -> (KeepRuns, RunRepair)? {
        guard let derived = snapshot.derived, let unread = derived.value(UnreadRun.key, UnreadRun.self) else {
            return nil
        }
        derived.keep(false, UnreadRun.key, bytes: 64)
        let (kind, project, old) = (unread.kind, unread.project, unread.head)
        let list = RunList(packed: try snapshot.document(RunList.key(of: kind, in: project)))
        // A read can also have an old list, whose run is replaced.
        guard let columns = RunColumn.columns(of: kind), list.runs.contains(old) else { return nil }
        if try old.run(kind, in: project, snapshot, nil).rows(columns) != nil { return nil }
        var rows: [RunRow] = []
        var last = old.first - 1
        while last < old.end - 1 {
            let page = try snapshot.rows(after: RowNumber(rawValue: last), limit: rowsAtOnce)
            let own = page.filter { $0.project == project && $0.row.row.kind == kind }.map(\.row)
            rows += try RunReading.rows(own.filter { $0.number.rawValue < old.end }, columns, in: project, snapshot)
            // Each row has a number of its own, so the page has all rows of as many numbers, but for those of erased people.
            last = max(page.last?.row.number.rawValue ?? 0, last + Int64(rowsAtOnce))
        }
        var edit = Edit()
        try edit.list(kind, project, snapshot) { list in
            replace(old, in: &list, kind, project, rows, columns)
        }
        return (edit.act, RunRepair(project: project, kind: kind, first: RowNumber(rawValue: old.first)))
    }

    /// The rows that a repair reads at once.
    private static let rowsAtOnce = 4096

    /// Puts rows in the place of a run; returns the documents to put.
    private static func replace(
        _ old: RunHead, in list: inout RunList, _ kind: RowKind, _ project: ProjectID, _ rows: [RunRow],
        _ columns: [RunColumn]
    ) -> [(key: DocumentKey, body: [UInt8])] {
        guard let place = list.runs.firstIndex(of: old) else { return [] }
        let gone = old.keys(kind, in: project).map { (key: $0, body: [] as [UInt8]) }
        if rows.isEmpty {
            list.runs.remove(at: place)
            return gone
        }
        let head = RunHead(rows, from: old.first, to: old.end, isSplit: old.isSplit, version: old.version &+ 1)
        list.runs[place] = head
        return gone + head.documents(RowRun.parts(rows, columns, from: old.first), kind, in: project)
    }

    private typealias KnownList = (project: ProjectID, kind: RowKind, columns: [RunColumn], list: RunList)

    /// All lists of runs, read at once. A store can have many projects.
    private static func lists(_ projects: [ProjectID], _ snapshot: any Snapshot) throws(StoreFault) -> [KnownList] {
        var lists: [KnownList] = []
        for kind in RowKind.allCases {
            guard let columns = RunColumn.columns(of: kind) else { continue }
            let found = try snapshot.documents(projects.map { RunList.key(of: kind, in: $0) })
            for project in projects {
                guard let packed = found[RunList.key(of: kind, in: project)] else { continue }
                lists.append((project, kind, columns, RunList(packed: packed)))
            }
        }
        return lists
    }

    /// Makes the first rows that no run has a run.
    private static func sealing(
        _ first: Int64, _ lengths: RunKeeper.Lengths, _ snapshot: any Snapshot
    ) throws(StoreFault) -> KeepRuns? {
        let end = (first / lengths.short + 1) * lengths.short
        guard snapshot.lastRow.rawValue >= end - 1 else { return nil }
        let rows = try snapshot.rows(after: RowNumber(rawValue: first - 1), limit: Int(lengths.short))
            .filter { $0.row.number.rawValue < end }
        var edit = Edit()
        edit.put(RunList.endKey, first == 1 ? [] : RunList.packed(end: first), RunList.packed(end: end))
        let ofProjects = Dictionary(grouping: rows, by: \.project)
        for kind in RowKind.allCases {
            guard let columns = RunColumn.columns(of: kind) else { continue }
            for (project, rows) in ofProjects {
                let own = rows.lazy.filter { $0.row.row.kind == kind }.map(\.row)
                let made = try RunReading.rows(Array(own), columns, in: project, snapshot)
                if made.isEmpty { continue }
                try edit.list(kind, project, snapshot) { list in
                    let head = RunHead(made, from: first, to: end)
                    list.runs.append(head)
                    list.end = end
                    return head.documents(RowRun.parts(made, columns, from: first), kind, in: project)
                }
            }
        }
        return edit.act
    }

    /// Joins the short runs of a long range.
    private static func joining(
        _ lists: [KnownList], _ end: Int64, _ lengths: RunKeeper.Lengths, _ snapshot: any Snapshot
    ) throws(StoreFault) -> KeepRuns? {
        for (project, kind, columns, list) in lists {
            guard let range = list.runs.first(where: { !$0.isSplit }).map({ $0.first / lengths.long }),
                end >= (range + 1) * lengths.long
            else { continue }
            let old = list.runs.filter { !$0.isSplit && $0.first / lengths.long == range }
            var rows: [RunRow] = []
            for head in old {
                guard let read = try head.run(kind, in: project, snapshot).rows(columns) else { return nil }
                rows += read
            }
            var edit = Edit()
            try edit.list(kind, project, snapshot) { list in
                list.runs.removeAll { old.contains($0) }
                let head = RunHead(rows, from: old[0].first, to: (range + 1) * lengths.long, isSplit: true)
                list.runs.append(head)
                list.runs.sort { $0.first < $1.first }
                return old.flatMap { $0.keys(kind, in: project) }.map { ($0, []) }
                    + head.documents(RowRun.parts(rows, columns, from: head.first), kind, in: project)
            }
            return edit.act
        }
        return nil
    }

    /// Removes the runs whose rows retention has removed.
    private static func withoutExpired(_ lists: [KnownList], _ snapshot: any Snapshot) throws(StoreFault) -> KeepRuns? {
        for (project, kind, _, list) in lists where !list.runs.isEmpty {
            let key = ExpiredRows.key(of: kind, in: project)
            guard let end = ExpiredRows(packed: try snapshot.document(key)) else { continue }
            let old = list.runs.filter(end.includes)
            if old.isEmpty { continue }
            var edit = Edit()
            try edit.list(kind, project, snapshot) { list in
                list.runs.removeAll { old.contains($0) }
                return old.flatMap { $0.keys(kind, in: project) }.map { ($0, []) }
            }
            return edit.act
        }
        return nil
    }

    /// Removes the rows of erased people from runs.
    private static func withoutErased(
        _ projects: [ProjectID], _ snapshot: any Snapshot
    ) throws(StoreFault) -> KeepRuns? {
        guard let packed = try snapshot.document(ErasedFromRuns.key) else { return nil }
        let known = ErasedFromRuns(packed: packed)
        if known.people.isEmpty { return nil }
        let erased = Set(known.people.map { UInt64(bitPattern: $0.rawValue) })
        for (project, kind, columns, list) in try lists(projects, snapshot) {
            guard let person = columns.firstIndex(of: .person) else { continue }
            for old in list.runs {
                let run = old.run(kind, in: project, snapshot)
                guard let people = try run.values(of: .person) else { return nil }
                if !people.contains(where: erased.contains) { continue }
                guard let rows = try run.rows(columns)?.filter({ !erased.contains($0.values[person]) }) else {
                    return nil
                }
                var edit = Edit()
                try edit.list(kind, project, snapshot) { list in
                    replace(old, in: &list, kind, project, rows, columns)
                }
                return edit.act
            }
        }
        var edit = Edit()
        edit.put(ErasedFromRuns.key, packed, known.withoutPeople.packed)
        return edit.act
    }

    /// Documents to replace.
    private struct Edit {
        private var before: [DocumentKey: [UInt8]] = [:]
        private var after: [(key: DocumentKey, body: [UInt8])] = []

        var act: KeepRuns { KeepRuns(before: before, after: after) }

        mutating func put(_ key: DocumentKey, _ old: [UInt8], _ new: [UInt8]) {
            before[key] = old
            after.append((key, new))
        }

        /// Changes the list of runs, and puts the documents that the body returns.
        mutating func list(
            _ kind: RowKind, _ project: ProjectID, _ snapshot: any Snapshot,
            _ body: (inout RunList) -> [(key: DocumentKey, body: [UInt8])]
        ) throws(StoreFault) {
            let key = RunList.key(of: kind, in: project)
            let packed = try snapshot.document(key)
            var list = RunList(packed: packed)
            after += body(&list)
            put(key, packed ?? [], list.packed)
        }
    }
}
