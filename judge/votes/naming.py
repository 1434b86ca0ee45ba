"""Which judges the settings name, read and checked. No judge is asked here, and nothing is loaded."""

from __future__ import annotations

import ipaddress
import json
import os
import tomllib
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import TalkbackError
from core.textfiles import read_text
from core.visible import name_fault
from judge.votes import fitting, prompts

NEEDS_URL = ("engine", "openai")


class JudgesInvalid(TalkbackError):
    """The settings name judges that cannot be: the sentence says which and what to do."""

    code, status = "judges_invalid", 500


class Named(BaseModel):
    """One judge as a setting names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["base", "adapter", "engine", "openai"]
    name: str = Field("", max_length=120)
    """What its votes are signed with; left out: made of the model and the host."""
    url: str = ""
    """Of an engine or a server."""
    model: str = ""
    """openai: what the server calls it. engine: the folder with its tokenizer, else the policy's."""
    api_key_env: str = ""
    """The environment variable that holds the key; keys are never written into a setting."""
    api_key: str = Field("", exclude=True, repr=False)
    """Only JUDGE_API_KEY fills this."""
    family: str = ""
    adapter: str = ""
    """Folder of another adapter than the repository's."""
    votes: int | None = Field(None, ge=1, le=15)
    window: int | None = Field(None, ge=1024)
    """openai: tokens that prompt and answer may have together."""
    sees: bool | None = None
    """openai: whether it is shown pictures; left out, its server is asked."""
    constrain: bool = True
    """Whether its answers are held to a grammar or a schema, where the server can."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Named:
        if fault := name_fault(self.name) or name_fault(self.model):
            raise ValueError(fault)
        if self.kind in NEEDS_URL and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"a judge of kind {self.kind} needs a url that begins with http:// or https://")
        if self.kind not in NEEDS_URL and self.url:
            raise ValueError(f"a judge of kind {self.kind} is the policy's own engine and takes no url")
        if self.kind == "openai" and not self.model:
            raise ValueError("a judge of kind openai needs the model's name")
        if self.sees is not None and self.kind != "openai":
            raise ValueError("only of a judge of kind openai it is said whether it sees: others are asked")
        if self.adapter and self.kind != "adapter":
            raise ValueError("only a judge of kind adapter takes an adapter's folder")
        if self.family and self.family not in prompts.families():
            raise ValueError(f"there is no family of prompts {self.family}, only {', '.join(prompts.families())}")
        if self.api_key_env and not os.environ.get(self.api_key_env):
            raise ValueError(f"the environment holds no {self.api_key_env}, which should be its key")
        return self

    @property
    def key(self) -> str:
        return os.environ.get(self.api_key_env, "") if self.api_key_env else self.api_key


def named() -> tuple[Named, ...]:
    """The judges of this installation: those of JUDGES, else JUDGE_URL's, else the policy's own base, with the judge's
    adapter where that fits it. Raises JudgesInvalid."""
    if settings.JUDGES and settings.JUDGE_URL:
        raise JudgesInvalid(
            _("JUDGES and JUDGE_URL are both set: name that server in JUDGES and leave JUDGE_URL empty.")
        )
    if settings.JUDGES:
        return listed(settings.JUDGES)
    if settings.JUDGE_URL:
        try:
            one = Named(
                kind="openai",
                url=settings.JUDGE_URL,
                model=settings.JUDGE_MODEL or "default",
                api_key=settings.JUDGE_API_KEY,
            )
        except ValidationError as error:
            raise JudgesInvalid(f"JUDGE_URL: {sentence(error)}.") from error
        return (one,)
    return (Named(kind="adapter" if fitting.fits(fitting.FOLDER, settings.MODEL) else "base"),)


@lru_cache(maxsize=8)
def listed(setting: str) -> tuple[Named, ...]:
    """What JUDGES holds: JSON, or the path of a TOML file with a table [[judge]] for each. Raises JudgesInvalid."""
    found = content(setting)
    entries = found.get("judge", found.get("judges")) if isinstance(found, dict) else found
    if isinstance(found, dict) and "kind" in found:
        entries = [found]
    if not isinstance(entries, list) or not entries:
        raise JudgesInvalid(_('JUDGES names no judge: write a list as in [{"kind": "base"}], or tables [[judge]].'))
    judges = []
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, dict) and "api_key" in entry:
            told = _("JUDGES, judge %(number)s: put the key into the environment and name it in api_key_env.")
            raise JudgesInvalid(told % {"number": number})
        try:
            judges.append(Named.model_validate(entry))
        except ValidationError as error:
            told = _("JUDGES, judge %(number)s: %(why)s.") % {"number": number, "why": sentence(error)}
            raise JudgesInvalid(told) from error
    names = [(one.name or one.kind, one.url, one.model, one.adapter) for one in judges]
    if len(set(names)) < len(names):
        raise JudgesInvalid(_("JUDGES names the same judge twice: give each a name of its own, or votes to one."))
    return tuple(judges)


def content(setting: str) -> Any:
    if setting.lstrip().startswith(("[", "{")):
        try:
            return json.loads(setting)
        except ValueError as error:
            raise JudgesInvalid(_("JUDGES is no JSON: %(why)s.") % {"why": error}) from error
    try:
        return tomllib.loads(read_text(setting))
    except (OSError, ValueError) as error:
        told = _("JUDGES names %(path)s, which cannot be read as TOML: %(why)s.") % {"path": setting, "why": error}
        raise JudgesInvalid(told) from error


def sentence(error: ValidationError) -> str:
    """The first thing that is wrong, in words."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    words = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {words}" if where else words


def host_of(url: str) -> str:
    """Host and port of an address, without who is let in.

    >>> host_of("http://me:secret@judge.example:8080/v1")
    'judge.example:8080'
    """
    return urlsplit(url).netloc.rpartition("@")[2]


def leaves_machine(url: str) -> bool:
    """True when text that is sent there leaves this machine and its private network.

    Loopback and private addresses stay, and so do names without a dot, which only a private network can resolve.

    >>> leaves_machine("http://127.0.0.1:8001"), leaves_machine("http://10.0.0.7/v1"), leaves_machine("http://judge:8000")
    (False, False, False)
    >>> leaves_machine("https://api.example.com/v1"), leaves_machine("http://8.8.8.8"), leaves_machine("http://[::1]:80")
    (True, True, False)
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." in host and not host.endswith((".localhost", ".internal", ".local"))
    return not (address.is_loopback or address.is_private or address.is_link_local)
