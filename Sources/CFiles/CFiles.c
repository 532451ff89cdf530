/* The files for browsers, in the program. The compiler reads each file with C's #embed, so a changed file is compiled again.
   Tools/docs-list writes this file anew; tests compare it with the folders. */
#include "CFiles.h"

static const unsigned char console_api_js[] = {
#embed "console/api.js"
};
static const unsigned char console_dialog_js[] = {
#embed "console/dialog.js"
};
static const unsigned char console_feed_js[] = {
#embed "console/feed.js"
};
static const unsigned char console_graph_js[] = {
#embed "console/graph.js"
};
static const unsigned char console_h_js[] = {
#embed "console/h.js"
};
static const unsigned char console_icon_svg[] = {
#embed "console/icon.svg"
};
static const unsigned char console_index_html[] = {
#embed "console/index.html"
};
static const unsigned char console_layout_js[] = {
#embed "console/layout.js"
};
static const unsigned char console_list_js[] = {
#embed "console/list.js"
};
static const unsigned char console_main_js[] = {
#embed "console/main.js"
};
static const unsigned char console_pages_access_js[] = {
#embed "console/pages/access.js"
};
static const unsigned char console_pages_changes_js[] = {
#embed "console/pages/changes.js"
};
static const unsigned char console_pages_data_js[] = {
#embed "console/pages/data.js"
};
static const unsigned char console_pages_explain_js[] = {
#embed "console/pages/explain.js"
};
static const unsigned char console_pages_exporting_js[] = {
#embed "console/pages/exporting.js"
};
static const unsigned char console_pages_find_js[] = {
#embed "console/pages/find.js"
};
static const unsigned char console_pages_health_js[] = {
#embed "console/pages/health.js"
};
static const unsigned char console_pages_home_js[] = {
#embed "console/pages/home.js"
};
static const unsigned char console_pages_importing_js[] = {
#embed "console/pages/importing.js"
};
static const unsigned char console_pages_keys_js[] = {
#embed "console/pages/keys.js"
};
static const unsigned char console_pages_people_js[] = {
#embed "console/pages/people.js"
};
static const unsigned char console_pages_person_js[] = {
#embed "console/pages/person.js"
};
static const unsigned char console_pages_requests_js[] = {
#embed "console/pages/requests.js"
};
static const unsigned char console_pages_rules_js[] = {
#embed "console/pages/rules.js"
};
static const unsigned char console_pages_splitting_js[] = {
#embed "console/pages/splitting.js"
};
static const unsigned char console_pages_webhooks_js[] = {
#embed "console/pages/webhooks.js"
};
static const unsigned char console_plot_js[] = {
#embed "console/plot.js"
};
static const unsigned char console_style_css[] = {
#embed "console/style.css"
};
static const unsigned char console_tracks_js[] = {
#embed "console/tracks.js"
};
static const unsigned char docs_architecture_md[] = {
#embed "../../docs/architecture.md"
};
static const unsigned char docs_benchmarks_md[] = {
#embed "../../docs/benchmarks.md"
};
static const unsigned char docs_beside_md[] = {
#embed "../../docs/beside.md"
};
static const unsigned char docs_claim_md[] = {
#embed "../../docs/claim.md"
};
static const unsigned char docs_concepts_md[] = {
#embed "../../docs/concepts.md"
};
static const unsigned char docs_console_md[] = {
#embed "../../docs/console.md"
};
static const unsigned char docs_entitlements_md[] = {
#embed "../../docs/entitlements.md"
};
static const unsigned char docs_from_csv_md[] = {
#embed "../../docs/from-csv.md"
};
static const unsigned char docs_idsync_md[] = {
#embed "../../docs/idsync.md"
};
static const unsigned char docs_install_md[] = {
#embed "../../docs/install.md"
};
static const unsigned char docs_linking_md[] = {
#embed "../../docs/linking.md"
};
static const unsigned char docs_moving_in_md[] = {
#embed "../../docs/moving-in.md"
};
static const unsigned char docs_moving_out_md[] = {
#embed "../../docs/moving-out.md"
};
static const unsigned char docs_native_md[] = {
#embed "../../docs/native.md"
};
static const unsigned char docs_operating_md[] = {
#embed "../../docs/operating.md"
};
static const unsigned char docs_rules_md[] = {
#embed "../../docs/rules.md"
};
static const unsigned char docs_scaling_md[] = {
#embed "../../docs/scaling.md"
};
static const unsigned char docs_sdk_md[] = {
#embed "../../docs/sdk.md"
};
static const unsigned char docs_stores_md[] = {
#embed "../../docs/stores.md"
};
static const unsigned char docs_support_cookbook_md[] = {
#embed "../../docs/support-cookbook.md"
};
static const unsigned char docs_threat_model_md[] = {
#embed "../../docs/threat-model.md"
};
static const unsigned char docs_undo_md[] = {
#embed "../../docs/undo.md"
};
static const unsigned char docs_console_graph_png[] = {
#embed "../../docs/console-graph.png"
};
static const unsigned char docs_console_person_png[] = {
#embed "../../docs/console-person.png"
};
static const unsigned char docs_decisions_0001_decide_in_the_index_md[] = {
#embed "../../docs/decisions/0001-decide-in-the-index.md"
};
static const unsigned char docs_decisions_0002_one_writer_natural_batches_md[] = {
#embed "../../docs/decisions/0002-one-writer-natural-batches.md"
};
static const unsigned char docs_decisions_0003_our_own_http_server_md[] = {
#embed "../../docs/decisions/0003-our-own-http-server.md"
};
static const unsigned char docs_decisions_0004_checkpoints_on_a_thread_md[] = {
#embed "../../docs/decisions/0004-checkpoints-on-a-thread.md"
};
static const unsigned char docs_decisions_0005_repeated_calls_md[] = {
#embed "../../docs/decisions/0005-repeated-calls.md"
};
static const unsigned char docs_decisions_0006_bounded_work_md[] = {
#embed "../../docs/decisions/0006-bounded-work.md"
};
static const unsigned char docs_decisions_0007_building_md[] = {
#embed "../../docs/decisions/0007-building.md"
};
static const unsigned char docs_decisions_0008_limits_on_calls_md[] = {
#embed "../../docs/decisions/0008-limits-on-calls.md"
};
static const unsigned char docs_decisions_0009_the_command_line_is_a_client_md[] = {
#embed "../../docs/decisions/0009-the-command-line-is-a-client.md"
};
static const unsigned char docs_decisions_0010_calls_to_other_servers_md[] = {
#embed "../../docs/decisions/0010-calls-to-other-servers.md"
};
static const unsigned char docs_decisions_0011_reading_at_a_glance_md[] = {
#embed "../../docs/decisions/0011-reading-at-a-glance.md"
};
static const unsigned char docs_decisions_0012_tokens_that_nobody_keeps_md[] = {
#embed "../../docs/decisions/0012-tokens-that-nobody-keeps.md"
};
static const unsigned char docs_decisions_0013_the_sdk_keeps_one_log_md[] = {
#embed "../../docs/decisions/0013-the-sdk-keeps-one-log.md"
};
static const unsigned char docs_decisions_0014_webhooks_md[] = {
#embed "../../docs/decisions/0014-webhooks.md"
};
static const unsigned char docs_decisions_0015_proof_is_checked_by_the_decision_md[] = {
#embed "../../docs/decisions/0015-proof-is-checked-by-the-decision.md"
};
static const unsigned char docs_decisions_0016_one_turn_in_postgresql_md[] = {
#embed "../../docs/decisions/0016-one-turn-in-postgresql.md"
};
static const unsigned char docs_decisions_0017_partitions_by_arrival_md[] = {
#embed "../../docs/decisions/0017-partitions-by-arrival.md"
};
static const unsigned char docs_decisions_0018_readings_of_one_moment_md[] = {
#embed "../../docs/decisions/0018-readings-of-one-moment.md"
};
static const unsigned char docs_decisions_0019_a_clock_for_ci_md[] = {
#embed "../../docs/decisions/0019-a-clock-for-ci.md"
};
static const unsigned char docs_decisions_0020_a_group_is_one_value_md[] = {
#embed "../../docs/decisions/0020-a-group-is-one-value.md"
};
static const unsigned char docs_decisions_0021_a_call_is_one_type_md[] = {
#embed "../../docs/decisions/0021-a-call-is-one-type.md"
};
static const unsigned char docs_decisions_0022_each_reason_is_a_merge_md[] = {
#embed "../../docs/decisions/0022-each-reason-is-a-merge.md"
};
static const unsigned char docs_decisions_0023_a_package_for_debian_md[] = {
#embed "../../docs/decisions/0023-a-package-for-debian.md"
};
static const unsigned char docs_decisions_0024_names_of_the_vendors_modules_md[] = {
#embed "../../docs/decisions/0024-names-of-the-vendors-modules.md"
};
static const unsigned char docs_decisions_0025_a_store_account_is_a_set_of_installs_md[] = {
#embed "../../docs/decisions/0025-a-store-account-is-a-set-of-installs.md"
};
static const unsigned char docs_decisions_0026_a_console_of_plain_files_md[] = {
#embed "../../docs/decisions/0026-a-console-of-plain-files.md"
};
static const unsigned char docs_decisions_0027_signed_answers_carry_their_key_md[] = {
#embed "../../docs/decisions/0027-signed-answers-carry-their-key.md"
};
static const unsigned char docs_decisions_0028_runs_of_rows_md[] = {
#embed "../../docs/decisions/0028-runs-of-rows.md"
};
static const unsigned char docs_decisions_0029_an_undo_decides_calls_again_md[] = {
#embed "../../docs/decisions/0029-an-undo-decides-calls-again.md"
};
static const unsigned char docs_decisions_0030_imports_md[] = {
#embed "../../docs/decisions/0030-imports.md"
};
static const unsigned char docs_decisions_0031_rules_as_data_md[] = {
#embed "../../docs/decisions/0031-rules-as-data.md"
};
static const unsigned char docs_decisions_0032_copies_md[] = {
#embed "../../docs/decisions/0032-copies.md"
};
static const unsigned char docs_decisions_0033_the_head_of_a_store_md[] = {
#embed "../../docs/decisions/0033-the-head-of-a-store.md"
};
static const unsigned char docs_decisions_0034_a_split_ends_links_md[] = {
#embed "../../docs/decisions/0034-a-split-ends-links.md"
};
static const unsigned char docs_decisions_0035_any_call_can_be_taken_back_md[] = {
#embed "../../docs/decisions/0035-any-call-can-be-taken-back.md"
};
static const unsigned char docs_decisions_0036_exports_md[] = {
#embed "../../docs/decisions/0036-exports.md"
};
static const unsigned char docs_decisions_0037_the_call_log_md[] = {
#embed "../../docs/decisions/0037-the-call-log.md"
};
static const unsigned char docs_decisions_0038_access_that_stays_right_md[] = {
#embed "../../docs/decisions/0038-access-that-stays-right.md"
};
static const unsigned char docs_decisions_0039_what_reads_keep_of_runs_md[] = {
#embed "../../docs/decisions/0039-what-reads-keep-of-runs.md"
};
static const unsigned char docs_decisions_0040_no_parameter_is_ignored_md[] = {
#embed "../../docs/decisions/0040-no-parameter-is-ignored.md"
};
static const unsigned char docs_decisions_0041_a_disk_that_loses_md[] = {
#embed "../../docs/decisions/0041-a-disk-that-loses.md"
};
static const unsigned char docs_decisions_0044_rows_of_a_split_md[] = {
#embed "../../docs/decisions/0044-rows-of-a-split.md"
};
static const unsigned char docs_decisions_0045_first_minutes_md[] = {
#embed "../../docs/decisions/0045-first-minutes.md"
};
static const unsigned char docs_decisions_0049_one_login_md[] = {
#embed "../../docs/decisions/0049-one-login.md"
};
static const unsigned char docs_decisions_0050_rooms_are_checked_folders_md[] = {
#embed "../../docs/decisions/0050-rooms-are-checked-folders.md"
};
static const unsigned char docs_decisions_0051_one_pipeline_for_routes_md[] = {
#embed "../../docs/decisions/0051-one-pipeline-for-routes.md"
};
static const unsigned char docs_decisions_0052_steps_are_counted_md[] = {
#embed "../../docs/decisions/0052-steps-are-counted.md"
};
static const unsigned char docs_decisions_0053_a_world_in_one_seed_md[] = {
#embed "../../docs/decisions/0053-a-world-in-one-seed.md"
};
static const unsigned char docs_decisions_0054_a_scan_in_slices_md[] = {
#embed "../../docs/decisions/0054-a-scan-in-slices.md"
};
static const unsigned char docs_decisions_0059_several_master_keys_md[] = {
#embed "../../docs/decisions/0059-several-master-keys.md"
};
static const unsigned char docs_decisions_0060_a_log_of_requests_md[] = {
#embed "../../docs/decisions/0060-a-log-of-requests.md"
};
static const unsigned char docs_decisions_0061_a_history_with_an_end_md[] = {
#embed "../../docs/decisions/0061-a-history-with-an-end.md"
};
static const unsigned char docs_decisions_0062_the_key_of_a_purchase_md[] = {
#embed "../../docs/decisions/0062-the-key-of-a-purchase.md"
};
static const unsigned char docs_decisions_0063_the_lock_of_the_sdks_folder_md[] = {
#embed "../../docs/decisions/0063-the-lock-of-the-sdks-folder.md"
};
static const unsigned char docs_decisions_0064_a_tree_over_the_journal_md[] = {
#embed "../../docs/decisions/0064-a-tree-over-the-journal.md"
};
static const unsigned char docs_decisions_0070_what_is_kept_of_old_rows_md[] = {
#embed "../../docs/decisions/0070-what-is-kept-of-old-rows.md"
};
static const unsigned char docs_decisions_0071_members_of_bodies_md[] = {
#embed "../../docs/decisions/0071-members-of-bodies.md"
};
static const unsigned char docs_decisions_0074_steps_of_the_clock_md[] = {
#embed "../../docs/decisions/0074-steps-of-the-clock.md"
};
static const unsigned char docs_decisions_0076_lists_that_calls_make_md[] = {
#embed "../../docs/decisions/0076-lists-that-calls-make.md"
};
static const unsigned char docs_decisions_0077_what_was_seen_is_done_md[] = {
#embed "../../docs/decisions/0077-what-was-seen-is-done.md"
};
static const unsigned char docs_decisions_0078_the_bytes_of_the_program_md[] = {
#embed "../../docs/decisions/0078-the-bytes-of-the-program.md"
};
static const unsigned char docs_decisions_0079_numbers_for_life_md[] = {
#embed "../../docs/decisions/0079-numbers-for-life.md"
};
static const unsigned char docs_decisions_README_md[] = {
#embed "../../docs/decisions/README.md"
};
static const unsigned char docs_search_js[] = {
#embed "docs/search.js"
};
static const unsigned char docs_style_css[] = {
#embed "docs/style.css"
};

#define FILE_OF(folder, name, bytes) {folder, name, bytes, sizeof bytes}

static const onym_file files[] = {
    FILE_OF("console", "api.js", console_api_js),
    FILE_OF("console", "dialog.js", console_dialog_js),
    FILE_OF("console", "feed.js", console_feed_js),
    FILE_OF("console", "graph.js", console_graph_js),
    FILE_OF("console", "h.js", console_h_js),
    FILE_OF("console", "icon.svg", console_icon_svg),
    FILE_OF("console", "index.html", console_index_html),
    FILE_OF("console", "layout.js", console_layout_js),
    FILE_OF("console", "list.js", console_list_js),
    FILE_OF("console", "main.js", console_main_js),
    FILE_OF("console", "pages/access.js", console_pages_access_js),
    FILE_OF("console", "pages/changes.js", console_pages_changes_js),
    FILE_OF("console", "pages/data.js", console_pages_data_js),
    FILE_OF("console", "pages/explain.js", console_pages_explain_js),
    FILE_OF("console", "pages/exporting.js", console_pages_exporting_js),
    FILE_OF("console", "pages/find.js", console_pages_find_js),
    FILE_OF("console", "pages/health.js", console_pages_health_js),
    FILE_OF("console", "pages/home.js", console_pages_home_js),
    FILE_OF("console", "pages/importing.js", console_pages_importing_js),
    FILE_OF("console", "pages/keys.js", console_pages_keys_js),
    FILE_OF("console", "pages/people.js", console_pages_people_js),
    FILE_OF("console", "pages/person.js", console_pages_person_js),
    FILE_OF("console", "pages/requests.js", console_pages_requests_js),
    FILE_OF("console", "pages/rules.js", console_pages_rules_js),
    FILE_OF("console", "pages/splitting.js", console_pages_splitting_js),
    FILE_OF("console", "pages/webhooks.js", console_pages_webhooks_js),
    FILE_OF("console", "plot.js", console_plot_js),
    FILE_OF("console", "style.css", console_style_css),
    FILE_OF("console", "tracks.js", console_tracks_js),
    FILE_OF("docs", "architecture.md", docs_architecture_md),
    FILE_OF("docs", "benchmarks.md", docs_benchmarks_md),
    FILE_OF("docs", "beside.md", docs_beside_md),
    FILE_OF("docs", "claim.md", docs_claim_md),
    FILE_OF("docs", "concepts.md", docs_concepts_md),
    FILE_OF("docs", "console.md", docs_console_md),
    FILE_OF("docs", "entitlements.md", docs_entitlements_md),
    FILE_OF("docs", "from-csv.md", docs_from_csv_md),
    FILE_OF("docs", "idsync.md", docs_idsync_md),
    FILE_OF("docs", "install.md", docs_install_md),
    FILE_OF("docs", "linking.md", docs_linking_md),
    FILE_OF("docs", "moving-in.md", docs_moving_in_md),
    FILE_OF("docs", "moving-out.md", docs_moving_out_md),
    FILE_OF("docs", "native.md", docs_native_md),
    FILE_OF("docs", "operating.md", docs_operating_md),
    FILE_OF("docs", "rules.md", docs_rules_md),
    FILE_OF("docs", "scaling.md", docs_scaling_md),
    FILE_OF("docs", "sdk.md", docs_sdk_md),
    FILE_OF("docs", "stores.md", docs_stores_md),
    FILE_OF("docs", "support-cookbook.md", docs_support_cookbook_md),
    FILE_OF("docs", "threat-model.md", docs_threat_model_md),
    FILE_OF("docs", "undo.md", docs_undo_md),
    FILE_OF("docs", "console-graph.png", docs_console_graph_png),
    FILE_OF("docs", "console-person.png", docs_console_person_png),
    FILE_OF("docs", "decisions/0001-decide-in-the-index.md", docs_decisions_0001_decide_in_the_index_md),
    FILE_OF("docs", "decisions/0002-one-writer-natural-batches.md", docs_decisions_0002_one_writer_natural_batches_md),
    FILE_OF("docs", "decisions/0003-our-own-http-server.md", docs_decisions_0003_our_own_http_server_md),
    FILE_OF("docs", "decisions/0004-checkpoints-on-a-thread.md", docs_decisions_0004_checkpoints_on_a_thread_md),
    FILE_OF("docs", "decisions/0005-repeated-calls.md", docs_decisions_0005_repeated_calls_md),
    FILE_OF("docs", "decisions/0006-bounded-work.md", docs_decisions_0006_bounded_work_md),
    FILE_OF("docs", "decisions/0007-building.md", docs_decisions_0007_building_md),
    FILE_OF("docs", "decisions/0008-limits-on-calls.md", docs_decisions_0008_limits_on_calls_md),
    FILE_OF("docs", "decisions/0009-the-command-line-is-a-client.md", docs_decisions_0009_the_command_line_is_a_client_md),
    FILE_OF("docs", "decisions/0010-calls-to-other-servers.md", docs_decisions_0010_calls_to_other_servers_md),
    FILE_OF("docs", "decisions/0011-reading-at-a-glance.md", docs_decisions_0011_reading_at_a_glance_md),
    FILE_OF("docs", "decisions/0012-tokens-that-nobody-keeps.md", docs_decisions_0012_tokens_that_nobody_keeps_md),
    FILE_OF("docs", "decisions/0013-the-sdk-keeps-one-log.md", docs_decisions_0013_the_sdk_keeps_one_log_md),
    FILE_OF("docs", "decisions/0014-webhooks.md", docs_decisions_0014_webhooks_md),
    FILE_OF("docs", "decisions/0015-proof-is-checked-by-the-decision.md", docs_decisions_0015_proof_is_checked_by_the_decision_md),
    FILE_OF("docs", "decisions/0016-one-turn-in-postgresql.md", docs_decisions_0016_one_turn_in_postgresql_md),
    FILE_OF("docs", "decisions/0017-partitions-by-arrival.md", docs_decisions_0017_partitions_by_arrival_md),
    FILE_OF("docs", "decisions/0018-readings-of-one-moment.md", docs_decisions_0018_readings_of_one_moment_md),
    FILE_OF("docs", "decisions/0019-a-clock-for-ci.md", docs_decisions_0019_a_clock_for_ci_md),
    FILE_OF("docs", "decisions/0020-a-group-is-one-value.md", docs_decisions_0020_a_group_is_one_value_md),
    FILE_OF("docs", "decisions/0021-a-call-is-one-type.md", docs_decisions_0021_a_call_is_one_type_md),
    FILE_OF("docs", "decisions/0022-each-reason-is-a-merge.md", docs_decisions_0022_each_reason_is_a_merge_md),
    FILE_OF("docs", "decisions/0023-a-package-for-debian.md", docs_decisions_0023_a_package_for_debian_md),
    FILE_OF("docs", "decisions/0024-names-of-the-vendors-modules.md", docs_decisions_0024_names_of_the_vendors_modules_md),
    FILE_OF("docs", "decisions/0025-a-store-account-is-a-set-of-installs.md", docs_decisions_0025_a_store_account_is_a_set_of_installs_md),
    FILE_OF("docs", "decisions/0026-a-console-of-plain-files.md", docs_decisions_0026_a_console_of_plain_files_md),
    FILE_OF("docs", "decisions/0027-signed-answers-carry-their-key.md", docs_decisions_0027_signed_answers_carry_their_key_md),
    FILE_OF("docs", "decisions/0028-runs-of-rows.md", docs_decisions_0028_runs_of_rows_md),
    FILE_OF("docs", "decisions/0029-an-undo-decides-calls-again.md", docs_decisions_0029_an_undo_decides_calls_again_md),
    FILE_OF("docs", "decisions/0030-imports.md", docs_decisions_0030_imports_md),
    FILE_OF("docs", "decisions/0031-rules-as-data.md", docs_decisions_0031_rules_as_data_md),
    FILE_OF("docs", "decisions/0032-copies.md", docs_decisions_0032_copies_md),
    FILE_OF("docs", "decisions/0033-the-head-of-a-store.md", docs_decisions_0033_the_head_of_a_store_md),
    FILE_OF("docs", "decisions/0034-a-split-ends-links.md", docs_decisions_0034_a_split_ends_links_md),
    FILE_OF("docs", "decisions/0035-any-call-can-be-taken-back.md", docs_decisions_0035_any_call_can_be_taken_back_md),
    FILE_OF("docs", "decisions/0036-exports.md", docs_decisions_0036_exports_md),
    FILE_OF("docs", "decisions/0037-the-call-log.md", docs_decisions_0037_the_call_log_md),
    FILE_OF("docs", "decisions/0038-access-that-stays-right.md", docs_decisions_0038_access_that_stays_right_md),
    FILE_OF("docs", "decisions/0039-what-reads-keep-of-runs.md", docs_decisions_0039_what_reads_keep_of_runs_md),
    FILE_OF("docs", "decisions/0040-no-parameter-is-ignored.md", docs_decisions_0040_no_parameter_is_ignored_md),
    FILE_OF("docs", "decisions/0041-a-disk-that-loses.md", docs_decisions_0041_a_disk_that_loses_md),
    FILE_OF("docs", "decisions/0044-rows-of-a-split.md", docs_decisions_0044_rows_of_a_split_md),
    FILE_OF("docs", "decisions/0045-first-minutes.md", docs_decisions_0045_first_minutes_md),
    FILE_OF("docs", "decisions/0049-one-login.md", docs_decisions_0049_one_login_md),
    FILE_OF("docs", "decisions/0050-rooms-are-checked-folders.md", docs_decisions_0050_rooms_are_checked_folders_md),
    FILE_OF("docs", "decisions/0051-one-pipeline-for-routes.md", docs_decisions_0051_one_pipeline_for_routes_md),
    FILE_OF("docs", "decisions/0052-steps-are-counted.md", docs_decisions_0052_steps_are_counted_md),
    FILE_OF("docs", "decisions/0053-a-world-in-one-seed.md", docs_decisions_0053_a_world_in_one_seed_md),
    FILE_OF("docs", "decisions/0054-a-scan-in-slices.md", docs_decisions_0054_a_scan_in_slices_md),
    FILE_OF("docs", "decisions/0059-several-master-keys.md", docs_decisions_0059_several_master_keys_md),
    FILE_OF("docs", "decisions/0060-a-log-of-requests.md", docs_decisions_0060_a_log_of_requests_md),
    FILE_OF("docs", "decisions/0061-a-history-with-an-end.md", docs_decisions_0061_a_history_with_an_end_md),
    FILE_OF("docs", "decisions/0062-the-key-of-a-purchase.md", docs_decisions_0062_the_key_of_a_purchase_md),
    FILE_OF("docs", "decisions/0063-the-lock-of-the-sdks-folder.md", docs_decisions_0063_the_lock_of_the_sdks_folder_md),
    FILE_OF("docs", "decisions/0064-a-tree-over-the-journal.md", docs_decisions_0064_a_tree_over_the_journal_md),
    FILE_OF("docs", "decisions/0070-what-is-kept-of-old-rows.md", docs_decisions_0070_what_is_kept_of_old_rows_md),
    FILE_OF("docs", "decisions/0071-members-of-bodies.md", docs_decisions_0071_members_of_bodies_md),
    FILE_OF("docs", "decisions/0074-steps-of-the-clock.md", docs_decisions_0074_steps_of_the_clock_md),
    FILE_OF("docs", "decisions/0076-lists-that-calls-make.md", docs_decisions_0076_lists_that_calls_make_md),
    FILE_OF("docs", "decisions/0077-what-was-seen-is-done.md", docs_decisions_0077_what_was_seen_is_done_md),
    FILE_OF("docs", "decisions/0078-the-bytes-of-the-program.md", docs_decisions_0078_the_bytes_of_the_program_md),
    FILE_OF("docs", "decisions/0079-numbers-for-life.md", docs_decisions_0079_numbers_for_life_md),
    FILE_OF("docs", "decisions/README.md", docs_decisions_README_md),
    FILE_OF("docs", "search.js", docs_search_js),
    FILE_OF("docs", "style.css", docs_style_css),
};

size_t onym_file_count(void) { return sizeof files / sizeof files[0]; }

onym_file onym_file_at(size_t place) { return files[place]; }
