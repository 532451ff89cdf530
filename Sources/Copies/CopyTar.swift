import Glibc

/// A folder of copies as one stream (ustar), for pipes and for single files.
package enum CopyTar {
    private static let block = 512
    private static let pieceBytes = 1 << 20

    // MARK: - Writing

    /// Writes the files of a folder to an open file or a pipe.
    package static func pack(_ folder: String, to descriptor: CInt) throws(CopyFault) {
        for name in files(in: folder, "") {
            var status = stat()
            guard unsafe stat("\(folder)/\(name)", &status) == 0 else {
                throw .system("\(folder)/\(name) cannot be read")
            }
            let size = Int(status.st_size)
            try write(header(name, size), to: descriptor)
            let file = try ReadFile("\(folder)/\(name)")
            var left = size
            while left > 0 {
                let piece = try file.read(min(left, pieceBytes))
                guard !piece.isEmpty else { throw CopyFault("\(folder)/\(name) became shorter.") }
                try write(piece, to: descriptor)
                left -= piece.count
            }
            try write([UInt8](repeating: 0, count: padding(size)), to: descriptor)
        }
        try write([UInt8](repeating: 0, count: 2 * block), to: descriptor)
    }

    /// Writes the files of a folder to a new file.
    package static func pack(_ folder: String, toFile path: String) throws(CopyFault) {
        let file = try NewFile(path)
        try pack(folder, to: file.descriptor)
        try file.finish()
    }

    private static func files(in folder: String, _ prefix: String) -> [String] {
        var files: [String] = []
        for name in CopyFiles.names(in: folder) where name != "lock" && !name.hasSuffix(".part") {
            var status = stat()
            guard unsafe stat("\(folder)/\(name)", &status) == 0 else { continue }
            if status.st_mode & S_IFMT == S_IFDIR {
                files += self.files(in: "\(folder)/\(name)", "\(prefix)\(name)/")
            } else {
                files.append(prefix + name)
            }
        }
        return files
    }

    private static func padding(_ size: Int) -> Int { (block - size % block) % block }

    private static func header(_ name: String, _ size: Int) -> [UInt8] {
        var header = [UInt8](repeating: 0, count: block)
        func put(_ text: String, at place: Int) {
            for (offset, byte) in text.utf8.enumerated() { header[place + offset] = byte }
        }
        put(name, at: 0)
        put("0000600", at: 100)
        put("0000000", at: 108)
        put("0000000", at: 116)
        if size < 1 << 33 {
            put(octal(size, 11), at: 124)
        } else {
            // The form of GNU for long files: a number in base 256.
            header[124] = 0x80
            for place in 0..<8 { header[128 + place] = UInt8(truncatingIfNeeded: size >> (56 - 8 * place)) }
        }
        put("00000000000", at: 136)
        put("        ", at: 148)
        put("0", at: 156)
        put("ustar", at: 257)
        put("00", at: 263)
        put(octal(header.reduce(0) { $0 + Int($1) }, 6), at: 148)
        header[154] = 0
        return header
    }

    private static func octal(_ number: Int, _ width: Int) -> String {
        let digits = String(number, radix: 8)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    private static func write(_ bytes: [UInt8], to descriptor: CInt) throws(CopyFault) {
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress.map { unsafe $0 + done }, bytes.count - done)
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { throw .system("The stream cannot be written") }
            done += count
        }
    }

    // MARK: - Reading

    /// Reads a stream into a folder, which it makes.
    package static func unpack(_ descriptor: CInt, to folder: String) throws(CopyFault) {
        try CopyFiles.make(folder)
        while true {
            let header = try read(block, from: descriptor)
            if header.allSatisfy({ $0 == 0 }) { return }
            let name = String(decoding: header.prefix(100).prefix { $0 != 0 }, as: UTF8.self)
            guard header[257..<262].elementsEqual("ustar".utf8), let size = size(header), isAllowed(name) else {
                throw CopyFault("The stream is not a copy of Onym.")
            }
            if let slash = name.lastIndex(of: "/") { try CopyFiles.make("\(folder)/\(name[..<slash])") }
            let file = try NewFile("\(folder)/\(name)")
            var left = size
            while left > 0 {
                let piece = try read(min(left, pieceBytes), from: descriptor)
                try file.write(piece)
                left -= piece.count
            }
            _ = try read(padding(size), from: descriptor)
            try file.finish()
        }
    }

    /// Whether a name stays inside the folder.
    private static func isAllowed(_ name: String) -> Bool {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        return !name.isEmpty && parts.count <= 3 && parts.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
    }

    private static func size(_ header: [UInt8]) -> Int? {
        if header[124] == 0x80 {
            return header[128..<136].reduce(0) { $0 << 8 | Int($1) }
        }
        return Int(String(decoding: header[124..<135], as: UTF8.self), radix: 8)
    }

    private static func read(_ count: Int, from descriptor: CInt) throws(CopyFault) -> [UInt8] {
        var filled = 0
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
            while filled < count {
                let more = unsafe Glibc.read(
                    descriptor, buffer.baseAddress.map { unsafe $0 + filled }, count - filled)
                if more < 0, errno == EINTR { continue }
                if more <= 0 { break }
                filled += more
            }
            length = filled
        }
        guard filled == count else { throw CopyFault("The stream ends too early.") }
        return bytes
    }
}
