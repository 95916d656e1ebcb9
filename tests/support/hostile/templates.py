"""Templates that ask for more than a task's file needs, with words of the task's event."""

from __future__ import annotations

TEMPLATES: dict[str, tuple[str, str]] = {
    "loop-in-a-loop": (
        "{{ range loop 900000 }}{{ range loop 900000 }}x{{ end }}{{ end }}",
        "the limit",
    ),
    "loop-of-nothing": (
        "{{ range loop 900000 }}{{ range loop 900000 }}{{ end }}{{ end }}",
        "steps",
    ),
    "width-of-gigabytes": ('{{ printf "%1500000000s" "x" }}', "a width of printf is at most"),
    "precision-of-gigabytes": ('{{ printf "%.1500000000f" 1.5 }}', "a width of printf is at most"),
    "text-times-a-number": ('{{ multiply 1000000000 "a" }}', "unknown type"),
    "doubled-text": (
        '{{ $x := "aaaaaaaa" }}{{ range loop 60 }}{{ $x = print $x $x }}{{ end }}',
        "characters, the limit",
    ),
    "squared-number": (
        "{{ $x := 3 }}{{ range loop 60 }}{{ $x = multiply $x $x }}{{ end }}{{ $x }}",
        "",
    ),
    "many-long-lists": (
        "".join(f"{{{{ $l{i} := sprig_until 1000000 }}}}" for i in range(20)),
        "MiB of memory",
    ),
    "text-replaced-by-itself": (
        '{{ $x := sprig_until 100000 | sprig_join "x" }}{{ replaceAll "x" $x $x }}',
        "characters, the limit",
    ),
    "deep-indent": ('{{ indent 1000000000 "a\\nb" }}', "characters, the limit"),
    "pattern-that-backtracks": (
        '{{ $x := sprig_until 20000 | sprig_join "" }}{{ regexMatch "(.+)+_" $x }}',
        "",
    ),
    "pattern-replaced-everywhere": (
        '{{ $x := sprig_until 900000 | sprig_join "" }}'
        '{{ regexReplaceAll "[0-9]*_|[0-9]" "yy" $x }}',
        "the limit",
    ),
    "deep-parentheses": ("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", "nested too deeply"),
    "deep-blocks": ("{{ if true }}" * 5_000 + "{{ end }}" * 5_000, "nested too deeply"),
    "deep-json": (
        '{{ sprig_until 20000 | sprig_join "[" | replaceAll "0" "[" | parseJSON }}',
        "parseJSON",
    ),
    "long-output": (
        '{{ $x := sprig_until 100000 | sprig_join " " }}{{ range loop 1000 }}{{ $x }}{{ end }}',
        "bytes, the limit",
    ),
    "spaces-before-a-variable": ("A=" + " " * 60_000 + "x{{ 1 }}" + " " * 60_000 + "y", ""),
    "long-source": ("{{ 1 }}" * 200_000, "the limit"),
}
"""name -> (text, words of the failure); no words: it is rendered."""
