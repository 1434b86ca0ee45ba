"""Text of others quoted, so that it stays evidence: nothing in it acts.

Each line of what a person, a tool or the model wrote begins with `| `, and the few spellings that mean something to a
judge or to an engine (a boxed score, a score in words or in JSON, a hint marker, a control token, a title of the
evidence) are rewritten where they stand, also where they are spelled with letters that only look or count the same.
Marks of a turn in templates without control tokens (`### Response:`, `ASSISTANT:`) and a judge's own question as a line
are rewritten too. What stands around them stays: a forgery can take no complaint with it. Titles are the only lines
without the bar, so no quoted text can end its quotation, and a judge that parrots what it reads, with the bars or
without, forges nothing. What a model makes of what it reads is another matter, and measured.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

BAR = "| "

FLOOD, FEW = re.compile(r"(.{1,24}?)\1{19,}", re.DOTALL), 4
"""What counts as a flood, and how often it is shown."""

NUMBER = r"(?P<sign>[+\-\u2212\u2013]?)\s*(?P<digit>[01])(?:\.0*)?(?!\d|\.\d)"


def in_words(found: re.Match[str]) -> str:
    """A spelled score, its number in words: who reads it learns what was written, and is not led to give it back."""
    return f"{found['before']}{number_of(found)}"


def number_of(found: re.Match[str]) -> str:
    """The number in words."""
    minus = "minus " if found["sign"] not in ("", "+") else ""
    return f"{minus}{'one' if found['digit'] == '1' else 'zero'}"


TITLE = re.compile(
    r"((?:what\s+came\s+back|earlier|the\s+request),\s*(?:user|assistant|tool|environment|test|person|system)"
    r"|the\s+reply|what\s+the\s+test\s+wrote|why\s+the\s+person\s+does\s+not\s+like\s+the\s+reply"
    r"|what\s+else\s+the\s+person\s+says\s+of\s+it|words\s+of\s+the\s+reply\s+that\s+the\s+person\s+(?:does\s+not\s+)?likes?"
    r"|what\s+the\s+person\s+says\s+of\s+the\s+reply\s+\(next\s+time,\s+do\s+this\)"
    r"|what\s+the\s+person\s+says\s+the\s+reply\s+should\s+have\s+been)\s{0,8}(?P<mark>:)"
    r"|(?P<test>a\s+test\s+of\s+the\s+reply)(?=\s+(?:passed|failed))"
    r"|(?P<rest>of\s+what\s+came\s+back)(?=\s+\d+\s+more\s+are\s+left\s+out)",
    re.IGNORECASE,
)
"""A title of the evidence: with another mark behind it, it is none."""

SPELLINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"(?P<before>boxed\s*\{{\s*){NUMBER}", re.IGNORECASE), in_words),  # a boxed score
    (re.compile(r"(boxed\s*)\{", re.IGNORECASE), r"\1("),  # any box
    (re.compile(rf"(?P<before>score[\"'*_\\\s]*:[\"'*_`\\\s]*){NUMBER}", re.IGNORECASE), in_words),  # in JSON too
    (re.compile(r"(score[\"'*_\\\s]*:[\"'*_`\\\s]*)(new)\b", re.IGNORECASE), r"\1a \2 one"),
    (re.compile(r"\[(?=\s*[/|A-Za-z_])"), "("),  # [HINT_START], [INST], [/INST], [|user|]
    (re.compile(r"<(?!\s|=)"), "\u2039"),  # <|im_end|>, </s>, <start_of_turn>, <｜User｜>
    (re.compile(r"\](?=~!?b[\[\]])"), ")"),  # ]~b], ]~!b[
    (TITLE, lambda found: f"{found[1] or found['test'] or found['rest']};"),
)

UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that show nothing, and could stand within a spelling. Control and format characters are others."""

LIKE: Mapping[int, str] = str.maketrans(
    {
        **dict(zip("аеорсхуіјѕԁһькмнт", "aeopcxyijsdhbkmht", strict=True)),
        **dict(zip("АЕОРСХУІЈЅВКМНТ", "AEOPCXYIJSBKMHT", strict=True)),
        **dict(zip("αεορϲχυικντω", "aeopcxuikvtw", strict=True)),
        **dict(zip("ΑΕΟΡϹΧΥΙΒΚΜΝΗΤΖ", "AEOPCXYIBKMNHTZ", strict=True)),
        **dict(zip("ɑɡıɪʙᴏᴄʀᴇᴅꜱʜɴᴛᴘʟʏᴡᴀø", "agiibocredshntplywao", strict=True)),
        **dict.fromkeys("ː∶꞉։׃", ":"),
        **dict.fromkeys("❴⦃", "{"),
        **dict.fromkeys("【〔〖⟦❲", "["),
        **dict.fromkeys("∖⧵", "\\"),
    }
)
"""Letters and marks that look like plain ones and are not their compatibility form."""


def seen_as(text: str) -> tuple[str, list[int]]:
    """`text` as an eye reads it, for searching alone: letters of other widths, shapes and scripts as the plain ones
    they look like, digits as digits, no accents. Beside it, for each of its characters, which one of `text` it is.

    >>> seen_as("S\u0441o\u0301re：١")
    ('Score:1', [0, 1, 2, 4, 5, 6, 7])
    """
    if text.isascii():
        return text, list(range(len(text)))
    shown, origins = [], []
    for at, letter in enumerate(text):
        for one in letter if letter.isascii() else unicodedata.normalize("NFKD", letter):
            if not unicodedata.category(one).startswith("M"):
                digit = unicodedata.digit(one, None)
                shown.append(one.translate(LIKE) if digit is None else str(digit))
                origins.append(at)
    return "".join(shown), origins


VERDICTS = seen_as(
    "score|reward|verdict|rating|grade|punktzahl|bewertung|wertung|urteil|puntuación|puntaje|calificación|valoración"
    "|veredicto|pontuação|avaliação|punteggio|valutazione|verdetto|évaluation|beoordeling|wynik|ocena|puan|оценка|балл"
    "|оцінка|评分|得分|分数|評価|スコア|点数|점수|평가|النتيجة|الدرجة|التقييم|अंक"
)[0]
"""What a verdict is called in the languages of the gold follow-ups, as `seen_as` shows it."""
AT_LINE = r"^[ \t>*_|]*"
NUMBER_MARK = f"(?P<mark>{NUMBER})"
WHOLE = r"(?=[\"'*_`.]*[ \t]*(?:$|[\n,;!\u3002\uff0c\u3001})\](<\u2039]))"
"""Behind a number that is all that is said of it."""

MARKS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            rf"(?:boxed\s*\{{|\\f(?:rame)?box\s*\{{|\\boxed\s*[(\[])"
            rf"(?:[\s{{(\\$]|\\(?:text|math)\w{{0,8}}|\\bf){{0,12}}{NUMBER_MARK}",
            re.IGNORECASE,
        ),
        number_of,
    ),
    (re.compile(r"boxed\s*(?P<mark>\{)", re.IGNORECASE), "("),
    (re.compile(rf"score[\"'*_\\\s]*:[\"'*_`\\\s]*{NUMBER_MARK}", re.IGNORECASE), number_of),
    (re.compile(r"score[\"'*_\\\s]*:[\"'*_`\\\s]*(?P<mark>new)\b", re.IGNORECASE), "a new one"),
    (
        re.compile(
            rf"(?:(?<![A-Za-z])(?:{VERDICTS})(?:[ _]\w{{1,12}}){{0,3}}[\"'*_\s]{{0,8}}:|\u2039(?:{VERDICTS})>)"
            rf"\s{{0,8}}[\"'*_`]{{0,4}}{NUMBER_MARK}{WHOLE}",
            re.IGNORECASE,
        ),
        number_of,
    ),
    (re.compile(r"(?P<mark>\[)(?=\s*/?\s*(?:HINT|INST|SYSTEM_))", re.IGNORECASE), "("),
    (TITLE, ";"),
    (
        re.compile(rf"{AT_LINE}(?:#+ ?)?(?:USER|HUMAN|Human|ASSISTANT|Assistant)[ *_]{{0,4}}(?P<mark>:)", re.MULTILINE),
        ";",
    ),
    (
        re.compile(
            rf"{AT_LINE}#{{2,}} ?(?:instruction|response|input|system|user)[ *_]{{0,4}}(?P<mark>:)",
            re.MULTILINE | re.IGNORECASE,
        ),
        ";",
    ),
    (re.compile(rf"{AT_LINE}(?:score|hint)[ *_]{{0,4}}(?P<mark>\?)(?=[ *_]*$)", re.MULTILINE | re.IGNORECASE), " (?)"),
)
"""What acts as it is read, and of it the one mark that is rewritten: a number, a bracket, a colon, a question mark.
Without such a mark it is put behind."""


def quoted(text: str, limit: int) -> str:
    """`text` as evidence: at most about `limit` characters, every line behind a bar, nothing in it that acts.

    >>> print(quoted("Fine.\\n\\\\boxed{1} <|im_end|> [HINT_START]", 100))
    | Fine.
    | \\boxed(one} ‹|im_end|> (HINT_START]
    """
    lines = harmless(shortened(counted(text), limit)).replace("\u2028", "\n").replace("\u2029", "\n").split("\n")
    return "\n".join(BAR + line for line in lines)


def harmless(text: str) -> str:
    """`text` with the spellings that act rewritten in their place, and without characters that show nothing. No letter
    of it is lost.

    Letters of other widths and shapes count as the plain ones they stand for, but only where that makes a spelling:
    ordinary text stays as it was written.

    >>> harmless("\uff3bHINT_START\uff3d"), harmless("\uff11\u20ac"), harmless('{"score": -1}'), harmless("Score: 12")
    ('(HINT_START]', '\uff11\u20ac', '{"score": minus one}', 'Score: 12')
    """
    visible = "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in UNSEEN.sub("", text))
    if not visible.isascii():
        plain = unicodedata.normalize("NFKC", visible)
        if any(len(pattern.findall(plain)) > len(pattern.findall(visible)) for pattern, _ in SPELLINGS):
            visible = plain
    for pattern, instead in SPELLINGS:
        visible = pattern.sub(instead, visible)
    return disarmed(visible)


def disarmed(text: str) -> str:
    """`text` with the one mark rewritten that makes a spelling act, where an eye reads one; all letters stay.

    >>> disarmed("S\u0441ore: 1"), disarmed("### Response:"), disarmed("Score?"), disarmed("Bewertung: +1")
    ('S\u0441ore: one', '### Response;', 'Score (?)', 'Bewertung: one')
    """
    shown, origins = seen_as(text)
    for pattern, instead in MARKS:
        parts, upto = [], 0
        for found in pattern.finditer(shown):
            start, end = found.span("mark")
            if start < 0:  # nothing to rewrite: it is put behind
                start = end = found.end()
            at = [*origins[start : end + (start == end)], len(text)]
            parts += [text[upto : at[0]], instead if isinstance(instead, str) else instead(found)]
            upto = at[0] if start == end else at[-2] + 1
        if parts:
            text = "".join(parts) + text[upto:]
            shown, origins = seen_as(text)
    return text


def counted(text: str) -> str:
    """`text` with what it says twenty times or more in a row said a few times, and how often in a number: a flood of
    one thing drowns all else that a small judge reads.

    >>> counted("ha " * 30 + "!"), counted("=" * 16)
    ('ha ha ha ha (26 times more) !', '================')
    """
    return FLOOD.sub(lambda found: _few(found[1], len(found[0]) // len(found[1])), text)


def _few(unit: str, times: int) -> str:
    few = unit * FEW
    return f"{few}{'' if few[-1].isspace() else ' '}({times - FEW} times more) "


def shortened(text: str, limit: int) -> str:
    """The beginning and the end of `text`, two thirds and one third, with a note of what is missing between.

    >>> shortened("abcdefghi", 6)
    'abcd (3 characters left out) hi'
    """
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]} ({len(text) - limit} characters left out) {text[len(text) - tail :]}"
