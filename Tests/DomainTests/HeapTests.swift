import Domain
import TestKit
import Testing

@Suite("A heap")
struct HeapTests {
    @Test("gives the least of its elements, whatever came before")
    func order() {
        var (heap, elements, chance) = (Heap<Int>(), [Int](), SeededGenerator(seed: 7))
        for _ in 0..<2000 {
            if Bool.random(using: &chance) || elements.isEmpty {
                let element = Int.random(in: 0..<50, using: &chance)
                heap.add(element)
                elements.append(element)
                elements.sort()
            } else {
                heap.removeFirst()
                elements.removeFirst()
            }
            #expect(heap.first == elements.first)
        }
    }
}
