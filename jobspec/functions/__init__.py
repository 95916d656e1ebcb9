"""The 83 functions of a job file, by subject.

A module is imported when a file first calls one of its functions: most files call a few, and
starting fast matters to the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobspec.functions.signature import Function

_SUBJECTS = {
    "numeric": "abs ceil floor log max min parseint pow signum",
    "strings": "chomp indent join lower replace reverse split strlen strrev substr title trim "
    "trimprefix trimspace trimsuffix upper",
    "formatting": "format formatlist",
    "regexes": "regex_replace",
    "collection": "coalesce coalescelist contains element index keys length lookup merge values "
    "zipmap",
    "sequences": "chunklist compact concat distinct flatten range setintersection setproduct "
    "setunion slice sort",
    "encoding": "base64decode base64encode csvdecode jsondecode jsonencode urlencode yamldecode "
    "yamlencode",
    "crypto": "bcrypt md5 rsadecrypt sha1 sha256 sha512 uuidv4 uuidv5",
    "times": "formatdate timeadd",
    "network": "cidrhost cidrnetmask cidrsubnet cidrsubnets",
    "filesystem": "abspath basename dirname file filebase64 fileexists fileset pathexpand",
}
_SUBJECT_OF = {name: subject for subject, names in _SUBJECTS.items() for name in names.split()}
OF_EXPRESSIONS = ("can", "convert", "try")
"""These get their arguments' expressions, not values; `functions.call` holds them."""

NAMES = (*_SUBJECT_OF, *OF_EXPRESSIONS)


def find_function(name: str) -> Function | None:
    subject = _SUBJECT_OF.get(name)
    if subject is None:
        return None
    function: Function = import_module(f"jobspec.functions.{subject}").FUNCTIONS[name]
    return function
