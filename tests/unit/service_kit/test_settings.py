import pytest
from pydantic import SecretStr, ValidationError

from service_kit.settings import EmbeddingSettings, ModelSettings, Settings, SettingsError, load


def test_settings_come_from_prefixed_variables_and_standard_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GROVE_PORT", "8123")
    monkeypatch.setenv("GROVE_MODEL_NAME", "small")
    monkeypatch.setenv("GROVE_EMBEDDING_DIMENSIONS", "384")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert Settings.load().port == 8123
    assert Settings.load().otlp_endpoint == "http://127.0.0.1:4318"
    assert ModelSettings.load().model_name == "small"
    assert EmbeddingSettings.load().embedding_dimensions == 384


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GROVE_DATABASE_URL", "")
    assert Settings.load().database_url is None


def test_settings_cannot_be_changed():
    settings = Settings()
    with pytest.raises(ValidationError):
        setattr(settings, "port", 1)  # noqa: B010 - the type checker refuses the plain form


def test_a_malformed_setting_is_named_and_its_value_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GROVE_PORT", "hunter2")
    monkeypatch.setenv("GROVE_RPC_TIMEOUT_S", "-1")
    with pytest.raises(SettingsError) as told:
        Settings.load()
    assert "GROVE_PORT" in str(told.value)
    assert "GROVE_RPC_TIMEOUT_S" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_main_ends_with_one_line_and_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GROVE_PORT", "many")
    with pytest.raises(SystemExit) as ended:
        load(Settings)
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["dsn", "redis", "token", "keys_file"])
def test_a_missing_setting_is_named_when_it_is_needed(name: str):
    with pytest.raises(SettingsError, match=r"GROVE_\w+ is not set"):
        getattr(Settings(), name)()


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch):
    settings = Settings(
        database_url=SecretStr("postgresql://u:hunter2@h/d"), service_token=SecretStr("gk_hunter2")
    )
    assert "hunter2" not in repr(settings)
    assert settings.dsn().endswith("hunter2@h/d")
    assert settings.token() == "gk_hunter2"
