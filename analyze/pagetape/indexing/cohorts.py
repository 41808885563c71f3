# SPDX-License-Identifier: Apache-2.0
"""SQL of percentiles over hosts: sums for each host, then the rates of all hosts of a cohort.

A query of aggregates (queries/internal/fleet/) has rows of tapes: some columns that say what a row
counts, the count `nr`, and further sums. The answer has a row for each count of each cohort: the
sums, and percentiles over hosts of `nr` per hour. All hosts of a cohort count, also those without
such a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagetape.asking import query

COUNT = "nr"
MEMBERS, HOSTS = "summed_member", "summed_host"  # tables of answer()


def _listed(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _same(one: str, other: str, columns: Sequence[str]) -> str:
    """Equality of two rows in columns, which may be null."""
    return " AND ".join(["true", *(f"{one}.{c} IS NOT DISTINCT FROM {other}.{c}" for c in columns)])


def _of(alias: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{column}" for column in columns)


def aliases(by: Sequence[str]) -> list[str]:
    """Names for columns of fleet_tape that tell cohorts apart: one may have the name of a count."""
    return [f"by{nr}" for nr in range(len(by))]


def cohort_columns(by: Sequence[str]) -> str:
    """These columns of fleet_tape under their aliases."""
    return ", ".join(f'"{name}" AS {one}' for name, one in zip(by, aliases(by), strict=True))


@dataclass(frozen=True)
class Cohorts:
    """The percentiles of one query, for cohorts by columns of fleet_tape."""

    q: query.Query
    by: tuple[str, ...]
    counts: str  # condition on the tapes that count

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.q.columns]

    @property
    def _keys(self) -> list[str]:
        return self._names[1 : self._names.index(COUNT)]

    @property
    def _sums(self) -> dict[str, str]:
        """The columns that are summed up, with their types."""
        return {column.name: column.type for column in self.q.columns[len(self._keys) + 1 :]}

    @property
    def _cohort(self) -> list[str]:
        return aliases(self.by)

    def _chosen(self) -> str:
        return f"""
            SELECT {_listed(cohort_columns(self.by), "tape", "machine")}
            FROM (SELECT *, problem IS NOT NULL AS unreadable FROM fleet_tape)
            WHERE {self.counts} AND hours > 0
        """

    def sums(self) -> str:
        """The statement on some tapes: the counts of each host."""
        each = ", ".join(f"sum(p.{name})::{of} AS {name}" for name, of in self._sums.items())
        return f"""
            SELECT {_listed(_of("c", [*self._cohort, "machine"]), _of("p", self._keys), each)}
            FROM ({self.q.sql}) AS p
            JOIN ({self._chosen()}) AS c USING (tape)
            GROUP BY ALL
        """

    def answer(self) -> str:
        """The statement on all sums."""
        cohort, keys = self._cohort, self._keys
        again = ", ".join(f"sum({name})::{of} AS {name}" for name, of in self._sums.items())
        totals = ", ".join(
            f"round(sum(r.{name}), 3) AS {name}"
            if of == "DOUBLE"
            else f"sum(r.{name})::{of} AS {name}"
            for name, of in self._sums.items()
            if name != COUNT
        )
        groups = [*cohort, *keys]
        named = (f'r.{alias} AS "{name}"' for name, alias in zip(self.by, cohort, strict=True))
        cells = f"SELECT DISTINCT {', '.join(keys)} FROM host" if keys else "SELECT 1 AS cell"
        return f"""
            WITH member AS (
                SELECT {_listed(*cohort, "machine, sum(hours) AS hours, sum(tapes) AS tapes")}
                FROM {MEMBERS}
                WHERE {self.counts} AND has_hours
                GROUP BY ALL
            ),
            cohort AS (
                SELECT
                    {_listed(*cohort, "count(*) AS hosts")},
                    sum(hours) AS hours,
                    sum(tapes) AS tapes
                FROM member
                GROUP BY ALL
            ),
            host AS (
                SELECT {_listed(*cohort, "machine", *keys, again)}
                FROM {HOSTS}
                GROUP BY ALL
            ),
            cell AS ({cells}),
            rate AS (
                SELECT
                    {_listed(_of("m", cohort), _of("k", keys), _of("h", [*self._sums]))},
                    coalesce(h.{COUNT}, 0) / m.hours AS rate
                FROM member AS m
                CROSS JOIN cell AS k
                LEFT JOIN host AS h
                    ON h.machine = m.machine
                    AND {_same("h", "m", cohort)}
                    AND {_same("h", "k", keys)}
            )
            SELECT
                {_listed(*named, _of("r", keys))}{", " if groups else ""}
                coalesce(sum(r.{COUNT}), 0)::BIGINT AS {COUNT},
                {totals}{", " if totals else ""}
                round(coalesce(sum(r.{COUNT}), 0) / any_value(c.hours), 6) AS per_hour,
                count(*) FILTER (r.{COUNT} > 0) AS hosts_with,
                round(quantile_cont(r.rate, 0.5), 6) AS p50,
                round(quantile_cont(r.rate, 0.9), 6) AS p90,
                round(quantile_cont(r.rate, 0.99), 6) AS p99,
                any_value(c.hosts) AS hosts,
                round(any_value(c.hours), 3) AS hours,
                any_value(c.tapes)::BIGINT AS tapes
            FROM rate AS r
            JOIN cohort AS c ON {_same("r", "c", cohort)}
            GROUP BY {_of("r", groups) or "()"}
            HAVING any_value(c.hosts) IS NOT NULL
            ORDER BY {_listed(_of("r", cohort), f"{COUNT} DESC", _of("r", keys))}
        """
