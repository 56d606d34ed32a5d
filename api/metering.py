"""Who pays for what is spoken: characters are counted before they are spoken, and given back where we failed."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from api.limits import Standing
from cloning.errors import Overloaded
from store.errors import StoreError
from store.key_usage import month_begin, month_end

if TYPE_CHECKING:
    from api.access import KeyLog
    from api.limits import Standings
    from store.key_types import ApiKey, Spending
    from store.service import Store

logger = logging.getLogger("voicekin")


class Meter:
    """Counts the characters of one caller."""

    @contextmanager
    def charged(self, n_characters: int) -> Iterator[None]:
        """Counts them before the block; gives them back where it fails, unless the listener went away.

        Raises: QuotaExceeded, before the block.
        """
        yield


@dataclass(frozen=True, slots=True)
class KeyMeter(Meter):
    """Counts for a key of the store: at once where the key has a quota, else in bulk."""

    store: Store
    log: KeyLog
    key: ApiKey
    standings: Standings

    @contextmanager
    def charged(self, n_characters: int) -> Iterator[None]:
        if self.key.terms.limits.characters_per_month is None:
            yield
            self.log.add(self.key.id, n_characters)
            return
        spending = self.store.spend_characters(self.key.id, n_characters)
        self._note(spending)
        try:
            yield
        except Exception as error:
            if not (isinstance(error, Overloaded) and error.code == "cancelled"):
                self._give_back(spending)
            raise

    def _give_back(self, spending: Spending) -> None:
        try:
            self.store.give_back_characters(spending)
        except StoreError as error:
            logger.warning("characters of %s could not be given back: %s", self.key.prefix, error)

    def _note(self, spending: Spending) -> None:
        if spending.limit is None:
            return
        now = datetime.now(UTC)
        ends = month_end(now)
        reset_s = math.ceil((ends - now).total_seconds())
        window_s = round((ends - month_begin(now)).total_seconds())
        remaining = max(0, spending.limit - spending.used)
        self.standings.note(Standing("characters", spending.limit, remaining, reset_s, window_s))
