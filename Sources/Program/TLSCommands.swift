import ByteText
import Crypto
import Invocation

/// `onym tls pin`: prints the pin of a certificate's public key, for the settings of clients. A renewed certificate with the same
/// key has the same pin.
enum TLSPinCommand: ProgramCommand {
    static let name = "tls pin"
    static let summary = "Prints the pin of a certificate's public key, for clients that pin the server."
    static let usage = """
        onym tls pin CERTIFICATE

        CERTIFICATE is a file in PEM or DER. The pin is the SHA-256 of the public key with its algorithm, in Base64, as
        OkHttp and OpenSSL write it; the SDK takes its bytes as Pin.spki.
        """
    static let operands = ["CERTIFICATE"]
    static let switches: [String] = []

    static func run(_ context: CommandContext) throws(CommandFault) -> Int32 {
        let path = context.arguments.words[0]
        let bytes = try Files.bytes(path, orElse: "The certificate \(path) cannot be read")
        guard let certificate = Certificate(pem: bytes) ?? Certificate(der: bytes) else {
            throw .failed("The file \(path) has no certificate in PEM or DER.")
        }
        let digest = SHA256().digest(of: certificate.publicKeyInfo.span)
        context.terminal.result("sha256/\(Base64.encode(digest.bytes))")
        return 0
    }
}
