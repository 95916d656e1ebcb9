"""Values in templates behave as Go's: times, durations, nil lists, numbers, merged maps, words.

What is expected was compared with consul-template itself.
"""

from __future__ import annotations

import pytest

from orchgit.errors import InvalidInputError
from tests.unit.agent.test_templates import rendered

DAY = '(sprig_toDate "2006-01-02" "2020-03-04")'
NEXT = f"({DAY}.AddDate 0 0 1)"
NIL_LIST = '(sprig_regexFindAll "z" "a" -1)'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(DAY, "2020-03-04 00:00:00 +0000 UTC", id="time-prints"),
        pytest.param(f"eq {DAY} {DAY}", "true", id="same-times"),
        pytest.param(f"eq {DAY} {NEXT}", "false", id="different-times"),
        pytest.param(f"printf `%d %v %T` {DAY}.Month {DAY}.Month {DAY}.Weekday",
                     "3 March time.Weekday", id="month-is-a-named-number"),
        pytest.param(f"lt {DAY}.Month 4", "true", id="month-compares-as-a-number"),
        pytest.param(f"{NEXT}.Sub {DAY}", "24h0m0s", id="difference-is-a-duration"),
        pytest.param(f"({NEXT}.Sub {DAY}).Hours", "24", id="hours-of-a-duration"),
        pytest.param(f"toJSON ({NEXT}.Sub {DAY})", "86400000000000", id="duration-in-json"),
        pytest.param(f"toYAML ({NEXT}.Sub {DAY})", "24h0m0s", id="duration-in-yaml"),
        pytest.param(f"{NEXT}.After {DAY}", "true", id="later"),
        pytest.param(f"{DAY}.AddDate -3000 0 0", "-0980-03-04 00:00:00 +0000 UTC", id="before-1"),
        pytest.param(f"{DAY}.AddDate -2020 0 0", "0000-03-04 00:00:00 +0000 UTC", id="year-0"),
        pytest.param(f"({DAY}.AddDate -3000 0 0).Weekday", "Saturday", id="weekday-before-1"),
        pytest.param(f"{DAY}.AddDate 9000 0 0", "11020-03-04 00:00:00 +0000 UTC", id="after-9999"),
        pytest.param(f"toJSON {DAY}", '"2020-03-04T00:00:00Z"', id="time-in-json"),
        pytest.param(f"toYAML (sprig_dict `a` {DAY})", "a: 2020-03-04T00:00:00Z", id="in-yaml"),
        pytest.param(f"toTOML (sprig_dict `a` {DAY})", "a = 2020-03-04T00:00:00Z", id="in-toml"),
        pytest.param("(sprig_toDate `2006` `x`).IsZero", "true", id="no-date-is-the-zero-time"),
        pytest.param("sprig_toDate `3:04PM` `12:06AM`", "0000-01-01 00:06:00 +0000 UTC", id="12h"),
        pytest.param("sprig_toDate `2006-01-02T15:04:05Z07:00` `2020-03-04T05:06:07.5+02:00`",
                     "2020-03-04 05:06:07.5 +0200 +0200", id="fraction-and-offset"),
        pytest.param("sprig_toDate `2006 002` `2020 064`", "2020-03-04 00:00:00 +0000 UTC",
                     id="day-of-the-year"),
        pytest.param("sprig_toDate `02/01/06` `04/03/70`", "1970-03-04 00:00:00 +0000 UTC",
                     id="two-digits-of-a-year"),
        pytest.param(f"sprig_must_date_modify `-1.5h` {DAY}", "2020-03-03 22:30:00 +0000 UTC",
                     id="date-modified"),
    ],
)  # fmt: skip
def test_time_has_the_methods_and_texts_of_go(text: str, expected: str) -> None:
    assert rendered(f"{{{{ {text} }}}}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"eq {NIL_LIST} nil", "true", id="nil-list-is-nil"),
        pytest.param("eq (sprig_list) nil", "false", id="empty-list-is-not"),
        pytest.param('printf "%T" (sprig_slice (split "," "a,b") 1)', "[]string", id="part"),
        pytest.param("sprig_addf", "0", id="sum-of-nothing"),
        pytest.param("sprig_divf 1e300 3", "3.3333333333333335e+299", id="large-quotient"),
        pytest.param("sprig_round 1 1000", "NaN", id="too-many-digits"),
        pytest.param("eq (sprig_dict) nil", "false", id="empty-map-is-not"),
        pytest.param(f"toJSON {NIL_LIST}", "null", id="nil-list-in-json"),
        pytest.param(f"printf `%#v` {NIL_LIST}", "[]string(nil)", id="nil-list-in-full"),
        pytest.param(f"len {NIL_LIST}", "0", id="length-of-a-nil-list"),
        pytest.param("printf `%d` (sprig_list 1 nil)", "[1 <nil>]", id="nil-in-a-list"),
        pytest.param("printf `%d` nil", "%!d(<nil>)", id="nil-alone"),
        pytest.param("html nil 1", "&lt;no value&gt;1", id="nil-in-html"),
        pytest.param("printf `%+v %+d` 1 1", "1 +1", id="sign-only-of-numbers"),
        pytest.param("printf `%x %.2x %b` 1.5 0.1 1.5", "0x1.8p+00 0x1.9ap-04 6755399441055744p-52",
                     id="hexadecimal-float"),
        pytest.param("printf `%q %q` -1 34", "'\ufffd' '\"'", id="characters-in-quotes"),
        pytest.param("eq (parseUint `1`) 1", "true", id="unsigned-equals-signed"),
        pytest.param("mergeMap (sprig_dict `a` `` `b` 1) (sprig_dict `a` 2 `b` 3 `c` nil)",
                     "map[a:2 b:1]", id="empty-values-are-filled"),
        pytest.param("sprig_mergeOverwrite (sprig_dict `a` 1 `b` `x`) (sprig_dict `a` 0 `b` nil)",
                     "map[a:0 b:<nil>]", id="overwritten-by-empty-values"),
        pytest.param("splitToMap `,` `:` `a:b,c,d:e:f`", "map[a:b d:e:f]", id="pair-without-mark"),
        pytest.param("toTitle `don't a.b 1h30m o-k`", "Don't A.b 1H30m O-K", id="title-by-words"),
        pytest.param("sprig_title `don't a.b`", "Don'T A.B", id="title-by-letters"),
        pytest.param("sprig_snakecase `http2xx HTTP20xOK Bld4Floor3rd a.b`",
                     "http_2xx_http_20x_ok_bld4_floor_3rd_a.b", id="snake"),
        pytest.param("sprig_camelcase `_complex__case_ GO_PATH`", "_Complex_Case_GoPath",
                     id="camel"),
        pytest.param("sprig_int `1_000` | sprig_add `010` 1e30", "-9223372036854774800",
                     id="texts-as-numbers"),
        pytest.param("sprig_duration 95", "0s", id="duration-of-an-int"),
        pytest.param("sprig_duration `95`", "1m35s", id="duration-of-a-text"),
        pytest.param("(sprig_semver `1.2.3-a`).IncPatch", "1.2.3", id="next-version"),
        pytest.param("(sprig_urlParse `http://u:p@h:80/a%20b?q=%20`).path", "/a b", id="url"),
        pytest.param("sprig_urlJoin (sprig_dict `scheme` `http` `host` `h` `path` `a b`)",
                     "http://h/a%20b", id="url-joined"),
        pytest.param("sprig_regexMatch `[` `a`", "false", id="wrong-pattern-matches-nothing"),
        pytest.param("containsAny (sprig_list `a`) (split `,` `a,b`)", "true", id="typed-lists"),
        pytest.param("toTOML 1.5", "1.5", id="value-in-toml"),
        pytest.param("sprig_slice (sprig_list)", "<no value>", id="part-of-an-empty-list"),
    ],
)  # fmt: skip
def test_function_gives_what_consul_template_gives(text: str, expected: str) -> None:
    assert rendered(f"{{{{ {text} }}}}") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("range $i, $e := 3 }}{{ end", "can't use 3 to iterate over more", id="range"),
        pytest.param("eq (sprig_dict) (sprig_list)", "non-comparable types map", id="eq-kinds"),
        pytest.param("eq 1 (sprig_list)", "incompatible types for comparison: int", id="eq-basic"),
        pytest.param("call (parseInt `42`)", "non-function parseInt `42` of type", id="call"),
        pytest.param("sprig_mustToDate `2006-01-02` `2020-02-30`", "day out of range", id="day"),
        pytest.param("sprig_mustToDate `2006-01-02` `2020-2-3`", 'cannot parse "2-3" as "01"',
                     id="place"),
        pytest.param("sprig_mustToDate `2006` `2020x`", 'extra text: "x"', id="extra"),
        pytest.param("sprig_repeat -1 `a`", "negative Repeat count", id="repeat"),
        pytest.param("sprig_first 1", "Cannot find first on type int", id="first"),
        pytest.param("toYAML (loop 3)", "cannot marshal type: <-chan int64", id="channel-in-yaml"),
        pytest.param("sprig_seq 1e30", "expected integer; found 1e30", id="no-integer"),
        pytest.param("sprig_semverCompare `abc` `1.0.0`", "improper constraint: abc",
                     id="constraint"),
        pytest.param("sprig_urlParse `http://h:port/`", 'invalid port ":port"', id="port"),
        pytest.param("add 1 `a`", 'unknown type for "a" (string)', id="sum"),
    ],
)  # fmt: skip
def test_wrong_use_fails_with_the_reason_of_go(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as failure:
        rendered(f"{{{{ {text} }}}}")
    assert why in str(failure.value)
