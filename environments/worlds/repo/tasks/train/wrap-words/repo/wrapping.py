"""Lay words out in lines."""


def wrap(text, width):
    """Lines of at most `width` characters; a word that is longer has a line of its own."""
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) <= width:
            line = f"{line} {word}" if line else word
        else:
            lines.append(line)
            line = word
    return [*lines, line] if line else lines
