import COpenSSL

/// Makes bytes that nobody can guess: for keys, secrets, codes.
package enum SecureRandom {
    package static func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let made = unsafe RAND_bytes(&bytes, CInt(count)) == 1
        precondition(made, "The system has no randomness to give.")
        return bytes
    }

    /// Letters drawn evenly from an alphabet of ASCII.
    package static func text(_ count: Int, from alphabet: StaticString) -> String {
        let letters = unsafe Array(UnsafeBufferPointer(start: alphabet.utf8Start, count: alphabet.utf8CodeUnitCount))
        // Bytes beyond the last multiple of the alphabet's size would favor its first letters.
        let bound = 256 - 256 % letters.count
        var text: [UInt8] = []
        while text.count < count {
            for byte in bytes(count) where Int(byte) < bound && text.count < count {
                text.append(letters[Int(byte) % letters.count])
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
