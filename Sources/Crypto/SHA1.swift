import COpenSSL

/// SHA-1, for formats of others that have it. It protects nothing of Onym's own.
package enum SHA1 {
    package static func digest(of bytes: [UInt8]) -> [UInt8] {
        var count: UInt32 = 0
        return unsafe [UInt8](unsafeUninitializedCapacity: 20) { buffer, written in
            let isDone = unsafe EVP_Digest(bytes, bytes.count, buffer.baseAddress, &count, EVP_sha1(), nil) == 1
            written = isDone ? Int(count) : 0
        }
    }
}
