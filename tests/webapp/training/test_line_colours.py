"""The colours of charts: every kind of eye tells them apart, in the light and in the dark."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

CSS = (Path(__file__).parents[3] / "static" / "runs" / "lines.css").read_text(encoding="utf-8")
PALETTE = re.findall(r"--line-\d: light-dark\((#\w{6}), (#\w{6})\)", CSS)
LIGHT, DARK = [light for light, _ in PALETTE], [dark for _, dark in PALETTE]

EYES = {
    "typical": np.eye(3),
    # Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colour):
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = (
        np.cbrt(part) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    low, high = sorted(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(("colours", "ground"), [(LIGHT, "#ffffff"), (DARK, "#1e1e1c")], ids=["light", "dark"])
def test_any_two_lines_differ_plainly_to_every_eye_and_stand_out_from_the_ground(eye, colours, ground):
    assert len(colours) == 6
    seen = [lab(np.array(EYES[eye]) @ linear(colour)) for colour in colours]
    # A difference of 2 is just seen; Okabe and Ito's eight colours come down to 13.
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 40
    assert min(contrast(colour, ground) for colour in colours) >= 3  # WCAG 1.4.11


def test_no_two_of_twelve_lines_have_colour_and_dash_in_common():
    def groups(block):
        """Line by what it has: which rule's selector names it."""
        found = {}
        for selectors, value in re.findall(block, CSS):
            for number in re.findall(r"\.line-(\d+)", selectors):
                found[int(number)] = value
        return found

    colours = groups(r"((?:\.line-\d+,?\s*)+)\{\s*color: ([^;]+);")
    dashes = groups(r"((?:\.line-\d+ path,?\s*)+)\{\s*stroke-dasharray: ([^;]+);")
    assert sorted(colours) == list(range(1, 13))
    assert len({(colours[line], dashes.get(line, "none")) for line in colours}) == 12
