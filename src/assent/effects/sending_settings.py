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
    effects: EffectSettings = field(default_factory=EffectSettings)
    smtp: SmtpSettings = field(default_factory=SmtpSettings)
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)

    @classmethod
    def from_environment(cls) -> Self:
        """The settings that the environment holds; `Invalid` lists every variable that is wrong."""
        environment = EffectSettings.from_environment(), SmtpSettings.from_environment()
        return cls(*environment, CallbackSettings.from_environment())

    def deliverer(self, outlets: "Outlets") -> "Deliverer":
        # Imported here: whoever sends nothing needs no HTTP.
        from assent.effects.callbacks import callbacks_of  # noqa: PLC0415
        from assent.effects.deliver import Deliverer  # noqa: PLC0415

        return Deliverer(outlets, self.effects, self.smtp, callbacks_of(self.callbacks))
