"""Everything that an operator sets for sending."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from assent.effects.callback_settings import CallbackSettings
from assent.effects.settings import EffectSettings, SmtpSettings

if TYPE_CHECKING:
    from assent.effects.deliver import Deliverer
    from assent.effects.outlets import Outlets


@dataclass(frozen=True, slots=True)
class SendingSettings:
    """Settings of sending; those that are not passed come from the environment."""

    effects: EffectSettings = field(default_factory=EffectSettings)
    smtp: SmtpSettings = field(default_factory=SmtpSettings)
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)

    @classmethod
    def defaults(cls, effects: EffectSettings | None = None) -> Self:
        """Return these settings, and defaults for the others, whatever the environment holds."""
        effects = effects or EffectSettings.defaults()
        return cls(effects, SmtpSettings.defaults(), CallbackSettings.defaults())

    def deliverer(self, outlets: "Outlets") -> "Deliverer":
        # Imported here: a process that sends nothing needs no HTTP.
        from assent.effects.callbacks import callbacks_of  # noqa: PLC0415
        from assent.effects.deliver import Deliverer  # noqa: PLC0415

        return Deliverer(outlets, self.effects, self.smtp, callbacks_of(self.callbacks))
