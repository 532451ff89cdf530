import Foundation
import OnymMParticle
import OnymOwl
import OnymQonversion
import StoreKit
import SwiftUI

// Lines of apps of the vendors that need a framework of Apple's. They are type-checked, and never run.

#if os(iOS)
    import UIKit
    import UserNotifications

    func open(_ contexts: [UIOpenURLContext]) {
        for context in contexts { MParticle.sharedInstance().handleURLContext(context) }
    }

    func show(_ center: UNUserNotificationCenter, _ notification: UNNotification, _ response: UNNotificationResponse) {
        MParticle.sharedInstance().userNotificationCenter(center, willPresent: notification)
        MParticle.sharedInstance().userNotificationCenter(center, didReceive: response)
    }
#endif

func go(on activity: NSUserActivity) { MParticle.sharedInstance().handleUserActivity(activity) }

struct Shop: View {
    var body: some View { Text("Shop").owlScreen("Shop") }
}

func sell(_ product: Qonversion.Product, _ discount: SKProductDiscount) {
    Qonversion.shared().getPromotionalOffer(for: product, discount: discount) { offer, _ in
        guard let offer else { return }
        let signed: SKPaymentDiscount = offer.paymentDiscount
        let options = Qonversion.PurchaseOptions(
            promoOffer: Qonversion.PromotionalOffer(productDiscount: offer.productDiscount, paymentDiscount: signed))
        Qonversion.shared().purchase(product, options: options) { result in
            let transaction: SKPaymentTransaction? = result.transaction
            _ = transaction == nil
        }
    }
}
