"""Which addresses are public: every form of those that are not, and the controls that are."""

import pytest

from assent.effects.addresses import Allowed, refusal_of
from assent.effects.settings import EffectSettings, SmtpSettings
from assent.model.problems import Invalid
from tests.settings import read_from

REFUSED = {
    "loopback": ["127.0.0.1", "127.8.8.8", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1"],
    "link-local": ["169.254.0.1", "fe80::1", "fe80::1%1"],
    "metadata of clouds": [
        "169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    ],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],  # noqa: S104
    "carrier": ["100.64.0.1", "100.127.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1"],
    "reserved in IPv6": ["100::1", "2001:db8::1", "3fff::1", "4000::1", "fec0::1", "5f00::1"],
    "IPv4 in IPv6": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1"],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"],
    "6to4 and Teredo": ["2002:7f00:1::", "2002:808:808::1", "2001:0:7f00:1::", "192.88.99.1"],
}
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2a00:1450::1"]
NOTHING = Allowed()


@pytest.mark.parametrize("address", [address for some in REFUSED.values() for address in some])
def test_address_that_is_not_public_is_refused(address: str) -> None:
    assert refusal_of(address, 443, NOTHING) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_taken(address: str) -> None:
    assert refusal_of(address, 443, NOTHING) is None


@pytest.mark.parametrize("port", [22, 25, 53, 110, 445, 587, 1023])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    assert refusal_of("8.8.8.8", port, NOTHING) == f"port {port} is not one that HTTP is spoken on"


@pytest.mark.parametrize("port", [80, 443, 1024, 8080, 8443, 65535])
def test_ports_that_http_is_spoken_on_are_taken(port: int) -> None:
    assert refusal_of("8.8.8.8", port, NOTHING) is None


def test_allowed_network_is_allowed_in_every_form_and_no_further() -> None:
    allowed = Allowed.read(["10.1.0.0/16", "fd00::/8", "127.0.0.1"])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::7", "127.0.0.1"):
        assert refusal_of(address, 25, allowed) is None, address
    for address in ("10.2.0.1", "127.0.0.2", "169.254.169.254", "fc00::1"):
        assert refusal_of(address, 443, allowed) is not None, address


def test_settings_are_read_from_the_environment() -> None:
    found = read_from(
        EffectSettings,
        {"ASSENT_EFFECTS_ALLOW": "10.0.0.0/8, Billing.Internal", "ASSENT_EFFECTS_LOG": "sms,chat"},
    )
    assert found.allow == Allowed.read(["10.0.0.0/8", "billing.internal"])
    assert found.allow.has_host("billing.internal.")
    assert found.log == {"sms", "chat"}
    assert read_from(EffectSettings, {"ASSENT_EFFECTS_LOG": "all"}).log == {
        "email",
        "sms",
        "in_app",
        "chat",
    }
    assert "secret" not in repr(read_from(SmtpSettings, {"ASSENT_SMTP_PASSWORD": "secret"}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ALLOW", "10.0.0.0/99"),
        ("ALLOW", "https://host/"),
        ("ALLOW", "*"),
        ("LOG", "pigeon"),
        ("REDIRECTS_MAX", "many"),
    ],
)
def test_bad_setting_is_told_by_its_name(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=f"ASSENT_EFFECTS_{name}"):
        read_from(EffectSettings, {f"ASSENT_EFFECTS_{name}": text})


def test_bad_mode_of_the_mail_server_is_told_by_its_name() -> None:
    with pytest.raises(Invalid, match="ASSENT_SMTP_TLS"):
        read_from(SmtpSettings, {"ASSENT_SMTP_TLS": "maybe"})


@pytest.mark.parametrize(
    "host", ["xgood.example", "good.example.evil.example", "sub.good.example", "good.exampl", "good", ""]
)
def test_only_the_very_name_that_is_allowed_is_trusted(host: str) -> None:
    allowed = Allowed.read(["good.example"])
    assert allowed.has_host("good.example")
    assert allowed.has_host("GOOD.example.")
    assert not allowed.has_host(host)
