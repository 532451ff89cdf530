/// Checks signatures of RFC 8032. Foundation has no such check on all platforms, and the SDK checks only what everybody may
/// know, so no step has to take the same time for all values.
package enum Ed25519 {
    /// Whether a signature of 64 bytes belongs to a message and to a public key of 32 bytes.
    package static func verifies(_ signature: [UInt8], of message: [UInt8], by key: [UInt8]) -> Bool {
        guard signature.count == 64, key.count == 32, let point = EdwardsPoint(key) else { return false }
        let scalar = Scalar(Array(signature[32...]))
        // A greater scalar would give a second valid signature of the same message.
        guard scalar < Scalar.order else { return false }
        let start = Array(signature[..<32])
        let hash = Scalar.remainder(SHA512.digest(start + key + message))
        return EdwardsPoint.sum(scalar, of: .base, hash, of: point.negated).encoded == start
    }
}

/// A number below 2^256 in four words, the lowest first.
private struct Scalar {
    var words: [UInt64]

    /// The order of the base point.
    static let order = Scalar(words: [
        0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0x0000_0000_0000_0000, 0x1000_0000_0000_0000,
    ])

    init(words: [UInt64]) { self.words = words }

    /// Reads 32 bytes, the lowest first.
    init(_ bytes: [UInt8]) {
        words = (0..<4).map { word in
            (0..<8).reduce(0) { $0 | UInt64(bytes[word * 8 + $1]) << UInt64($1 * 8) }
        }
    }

    static func < (one: Scalar, other: Scalar) -> Bool {
        for place in (0..<4).reversed() where one.words[place] != other.words[place] {
            return one.words[place] < other.words[place]
        }
        return false
    }

    func bit(_ place: Int) -> Bool { words[place / 64] >> UInt64(place % 64) & 1 == 1 }

    /// The remainder of a number of 64 bytes, by the order of the base point: bit by bit, from the highest.
    static func remainder(_ bytes: [UInt8]) -> Scalar {
        var rest = Scalar(words: [0, 0, 0, 0])
        for place in (0..<bytes.count * 8).reversed() {
            for word in (0..<4).reversed() {
                rest.words[word] = rest.words[word] << 1 | (word == 0 ? 0 : rest.words[word - 1] >> 63)
            }
            rest.words[0] |= UInt64(bytes[place / 8] >> UInt8(place % 8) & 1)
            if !(rest < order) { rest.subtractOrder() }
        }
        return rest
    }

    private mutating func subtractOrder() {
        var borrow: UInt64 = 0
        for word in 0..<4 {
            let (first, isBelow) = words[word].subtractingReportingOverflow(Scalar.order.words[word])
            let (second, isBelowToo) = first.subtractingReportingOverflow(borrow)
            words[word] = second
            borrow = isBelow || isBelowToo ? 1 : 0
        }
    }
}

/// A number modulo 2^255 - 19 in five limbs of 51 bits, the lowest first.
private struct FieldNumber {
    var (a, b, c, d, e): (UInt64, UInt64, UInt64, UInt64, UInt64)

    private static let mask: UInt64 = 0x7_ffff_ffff_ffff

    init(_ a: UInt64, _ b: UInt64, _ c: UInt64, _ d: UInt64, _ e: UInt64) {
        (self.a, self.b, self.c, self.d, self.e) = (a, b, c, d, e)
    }

    static let zero = FieldNumber(0, 0, 0, 0, 0)
    static let one = FieldNumber(1, 0, 0, 0, 0)
    /// The constant of the curve, -121665 / 121666.
    static let curve = FieldNumber(
        0x0003_4dca_1359_78a3, 0x0001_a828_3b15_6ebd, 0x0005_e7a2_6001_c029, 0x0007_39c6_63a0_3cbb,
        0x0005_2036_cee2_b6ff)
    static let twiceCurve = curve + curve
    /// A square root of -1.
    static let rootOfMinusOne = FieldNumber(
        0x0006_1b27_4a0e_a0b0, 0x0000_d5a5_fc8f_189d, 0x0007_ef5e_9cbd_0c60, 0x0007_8595_a680_4c9e,
        0x0002_b832_4804_fc1d)

    /// Reads 32 bytes, the lowest first, without the highest bit; nil for a number that is not below 2^255 - 19.
    init?(_ bytes: [UInt8]) {
        let words = Scalar(bytes).words
        let mask = FieldNumber.mask
        self.init(
            words[0] & mask, (words[0] >> 51 | words[1] << 13) & mask, (words[1] >> 38 | words[2] << 26) & mask,
            (words[2] >> 25 | words[3] << 39) & mask, words[3] >> 12 & mask)
        var plain = bytes
        plain[31] &= 0x7F
        guard encoded == plain else { return nil }
    }

    /// The number in 32 bytes, the lowest first.
    var encoded: [UInt8] {
        var number = carried().carried()
        // A number from 2^255 - 19 on has a second form below.
        var extra = (number.a &+ 19) >> 51
        for limb in [number.b, number.c, number.d, number.e] { extra = (limb &+ extra) >> 51 }
        number.a &+= 19 &* extra
        let mask = FieldNumber.mask
        number.b &+= number.a >> 51
        number.c &+= number.b >> 51
        number.d &+= number.c >> 51
        number.e &+= number.d >> 51
        let (a, b, c, d, e) = (
            number.a & mask, number.b & mask, number.c & mask, number.d & mask, number.e & mask
        )
        let words = [a | b << 51, b >> 13 | c << 38, c >> 26 | d << 25, d >> 39 | e << 12]
        return words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) } }
    }

    private func carried() -> FieldNumber {
        let mask = FieldNumber.mask
        return FieldNumber(
            a & mask &+ 19 &* (e >> 51), b & mask &+ a >> 51, c & mask &+ b >> 51, d & mask &+ c >> 51,
            e & mask &+ d >> 51)
    }

    static func + (one: FieldNumber, other: FieldNumber) -> FieldNumber {
        FieldNumber(one.a &+ other.a, one.b &+ other.b, one.c &+ other.c, one.d &+ other.d, one.e &+ other.e)
            .carried()
    }

    static func - (one: FieldNumber, other: FieldNumber) -> FieldNumber {
        // Sixteen times the modulus keeps each limb above zero.
        FieldNumber(
            one.a &+ 0x7f_ffff_ffff_fed0 &- other.a, one.b &+ 0x7f_ffff_ffff_fff0 &- other.b,
            one.c &+ 0x7f_ffff_ffff_fff0 &- other.c, one.d &+ 0x7f_ffff_ffff_fff0 &- other.d,
            one.e &+ 0x7f_ffff_ffff_fff0 &- other.e
        ).carried()
    }

    static func * (one: FieldNumber, other: FieldNumber) -> FieldNumber {
        // 2^255 counts as 19, so the products above it are added below.
        let wrapped = FieldNumber(0, other.b &* 19, other.c &* 19, other.d &* 19, other.e &* 19)
        return FieldNumber(
            Wide((one.a, other.a), (one.b, wrapped.e), (one.c, wrapped.d), (one.d, wrapped.c), (one.e, wrapped.b)),
            Wide((one.a, other.b), (one.b, other.a), (one.c, wrapped.e), (one.d, wrapped.d), (one.e, wrapped.c)),
            Wide((one.a, other.c), (one.b, other.b), (one.c, other.a), (one.d, wrapped.e), (one.e, wrapped.d)),
            Wide((one.a, other.d), (one.b, other.c), (one.c, other.b), (one.d, other.a), (one.e, wrapped.e)),
            Wide((one.a, other.e), (one.b, other.d), (one.c, other.c), (one.d, other.b), (one.e, other.a)))
    }

    var squared: FieldNumber { self * self }

    /// Makes a number of five sums of products, the lowest first.
    private init(_ a: Wide, _ b: Wide, _ c: Wide, _ d: Wide, _ e: Wide) {
        let mask = FieldNumber.mask
        let b = b.adding(a.shifted)
        let c = c.adding(b.shifted)
        let d = d.adding(c.shifted)
        let e = e.adding(d.shifted)
        self = FieldNumber(
            a.low & mask &+ 19 &* e.shifted, b.low & mask, c.low & mask, d.low & mask, e.low & mask
        ).carried()
    }

    /// A sum of products in 128 bits.
    private struct Wide {
        var (high, low): (UInt64, UInt64) = (0, 0)

        typealias Pair = (UInt64, UInt64)

        init(_ first: Pair, _ second: Pair, _ third: Pair, _ fourth: Pair, _ fifth: Pair) {
            add(first)
            add(second)
            add(third)
            add(fourth)
            add(fifth)
        }

        private mutating func add(_ pair: Pair) {
            let product = pair.0.multipliedFullWidth(by: pair.1)
            self = adding(product.low)
            high &+= product.high
        }

        func adding(_ number: UInt64) -> Wide {
            var sum = self
            let (low, isOver) = low.addingReportingOverflow(number)
            sum.low = low
            if isOver { sum.high &+= 1 }
            return sum
        }

        /// The bits from the 51st on.
        var shifted: UInt64 { low >> 51 | high << 13 }
    }

    /// The number to a power of 2^bits - less, as all powers of this curve are.
    private func power(_ bits: Int, less: UInt64) -> FieldNumber {
        var result = FieldNumber.one
        for place in (0..<bits).reversed() {
            result = result.squared
            // The highest bits of 2^bits - less are ones.
            let isOne = place >= 6 || (1 << 6 &- less) >> UInt64(place) & 1 == 1
            if isOne { result = result * self }
        }
        return result
    }

    /// 1 / self; 0 for 0.
    var inverted: FieldNumber { power(255, less: 21) }

    /// The power (2^255 - 19 - 5) / 8, from which square roots are made.
    var rootPower: FieldNumber { power(252, less: 3) }

    static func isEqual(_ one: FieldNumber, _ other: FieldNumber) -> Bool { one.encoded == other.encoded }
}

/// A point of the curve, in extended coordinates.
private struct EdwardsPoint {
    var (x, y, z, t): (FieldNumber, FieldNumber, FieldNumber, FieldNumber)

    init(_ x: FieldNumber, _ y: FieldNumber, _ z: FieldNumber, _ t: FieldNumber) {
        (self.x, self.y, self.z, self.t) = (x, y, z, t)
    }

    private static let zero = EdwardsPoint(.zero, .one, .one, .zero)
    static let base: EdwardsPoint = {
        let x = FieldNumber(
            0x0006_2d60_8f25_d51a, 0x0004_12a4_b4f6_592a, 0x0007_5b71_71a4_b31d, 0x0001_ff60_5271_18fe,
            0x0002_1693_6d3c_d6e5)
        let y = FieldNumber(
            0x0006_6666_6666_6658, 0x0004_cccc_cccc_cccc, 0x0001_9999_9999_9999, 0x0003_3333_3333_3333,
            0x0006_6666_6666_6666)
        return EdwardsPoint(x, y, .one, x * y)
    }()

    /// Reads 32 bytes; nil for bytes of no point.
    init?(_ bytes: [UInt8]) {
        guard let y = FieldNumber(bytes) else { return nil }
        let isOdd = bytes[31] & 0x80 != 0
        let (u, v) = (y.squared - .one, FieldNumber.curve * y.squared + .one)
        let cubed = v.squared * v
        var x = u * cubed * (u * cubed.squared * v).rootPower
        let square = v * x.squared
        if !FieldNumber.isEqual(square, u) {
            guard FieldNumber.isEqual(square, .zero - u) else { return nil }
            x = x * .rootOfMinusOne
        }
        let encoded = x.encoded
        if encoded.allSatisfy({ $0 == 0 }), isOdd { return nil }
        if (encoded[0] & 1 == 1) != isOdd { x = .zero - x }
        self.init(x, y, .one, x * y)
    }

    /// The point in 32 bytes.
    var encoded: [UInt8] {
        let inverse = z.inverted
        var bytes = (y * inverse).encoded
        if (x * inverse).encoded[0] & 1 == 1 { bytes[31] |= 0x80 }
        return bytes
    }

    var negated: EdwardsPoint { EdwardsPoint(.zero - x, y, z, .zero - t) }

    /// The sum of any two points, also of equal ones.
    static func + (one: EdwardsPoint, other: EdwardsPoint) -> EdwardsPoint {
        let a = (one.y - one.x) * (other.y - other.x)
        let b = (one.y + one.x) * (other.y + other.x)
        let c = one.t * .twiceCurve * other.t
        let d = (one.z + one.z) * other.z
        let (e, f, g, h) = (b - a, d - c, d + c, b + a)
        return EdwardsPoint(e * f, g * h, f * g, e * h)
    }

    /// The sum of two multiples.
    static func sum(
        _ first: Scalar, of one: EdwardsPoint, _ second: Scalar, of other: EdwardsPoint
    ) -> EdwardsPoint {
        let both = one + other
        var result = zero
        for place in (0..<256).reversed() {
            result = result + result
            switch (first.bit(place), second.bit(place)) {
            case (true, true): result = result + both
            case (true, false): result = result + one
            case (false, true): result = result + other
            case (false, false): break
            }
        }
        return result
    }
}

/// SHA-512 (FIPS 180-4).
package enum SHA512 {
    private static let constants: [UInt64] = [
        0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
        0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
        0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
        0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
        0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
        0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
        0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
        0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
        0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
        0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
        0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
        0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
        0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
        0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
        0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
        0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
        0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
        0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
        0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
        0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
    ]

    package static func digest(_ message: [UInt8]) -> [UInt8] {
        var hash: [UInt64] = [
            0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1, 0x9b05_688c_2b3e_6c1f, 0x1f83_d9ab_fb41_bd6b, 0x5be0_cd19_137e_2179,
        ]
        var padded = message + [0x80]
        padded += [UInt8](repeating: 0, count: (240 - padded.count % 128) % 128)
        let bits = UInt64(message.count) * 8
        padded += [UInt8](repeating: 0, count: 8)
        padded += (0..<8).reversed().map { UInt8(truncatingIfNeeded: bits >> UInt64($0 * 8)) }
        for start in stride(from: 0, to: padded.count, by: 128) { compress(padded[start..<start + 128], &hash) }
        return hash.flatMap { word in
            (0..<8).reversed().map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) }
        }
    }

    private static func compress(_ block: ArraySlice<UInt8>, _ hash: inout [UInt64]) {
        func turned(_ word: UInt64, _ count: UInt64) -> UInt64 { word >> count | word << (64 - count) }
        var schedule = (0..<16).map { word in
            (0..<8).reduce(UInt64(0)) { $0 << 8 | UInt64(block[block.startIndex + word * 8 + $1]) }
        }
        for place in 16..<80 {
            let (late, early) = (schedule[place - 2], schedule[place - 15])
            let one = turned(late, 19) ^ turned(late, 61) ^ late >> 6
            let other = turned(early, 1) ^ turned(early, 8) ^ early >> 7
            schedule.append(one &+ schedule[place - 7] &+ other &+ schedule[place - 16])
        }
        var state = hash
        for place in 0..<80 {
            let (a, e) = (state[0], state[4])
            let choice = e & state[5] ^ ~e & state[6]
            let first =
                state[7] &+ (turned(e, 14) ^ turned(e, 18) ^ turned(e, 41)) &+ choice &+ constants[place]
                &+ schedule[place]
            let majority = a & state[1] ^ a & state[2] ^ state[1] & state[2]
            let second = (turned(a, 28) ^ turned(a, 34) ^ turned(a, 39)) &+ majority
            state = [
                first &+ second, state[0], state[1], state[2], state[3] &+ first, state[4], state[5], state[6],
            ]
        }
        for place in 0..<8 { hash[place] &+= state[place] }
    }
}
