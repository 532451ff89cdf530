// Feeds a part of the program with bytes that libFuzzer makes up, and looks for a crash, a hang or a broken promise.
// libFuzzer brings the `main` along; it calls these two by their names.
//
//     fuzz messages|json [libFuzzer's options] [corpus folder]

/// What is run over each input.
nonisolated(unsafe) private var subject: ([UInt8]) -> Void = { _ in preconditionFailure("No subject was named.") }

/// Takes the subject from the command line; libFuzzer reads the words behind it.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
    _ count: UnsafeMutablePointer<Int32>,
    _ words: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> Int32 {
    switch words.pointee[1].map({ String(cString: $0) }) {
    case "messages": subject = MessageFuzz.run
    case "json": subject = JSONFuzz.run
    default: preconditionFailure("usage: fuzz messages|json [libFuzzer's options] [corpus folder]")
    }
    words.pointee[1] = words.pointee[0]
    words.pointee += 1
    count.pointee -= 1
    return 0
}

/// Runs the subject over one input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    subject(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}
