"""Money as people read it: minor units of a currency as a number with its code. Pure."""

from decimal import Context, Decimal
from typing import Final

from assent.model.values import DECIMAL_DIGITS_MAX

_WITHOUT_MINOR: Final = frozenset(
    (
        *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
        *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
    )
)
_MILLS: Final = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
"""Currencies whose minor units, by ISO 4217, are not hundredths."""
_SWAPPED: Final = str.maketrans(",.", ".,")
COMMA_LANGUAGES: Final = frozenset({"de"})
"""The languages that write 20.600,00 and not 20,600.00."""


def money_text(units: int | Decimal, currency: str | None = None, language: str = "en") -> str:
    """Return minor units as people read money: 2060000 of EUR is `20,600.00 EUR`."""
    code = (currency or "").upper()
    digits = 0 if code in _WITHOUT_MINOR else 3 if code in _MILLS else 2
    text = f"{Decimal(units).scaleb(-digits, context=Context(prec=DECIMAL_DIGITS_MAX)):,.{digits}f}"
    if language in COMMA_LANGUAGES:
        text = text.translate(_SWAPPED)
    return f"{text} {currency}" if currency else text


def figure_text(figure: object, currency: str | None, language: str = "en") -> str | None:
    """Return the figure of an inbox as people read it: as money where its currency is known."""
    if figure is None:
        return None
    if currency is not None and isinstance(figure, int | Decimal) and not isinstance(figure, bool):
        return money_text(figure, currency, language)
    return f"{figure:f}" if isinstance(figure, Decimal) else str(figure)
