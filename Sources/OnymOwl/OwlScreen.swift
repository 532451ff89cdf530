#if canImport(SwiftUI)
    import Foundation
    public import SwiftUI

    extension View {
        /// Logs that the person sees a screen, each time the view appears, and how long, each time the view disappears.
        public func owlScreen(_ name: String) -> some View { modifier(ScreenLog(name)) }
    }

    /// Logs the appearance of a view, under the vendor's names.
    private struct ScreenLog: ViewModifier {
        private let name: String
        @State private var appeared: Date? = nil

        init(_ name: String) { self.name = name }

        func body(content: Content) -> some View {
            content
                .onAppear {
                    appeared = Date()
                    Owl.info("sdk:screen_appeared", screenName: name)
                }
                .onDisappear {
                    let duration = appeared.map { "\(Int(Date().timeIntervalSince($0) * 1000))" }
                    Owl.debug("sdk:screen_disappeared", screenName: name, attributes: ["_duration_ms": duration])
                    appeared = nil
                }
        }
    }
#endif
