#ifndef ONYM_CCURL_SHIM_H
#define ONYM_CCURL_SHIM_H

#include <curl/curl.h>

// libcurl sets and reads its options by variadic functions.

static inline CURLcode onym_curl_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode onym_curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode onym_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode onym_curl_set_fields(CURL *handle, struct curl_slist *fields) {
    return curl_easy_setopt(handle, CURLOPT_HTTPHEADER, fields);
}

// libcurl copies the body, whose length is told first.
static inline CURLcode onym_curl_set_body(CURL *handle, const void *bytes, size_t count) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)count);
    // A pointer to nothing would have libcurl ask for the body.
    return code != CURLE_OK ? code : curl_easy_setopt(handle, CURLOPT_COPYPOSTFIELDS, count == 0 ? "" : bytes);
}

typedef size_t (*onym_curl_writer)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode onym_curl_set_writer(CURL *handle, onym_curl_writer writer, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, writer);
    return code != CURLE_OK ? code : curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
}

typedef curl_socket_t (*onym_curl_opener)(void *context, curlsocktype purpose, struct curl_sockaddr *address);

static inline CURLcode onym_curl_set_opener(CURL *handle, onym_curl_opener opener, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, opener);
    return code != CURLE_OK ? code : curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, context);
}

static inline CURLMcode onym_curl_keep_connections(CURLM *multi, long count) {
    return curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, count);
}

static inline long onym_curl_status(CURL *handle) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// The value of a field in the last answer; NULL where there is none. It is valid until the handle's next use.
static inline const char *onym_curl_field(CURL *handle, const char *name) {
    struct curl_header *field = NULL;
    return curl_easy_header(handle, name, 0, CURLH_HEADER, -1, &field) == CURLHE_OK ? field->value : NULL;
}

// The next transfer that has ended, and how; NULL where there is none.
static inline CURL *onym_curl_next_ended(CURLM *multi, CURLcode *code) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            *code = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}

#endif
