"""Why a certificate is not accepted: codes of OpenSSL (X509_V_ERR_*), of which `ssl` names none."""

from __future__ import annotations

UNKNOWN_AUTHORITY = frozenset((2, 18, 19, 20, 21))
"""No issuer is known, or one that signed itself."""
OVER = 10
WRONG_HOST = frozenset((62, 64))
"""It names another host, or another address."""
