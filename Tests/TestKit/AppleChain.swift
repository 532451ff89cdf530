import ByteText
import Crypto
import Foundation

/// A root, what it vouches for, and what that vouches for: as Apple has them.
package final class AppleChain: Sendable {
    package let now: Int64
    package let rootPEM: [UInt8]
    package let root: String
    package let intermediate: String
    package let leaf: String
    /// A leaf that is not marked as one that signs receipts.
    package let unmarked: String
    /// The folder of the keys and the certificates.
    package let path: String
    private let folder: TemporaryFolder?

    /// - Parameters:
    ///   - isOfRSA: whether the keys are of RSA, as those of receipts are.
    ///   - days: the days for which the certificates are valid.
    ///   - place: the folder of the files; nil for one that is there as long as the object is.
    package init(isOfRSA: Bool = false, days: Int = 2, in place: String? = nil) throws {
        folder = place == nil ? TemporaryFolder() : nil
        path = place ?? folder?.path ?? ""
        let path = path
        let newKey = isOfRSA ? ["-newkey", "rsa:2048"] : ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        func run(_ words: [String]) throws {
            let result = try Shell.result(words)
            guard result.code == 0 else { throw Shell.Failed(description: result.errors) }
        }
        func make(_ name: String, by issuer: String?, _ extensions: String) throws -> String {
            try Data(extensions.utf8).write(to: URL(filePath: "\(path)/\(name).ext"))
            try run(
                [
                    "openssl", "req", "-new",
                ] + newKey + [
                    "-nodes", "-subj", "/CN=\(name)", "-keyout", "\(path)/\(name).key", "-out", "\(path)/\(name).csr",
                ])
            var words = [
                "openssl", "x509", "-req", "-in", "\(path)/\(name).csr", "-days", String(days), "-extfile",
                "\(path)/\(name).ext",
                "-out", "\(path)/\(name).pem",
            ]
            if let issuer {
                words += ["-CA", "\(path)/\(issuer).pem", "-CAkey", "\(path)/\(issuer).key", "-CAcreateserial"]
            } else {
                words += ["-signkey", "\(path)/\(name).key"]
            }
            try run(words)
            try run(["openssl", "x509", "-in", "\(path)/\(name).pem", "-outform", "DER", "-out", "\(path)/\(name).der"])
            return Base64.encode(try [UInt8](Data(contentsOf: URL(filePath: "\(path)/\(name).der"))))
        }
        let authority = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
        root = try make("root", by: nil, authority)
        intermediate = try make("intermediate", by: "root", authority + "1.2.840.113635.100.6.2.1=ASN1:NULL\n")
        let signing = "keyUsage=critical,digitalSignature\n"
        leaf = try make("leaf", by: "intermediate", signing + "1.2.840.113635.100.6.11.1=ASN1:NULL\n")
        unmarked = try make("unmarked", by: "intermediate", signing)
        rootPEM = try [UInt8](Data(contentsOf: URL(filePath: "\(path)/root.pem")))
        // All of them hold from some moment before now on.
        now = Int64(Date().timeIntervalSince1970)
    }

    /// A signed token of a payload.
    package func sign(_ payload: [String: Any], chain: [String]? = nil, algorithm: String = "ES256") throws -> String {
        let certificates = chain ?? [leaf, intermediate, root]
        let header = try JSONSerialization.data(withJSONObject: ["alg": algorithm, "x5c": certificates])
        let body = try JSONSerialization.data(withJSONObject: payload)
        let signed = Base64.encodeForAddresses([UInt8](header)) + "." + Base64.encodeForAddresses([UInt8](body))
        let key = certificates.first == unmarked ? "unmarked" : "leaf"
        let pem = try [UInt8](Data(contentsOf: URL(filePath: "\(path)/\(key).key")))
        guard let key = PrivateKey(pem: pem) else {
            throw Shell.Failed(description: "the key of a test cannot be read")
        }
        return signed + "." + Base64.encodeForAddresses(key.sign(Array(signed.utf8)))
    }
}
