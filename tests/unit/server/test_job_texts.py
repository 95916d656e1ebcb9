"""Texts of requests are parsed one after the other, and callers that leave make no room."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from orchgit.errors import InvalidInputError, JobFileError, UnavailableError
from orchgit.gitops.parsing.process import ParseLimits
from orchgit.server.ports.job_texts import JobTexts
from tests.support.hostile.job_files import JOB_FILES
from tests.support.job_texts import sleeper


def test_text_becomes_json_and_a_mistake_has_its_place() -> None:
    async def run() -> None:
        texts = JobTexts()
        try:
            spec = msgspec.json.decode(await texts.spec(sleeper("web").encode(), b"", True))
            assert (spec["ID"], spec["Priority"]) == ("web", 50)
            hostile = JOB_FILES["bcrypt-of-highest-cost"][0].encode()
            with pytest.raises(JobFileError) as caught:
                await texts.spec(hostile, b"", False)
            assert caught.value.problems[0].startswith("input.hcl:6:")
        finally:
            await texts.close()

    asyncio.run(run())


def test_callers_that_leave_are_counted_until_their_text_is_done() -> None:
    limits = ParseLimits(parse_processes=1, parse_timeout_s=20.0)
    slow = JOB_FILES["wide-tuple"][0].replace("1,", "1, " * 4).encode()

    async def run() -> None:
        texts = JobTexts(limits)
        try:
            callers = [asyncio.create_task(texts.spec(slow, b"", False)) for _ in range(32)]
            await asyncio.sleep(0)
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
            with pytest.raises(UnavailableError, match="32 others wait"):
                await texts.spec(slow, b"", False)
        finally:
            await texts.close()

    asyncio.run(run())


def test_text_that_takes_too_long_is_the_callers_mistake() -> None:
    limits = ParseLimits(parse_processes=1, parse_timeout_s=0.01)
    slow = JOB_FILES["wide-tuple"][0].encode()

    async def run() -> None:
        texts = JobTexts(limits)
        try:
            with pytest.raises(InvalidInputError, match="parse_timeout_s"):
                await texts.spec(slow, b"", False)
        finally:
            await texts.close()

    asyncio.run(run())
