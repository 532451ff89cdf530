package import HTTPMessage

/// The part of a route's description that goes into the OpenAPI document.
package struct Operation: Sendable {
    package let id: String
    package let summary: String
    package let description: String?
    /// The parameters of the query string.
    package let query: [Schema.Property]
    /// Whether the call accepts all other parameters too. The vendors' clients send parameters that cannot change a fixed answer,
    /// and caches need them.
    package let ignoresOtherParameters: Bool
    package let request: Schema?
    package private(set) var responses: [Answer]

    /// The same operation with one more answer.
    func adding(_ answer: Answer) -> Operation {
        var operation = self
        operation.responses.append(answer)
        return operation
    }

    package struct Answer: Sendable {
        package let status: Status
        package let description: String
        package let contentType: String
        package let schema: Schema?

        package init(
            _ status: Status, _ description: String, contentType: String = "application/json", schema: Schema? = nil
        ) {
            self.status = status
            self.description = description
            self.contentType = contentType
            self.schema = schema
        }
    }

    package init(
        id: String, summary: String, description: String? = nil, query: [Schema.Property] = [],
        ignoresOtherParameters: Bool = false, request: Schema? = nil, responses: [Answer]
    ) {
        self.id = id
        self.summary = summary
        self.description = description
        self.query = query
        self.ignoresOtherParameters = ignoresOtherParameters
        self.request = request
        self.responses = responses
    }
}

/// A way for callers to prove their identity.
package struct SecurityScheme: Sendable {
    package let name: String
    package let kind: Kind
    package let description: String

    package enum Kind: Sendable {
        case basic
        case bearer
        case header(String)
    }

    package init(_ name: String, _ kind: Kind, _ description: String) {
        self.name = name
        self.kind = kind
        self.description = description
    }
}

/// The shape of a JSON value, as far as the API guarantees the shape.
package indirect enum Schema: Sendable {
    case string(_ description: String? = nil, oneOf: [String] = [])
    case integer(_ description: String? = nil)
    case number(_ description: String? = nil)
    case boolean(_ description: String? = nil)
    case null
    case array(Schema)
    case object([Property], others: Bool = true)
    case anyOf([Schema])
    /// A schema that many calls have, under a name of its own.
    case named(String, Schema)

    package struct Property: Sendable {
        package let name: String
        package let schema: Schema
        package let isRequired: Bool

        package init(_ name: String, _ schema: Schema, required: Bool = false) {
            self.name = name
            self.schema = schema
            isRequired = required
        }
    }
}
