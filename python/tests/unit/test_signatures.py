"""What `checked` refuses, in which words, and what it leaves as it was."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import pytest

from oncelog.errors import InvariantViolation, UnknownNameError, UsageError, WrongArgumentsError
from oncelog.habits import Guided
from oncelog.signatures import checked
from oncelog.types import OffsetAndMetadata, RecordMetadata, TopicPartition

TP = TopicPartition("flights", 0)
ONE = "TopicPartition(topic, partition)"


@checked
def take(
    partitions: Iterable[TopicPartition] = (),
    offset: int = 0,
    *,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
    names: Collection[str] = (),
    to: Literal["earliest", "latest"] = "latest",
    action: Callable[[], None] | None = None,
    token: Annotated[bytes, "encode the text"] = b"",
    **settings: str,
) -> list[Any]:
    return [partitions, offset, offsets, names, to, action, token, settings]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitions": TP}, f"partitions must be an iterable of {ONE}; put the single value into a list"),
        ({"partitions": None}, f"partitions must be an iterable of {ONE}"),
        ({"partitions": [TP, 7]}, f"each item of partitions must be {ONE}"),
        ({"partitions": iter([TP, None])}, f"each item of partitions must be {ONE}"),
        ({"offset": True}, "offset must be int"),
        ({"offset": 1.0}, "offset must be int"),
        (
            {"offsets": [TP]},
            f"offsets must be a mapping of {ONE} to OffsetAndMetadata(offset, metadata) or int or None",
        ),
        ({"offsets": {"flights-0": 1}}, f"each key of offsets must be {ONE}"),
        ({"offsets": {TP: True}}, "each value of offsets must be OffsetAndMetadata(offset, metadata) or int"),
        ({"names": "flights"}, "names must be a collection of str; put the single value into a list"),
        ({"names": b"flights"}, "names must be a collection of str"),
        ({"names": iter(["flights"])}, "names must be a collection of str"),
        ({"to": "newest"}, "to must be 'earliest' or 'latest'"),
        ({"to": []}, "to must be 'earliest' or 'latest'"),
        ({"action": 7}, "action must be a function or None"),
        ({"token": "text"}, "token must be bytes; encode the text"),
        ({"retention.ms": 7}, "retention.ms must be str"),
    ],
)
def test_an_error_names_the_argument_and_what_it_takes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        take(**given)

    assert refused.value.message == message
    assert refused.value.fields["call"] == "take"


def test_an_error_shows_the_value_that_is_wrong_and_its_type() -> None:
    with pytest.raises(UsageError) as refused:
        take([TP, "x" * 1_000])  # type: ignore[list-item]

    assert refused.value.fields["type"] == "str"
    assert len(refused.value.fields["found"]) <= 100
    assert pickle.loads(pickle.dumps(refused.value)).fields == refused.value.fields


def test_the_first_wrong_argument_is_named_also_by_position() -> None:
    with pytest.raises(UsageError, match="offset must be int"):
        take([TP], "7")  # type: ignore[arg-type]


def test_what_is_right_comes_through_as_it_is() -> None:
    partitions, offsets, names = [TP], {TP: 7}, {"flights"}

    found = take(partitions, 7, offsets=offsets, names=names, to="earliest", token=b"t", setting="s")

    assert all(one is other for one, other in zip(found[:4], [partitions, 7, offsets, names], strict=True))
    assert found[4:] == ["earliest", None, b"t", {"setting": "s"}]


def test_an_iterator_is_not_used_up_by_the_check() -> None:
    assert take(tp for tp in [TP])[0] == [TP]


class Calls(Guided):
    """What users call, without checks of types."""

    def send(self, timeout_ms: int = 0) -> int:
        return timeout_ms + len(5 if timeout_ms else "")  # type: ignore[arg-type]

    def close(self) -> None: ...

    def named(self, *, name: str = "") -> None: ...

    @property
    def broken(self) -> int:
        return None.count  # type: ignore[attr-defined,no-any-return]


CALLS: Any = Calls()
PARTITION: Any = TopicPartition
TAKE: Any = take


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TAKE([TP], 7, 8), "take takes partitions and offset by position, the rest by name"),
        (lambda: TAKE([TP], partitions=[TP]), "take is given the argument partitions by position and by name"),
        (lambda: PARTITION("flights"), "TopicPartition needs the argument partition, which is missing"),
        (lambda: PARTITION("flights", offset=7), "TopicPartition takes no argument offset"),
        (lambda: PARTITION("flights", partitions=7), "TopicPartition takes no argument partitions; did you mean "),
        (lambda: CALLS.send(timeout=7), "Calls.send takes no argument timeout; did you mean timeout_ms?"),
        (lambda: CALLS.send(value_serializer=str), "Calls.send takes no argument value_serializer; pass bytes to "),
        (lambda: CALLS.close(7), "Calls.close takes no arguments"),
        (lambda: CALLS.named(7), "Calls.named takes its arguments by name"),
    ],
)
def test_an_argument_too_many_unknown_or_missing_is_an_error_of_oncelog_and_a_type_error(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(WrongArgumentsError) as refused:
        call()

    assert refused.value.message.startswith(message)
    assert isinstance(refused.value, TypeError)


def test_a_type_error_from_within_a_call_stays_what_it_is() -> None:
    assert Calls().send() == 0
    with pytest.raises(TypeError, match="has no len") as failed:
        Calls().send(timeout_ms=7)
    assert not isinstance(failed.value, UsageError)


def test_a_name_of_another_client_says_what_it_is_called_here() -> None:
    with pytest.raises(UnknownNameError, match="RecordMetadata has no timestamp; write timestamp_ms"):
        RecordMetadata("flights", 0, 0, 0).timestamp  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(UnknownNameError, match=r"Calls has no sned; did you mean send\?"):
        CALLS.sned()
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'count'"):
        Calls().broken  # noqa: B018
    assert not hasattr(Calls(), "anything")
    assert getattr(Calls(), "_private", None) is None


def test_a_checked_constructor_refuses_and_the_class_is_what_it_was() -> None:
    with pytest.raises(UsageError, match="partition must be int") as refused:
        TopicPartition("flights", "0")  # type: ignore[arg-type]

    assert refused.value.fields["call"] == "TopicPartition"
    assert pickle.loads(pickle.dumps(TP)) == TP
    assert list(inspect.signature(TopicPartition).parameters) == ["topic", "partition"]


def test_a_context_manager_is_refused_by_its_call_and_not_by_its_block() -> None:
    @checked
    @contextmanager
    def numbered(number: int) -> Iterator[int]:
        yield number

    with numbered(7) as number:
        assert number == 7
    with pytest.raises(UsageError, match="number must be int"):
        numbered("7")  # type: ignore[arg-type]


def test_a_type_without_a_rule_is_found_by_the_first_call() -> None:
    @checked
    def pairs(pairs: tuple[int, str]) -> None: ...

    @checked
    def nested(nested: Iterable[Iterable[int]]) -> None: ...

    for call in (pairs, nested):
        with pytest.raises(InvariantViolation, match="every type that a call takes has a rule"):
            call(())  # type: ignore[arg-type]
