"""The first management token of a cluster."""

from __future__ import annotations

from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclToken, TokenType
from orchgit.replication.commands.acl import BootstrapAcl
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.tokens import NewToken, sealed_token
from orchgit.services.identifiers import is_uuid
from orchgit.whole_number import whole_number

_MAX_RESET_FILE_BYTES = 64


async def bootstrap(acl: AclContext, chosen_secret: str = "") -> NewToken:
    """Makes the first management token, once.

    An operator who has lost every management token writes the index that the refusal names into
    the reset file of the leader; then a second bootstrap makes another token.
    """
    if chosen_secret and not is_uuid(chosen_secret):
        raise InvalidInputError("invalid acl token")
    token = AclToken(
        name="Bootstrap Token",
        type=TokenType.MANAGEMENT,
        is_global=True,
        create_time_ns=acl.context.now_ns(),
    )
    reset_index = _reset_index(acl)
    with acl.context.snapshot() as snapshot:
        last = snapshot.acl_bootstrap.index()
    if last and not reset_index:  # as the log would: strangers' attempts must not fill it
        raise InvalidInputError(f"ACL bootstrap already done (reset index: {last})")
    made = await sealed_token(acl, token, chosen_secret)
    command = BootstrapAcl(now_ns=acl.context.now_ns(), token=made.token, reset_index=reset_index)
    stored = (await acl.context.propose(command)).result
    assert isinstance(stored, AclToken)
    return NewToken(stored, made.secret)


def _reset_index(acl: AclContext) -> int:
    """Returns the number in the reset file; 0 where there is no file, or no number in it."""
    path = acl.settings.reset_file
    if path is None:
        return 0
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_RESET_FILE_BYTES).decode(errors="replace")
    except OSError:
        return 0
    return whole_number(text.strip()) or 0
