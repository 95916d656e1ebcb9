"""Job files that ask for more work, text or depth than any job needs, with words of the refusal.

"" instead of words: the file is a job after all, and is read quickly.
"""

from __future__ import annotations

JOB = (
    'job "hostile" {\n  group "g" {\n    task "t" {\n      driver = "mock_driver"\n'
    "      config {\n        a = %s\n      }\n    }\n  }\n}\n"
)


def value(expression: str) -> str:
    """A job with the expression in its config."""
    return JOB % expression


def steps(first: str, step: str, last: str, count: int = 40) -> str:
    """A chain of locals, each made from the one before (`_`), and a job with the last."""
    lines = [f"  a{i + 1} = {step.replace('_', f'local.a{i}')}" for i in range(count)]
    chain = "\n".join(lines)
    return f"locals {{\n  a0 = {first}\n{chain}\n}}\n" + value(last.replace("_", f"local.a{count}"))


def many(expression: str, count: int) -> str:
    """The same expression in many locals: what a limit of single values does not see."""
    lines = "\n".join(f"  a{i} = {expression}" for i in range(count))
    return f"locals {{\n{lines}\n}}\n" + value("1")


THOUSAND = "range(1000)"
MEGABYTE = 'join("", [for i in range(1000): format("%1000s", "x")])'
BIG = f"locals {{\n  big = {MEGABYTE}\n}}\n"

JOB_FILES: dict[str, tuple[str, str]] = {
    # work
    "bcrypt-of-highest-cost": (value('bcrypt("x", 31)'), "cost above 12"),
    "bcrypt-in-a-loop": (value('[for i in range(1000): bcrypt("x", 12)]'), "Too much work"),
    "nested-loops": (value(f"[for a in {THOUSAND}: [for b in {THOUSAND}: b]]"), "Too many"),
    "loops-in-many-locals": (many(f"[for a in {THOUSAND}: a]", 1000), "Too many iterations"),
    "loops-of-variables": (
        "".join(
            f'variable "v{i}" {{\n  default = [for a in [{"1," * 500}1]: a]\n}}\n'
            for i in range(500)
        )
        + value("1"),
        "Too many iterations",
    ),
    "dynamic-of-dynamics": (
        'job "hostile" {\n  dynamic "group" {\n    for_each = range(1000)\n    labels = '
        '["g${group.value}"]\n    content {\n      dynamic "task" {\n        for_each = range(1000)'
        '\n        labels = ["t${task.value}"]\n        content {\n          driver = "x"\n'
        "        }\n      }\n    }\n  }\n}\n",
        "Too much work",
    ),
    "splat-of-splats": (
        value(f"[for a in {THOUSAND}: [for b in {THOUSAND}: a]][*][*]"),
        "Too many iterations",
    ),
    "hash-again-and-again": (
        BIG + value(f"[for a in {THOUSAND}: sha512(local.big)]"),
        "Too much work",
    ),
    "pattern-over-long-text": (
        BIG + value('regex_replace(local.big, " *y| ", "yyyyyyyy")'),
        "Too much work",
    ),
    "pattern-that-backtracks": (
        value('regex_replace("' + "a" * 5000 + '", "(.+)+_", "x")'),
        "",
    ),
    "pattern-of-many-states": (
        value('regex_replace("a", "((a{1,100}){1,100}){1,100}", "")'),
        "regexp",
    ),
    "contains-of-many-in-many": (
        value(f"[for a in {THOUSAND}: contains({THOUSAND}, a)]"),
        "Too much work",
    ),
    "sorted-sets-of-sets": (
        value(f"[for a in {THOUSAND}: setunion(range(1000), range(1000))]"),
        "Too much work",
    ),
    "try-of-work-that-is-too-much": (
        value(f'try([for a in {THOUSAND}: [for b in {THOUSAND}: b]], "none")'),
        "Too many iterations",
    ),
    "conditional-of-work-that-is-too-much": (
        value(f'true ? "x" : [for a in {THOUSAND}: [for b in {THOUSAND}: b]]'),
        "Too many iterations",
    ),
    # text
    "doubled-text": (steps('"xxxxxxxx"', '"${_}${_}"', "_"), "String too long"),
    "doubled-by-replace": (steps('"xxxxxxxx"', 'replace(_, "x", "xx")', "_"), "longer than"),
    "doubled-by-format": (steps('"xxxxxxxx"', 'format("%s%s", _, _)', "_"), "longer than"),
    "many-long-texts": (BIG + many('"${local.big}x"', 100), "Too much"),
    "one-text-in-many-places": (
        BIG + value("[" + "local.big, " * 1000 + "1]"),
        "Too much work",
    ),
    "formatlist-of-long-texts": (
        BIG + value(f'formatlist("%s%s", {THOUSAND}, local.big)'),
        "Too much",
    ),
    "json-of-one-text-many-times": (
        BIG + value(f"jsonencode([for a in {THOUSAND}: local.big])"),
        "Too much work",
    ),
    "yaml-of-deep-lists": (steps("[1]", "[_, 1]", "yamlencode(_)", 1000), "nested too deeply"),
    "template-in-a-loop": (
        BIG + value('"%{ for a in range(1000) }${local.big}%{ endfor }"'),
        "Too much text",
    ),
    "width-of-a-number": (value('format("%999999999d", 1)'), "longer than"),
    "precision-of-a-number": (value('format("%.999999999f", 1)'), "digits"),
    "indent-of-a-text": (value('indent(999999999, "a\\nb")'), "longer than"),
    "combining-characters": (value('strlen("' + "a" + "\u0301" * 400_000 + '")'), ""),
    "reversed-emoji": (value('reverse("' + "👨\u200d" * 60_000 + '")'), ""),
    "long-heredoc": (value("<<EOT\n" + "${1}\n" * 60_000 + "EOT\n"), ""),
    "indented-heredoc": (value("<<-EOT\n" + " \u0301" * 200_000 + "x\nEOT\n"), ""),
    # collections
    "doubled-list": (steps("[1]", "[_, _]", "_"), "Value too large"),
    "doubled-by-concat": (steps("[1]", "concat(_, _)", "_"), "more than 100000 items"),
    "doubled-object": (steps("{ a = 1 }", "{ a = _, b = _ }", "_"), "Value too large"),
    "product-of-products": (
        value(f"setproduct({THOUSAND}, {THOUSAND}, {THOUSAND}, {THOUSAND})"),
        "combinations",
    ),
    "product-of-lists-in-a-loop": (
        value(f"[for a in {THOUSAND}: setproduct(range(300), range(300))]"),
        "Too much work",
    ),
    "range-of-a-billion": (value("range(0, 1e9)"), "more than 1024 values"),
    "range-of-no-step": (value("range(0, 1000, 1e-300)"), "1024 values"),
    "yaml-billion-laughs": (
        value(
            'yamldecode("'
            + r"a0: &a0 [x]\n"
            + "".join(
                rf"a{i + 1}: &a{i + 1} [*a{i},*a{i},*a{i},*a{i},*a{i},*a{i},*a{i},*a{i},*a{i}]\n"
                for i in range(9)
            )
            + '")'
        ),
        "refers to itself",
    ),
    "yaml-that-is-long": (value('yamldecode("[' + "a," * 200_000 + 'a]")'), "Too much work"),
    "json-that-is-deep": (value('jsondecode("' + "[" * 100_000 + '")'), "recursion"),
    "json-that-is-wide": (
        value('jsondecode(join(",", [for i in range(1000): "' + "[]," * 800 + '[]"]))'),
        "Too much work",
    ),
    "csv-of-one-column": (
        value("csvdecode(replace(" + MEGABYTE + ', " ", "\\n"))'),
        "Too much",
    ),
    "subnets-of-a-network": (
        value('[for i in range(1000): cidrsubnets("0.0.0.0/0", [for j in range(200): 32]...)]'),
        "Too m",
    ),
    # numbers
    "number-of-many-digits": (value("9" * 50_000), "too large"),
    "number-with-large-exponent": (value("1e999999999"), "too large"),
    "number-of-text": (value('"' + "1" * 300_000 + 'x" + 1'), "number is required"),
    "number-squared-again-and-again": (steps("1e9000", "_ * _", "_"), "too large"),
    "number-divided-again-and-again": (steps("1e-9000", "_ * _", "_"), "too small"),
    "power-of-powers": (steps("10", "pow(_, _)", "_"), "infinite"),
    "parsed-digits": (value('parseint("' + "9" * 50_000 + '", 10)'), "digits"),
    "parsed-json-number": (value('jsondecode("1e999999999")'), "out of range"),
    # shape
    "deep-tuple": (value("[" * 20_000 + "]" * 20_000), "Nesting too deep"),
    "deep-blocks": ("a {\n" * 20_000 + "}\n" * 20_000, "Nesting too deep"),
    "deep-parentheses": (value("(" * 20_000 + "1" + ")" * 20_000), "Nesting too deep"),
    "deep-templates": (value('"${' * 5_000 + "1" + '}"' * 5_000), "Nesting too deep"),
    "deep-conditionals": (value("true ? " * 5_000 + "1" + " : 1" * 5_000), "Nesting too deep"),
    "deep-negations": (value("!" * 50_000 + "true"), "Nesting too deep"),
    "deep-json-form": ('{"job": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001, "Nesting too deep"),
    "wide-tuple": (value("[" + "1," * 200_000 + "1]"), "100000 values"),
    "wide-sum": (value("1" + "+1" * 100_000), "nested too deeply"),
    "open-comments": ("/*" * 300_000, "required"),
    "open-templates": (value('"' + "${" * 100_000), "Invalid character"),
    "closing-braces": (value('"${NOMAD_A' + "}" * 100_000 + '"'), ""),
    "references-that-do-not-close": (
        value("1").replace(
            'driver = "mock_driver"',
            'driver = "mock_driver"\n      artifact {\n        source = "x"\n'
            '        destination = "' + "$${" * 100_000 + '"\n      }',
        ),
        "",
    ),
    "one-name-misspelt-many-times": (
        value("{ " + ", ".join(f"k{i} = 1" for i in range(2_000)) + " }." + "k" * 100_000),
        "Unsupported attribute",
    ),
    "version-of-many-spaces": (
        value("1").replace(
            "  group",
            '  constraint {\n    attribute = "${attr.x}"\n    operator = "version"\n    value = "'
            + " " * 300_000
            + '"\n  }\n  group',
            1,
        ),
        "malformed constraint",
    ),
    "pattern-of-a-constraint": (
        value("1").replace(
            "  group",
            '  constraint {\n    attribute = "${attr.x}"\n    regexp = "'
            + "(a|" * 3_000
            + '"\n  }\n  group',
            1,
        ),
        "expression",
    ),
    "files-of-everything": (value('fileset("/", "' + "**/" * 300 + 'x")'), "leads out"),
    "file-of-itself": (value('file("hostile.nomad.hcl")'), ""),
}
"""name -> (text, words of the refusal)"""
