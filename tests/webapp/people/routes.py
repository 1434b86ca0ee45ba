"""The least role of every route: the one table of who may go where (tests/webapp/people/test_routes.py walks it).

A route that is not here fails the test. `PUBLIC` is for strangers too.
"""

from __future__ import annotations

PUBLIC, TALKER, REVIEWER, OPERATOR, ADMINISTRATOR = "public", "talker", "reviewer", "operator", "administrator"


def rows(least: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, least)


PAGES = {
    **rows(
        PUBLIC,
        "login", "logout", "account_login", "account_logout", "enter", "join", "sign_up", "forgot", "reset",
        "mfa_authenticate", "mfa_login_webauthn",
        "openid_connect_login", "openid_connect_callback", "socialaccount_login_cancelled",
        "healthz", "readyz", "words",
    ),
    **rows(
        TALKER,
        "chat:home", "chat:start", "chat:new", "chat:more-own", "chat:more-api", "chat:session", "chat:say",
        "chat:stop", "chat:rename", "chat:default-terms", "chat:terms", "chat:file", "chat:picture",
        "chat:prompts", "chat:pick-prompt", "chat:prompt", "chat:remove-prompt", "chat:choose", "chat:compare",
        "chat:beside", "chat:keep", "chat:archive", "chat:search", "chat:folder", "chat:rename-folder",
        "chat:remove-folder", "chat:manage", "chat:pin", "chat:put-away", "chat:move", "chat:continue",
        "feedback:teach", "feedback:marking", "bin:home", "bin:empty", "bin:delete", "bin:restore",
        "chat-files:import", "chat-files:look", "chat-files:start", "chat-files:drop", "chat-files:export",
        "chat:again", "chat:edit", "chat:show-branch", "chat:decide-call",
        "feedback:give", "feedback:mark", "feedback:difference", "taught:put", "taught:undo",
        "privacy:home", "privacy:default", "privacy:pool", "privacy:everything_off", "privacy:try", "privacy:export",
        "privacy:delete", "privacy:erasing", "privacy:learn_again", "privacy:key", "privacy:session", "privacy:turn",
        "account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn", "mfa_index",
        "mfa_activate_totp", "mfa_deactivate_totp", "mfa_view_recovery_codes", "mfa_generate_recovery_codes",
        "mfa_list_webauthn", "mfa_add_webauthn", "mfa_remove_webauthn",
        "socialaccount_connections", "oidc_disconnect",
        "settings:home", "help:glossary", "language",
        "account:home", "account:email", "account:password", "account:sign_out", "account:sign_out_others",
        "helped:home", "helped:choose", "helped:undo",
        "connect:home", "connect:new", "connect:keys", "connect:key", "connect:light", "connect:try",
        "connect:revoke",
        "preferences:own", "preferences:forgo", "preferences:undo", "preferences:not_meant",
        "worlds:home", "worlds:attempts", "worlds:tasks", "worlds:groups", "worlds:group", "worlds:episode",
    ),
    **rows(
        REVIEWER,
        "preferences:people", "preferences:of", "console:board", "console:turns", "console:turn", "console:helped",
        "console:hints", "console:hint", "console:hint_undo_last", "console:hint_undo", "console:hint_decide",
        "console:hints_decide", "console:reviewers", "console:reviewer_settle", "console:second_looks",
        "console:second_look", "console:second_look_undo",
        "console:rewards", "console:reward", "console:reward_undo_last",
        "console:reward_undo", "console:overturn", "console:judges", "console:judge", "console:ledger",
        "console:compare", "console:comparison", "console:comparison_choose", "console:comparison_reveal",
        "console:comparison_again",
    ),
    **rows(
        OPERATOR,
        "console:hint_acceptance", "console:measure", "console:measure_stop", "console:overrule_judge",
        "console:judge_threshold", "console:policy",
        "console:learn_now", "console:forecast", "console:pause", "console:resume",
        "console:datasets", "console:dataset_export", "console:export_cancel", "console:export_delete",
        "console:export_file", "console:dataset_bring", "console:dataset_import", "console:dataset_agree",
        "console:dataset_discard", "console:dataset_undo", "console:checkpoint_files", "console:checkpoint_files_now",
        "console:reviewer_rules",
        "console:runs", "console:run", "console:run_note", "console:overlay", "console:overlay_figures",
        "console:cancel", "console:run_figures", "console:run_tensorboard",
        "console:adapter", "console:recipe", "console:recipe_give", "console:recipe_undo",
        "console:lines", "console:line_make", "console:line_join", "console:line_leave", "console:line_learn",
        "console:line_step_back", "console:line_retire",
        "console:checkpoints", "console:checkpoint", "console:checkpoint_tree", "console:checkpoint_lineage",
        "console:checkpoint_receipt", "console:checkpoint_figures", "console:checkpoint_lessons",
        "console:checkpoint_made", "console:approve", "console:reject", "console:hold", "console:release",
        "console:set_aside", "console:roll_back", "console:start_trial", "console:end_trial", "console:pin",
        "console:storage", "console:let_go", "console:cleanings", "console:cleaning_start",
        "console:cleaning_stop", "console:cleaning_again",
        "console:engines", "console:engines_repair",
        "console:notices", "console:notice_read", "console:waiting",
        "console:webhooks", "console:webhook_make", "console:webhook_test", "console:webhook_remove",
        "console:tools", "console:tool_add", "console:tool_look", "console:tool_change", "console:tool_remove",
        "settings:notices", "console:settings", "consent:home", "console:schedule", "console:health",
        "console:welcome_ask", "console:welcome_teach", "console:welcome_put_away",
        "console:clients", "console:client_new", "console:client_try", "console:client_save", "console:client",
        "console:client_delete", "console:client_undo", "console:resort",
    ),
    **rows(
        ADMINISTRATOR,
        "people:list", "people:add", "people:invite", "people:withdraw", "people:one", "people:role",
        "people:deactivate", "people:activate", "people:reset", "people:sign_out", "people:remove",
        "people:remove_factors",
        "console:audit", "console:audit_jsonl", "console:audit_csv", "admin:index", "admin:app_list",
        "admin:jsi18n", "admin:",
    ),
}  # fmt: skip
"""By the name with its namespace. A name that ends in ":" stands for all of its namespace that are not named."""

ANY = "any"
KEYS = {
    **rows(PUBLIC, "v1/openapi.json", "v1/docs", "v1/"),
    **rows(ANY, "v1/models", "v1/models/<path:name>"),
    **rows(
        "chat",
        "v1/chat/completions", "v1/responses", "v1/responses/<response_id>", "v1/responses/<response_id>/cancel",
        "v1/messages", "v1/messages/count_tokens", "v1/sessions/<path:session>/close",
    ),
    **rows("feedback", "v1/feedback", "v1/completions/<completion_id>/learning", "v1/sessions/<path:session>"),
    **rows(
        "episodes",
        "v1/episodes", "v1/episodes/exams", "v1/episodes/exams/<row:exam>/close", "v1/episodes/<uuidstr:episode>",
        "v1/episodes/<uuidstr:episode>/close", "v1/episodes/<uuidstr:episode>/actions",
        "v1/episodes/<uuidstr:episode>/alive",
    ),
}  # fmt: skip
"""Of /v1, by path: the scope that a key needs; ANY is any open key."""

SOCKETS = {
    "ws/chat/<uuid:pk>/": TALKER,
    "ws/console/": REVIEWER,
    "ws/console/turns/": REVIEWER,
    "ws/console/runs/<row:pk>/": OPERATOR,
}
"""By path."""
