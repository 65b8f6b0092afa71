"""The decision list for answers to EndTxn, cell by cell. conformance: 61."""

from __future__ import annotations

import itertools

import pytest

from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.end_txn import AMBIGUOUS, DECISIONS, PASSING, REFUSALS, Next, Token

SETTLED_BY_THE_TOKEN = {
    Token.NOT_ASKED: Next.ASK_TOKEN,
    Token.PENDING: Next.ASK_TOKEN,
    Token.THERE: Next.DONE,
    Token.ABSENT: Next.LOST,
    Token.OUTDATED: Next.UNKNOWN,
    Token.OVERWRITTEN: Next.UNKNOWN,
}


@pytest.mark.parametrize("token", Token)
def test_an_ok_is_a_commit_whatever_else_is_known(token: Token) -> None:
    assert end_txn.decide("NONE", token) is Next.DONE


@pytest.mark.parametrize(("answer", "token"), [*itertools.product(sorted(PASSING), Token)])
def test_a_passing_answer_sends_the_commit_again(answer: str, token: Token) -> None:
    assert end_txn.decide(answer, token) is Next.SEND_AGAIN


@pytest.mark.parametrize(("answer", "token"), [*itertools.product(sorted(AMBIGUOUS), Token)])
def test_an_answer_of_committed_and_aborted_ones_alike_is_settled_by_the_token(answer: str, token: Token) -> None:
    assert end_txn.decide(answer, token) is SETTLED_BY_THE_TOKEN[token]


@pytest.mark.parametrize(("answer", "token"), [*itertools.product(sorted(REFUSALS), Token)])
def test_a_refusal_is_nothing_but_a_refusal(answer: str, token: Token) -> None:
    assert end_txn.decide(answer, token) is Next.REFUSED


def test_an_answer_that_no_commit_gets_is_never_taken_for_one() -> None:
    for answer in ("UNKNOWN_SERVER_ERROR", "TRANSACTION_ABORTABLE", "", "none"):
        assert {end_txn.decide(answer, token) for token in Token} == {Next.UNEXPECTED}


def test_no_two_rows_of_the_list_speak_of_one_case() -> None:
    cases = [(answer, token) for row in DECISIONS for answer in row.answers for token in row.tokens]

    assert len(cases) == len(set(cases))


def test_nothing_but_an_absent_token_makes_a_participant_lost() -> None:
    lost = {token for row in DECISIONS if row.next is Next.LOST for token in row.tokens}

    assert lost == {Token.ABSENT}


@pytest.mark.parametrize(("transaction_version", "versions"), [(1, (0, 4)), (2, (5, 5))])
def test_the_transactions_own_version_chooses_the_wire_version(
    transaction_version: int, versions: tuple[int, int]
) -> None:
    assert end_txn.wire_versions(transaction_version) == versions
