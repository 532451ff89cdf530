import ByteText
import Crypto
package import Foundation

/// Makes receipts in the App Store's form.
package struct ReceiptMaker {
    package struct Entry {
        package var product: String
        package var transaction: String
        package var original: String
        package var purchased: Int64
        package var expires: Int64?
        package var canceled: Int64?

        package init(
            product: String, transaction: String, original: String, purchased: Int64, expires: Int64? = nil,
            canceled: Int64? = nil
        ) {
            (self.product, self.transaction, self.original) = (product, transaction, original)
            (self.purchased, self.expires, self.canceled) = (purchased, expires, canceled)
        }
    }

    private let chain: AppleChain
    package var kind = "ProductionSandbox"
    package var bundleID = "com.example.app"
    package var createdAt: Int64
    package var endsAt: Int64?
    package var device: UUID?
    package var entries: [Entry] = []
    /// The signer, and the certificates beside it.
    package var certificates = ["leaf", "intermediate"]

    package init(_ chain: AppleChain) {
        self.chain = chain
        createdAt = chain.now
    }

    package static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var length: [UInt8] = []
        if content.count < 0x80 {
            length = [UInt8(content.count)]
        } else {
            var count = content.count
            while count > 0 {
                length.insert(UInt8(count & 0xFF), at: 0)
                count >>= 8
            }
            length.insert(0x80 | UInt8(length.count), at: 0)
        }
        return [tag] + length + content
    }

    private static func integer(_ number: Int) -> [UInt8] {
        value(0x02, number < 0x80 ? [UInt8(number)] : [UInt8(number >> 8), UInt8(number & 0xFF)])
    }

    private static func attribute(_ type: Int, _ content: [UInt8]) -> [UInt8] {
        value(0x30, integer(type) + integer(1) + value(0x04, content))
    }

    private static func text(_ text: String) -> [UInt8] { value(0x0C, Array(text.utf8)) }

    private static func moment(_ seconds: Int64) -> [UInt8] {
        value(0x16, Array(Date(timeIntervalSince1970: TimeInterval(seconds)).ISO8601Format().utf8))
    }

    /// The content that is signed.
    package func content() throws -> [UInt8] {
        var body: [UInt8] = []
        if !kind.isEmpty { body += Self.attribute(0, Self.text(kind)) }
        if !bundleID.isEmpty { body += Self.attribute(2, Self.text(bundleID)) }
        let opaque: [UInt8] = [1, 2, 3]
        body += Self.attribute(4, opaque)
        if let device {
            let bytes = withUnsafeBytes(of: device.uuid) { Array($0) }
            body += Self.attribute(5, SHA1.digest(of: bytes + opaque + Self.text(bundleID)))
        }
        body += Self.attribute(12, Self.moment(createdAt))
        if let endsAt { body += Self.attribute(21, Self.moment(endsAt)) }
        for entry in entries {
            var set = Self.attribute(1701, Self.integer(1)) + Self.attribute(1702, Self.text(entry.product))
            set += Self.attribute(1703, Self.text(entry.transaction)) + Self.attribute(1705, Self.text(entry.original))
            set += Self.attribute(1704, Self.moment(entry.purchased))
            set += Self.attribute(1708, entry.expires.map(Self.moment) ?? Self.value(0x16, []))
            set += Self.attribute(1712, entry.canceled.map(Self.moment) ?? Self.value(0x16, []))
            set += Self.attribute(1719, Self.integer(0))
            body += Self.attribute(17, Self.value(0x31, set))
        }
        return Self.value(0x31, body)
    }

    /// The signed receipt, in Base64.
    package func receipt(_ words: [String] = ["-md", "sha256"]) throws -> String {
        let files = TemporaryFolder()
        let path = chain.path
        try Data(try content()).write(to: URL(filePath: files.path + "/content"))
        var command = [
            "openssl", "cms", "-sign", "-binary", "-nodetach", "-outform", "DER", "-in", files.path + "/content",
            "-out",
            files.path + "/receipt", "-signer", "\(path)/\(certificates[0]).pem", "-inkey",
            "\(path)/\(certificates[0]).key",
        ]
        for certificate in certificates.dropFirst() { command += ["-certfile", "\(path)/\(certificate).pem"] }
        let result = try Shell.result(command + words)
        guard result.code == 0 else { throw Shell.Failed(description: result.errors) }
        return Base64.encode([UInt8](try Data(contentsOf: URL(filePath: files.path + "/receipt"))))
    }
}
