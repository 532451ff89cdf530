/* The files of the console, in the program. The compiler reads each file with C's #embed, so a changed file is compiled again.
   Tests compare this list with the folder. */
#include "CConsole.h"

static const unsigned char api_js[] = {
#embed "files/api.js"
};
static const unsigned char dialog_js[] = {
#embed "files/dialog.js"
};
static const unsigned char feed_js[] = {
#embed "files/feed.js"
};
static const unsigned char graph_js[] = {
#embed "files/graph.js"
};
static const unsigned char h_js[] = {
#embed "files/h.js"
};
static const unsigned char icon_svg[] = {
#embed "files/icon.svg"
};
static const unsigned char index_html[] = {
#embed "files/index.html"
};
static const unsigned char layout_js[] = {
#embed "files/layout.js"
};
static const unsigned char list_js[] = {
#embed "files/list.js"
};
static const unsigned char main_js[] = {
#embed "files/main.js"
};
static const unsigned char pages_changes_js[] = {
#embed "files/pages/changes.js"
};
static const unsigned char pages_data_js[] = {
#embed "files/pages/data.js"
};
static const unsigned char pages_explain_js[] = {
#embed "files/pages/explain.js"
};
static const unsigned char pages_find_js[] = {
#embed "files/pages/find.js"
};
static const unsigned char pages_health_js[] = {
#embed "files/pages/health.js"
};
static const unsigned char pages_home_js[] = {
#embed "files/pages/home.js"
};
static const unsigned char pages_keys_js[] = {
#embed "files/pages/keys.js"
};
static const unsigned char pages_people_js[] = {
#embed "files/pages/people.js"
};
static const unsigned char pages_person_js[] = {
#embed "files/pages/person.js"
};
static const unsigned char pages_rules_js[] = {
#embed "files/pages/rules.js"
};
static const unsigned char pages_splitting_js[] = {
#embed "files/pages/splitting.js"
};
static const unsigned char pages_webhooks_js[] = {
#embed "files/pages/webhooks.js"
};
static const unsigned char plot_js[] = {
#embed "files/plot.js"
};
static const unsigned char style_css[] = {
#embed "files/style.css"
};
static const unsigned char tracks_js[] = {
#embed "files/tracks.js"
};

#define FILE_OF(name, bytes) {name, bytes, sizeof bytes}

static const onym_console_file files[] = {
    FILE_OF("api.js", api_js),
    FILE_OF("dialog.js", dialog_js),
    FILE_OF("feed.js", feed_js),
    FILE_OF("graph.js", graph_js),
    FILE_OF("h.js", h_js),
    FILE_OF("icon.svg", icon_svg),
    FILE_OF("index.html", index_html),
    FILE_OF("layout.js", layout_js),
    FILE_OF("list.js", list_js),
    FILE_OF("main.js", main_js),
    FILE_OF("pages/changes.js", pages_changes_js),
    FILE_OF("pages/data.js", pages_data_js),
    FILE_OF("pages/explain.js", pages_explain_js),
    FILE_OF("pages/find.js", pages_find_js),
    FILE_OF("pages/health.js", pages_health_js),
    FILE_OF("pages/home.js", pages_home_js),
    FILE_OF("pages/keys.js", pages_keys_js),
    FILE_OF("pages/people.js", pages_people_js),
    FILE_OF("pages/person.js", pages_person_js),
    FILE_OF("pages/rules.js", pages_rules_js),
    FILE_OF("pages/splitting.js", pages_splitting_js),
    FILE_OF("pages/webhooks.js", pages_webhooks_js),
    FILE_OF("plot.js", plot_js),
    FILE_OF("style.css", style_css),
    FILE_OF("tracks.js", tracks_js),
};

size_t onym_console_count(void) { return sizeof files / sizeof files[0]; }

onym_console_file onym_console_file_at(size_t place) { return files[place]; }
