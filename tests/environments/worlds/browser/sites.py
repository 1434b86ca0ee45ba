"""Oracles of pages that are like a site: mail, a shop, a search, a tree of files, posts, a calendar."""

from __future__ import annotations

import re

from tests.environments.worlds.browser.playing import Player
from tests.environments.worlds.browser.solving import solves


@solves("grid-coordinate")
def click_the_point(page: Player) -> None:
    x, y = map(int, page.find(r"\((-?\d),(-?\d)\)").groups())
    page.press(next(each for each in page.all() if each.at == (79 + 30 * x, 129 - 30 * y)))


@solves("buy-ticket")
def buy(page: Player) -> None:
    lines = page.lines
    tickets = []
    for place, line in enumerate(lines):
        if line.role == "button":
            hours, minutes = map(int, re.match(r"(\d+)h (\d+)m", lines[place - 1].name).groups())  # type: ignore[union-attr]  # as above
            tickets.append((60 * hours + minutes, int(re.sub(r"\D", "", line.name)), line))
    by = 1 if "cheapest" in page.goal else 0
    most = "longest" in page.goal or "expensive" in page.goal or "most" in page.goal
    by = 1 if "expensive" in page.goal else by
    page.press((max if most else min)(tickets, key=lambda each: each[by])[2])


@solves("ascending-numbers")
def in_order(page: Player) -> None:
    places = {each.name: each.at for each in page.all()}
    for number in range(1, 6):
        x, y = places[str(number)]
        page.press(next(each for each in page.all() if abs(each.at[0] - x) < 8 and abs(each.at[1] - y) < 8))


@solves("odd-or-even")
def mark(page: Player) -> None:
    for place, number in enumerate(page.texts):
        page.click("button", "Odd" if int(number) % 2 else "Even", place)
    page.submit()


@solves("email-inbox-delete", "email-inbox-noscroll", "email-inbox-important", "email-inbox", "email-inbox-reply",
        "email-inbox-forward", "email-inbox-star-reply")  # fmt: skip
def mail(page: Player) -> None:
    said = re.search(r"(?:email by|got from|email from|from) (\w+)", page.goal) or page.find(r"(\w+)'s email")
    row = next(place for place, each in enumerate(page.all()) if each.name.startswith(f"{said[1]} "))
    if "trash" in page.goal:
        page.press(page.all()[row + 1])
    elif "star" in page.goal:
        page.press(page.all()[row + 2])
    else:
        page.press(page.all()[row])
        if "reply" in page.goal:
            page.click(None, "reply")
            page.type(page.quoted[0])
        else:
            page.click(None, "forward")
            to = re.search(r"to (\w+)\.|to (\w+) the|to (\w+)", page.goal)
            page.type(next(filter(None, to.groups())))  # type: ignore[union-attr]  # it always names one
        page.click(None, "send")


@solves("search-engine")
def search(page: Player) -> None:
    page.type(page.quoted[0])
    page.click("button", "Search")
    number = int(page.find(r"the (\d+)")[1])
    for _ in range((number - 1) // 3):
        page.click(None, ">")
    results = [each for each in page.all("link") if not re.fullmatch(r"[<>\d]|First|Last", each.name)]
    page.press(results[(number - 1) % 3])


@solves("multi-orderings")
def search_films(page: Player) -> None:
    genre, director, year = page.find(r"for (.*) movies directed by (\w+) from year (\d+)").groups()
    for value, names in ((genre, ("Genre", "genre")), (director, ("Director", "director")), (year, ("Year", "year"))):
        lines = page.lines
        label = next(
            place
            for place, each in enumerate(lines)
            if any(name in each.name for name in names) and each.role != "button"
        )
        field = next(each for each in lines[label:] if each.role == "textbox")
        page.act("type", element=field.number, text=value)
    page.press(page.all()[-1])


@solves("navigate-tree")
def walk_the_tree(page: Player) -> None:
    opened: set[str] = set()
    while not page.seen.is_over:
        found = [each for each in page.all() if each.name == page.quoted[0]]
        if found:
            page.press(found[0])
            return
        areas = [
            (each, page.lines[place + 1].name)
            for place, each in enumerate(page.lines[:-1])
            if each.name == "hitarea" and page.lines[place + 1].name not in opened
        ]
        opened.add(areas[0][1])
        page.press(areas[0][0])


@solves("social-media-all", "social-media-some")
def on_posts(page: Player) -> None:
    user = page.find(r"by (@\w+)")[1]
    button = page.quoted[0].lower()
    many = re.search(r"on (\d+) post", page.goal)
    lines = page.lines
    starts = [place for place, each in enumerate(lines) if each.name == user]
    for start in starts[: int(many[1])] if many else starts:
        page.press(next(each for each in lines[start:] if each.number and each.name == button))
    page.submit()


@solves("phone-book")
def ring(page: Player) -> None:
    name, what = page.find(r"Find (\w+) in the contact book and click on their (.*)\.").groups()
    for _ in range(12):
        if page.texts[0] == name:
            page.click("link", None, {"phone number": 0, "email": 1, "address": 2}[what])
            return
        page.click("link", ">")


@solves("choose-date-easy", "choose-date-medium")
def pick_the_date(page: Player) -> None:
    month, day, _ = map(int, page.find(r"(\d+)/(\d+)/(\d+)").groups())
    page.click("textbox")
    names = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ]
    for _ in range(12):
        if names[month - 1] in page.texts:
            break
        page.click(None, "Prev")
    page.click("link", str(day))
    page.submit()


@solves("terminal")
def delete_a_file(page: Player) -> None:
    field = page.one("textbox").number
    page.act("type", element=field, text="ls")
    page.key("Enter")
    wanted = re.search(r"extension (\.\w+)", page.goal)
    shown = page.page.partition("ls ")[2].replace('\\"', " ")
    files = re.findall(r"[\w.-]+", shown)
    names = [name for name in files if (name.endswith(wanted[1]) if wanted else "." not in name)]
    page.act("type", element=page.one("textbox").number, text=f"rm {names[0]}")
    page.key("Enter")
