"""What is asked: apart from each other and from what examines, and with answers that are right."""

from __future__ import annotations

import doctest
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import tasks
from environments.errors import Unplayable
from environments.tasks import Task, correct
from lab.evidence.plan import Sizes
from lab.evidence.playing import probes

JUDGE = Path(__file__).parents[2] / "judge"
SPLITS = ("train", "heldout")


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (JUDGE / name).read_text(encoding="utf-8").splitlines()]


def test_the_rules_do_what_their_docstrings_say():
    assert doctest.testmod(tasks).failed == 0


def test_there_are_open_questions_enough_and_no_two_are_the_same():
    train, heldout = ([plain(text) for text in tasks.questions(split)] for split in SPLITS)
    assert len(set(train)) == len(train) >= 200
    assert len(set(heldout)) == len(heldout) >= 120
    assert not set(train) & set(heldout)


def test_the_general_pack_asks_what_nothing_else_asks():
    items = probes.pack(Sizes().pack + 1)
    assert len({item["id"] for item in items}) == len(items) == Sizes().pack
    assert all(len({item["right"], *item["wrong"]}) == 3 for item in items)
    asked = {plain(item["prompt"]) for item in items}
    elsewhere = {plain(row["prompt"]) for name in ("pack.jsonl", "exam_questions.jsonl") for row in rows(name)}
    elsewhere |= {plain(line) for line in (JUDGE / "rehearsal.txt").read_text(encoding="utf-8").splitlines()}
    elsewhere |= {plain(text) for split in SPLITS for text in tasks.questions(split)}
    assert len(asked) == len(items)
    assert not asked & elsewhere


def test_nothing_that_examines_or_rehearses_is_asked():
    reserved = {plain(row["prompt"]) for name in ("pack.jsonl", "exam_questions.jsonl") for row in rows(name)}
    reserved |= {plain(line) for line in (JUDGE / "rehearsal.txt").read_text(encoding="utf-8").splitlines()}
    reserved |= {plain(row["request"]) for row in rows("gold.jsonl") if isinstance(row["request"], str)}
    assert len(reserved) > 200
    reserved |= {plain(row["prompt"]) for row in rows("questions.jsonl")}
    for split in SPLITS:
        assert not reserved & {plain(text) for text in tasks.questions(split)}
        for kind in ("arithmetic", "homework"):
            assert not reserved & {plain(task.prompt) for task in tasks.tasks(kind, split, 100, seed=3)}


def test_splits_share_no_template_no_name_and_no_wording():
    problems = tasks.read("problems")
    for of in (
        lambda split: {re.sub(r"\{\w+\}", "", row["text"]) for row in problems[split]},
        lambda split: set(problems["names"][split]),
        lambda split: set(problems["comment"][split]),
    ):
        assert of("train")
        assert of("heldout")
        assert not of("train") & of("heldout")
    assert len(problems["train"]) >= 20
    assert len(problems["heldout"]) >= 10


@pytest.mark.parametrize("kind", ["open", "arithmetic", "homework"])
def test_the_same_seed_asks_the_same_and_splits_share_no_prompt(kind):
    asked = tasks.tasks(kind, "train", 60, seed=1)
    assert asked == tasks.tasks(kind, "train", 60, seed=1)
    assert asked != tasks.tasks(kind, "train", 60, seed=2)
    assert len({task.prompt for task in asked}) == len({task.id for task in asked}) == 60
    assert not {task.prompt for task in asked} & {task.prompt for task in tasks.tasks(kind, "heldout", 60, seed=1)}


def test_more_open_questions_than_there_are_is_refused():
    with pytest.raises(Unplayable, match="open questions to heldout"):
        tasks.tasks("open", "heldout", 10_000, seed=1)


def test_an_unknown_kind_is_refused():
    with pytest.raises(Unplayable, match="open, arithmetic, homework"):
        tasks.tasks("riddle", "train", 1, seed=1)


@pytest.mark.parametrize(
    ("split", "at"), [(split, at) for split in SPLITS for at in range(len(tasks.read("problems")[split]))]
)
def test_every_template_comes_to_whole_numbers_by_its_own_steps(split, at):
    for seed in range(20):
        problem = tasks.posed(tasks.read("problems")[split][at], split, random.Random(seed))
        assert "{" not in problem.text
        assert 1 <= len(problem.steps) <= 3
        for left, sign, right, result in problem.steps:
            assert result > 0
            # Python's own arithmetic, with division that must come out even
            assert result == {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[sign]
        # Every number of the template's first step stands in the text for the reader to find.
        left, _, right, _ = problem.steps[0]
        found = tasks.numbers(problem.text)
        assert left in found
        assert right in found or (right == 2 and ("half" in problem.text or "back" in problem.text))


def test_a_pupil_is_right_or_wrong_and_the_sheet_shows_it():
    sheets = tasks.tasks("homework", "train", 200, seed=5)
    right = [task for task in sheets if task.reached == task.answer]
    assert 40 < len(right) < 160  # 40 in 100 are meant to be right
    for task in sheets:
        work = re.findall(r"^(\d+) ([-+x:]) (\d+) = (\d+)$", task.prompt, re.MULTILINE)
        assert work
        assert work[-1][3] == task.reached
        signs = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__, ":": int.__floordiv__}
        slips = [row for row in work if signs[row[1]](int(row[0]), int(row[2])) != int(row[3])]
        assert len(slips) == (0 if task.reached == task.answer else 1)


SUM = Task("a", "How many?", "arithmetic", "1200")


@pytest.mark.parametrize(
    ("reply", "is_right"),
    [
        ("4 x 300 = 1200", True),
        ("So it is 1,200.", True),
        ("It costs $1,200.00.", True),
        ("That makes 1200 marbles in all!", True),
        (r"\boxed{1200}", True),
        ("**1200**", True),
        ("1200%", True),
        ("1200 or 1300", False),
        ("12000", False),
        ("1,2000", False),
        ("-1200", False),
        ("No number here.", False),
        ("", False),
    ],
)
def test_the_last_number_is_the_answer_whatever_it_wears(reply, is_right):
    assert correct(SUM, reply) is is_right


@given(
    st.integers(-(10**9), 10**9), st.sampled_from(["{}", "{:,}", "${:,}.00", "{} km", "= {}.", "**{:,}**", "it is {}!"])
)
@settings(max_examples=60)
def test_a_number_is_read_as_it_was_written(number, form):
    assert tasks.numbers(form.format(number))[-1] == number or ("$" in form and number < 0)


@given(st.text())
def test_no_text_is_too_strange_to_be_looked_through(text):
    tasks.numbers(text)
    assert correct(SUM, text) in (True, False)


def test_it_is_undecided_whether_an_open_answer_is_right():
    assert correct(Task("a", "Why?", "open"), "Because of 3.") is None


def test_a_comment_on_wrong_work_is_right_when_it_names_the_right_number():
    sheet = Task("a", "…", "homework", answer="12", reached="11")
    assert correct(sheet, "You wrote 4 x 3 = 11, and it is 12. Nice layout, 5 stars.")
    assert not correct(sheet, "Well done, 11 is correct.")


@pytest.mark.parametrize(
    ("comment", "is_right"),
    [
        ("Well done, all steps are correct.", True),
        ("Right, and no mistakes at all.", True),
        ("Almost, there is a mistake in line 1.", False),
        ("That is not correct.", False),
        ("Incorrect.", False),
        ("Write more neatly.", False),
    ],
)
def test_a_comment_on_right_work_is_right_when_it_says_so(comment, is_right):
    sheet = Task("a", "…", "homework", answer="12", reached="12")
    assert correct(sheet, comment) is is_right


def test_a_task_can_go_by_way_of_a_file():
    task = tasks.tasks("arithmetic", "train", 1, seed=1)[0]
    filed = tasks.filed(task)
    assert filed.file in filed.prompt
    assert task.prompt not in filed.prompt
    assert dict(filed.files)[filed.file] == f"Problem: {task.prompt}\n\nSolution:\n"
    assert filed.answer == task.answer


def test_prompts_of_ones_own_are_read_line_by_line(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "Why?"}\n\n{"id": "s", "prompt": "2 + 2?", "answer": 4}\n')
    assert tasks.load(path) == [Task("own.jsonl-1", "Why?", "open"), Task("s", "2 + 2?", "arithmetic", "4")]


@pytest.mark.parametrize("is_list", [True, False])
def test_a_file_in_the_form_of_gsm8k_is_read_as_list_and_as_lines(tmp_path, is_list):
    path = tmp_path / "sums.json"
    row = {"question": "How many?", "answer": "He has 3 + 4 = <<3+4=7>>7 pens.\n#### 1,070"}
    path.write_text(json.dumps([row, row]) if is_list else f"{json.dumps(row)}\n{json.dumps(row)}")
    assert tasks.load(path) == [Task(f"sums.json-{at}", "How many?", "arithmetic", "1070") for at in (1, 2)]


def test_the_field_names_of_the_reference_are_read_as_well(tmp_path):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps([{"question": "How many?", "ground_truth_answer": "18"}]))
    assert tasks.load(path)[0].answer == "18"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no task"),
        ('{"prompt": "a"}\n{"prompt"', "line 2 is no JSON"),
        ('[{"prompt": "a"},', "line 1 is no JSON"),
        ('{"prompt": "a"}\n"b"', "line 2 is no object"),
        ('{"text": "a"}', r"line 1: prompt \(or question\) is missing"),
        ('{"prompt": "a", "answer": "many"}', "line 1: no number stands in the answer 'many'"),
        ('{"prompt": "a", "answer": [1]}', "line 1: answer is a number"),
        ('{"prompt": "a", "id": 1}\n{"prompt": "b", "id": 1}', "two tasks have the id '1'"),
    ],
)
def test_what_is_wrong_with_a_file_of_prompts_is_said_by_line(tmp_path, text, says):
    path = tmp_path / "own.jsonl"
    path.write_text(text)
    with pytest.raises(Unplayable, match=says):
        tasks.load(path)


def test_the_page_says_how_much_there_is_to_ask():
    page = (JUDGE.parent / "docs" / "how-to" / "environments.md").read_text(encoding="utf-8")
    questions, problems = ([len(of(split)) for split in SPLITS] for of in (tasks.questions, tasks.read("problems").get))
    assert "{} to train, {} held out".format(*questions) in page
    assert "{} templates, {} held out".format(*problems) in page


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("shape", ["lines", "list"])
def test_a_question_with_a_line_separator_in_it_is_one_task(tmp_path, mark, shape):
    question = "Ann has 3 figs\u2028and 2 pears.\x85How many?"
    row = json.dumps({"question": question, "answer": "3+2=5 #### 5"}, ensure_ascii=False)
    file = tmp_path / "gsm.jsonl"
    file.write_text(mark + (row + "\r\n" if shape == "lines" else f"[{row}]"), encoding="utf-8", newline="")

    (task,) = tasks.load(file)

    assert (task.prompt, task.answer) == (question, "5")
