import Domain

/// The result of a call before anything of it is kept.
enum Verdict {
    /// The call repeats an earlier call, and gets the answer of that call.
    case repeated(Reply)
    /// The caller may not make the call: it has no proof for a name in the call or for a person that the rules found, or the replay
    /// key belongs to another call.
    case turnedAway(Refusal)
    /// The rules refused the call.
    case refused(Refusal, by: Ruling)
    /// The rules decided the call. A call without a proof is only counted where the project permits such calls.
    case decided(Decision<Reply>, by: Ruling, unproven: Refusal?)

    /// The refusal that the caller gets; nil for an answer.
    var refusal: Refusal? {
        switch self {
        case .repeated, .decided: nil
        case .turnedAway(let refusal), .refused(let refusal, by: _): refusal
        }
    }
}

/// What the rules decided, and what the decision read.
struct Ruling {
    /// The call, or the smaller call that its caller may make.
    let act: any Act
    /// The roots of the groups with two or more members that the decision read.
    var groups: Set<PersonID> = []
    /// The people of these groups by whom the decision asked.
    var people: Set<PersonID> = []
}

extension BatchFacts {
    /// Decides a call, and keeps nothing.
    ///
    /// The order of the questions is a part of the rules: the proof comes before repetitions, because only a permitted caller
    /// may get an earlier answer, and it comes again after the decision, because the decision may find people for whom the
    /// caller must not speak.
    func verdict(on job: Job, _ stamp: Stamp, _ strategy: Strategy) -> Verdict {
        let call = job.call
        let proof = call.proof.flatMap { $0.mode == .off ? nil : $0 }
        let isRequired = proof?.mode == .require
        let missing = proof.flatMap { refusal(of: job.act, by: $0, in: call.project) }
        if let missing, isRequired { return .turnedAway(missing) }
        do throws(Refusal) {
            if let claim = call.replay, let reply = try earlier(claim)?.reply(for: claim) {
                if let proof, isRequired, let missing = refusal(of: Decision(reply), by: proof, in: call.project) {
                    return .turnedAway(missing)
                }
                return .repeated(named(reply))
            }
        } catch {
            return .turnedAway(error)
        }
        var ruling = Ruling(act: call.permitted(job.act, strategy))
        let result = Result { () throws(Refusal) in try decide(ruling.act, stamp, in: call.project) }
        // The proof and the folds read groups too, and no result depends on these groups.
        if type(of: job.act).readsMerges { (ruling.groups, ruling.people) = (groupsRead, peopleRead) }
        switch result {
        case .failure(let refusal): return .refused(refusal, by: ruling)
        case .success(let decision):
            let unproven = missing ?? proof.flatMap { refusal(of: decision, by: $0, in: call.project) }
            if let unproven, isRequired { return .turnedAway(unproven) }
            return .decided(decision, by: ruling, unproven: unproven)
        }
    }
}
