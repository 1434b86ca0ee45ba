"""Say in the reader's language what the audit log's rows say was done. The rows keep their English verbs."""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop, pgettext, pgettext_lazy

from accounts.models import Role

LOCKED = "sign-in failed, locked for "

WORDS = {
    "accept": pgettext_lazy("deed", "accept"),
    "edit": pgettext_lazy("deed", "edit"),
    "merge": pgettext_lazy("deed", "merge"),
    "reject": pgettext_lazy("deed", "reject"),
    "never learn": pgettext_lazy("deed", "never learn"),
    "overturn": pgettext_lazy("deed", "overturn"),
    "undo": pgettext_lazy("deed", "undo"),
    "policy": pgettext_lazy("deed", "policy"),
    "approve": pgettext_lazy("deed", "approve"),
    "promote": pgettext_lazy("deed", "promote"),
    "roll back": pgettext_lazy("deed", "roll back"),
    "endorse": pgettext_lazy("deed", "endorse"),
    "hold": pgettext_lazy("deed", "hold"),
    "release": pgettext_lazy("deed", "release"),
    "try": pgettext_lazy("deed", "try"),
    "end trial": pgettext_lazy("deed", "end trial"),
    "pin": pgettext_lazy("deed", "pin"),
    "unpin": pgettext_lazy("deed", "unpin"),
    "let go": pgettext_lazy("deed", "let go"),
    "import": pgettext_lazy("deed", "import"),
    "set aside": pgettext_lazy("deed", "set aside"),
    "learning started": pgettext_lazy("deed", "learning started"),
    "run noted": pgettext_lazy("deed", "run noted"),
    "run cancelled": pgettext_lazy("deed", "run cancelled"),
    "training paused": pgettext_lazy("deed", "training paused"),
    "training resumed": pgettext_lazy("deed", "training resumed"),
    "line made": pgettext_lazy("deed", "line made"),
    "person joined a line": pgettext_lazy("deed", "person joined a line"),
    "person left a line": pgettext_lazy("deed", "person left a line"),
    "line retired": pgettext_lazy("deed", "line retired"),
    "unlearning started": pgettext_lazy("deed", "unlearning started"),
    "unlearning stopped": pgettext_lazy("deed", "unlearning stopped"),
    "unlearning continued": pgettext_lazy("deed", "unlearning continued"),
    "dataset asked for": pgettext_lazy("deed", "dataset asked for"),
    "export stopped": pgettext_lazy("deed", "export stopped"),
    "export deleted": pgettext_lazy("deed", "export deleted"),
    "examples brought": pgettext_lazy("deed", "examples brought"),
    "examples taken to learn": pgettext_lazy("deed", "examples taken to learn"),
    "examples discarded": pgettext_lazy("deed", "examples discarded"),
    "examples taken back": pgettext_lazy("deed", "examples taken back"),
    "weights written to files": pgettext_lazy("deed", "weights written to files"),
    "reviewers' rules changed": pgettext_lazy("deed", "reviewers' rules changed"),
    "disagreement settled": pgettext_lazy("deed", "disagreement settled"),
    "second look": pgettext_lazy("deed", "second look"),
    "second look taken back": pgettext_lazy("deed", "second look taken back"),
    "judge measured": pgettext_lazy("deed", "judge measured"),
    "measuring stopped": pgettext_lazy("deed", "measuring stopped"),
    "comparison started": pgettext_lazy("deed", "comparison started"),
    "blind choice": pgettext_lazy("deed", "blind choice"),
    "comparison revealed": pgettext_lazy("deed", "comparison revealed"),
    "comparison repeated": pgettext_lazy("deed", "comparison repeated"),
    "engines repaired": pgettext_lazy("deed", "engines repaired"),
    "client rules saved": pgettext_lazy("deed", "client rules saved"),
    "client rules deleted": pgettext_lazy("deed", "client rules deleted"),
    "client rules put back": pgettext_lazy("deed", "client rules put back"),
    "turn moved between main and side": pgettext_lazy("deed", "turn moved between main and side"),
    "notice read": pgettext_lazy("deed", "notice read"),
    "tool server made": pgettext_lazy("deed", "tool server made"),
    "tool server's list read": pgettext_lazy("deed", "tool server's list read"),
    "tool server removed": pgettext_lazy("deed", "tool server removed"),
    "tools changed": pgettext_lazy("deed", "tools changed"),
    "webhook made": pgettext_lazy("deed", "webhook made"),
    "webhook tested": pgettext_lazy("deed", "webhook tested"),
    "webhook removed": pgettext_lazy("deed", "webhook removed"),
    "export downloaded": pgettext_lazy("deed", "export downloaded"),
    "adapter downloaded": pgettext_lazy("deed", "adapter downloaded"),
    "figures downloaded": pgettext_lazy("deed", "figures downloaded"),
    "receipt downloaded": pgettext_lazy("deed", "receipt downloaded"),
    "audit log downloaded": pgettext_lazy("deed", "audit log downloaded"),
    "signed in with a password": pgettext_lazy("deed", "signed in with a password"),
    "signed in with a link": pgettext_lazy("deed", "signed in with a link"),
    "signed in by OpenID Connect": pgettext_lazy("deed", "signed in by OpenID Connect"),
    "sign-in failed": pgettext_lazy("deed", "sign-in failed"),
    "sign-in by OpenID Connect refused": pgettext_lazy("deed", "sign-in by OpenID Connect refused"),
    "signed out": pgettext_lazy("deed", "signed out"),
    "signed out elsewhere": pgettext_lazy("deed", "signed out elsewhere"),
    "signed out everywhere": pgettext_lazy("deed", "signed out everywhere"),
    "password changed": pgettext_lazy("deed", "password changed"),
    "password link asked for": pgettext_lazy("deed", "password link asked for"),
    "password link made": pgettext_lazy("deed", "password link made"),
    "password set by link": pgettext_lazy("deed", "password set by link"),
    "second factor added": pgettext_lazy("deed", "second factor added"),
    "second factor removed": pgettext_lazy("deed", "second factor removed"),
    "second factor renewed": pgettext_lazy("deed", "second factor renewed"),
    "second factor failed": pgettext_lazy("deed", "second factor failed"),
    "account made": pgettext_lazy("deed", "account made"),
    "account opened": pgettext_lazy("deed", "account opened"),
    "account closed": pgettext_lazy("deed", "account closed"),
    "account removed": pgettext_lazy("deed", "account removed"),
    "e-mail address changed": pgettext_lazy("deed", "e-mail address changed"),
    "invitation made": pgettext_lazy("deed", "invitation made"),
    "invitation withdrawn": pgettext_lazy("deed", "invitation withdrawn"),
    "joined by invitation": pgettext_lazy("deed", "joined by invitation"),
    "signed up": pgettext_lazy("deed", "signed up"),
    "role changed": pgettext_lazy("deed", "role changed"),
    "OpenID Connect disconnected": pgettext_lazy("deed", "OpenID Connect disconnected"),
    "key made": pgettext_lazy("deed", "key made"),
    "key revoked": pgettext_lazy("deed", "key revoked"),
    "signed in with a passkey": pgettext_lazy("deed", "signed in with a passkey"),
    "signed in with a second factor": pgettext_lazy("deed", "signed in with a second factor"),
    "new chats may teach": pgettext_lazy("deed", "new chats may teach"),
    "new chats may not teach": pgettext_lazy("deed", "new chats may not teach"),
    "teaches the shared line too": pgettext_lazy("deed", "teaches the shared line too"),
    "teaches their own line alone": pgettext_lazy("deed", "teaches their own line alone"),
    "chat put on the record": pgettext_lazy("deed", "chat put on the record"),
    "chat taken off the record": pgettext_lazy("deed", "chat taken off the record"),
    "key may teach": pgettext_lazy("deed", "key may teach"),
    "key is served only": pgettext_lazy("deed", "key is served only"),
    "everything taken off the record": pgettext_lazy("deed", "everything taken off the record"),
    "own data downloaded": pgettext_lazy("deed", "own data downloaded"),
    "all conversations deleted": pgettext_lazy("deed", "all conversations deleted"),
}
"""Every verb that is written, as the page shows it."""


def of(verb: str) -> str:
    """A row's verb in words.

    >>> of("learning started"), of("sign-in failed, locked for 60 s")
    ('learning started', 'sign-in failed, locked for 60 s')
    """
    if verb.startswith(LOCKED):
        seconds = verb.removeprefix(LOCKED).removesuffix(" s")
        return pgettext("deed", "sign-in failed, locked for %(seconds)s s") % {"seconds": seconds}
    return str(WORDS.get(verb, verb))


ABOUT = (
    gettext_noop("run %(number)s"),
    gettext_noop("line %(name)s"),
    gettext_noop("cleaning %(number)s"),
    gettext_noop("export %(number)s"),
    gettext_noop("export %(number)s, %(name)s"),
    gettext_noop("import %(number)s"),
    gettext_noop("checkpoint %(number)s"),
    gettext_noop("desk %(desk)s"),
    gettext_noop("desk %(desk)s, reading %(number)s"),
    gettext_noop("measuring %(number)s"),
    gettext_noop("comparison %(number)s"),
    gettext_noop("client %(name)s"),
    gettext_noop("turn %(number)s"),
    gettext_noop("server %(name)s"),
    gettext_noop("notice %(number)s"),
    gettext_noop("webhook %(number)s"),
    gettext_noop("erasure %(number)s"),
    gettext_noop("invitation %(prefix)s…"),
    gettext_noop("invitation %(prefix)s…, %(role)s"),
    gettext_noop("browsers: %(number)s"),
    gettext_noop("%(before)s to %(role)s"),
    gettext_noop("%(before)s to %(role)s, by OpenID Connect"),
    gettext_noop("by OpenID Connect, %(role)s"),
    gettext_noop("%(key)s, for %(scopes)s"),
)
"""What rows say that they are about, whole."""

VALUES = {
    "number": r"[\da-f-]+",
    "prefix": r"[^\s,]+",
    "role": "|".join(Role.values),
    "before": "|".join(Role.values),
    "desk": "hint|reward",
    "key": r".+ \(\S+\)",
}
"""What may stand there; else anything, as a name may."""

OURS = ("role", "before", "desk")
"""Values that are words of ours, and no name that a person gave."""

ALONE = {*Role.values, "codes of an app", "passkey", "recovery codes"}
"""Words of ours that are all that a row says."""


def subject(about: str) -> str:
    """What a row is about in words; what is not known stays as it is.

    >>> subject("reviewer to operator"), subject("run 12"), subject("Ana's laptop")
    ('reviewer to operator', 'run 12', "Ana's laptop")
    """
    for pattern, sentence in _subjects():
        if found := pattern.fullmatch(about):
            told = {name: gettext(said) if name in OURS else said for name, said in found.groupdict().items()}
            return gettext(sentence) % told
    return gettext(about) if about in ALONE else about


@cache
def _subjects() -> tuple[tuple[re.Pattern[str], str], ...]:
    def pattern(sentence: str) -> re.Pattern[str]:
        parts = re.split(r"%\((\w+)\)s", sentence)
        parts[1::2] = [f"(?P<{name}>{VALUES.get(name, '.+')})" for name in parts[1::2]]
        parts[::2] = map(re.escape, parts[::2])
        return re.compile("".join(parts))

    return tuple((pattern(sentence), sentence) for sentence in ABOUT)
