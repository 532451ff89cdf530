import Foundation
import TestKit

// onym-stores [--folder DIR] [--port PORT] [--onym PORT] [--project ID] [--production] [--signed-pushes]
//
// Stands in for the App Store, Google Play and Stripe on this machine, so that an operator and a developer can try purchases without
// an account at a store (docs/stores.md). The folder gets the certificates, the keys and a file with the settings of a server.

var arguments = CommandLine.arguments.dropFirst()
var options = StandInStores.Options()

func usage() -> Never {
    print(
        """
        onym-stores [--folder DIR] [--port PORT] [--onym PORT] [--project ID] [--production] [--signed-pushes]

        DIR gets the keys and the settings of a server: "set -a; . DIR/settings; onym serve". --onym is the port of that server.
        """)
    exit(2)
}

@MainActor func value() -> String {
    guard let value = arguments.popFirst() else { usage() }
    return value
}

while let word = arguments.popFirst() {
    switch word {
    case "--folder": options.folder = value()
    case "--port":
        guard let port = UInt16(value()) else { usage() }
        options.port = port
    case "--onym":
        guard let port = UInt16(value()), port > 0 else { usage() }
        options.onym = port
    case "--project":
        guard let project = Int(value()) else { usage() }
        options.project = project
    case "--production": options.isProduction = true
    case "--signed-pushes": options.signsPushes = true
    default: usage()
    }
}

do {
    let stores = try StandInStores(options)
    let line = #"{"listening":"http://127.0.0.1:\#(stores.port)","settings":"\#(options.folder)/settings"}"# + "\n"
    // Written at once, because the reader may be a pipe.
    FileHandle.standardOutput.write(Data(line.utf8))
    while true { sleep(3600) }
} catch {
    print("onym-stores: \(error)")
    exit(1)
}
