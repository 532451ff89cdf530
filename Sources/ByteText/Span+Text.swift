extension Span<UInt8> {
    /// Whether the bytes are equal to a literal.
    @inlinable
    package borrowing func equals(_ literal: StaticString) -> Bool {
        unsafe count == literal.utf8CodeUnitCount && hasSameBytes(as: UnsafeRawPointer(literal.utf8Start))
    }

    /// Whether the bytes are equal to other bytes.
    package borrowing func equals(_ other: borrowing Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return unsafe other.withUnsafeBytes { other in
            guard let start = other.baseAddress else { return true }
            return unsafe hasSameBytes(as: start)
        }
    }

    /// Compares with the same number of bytes, eight at a time.
    @usableFromInline
    borrowing func hasSameBytes(as other: UnsafeRawPointer) -> Bool {
        var index = 0
        while index + 8 <= count {
            let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            if unsafe word != other.loadUnaligned(fromByteOffset: index, as: UInt64.self) { return false }
            index += 8
        }
        while index < count {
            if unsafe self[index] != other.load(fromByteOffset: index, as: UInt8.self) { return false }
            index += 1
        }
        return true
    }

    /// Whether the bytes are equal to a lower-case literal, without regard to the case of ASCII letters.
    package borrowing func equalsIgnoringCase(_ lowercase: StaticString) -> Bool {
        guard count == lowercase.utf8CodeUnitCount else { return false }
        for index in 0..<count where unsafe ASCII.lowercased(self[index]) != lowercase.utf8Start[index] {
            return false
        }
        return true
    }

    /// The range between two indices, without the spaces and tabs at its ends.
    package borrowing func trimming(_ range: Range<Int>) -> Range<Int> {
        var (lower, upper) = (range.lowerBound, range.upperBound)
        while lower < upper, self[lower] == ASCII.space || self[lower] == ASCII.tab { lower += 1 }
        while lower < upper, self[upper - 1] == ASCII.space || self[upper - 1] == ASCII.tab { upper -= 1 }
        return lower..<upper
    }

    /// The first index of a byte within a range.
    package borrowing func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
        extracting(range).firstIndex(of: byte, from: 0).map { $0 + range.lowerBound }
    }
}

extension Span<UInt8> {
    /// The first index of a byte at or after an index. The search reads eight bytes at a time.
    package borrowing func firstIndex(of byte: UInt8, from start: Int) -> Int? {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let pattern = ones &* UInt64(byte)
        var index = start
        while index + 8 <= count {
            // In a word without a zero byte, no borrow goes from one byte to the next. So the lowest marked byte is the first
            // byte that equals the pattern.
            let word = unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self) ^ pattern
            let marks = (word &- ones) & ~word & (ones << 7)
            if marks != 0 { return index + marks.littleEndian.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < count {
            if self[index] == byte { return index }
            index += 1
        }
        return nil
    }
}

extension String {
    /// Copies bytes as text; bytes that are not UTF-8 become U+FFFD.
    package init(copying bytes: borrowing Span<UInt8>) {
        self = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }
}
