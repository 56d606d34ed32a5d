"""The shapes of what is asked and answered about API keys."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from api.schemas import EXAMPLE_ID, Strict
from store.key_types import SCOPES, ApiKey, KeyLimits, KeyPage, KeyTerms
from store.keys import LIMITS
from store.tables import TENANT_CHARACTERS

Scope = Literal["speak", "enrol", "admin"]
_MOST_DAYS = 3650


def _limit(field: str, words: str) -> Any:
    least, most = LIMITS[field]
    return Field(default=None, ge=least, le=most, description=f"{words}; null is without limit.")


class LimitsModel(Strict):
    """How much a key may do."""

    requests_per_minute: int | None = _limit("requests_per_minute", "Requests in any 60 seconds")
    characters_per_month: int | None = _limit(
        "characters_per_month", "Characters spoken in a month of the UTC calendar"
    )
    speakers: int | None = _limit("speakers", "Speakers that it has enrolled and that are still stored")

    def over(self, before: KeyLimits) -> KeyLimits:
        """The limits: what was sent replaces what was there."""
        return replace(before, **self.model_dump(exclude_unset=True))


class KeyIn(Strict):
    """A key to be made."""

    name: str = Field(description="What it is for.", min_length=1, max_length=200, examples=["Reading room"])
    scopes: list[Scope] = Field(
        default=["speak", "enrol"],
        min_length=1,
        max_length=len(SCOPES),
        description="What it may do: speak; enrol (add, change and delete speakers); admin (all).",
    )
    tenant: str = Field(
        default="",
        max_length=TENANT_CHARACTERS,
        description="Whose speakers and jobs it sees, adds and changes; by default those of the tenant without a name.",
        examples=["acme"],
    )
    limits: LimitsModel = Field(default_factory=LimitsModel)
    expires_at: AwareDatetime | None = Field(default=None, description="When it ends; by default never.")
    expires_in_days: float | None = Field(default=None, gt=0, le=_MOST_DAYS, description="The same, from now on.")

    def terms(self) -> KeyTerms:
        limits = self.limits.over(KeyLimits())
        return KeyTerms(self.name, frozenset(self.scopes), limits, _end(self), self.tenant)


class KeyChange(Strict):
    """What is to be different; what is left out stays. A revoked key stays revoked."""

    name: str | None = Field(default=None, min_length=1, max_length=200)
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=len(SCOPES))
    limits: LimitsModel | None = Field(default=None, description="Those that are named change; null lifts one.")
    expires_at: AwareDatetime | None = Field(default=None, description="Null is never.")
    expires_in_days: float | None = Field(default=None, gt=0, le=_MOST_DAYS, description="The same, from now on.")
    revoked: Literal[True] | None = Field(default=None, description="True ends it for good; it stays listed.")

    def apply(self, terms: KeyTerms) -> KeyTerms:
        """The terms with what was sent."""
        changed: dict[str, Any] = {}
        if self.name is not None:
            changed["name"] = self.name
        if self.scopes is not None:
            changed["scopes"] = frozenset(self.scopes)
        if self.limits is not None:
            changed["limits"] = self.limits.over(terms.limits)
        if {"expires_at", "expires_in_days"} & self.model_fields_set:
            changed["expires_at"] = _end(self)
        return replace(terms, **changed)


class UsageModel(BaseModel):
    """What a key has used."""

    characters_this_month: int = Field(description="Where the key has no quota, written every few seconds.")
    speakers: int


class KeyOut(BaseModel):
    """A key, without its secret."""

    key_id: str = Field(examples=[EXAMPLE_ID])
    name: str
    prefix: str = Field(description="How its secret begins.", examples=["vk_3f9a1c07"])
    scopes: list[Scope]
    tenant: str
    limits: LimitsModel
    state: Literal["live", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Written every few seconds.")

    @classmethod
    def fields_of(cls, key: ApiKey) -> dict[str, Any]:
        terms, over = key.terms, key.expired(datetime.now(UTC))
        return {
            "key_id": key.id,
            "name": terms.name,
            "prefix": key.prefix,
            "scopes": [scope for scope in SCOPES if scope in terms.scopes],
            "tenant": terms.tenant,
            "limits": LimitsModel(**asdict(terms.limits)),
            "state": "revoked" if key.revoked_at else "expired" if over else "live",
            "created_at": key.created_at,
            "expires_at": terms.expires_at,
            "revoked_at": key.revoked_at,
            "last_used_at": key.last_used_at,
        }

    @classmethod
    def of(cls, key: ApiKey) -> "KeyOut":
        return cls(**cls.fields_of(key))


class NewKeyOut(KeyOut):
    """A key that was just made; its secret is shown here and never again."""

    key: str = Field(description="The secret: keep it now, it cannot be shown again.")

    @classmethod
    def of_new(cls, made: tuple[ApiKey, str]) -> "NewKeyOut":
        return cls(**cls.fields_of(made[0]), key=made[1])


class KeyListedOut(KeyOut):
    """A key in a list, with what it has used."""

    usage: UsageModel

    @classmethod
    def of_listed(cls, key: ApiKey) -> "KeyListedOut":
        usage = UsageModel(characters_this_month=key.characters_this_month, speakers=key.n_speakers)
        return cls(**cls.fields_of(key), usage=usage)


class KeyPageOut(BaseModel):
    """Keys, oldest first."""

    keys: list[KeyListedOut]
    next_cursor: str | None
    total: int

    @classmethod
    def of(cls, page: KeyPage) -> "KeyPageOut":
        return cls(
            keys=[KeyListedOut.of_listed(key) for key in page.keys], next_cursor=page.next_cursor, total=page.total
        )


def _end(asked: KeyIn | KeyChange) -> datetime | None:
    if asked.expires_in_days is not None:
        return datetime.now(UTC) + timedelta(days=asked.expires_in_days)
    return asked.expires_at
