"""Uploads with mParticle's own client for Python, as its users write it, and prints the status of each call as JSON.

    API_KEY=… API_SECRET=… mparticle_client.py http://127.0.0.1:8080 one|bulk|identities|everything|refused MPID…
"""

import json
import os
import sys

import mparticle
from mparticle.models.user_attribute_change_event import UserAttributeChangeEvent
from mparticle.rest import ApiException

configuration = mparticle.Configuration()
configuration.host = sys.argv[1] + "/v2"
configuration.api_key = os.environ["API_KEY"]
configuration.api_secret = os.environ["API_SECRET"]
api = mparticle.EventsApi(configuration)
people = sys.argv[3:]
NOON = 1795262400000
DEVICE = "0f3c8a6e-7f0d-4a1c-9b53-2f9f6f1f7a10"


def custom_event(name, at=NOON):
    event = mparticle.AppEvent(name, "navigation")
    event.timestamp_unixtime_ms = at
    event.source_message_id = name
    event.custom_attributes = {"page": "home", "price": 1.5, "first": True, "nothing": None}
    return event


def batch(mpid=None, events=(), **identities):
    made = mparticle.Batch()
    made.environment = "development"
    made.mpid = mpid
    made.events = list(events)
    if identities:
        made.user_identities = mparticle.UserIdentities(**identities)
    return made


def one():
    """One batch for a person by MPID; it goes out twice, as it does after an answer that was lost."""
    upload = batch(people[0], [mparticle.SessionStartEvent(timestamp_unixtime_ms=NOON), custom_event("opened")])
    upload.source_request_id = "one"
    upload.user_attributes = {"eyes": "brown", "favorite_foods": ["indian", "chinese"]}
    upload.user_identities = mparticle.UserIdentities(customerid="one", other_id_2="two")
    return [api.upload_events(upload), api.upload_events(upload)]


def bulk():
    """A batch each for people by MPID: the first as a number, the others as the string that it is elsewhere."""
    uploads = [batch(int(people[0]), [custom_event(f"of {people[0]}")])]
    uploads += [batch(mpid, [custom_event(f"of {mpid}")]) for mpid in people[1:]]
    return [api.bulk_upload_events(uploads)]


NAMES = ["other", "customerid", "facebook", "twitter", "google", "microsoft", "yahoo", "email",
         "facebook_custom_audience_id", *(f"other_id_{number}" for number in range(2, 11)),
         "mobile_number", "phone_number_2", "phone_number_3"]


def identities():
    """Batches that name their person by one identity each, of every type that the client knows."""
    uploads = [batch(None, [custom_event(f"by {name}")], **{name: f"{name}-value"}) for name in NAMES]
    return [api.bulk_upload_events(uploads), api.upload_events(batch(None, [custom_event("by all")], **{
        name: f"{name}-value" for name in NAMES}, alias="what nobody is called by any more"))]


def everything():
    """Whatever a batch can hold."""
    product = mparticle.Product(id="sku", name="Shoe", price=19.99, quantity=1, custom_attributes={"size": 42})
    upload = batch(people[0], [
        mparticle.SessionStartEvent(
            timestamp_unixtime_ms=NOON, session_id=2**62, location=mparticle.GeoLocation(52.5, -13.4, 0.1)),
        mparticle.SessionEndEvent(session_duration_ms=1000),
        mparticle.FirstRunEvent(),
        mparticle.ApplicationStateTransitionEvent(application_transition_type="application_background"),
        mparticle.ScreenViewEvent(screen_name="Größe \U0001f45f"),
        mparticle.PushRegistrationEvent(register=True, registration_token="token"),
        mparticle.PushMessageEvent(push_message_type="received", message="hello", application_state="foreground"),
        mparticle.ProfileEvent(profile_name="me", profile_event_type="login"),
        mparticle.OptOutEvent(is_opted_out=False),
        mparticle.BreadcrumbEvent(label="crumb"),
        mparticle.NetworkPerformanceEvent(http_verb="GET", url="https://example.com", data="sent", response_code=200),
        mparticle.CrashReportEvent(message="boom", stack_trace="at main"),
        UserAttributeChangeEvent(user_attribute_name="eyes", new=["green"], old=None, deleted=False),
        mparticle.CommerceEvent(
            mparticle.ProductAction("purchase", products=[product], total_amount=19.99, transaction_id="t"),
            product_impressions=[mparticle.ProductImpression("list", [product])],
            shopping_cart=mparticle.ShoppingCart([product]), currency_code="EUR"),
        mparticle.CommerceEvent(promotion_action=mparticle.PromotionAction("view", [mparticle.Promotion(id="p")])),
        mparticle.AppEvent("played", "other", media_info=mparticle.MediaInfo(action="play", format="video"),
                           device_current_state=mparticle.DeviceCurrentState(battery_level=0.5, cpu="1"),
                           custom_flags={"flag": "1"}),
    ])
    upload.ip = "192.0.2.1"
    upload.schema_version = 2
    upload.mp_deviceid = "device"
    upload.device_info = mparticle.DeviceInformation(
        platform="ios", ios_advertising_id=DEVICE, ios_idfv=DEVICE, android_uuid="uuid", android_advertising_id=DEVICE,
        push_token="token", amp_id="amp", fire_advertising_id=DEVICE, roku_advertising_id=DEVICE,
        roku_publisher_id="publisher", microsoft_advertising_id=DEVICE, microsoft_publisher_id="publisher",
        screen_height=2556, is_tablet=False, timezone_offset=-1, att_authorization_status="authorized",
        att_timestamp_unixtime_ms=NOON)
    upload.application_info = mparticle.ApplicationInformation(application_name="Shop", application_version="1.0")
    upload.user_attributes = {"age": 42, "score": 1.5, "vip": True, "gone": None, "names": [], "eyes": "grün"}
    upload.deleted_user_attributes = ["hair"]
    upload.integration_attributes = {"52": {"key": "value"}}
    upload.context = mparticle.BatchContext(data_plan=mparticle.DataPlanContext(plan_id="plan", plan_version=1))
    upload.consent_state = mparticle.ConsentState()
    upload.consent_state.gdpr = {"terms": mparticle.GDPRConsentState(consented=True, timestamp_unixtime_ms=NOON)}
    upload.consent_state.ccpa = {"data_sale_opt_out": mparticle.CCPAConsentState(consented=False)}
    return [api.upload_events(upload)]


def refused():
    """What is answered with an error, which the client throws."""
    answers = []
    for upload in [batch(None, [custom_event("nobody's")]), batch("1", [custom_event("a stranger's")])]:
        try:
            answers.append(api.upload_events(upload))
        except ApiException as error:
            answers.append((None, error.status, error.headers))
    return answers


SCENES = [one, bulk, identities, everything, refused]
scene = next(scene for scene in SCENES if scene.__name__ == sys.argv[2])
print(json.dumps([status for _, status, _ in scene()]))
