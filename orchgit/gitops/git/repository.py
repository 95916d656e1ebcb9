"""Bare repositories, read and written through libgit2: the only module that imports pygit2.

Content comes from the object database by id. There is no checkout; links and submodules are listed
and never followed. A `Repository` is a cheap handle for one piece of work in one thread; the
`TreeCache` is shared between handles.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pygit2
from pygit2.enums import DiffOption, FileMode, ObjectType

from orchgit.errors import NotFoundError, SourceError, TooLargeError
from orchgit.gitops.git.globs import compile_globs
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.refs import check_ref_name, is_commit_id
from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import Commit

_MAX_SUBJECT = 200
_TREES_CACHED = 8
_ID_BEGINNING = re.compile(r"[0-9a-f]{4,64}")
_WHOLE_DIFF = DiffOption.SHOW_BINARY


class EntryKind(StrEnum):
    FILE = "file"
    LINK = "link"
    SUBMODULE = "submodule"
    NO_TEXT_PATH = "no-text-path"
    """An entry whose path is not UTF-8, so that neither job files nor messages can name it."""


_KINDS = {FileMode.LINK: EntryKind.LINK, FileMode.COMMIT: EntryKind.SUBMODULE}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a tree that is not a directory. `blob_id` is a commit's id for a submodule. Bytes
    of the path that are not UTF-8 are written as `\\xff`."""

    path: str
    blob_id: str
    kind: EntryKind


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit with its whole message, its tree and its parents."""

    commit: Commit
    message: str
    tree_id: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathFilter:
    """Takes the paths that match any of `globs` and none of `exclude`."""

    globs: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Returns whether the filter takes the whole path."""
        wanted, unwanted = compile_globs(self.globs), compile_globs(self.exclude)
        return wanted.fullmatch(path) and not unwanted.fullmatch(path)


TreePlace = tuple[str, str, bool, PathFilter | None]
"""What the entries listed below a directory depend on: its tree's id, its path ('' or with a slash
at the end), whether that path is UTF-8, and the filter."""


class TreeCache:
    """Caches what is listed below each directory, so that an unchanged one is walked once. Tree ids
    name content, so nothing invalidates an entry. The oldest leave first, as soon as all lists
    together have more than `min_entries`, and more than some trees like the largest have."""

    def __init__(self, min_entries: int = 100_000) -> None:
        self._max_entries = min_entries
        self._lists: dict[TreePlace, tuple[TreeEntry, ...]] = {}
        self._size = 0
        self._lock = threading.Lock()

    def get(self, place: TreePlace) -> tuple[TreeEntry, ...] | None:
        """Returns the cached entries, or None."""
        return self._lists.get(place)

    def put(self, place: TreePlace, entries: tuple[TreeEntry, ...]) -> None:
        """Caches the entries, with their paths from the root."""
        with self._lock:
            self._remove(place)
            self._lists[place] = entries
            self._size += len(entries) + 1
            self._max_entries = max(self._max_entries, _TREES_CACHED * len(entries))
            while self._size > self._max_entries:
                self._remove(next(iter(self._lists)))

    def _remove(self, place: TreePlace) -> None:
        old = self._lists.pop(place, None)
        self._size -= len(old) + 1 if old is not None else 0


def matching_entries(
    entries: Iterable[TreeEntry], globs: Sequence[str], exclude: Sequence[str] = ()
) -> list[TreeEntry]:
    """Returns the entries whose path matches any of the globs and none of `exclude`."""
    wanted = PathFilter(tuple(globs), tuple(exclude))
    return [entry for entry in entries if wanted.takes(entry.path)]


def init_bare(path: Path) -> None:
    """Makes a bare repository, readable by this user only, if there is none yet."""
    if not (path / "HEAD").exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        pygit2.init_repository(str(path), bare=True, initial_head="main")
    # Of libgit2's template; nothing of it is ever run or read.
    shutil.rmtree(path / "hooks", ignore_errors=True)
    (path / "description").unlink(missing_ok=True)


class Repository:
    """A handle of one repository. `quarantine` adds an object directory whose objects are not part
    of the repository yet. Raises SourceError if there is no repository at `path`."""

    def __init__(
        self,
        path: Path,
        limits: GitLimits,
        cache: TreeCache | None = None,
        quarantine: Path | None = None,
    ) -> None:
        self._limits = limits
        self._cache = cache or TreeCache()
        self._files = self._directories = 0
        """What this walk of a tree has met, without directories that are cached."""
        try:
            self._git = pygit2.Repository(str(path))
            if quarantine is not None:
                self._git.odb.add_disk_alternate(str(quarantine))
        except pygit2.GitError as error:
            raise SourceError(f"cannot open the repository {path.name}: {error}") from error

    def refs(self) -> dict[str, str]:
        """Returns every ref with the id it points at, sorted by name; tags are not peeled."""
        # A look-up by name would never free the name: pygit2 1.21 counts one reference too many.
        refs = ((ref.name, ref.target) for ref in self._git.references.iterator())
        return dict(sorted((name, str(to)) for name, to in refs if not isinstance(to, str)))

    def head(self) -> str:
        """Returns the name of the branch that a clone checks out; the branch may not exist yet."""
        return str(self._git.lookup_reference("HEAD").target)

    def has_object(self, object_id: str) -> bool:
        """Returns whether the object itself is here."""
        return is_commit_id(object_id) and object_id in self._git

    def set_head(self, ref: str) -> None:
        """Sets the branch that a clone checks out."""
        self._git.set_head(check_ref_name(ref))

    def resolve(self, name: str) -> str | None:
        """Returns the commit that a full ref name points at, tags peeled; None if there is none."""
        found = self._git.references.get(sys.intern(name))  # freed never, see `refs`
        if found is None:
            return None
        try:
            return self.peel(str(found.resolve().target))
        except (pygit2.GitError, ValueError):
            return None

    def peel(self, object_id: str) -> str | None:
        """Returns the commit that an object is, or that a tag leads to; None for any other."""
        try:
            found = self._git.get(object_id)
            return str(found.peel(pygit2.Commit).id) if found is not None else None
        except (pygit2.GitError, ValueError):
            return None

    def find_commit(self, text: str) -> str | None:
        """Returns the id of the one commit whose id begins with the text, of four hexadecimal
        digits or more; None if there is none, or several objects."""
        if _ID_BEGINNING.fullmatch(text) is None:
            return None
        try:
            found = self._git.get(text)
        except (pygit2.GitError, ValueError):
            return None  # several
        if found is None or found.type != ObjectType.COMMIT:
            return None
        return str(found.id)

    def has_commit(self, commit_id: str) -> bool:
        """Returns whether the text is the id of a commit that is here."""
        if not is_commit_id(commit_id):
            return False
        found = self._git.get(commit_id)
        return found is not None and found.type == ObjectType.COMMIT

    def commit(self, commit_id: str) -> CommitInfo:
        """Raises NotFoundError if the commit is not here."""
        found = self._commit(commit_id)
        encoding = _header_encoding(found)
        message = decode_text(found.raw_message, encoding)
        subject = message.strip().splitlines()[:1] or [""]
        return CommitInfo(
            Commit(
                id=str(found.id),
                author=decode_text(found.author.raw_name, encoding),
                email=decode_text(found.author.raw_email, encoding),
                subject=subject[0][:_MAX_SUBJECT],
                time_ns=found.commit_time * NS_PER_S,
            ),
            message,
            str(found.tree_id),
            tuple(str(parent) for parent in found.parent_ids),
        )

    def _commit(self, commit_id: str) -> pygit2.Commit:
        found = self._git.get(commit_id) if is_commit_id(commit_id) else None
        if not isinstance(found, pygit2.Commit):
            raise NotFoundError(f"cannot find commit {commit_id[:12]} in this repository")
        return found

    def is_descendant(self, commit_id: str, ancestor_id: str) -> bool:
        """Returns whether `ancestor_id` is `commit_id` or one of its ancestors."""
        if commit_id == ancestor_id:
            return True
        if not self.has_commit(ancestor_id) or not self.has_commit(commit_id):
            return False
        return bool(self._git.descendant_of(commit_id, ancestor_id))

    def commits_between(self, new_id: str, old_id: str, limit: int) -> list[CommitInfo]:
        """Returns the commits reachable from `new_id` and not from `old_id`, newest first."""
        walker = self._git.walk(new_id)
        walker.hide(old_id)
        return [self.commit(str(found.id)) for found in itertools.islice(walker, limit)]

    def diff(self, old_id: str, new_id: str, max_bytes: int) -> str:
        """Returns the difference between the trees of two commits, which `git apply` understands;
        '' if there is none, and if it is larger or not UTF-8."""
        found = self._git.diff(self._commit(old_id), self._commit(new_id), flags=_WHOLE_DIFF)
        size = sum(delta.old_file.size + delta.new_file.size for delta in found.deltas)
        try:
            text = (found.patch or "") if size <= max_bytes else ""
        except UnicodeDecodeError:
            return ""
        return text if len(text) <= max_bytes else ""

    def messages_between(self, new_id: str, old_id: str, limit: int = 1000) -> list[str]:
        """Returns the messages of the commits reachable from `new_id` and not from `old_id`, newest
        first."""
        walker = self._git.walk(new_id)
        if old_id and self.has_commit(old_id):
            walker.hide(old_id)
        messages = []
        for found in walker:
            messages.append(decode_text(found.raw_message, _header_encoding(found)))
            if len(messages) >= limit:
                break
        return messages

    def files(
        self, commit_id: str, globs: Sequence[str], exclude: Sequence[str] = ()
    ) -> list[TreeEntry]:
        """Returns what the globs match in the commit's tree and `exclude` does not, links and
        submodules too, sorted by path. Raises TooLargeError above `max_job_files`."""
        self._list(commit_id, None)  # which checks how large the whole tree is
        found = self._list(commit_id, PathFilter(tuple(globs), tuple(exclude)))
        if len(found) > self._limits.max_job_files:
            raise TooLargeError(
                f"cannot read {len(found)} job files in one commit: the limit max_job_files is "
                f"{self._limits.max_job_files}; narrow the source's paths"
            )
        return list(found)

    def tree(self, commit_id: str) -> dict[str, TreeEntry]:
        """Returns every entry of the commit's tree by path, in order of path. Raises TooLargeError
        above `max_tree_entries` and `max_tree_depth`."""
        return {entry.path: entry for entry in self._list(commit_id, None)}

    def _list(self, commit_id: str, wanted: PathFilter | None) -> tuple[TreeEntry, ...]:
        """Returns what the filter takes of the commit's tree, in order of path."""
        self._files = self._directories = 0
        tree = self._commit(commit_id).tree
        return self._list_below((str(tree.id), "", True, wanted), tree)

    def _list_below(self, place: TreePlace, tree: pygit2.Tree) -> tuple[TreeEntry, ...]:
        cached = self._cache.get(place)
        if cached is not None:
            self._files += len(cached)
            self._check_size()
            return cached
        _, directory, is_text, wanted = place
        if directory.count("/") > self._limits.max_tree_depth:
            raise TooLargeError(
                f"cannot list a tree deeper than the limit max_tree_depth, "
                f"{self._limits.max_tree_depth} directories"
            )
        self._directories += 1  # of a tree that names the same one again and again
        self._check_size()
        entries: list[TreeEntry] = []
        for item in tree:
            raw_name = item.raw_name or b""
            name = raw_name.decode("utf-8", "backslashreplace")
            is_utf8 = is_text and name.encode() == raw_name
            path = f"{directory}{name}"
            if item.filemode == FileMode.TREE and isinstance(item, pygit2.Tree):
                entries += self._list_below((str(item.id), f"{path}/", is_utf8, wanted), item)
                continue
            self._files += 1
            self._check_size()
            if wanted is None or wanted.takes(path):
                kind = _KINDS.get(item.filemode, EntryKind.FILE)
                kind = kind if is_utf8 else EntryKind.NO_TEXT_PATH
                entries.append(TreeEntry(path, str(item.id), kind))
        found = tuple(entries)
        self._cache.put(place, found)
        return found

    def _check_size(self) -> None:
        if max(self._files, self._directories) > self._limits.max_tree_entries:
            raise TooLargeError(
                "cannot list a tree of more entries than the limit max_tree_entries, "
                f"{self._limits.max_tree_entries}"
            )

    def read_blob(self, blob_id: str, path: str) -> bytes:
        """Returns the blob's content. Raises TooLargeError above `max_file_bytes`, without loading
        it."""
        try:
            _, size = self._git.odb.read_header(blob_id)
        except KeyError as error:
            raise SourceError(f"cannot read {path}: its content is missing here") from error
        if size > self._limits.max_file_bytes:
            raise TooLargeError(
                f"cannot read {path}: it has {size} bytes, and the limit max_file_bytes is "
                f"{self._limits.max_file_bytes}"
            )
        return self._git.odb.read(blob_id)[1]

    def set_ref(self, name: str, commit_id: str) -> None:
        """Points a ref at an object. The caller holds the mirror's lock."""
        self._git.references.create(check_ref_name(name), commit_id, force=True)

    def delete_refs(self, names: Collection[str]) -> None:
        """Deletes refs. The caller holds the mirror's lock."""
        found = self._git.references.iterator() if names else ()  # not by name, see `refs`
        for ref in [ref for ref in found if ref.name in names]:
            ref.delete()

    def write_commit(
        self,
        parent_id: str | None,
        changes: Mapping[str, bytes | None],
        author: Commit,
        message: str,
    ) -> str:
        """Writes a commit on top of `parent_id` with files put, or removed where their content is
        None. Returns its id; the commit is on disk then."""
        index = pygit2.Index()
        if parent_id is not None:
            index.read_tree(self._commit(parent_id).tree)
        with _fsync_objects():
            for path, content in changes.items():
                if content is None:
                    index.remove(path)
                else:
                    blob = self._git.create_blob(content)
                    index.add(pygit2.IndexEntry(path, blob, FileMode.BLOB))
            tree_id = str(index.write_tree(self._git))
        return self.write_commit_of_tree(tree_id, parent_id, author, message)

    def write_commit_of_tree(
        self, tree_id: str, parent_id: str | None, author: Commit, message: str
    ) -> str:
        """Writes a commit with a tree that is here. Returns its id; the commit is on disk then."""
        who = pygit2.Signature(author.author, author.email, author.time_ns // NS_PER_S, 0)
        parents = [parent_id] if parent_id is not None else []
        with _fsync_objects():
            return str(self._git.create_commit(None, who, who, message, tree_id, parents))


_TEXT_ENCODINGS = re.compile(
    r"utf-?8|us-ascii|latin-?1|iso-?8859-?\d{1,2}|(windows|cp)-?125\d", re.I
)
"""What `i18n.commitEncoding` is set to in practice. Python also has codecs that are slow, or are no
encodings of text, so a commit cannot choose freely."""


def decode_text(raw: bytes, encoding: str = "") -> str:
    """Returns text of a commit: decoded as UTF-8, else as its header says; other bytes are
    replaced."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        known = _TEXT_ENCODINGS.fullmatch(encoding) is not None
        return raw.decode(encoding if known else "utf-8", "replace")


def _header_encoding(commit: pygit2.Commit) -> str:
    try:
        return commit.message_encoding or ""
    except UnicodeDecodeError:
        return ""


@contextlib.contextmanager
def _fsync_objects() -> Iterator[None]:
    """Makes libgit2 fsync the objects that it writes. Refs need no fsync: the log has them."""
    pygit2.settings.enable_fsync_gitdir(True)
    try:
        yield
    finally:
        pygit2.settings.enable_fsync_gitdir(False)
