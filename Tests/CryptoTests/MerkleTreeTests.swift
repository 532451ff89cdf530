import Crypto
import Testing

@Suite("The tree of hashes")
struct MerkleTreeTests {
    /// The leaves and the roots of the tests of Certificate Transparency.
    private static let contents: [[UInt8]] = [
        [], [0x00], [0x10], [0x20, 0x21], [0x30, 0x31], Array(0x40...0x43), Array(0x50...0x57), Array(0x60...0x6F),
    ]
    private static let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ]

    private static func leaves(_ count: Int) -> [Digest] {
        (0..<count).map { MerkleTree.leaf($0 < contents.count ? contents[$0] : [UInt8(truncatingIfNeeded: $0), 1]) }
    }

    private static func root(_ leaves: [Digest], _ part: Range<Int>) -> Digest {
        MerkleTree.root(of: part, SHA256()) { (part: Range<Int>) -> Digest? in
            part.count == 1 ? leaves[part.lowerBound] : nil
        }
    }

    @Test("has the roots of RFC 6962's tests, made at once and leaf by leaf")
    func roots() {
        let leaves = MerkleTreeTests.leaves(8)
        var edge = MerkleEdge()
        #expect(edge.head(SHA256()) == SHA256.digest(of: []))
        for count in 1...8 {
            _ = edge.add(leaves[count - 1], SHA256())
            #expect(hexadecimal(edge.head(SHA256())) == MerkleTreeTests.roots[count - 1])
            #expect(MerkleTreeTests.root(leaves, 0..<count) == edge.head(SHA256()))
        }
    }

    @Test("goes on from the roots of whole subtrees")
    func edges() {
        let leaves = MerkleTreeTests.leaves(1100)
        var (edge, kept) = (MerkleEdge(), [Digest]())
        for leaf in leaves { if let root = edge.add(leaf, SHA256()) { kept.append(root) } }
        #expect(kept.count == 4)
        #expect(kept[2] == MerkleTreeTests.root(leaves, 512..<768))
        var again = MerkleEdge(kept: kept, SHA256())
        for leaf in leaves[again.count...] { _ = again.add(leaf, SHA256()) }
        #expect(again.count == 1100 && again.head(SHA256()) == edge.head(SHA256()))
        #expect(edge.head(SHA256()) == MerkleTreeTests.root(leaves, 0..<1100))
    }

    @Test("proves each leaf of lists of up to 33 leaves, and no other leaf")
    func paths() throws {
        let (leaves, hasher) = (MerkleTreeTests.leaves(33), SHA256())
        for count in 1...33 {
            let root = MerkleTreeTests.root(leaves, 0..<count)
            for place in 0..<count {
                let path = MerkleTree.path(to: place, in: 0..<count, hasher) { (part: Range<Int>) -> Digest? in
                    part.count == 1 ? leaves[part.lowerBound] : nil
                }
                #expect(MerkleTree.root(from: leaves[place], at: place, of: count, by: path) == root)
                #expect(MerkleTree.root(from: MerkleTree.leaf([9, 9]), at: place, of: count, by: path) != root)
                #expect(MerkleTree.root(from: leaves[place], at: place, of: count, by: path + [root]) == nil)
            }
        }
    }

    @Test("proves each beginning of lists of up to 33 leaves, and no other list")
    func beginnings() throws {
        let (leaves, hasher) = (MerkleTreeTests.leaves(33), SHA256())
        for count in 1...33 {
            let root = MerkleTreeTests.root(leaves, 0..<count)
            for first in 1...count {
                let proof = MerkleTree.consistency(of: first, in: count, hasher) { (part: Range<Int>) -> Digest? in
                    part.count == 1 ? leaves[part.lowerBound] : nil
                }
                let earlier = MerkleTreeTests.root(leaves, 0..<first)
                #expect(MerkleTree.isPrefix(earlier, of: first, root, of: count, by: proof))
                #expect(!MerkleTree.isPrefix(leaves[0], of: first, root, of: count, by: proof) || first == 1)
                #expect(!MerkleTree.isPrefix(earlier, of: first, leaves[1], of: count, by: proof))
            }
        }
    }

    private func hexadecimal(_ digest: Digest) -> String {
        digest.bytes.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
    }
}
