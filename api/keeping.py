"""What an admin does with stored speakers, whichever door it comes through. Knows nothing of HTTP."""

import time
from dataclasses import fields
from typing import TYPE_CHECKING

from api.errors import RequestRefused, SettingsError
from api.settings import Settings
from store.types import PrunePolicy

if TYPE_CHECKING:
    from store.service import Store

PURGE_EVERY_S = 60.0


def prune_policy(conditions: dict[str, object]) -> PrunePolicy:
    """The policy of these conditions. Raises: RequestRefused where none is set."""
    known = [field.name for field in fields(PrunePolicy)]
    # Zero is a condition; False and an empty list are none.
    absent = [name for name in known if (value := conditions.get(name)) is None or value is False or value == []]
    given = {name: conditions[name] for name in known if name not in absent}
    if not given:
        raise RequestRefused("missing_field", f"say who goes: set one of {', '.join(known)}", field="unused_for_days")
    if "retired_encoders" in given:
        given["retired_encoders"] = tuple(conditions["retired_encoders"])  # type: ignore[arg-type]
    return PrunePolicy(**given)  # type: ignore[arg-type]


class Schedule:
    """Prunes by the settings' policy, and purges whose time is over, consents too, whenever it is due."""

    def __init__(self, settings: Settings) -> None:
        """Raises: SettingsError where pruning is scheduled without a condition."""
        if settings.prune_every_s and all(value is None for value in settings.schedule().values()):
            names = ", ".join(f"VOICEKIN_PRUNE_{name.upper()}" for name in settings.schedule())
            raise SettingsError("settings_invalid", f"VOICEKIN_PRUNE_EVERY_S is set: set one of {names} too")
        self._every_s = settings.prune_every_s
        self._policy = prune_policy(settings.schedule()) if self._every_s else None
        self._pruned_s = self._purged_s = time.monotonic()

    def run(self, store: "Store") -> None:
        """Does what is due by now. Raises: StoreError."""
        now_s = time.monotonic()
        if self._policy is not None and now_s - self._pruned_s >= self._every_s:
            self._pruned_s = now_s
            store.prune(self._policy, actor="schedule")
        if now_s - self._purged_s >= PURGE_EVERY_S:
            self._purged_s = now_s
            store.tend_audio()
            store.expire_consents(actor="schedule")
            # An empty purge writes nothing but a line of the audit, which nobody needs every minute.
            if store.stats().n_deleted:
                store.purge(actor="schedule")
