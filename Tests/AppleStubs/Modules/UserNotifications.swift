// The names are those of Apple, without Apple's comments.
// swift-format-ignore-file

import AppleFoundation

open class UNUserNotificationCenter: NSObject {}
open class UNNotification: NSObject {}
open class UNNotificationResponse: NSObject {}
