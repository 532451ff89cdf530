import Glibc
import Outbound
import TestKit
import Testing
import Threads

@Suite("Which addresses may be called")
struct PublicAddressTests {
    private func isPublic(_ text: String) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 {
            return PublicAddress.includes(family: AF_INET, sockaddr: [0, 0, 0, 0] + bytes.prefix(4))
        }
        precondition(inet_pton(AF_INET6, text, &bytes) == 1, "\(text) is no address")
        return PublicAddress.includes(family: AF_INET6, sockaddr: [0, 0, 0, 0, 0, 0, 0, 0] + bytes)
    }

    @Test(
        "those of the open network",
        arguments: [
            "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
            "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
            "2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
            "2002:808:808::1",
        ])
    func open(_ address: String) { #expect(isPublic(address)) }

    @Test(
        "and no others",
        arguments: [
            "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
            "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255",
            "198.51.100.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1",
            "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "fc00::1",
            "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "2002:7f00:1::", "2002:a00:1::",
            "100::1",
        ])
    func closed(_ address: String) { #expect(!isPublic(address)) }

    @Test("what is no address of the internet, or is cut off, is none")
    func others() {
        #expect(!PublicAddress.includes(family: AF_UNIX, sockaddr: [UInt8](repeating: 1, count: 64)))
        #expect(!PublicAddress.includes(family: AF_INET, sockaddr: [0, 0, 0, 0, 8, 8, 8]))
        #expect(!PublicAddress.includes(family: AF_INET6, sockaddr: [UInt8](repeating: 0x26, count: 23)))
    }

    @Test(
        "a client that may not does not call this machine, by whatever name",
        arguments: ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "0x7f.1"])
    func refuses(_ host: String) throws {
        let standIn = StandIn(.status(200, "secret"))
        var limits = OutboundLimits()
        limits.allowsPrivateAddresses = false
        let client = OutboundClient(limits: limits)
        let result = Monitor<OutboundClient.Result?>(nil)
        let url = try #require(OutboundURL("http://\(host):\(standIn.port)/"))
        client.submit(OutboundCall(.get, url)) { answer in result.change { $0 = answer } }
        #expect(result.wait { $0 } == .failure(.notAllowed))
        client.stop()
        #expect(standIn.received.isEmpty)
    }

    @Test("fields are sent as they are given")
    func fields() throws {
        let standIn = StandIn(.status(200, ""))
        let client = OutboundClient()
        let result = Monitor<OutboundClient.Result?>(nil)
        let url = try #require(OutboundURL(standIn.url))
        let call = OutboundCall(
            .post([0x7B, 0x7D], contentType: "application/json"), url, fields: [("webhook-id", "m 1")])
        client.submit(call) { answer in result.change { $0 = answer } }
        #expect(result.wait { $0 } == .success(OutboundAnswer(status: 200, body: [])))
        client.stop()
        let received = try #require(standIn.received.first)
        #expect(received.fields.contains("webhook-id: m 1") && received.body == "{}")
        #expect(received.fields.contains("Content-Type: application/json"))
    }
}
