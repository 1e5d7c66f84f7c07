"""The secrets of a deployment."""

import json
import stat
from pathlib import Path

import pytest

from service_kit.embedded import keys
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.home import Home
from service_kit.identity import PassportSigner, PassportVerifier


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    with made.claim():
        return made


def test_secrets_are_made_once_and_found_again(home: Home):
    first, second = keys.ensure(home), keys.ensure(home)
    assert first == second
    assert set(first.role_passwords) == {"authz", "memory", "runner", "provider"}
    assert len({*first.role_passwords.values(), *first.service_tokens.values()}) == 8


def test_nobody_else_can_read_them(home: Home):
    keys.ensure(home)
    files = [home.admin_token, *home.keys.iterdir()]
    assert len(files) == 7
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


def test_the_keys_sign_passports_that_the_others_verify(home: Home):
    made = keys.ensure(home)
    passport = PassportSigner(made.signing_key).sign("person:alice")
    assert PassportVerifier(made.verification_keys).verify(passport.token).principal == "person:alice"


def test_authz_is_told_of_the_administrator_and_of_every_service(home: Home):
    made = keys.ensure(home)
    told = json.loads(made.bootstrap.read_text())
    assert told["admin_token"] == home.admin_token.read_text().strip()
    assert told["service_tokens"] == made.service_tokens
    assert set(made.service_tokens) == {"gateway", "memory", "runner", "provider"}


def test_a_removed_admin_token_is_made_anew_and_told_to_authz(home: Home):
    keys.ensure(home)
    before = home.admin_token.read_text()
    home.admin_token.unlink()
    made = keys.ensure(home)
    after = home.admin_token.read_text()
    assert after != before
    assert json.loads(made.bootstrap.read_text())["admin_token"] == after.strip()


def test_a_lost_password_of_an_existing_database_is_not_replaced(home: Home):
    keys.ensure(home)
    (home.postgres / "data").mkdir()
    (home.keys / "postgres.password").unlink()
    with pytest.raises(LaunchError, match="opens with nothing else"):
        keys.ensure(home)
    assert not (home.keys / "postgres.password").exists()


def test_a_damaged_file_of_secrets_is_named(home: Home):
    keys.ensure(home)
    (home.keys / "roles.json").write_text("{")
    with pytest.raises(LaunchError, match=r"roles\.json is damaged"):
        keys.ensure(home)
