/* The documentation, in the program. The compiler reads each file with C's #embed, so a changed file is compiled again.
   Tools/docs-list writes this file anew; tests compare it with the folder. */
#include "CDocs.h"

static const unsigned char file_architecture_md[] = {
#embed "../../docs/architecture.md"
};
static const unsigned char file_benchmarks_md[] = {
#embed "../../docs/benchmarks.md"
};
static const unsigned char file_beside_md[] = {
#embed "../../docs/beside.md"
};
static const unsigned char file_claim_md[] = {
#embed "../../docs/claim.md"
};
static const unsigned char file_concepts_md[] = {
#embed "../../docs/concepts.md"
};
static const unsigned char file_console_md[] = {
#embed "../../docs/console.md"
};
static const unsigned char file_entitlements_md[] = {
#embed "../../docs/entitlements.md"
};
static const unsigned char file_from_csv_md[] = {
#embed "../../docs/from-csv.md"
};
static const unsigned char file_idsync_md[] = {
#embed "../../docs/idsync.md"
};
static const unsigned char file_install_md[] = {
#embed "../../docs/install.md"
};
static const unsigned char file_linking_md[] = {
#embed "../../docs/linking.md"
};
static const unsigned char file_moving_in_md[] = {
#embed "../../docs/moving-in.md"
};
static const unsigned char file_moving_out_md[] = {
#embed "../../docs/moving-out.md"
};
static const unsigned char file_native_md[] = {
#embed "../../docs/native.md"
};
static const unsigned char file_operating_md[] = {
#embed "../../docs/operating.md"
};
static const unsigned char file_rules_md[] = {
#embed "../../docs/rules.md"
};
static const unsigned char file_scaling_md[] = {
#embed "../../docs/scaling.md"
};
static const unsigned char file_sdk_md[] = {
#embed "../../docs/sdk.md"
};
static const unsigned char file_stores_md[] = {
#embed "../../docs/stores.md"
};
static const unsigned char file_support_cookbook_md[] = {
#embed "../../docs/support-cookbook.md"
};
static const unsigned char file_threat_model_md[] = {
#embed "../../docs/threat-model.md"
};
static const unsigned char file_undo_md[] = {
#embed "../../docs/undo.md"
};
static const unsigned char file_console_person_png[] = {
#embed "../../docs/console-person.png"
};
static const unsigned char file_decisions_0001_decide_in_the_index_md[] = {
#embed "../../docs/decisions/0001-decide-in-the-index.md"
};
static const unsigned char file_decisions_0002_one_writer_natural_batches_md[] = {
#embed "../../docs/decisions/0002-one-writer-natural-batches.md"
};
static const unsigned char file_decisions_0003_our_own_http_server_md[] = {
#embed "../../docs/decisions/0003-our-own-http-server.md"
};
static const unsigned char file_decisions_0004_checkpoints_on_a_thread_md[] = {
#embed "../../docs/decisions/0004-checkpoints-on-a-thread.md"
};
static const unsigned char file_decisions_0005_repeated_calls_md[] = {
#embed "../../docs/decisions/0005-repeated-calls.md"
};
static const unsigned char file_decisions_0006_bounded_work_md[] = {
#embed "../../docs/decisions/0006-bounded-work.md"
};
static const unsigned char file_decisions_0007_building_md[] = {
#embed "../../docs/decisions/0007-building.md"
};
static const unsigned char file_decisions_0008_limits_on_calls_md[] = {
#embed "../../docs/decisions/0008-limits-on-calls.md"
};
static const unsigned char file_decisions_0009_the_command_line_is_a_client_md[] = {
#embed "../../docs/decisions/0009-the-command-line-is-a-client.md"
};
static const unsigned char file_decisions_0010_calls_to_other_servers_md[] = {
#embed "../../docs/decisions/0010-calls-to-other-servers.md"
};
static const unsigned char file_decisions_0011_reading_at_a_glance_md[] = {
#embed "../../docs/decisions/0011-reading-at-a-glance.md"
};
static const unsigned char file_decisions_0012_tokens_that_nobody_keeps_md[] = {
#embed "../../docs/decisions/0012-tokens-that-nobody-keeps.md"
};
static const unsigned char file_decisions_0013_the_sdk_keeps_one_log_md[] = {
#embed "../../docs/decisions/0013-the-sdk-keeps-one-log.md"
};
static const unsigned char file_decisions_0014_webhooks_md[] = {
#embed "../../docs/decisions/0014-webhooks.md"
};
static const unsigned char file_decisions_0015_proof_is_checked_by_the_decision_md[] = {
#embed "../../docs/decisions/0015-proof-is-checked-by-the-decision.md"
};
static const unsigned char file_decisions_0016_one_turn_in_postgresql_md[] = {
#embed "../../docs/decisions/0016-one-turn-in-postgresql.md"
};
static const unsigned char file_decisions_0017_partitions_by_arrival_md[] = {
#embed "../../docs/decisions/0017-partitions-by-arrival.md"
};
static const unsigned char file_decisions_0018_readings_of_one_moment_md[] = {
#embed "../../docs/decisions/0018-readings-of-one-moment.md"
};
static const unsigned char file_decisions_0019_a_clock_for_ci_md[] = {
#embed "../../docs/decisions/0019-a-clock-for-ci.md"
};
static const unsigned char file_decisions_0020_a_group_is_one_value_md[] = {
#embed "../../docs/decisions/0020-a-group-is-one-value.md"
};
static const unsigned char file_decisions_0021_a_call_is_one_type_md[] = {
#embed "../../docs/decisions/0021-a-call-is-one-type.md"
};
static const unsigned char file_decisions_0022_each_reason_is_a_merge_md[] = {
#embed "../../docs/decisions/0022-each-reason-is-a-merge.md"
};
static const unsigned char file_decisions_0023_a_package_for_debian_md[] = {
#embed "../../docs/decisions/0023-a-package-for-debian.md"
};
static const unsigned char file_decisions_0024_names_of_the_vendors_modules_md[] = {
#embed "../../docs/decisions/0024-names-of-the-vendors-modules.md"
};
static const unsigned char file_decisions_0025_a_store_account_is_a_set_of_installs_md[] = {
#embed "../../docs/decisions/0025-a-store-account-is-a-set-of-installs.md"
};
static const unsigned char file_decisions_0026_a_console_of_plain_files_md[] = {
#embed "../../docs/decisions/0026-a-console-of-plain-files.md"
};
static const unsigned char file_decisions_0027_signed_answers_carry_their_key_md[] = {
#embed "../../docs/decisions/0027-signed-answers-carry-their-key.md"
};
static const unsigned char file_decisions_0028_runs_of_rows_md[] = {
#embed "../../docs/decisions/0028-runs-of-rows.md"
};
static const unsigned char file_decisions_0029_an_undo_decides_calls_again_md[] = {
#embed "../../docs/decisions/0029-an-undo-decides-calls-again.md"
};
static const unsigned char file_decisions_0030_imports_md[] = {
#embed "../../docs/decisions/0030-imports.md"
};
static const unsigned char file_decisions_0031_rules_as_data_md[] = {
#embed "../../docs/decisions/0031-rules-as-data.md"
};
static const unsigned char file_decisions_0032_copies_md[] = {
#embed "../../docs/decisions/0032-copies.md"
};
static const unsigned char file_decisions_0033_the_head_of_a_store_md[] = {
#embed "../../docs/decisions/0033-the-head-of-a-store.md"
};
static const unsigned char file_decisions_0034_a_split_ends_links_md[] = {
#embed "../../docs/decisions/0034-a-split-ends-links.md"
};
static const unsigned char file_decisions_0035_any_call_can_be_taken_back_md[] = {
#embed "../../docs/decisions/0035-any-call-can-be-taken-back.md"
};
static const unsigned char file_decisions_0036_exports_md[] = {
#embed "../../docs/decisions/0036-exports.md"
};
static const unsigned char file_decisions_0037_the_call_log_md[] = {
#embed "../../docs/decisions/0037-the-call-log.md"
};
static const unsigned char file_decisions_0038_access_that_stays_right_md[] = {
#embed "../../docs/decisions/0038-access-that-stays-right.md"
};
static const unsigned char file_decisions_0039_what_reads_keep_of_runs_md[] = {
#embed "../../docs/decisions/0039-what-reads-keep-of-runs.md"
};
static const unsigned char file_decisions_0040_no_parameter_is_ignored_md[] = {
#embed "../../docs/decisions/0040-no-parameter-is-ignored.md"
};
static const unsigned char file_decisions_0041_a_disk_that_loses_md[] = {
#embed "../../docs/decisions/0041-a-disk-that-loses.md"
};
static const unsigned char file_decisions_0044_rows_of_a_split_md[] = {
#embed "../../docs/decisions/0044-rows-of-a-split.md"
};
static const unsigned char file_decisions_0045_first_minutes_md[] = {
#embed "../../docs/decisions/0045-first-minutes.md"
};
static const unsigned char file_decisions_0049_one_login_md[] = {
#embed "../../docs/decisions/0049-one-login.md"
};
static const unsigned char file_decisions_0050_rooms_are_checked_folders_md[] = {
#embed "../../docs/decisions/0050-rooms-are-checked-folders.md"
};
static const unsigned char file_decisions_0051_one_pipeline_for_routes_md[] = {
#embed "../../docs/decisions/0051-one-pipeline-for-routes.md"
};
static const unsigned char file_decisions_0052_steps_are_counted_md[] = {
#embed "../../docs/decisions/0052-steps-are-counted.md"
};
static const unsigned char file_decisions_README_md[] = {
#embed "../../docs/decisions/README.md"
};
static const unsigned char file_style_css[] = {
#embed "files/style.css"
};
static const unsigned char file_search_js[] = {
#embed "files/search.js"
};

#define FILE_OF(name, bytes) {name, bytes, sizeof bytes}

static const onym_docs_file files[] = {
    FILE_OF("architecture.md", file_architecture_md),
    FILE_OF("benchmarks.md", file_benchmarks_md),
    FILE_OF("beside.md", file_beside_md),
    FILE_OF("claim.md", file_claim_md),
    FILE_OF("concepts.md", file_concepts_md),
    FILE_OF("console.md", file_console_md),
    FILE_OF("entitlements.md", file_entitlements_md),
    FILE_OF("from-csv.md", file_from_csv_md),
    FILE_OF("idsync.md", file_idsync_md),
    FILE_OF("install.md", file_install_md),
    FILE_OF("linking.md", file_linking_md),
    FILE_OF("moving-in.md", file_moving_in_md),
    FILE_OF("moving-out.md", file_moving_out_md),
    FILE_OF("native.md", file_native_md),
    FILE_OF("operating.md", file_operating_md),
    FILE_OF("rules.md", file_rules_md),
    FILE_OF("scaling.md", file_scaling_md),
    FILE_OF("sdk.md", file_sdk_md),
    FILE_OF("stores.md", file_stores_md),
    FILE_OF("support-cookbook.md", file_support_cookbook_md),
    FILE_OF("threat-model.md", file_threat_model_md),
    FILE_OF("undo.md", file_undo_md),
    FILE_OF("console-person.png", file_console_person_png),
    FILE_OF("decisions/0001-decide-in-the-index.md", file_decisions_0001_decide_in_the_index_md),
    FILE_OF("decisions/0002-one-writer-natural-batches.md", file_decisions_0002_one_writer_natural_batches_md),
    FILE_OF("decisions/0003-our-own-http-server.md", file_decisions_0003_our_own_http_server_md),
    FILE_OF("decisions/0004-checkpoints-on-a-thread.md", file_decisions_0004_checkpoints_on_a_thread_md),
    FILE_OF("decisions/0005-repeated-calls.md", file_decisions_0005_repeated_calls_md),
    FILE_OF("decisions/0006-bounded-work.md", file_decisions_0006_bounded_work_md),
    FILE_OF("decisions/0007-building.md", file_decisions_0007_building_md),
    FILE_OF("decisions/0008-limits-on-calls.md", file_decisions_0008_limits_on_calls_md),
    FILE_OF("decisions/0009-the-command-line-is-a-client.md", file_decisions_0009_the_command_line_is_a_client_md),
    FILE_OF("decisions/0010-calls-to-other-servers.md", file_decisions_0010_calls_to_other_servers_md),
    FILE_OF("decisions/0011-reading-at-a-glance.md", file_decisions_0011_reading_at_a_glance_md),
    FILE_OF("decisions/0012-tokens-that-nobody-keeps.md", file_decisions_0012_tokens_that_nobody_keeps_md),
    FILE_OF("decisions/0013-the-sdk-keeps-one-log.md", file_decisions_0013_the_sdk_keeps_one_log_md),
    FILE_OF("decisions/0014-webhooks.md", file_decisions_0014_webhooks_md),
    FILE_OF("decisions/0015-proof-is-checked-by-the-decision.md", file_decisions_0015_proof_is_checked_by_the_decision_md),
    FILE_OF("decisions/0016-one-turn-in-postgresql.md", file_decisions_0016_one_turn_in_postgresql_md),
    FILE_OF("decisions/0017-partitions-by-arrival.md", file_decisions_0017_partitions_by_arrival_md),
    FILE_OF("decisions/0018-readings-of-one-moment.md", file_decisions_0018_readings_of_one_moment_md),
    FILE_OF("decisions/0019-a-clock-for-ci.md", file_decisions_0019_a_clock_for_ci_md),
    FILE_OF("decisions/0020-a-group-is-one-value.md", file_decisions_0020_a_group_is_one_value_md),
    FILE_OF("decisions/0021-a-call-is-one-type.md", file_decisions_0021_a_call_is_one_type_md),
    FILE_OF("decisions/0022-each-reason-is-a-merge.md", file_decisions_0022_each_reason_is_a_merge_md),
    FILE_OF("decisions/0023-a-package-for-debian.md", file_decisions_0023_a_package_for_debian_md),
    FILE_OF("decisions/0024-names-of-the-vendors-modules.md", file_decisions_0024_names_of_the_vendors_modules_md),
    FILE_OF("decisions/0025-a-store-account-is-a-set-of-installs.md", file_decisions_0025_a_store_account_is_a_set_of_installs_md),
    FILE_OF("decisions/0026-a-console-of-plain-files.md", file_decisions_0026_a_console_of_plain_files_md),
    FILE_OF("decisions/0027-signed-answers-carry-their-key.md", file_decisions_0027_signed_answers_carry_their_key_md),
    FILE_OF("decisions/0028-runs-of-rows.md", file_decisions_0028_runs_of_rows_md),
    FILE_OF("decisions/0029-an-undo-decides-calls-again.md", file_decisions_0029_an_undo_decides_calls_again_md),
    FILE_OF("decisions/0030-imports.md", file_decisions_0030_imports_md),
    FILE_OF("decisions/0031-rules-as-data.md", file_decisions_0031_rules_as_data_md),
    FILE_OF("decisions/0032-copies.md", file_decisions_0032_copies_md),
    FILE_OF("decisions/0033-the-head-of-a-store.md", file_decisions_0033_the_head_of_a_store_md),
    FILE_OF("decisions/0034-a-split-ends-links.md", file_decisions_0034_a_split_ends_links_md),
    FILE_OF("decisions/0035-any-call-can-be-taken-back.md", file_decisions_0035_any_call_can_be_taken_back_md),
    FILE_OF("decisions/0036-exports.md", file_decisions_0036_exports_md),
    FILE_OF("decisions/0037-the-call-log.md", file_decisions_0037_the_call_log_md),
    FILE_OF("decisions/0038-access-that-stays-right.md", file_decisions_0038_access_that_stays_right_md),
    FILE_OF("decisions/0039-what-reads-keep-of-runs.md", file_decisions_0039_what_reads_keep_of_runs_md),
    FILE_OF("decisions/0040-no-parameter-is-ignored.md", file_decisions_0040_no_parameter_is_ignored_md),
    FILE_OF("decisions/0041-a-disk-that-loses.md", file_decisions_0041_a_disk_that_loses_md),
    FILE_OF("decisions/0044-rows-of-a-split.md", file_decisions_0044_rows_of_a_split_md),
    FILE_OF("decisions/0045-first-minutes.md", file_decisions_0045_first_minutes_md),
    FILE_OF("decisions/0049-one-login.md", file_decisions_0049_one_login_md),
    FILE_OF("decisions/0050-rooms-are-checked-folders.md", file_decisions_0050_rooms_are_checked_folders_md),
    FILE_OF("decisions/0051-one-pipeline-for-routes.md", file_decisions_0051_one_pipeline_for_routes_md),
    FILE_OF("decisions/0052-steps-are-counted.md", file_decisions_0052_steps_are_counted_md),
    FILE_OF("decisions/README.md", file_decisions_README_md),
    FILE_OF("style.css", file_style_css),
    FILE_OF("search.js", file_search_js),
};

size_t onym_docs_count(void) { return sizeof files / sizeof files[0]; }

onym_docs_file onym_docs_file_at(size_t place) { return files[place]; }
