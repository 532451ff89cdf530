// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation
@_exported import Combine
import Observation

@MainActor @preconcurrency
public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

extension Never: View {
    public var body: Never { fatalError("a stub is never run") }
}

/// A view without a content of its own.
public protocol Leaf: View where Body == Never {}
extension Leaf {
    public var body: Never { fatalError("a stub is never run") }
}

@resultBuilder
public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        TupleView()
    }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<First: View, Second: View>(first: First) -> ConditionalContent<First, Second> {
        ConditionalContent()
    }
    public static func buildEither<First: View, Second: View>(second: Second) -> ConditionalContent<First, Second> {
        ConditionalContent()
    }
}

extension Optional: View where Wrapped: View {
    public var body: Never { fatalError("a stub is never run") }
}

public struct EmptyView: Leaf { nonisolated public init() {} }
public struct TupleView<Content>: Leaf { nonisolated init() {} }
public struct ConditionalContent<First: View, Second: View>: Leaf { nonisolated init() {} }
public struct Text: Leaf {
    nonisolated public init<Content: StringProtocol>(_ content: Content) {}
}
public struct Button: Leaf {
    nonisolated public init<Content: StringProtocol>(_ title: Content, action: @escaping @MainActor () -> Void) {}
}
public struct VStack<Content: View>: Leaf {
    nonisolated public init(@ViewBuilder content: () -> Content) {}
}

@MainActor @preconcurrency
public protocol ViewModifier {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency func body(content: Self.Content) -> Self.Body
    typealias Content = ModifierContent<Self>
}
public struct ModifierContent<Modifier: ViewModifier>: Leaf { nonisolated init() {} }
public struct ModifiedContent<Content, Modifier>: Leaf { nonisolated init() {} }

extension View {
    nonisolated public func modifier<Modifier>(_ modifier: Modifier) -> ModifiedContent<Self, Modifier> {
        ModifiedContent()
    }
    nonisolated public func onAppear(perform action: (() -> Void)? = nil) -> some View { EmptyView() }
    nonisolated public func onDisappear(perform action: (() -> Void)? = nil) -> some View { EmptyView() }
    nonisolated public func task(_ action: @escaping @isolated(any) @Sendable () async -> Void) -> some View {
        EmptyView()
    }
    nonisolated public func environmentObject<Object: ObservableObject>(_ object: Object) -> some View { EmptyView() }
    nonisolated public func environment<Object: AnyObject & Observable>(_ object: Object?) -> some View { EmptyView() }
}

@MainActor @preconcurrency @propertyWrapper
public struct EnvironmentObject<ObjectType: ObservableObject> {
    nonisolated public init() {}
    public var wrappedValue: ObjectType { fatalError("a stub is never run") }
}

@MainActor @preconcurrency @propertyWrapper
public struct StateObject<ObjectType: ObservableObject> {
    nonisolated public init(wrappedValue thunk: @autoclosure @escaping () -> ObjectType) {}
    public var wrappedValue: ObjectType { fatalError("a stub is never run") }
}

@propertyWrapper
public struct State<Value> {
    public init(wrappedValue value: Value) {}
    public var wrappedValue: Value {
        get { fatalError("a stub is never run") }
        nonmutating set {}
    }
}

@propertyWrapper
public struct Environment<Value> {
    public init(_ objectType: Value.Type) where Value: AnyObject & Observable {}
    public var wrappedValue: Value { fatalError("a stub is never run") }
}

@MainActor @preconcurrency
public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

extension Never: Scene {}

@resultBuilder
public struct SceneBuilder {
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

public struct WindowGroup<Content: View>: Scene {
    nonisolated public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { fatalError("a stub is never run") }
}

@MainActor @preconcurrency
public protocol App {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Self.Body { get }
    @MainActor @preconcurrency init()
}

extension App {
    @MainActor @preconcurrency public static func main() {}
}
