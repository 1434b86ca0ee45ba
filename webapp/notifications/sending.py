"""Send one delivery, by e-mail or as a signed POST, and note what came of it."""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import time
from datetime import timedelta
from uuid import UUID

import httpx
from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F, QuerySet
from django.utils import timezone, translation
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from accounts.languages import language_of
from webapp.notifications.addresses import AddressRefused, resolve
from webapp.notifications.models import Delivery

ATTEMPTS = 6
"""How often one is tried: at once, then after 30 s, 1, 2, 4 and 8 minutes."""
FIRST_PAUSE_S = 30
TIMEOUT_S = 10.0
LOST_S = 120
"""After so long one that is being sent has lost its worker."""

Status = Delivery.Status


class NotDelivered(Exception):
    """One try came to nothing; the message says why, for the page."""


def due() -> QuerySet[Delivery]:
    """What waits for a try now, and what lost its worker while it was sent."""
    return Delivery.objects.filter(status__in=(Status.WAITING, Status.SENDING), due_at__lte=timezone.now())


def deliver(pk: UUID) -> Delivery | None:
    """Try once, and note what came of it; None where it is not due, for another worker has it, or it is over."""
    now = timezone.now()
    taken = due().filter(pk=pk, attempts__lt=ATTEMPTS)
    if not taken.update(status=Status.SENDING, attempts=F("attempts") + 1, due_at=now + timedelta(seconds=LOST_S)):
        due().filter(pk=pk).update(status=Status.FAILED)
        return None
    one = Delivery.objects.select_related("announcement", "webhook", "person").get(pk=pk)
    try:
        with translation.override(settings.LANGUAGE_CODE):  # the row is read by people of all languages
            one.answer = post(one) if one.webhook else send_email(one)
        one.status = Status.SENT
    except NotDelivered as failure:
        one.answer = str(failure)[:300]
        one.status = Status.WAITING if one.attempts < ATTEMPTS else Status.FAILED
        one.due_at = timezone.now() + timedelta(seconds=pause_s(one.attempts))
    one.save(update_fields=["answer", "status", "due_at"])
    return one


def pause_s(attempts: int) -> float:
    """How long the next try waits after so many.

    >>> [pause_s(attempts) for attempts in (1, 2, 5)]
    [30, 60, 480]
    """
    return FIRST_PAUSE_S * 2 ** (attempts - 1)


def send_email(delivery: Delivery) -> str:
    """Send it by Django's own e-mail settings, in its person's language. Raises NotDelivered."""
    person, announced = delivery.person, delivery.announcement
    assert person is not None
    if not person.email:
        raise NotDelivered(_("This person has no e-mail address."))
    with translation.override(language_of(person)):
        text = gettext(announced.text)
        how = gettext("What you are told, and how: %(address)s") % {"address": f"{settings.ADDRESS}/settings/"}
    said = f"{text}\n\n{link(delivery)}\n\n{how}\n"
    headers = {"Message-ID": f"<{delivery.pk}@talkback.local>"}
    mail = EmailMessage(f"Talkback: {one_line(text)}", said, to=[person.email], headers=headers)
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as failure:
        raise NotDelivered(f"The mail server did not take it: {failure}") from failure
    return _("The mail server took it.")


def one_line(text: str) -> str:
    """The first sentence, as a subject holds it."""
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    return first if len(first) <= 120 else f"{first[:119]}…"


def link(delivery: Delivery) -> str:
    return f"{settings.ADDRESS}{delivery.announcement.path}"


def body(delivery: Delivery) -> bytes:
    """What is posted, as JSON."""
    announced = delivery.announcement
    said = {
        "id": str(delivery.pk),
        "event": announced.event,
        "text": announced.text,
        "url": link(delivery),
        "at": announced.at.isoformat(),
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def signature(secret: str, timestamp: int, content: bytes) -> str:
    """The value of Talkback-Signature: HMAC-SHA256 of the timestamp, a dot and the body, in hex.

    >>> signature("secret", 1700000000, b"{}")[:36]
    't=1700000000,v1=b8569b78799ff9e3cbff'
    """
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + content, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def post(delivery: Delivery) -> str:
    """Post it to its webhook, signed, at the very address that was checked; a redirect is not followed. Raises
    NotDelivered."""
    hook = delivery.webhook
    assert hook is not None
    try:
        target = resolve(hook.url)
    except AddressRefused as refusal:
        raise NotDelivered(str(refusal)) from refusal
    content = body(delivery)
    headers = {
        "Host": target.authority,
        "Content-Type": "application/json",
        "User-Agent": "Talkback",
        "Talkback-Delivery": str(delivery.pk),
        "Talkback-Event": delivery.announcement.event,
        "Talkback-Signature": signature(hook.secret, int(time.time()), content),
    }
    try:
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            name = {"sni_hostname": target.host}  # the certificate is the host's, and not its number's
            with client.stream("POST", target.url, content=content, headers=headers, extensions=name) as answer:
                code = answer.status_code  # of what it says no more is read
    except httpx.HTTPError as failure:
        raise NotDelivered(f"No answer: {failure or type(failure).__name__}") from failure
    if not 200 <= code < 300:
        raise NotDelivered(f"It answered {code}.")
    return f"It answered {code}."
