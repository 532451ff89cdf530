/// Elements of which the least comes first. Adding an element and removing the least one take steps in the logarithm of their
/// number.
package struct Heap<Element: Comparable> {
    private var elements: [Element] = []

    package init() {}

    /// The least element; nil if there is none.
    package var first: Element? { elements.first }

    package mutating func add(_ element: Element) {
        elements.append(element)
        var place = elements.count - 1
        while place > 0, elements[place] < elements[(place - 1) / 2] {
            elements.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    /// Removes the least element. The heap must have one.
    package mutating func removeFirst() {
        elements.swapAt(0, elements.count - 1)
        elements.removeLast()
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < elements.count {
                if elements[child] < elements[least] { least = child }
            }
            guard least != place else { return }
            elements.swapAt(place, least)
            place = least
        }
    }
}
