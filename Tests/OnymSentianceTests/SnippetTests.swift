import ClientKit
import Foundation
import Onym
import OnymSentiance
import Testing

/// They share the one instance, so they run one after the other.
@Suite("The snippets of seeds 000 and 002", .serialized, .timeLimit(.minutes(30)))
struct SnippetTests {
    private let transport = ScriptedTransport()
    private let time = ManualTime()
    private let sentiance = Sentiance.shared
    private let lines = Collector<String>()

    init() {
        begin(MemoryFiles())
    }

    private func begin(_ files: MemoryFiles) {
        sentiance.close()
        let options = SENTOptions()
        options.platformUrl = "https://onym.test"
        options.configure = { [transport, time, lines] in
            $0 = Bench.configuration($0.keys)
            $0.transport = transport
            $0.time = time
            $0.files = files
            $0.callbacks = .background
            ($0.log, $0.logger) = (.warnings, lines.callback)
        }
        sentiance.initialize(options: options)
    }

    @discardableResult
    private func answer(_ status: Int, _ json: JSON) async -> HTTPRequest? {
        await eventually { !transport.open.isEmpty }
        return transport.answer(.json(status, json))
    }

    private func session(_ user: JSON, isActive: Bool = true) -> JSON {
        [
            "install_id": "5a18fc4b0962209e0000000d", "user_id": user, "token": "t", "token_type": "Bearer",
            "expires_at": "2027-01-15T09:00:00.000Z", "refresh_token": "r", "is_active": .bool(isActive),
            "reason": isActive ? .null : "blocked", "by_device_class": isActive ? .null : "phone",
        ]
    }

    private typealias Ends = Collector<(SENTUserCreationResult?, SENTUserCreationFailureReason?)>

    @Test("Creating a User On the Device")
    func creating() async {
        #expect(sentiance.initState == .initialized && !sentiance.userExists)
        let ends = Ends()
        Seed002_CreatingAUserOnTheDevice.snippet { ends.callback(($0, $1)) }
        #expect(sentiance.initState == .inProgress)
        let request = await answer(201, session("u"))
        #expect(request?.json["authentication_code"] == "authCode you received")
        await eventually { !ends.values.isEmpty }
        #expect(ends.values[0].0?.userInfo.userId == "u")
        #expect(sentiance.userExists && sentiance.isUserLinked && sentiance.userId == "u")
        #expect(sentiance.sdkStatus.isRemoteEnabled && sentiance.sdkStatus.canDetect)
        Seed002_CreatingAUserOnTheDevice.snippet { ends.callback(($0, $1)) }
        await eventually { ends.values.count >= 2 }
        #expect(ends.values[1].1 == .userAlreadyExists && transport.requests.count == 1)
        #expect(sentiance.initialize(options: SENTOptions()).failureReason == .reinitializationNotAllowed)
    }

    private static let failures: [(ScriptedTransport.Answer, SENTUserCreationFailureReason)] = [
        (.fault(.offline), .networkError), (.fault(.timeout), .networkError), (.fault(.tls("no")), .networkError),
        (.json(400, ["errorCode": "INVALID_AUTHENTICATION_CODE"]), .serverError), (.bytes(500, ""), .serverError),
        (.bytes(200, "garbage"), .serverError),
    ]

    @Test("each failure has its reason", arguments: 0..<failures.count)
    func reason(row: Int) async {
        let ends = Ends()
        Seed002_CreatingAUserOnTheDevice.snippet { ends.callback(($0, $1)) }
        await eventually { !transport.open.isEmpty }
        transport.answer(SnippetTests.failures[row].0)
        await eventually { !ends.values.isEmpty }
        #expect(ends.values.map(\.1) == [SnippetTests.failures[row].1])
    }

    @Test("Multi-User Support: a reset, and then another user")
    func reset() async {
        let statuses = Collector<Bool>()
        sentiance.setDidReceiveSdkStatusUpdateHandler { statuses.callback($0.isRemoteEnabled) }
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        let resets = Collector<SENTSDKInitState?>()
        sentiance.reset { result, _ in resets.callback(result?.initState) }
        let errors = Collector<SENTResetFailureReason?>()
        sentiance.reset { _, error in errors.callback(error?.failureReason) }
        #expect(await answer(200, [:])?.path == "/sdk/reset")
        await eventually { !(resets.values.isEmpty || errors.values.isEmpty) }
        #expect(resets.values == [.initialized] && errors.values == [.resetting] && !sentiance.userExists)
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("v", isActive: false))
        await eventually { !statuses.values.isEmpty }
        // The handler has survived the reset, and says that another device is the active one.
        #expect(statuses.values == [false] && sentiance.userId == "v")
        #expect(sentiance.sdkStatus.detectionStatus == .enabledButBlocked)
        #expect(sentiance.sdkStatus.deactivation == Deactivation(reason: "blocked", byDeviceClass: "phone"))
        let tokens = Collector<SENTUserAccessTokenFailureReason?>()
        sentiance.requestUserAccessToken { _, error in tokens.callback(error?.failureReason) }
        await eventually { !tokens.values.isEmpty }
        #expect(tokens.values == [.userDisabledRemotely])
        sentiance.setDidReceiveSdkStatusUpdateHandler(nil)
    }

    @Test("the app's wish about detections has a status, and ends with the user")
    func detections() async {
        let results = Collector<String>()
        func enable(until end: Date? = nil) async {
            let count = results.values.count
            sentiance.enableDetections(withExpiryDate: end) { result, error in
                results.callback(
                    result.map { "\($0.detectionStatus)" } ?? "\(error.map { "\($0.failureReason)" } ?? "")")
            }
            await eventually { results.values.count != count }
        }
        await enable()
        #expect(results.values == ["noUser"] && sentiance.detectionStatus == .disabled)
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        #expect(sentiance.detectionStatus == .enabledAndDetecting)
        let offs = Collector<SENTDetectionStatus?>()
        sentiance.disableDetections { result, _ in offs.callback(result?.detectionStatus) }
        await eventually { !offs.values.isEmpty }
        #expect(offs.values == [.disabled] && sentiance.sdkStatus.detectionStatus == .disabled)
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        await enable(until: now.addingTimeInterval(60))
        await enable(until: now)
        #expect(results.values == ["noUser", "enabledAndDetecting", "pastExpiryDate"])
        time.advance(61)
        #expect(sentiance.detectionStatus == .expired && !sentiance.sdkStatus.canDetect)
        await enable()
        #expect(sentiance.detectionStatus == .enabledAndDetecting)
        sentiance.disableDetections()
        sentiance.reset()
        await answer(200, [:])
        await eventually { sentiance.initState != .resetting }
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("v", isActive: false))
        await eventually { sentiance.userId == "v" }
        // The next user has no wish yet, and is blocked.
        #expect(sentiance.detectionStatus == .enabledButBlocked)
        await enable()
        #expect(results.values.last == "userDisabledRemotely")
    }

    @Test("the names without an effect answer the vendor's nothing, send nothing, and write one line")
    func inert() async {
        #expect(sentiance.version == OnymClient.version)
        #expect(SENTOptions(for: .appLaunch).platformUrl == nil)
        let status = sentiance.sdkStatus
        #expect(status.isAccelPresent && status.isGyroPresent && status.isGpsPresent)
        #expect(status.locationPermission == SENTLocationPermission.never)
        let states: [SENTQuotaStatus] = [status.wifiQuotaStatus, status.mobileQuotaStatus, status.diskQuotaStatus]
        #expect(states.allSatisfy { $0 == .ok })
        let bytes: [Int] = [
            sentiance.wifiQuotaLimit, sentiance.wifiQuotaUsage, sentiance.mobileQuotaLimit,
            sentiance.mobileQuotaUsage, sentiance.diskQuotaLimit, sentiance.diskQuotaUsage,
        ]
        #expect(bytes.allSatisfy { $0 == 0 })
        let ends = Collector<Bool>()
        sentiance.submitDetections { result, error in ends.callback(result != nil && error == nil) }
        await eventually { !ends.values.isEmpty }
        #expect(ends.values == [true] && transport.requests.isEmpty)
        #expect(sentiance.sdkStatus.isAccelPresent && sentiance.wifiQuotaLimit == 0)
        #expect(sentiance.sdkStatus == status, "a log does not make statuses different")
        let names = [
            "isAccelPresent", "isGyroPresent", "isGpsPresent", "wifiQuotaStatus", "mobileQuotaStatus",
            "diskQuotaStatus", "wifiQuotaLimit", "wifiQuotaUsage", "mobileQuotaLimit", "mobileQuotaUsage",
            "diskQuotaLimit", "diskQuotaUsage", "submitDetections(completionHandler:)",
        ]
        await eventually { lines.values.count >= names.count }
        #expect(lines.values.count == names.count, "\(lines.values)")
        for name in names { #expect(lines.values.contains { $0.hasSuffix("\(name) does nothing here") }, "\(name)") }
    }

    @Test("the enums have the vendor's order")
    func numbers() {
        #expect(SENTSDKInitState.allCases == [.notInitialized, .inProgress, .initialized, .resetting])
        #expect(SENTSDKInitState.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(SENTDetectionStatus.allCases == [.disabled, .expired, .enabledButBlocked, .enabledAndDetecting])
        #expect(SENTDetectionStatus.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(SENTLocationPermission.allCases == [.always, .whileInUse, .never])
        #expect(SENTEnableDetectionsFailureReason.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(SENTDisableDetectionsFailureReason.allCases.map(\.rawValue) == [0, 1, 2])
        #expect(SENTQuotaStatus.allCases == [.ok, .warning, .exceeded])
    }

    @Test("Receive the unique install id from the SDK; LINK_FAILED, and the same install again")
    func linking() async {
        let (installs, ends) = (Collector<String>(), Collector<SENTInitIssue?>())
        Seed000_ReceiveTheUniqueInstallID.snippet(
            {
                installs.callback($0)
                $1(false)
                $1(true)
            }, ends.callback)
        let made = await answer(201, session(.null))
        #expect(made?.path == "/sdk/installs" && made?.json["app_id"] == "APPID" && made?.json["secret"] == "SECRET")
        await eventually { !ends.values.isEmpty }
        Seed000_ReceiveTheUniqueInstallID.snippet(
            {
                installs.callback($0)
                $1(true)
            }, ends.callback)
        await answer(200, ["person_id": "p", "third_party_linked": true, "is_active": true])
        await eventually { ends.values.count >= 2 }
        #expect(ends.values == [.linkFailed, nil] && sentiance.userId == "p" && sentiance.isUserLinked)
        #expect(installs.values == ["5a18fc4b0962209e0000000d", "5a18fc4b0962209e0000000d"])
    }

    @Test("at the next launch, much may be asked before the start, which then asks how the user stands")
    func relaunch() async {
        let files = MemoryFiles()
        begin(files)
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        let next = Sentiance()
        sentiance.close()
        let options = SENTOptions()
        options.platformUrl = "https://onym.test"
        options.configure = { [transport] in
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.files, $0.time, $0.callbacks) = (transport, files, ManualTime(), .background)
        }
        #expect(next.initState == .notInitialized)
        // Another app's environment may say where a server is; this is the one that was asked for.
        #expect(next.initialize(options: options).isSuccessful && next.userExists)
        #expect(next.initialize(options: options).failureReason == .reinitializationNotAllowed)
        let statuses = Collector<SENTSDKStatus>()
        next.setDidReceiveSdkStatusUpdateHandler { statuses.callback($0) }
        let asked = await answer(200, ["is_active": false, "reason": "superseded", "by_device_class": "phone"])
        #expect(asked?.path == "/sdk/config")
        await eventually { !statuses.values.isEmpty }
        #expect(statuses.values[0].deactivation?.reason == "superseded")
        next.refreshStatus()
        await answer(200, ["is_active": true])
        await eventually { statuses.values.count >= 2 }
        #expect(statuses.values[1].isRemoteEnabled)
        next.close()
    }

    @Test("what was asked before the start does not make it a second one")
    func early() async {
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        // The work's part is there, the start is not.
        let early = Sentiance()
        let options = SENTOptions()
        options.platformUrl = "https://onym.test"
        options.configure = { [transport] in
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.files, $0.time, $0.callbacks) = (transport, MemoryFiles(), ManualTime(), .background)
        }
        early.prepare(options)
        #expect(!early.userExists && early.core != nil && early.initState == .notInitialized)
        #expect(early.initialize(options: options).isSuccessful && early.initState == .initialized)
        early.close()
    }

    @Test("after a reset, the same app's id and secret make the next user")
    func sameApp() async {
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        let ends = Ends()
        func create() {
            let options = SENTUserCreationOptions(appId: "APPID", secret: "SECRET", linker: nil)
            sentiance.createUser(options: options) { ends.callback(($0, $1?.failureReason)) }
        }
        create()
        await eventually { !ends.values.isEmpty }
        #expect(ends.values[0].1 == .userAlreadyExists)
        let resets = Collector<Int>()
        sentiance.reset { _, _ in resets.callback(0) }
        await answer(200, [:])
        await eventually { !resets.values.isEmpty }
        create()
        #expect(await answer(201, session(.null))?.path == "/sdk/installs")
        await answer(200, ["person_id": "p"])
        await eventually { ends.values.count >= 2 }
        #expect(ends.values[1].0?.userInfo.userId == "p")
    }

    @Test(
        "the older start tells whose fault it is",
        arguments: [(500, SENTInitIssue.serviceUnreachable), (401, .invalidCredentials)])
    func issue(status: Int, issue: SENTInitIssue) async {
        let ends = Collector<SENTInitIssue?>()
        Seed000_ReceiveTheUniqueInstallID.snippet({ $1(true) }, ends.callback)
        await answer(status, [:])
        await eventually { !ends.values.isEmpty }
        #expect(ends.values == [issue])
    }

    @Test("a token is the user's")
    func token() async {
        Seed002_CreatingAUserOnTheDevice.snippet { _, _ in }
        await answer(201, session("u"))
        await eventually { sentiance.userExists }
        let tokens = Collector<SENTToken?>()
        sentiance.requestUserAccessToken { token, _ in tokens.callback(token) }
        await eventually { !tokens.values.isEmpty }
        #expect(tokens.values[0].map { "\($0)".contains("\"t\"") } == false)
        #expect(tokens.values[0]?.tokenId == "t" && tokens.values[0]?.isExpired == false)
        let links = Collector<SENTUserLinkingFailureReason?>()
        sentiance.linkUser(authCode: "c") { _, error in links.callback(error?.failureReason) }
        await eventually { !links.values.isEmpty }
        #expect(links.values == [.userAlreadyLinked])
    }
}
