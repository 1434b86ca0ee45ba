"""What decisions and notices say that no person wrote. Pure.

Rows keep these sentences in English, with what a person or an engine said after them; pages say them in their reader's
language (webapp.serving.retold). None ends with a value, so that each is told from what follows it.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop

SAYS = {
    "by policy": gettext_noop("By the line's policy: it passed every check by at least %(margin)s of its limit."),
    "tried": gettext_noop("With %(share)s per cent of the sessions, beside %(live)s."),
    "tried by reviewers": gettext_noop("With reviewers only, beside %(live)s."),
    "better": gettext_noop("Better."),
    "no worse": gettext_noop("No worse."),
    "worse": gettext_noop("Worse."),
    "stopped": gettext_noop("Stopped."),
    "moved on": gettext_noop("%(checkpoint)s is %(status)s now."),
    "line retired": gettext_noop("The line was retired."),
    "overtaken": gettext_noop("%(live)s is live in place of %(against)s."),
    "votes": gettext_noop(
        "%(ups)s of %(votes)s conversations with %(candidate)s were thumbed up, %(live_ups)s of %(live_votes)s with "
        "%(live)s."
    ),
    "votes apart": gettext_noop(
        "%(ups)s of %(votes)s conversations with %(candidate)s were thumbed up, %(live_ups)s of %(live_votes)s with "
        "%(live)s: a difference of %(low)s to %(high)s points."
    ),
    "trial over": gettext_noop("The trial of %(checkpoint)s has ended: %(verdict)s."),
    "trial over, then": gettext_noop("Its sessions are answered by the live checkpoint again."),
    "not gone live": gettext_noop("%(checkpoint)s did not go live, and %(live)s answers as before."),
    "not answered": gettext_noop("The engine does not answer with %(checkpoint)s."),
    "fled": gettext_noop("%(checkpoint)s answers instead."),
    "not fled": gettext_noop("Nothing answers instead: look at the engine."),
    "guard": gettext_noop("The guard:"),
    "past": gettext_noop("%(checkpoint)s passes a limit of its line's guard."),
    "past, tried": gettext_noop("%(checkpoint)s, which is being tried, passes a limit of its line's guard."),
    "past, no way back": gettext_noop("There is nothing that the guard may go back to by itself."),
    "past, not gone back": gettext_noop("%(checkpoint)s passes a limit, and cannot be rolled back:"),
    "gone back": gettext_noop("%(checkpoint)s was rolled back by the guard, and %(live)s answers again."),
    "trial ended": gettext_noop("The trial of %(checkpoint)s was ended by the guard."),
    "exam waits": gettext_noop("%(who)s cannot be asked, so the exam of %(checkpoint)s waits."),
}
"""By what each is about."""
