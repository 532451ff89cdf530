// A stand-in for the vendor's web client: it has the functions of that client which page.py calls, makes the same calls to the host of
// its configuration, and no others.
(function () {
  "use strict";
  const own = window.mParticle || {};
  const config = own.config || {};
  let key = "";
  let mpid = null;
  const events = [];
  const post = (path, body, fields) => fetch("https://" + config.domain + path, {
    method: "POST", headers: fields, body: JSON.stringify(body) });
  const identity = async (call, request, done) => {
    const answer = await post("/identity/v1/" + call, {
      client_sdk: { platform: "web", sdk_vendor: "mparticle", sdk_version: "2.71.2" }, context: null,
      environment: config.isDevelopmentMode ? "development" : "production", request_id: crypto.randomUUID(),
      request_timestamp_ms: Date.now(), previous_mpid: mpid,
      known_identities: { ...request.userIdentities, device_application_stamp: "stamp-1" }
    }, { "Content-Type": "application/json", "x-mp-key": key });
    const body = await answer.json();
    mpid = body.mpid;
    done({ httpCode: answer.status, body: body });
  };
  window.mParticle = {
    config: config, version: "2.71.2", starts: 0,
    isInitialized: function () { return this.starts > 0; },
    init: async function (given) {
      this.starts += 1;
      key = given;
      await fetch("https://" + config.domain + "/tags/JS/v2/" + key + "/config?env=0");
      await identity("identify", {}, () => {});
    },
    Identity: {
      getCurrentUser: () => mpid === null ? null : { getMPID: () => mpid },
      login: (request, done) => identity("login", request, done),
      logout: (request, done) => identity("logout", request, done)
    },
    logEvent: (name) => { events.push({ event_type: "custom_event", data: { event_name: name } }); },
    upload: () => { post("/webevents/v3/JS/" + key + "/events", {
      source_request_id: crypto.randomUUID(), mpid: mpid, environment: "production", events: events.splice(0)
    }, { "Content-Type": "text/plain;charset=UTF-8" }); }
  };
})();
