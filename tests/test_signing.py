"""The key that signs receipts: made once, private, replaced when it is damaged; openssl agrees with its signatures."""

import hashlib
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from semantica_daemon.signing import is_signed, open_key, public_pem

DOCUMENT = b'{"a":1}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_the_key_is_made_once_and_only_the_user_reads_it(folder: Path) -> None:
    first = open_key(folder)
    assert stat.S_IMODE((folder / "private.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["private.pem", "public.pem"]
    again = open_key(folder)
    assert (again.key_id, again.sign(DOCUMENT), again.replaced) == (first.key_id, first.sign(DOCUMENT), None)


def test_a_changed_document_signature_or_key_is_noticed(folder: Path) -> None:
    key = open_key(folder)
    signature = key.sign(DOCUMENT)
    assert is_signed(folder, key.key_id, DOCUMENT, signature) is True
    assert is_signed(folder, key.key_id, DOCUMENT + b" ", signature) is False
    assert is_signed(folder, key.key_id, DOCUMENT, signature[:-1] + bytes([signature[-1] ^ 1])) is False
    assert is_signed(folder, key.key_id, DOCUMENT, b"") is False
    assert is_signed(folder, "0" * 64, DOCUMENT, signature) is None


def test_a_damaged_key_is_moved_aside_and_what_it_signed_can_still_be_checked(folder: Path) -> None:
    earlier = open_key(folder)
    signature = earlier.sign(DOCUMENT)
    (folder / "private.pem").write_text("no key")
    key = open_key(folder)
    assert key.replaced is not None
    assert key.replaced.read_text() == "no key"
    assert key.key_id != earlier.key_id
    assert is_signed(folder, earlier.key_id, DOCUMENT, signature) is True
    assert public_pem(folder, earlier.key_id) == (folder / "public-earlier-1.pem").read_text()
    assert public_pem(folder, key.key_id) == (folder / "public.pem").read_text()


def test_a_removed_public_key_is_written_again(folder: Path) -> None:
    key = open_key(folder)
    pem = (folder / "public.pem").read_text()
    (folder / "public.pem").unlink()
    assert public_pem(folder, key.key_id) is None
    assert open_key(folder).key_id == key.key_id
    assert (folder / "public.pem").read_text() == pem


@pytest.mark.skipif(shutil.which("openssl") is None, reason="NOT TESTED: openssl is not installed")
def test_openssl_agrees_with_the_id_of_the_key(folder: Path) -> None:
    key = open_key(folder)
    command = ["openssl", "pkey", "-pubin", "-in", str(folder / "public.pem"), "-outform", "DER"]
    assert hashlib.sha256(subprocess.check_output(command)).hexdigest() == key.key_id
