"""Packs of git objects between servers: `git pack-objects` makes one, `git index-pack` reads it.

A pack that arrives is checked like a push: every object by fsck, then that no object is missing. It
becomes part of the mirror whole and on disk, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence

from orchgit.errors import NotFoundError, TimedOutError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.git.quarantine import PackLimit, Quarantine, check_connected
from orchgit.gitops.git.refs import is_commit_id
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.wire.messages import PackFrame

MAX_IDS = 30_000
_MAX_HAVES = 1_000
_KEEP_ALIVE_S = 5.0
_PACK_OBJECTS = ["pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"]


def known_to(mirror: Mirror) -> list[str]:
    """Returns the newest ref targets of the mirror, which another server need not send."""
    targets = mirror.open().refs().values()
    return list(dict.fromkeys(targets))[-_MAX_HAVES:]


async def lacking(git: GitProcess, mirror: Mirror, object_ids: Iterable[str]) -> frozenset[str]:
    """Returns which objects are not here with everything reachable from them. Objects found
    complete are added to `mirror.held`."""
    repository = mirror.open()
    unsure = set(object_ids) - mirror.held
    if not unsure:
        return frozenset()
    shown = set((await asyncio.to_thread(repository.refs)).values())
    mirror.held |= unsure & shown
    unsure -= shown
    found = sorted(each for each in unsure if repository.has_object(each))
    for some in [found] if len(found) < 2 else [found, *([each] for each in found)]:
        if not some or mirror.held.issuperset(some):
            continue
        if (await check_connected(git, mirror.path, some)).returncode == 0:
            mirror.held.update(some)
    return frozenset(unsure - mirror.held)


async def make_pack(
    git: GitProcess, mirror: Mirror | None, wants: Sequence[str], haves: Sequence[str]
) -> AsyncGenerator[PackFrame, None]:
    """Yields which of the wants are not here, then a pack: the others with everything reachable
    from them, without what is reachable from the haves."""
    repository = mirror.open() if mirror is not None else None
    ids = [each for each in wants[:MAX_IDS] if is_commit_id(each)]
    here = [each for each in ids if repository is not None and repository.has_object(each)]
    yield PackFrame(missing=[each for each in wants if each not in set(here)])
    if mirror is None or repository is None or not here:
        return
    known = [each for each in haves[:MAX_IDS] if repository.has_object(each)]
    revisions = "".join([*(f"{each}\n" for each in here), *(f"^{each}\n" for each in known)])
    chunks = git.stream(
        [f"--git-dir={mirror.path}", "-c", "pack.threads=1", *_PACK_OBJECTS],
        timeout_s=git.limits.mirror_timeout_s,
        stdin=revisions.encode(),
    )
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield PackFrame(data=chunk)


def mirror_limit(limits: GitLimits, server: str) -> PackLimit:
    what = f"the objects that {server} sends"
    return PackLimit(what, "max_mirror_bytes", limits.max_mirror_bytes, limits.mirror_timeout_s)


async def take_pack(
    git: GitProcess,
    mirror: Mirror,
    server: str,
    wants: Collection[str],
    frames: AsyncGenerator[PackFrame, None],
) -> None:
    """Takes in the frames that `server` sent; the wants it had are in `mirror.held` afterwards.

    The caller holds `mirror.fetching`. Raises NotFoundError if the server had none of the wants,
    and TimedOutError if it sends nothing for `mirror_silence_s`.
    """
    frames = _bounded_silence(frames, git.limits.mirror_silence_s, server)
    missing = set((await anext(frames, PackFrame(missing=list(wants)))).missing)
    found = sorted(set(wants) - missing)
    if not found:
        raise NotFoundError(f"cannot get the objects of {mirror.name!r} from {server}: it has none")
    quarantine = Quarantine(git, mirror.path, mirror_limit(git.limits, server))
    try:
        await quarantine.receive(frame.data async for frame in frames)
        await quarantine.check_connected(found)
        async with mirror.lock:
            quarantine.accept()
    finally:
        await asyncio.to_thread(quarantine.discard)
    mirror.held.update(found)


async def _bounded_silence(
    frames: AsyncGenerator[PackFrame, None], silence_s: float, server: str
) -> AsyncGenerator[PackFrame, None]:
    """Yields the frames. Raises TimedOutError if the server sends nothing for `silence_s`."""
    try:
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    frame = await anext(frames)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise TimedOutError(
                    f"cannot get objects from {server}: it sent nothing for {silence_s:g} s"
                ) from None
            yield frame
    finally:
        await frames.aclose()


async def with_keep_alives(
    frames: AsyncGenerator[PackFrame, None],
) -> AsyncGenerator[PackFrame, None]:
    """Yields the frames, and an empty one whenever the next takes longer than five seconds."""
    coming = asyncio.ensure_future(_next(frames))
    try:
        while True:
            done, _ = await asyncio.wait((coming,), timeout=_KEEP_ALIVE_S)
            if not done:
                yield PackFrame()
                continue
            frame = coming.result()
            if frame is None:
                return
            coming = asyncio.ensure_future(_next(frames))
            yield frame
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await frames.aclose()


async def _next(frames: AsyncGenerator[PackFrame, None]) -> PackFrame | None:
    return await anext(frames, None)
