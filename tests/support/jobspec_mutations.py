"""Job files with small mistakes: what fuzzing of the reader starts from."""

from __future__ import annotations

import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "golden" / "jobspec"
PIECES = (
    "${", "%{", "}", "{", "[", "]", "(", ")", '"', "\n", "<<EOT\n", "EOT\n", "~}", "...", "=>",
    "$${", "\\u00e9", "\\", "#", "//", "/*", "*/", "=", ":", "?", ".", ",", "-", "!", "0", "1e9",
    "null", "true", "for", "in", "if", "var.x", "local.y", "[*]", ".*", "é", "\u2028", "\t", "\r",
    "%{ for x in [1] ~}", "%{ endfor }", "dynamic", "\"x\"", "{}", "99999999999999999999",
)  # fmt: skip


def golden_texts() -> list[tuple[str, str]]:
    """Name and text of every recorded HCL file."""
    paths = sorted(ROOT.glob("*.nomad.hcl")) + sorted(ROOT.glob("*/*.nomad.hcl"))
    texts = [(str(path.relative_to(ROOT)), path.read_text()) for path in paths]
    return [(name, text) for name, text in texts if not text.lstrip().startswith("{")]


def mutate(text: str, rng: random.Random) -> str:
    """One to three small changes: deletions, insertions, swaps, copies."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        size = rng.choice((1, 1, 1, 2, 5, 20))
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + size :]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 2:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[other : other + size] + text[at:]
        elif kind == 3:
            text = text[:at] + rng.choice(PIECES) + text[at + size :]
        else:
            lines = text.splitlines(keepends=True)
            if len(lines) > 1:
                i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                text = "".join(lines)
    return text
