import ByteText
import JSON
package import SQLite

/// The contents of a folder of copies: `manifest.json`.
///
/// A *chain* is a part of the log without a gap, in segments that each name the digest of the segment before. A *base* is a copy
/// of the store's file. Its chain has every page that changed while the file was copied.
package struct CopyManifest: Equatable, Sendable {
    package struct Chain: Equatable, Sendable {
        package let number: Int
        /// The number of the last segment; 0 for a chain without segments.
        package var last = 0
        /// The SHA-256 of the last segment, in hexadecimal digits.
        package var digest = ""
        /// The last call, and its moment in milliseconds.
        package var sequence: Int64 = 0
        package var at: Int64 = 0
        /// The place in the store's log behind the last segment.
        package var place: LogPlace?
        /// The token of a server that stopped after the last segment; empty while a server runs.
        package var token = ""
    }

    package struct Base: Equatable, Sendable {
        package let number: Int
        package let chain: Int
        /// The segment with which the replay begins.
        package let first: Int
        /// The segment behind which the copy is one moment of the store.
        package let complete: Int
        /// The last call at that moment, and the call's moment in milliseconds.
        package let sequence: Int64
        package let at: Int64
        /// The time at which the copy was complete.
        package let madeAt: Int64
        package let digest: String
        package let bytes: Int64
    }

    /// The name of the store.
    package let store: String
    /// A mark of the master key, which does not tell the key.
    package let masterKey: String
    package var chains: [Chain] = []
    package var bases: [Base] = []

    package init(store: String, masterKey: String) { (self.store, self.masterKey) = (store, masterKey) }

    static let name = "manifest.json"
    private static let version: Int64 = 1

    static func basePath(_ number: Int) -> String { "base/\(padded(number, 8))/onym.db.gz" }

    static func segmentPath(_ chain: Int, _ number: Int) -> String {
        "log/\(padded(chain, 8))-\(padded(number, 12)).gz"
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    // MARK: - JSON

    var json: [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("onym_copies")
            json.integer(CopyManifest.version)
            json.key("store")
            json.string(store)
            json.key("master_key")
            json.string(masterKey)
            json.key("chains")
            json.array { json in for chain in chains { CopyManifest.write(chain, &json) } }
            json.key("bases")
            json.array { json in for base in bases { CopyManifest.write(base, &json) } }
        }
        return json.bytes + [ASCII.lineFeed]
    }

    private static func write(_ chain: Chain, _ json: inout JSONWriter) {
        json.object { json in
            json.key("number")
            json.integer(chain.number)
            json.key("last")
            json.integer(chain.last)
            json.key("sha256")
            json.string(chain.digest)
            json.key("sequence")
            json.integer(chain.sequence)
            json.key("at")
            json.integer(chain.at)
            if let place = chain.place {
                json.key("salts")
                json.string(String(place.salts))
                json.key("frame")
                json.integer(place.frame)
                json.key("checksum")
                json.string(String(place.checksum))
            }
            json.key("token")
            json.string(chain.token)
        }
    }

    private static func write(_ base: Base, _ json: inout JSONWriter) {
        json.object { json in
            json.key("number")
            json.integer(base.number)
            json.key("chain")
            json.integer(base.chain)
            json.key("first")
            json.integer(base.first)
            json.key("complete")
            json.integer(base.complete)
            json.key("sequence")
            json.integer(base.sequence)
            json.key("at")
            json.integer(base.at)
            json.key("made_at")
            json.integer(base.madeAt)
            json.key("sha256")
            json.string(base.digest)
            json.key("bytes")
            json.integer(base.bytes)
        }
    }

    init(json bytes: [UInt8]) throws(JSONFault) {
        self = try JSONParser().read(bytes) { root throws(JSONFault) in
            let fields = try Fields(root)
            guard fields.integers["onym_copies"] == CopyManifest.version else {
                throw JSONFault(.wrong("is not a version that this program knows"), at: "onym_copies")
            }
            var manifest = CopyManifest(store: try fields.text("store"), masterKey: try fields.text("master_key"))
            try root.forEachMember(at: "the manifest") { key, value throws(JSONFault) in
                switch key {
                case "chains":
                    try value.forEachElement(at: "chains") { value throws(JSONFault) in
                        manifest.chains.append(try CopyManifest.chain(try Fields(value)))
                    }
                case "bases":
                    try value.forEachElement(at: "bases") { value throws(JSONFault) in
                        manifest.bases.append(try CopyManifest.base(try Fields(value)))
                    }
                default: break
                }
            }
            return manifest
        }
    }

    /// The texts and numbers of an object.
    private struct Fields {
        var texts: [String: String] = [:]
        var integers: [String: Int64] = [:]

        init(_ value: JSONValue) throws(JSONFault) {
            var (texts, integers): ([String: String], [String: Int64]) = ([:], [:])
            try value.forEachMember(at: "the manifest") { key, value throws(JSONFault) in
                switch value.kind {
                case .string: texts[key.copy()] = try value.string(at: key.copy())
                case .integer: integers[key.copy()] = try value.integer(at: key.copy())
                case .null, .bool, .unsigned, .double, .array, .object: break
                }
            }
            (self.texts, self.integers) = (texts, integers)
        }

        func text(_ name: String) throws(JSONFault) -> String {
            guard let text = texts[name] else { throw JSONFault(.wrong("is missing"), at: name) }
            return text
        }

        func integer(_ name: String) throws(JSONFault) -> Int64 {
            guard let integer = integers[name] else { throw JSONFault(.wrong("is missing"), at: name) }
            return integer
        }
    }

    private static func chain(_ fields: Fields) throws(JSONFault) -> Chain {
        var chain = Chain(number: Int(try fields.integer("number")))
        chain.last = Int(try fields.integer("last"))
        chain.digest = try fields.text("sha256")
        chain.sequence = try fields.integer("sequence")
        chain.at = try fields.integer("at")
        if let salts = fields.texts["salts"].flatMap(UInt64.init), let frame = fields.integers["frame"],
            let checksum = fields.texts["checksum"].flatMap(UInt64.init)
        {
            chain.place = LogPlace(salts: salts, frame: Int(frame), checksum: checksum)
        }
        chain.token = try fields.text("token")
        return chain
    }

    private static func base(_ fields: Fields) throws(JSONFault) -> Base {
        Base(
            number: Int(try fields.integer("number")), chain: Int(try fields.integer("chain")),
            first: Int(try fields.integer("first")), complete: Int(try fields.integer("complete")),
            sequence: try fields.integer("sequence"), at: try fields.integer("at"),
            madeAt: try fields.integer("made_at"), digest: try fields.text("sha256"),
            bytes: try fields.integer("bytes"))
    }
}
