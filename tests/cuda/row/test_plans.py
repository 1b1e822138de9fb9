"""Plans of rows: lanes, clusters and registers, by extents alone."""

from __future__ import annotations

import pytest

from nbfused.cuda.row.plan import RowPlan, kept_plans, plans_apart
from nbfused.cuda.row.streamed import lanes_of_few, lanes_once


def plan(accesses, registers=4, clusters=True, sums="", alone=False, summed=None):
    return next(kept_plans(accesses, registers, clusters, sums, 256, alone, summed),
                None)


def test_short_rows_share_a_block_and_long_ones_take_a_cluster():
    assert plan(16) == RowPlan(8, True, 2, True)
    assert plan(17) == RowPlan(32, True, 1, False)
    assert plan(256).even
    assert plan(1024).cluster == 1
    assert plan(16032).cluster == 8
    assert plan(16).groups == 32
    assert plan(8192).groups == 1


def test_rows_that_begin_anywhere_are_kept_element_by_element():
    found = [next(plans_apart(columns, 1, 256, False), None)
             for columns in (31, 32, 33, 223, 512, 4095, 8192, 8193)]
    assert [p and (p.lanes, p.kept, p.even) for p in found] == [
        (8, 4, False), (8, 4, True), (16, 3, False), (32, 7, False), (32, 16, True),
        (512, 8, False), (1024, 8, True), None]
    assert next(plans_apart(512, 2, 256, False)).lanes == 32
    assert next(plans_apart(512, 8, 256, False)).lanes == 128  # registers


def test_blocks_share_rows_that_are_few_and_begin_anywhere():
    found = [next(plans_apart(columns, 1, 256, True), None)
             for columns in (8192, 9001, 16_385, 32_768, 65_537, 131_072, 131_073)]
    assert [p and (p.lanes, p.cluster, p.kept, p.even) for p in found] == [
        (1024, 1, 8, True), (512, 4, 5, False), (512, 8, 5, False), (512, 8, 8, True),
        (1024, 8, 9, False), (1024, 8, 16, True), None]


@pytest.mark.parametrize(("accesses", "lanes"), [
    (1, 16), (479, 16), (480, 32), (2048, 128), (4000, 256), (6282, 256), (8192, 512),
    (16_032, 512), (1 << 20, 512)])
def test_rows_that_are_read_once_get_lanes_for_several_turns(accesses, lanes):
    assert lanes_once(accesses, 512) == lanes


@pytest.mark.parametrize(("rows", "accesses", "lanes"), [
    (67/132, 529, 128), (3.9, 529, 128), (4.1, 4096, 128), (16, 4096, 64),
    (0.1, 60, 16), (0.1, 1 << 20, 512)])
def test_few_rows_get_lanes_for_one_turn(rows, accesses, lanes):
    assert lanes_of_few(16, accesses, 512, rows) == lanes


@pytest.mark.parametrize("sums", ["", "registers"])
@pytest.mark.parametrize("accesses", [1, 15, 33, 130, 500, 1025, 4096, 8190, 16384])
def test_the_lanes_of_a_plan_suffice_and_keep_what_they_may(sums, accesses):
    found = plan(accesses, 4, sums=sums)
    lanes = found.lanes*found.cluster
    assert lanes*(found.kept - 1) < accesses <= lanes*found.kept
    assert found.even == (accesses == lanes*found.kept)
    assert found.kept*4 <= 64
    assert found.resident > 0 or not sums


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("sums", ["", "registers"])
def test_only_the_last_access_of_a_lane_may_be_outside_of_a_row(alone, sums):
    """Kernels ask of no other one whether it is."""
    for accesses in range(1, 20_000):
        for found in kept_plans(accesses, 4, True, sums, 256, alone and not sums, 8):
            lanes = found.lanes*found.cluster
            assert lanes*(found.kept - 1) < accesses <= lanes*found.kept
            assert found.even == (accesses == lanes*found.kept)
    for columns in range(1, 70_000, 7):
        for found in plans_apart(columns, 1, 256, True):
            lanes = found.lanes*found.cluster
            assert lanes*(found.kept - 1) < columns <= lanes*found.kept


def test_more_threads_share_a_row_of_wider_elements():
    wide, narrow = (next(kept_plans(1024, 4, True, "", 256, width=w)) for w in (4, 8))
    assert (wide.lanes, wide.kept) == (512, 2)
    assert (narrow.lanes, narrow.kept) == (256, 4)


def test_values_of_columns_are_held_where_registers_suffice():
    found = next(kept_plans(256, 12, True, "registers", 256, held=4))
    assert (found.lanes, found.resident, found.held) == (256, 1024, True)
    found = next(kept_plans(256, 16, True, "registers", 256, held=4))
    assert (found.lanes, found.resident, found.held) == (64, 384, True)
    assert not next(kept_plans(2048, 16, True, "registers", 256, held=8)).held
    assert not next(kept_plans(2048, 4, True, "", 256, held=4)).held


def test_a_row_is_not_kept_where_its_registers_do_not_suffice():
    assert plan(1 << 20) is None
    assert plan(16384, clusters=False) is None
    assert plan(64, registers=100) is None


def test_blocks_that_sum_nothing_share_a_row_of_any_length():
    found = plan(1 << 20, clusters=False, alone=True)
    assert found.even
    assert found.lanes*found.cluster*found.kept == 1 << 20
