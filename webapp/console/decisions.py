"""List what the console's pages decide, and write each into the audit log as it is done or refused.

What has a log of its own rows already, hints and rewards (judge.models.Ruling) and checkpoints
(checkpoints.models.Decision), is not written twice: the page of the audit log reads all three.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts import deeds

DECISIONS = {
    "console:learn_now": ("training", "learning started", ""),
    "console:run_note": ("training", "run noted", "run {pk}"),
    "console:cancel": ("training", "run cancelled", "run {pk}"),
    "console:pause": ("training", "training paused", ""),
    "console:resume": ("training", "training resumed", ""),
    "console:line_make": ("training", "line made", ""),
    "console:line_join": ("training", "person joined a line", "line {name}"),
    "console:line_leave": ("training", "person left a line", "line {name}"),
    "console:line_learn": ("training", "learning started", "line {name}"),
    "console:line_retire": ("training", "line retired", "line {name}"),
    "console:cleaning_start": ("training", "unlearning started", ""),
    "console:cleaning_stop": ("training", "unlearning stopped", "cleaning {pk}"),
    "console:cleaning_again": ("training", "unlearning continued", "cleaning {pk}"),
    "console:dataset_export": ("export", "dataset asked for", ""),
    "console:export_cancel": ("export", "export stopped", "export {pk}"),
    "console:export_delete": ("export", "export deleted", "export {pk}"),
    "console:dataset_bring": ("training", "examples brought", ""),
    "console:dataset_agree": ("training", "examples taken to learn", "import {pk}"),
    "console:dataset_discard": ("training", "examples discarded", "import {pk}"),
    "console:dataset_undo": ("training", "examples taken back", "import {pk}"),
    "console:checkpoint_files": ("export", "weights written to files", "checkpoint {number}"),
    "console:reviewer_rules": ("review", "reviewers' rules changed", "desk {desk}"),
    "console:reviewer_settle": ("review", "disagreement settled", "desk {desk}, reading {pk}"),
    "console:second_look": ("review", "second look", "desk {desk}, reading {pk}"),
    "console:second_look_undo": ("review", "second look taken back", "desk {desk}"),
    "console:measure": ("recipe", "judge measured", ""),
    "console:measure_stop": ("recipe", "measuring stopped", "measuring {pk}"),
    "console:compare": ("review", "comparison started", ""),
    "console:comparison_choose": ("review", "blind choice", "comparison {pk}"),
    "console:comparison_reveal": ("review", "comparison revealed", "comparison {pk}"),
    "console:comparison_again": ("review", "comparison repeated", "comparison {pk}"),
    "console:engines_repair": ("system", "engines repaired", ""),
    "console:client_save": ("system", "client rules saved", ""),
    "console:client_delete": ("system", "client rules deleted", "client {name}"),
    "console:client_undo": ("system", "client rules put back", "client {name}"),
    "console:resort": ("system", "turn moved between main and side", "turn {pk}"),
    "console:tool_add": ("system", "tool server made", ""),
    "console:tool_look": ("system", "tool server's list read", "server {pk}"),
    "console:tool_change": ("system", "tools changed", "server {pk}"),
    "console:tool_remove": ("system", "tool server removed", "server {pk}"),
    "console:notice_read": ("notice", "notice read", "notice {pk}"),
    "console:webhook_make": ("notice", "webhook made", ""),
    "console:webhook_test": ("notice", "webhook tested", "webhook {pk}"),
    "console:webhook_remove": ("notice", "webhook removed", "webhook {pk}"),
}
"""Of routes that take a POST: the kind, what was done, and to what."""

EXPORTS = {
    "console:export_file": ("export downloaded", "export {pk}, {name}"),
    "console:adapter": ("adapter downloaded", "checkpoint {number}"),
    "console:run_figures": ("figures downloaded", "run {pk}"),
    "console:run_tensorboard": ("figures downloaded", "run {pk}"),
    "console:checkpoint_receipt": ("receipt downloaded", "checkpoint {number}"),
    "console:audit_jsonl": ("audit log downloaded", "JSONL"),
    "console:audit_csv": ("audit log downloaded", "CSV"),
}
"""Of routes whose GET is a file that leaves this place."""

TOLD_ELSEWHERE = {
    *("console:hint_decide", "console:hints_decide", "console:hint_undo", "console:hint_undo_last"),
    *("console:hint_acceptance", "console:overturn", "console:reward_undo", "console:reward_undo_last"),
    *("console:recipe_give", "console:recipe_undo", "console:policy", "console:overrule_judge"),
    *("console:judge_threshold", "console:approve", "console:reject", "console:hold", "console:release"),
    *("console:set_aside", "console:roll_back", "console:start_trial", "console:end_trial", "console:pin"),
    *("console:let_go", "console:line_step_back"),
    *("people:add", "people:invite", "people:withdraw", "people:role", "people:deactivate", "people:activate"),
    *("people:reset", "people:sign_out", "people:remove", "people:remove_factors"),
    *("account:email", "account:password", "account:sign_out", "account:sign_out_others"),
}
"""Routes whose decisions write a row of their own, with more to say."""

TRIES = {
    "console:client_try",
    "console:recipe",
    "console:welcome_ask",
    "console:welcome_teach",
    "console:welcome_put_away",
}
"""Routes whose POST only shows what would happen."""


def record(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write what this request decided into the audit log, if it is one that decides."""
    match = request.resolver_match
    if match is None:
        return
    refused = response.status_code >= 400 or hasattr(request, "refusal")
    if request.method == "POST" and match.view_name in DECISIONS:
        kind, verb, about = DECISIONS[match.view_name]
    elif request.method == "GET" and match.view_name in EXPORTS and not refused:
        kind, (verb, about) = "export", EXPORTS[match.view_name]
    else:
        return
    deeds.note(kind, verb, request=request, about=about.format(**match.kwargs), refused=refused)
