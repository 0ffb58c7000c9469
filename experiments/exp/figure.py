# SPDX-License-Identifier: Apache-2.0
"""What an experiment's show.py makes of a result: figures and tables with a verdict each."""

from collections.abc import Callable
from dataclasses import dataclass, field

# Verdicts. Those of the paper's figures compare with it, those of our own with a target.
AS_PAPER = "as in the paper"
BETTER = "better than the paper"
WORSE = "worse than the paper"
HOLDS = "holds"
HOLDS_NOT = "does not hold"
NOT_COMPARABLE = "not comparable"
NOT_RUN = "not run"
VERDICTS = (AS_PAPER, BETTER, WORSE, HOLDS, HOLDS_NOT, NOT_COMPARABLE, NOT_RUN)


@dataclass
class Table:
    """Rows of what can be printed; the first column names the row."""

    columns: list[str]
    rows: list[list]
    caption: str = ""


@dataclass
class Figure:
    """One answer: what is asked, what came out, a plot and tables that show it."""

    id: str  # of the plot's file, such as fig-4
    title: str
    paper: str  # the figure or table of the paper, or "-"
    verdict: str  # one of VERDICTS
    finding: str  # one or two sentences with the numbers that carry the verdict
    draw: Callable | None = None  # draws on a matplotlib Figure
    size: tuple[float, float] = (6.4, 3.6)  # of it, inches
    tables: list[Table] = field(default_factory=list)

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.id}: no verdict {self.verdict!r}")
