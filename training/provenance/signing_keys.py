"""Keep this installation's key and secret, by which receipts are signed, and read the keys of others."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import uuid
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from core.errors import TalkbackError

KEY, SECRET = "key.pem", "secret"
"""Files of DATA_DIR/receipts."""


class ReceiptInvalid(TalkbackError):
    """This is no receipt, or cannot be read."""

    code, status = "receipt_invalid", 422


def nonce(of: str) -> bytes:
    """32 bytes that this installation alone can say."""
    return hmac.new(kept_secret(SECRET, lambda: secrets.token_bytes(32)), of.encode(), hashlib.sha256).digest()


def private_key() -> Ed25519PrivateKey:
    """This installation's key, made when it is first asked for, in DATA_DIR/receipts, for its owner alone."""
    read = serialization.load_pem_private_key(kept_secret(KEY, _new_key), password=None)
    if not isinstance(read, Ed25519PrivateKey):
        raise ReceiptInvalid("DATA_DIR/receipts/key.pem is not an Ed25519 key.")
    return read


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def fingerprint(key: Ed25519PublicKey) -> str:
    """What people compare: SHA-256 of the key, its first 16 bytes in groups of four digits."""
    told = hashlib.sha256(raw(key)).hexdigest()[:32]
    return " ".join(told[at : at + 4] for at in range(0, len(told), 4))


def public_key(file: Path) -> Ed25519PublicKey:
    """The key in a PEM file. Raises ReceiptInvalid."""
    try:
        read = serialization.load_pem_public_key(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ReceiptInvalid(f"{file.name} is not a public key.") from error
    if not isinstance(read, Ed25519PublicKey):
        raise ReceiptInvalid(f"{file.name} is not an Ed25519 key.")
    return read


def keys_folder() -> Path:
    return Path(settings.DATA_DIR) / "receipts"


def kept_secret(name: str, make: Callable[[], bytes]) -> bytes:
    """A secret file of this installation, 0600, made by the process that needs it first; of two at once both get the
    same."""
    folder = keys_folder()
    file = folder / name
    try:
        return file.read_bytes()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(make())
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(draft, file)  # fails where another was quicker, unlike a rename
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return file.read_bytes()
