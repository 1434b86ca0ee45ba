"""Oracles of pages with a few controls: buttons, shapes, fields, lists and sliders."""

from __future__ import annotations

import re

from tests.environments.worlds.browser.playing import Element, Player
from tests.environments.worlds.browser.solving import solves


@solves("click-test", "click-button", "unicode-test", "click-test-2", "click-test-transfer", "click-dialog-2")
def click_the_button(page: Player) -> None:
    named = page.quoted[0] if page.quoted else next(iter(re.findall(r"button (ONE|TWO)", page.goal)), None)
    page.click("button", "Close" if named == "x" else named)


@solves("click-dialog")
def close_the_dialog(page: Player) -> None:
    page.click("button", "Close")


@solves("click-button-sequence")
def click_both(page: Player) -> None:
    page.click("button", "ONE")
    page.click("button", "TWO")


@solves("click-link")
def click_what_is_quoted(page: Player) -> None:
    page.click(None, page.quoted[0])


@solves("click-tab")
def click_the_tab(page: Player) -> None:
    page.click("tab", page.find(r"Tab #\d")[0])


@solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard", "click-collapsible-2",
        "click-collapsible-2-nodelay")  # fmt: skip
def look_behind_each_tab(page: Player) -> None:
    for place in range(len(page.all("tab"))):
        page.click("tab", None, place)
        links = [each for each in page.all() if each.role != "tab" and each.name == page.quoted[0]]
        if links:
            page.press(links[0])
            return


@solves("click-collapsible", "click-collapsible-nodelay")
def open_and_submit(page: Player) -> None:
    page.click("tab")
    page.submit()


@solves("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def check_what_is_named(page: Player) -> None:
    wanted = page.find(r"Select (.*) and click")[1].split(", ")
    for name in wanted if wanted != ["nothing"] else []:
        page.click("checkbox", name)
    page.submit()


@solves("click-option")
def choose_the_radio(page: Player) -> None:
    page.click("radio", page.find(r"Select (.*) and click")[1])
    page.submit()


@solves("choose-list", "click-scroll-list")
def choose_from_the_list(page: Player) -> None:
    for name in page.find(r"Select (.*) from the")[1].split(", "):
        page.click("option", name)
    page.submit()


@solves("click-color")
def click_the_colour(page: Player) -> None:
    colour = page.find(r"the (\w+) colored")[1]
    page.press(next(each for each in page.all() if f" {colour} at" in f" {each.rest}"))


@solves("click-widget")
def click_the_widget(page: Player) -> None:
    wanted = page.quoted[0]
    if wanted in ("text", "textarea"):
        boxes = page.all("textbox")
        page.press(next(each for each in boxes if ("multiline" in each.rest) == (wanted == "textarea")))
    else:
        page.click(wanted)


@solves("click-shape")
def click_the_shape(page: Player) -> None:
    page.press(next(each for each in page.all() if is_such(each, page.goal)))


@solves("count-shape")
def count_the_shapes(page: Player) -> None:
    count = sum(is_such(each, page.goal) for each in page.lines if each.role != "button")
    page.click("button", str(count))


KINDS = {"rectangle": "rect", "circle": "circle", "triangle": "polygon"}


def is_such(shape: Element, said: str) -> bool:
    """Whether a shape is as words say: large and of a colour and a kind, each where it is said."""
    words = [word.rstrip("s") for word in re.findall(r"\w+", said.lower())]
    size = re.search(r"size (\d+)x(\d+)", shape.rest)
    if not size:
        return False
    is_large = max(map(int, size.groups())) > 15
    if ("small" in words and is_large) or ("large" in words and not is_large):
        return False
    colours = {"red", "green", "blue", "aqua", "black", "magenta", "yellow"} & set(words)
    if colours and not any(re.match(rf" {'cyan' if each == 'aqua' else each} ", shape.rest) for each in colours):
        return False
    for word, role in KINDS.items():
        if word in words and shape.role != role:
            return False
    if "letter" in words and not (shape.name.isalpha() and len(shape.name) == 1):
        return False
    if "digit" in words and not shape.name.isdecimal():
        return False
    return bool({"shape", "item", "letter", "digit", *KINDS} & set(words))


@solves("identify-shape")
def identify(page: Player) -> None:
    shape = next(each for each in page.lines if each.role != "button")
    kinds = {"rect": "Rectangle", "circle": "Circle", "polygon": "Triangle"}
    page.click("button", kinds.get(shape.role) or ("Number" if shape.name.isdecimal() else "Letter"))


@solves("enter-text", "enter-text-dynamic")
def enter_what_is_quoted(page: Player) -> None:
    page.type(page.quoted[0])
    page.submit()


@solves("enter-text-2")
def enter_in_case(page: Player) -> None:
    page.type(page.quoted[0].upper() if "upper" in page.goal else page.quoted[0].lower())
    page.submit()


@solves("enter-password")
def enter_twice(page: Player) -> None:
    for place in (0, 1):
        page.type(page.quoted[0], place=place)
    page.submit()


@solves("login-user")
def log_in(page: Player) -> None:
    page.type(page.quoted[0])
    page.type(page.quoted[1], place=1)
    page.click("button", "Login")


@solves("enter-date")
def enter_the_date(page: Player) -> None:
    month, day, year = page.find(r"(\d+)/(\d+)/(\d+)").groups()
    page.type(f"{year}-{month}-{day}", "date")
    page.submit()


@solves("enter-time")
def enter_the_time(page: Player) -> None:
    hour, minute, half = page.find(r"(\d+):(\d+) (AM|PM)").groups()
    page.type(f"{int(hour) % 12 + 12 * (half == 'PM'):02}:{minute}", "time")
    page.submit()


@solves("focus-text")
def focus(page: Player) -> None:
    page.click("textbox")


@solves("focus-text-2")
def focus_one(page: Player) -> None:
    page.click("textbox", None, int(page.find(r"the (\d)")[1]) - 1)


@solves("find-word")
def type_the_nth_word(page: Player) -> None:
    words = page.texts[0].split()
    page.type(re.sub(r"[.,]", "", words[int(page.find(r"the (\d+)")[1]) - 1]))
    page.submit()


@solves("copy-paste")
def copy(page: Player) -> None:
    source, field = sorted(page.all("textbox"), key=lambda each: each.value == "")
    page.act("type", element=field.number, text=source.value)
    page.submit()


@solves("copy-paste-2")
def copy_one(page: Player) -> None:
    fields = page.all("textbox")
    page.type(fields[int(page.find(r"the (\d)")[1]) - 1].value, place=len(fields) - 1)
    page.submit()


@solves("simple-arithmetic")
def calculate(page: Player) -> None:
    a, sign, b = re.match(r"(\d+) (\S) (\d+)", page.texts[0]).groups()  # type: ignore[union-attr]  # it always reads so
    page.type(str({"+": int(a) + int(b), "-": int(a) - int(b)}.get(sign, int(a) * int(b))))
    page.submit()


@solves("simple-algebra")
def solve_for_x(page: Player) -> None:
    a, sign, b, c = re.match(r"(\w+) (\S) (\w+) = (-?\d+)", page.texts[0]).groups()  # type: ignore[union-attr]  # as above
    if a == "x":
        x = int(c) - int(b) if sign == "+" else int(c) + int(b)
    else:
        x = int(c) - int(a) if sign == "+" else int(a) - int(c)
    page.type(str(x))
    page.submit()


@solves("read-table", "read-table-2")
def read_the_table(page: Player) -> None:
    table = dict(row.name.split(" | ") for row in page.lines if row.role == "row")
    labels = [each.rstrip(":") for each in page.texts if each.endswith(":")]
    labels = labels or [page.find(r"value of (.*) into")[1]]
    for place, label in enumerate(labels):
        page.type(table[label], place=place)
    page.submit()


@solves("text-transform")
def read_letters(page: Player) -> None:
    page.type("".join(page.texts))
    page.submit()


@solves("scroll-text")
def type_the_last_word(page: Player) -> None:
    page.type(page.one("textbox").value.split()[-1].strip(".,"), place=1)
    page.submit()


@solves("scroll-text-2")
def scroll_down(page: Player) -> None:
    for _ in range(8):
        page.act("scroll", direction="down" if "bottom" in page.goal else "up", element=page.one("textbox").number)
    page.submit()


@solves("sign-agreement")
def sign(page: Player) -> None:
    if "croll" in page.goal:
        for _ in range(8):
            page.act("scroll", direction="down", element=page.one("textbox").number)
    if page.quoted and "enter the name" in page.goal:
        page.type(page.quoted[0], name="Name")
    page.click("button", "Cancel" if "cancel" in page.goal.lower() else "Agree")


@solves("guess-number")
def halve(page: Player) -> None:
    low, high = 0, 9
    while not page.seen.is_over and low <= high:
        guess = (low + high) // 2
        page.type(str(guess), "spinbutton")
        page.submit()
        if "lower" in page.page:
            high = guess - 1
        else:
            low = guess + 1


@solves("use-spinner")
def spin(page: Player) -> None:
    wanted = int(page.find(r"Select (-?\d+)")[1])
    for _ in range(abs(wanted)):
        page.click("button", "up" if wanted > 0 else "down")
    page.submit()


@solves("use-autocomplete", "use-autocomplete-nodelay")
def complete(page: Player) -> None:
    page.type(page.quoted[0])
    ends = page.quoted[1] if len(page.quoted) > 1 else ""
    options = [each for each in page.all() if each.name.startswith(page.quoted[0]) and each.name.endswith(ends)]
    page.press(options[0])
    page.submit()


@solves("use-slider")
def slide(page: Player) -> None:
    wanted, now = int(page.find(r"Select (-?\d+)")[1]), int(page.texts[0])
    page.click(None, "ui-slider-handle")
    now = int(page.texts[0])
    page.key("ArrowRight" if wanted > now else "ArrowLeft", abs(wanted - now))
    page.submit()


@solves("use-slider-2")
def slide_all(page: Player) -> None:
    for place, wanted in enumerate(page.find(r"\[(.*)\]")[1].split(",")):
        page.click(None, "ui-slider-handle", place)
        now = int(page.texts[place])
        page.key("ArrowRight" if int(wanted) > now else "ArrowLeft", abs(int(wanted) - now))
    page.submit()


@solves("form-sequence")
def slide_and_check(page: Player) -> None:
    wanted = int(page.find(r"Select (-?\d+)")[1])
    page.click(None, "ui-slider-handle")
    now = int(page.texts[0])
    page.key("ArrowRight" if wanted > now else "ArrowLeft", abs(wanted - now))
    page.click("checkbox", None, int(page.find(r"the (\d)")[1]) - 1)
    page.submit()


@solves("form-sequence-2")
def radio_and_text(page: Player) -> None:
    page.click("radio", None, int(page.find(r"the (\d)\w\w radio")[1]) - 1)
    page.type(page.quoted[0], place=int(page.find(r"the (\d)\w\w textbox")[1]) - 1)
    page.submit()


@solves("form-sequence-3")
def option_and_button(page: Player) -> None:
    page.click(None, "▾")
    page.click("item", page.find(r"Choose (.*) from")[1])
    page.click("button", page.quoted[0])
