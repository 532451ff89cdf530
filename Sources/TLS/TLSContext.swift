import COpenSSL
import Glibc

/// The reason why a certificate or a key is unusable, or a connection cannot continue.
package struct TLSFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    /// Makes a fault of an action, with OpenSSL's reason; empties the thread's queue of errors.
    init(_ action: String) {
        var (reason, isOfSystem) = ("no reason given", false)
        while true {
            let code = ERR_get_error()
            if code == 0 { break }
            // The system's own reason, such as a missing file, says more than what OpenSSL adds to it.
            if code & TLSFault.systemFlag != 0 {
                reason = unsafe String(cString: strerror(CInt(code & ~TLSFault.systemFlag)))
                isOfSystem = true
            } else if !isOfSystem, let text = unsafe ERR_reason_error_string(code) {
                reason = unsafe String(cString: text)
            }
        }
        description = "\(action): \(reason)."
    }

    /// ERR_SYSTEM_FLAG, a macro with a cast: the rest of such a code is the system's number of the error.
    private static let systemFlag: CUnsignedLong = 1 << 31
}

/// A certificate chain with its key, and the versions and protocols of its sessions.
@safe
package final class TLSContext: @unchecked Sendable {
    // Unchecked: OpenSSL counts references to a context atomically, and nothing changes the context after init.
    fileprivate let handle: OpaquePointer

    /// Reads PEM files. Sessions use TLS 1.2 or 1.3, and agree on HTTP/1.1.
    package init(certificateFile: String, keyFile: String) throws(TLSFault) {
        ERR_clear_error()
        guard let handle = unsafe SSL_CTX_new(TLS_server_method()) else { throw TLSFault("Could not start TLS") }
        unsafe self.handle = handle
        _ = unsafe onym_ssl_ctx_set_min_version(handle, TLS1_2_VERSION)
        unsafe onym_ssl_ctx_set_mode(handle, Int(SSL_MODE_RELEASE_BUFFERS))
        unsafe SSL_CTX_set_options(handle, UInt64(1) << 30)  // SSL_OP_NO_RENEGOTIATION, a macro with a cast
        unsafe SSL_CTX_set_alpn_select_cb(handle, TLSContext.selectProtocol, nil)
        guard unsafe SSL_CTX_use_certificate_chain_file(handle, certificateFile) == 1 else {
            throw TLSFault("Could not read a certificate from \(certificateFile)")
        }
        guard unsafe SSL_CTX_use_PrivateKey_file(handle, keyFile, SSL_FILETYPE_PEM) == 1 else {
            throw TLSFault("Could not read a private key from \(keyFile)")
        }
        guard unsafe SSL_CTX_check_private_key(handle) == 1 else {
            throw TLSFault("The private key in \(keyFile) does not belong to the certificate in \(certificateFile)")
        }
    }

    deinit { unsafe SSL_CTX_free(handle) }

    fileprivate func makeSession() -> OpaquePointer? { unsafe SSL_new(handle) }

    /// Chooses `http/1.1` if the client offers it; a client with other offers only is refused.
    private static let selectProtocol: SSL_CTX_alpn_select_cb_func = { _, chosen, chosenLength, offered, length, _ in
        guard let offered = unsafe offered else { return SSL_TLSEXT_ERR_NOACK }
        let list = unsafe UnsafeBufferPointer(start: offered, count: Int(length))
        var index = 0
        while index < list.count {
            let length = Int(unsafe list[index])
            let name = index + 1..<min(index + 1 + length, list.count)
            if unsafe list[name].elementsEqual("http/1.1".utf8) {
                unsafe chosen?.pointee = offered + name.lowerBound
                unsafe chosenLength?.pointee = UInt8(length)
                return SSL_TLSEXT_ERR_OK
            }
            index = name.upperBound
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
}

/// One TLS connection as a machine over bytes, without a socket: the peer's bytes go in; plain bytes and bytes for the peer
/// come out.
@safe
package final class TLSSession {
    private let handle: OpaquePointer
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer

    package init(context: TLSContext) throws(TLSFault) {
        guard let handle = unsafe context.makeSession(),
            let incoming = unsafe BIO_new(BIO_s_mem()),
            let outgoing = unsafe BIO_new(BIO_s_mem())
        else { throw TLSFault("Could not start a TLS session") }
        unsafe (self.handle, self.incoming, self.outgoing) = (handle, incoming, outgoing)
        unsafe SSL_set_bio(handle, incoming, outgoing)
        unsafe SSL_set_accept_state(handle)
    }

    deinit { unsafe SSL_free(handle) }

    /// Takes bytes from the peer. Appends the decrypted bytes, and the bytes to send (a handshake, an alert).
    ///
    /// Answers false after the regular end of the session. After a fault `output` contains the alert to send.
    package func receive(
        _ bytes: borrowing Span<UInt8>, plain: inout [UInt8], output: inout [UInt8]
    ) throws(TLSFault) -> Bool {
        ERR_clear_error()
        unsafe bytes.withUnsafeBytes { bytes in
            let written = unsafe BIO_write(incoming, bytes.baseAddress, CInt(bytes.count))
            precondition(written == CInt(bytes.count), "A memory BIO takes all that it is given.")
        }
        defer { drain(into: &output) }
        while true {
            let start = plain.count
            plain.append(contentsOf: repeatElement(0, count: TLSSession.recordBytes))
            let read = unsafe plain.withUnsafeMutableBytes { plain in
                unsafe SSL_read(handle, plain.baseAddress.map { unsafe $0 + start }, CInt(TLSSession.recordBytes))
            }
            plain.removeLast(TLSSession.recordBytes - max(0, Int(read)))
            if read > 0 { continue }
            switch unsafe SSL_get_error(handle, read) {
            case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return true
            case SSL_ERROR_ZERO_RETURN: return false
            default: throw TLSFault("The TLS session broke")
            }
        }
    }

    /// Encrypts bytes and appends them to the bytes to send.
    package func send(_ bytes: [UInt8], output: inout [UInt8]) throws(TLSFault) {
        guard !bytes.isEmpty else { return }
        ERR_clear_error()
        let written = unsafe bytes.withUnsafeBytes { bytes in
            unsafe SSL_write(handle, bytes.baseAddress, CInt(bytes.count))
        }
        drain(into: &output)
        // A memory BIO takes all bytes, so a record is written completely or not at all.
        if written != CInt(bytes.count) { throw TLSFault("The TLS session broke") }
    }

    /// Appends the alert that announces the end of sending.
    package func close(output: inout [UInt8]) {
        ERR_clear_error()
        _ = unsafe SSL_shutdown(handle)
        drain(into: &output)
    }

    private func drain(into output: inout [UInt8]) {
        while true {
            let waiting = unsafe BIO_ctrl_pending(outgoing)
            if waiting == 0 { return }
            let start = output.count
            output.append(contentsOf: repeatElement(0, count: waiting))
            let read = unsafe output.withUnsafeMutableBytes { output in
                unsafe BIO_read(outgoing, output.baseAddress.map { unsafe $0 + start }, CInt(waiting))
            }
            precondition(read == CInt(waiting), "A memory BIO gives all that it holds.")
        }
    }

    /// The greatest number of bytes in one TLS record.
    private static let recordBytes = 16 * 1024
}
