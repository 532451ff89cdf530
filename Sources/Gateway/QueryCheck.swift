package import Domain
import HTTPMessage
import HTTPServer

extension Endpoint {
    /// The refusal of a request with a parameter that the call does not have; nil if the call has all parameters.
    ///
    /// A filter that the server ignored would answer wrong numbers with 200, so each parameter has an effect or a refusal by its
    /// name. A repeated parameter is refused too, because only one of its values could count.
    func refusal(ofQuery request: borrowing Request) -> Refusal? {
        guard !operation.ignoresOtherParameters, request.rawQuery != nil else { return nil }
        guard let parameters = request.query?.parameters else { return .malformedQuery }
        for (place, parameter) in parameters.enumerated() {
            let name = parameter.name
            guard operation.query.contains(where: { $0.name == name }) else { return .noSuchParameter(name) }
            if parameters[..<place].contains(where: { $0.name == name }) { return .repeatedParameter(name) }
        }
        return nil
    }
}

extension Refusal {
    package static let malformedQuery = Refusal(.invalid, "validation_error", "The query is malformed.")

    static func noSuchParameter(_ name: String) -> Refusal {
        Refusal(.invalid, "validation_error", "The call has no parameter \"\(shown(name))\".")
    }

    static func repeatedParameter(_ name: String) -> Refusal {
        Refusal(.invalid, "validation_error", "The parameter \"\(shown(name))\" must occur once.")
    }

    /// A part of a name that a caller chose.
    private static func shown(_ name: String) -> Substring { name.prefix(32) }
}
