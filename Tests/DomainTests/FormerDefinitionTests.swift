import Domain
import TestKit
import Testing

/// The definitions of older versions, which stored all definitions of a project in one document.
@Suite("Definitions of older versions")
struct FormerDefinitionTests {
    @Test("are still there, with their steps")
    func former() throws {
        var packer = Packer()
        packer.add(1 as UInt64)
        packer.add("checkout")
        packer.add("Checkout")
        packer.add(1 as UInt64)
        packer.add("Cart")
        packer.add("cart")
        packer.add("load")
        packer.add("Load time")
        let packed = packer.bytes
        let project = ProjectID(rawValue: 7)
        func document(_ key: DocumentKey) -> [UInt8]? {
            key == DocumentKey(.definitions, of: 7) ? packed : nil
        }
        let list = Definitions(of: project, document)
        let funnel = try #require(list.ids(.funnel).first.flatMap { list.definition($0, document) })
        #expect(funnel.slug == "checkout" && funnel.content.name == "Checkout")
        #expect(funnel.content.steps == [Definition.Step(name: "Cart", event: "cart")])
        let metric = try #require(list.ids(.metric).first.flatMap { list.definition($0, document) })
        #expect(metric.slug == "load" && metric.content.name == "Load time" && metric.id != funnel.id)
    }
}
