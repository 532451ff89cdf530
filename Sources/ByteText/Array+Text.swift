extension [UInt8] {
    /// Appends the bytes of a literal.
    @inlinable
    package mutating func append(_ literal: StaticString) {
        unsafe append(UnsafeRawPointer(literal.utf8Start), literal.utf8CodeUnitCount)
    }

    /// Appends bytes in quotes, with a comma before them or a colon after them, in one step.
    package mutating func append(quoted bytes: borrowing Span<UInt8>, comma: Bool, colon: Bool) {
        unsafe bytes.withUnsafeBytes { unsafe append(quoted: $0.baseAddress, $0.count, comma, colon) }
    }

    /// Appends a literal in quotes, with a comma before it or a colon after it, in one step.
    package mutating func append(quoted literal: StaticString, comma: Bool, colon: Bool) {
        unsafe append(quoted: UnsafeRawPointer(literal.utf8Start), literal.utf8CodeUnitCount, comma, colon)
    }

    private mutating func append(quoted start: UnsafeRawPointer?, _ count: Int, _ comma: Bool, _ colon: Bool) {
        append(addingCapacity: count + 4) { output in
            if comma { output.append(UInt8(ascii: ",")) }
            output.append(UInt8(ascii: "\""))
            unsafe output.append(start, count)
            output.append(UInt8(ascii: "\""))
            if colon { output.append(UInt8(ascii: ":")) }
        }
    }

    /// Appends an integer in decimal, filled with zeros up to a number of digits.
    @inlinable
    package mutating func append(decimal value: some BinaryInteger, digits: Int = 1) {
        if value < 0 { append(UInt8(ascii: "-")) }
        appendDigits(UInt64(value.magnitude), digits)
    }

    // The function is not generic, because every answer uses it.
    @usableFromInline
    mutating func appendDigits(_ value: UInt64, _ digits: Int) {
        // The digits are written from the last to the first: 20 digits are enough for 64 bits.
        var buffer = [20 of UInt8](repeating: UInt8(ascii: "0"))
        var rest = value
        var start = 20
        while rest > 0 {
            start -= 1
            buffer[start] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        append(copying: buffer.span.extracting(Swift.min(start, 20 - digits)..<20))
    }

    /// Appends 128 bits in 32 hexadecimal digits.
    package mutating func append(hexadecimal high: UInt64, _ low: UInt64) {
        var buffer = [32 of UInt8](repeating: 0)
        for index in 0..<16 {
            let shift = UInt64(60 - index * 4)
            buffer[index] = Hexadecimal.digit(UInt8(truncatingIfNeeded: high &>> shift) & 15)
            buffer[index + 16] = Hexadecimal.digit(UInt8(truncatingIfNeeded: low &>> shift) & 15)
        }
        append(copying: buffer.span)
    }

    /// Appends bytes in pairs of hexadecimal digits.
    package mutating func append(hexadecimal bytes: [UInt8]) {
        if bytes.isEmpty { return }
        append(addingCapacity: bytes.count * 2) { output in
            for byte in bytes {
                output.append(Hexadecimal.digit(byte >> 4))
                output.append(Hexadecimal.digit(byte & 15))
            }
        }
    }

    /// Copies bytes.
    package init(copying bytes: borrowing Span<UInt8>) {
        self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
    }

    /// Appends a copy of bytes.
    package mutating func append(copying bytes: borrowing Span<UInt8>) {
        unsafe bytes.withUnsafeBytes { unsafe append($0.baseAddress, $0.count) }
    }

    @usableFromInline
    mutating func append(_ start: UnsafeRawPointer?, _ count: Int) {
        // To append nothing to an empty array writes into the storage that all empty arrays share.
        if count == 0 { return }
        append(addingCapacity: count) { output in unsafe output.append(start, count) }
    }
}

extension OutputSpan<UInt8> {
    /// Copies bytes into the existing room.
    @inline(__always)
    fileprivate mutating func append(_ start: UnsafeRawPointer?, _ count: Int) {
        guard count > 0, let start = unsafe start else { return }
        precondition(count <= freeCapacity, "There is no room for what is to be appended.")
        unsafe withUnsafeMutableBufferPointer { buffer, initialized in
            guard let base = buffer.baseAddress else { return }
            unsafe UnsafeMutableRawPointer(base + initialized).copyMemory(from: start, byteCount: count)
            initialized += count
        }
    }
}
