#!/usr/bin/env python3
"""Writes the samples of vendors' files into this folder, from a seed. The .facts files beside them are what the tests record."""
import csv
import datetime
import io
import json
import os
import random
import uuid

chance = random.Random(24)
folder = os.path.dirname(os.path.abspath(__file__))
START = 1_700_000_000_000


def write(name, text, newline=""):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline=newline) as file:
        file.write(text)


def lines(name, records):
    write(name, "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records))


def table(name, header, rows, ending="\n", mark=False):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=ending)
    writer.writerow(header)
    writer.writerows(rows)
    write(name, ("\ufeff" if mark else "") + text.getvalue())


def uid():
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def hexa(count):
    return "%0*x" % (count, chance.getrandbits(4 * count))


def mpid():
    return chance.randint(-(2**63), 2**63 - 1) or 1


def day(ms, form="%Y-%m-%d %H:%M:%S"):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).strftime(form)


def mparticle():
    people = [(mpid(), "c%d" % n, "p%d@example.com" % n, uid().upper()) for n in range(12)]
    batches = []
    for n in range(40):
        person, customer, email, device = chance.choice(people)
        at = START + n * 60_000
        batch = {
            "events": [{"data": {"event_name": chance.choice(["click", "buy", "caf\u00e9 \"open\""]),
                                 "timestamp_unixtime_ms": chance.choice([at, str(at)]), "event_id": str(1000 + n),
                                 "custom_attributes": {"n": n}}, "event_type": "custom_event"}],
            "user_identities": [{"identity_type": "customer_id", "identity": customer, "timestamp_unixtime_ms": at - 5000}],
            "user_attributes": {"plan": chance.choice(["free", "pro"]), "age": n},
            "device_info": {"ios_idfv": device, "platform": "iOS", "ios_advertising_id": "00000000-0000-0000-0000-000000000000"},
            "environment": "development" if n % 13 == 12 else "production", "mpid": person, "timestamp_unixtime_ms": at}
        if n % 3 == 0:
            batch["user_identities"].append({"identity_type": "email", "identity": email})
        if n % 5 == 0:
            batch["user_identities"] = {"customer_id": customer, "email": email, "other_id_2": "o%d" % n}
        if n % 7 == 0:
            batch["deleted_user_attributes"] = ["age"]
            batch["user_attributes"] = {"plan": None}
        if n == 17:
            del batch["events"][0]["data"]["event_id"]
        if n == 21:
            batch["mpid"] = 0
        if n == 22:
            del batch["events"][0]["data"]["timestamp_unixtime_ms"]
            del batch["timestamp_unixtime_ms"]
        if n == 23:
            batch["user_identities"] = [{"identity_type": "pigeon", "identity": "x"}]
        batches.append(batch)
    lines("mparticle-s3.jsonl", batches)
    profiles = []
    for n in range(25):
        profiles.append({
            "mpid": mpid() // 1000 * 1000 if n % 4 == 0 else mpid(), "created_timestamp_ms": START + n,
            "device_identities": [{"type": "android_id", "encoding": "none", "value": hexa(16)},
                                  {"type": "ios_idfa", "encoding": "sha256", "value": hexa(64)}],
            "user_identities": [{"type": "email", "encoding": "none", "value": "q%d@example.com" % n}],
            "user_attributes": {"ltv": "342.1", "tags": ["a", "b"], "big": 2**63 - n - 1}})
    profiles[7]["mpid"] = 9.080350317581165e18
    lines("mparticle-profiles.jsonl", profiles)
    rows = []
    for n in range(20):
        rows.append({
            "mparticleuserid": people[n % 12][0], "customerid": people[n % 12][1], "email": people[n % 12][2],
            "googleaid": uid(), "eventname": "Nav", "eventid": 35 + n, "eventtimestamp": START + n * 1000,
            "firstseentimestamp": START - 1000, "eventattributes": {"screen": "s%d" % n},
            "userattributes": json.dumps({"plan": "pro"}) if n % 2 else {"plan": "free"}, "appname": "x"})
    rows[3]["isdebug"] = True
    lines("mparticle-snowflake.jsonl", rows)


def segment():
    def tail(n):
        at = day(START + n * 1000)
        return [str(n), at, at, day(START + n * 1000, "%Y-%m-%dT%H:%M:%S.250Z")]
    rest = ["seq", "received_at", "uuid_ts", "timestamp"]
    types = ["user_id", "anonymous_id", "email", "ios.idfa", "ios.idfv", "cross_domain_id"]
    rows = []
    for n in range(36):
        kind = types[n % 6]
        value = {"user_id": "u%d" % n, "email": "s%d@example.com" % n}.get(kind, uid())
        rows.append(["use_%d" % (n // 6), kind, value] + tail(n))
    rows.append(["", "email", "x@example.com"] + tail(99))
    table("segment-identifiers.csv", ["CANONICAL_SEGMENT_ID", "TYPE", "VALUE"] + rest, rows, "\r\n", True)
    rows = [["use_%d" % (n % 6), chance.choice(["plan", "city", "note"]),
             chance.choice(["pro", "", "Z\u00fcrich", 'says "hi",\nand goes'])] + tail(n) for n in range(30)]
    table("segment-traits.csv", ["canonical_segment_id", "name", "value"] + rest + ["extra"], [r + ["1"] for r in rows])
    rows = [["profile_1", "profile_1", "track", "event_1", "2022-06-22 10:45:00"],
            ["profile_2", "profile_2", "track", "event_2", "2022-06-22 10:47:00"],
            ["profile_2", "profile_1", "identify", "event_4", "2022-06-22 10:48:00"]]
    for n in range(3, 24):
        other = chance.randrange(1, n + 1)
        rows.append(["profile_%d" % n, "profile_%d" % other, "identify", "event_%d" % n, day(1655900000000 + n * 1000)])
    table("segment-graph.csv", ["segment_id", "canonical_segment_id", "triggering_event_type", "triggering_event_id",
                                "timestamp"], rows)
    rows = [["profile_%d" % (n // 2 + 1), "user_id" if n % 2 else "anonymous_id", "u%d" % n if n % 2 else uid(), str(n),
             day(1655900000000 + n * 1000)] for n in range(24)]
    rows[5][4] = "yesterday"
    table("segment-external.csv", ["segment_id", "external_id_type", "external_id_value", "seq", "timestamp"], rows)


def posthog():
    people = []
    for n in range(24):
        email = "h%d@example.com" % n
        ids = [uid()] + (["user-%d" % n] if n % 2 else []) + ([email] if n % 3 == 0 else []) + (["alt-%d" % n] if n % 5 == 1 else [])
        people.append({"id": n, "distinct_ids": ids, "properties": {"email": email, "$initial_os": "iOS", "n": n},
                       "created_at": day(START + n, "%Y-%m-%dT%H:%M:%S.000Z"), "uuid": uid(),
                       "last_seen_at": None if n % 2 else day(START + n * 1000, "%Y-%m-%dT%H:%M:%S.000Z")})
    write("posthog-page.json", json.dumps({"next": None, "previous": None, "results": people}, indent=2) + "\n")
    rows = []
    for n in range(40):
        person = people[n % 12]
        properties = {"email": person["properties"]["email"], "version": n}
        if n < 12:
            properties["gone"] = True
        rows.append([1, person["distinct_ids"][n // 12 % len(person["distinct_ids"])], person["uuid"],
                     json.dumps(properties), n // 12, chance.randrange(5), person["created_at"].replace("T", " ").replace("Z", ""),
                     1 if n == 20 else 0])
    rows.append([1, rows[0][1], people[13]["uuid"], "{}", 0, 9, rows[0][6], 0])
    rows.append([1, "broken", people[14]["uuid"], "{", 0, 0, rows[0][6], 0])
    header = ["team_id", "distinct_id", "person_id", "properties", "person_version", "person_distinct_id_version",
              "created_at", "is_deleted"]
    table("posthog-persons.csv", header, rows)
    events = []
    for n in range(30):
        person = people[n % 12]
        events.append({"uuid": uid(), "event": "$pageview" if n % 2 else "signup", "distinct_id": person["distinct_ids"][-1],
                       "person_id": person["uuid"], "properties": {"$current_url": "https://example.com/?n=%d" % n},
                       "person_properties": {"email": person["properties"]["email"], "n": n // 12}, "elements_chain": "",
                       "timestamp": day(START + n * 1000, "%Y-%m-%dT%H:%M:%S.123456+00:00"),
                       "created_at": day(START + n * 1000)})
    lines("posthog-events.jsonl", events)
    header = ["uuid", "event", "distinct_id", "person_id", "properties", "person_properties", "elements_chain", "timestamp",
              "created_at"]
    table("posthog-events.csv", header, [[json.dumps(e[h]) if isinstance(e[h], dict) else e[h] for h in header] for e in events])


def revenuecat():
    header = ["rc_original_app_user_id", "rc_last_seen_app_user_id_alias", "country", "product_identifier", "start_time",
              "end_time", "effective_end_time", "store", "is_auto_renewable", "is_trial_period", "is_in_intro_offer_period",
              "is_sandbox", "store_transaction_id", "original_store_transaction_id", "refunded_at",
              "unsubscribe_detected_at", "billing_issues_detected_at", "entitlement_identifiers", "renewal_number",
              "ownership_type", "reserved_subscriber_attributes", "custom_subscriber_attributes", "updated_at"]
    rows = []
    month = 30 * 86_400_000
    for n in range(30):
        user = "$RCAnonymousID:" + hexa(32) if n % 3 else "ada%d" % n
        store = ["app_store", "play_store", "stripe", "mac_app_store", "promotional", "amazon", "paddle"][n % 7]
        renewals = 3 if n % 4 == 0 else 1
        states = []
        for renewal in range(renewals):
            start = START + n * 1000 + renewal * month
            states.append([
                user, "user%d" % n if n % 2 else user, "DE", "pro_month", day(start), day(start + month), day(start + month),
                store, "true", "true" if n % 6 == 0 and renewal == 0 else "false", "true" if n % 6 == 3 else "false",
                "true" if n % 11 == 10 else "false", "1000%03d%d" % (n, renewal), "1000%03d0" % n,
                day(start + 5000) if n % 9 == 8 else "", day(start + 6000) if n % 5 == 4 else "",
                day(start + 7000) if n % 8 == 6 else "", json.dumps(json.dumps(["pro"])) if n % 2 else '["pro","plus"]',
                str(renewal), "FAMILY_SHARED" if n == 7 else "PURCHASED",
                json.dumps({"$email": {"value": "r%d@example.com" % n, "updated_at_ms": START}}) if n % 3 == 1 else "",
                json.dumps({"level": {"value": str(n)}}) if n % 6 == 5 else "", day(START + 4 * month)])
        if n % 8 == 0:
            states.reverse()
        rows += states
    rows[2][5] = day(START - month)
    table("revenuecat-v3.csv", header, rows)
    types = ["INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "BILLING_ISSUE", "EXPIRATION", "NON_RENEWING_PURCHASE",
             "PRODUCT_CHANGE", "TEST", "TRANSFER", "SUBSCRIBER_ALIAS"]
    events = []
    users = ["$RCAnonymousID:" + hexa(32) for _ in range(3)]
    for n in range(30):
        kind = types[n % 10]
        event = {"type": kind, "id": uid(), "event_timestamp_ms": START + n * 1000, "app_user_id": "web%d" % (n // 10),
                 "original_app_user_id": users[n // 10], "aliases": ["web%d" % (n // 10), "old%d" % n],
                 "product_id": "pro_month", "period_type": chance.choice(["NORMAL", "TRIAL", "INTRO"]),
                 "purchased_at_ms": START, "expiration_at_ms": None if kind == "NON_RENEWING_PURCHASE" else START + month,
                 "environment": "SANDBOX" if n % 9 == 8 else "PRODUCTION", "entitlement_ids": ["pro"],
                 "transaction_id": str(2000 + n), "original_transaction_id": str(2000 + n // 10), "is_family_share": n == 11,
                 "store": "PROMOTIONAL" if n == 21 else "APP_STORE",
                 "subscriber_attributes": {"$email": {"value": "w@example.com", "updated_at_ms": START}, "$displayName": {"value": None}}}
        if kind == "CANCELLATION":
            event["cancel_reason"] = chance.choice(["UNSUBSCRIBE", "CUSTOMER_SUPPORT", "BILLING_ERROR"])
        if kind == "TRANSFER":
            event = {"type": kind, "event_timestamp_ms": START, "transferred_from": ["a"], "transferred_to": ["b"]}
        if kind == "SUBSCRIBER_ALIAS":
            del event["transaction_id"]
        events.append({"api_version": "1.0", "event": event})
    lines("revenuecat-webhooks.jsonl", events)


def qonversion():
    names = ["trial_started", "trial_converted", "subscription_renewed", "subscription_canceled", "subscription_refunded",
             "trial_canceled", "in_app_purchase", "subscription_in_billing_retry", "subscription_expired", "user_created"]
    bodies, rows = [], []
    users = [("QON_" if n % 2 else "") + hexa(32) for n in range(6)]
    for n in range(30):
        user = users[n // 5]
        at = START // 1000 + n
        name = names[n % 10]
        body = {"event_name": name, "user_id": user, "custom_user_id": "cu%d" % n if n % 4 == 0 else "",
                "identity_id": "ada%d" % (n // 5) if n % 3 == 0 else "", "time": at, "product_id": "com.myapp.subs",
                "transaction": {"transaction_id": 500000601234560 + n, "original_transaction_id": 500000601234560 + n // 5,
                                "expires": at + 86400},
                "properties": {"_q_email": "q%d@x.io" % n}, "device_id": uid(),
                "environment": "sandbox" if n % 8 == 7 else "production", "platform": "iOS" if n % 2 else "android"}
        if name == "in_app_purchase":
            del body["transaction"]["expires"]
        if name == "user_created":
            del body["transaction"]
        if n == 13:
            body["platform"] = "web"
        if n == 14:
            body["user_id"] = ""
        bodies.append(body)
        transaction = body.get("transaction", {})
        rows.append([name, user, body["identity_id"], day(at * 1000), "com.myapp.subs", transaction.get("transaction_id", ""),
                     transaction.get("original_transaction_id", ""),
                     day(transaction["expires"] * 1000) if "expires" in transaction else "", "q%d@x.io" % n, "4.99"])
    lines("qonversion-webhooks.jsonl", bodies)
    table("qonversion-report.csv", ["Event Name", "Q User ID", "Identity ID", "Time", "Product ID",
                                    "Transaction Transaction ID", "Transaction Original Transaction ID",
                                    "Transaction Expires", "Properties _q_email", "Price"], rows)


def owlmetry():
    project, rows = uid(), []
    for n in range(24):
        anonymous = n % 3 == 0
        user = "owl_anon_" + uid() if anonymous else "user%d" % n
        claimed = ["owl_anon_" + uid() for _ in range(n % 3)] if not anonymous else []
        rows.append([uid(), project, user, "t" if anonymous else "f", json.dumps(claimed) if claimed else "",
                     json.dumps({"plan": "pro", "city": "K\u00f6ln, \"Dom\""}) if n % 2 else "{}",
                     day(START + n * 1000) + ".123+00", day(START + n * 9000) + "+00", "DE", "1.0", "f"])
    rows.append([uid(), project, "", "t", "", "{}", "", "", "", "", "f"])
    table("owlmetry-app_users.csv", ["id", "project_id", "user_id", "is_anonymous", "claimed_from", "properties",
                                     "first_seen_at", "last_seen_at", "last_country_code", "last_app_version", "is_dev"], rows)
    events = []
    for n in range(24):
        user = rows[n % 8][2] if n != 9 else ""
        events.append([uid(), project, uid().upper() if n % 2 else "", uid(), user, "info", "App", "step:open" if n % 2 else "a, b",
                       "home", json.dumps({"k": "v%d" % n}) if n % 3 else "", "production", "t" if n % 5 == 4 else "f",
                       day(START + n * 1000) + ".5+00", day(START + n * 1000) + "+00"])
    table("owlmetry-events.csv", ["id", "app_id", "client_event_id", "session_id", "user_id", "level", "source_module",
                                  "message", "screen_name", "custom_attributes", "environment", "is_dev", "timestamp",
                                  "received_at"], events)
    bodies = []
    for n in range(20):
        bodies.append({"bundle_id": "com.x", "events": [
            {"client_event_id": uid().upper(), "session_id": uid(), "user_id": "user%d" % k if k else None, "level": "info",
             "message": "opened", "custom_attributes": {"n": k}, "timestamp": day(START + n * 1000 + k, "%Y-%m-%dT%H:%M:%S.000Z")}
            for k in range(n % 3, n % 3 + 2)]})
    lines("owlmetry-import.jsonl", bodies)


def mapped():
    profiles = [{"$distinct_id": "$device:" + uid() if n % 4 == 0 else "mix%d" % n,
                 "$properties": {"$email": "m%d@example.com" % n, "$last_seen": day(START + n * 1000, "%Y-%m-%dT%H:%M:%S"),
                                 "plan": "pro", "score": n / 4}} for n in range(12)]
    events = [{"event": "Signed \"up\"", "properties": {"time": START // 1000 + n, "distinct_id": "mix%d" % (n % 12),
               "$insert_id": hexa(16), "$device_id": uid(), "$user_id": "mix%d" % (n % 12), "n": n}} for n in range(20)]
    lines("mixpanel.jsonl", [{"page": 0, "results": profiles}] + events)
    lines("amplitude.jsonl", [
        {"user_id": "amp%d" % (n % 6) if n % 4 else None, "device_id": uid(), "amplitude_id": 10**12 + n % 6,
         "event_type": "open", "event_time": day(START + n * 1000) + ".500000", "event_properties": {"n": n},
         "user_properties": {"plan": "free" if n < 10 else "pro"}, "uuid": uid()} for n in range(24)])
    write("acme.map.json", json.dumps({
        "format": "csv", "vendor": "acme", "key": "user_id", "made": "created",
        "identities": [{"type": "email", "from": "mail"}, {"type": "claim_user_id", "from": "user_id"}],
        "properties": {"dialect": "claim", "from": "props.*", "except": ["pw"]},
        "event": {"name": "event", "at": "time", "unit": "s", "id": "insert_id", "body": "properties"},
        "purchase": {"principal": {"type": "access_identity", "from": "user_id"}, "store": "const:stripe",
                     "transaction": "tx", "product": "sku", "bought": "created", "renewal": "const:will_renew"}}, indent=1) + "\n")
    table("acme.csv", ["user_id", "created", "mail", "props.plan", "props.pw", "event", "time", "insert_id", "properties",
                       "tx", "sku", "other"],
          [["a%d" % n, day(START), "a%d@example.com" % n, "pro" if n % 2 else "", "secret", "open" if n % 3 else "",
            str(START // 1000 + n), "i%d" % n, json.dumps({"n": n}) if n % 2 else "", "t%d" % n if n % 4 == 0 else "", "sku1", "x"]
           for n in range(20)] + [["", "", "", "", "", "", "", "", "", "", "", ""], ["a99", "never", "", "", "", "", "", "", "", "", "", ""]])


for make in [mparticle, segment, posthog, revenuecat, qonversion, owlmetry, mapped]:
    make()
