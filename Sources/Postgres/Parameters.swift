/// The parameters of a statement, in PostgreSQL's binary form. They count from 1, in the order of their addition.
///
/// Arrays have one dimension; a statement expands them with `unnest`, so that one statement handles any number of rows.
package struct Parameters: Sendable {
    /// All values one after the other, and the place of each value; nil stands for NULL.
    private(set) var bytes: [UInt8] = []
    private(set) var places: [Range<Int>?] = []

    package init() {}

    /// Makes parameters that are all integers.
    package init(_ values: Int64...) { for value in values { add(value) } }

    // MARK: - Single values

    package mutating func addNull() { places.append(nil) }

    package mutating func add(_ value: Int64) { place { $0.append(bigEndian: value) } }

    package mutating func add(_ value: Int64?) { if let value { add(value) } else { addNull() } }

    package mutating func add(_ value: Bool) { place { $0.append(UInt8(value ? 1 : 0)) } }

    /// A `text`, or a `bytea` if the statement takes one.
    package mutating func add(_ value: String) { place { $0.append(contentsOf: value.utf8) } }

    package mutating func add(_ value: String?) { if let value { add(value) } else { addNull() } }

    /// A `bytea`, or a `uuid` for 16 bytes if the statement takes a `uuid`.
    package mutating func add(_ value: [UInt8]) { place { $0.append(contentsOf: value) } }

    package mutating func add(_ value: [UInt8]?) { if let value { add(value) } else { addNull() } }

    private mutating func place(_ body: (inout [UInt8]) -> Void) {
        let start = bytes.count
        body(&bytes)
        places.append(start..<bytes.count)
    }

    // MARK: - Arrays

    /// A `bigint[]`.
    package mutating func add(integers values: some Collection<Int64>) {
        var array = ArrayParameter(.integers)
        for value in values { array.add(value) }
        add(array)
    }

    /// A `bytea[]` with the bytes of texts, because PostgreSQL keeps no text with a zero byte.
    package mutating func add(texts values: some Collection<String>) {
        var array = ArrayParameter(.blobs)
        for value in values { array.add(value) }
        add(array)
    }

    /// A `bytea[]`.
    package mutating func add(blobs values: some Collection<[UInt8]?>) { add(.blobs, values) }

    /// A `uuid[]`, each of 16 bytes.
    package mutating func add(uuids values: some Collection<[UInt8]?>) { add(.uuids, values) }

    private mutating func add(_ type: ArrayParameter.ElementType, _ values: some Collection<[UInt8]?>) {
        var array = ArrayParameter(type)
        for value in values { array.add(value) }
        add(array)
    }

    package mutating func add(_ array: ArrayParameter) {
        place { array.append(to: &$0) }
    }
}

/// An array parameter, built value by value.
package struct ArrayParameter: Sendable {
    /// The type of the values, by PostgreSQL's number.
    package enum ElementType: Int32, Sendable {
        case integers = 20
        case blobs = 17
        case uuids = 2950
    }

    private let type: ElementType
    /// Each value after its length; NULL has the length -1.
    private var values: [UInt8] = []
    package private(set) var count = 0
    private var hasNulls = false

    package init(_ type: ElementType) { self.type = type }

    package mutating func addNull() {
        values.append(bigEndian: Int32(-1))
        hasNulls = true
        count += 1
    }

    package mutating func add(_ value: Int64?) {
        guard let value else { return addNull() }
        values.append(bigEndian: Int32(8))
        values.append(bigEndian: value)
        count += 1
    }

    package mutating func add(_ value: [UInt8]?) {
        guard let value else { return addNull() }
        values.append(bigEndian: Int32(value.count))
        values.append(contentsOf: value)
        count += 1
    }

    /// The bytes of a text.
    package mutating func add(_ value: String?) {
        guard let value else { return addNull() }
        values.append(bigEndian: Int32(value.utf8.count))
        values.append(contentsOf: value.utf8)
        count += 1
    }

    /// Dimensions | whether NULLs exist | type | count | first index, and then the values.
    fileprivate func append(to bytes: inout [UInt8]) {
        bytes.append(bigEndian: Int32(count == 0 ? 0 : 1))
        bytes.append(bigEndian: Int32(hasNulls ? 1 : 0))
        bytes.append(bigEndian: type.rawValue)
        if count == 0 { return }
        bytes.append(bigEndian: Int32(count))
        bytes.append(bigEndian: Int32(1))
        bytes.append(contentsOf: values)
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: value.bigEndian) { unsafe append(contentsOf: $0) }
    }
}
