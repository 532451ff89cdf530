import Foundation

// The same as `size-with`, without the SDK: bench-sdk compares the sizes of the programs.
let folder = URL(filePath: CommandLine.arguments.dropFirst().first ?? "/tmp/onym-size")
guard let endpoint = URL(string: "https://id.example.com") else { fatalError() }
print(endpoint, folder)
