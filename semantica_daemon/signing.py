"""The Ed25519 key that signs receipts. It is made on first use, in a folder that only the user may read: `private.pem`
and, for those who check receipts, `public.pem`. The public half of a key that was replaced stays beside them.

Everything here reads files: call it in a thread. The package cryptography is imported when the first receipt needs it.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from semantica_daemon.paths import make_private

PRIVATE, PUBLIC = "private.pem", "public.pem"


class SigningKey:
    """`replaced`: the file that the private key was moved to because it could not be read as one."""

    def __init__(self, folder: Path, private: Any, replaced: Path | None = None) -> None:
        self.folder = folder
        self.replaced = replaced
        self._private = private
        self.key_id = key_id_of(private.public_key())

    def sign(self, document: bytes) -> bytes:
        """64 bytes; the same document has the same signature."""
        signature: bytes = self._private.sign(document)
        return signature


def open_key(folder: Path) -> SigningKey:
    """Loads the key, or makes one. A file that holds no key is moved aside, so that a damaged key stops no job."""
    make_private(folder)
    path, replaced = folder / PRIVATE, None
    private = None
    with suppress(FileNotFoundError):
        private = _load_private(path.read_bytes())
        if private is None:
            replaced = _free_name(folder, f"{PRIVATE}.damaged")
            path.rename(replaced)
    if private is None:
        private = _make_private(path)
    _write_public(folder, private.public_key())
    return SigningKey(folder, private, replaced)


def is_signed(folder: Path, key_id: str, document: bytes, signature: bytes) -> bool | None:
    """Whether the key with this id has signed the document; None when its public half is not in the folder."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    for public in _public_keys(folder):
        if key_id_of(public) == key_id:
            try:
                public.verify(signature, document)
            except InvalidSignature:
                return False
            return True
    return None


def public_pem(folder: Path, key_id: str) -> str | None:
    """The public half of the key with this id, as text for a file."""
    for public in _public_keys(folder):
        if key_id_of(public) == key_id:
            return _pem(public).decode()
    return None


def key_id_of(public: Any) -> str:
    """openssl pkey -pubin -in public.pem -outform DER | sha256sum"""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _load_private(pem: bytes) -> Any | None:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        private = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return private if isinstance(private, Ed25519PrivateKey) else None


def _make_private(path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    private = Ed25519PrivateKey.generate()
    _write(path, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    return private


def _public_keys(folder: Path) -> Iterator[Any]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    for path in sorted(folder.glob("public*.pem")):
        with suppress(ValueError, OSError):
            public = load_pem_public_key(path.read_bytes())
            if isinstance(public, Ed25519PublicKey):
                yield public


def _pem(public: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    pem: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def _write_public(folder: Path, public: Any) -> None:
    """Writes public.pem unless it is there; one that belongs to another key is kept under another name."""
    path, pem = folder / PUBLIC, _pem(public)
    with suppress(FileNotFoundError):
        if path.read_bytes() == pem:
            return
        path.rename(_free_name(folder, "public-earlier", ".pem"))
    _write(path, pem, 0o644)


def _free_name(folder: Path, stem: str, suffix: str = "") -> Path:
    number = 1
    while (path := folder / f"{stem}-{number}{suffix}").exists():
        number += 1
    return path


def _write(path: Path, data: bytes, mode: int) -> None:
    """The file is complete or not there, also after a crash."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
