"""People, accounts and signing in, in a real browser: desktop and telephone, with a passkey that Chromium makes up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from accounts.models import Role
from accounts.roles import give, kept_role

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import becomes, cards_stand_apart, fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1200, "height": 800}, {"width": 390, "height": 844}
PASSWORD = "correct horse battery"


async def sign_in(tab, site: str) -> None:
    """With the name and the password; what comes after that is the caller's to wait for."""
    await tab.goto(f"{site}/login/")
    await tab.get_by_label("Name").fill("ana")
    await tab.get_by_label("Password").fill(PASSWORD)
    await tab.get_by_role("button", name="Sign in", exact=True).click()


async def sign_out(tab) -> None:
    await tab.locator(".person > summary").click()
    await tab.get_by_role("button", name="Sign out").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Sign in")


async def look(tab, name: str, size) -> None:
    """No page is wider than its window. Where SCREENSHOTS names a folder, a picture is kept there."""
    await fits(tab)
    if folder := os.environ.get("SCREENSHOTS"):
        await tab.screenshot(path=Path(folder) / f"people-{name}-{size['width']}.png", full_page=True)


@pytest.mark.parametrize("size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["desktop", "phone"])
async def test_an_invited_person_makes_an_account_and_is_promoted_and_closed(open_tab, ana, site, size):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    tab = await open_tab("/console/people/")
    await tab.set_viewport_size(size)
    await look(tab, "list", size)
    await tab.get_by_label("For whom").fill("Cleo")
    await tab.get_by_role("button", name="Make the invitation").click()
    link = await tab.locator("#link").inner_text()
    await look(tab, "invited", size)

    guest = await tab.context.browser.new_context(viewport=size)
    theirs = await guest.new_page()
    await theirs.goto(link)
    await theirs.get_by_label("Name").fill("cleo")
    await theirs.get_by_label("Password", exact=True).fill(PASSWORD)
    await theirs.get_by_label("The same password again").fill("another")
    await theirs.get_by_role("button", name="Make the account").click()
    await expect(theirs.locator(".errorlist")).to_contain_text("differ")
    await look(theirs, "join", size)
    await theirs.get_by_label("Password", exact=True).fill(PASSWORD)
    await theirs.get_by_label("The same password again").fill(PASSWORD)
    await theirs.get_by_role("button", name="Make the account").click()
    await expect(theirs.get_by_label("Your message")).to_be_visible()
    await theirs.goto(f"{site}/account/")
    await expect(theirs.get_by_text("this one")).to_be_visible()
    await look(theirs, "account", size)

    await tab.goto(f"{site}/console/people/")
    await tab.get_by_role("link", name="cleo").click()
    await tab.get_by_label("Reviewer").check()
    await tab.get_by_role("button", name="Change the role").click()
    await expect(tab.locator(".note.good")).to_contain_text("cleo: now reviewer.")
    await look(tab, "person", size)
    cleo = await User.objects.select_related("account").aget(username="cleo")
    assert kept_role(cleo) == Role.REVIEWER
    await theirs.goto(f"{site}/console/runs/")
    await expect(theirs.get_by_role("heading", level=1)).to_contain_text("This page is for operators.")
    await tab.get_by_role("button", name="Close the account").click()
    await expect(tab.locator(".note.good")).to_contain_text("cleo: signed out and closed.")
    await theirs.goto(f"{site}/account/")
    await expect(theirs.get_by_role("heading", level=1)).to_have_text("Sign in")
    await look(theirs, "sign-in", size)
    await tab.goto(f"{site}/console/audit/")
    await expect(tab.get_by_text("account closed")).to_be_visible()
    if size == DESKTOP:
        await look(tab, "audit", size)
    await guest.close()


async def test_a_passkey_is_the_second_factor_and_signs_in_by_itself(open_tab, ana, site):
    """With Chromium's virtual authenticator: a real key pair, and the browser's own checks of origin and challenge."""
    await sync_to_async(ana.set_password)(PASSWORD)
    await ana.asave()
    here = site.replace("127.0.0.1", "localhost")  # a passkey belongs to a name, never to an address
    tab = await open_tab("/healthz")
    devices = await tab.context.new_cdp_session(tab)
    await devices.send("WebAuthn.enable")
    made = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    added = await devices.send("WebAuthn.addVirtualAuthenticator", {"options": made})

    await sign_in(tab, here)
    await expect(tab.get_by_label("Your message")).to_be_visible()
    await tab.goto(f"{here}/account/two-factor/")
    await look(tab, "two-factor", DESKTOP)
    await tab.get_by_role("link", name="Add a passkey").click()
    await tab.get_by_label("Your password").fill(PASSWORD)
    await tab.get_by_role("button", name="Go on").click()
    await tab.get_by_label("What you call it").fill("this laptop")
    await tab.get_by_label("It also signs in without the password").check()
    await tab.get_by_role("button", name="Add it").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    await expect(tab.locator("#recovery-codes li")).to_have_count(10)
    await look(tab, "recovery", DESKTOP)

    await sign_out(tab)
    await sign_in(tab, here)
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Your second factor")
    await look(tab, "second-factor", DESKTOP)
    await cards_stand_apart(tab)
    await tab.get_by_role("button", name="Use a passkey").click()
    await expect(tab.get_by_label("Your message")).to_be_visible()

    await sign_out(tab)
    await tab.goto(f"{here}/login/")
    await tab.get_by_role("button", name="Sign in with a passkey").click()
    await expect(tab.get_by_label("Your message")).to_be_visible()

    await sign_out(tab)
    await devices.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": added["authenticatorId"]})
    await devices.send("WebAuthn.addVirtualAuthenticator", {"options": made | {"isUserVerified": False}})
    await tab.goto(f"{here}/login/")
    await tab.get_by_role("button", name="Sign in with a passkey").click()  # of a key that this place does not know
    await expect(tab.get_by_role("alert")).to_contain_text("The passkey did not answer.")


@pytest.mark.parametrize("size", [pytest.param(DESKTOP, marks=pytest.mark.repeats), PHONE], ids=["desktop", "phone"])
async def test_an_app_is_set_up_from_its_picture(open_tab, ana, site, size):
    from tests.webapp.people.test_second_factor import code_of

    await sync_to_async(ana.set_password)(PASSWORD)
    await ana.asave()
    tab = await open_tab("/healthz")
    await tab.set_viewport_size(size)
    await sign_in(tab, site)
    await expect(tab.get_by_label("Your message")).to_be_visible()
    await tab.goto(f"{site}/account/two-factor/")
    await tab.get_by_role("link", name="Set up an app").click()
    await tab.get_by_label("Your password").fill(PASSWORD)
    await tab.get_by_role("button", name="Go on").click()
    secret = await tab.get_by_label("The key", exact=True).input_value()
    await becomes(tab.locator("img.qr"), "picture => picture.naturalWidth > 0")
    await look(tab, "app", size)
    await tab.get_by_label("The code that the app shows now").fill(await sync_to_async(code_of)(secret))
    await tab.get_by_role("button", name="Turn it on").click()
    await expect(tab.locator("#recovery-codes li")).to_have_count(10)
    await look(tab, "recovery-codes", size)
