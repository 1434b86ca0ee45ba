"""The world interpreter: programs in real bubblewrap, an exact answer, and tasks from a generator or a file."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from environments.errors import SandboxEnded, SandboxUnavailable, Unplayable
from environments.sandboxes.bubblewrap import Bubblewrap
from environments.worlds import interpreter, problems
from environments.worlds.base import Call, Outcome
from environments.worlds.choosing import open_world
from environments.worlds.interpreter import WANTS, Interpreter, InterpreterAttempt
from environments.worlds.problems import File, split_of
from environments.worlds.till import Till

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed: make test-tools brings it")
pytest.importorskip("math_verify", reason="math-verify is not installed: make test-tools brings it")

FACTORIAL = "import math\nprint(math.factorial(20) % 1009)"


def python(code: str) -> Call:
    return Call("call_1", "python", json.dumps({"code": code}))


def answer(value: object) -> Call:
    return Call("call_2", "answer", json.dumps({"value": value}))


@pytest.fixture
def attempt(request):
    opened = InterpreterAttempt("20! mod 1009?", "707", "math", Bubblewrap(WANTS))
    with opened:
        yield opened
    with pytest.raises(SandboxEnded):  # nothing of it lives on
        opened._sandbox.run(["true"], timeout_s=1)


@pytest.mark.bubblewrap
class TestPrograms:
    def test_a_right_way_solves_and_a_program_that_runs_is_no_merit(self, attempt):
        value = str(__import__("math").factorial(20) % 1009)
        attempt._gold = value
        ran = attempt.act(python(FACTORIAL))
        assert (ran.text, ran.score, ran.is_over) == (value, None, False)
        said = attempt.act(answer(value))
        assert (said.score, said.is_over) == (1.0, True)
        checks = {"right": True, "programs": 1, "broke its sandbox": False}
        assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, checks)

    def test_a_wrong_answer_fails_whatever_its_text(self, attempt):
        said = attempt.act(answer("\\boxed{" * 40 + "__import__('os')\ud800"))
        assert (said.score, said.is_over) == (-1.0, True)
        assert attempt.outcome(is_truncated=False).value == -1.0

    @pytest.mark.parametrize(
        ("code", "shows"),
        [
            ("1/0", "ZeroDivisionError: division by zero\n[exit code 1]"),
            ("print('a'); raise SystemExit(3)", "a\n[exit code 3]"),
            ("def f(:", "[exit code 1]"),
            ("import os; os.kill(os.getpid(), 9)", "[exit code 137]"),
            ("import numpy.no_such", "[exit code 1]"),
            ("x = bytearray(10**10)", "]"),  # killed by its group, or refused the memory: as the machine has it
        ],
    )
    def test_a_program_that_fails_scores_minus_one_and_the_next_one_runs(self, attempt, code, shows):
        seen = attempt.act(python(code))
        assert seen.text.endswith(shows)
        assert (seen.score, seen.is_over) == (-1.0, False)
        assert attempt.act(python("print(7)")).text == "7"

    def test_an_endless_loop_ends_with_its_time(self, attempt, monkeypatch):
        monkeypatch.setattr(interpreter, "RUN_S", 1.0)
        seen = attempt.act(python("print('a', flush=True)\nwhile True: pass"))
        assert (seen.text, seen.score, seen.is_over) == ("a\n[ended after 1 s]", -1.0, False)
        assert attempt.act(python("print(7)")).text == "7"

    def test_long_output_is_cut_in_its_middle(self, attempt):
        seen = attempt.act(python("print('a' * 5000 + 'b' * 5000)"))
        # 10,000 signs, of which the first and the last 1,000 stay
        assert seen.text == "a" * 1000 + "\n[8000 characters left out]\n" + "b" * 1000

    def test_files_stay_and_each_program_is_a_process_of_its_own(self, attempt):
        attempt.act(python("x = 3; open('x', 'w').write('4')"))
        assert attempt.act(python("print(open('x').read(), 'x' in globals())")).text == "4 False"

    def test_a_program_in_whose_place_a_folder_is_put_is_written_no_more(self, attempt):
        attempt.act(python("import os; os.remove('program.py'); os.mkdir('program.py')"))
        seen = attempt.act(python("print(7)"))
        assert seen.score == -1.0
        assert "cannot be written" in seen.text or seen.is_over

    def test_who_kills_the_sandbox_has_failed(self, attempt):
        attempt._sandbox.kill()
        seen = attempt.act(python("print(7)"))
        assert (seen.score, seen.is_over) == (-1.0, True)
        assert attempt.outcome(is_truncated=False).ending == "failed"

    def test_neither_network_nor_key_is_there(self, attempt, monkeypatch):
        monkeypatch.setenv("TALKBACK_KEY", "sk-secret-4711")
        seen = attempt.act(
            python("import os, socket\nprint(dict(os.environ))\nsocket.create_connection(('192.0.2.1', 80), 2)")
        )
        assert "Network is unreachable" in seen.text
        assert "4711" not in seen.text

    @pytest.mark.parametrize(
        "call",
        [
            Call("c", "python", "print(1)"),
            Call("c", "python", '{"program": "print(1)"}'),
            Call("c", "python", '{"code": 3}'),
            Call("c", "bash", '{"code": "ls"}'),
            Call("c", "answer", '{"value": [1]}'),
            Call("c", "answer", '{"value": true}'),
            Call("c", "python", json.dumps({"code": "x" * 100_001})),
            Call("c", "python", json.dumps({"code": "a\0b"})),
        ],
    )
    def test_a_call_that_makes_no_sense_is_answered_in_words(self, attempt, call):
        seen = attempt.act(call)
        assert seen.text.startswith("Error: ")
        assert (seen.score, seen.is_over) == (-1.0, False)

    def test_a_number_is_an_answer_too_and_words_are_none(self, attempt):
        assert attempt.hear("It is 707.").score == -1.0
        assert attempt.outcome(is_truncated=True).value is None
        assert attempt.act(answer(707)).score == 1.0


def test_where_no_sandbox_starts_the_world_fails_and_not_the_agent():
    def none(wants):
        raise SandboxUnavailable("No sandbox works on this machine.")

    world = Interpreter(problems.ReasoningGym("gcd"), sandbox=none)
    with pytest.raises(SandboxUnavailable):
        world.open(world.tasks("train", 1, seed=1)[0], 1)


@pytest.mark.parametrize("name", ["gcd", "simple_equations", "letter_counting"])
def test_splits_of_a_generator_share_no_question_and_an_id_is_one_task(name):
    world = open_world(f"interpreter:reasoning-gym/{name}")
    drawn = {split: world.tasks(split, 60, seed=1) for split in ("train", "heldout")}
    questions = {split: {task.data["question"] for task in tasks} for split, tasks in drawn.items()}
    assert (len(questions["train"]), len(questions["heldout"])) == (60, 60)
    assert not questions["train"] & questions["heldout"]
    assert all(split_of(question) == split for split, each in questions.items() for question in each)
    assert world.tasks("train", 60, seed=1) == drawn["train"] != world.tasks("train", 60, seed=2)
    again = {task.id: task for task in open_world(f"interpreter:reasoning-gym/{name}").tasks("train", 60, seed=1)}
    assert again == {task.id: task for task in drawn["train"]}


def test_a_generator_with_too_few_questions_says_how_many_it_has(monkeypatch):
    monkeypatch.setattr(problems, "TRIES", 1)  # of 60 items about 15 are held out
    with pytest.raises(Unplayable, match=r"gcd has 1?\d different heldout tasks, not 60"):
        open_world("interpreter:reasoning-gym/gcd").tasks("heldout", 60, seed=1)


@pytest.mark.parametrize(("name", "says"), [("countdown", "several right answers"), ("chess", "There is no 'chess'")])
def test_a_generator_that_is_not_offered_is_refused_and_others_are_named(name, says):
    with pytest.raises(Unplayable, match=f"{says}.*gcd"):
        open_world(f"interpreter:reasoning-gym/{name}")


DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is 6 times 7?\n\nRemember to put "
    'your answer on its own line after "Answer:".'
)


def file_of(tmp_path, *lines: object):
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    ("line", "question", "gold"),
    [
        ({"prompt": "Why 42?", "answer": "42"}, "Why 42?", "42"),
        (
            {"prompt": [{"role": "user", "content": DAPO}], "reward_model": {"ground_truth": "42"}},
            "What is 6 times 7?",
            "42",
        ),
        ({"Problem": "AIME 1", "Solution": "Long. So \\boxed{204}.", "Answer": 204, "ID": "2024-I-1"}, "AIME 1", "204"),
        ({"problem": "P", "solution": "So we have \\boxed{\\frac{1}{2}}."}, "P", "\\frac{1}{2}"),
        ({"question": "Eggs?", "answer": "3 * 6 = 18\n#### 18"}, "Eggs?", "18"),
    ],
)
def test_lines_of_each_form_are_read(tmp_path, line, question, gold):
    world = Interpreter(File(file_of(tmp_path, line | {"split": "train"})))
    (task,) = world.tasks("train", 1, seed=1)
    assert task.data == {"question": question, "answer": gold}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "it is no JSON"),
        ("[1]", "it is no JSON object"),
        ({"answer": "1"}, "it asks nothing"),
        ({"prompt": []}, "it asks nothing"),
        ({"prompt": "P"}, "it has no answer"),
        ({"prompt": "P", "answer": True}, "it has no answer"),
        ({"prompt": "P", "answer": " "}, "it has no answer"),
        ({"prompt": "P", "answer": "1", "split": "test"}, "split is train or heldout, and not 'test'"),
        ({"prompt": "First?", "answer": "2", "split": "train"}, "an earlier line has another answer"),
        ({"prompt": "First?", "answer": "1", "split": "heldout"}, "this question is also in train"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_by_its_number(tmp_path, line, says):
    file = file_of(tmp_path, {"prompt": "First?", "answer": "1", "split": "train"}, "", line)
    with pytest.raises(Unplayable, match=f"tasks.jsonl, line 3: {says}"):
        File(file)


def test_a_question_that_comes_again_is_one_task_and_a_quarter_is_held_out(tmp_path):
    lines = [{"prompt": f"What is {number} + 1?", "answer": str(number + 1)} for number in range(400)]
    source = File(file_of(tmp_path, *lines, *lines))
    split = Counter(split_of(line["prompt"]) for line in lines)
    assert split["train"] + split["heldout"] == 400
    assert 70 <= split["heldout"] <= 130  # a quarter of 400 is 100, give or take 3.5 deviations of 8.7
    assert len(source.problems("train", split["train"], 1)) == split["train"]
    with pytest.raises(Unplayable, match=f"has {split['heldout']} heldout tasks, and 400 were asked for"):
        source.problems("heldout", 400, 1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tills", "There is no world 'tills'"),
        ("till:1", "till takes 2 to 6 items"),
        ("till:x", "till takes 2 to 6 items"),
        ("interpreter", "interpreter:reasoning-gym/NAME or interpreter:FILE.jsonl"),
        ("no_such_module:World", "No module named 'no_such_module'"),
        ("environments.worlds.till:Shop", "has no attribute 'Shop'"),
        ("environments.worlds.till:TillAttempt", "is no subclass of environments.worlds.base.World"),
    ],
)
def test_a_world_that_is_none_is_refused(name, says):
    with pytest.raises(Unplayable, match=says):
        open_world(name)


def test_worlds_are_made_by_their_names():
    assert len(open_world("till:2").tasks("train", 1, seed=1)[0].data["prices"]) == 2
    assert isinstance(open_world("environments.worlds.till:Till"), Till)


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym.dataset", None)
    with pytest.raises(Unplayable, match="python3 -m installation install worlds"):
        open_world("interpreter:reasoning-gym/gcd")
