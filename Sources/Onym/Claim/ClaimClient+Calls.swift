package import Foundation

/// Calls that the client sends once and does not keep: feedback, questionnaires, files (spec/claim.md 3.1).
extension ClaimClient {
    package typealias Ends<Value> = @Sendable (Result<Value, OnymError>) -> Void

    private func ask(_ completion: @escaping Ends<JSON>, _ request: @autoclosure () -> HTTPRequest) {
        enter {
            if let refusal { return call { completion(.failure(.refused(refusal))) } }
            let end = owe(completion)
            exchange(request()) { result in end(result.flatMap { $0.object }) }
        }
    }

    /// The user and the place, as far as each of these calls has them.
    private var place: [String: JSON] {
        ["bundle_id": .string(bundleID), "user_id": .string(owner), "session_id": .string(session)]
    }

    /// The members, and the known facts about the device.
    private func body(_ members: [String: JSON]) -> JSON {
        .object(facts.merging(place) { $1 }.filter { $0.value != .null }.merging(members) { $1 })
    }

    /// The server's receipt for feedback.
    package struct Receipt: Sendable {
        package let id: String
        package let createdAt: Date
    }

    /// Sends feedback. Answers the server's receipt.
    package func sendFeedback(_ message: String, name: String?, email: String?, _ completion: @escaping Ends<Receipt>) {
        var members: [String: JSON] = ["message": .string(message)]
        members["submitter_name"] = name.map(JSON.string)
        members["submitter_email"] = email.map(JSON.string)
        let time = runtime.serverNow
        ask(
            { result in
                completion(
                    result.flatMap { answer in
                        guard let id = answer["id"]?.text else {
                            return .failure(.malformed(status: 201, requestID: nil))
                        }
                        let made = answer["created_at"]?.text.flatMap(LinkingClient.moment) ?? time
                        return .success(Receipt(id: id, createdAt: made))
                    })
            }, request("/v1/feedback", body(members)))
    }

    /// Sends an ad network's token that the app has got itself, once. Answers whether the network has answered.
    package func submitAttribution(_ token: String, _ completion: @escaping Ends<Bool>) {
        let body: JSON = ["user_id": .string(currentUser), "attribution_token": .string(token)]
        ask(
            { completion($0.map { $0["pending"]?.bool != true }) },
            request("/v1/identity/attribution/apple-search-ads", body))
    }

    // MARK: - Questionnaires

    /// Asks for a questionnaire, and whether the app may show it to the user.
    package func questionnaire(_ slug: String, isForced: Bool, _ completion: @escaping Ends<JSON>) {
        ask(
            completion,
            request(
                "/v1/questionnaires/\(slug.escaped)?bundle_id=\(bundleID.escaped)&user_id=\(owner.escaped)"
                    + (isForced ? "&force=true" : ""), nil, "GET"))
    }

    /// Sends answers. Answers whether the questionnaire is complete now.
    package func answer(
        _ slug: String, _ answers: [String: JSON], isComplete: Bool, _ completion: @escaping Ends<Bool>
    ) {
        let members: [String: JSON] = ["answers": .object(answers), "is_complete": .bool(isComplete)]
        ask(
            { completion($0.map { $0["was_submitted"]?.bool ?? false }) },
            request("/v1/questionnaires/\(slug.escaped)/responses", body(members)))
    }

    /// Stops all questionnaires for the user.
    package func dismissQuestionnaires(_ completion: @escaping Ends<Void>) {
        ask(
            { completion($0.map { _ in }) },
            request("/v1/questionnaires/dismiss", .object(place.filter { $0.key != "session_id" })))
    }

    // MARK: - Files

    /// The longest time for an upload: the server waits equally long.
    private static let uploadSeconds: TimeInterval = 15 * 60
    private static let uploadAttempts = 2

    /// Sends files that go with an event, without waiting for the event's batch. A background queue reads the files and computes
    /// their checksums.
    func attach(_ attachments: [Attachment], to letter: Mailbox.Letter) {
        let event = mailbox.uuid(of: letter)
        outside { [weak self] in
            Task.detached {
                for attachment in attachments {
                    let content = attachment.read()
                    self?.enter {
                        switch content {
                        case .failure(let reason): self?.runtime.announce(.dropped(1, reason))
                        // An empty file needs no upload.
                        case .success(let content) where content.size == 0: break
                        case .success(let content): self?.reserve(attachment, content, event, letter.owner, 1)
                        }
                    }
                }
            }
        }
    }

    private func reserve(
        _ attachment: Attachment, _ content: Attachment.Content, _ event: String, _ owner: String, _ attempt: Int
    ) {
        guard refusal == nil else { return }
        let fail: (OnymError) -> Void = { [unowned self] error in
            guard error.isPassing, attempt < ClaimClient.uploadAttempts else {
                return runtime.announce(.dropped(1, .refused(error)))
            }
            later(delay(after: attempt, error)) { client in
                (client as? ClaimClient)?.reserve(attachment, content, event, owner, attempt + 1)
            }
        }
        let body: JSON = [
            "client_event_id": .string(event), "user_id": .string(owner),
            "original_filename": .string(attachment.name), "content_type": .string(attachment.contentType),
            "size_bytes": .integer(Int64(content.size)), "sha256": .string(content.sum),
            "is_dev": .bool(configuration.device.isDevelopment),
        ]
        exchange(request("/v1/ingest/attachment", body)) { [unowned self] result in
            let id = result.flatMap { answer in
                answer.object.flatMap { $0["attachment_id"]?.text.map(Result.success) ?? .failure(answer.malformed) }
            }
            switch id {
            case .failure(let error): fail(error)
            case .success(let id):
                var upload = request("/v1/ingest/attachment/\(id.escaped)", nil, "PUT")
                (upload.body, upload.file, upload.isCompressible) = (content.bytes, content.file, false)
                upload.fields["Content-Type"] = "application/octet-stream"
                exchange(upload, within: ClaimClient.uploadSeconds) { result in
                    if case .failure(let error) = result.flatMap({ $0.object }) { fail(error) }
                }
            }
        }
    }
}
