"""Results -> ``docs/results.md``: every table and figure, the claims tested, what is missing. Never edited by hand."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tangokg.bench.shown import markdown
from tangokg.reproduce.beside import beside_paper, what_departures_are_worth
from tangokg.reproduce.cells import tables
from tangokg.reproduce.claims import CLAIMS, NOISE, dynamics
from tangokg.reproduce.plots import PLOTS, write_plots
from tangokg.reproduce.store import Result, Results
from tangokg.reproduce.view import filled, view

START = """
Every table and figure of the paper (Han et al. 2021), each number beside ours. The page is made from the files in
`results/` by `tango reproduce --page`; each file says with which settings, seed, device and versions it was measured.
*paper* is what is printed there. *As printed* is our run of its equations with its time scale, its gradient and states
of any length. *Paper form* is its equations and decoders with the departures that stand under each table: a far longer
time and, on four of the five sets, states of one length; *ours* is the model as `tango train` has it, with the
learning rate and the batch of the paper form on its set,
whose state is not part of its own derivative, and which follows an interval no further than the longest that training
saw; *authors' form* follows the program of the authors where that departs from their text. Our numbers are means over
seeds, ± their standard deviation where there are several. MRR and Hits@k are in per cent, over both directions, with
the mean rank of ties; weights are chosen on the validation part. Gradients go through the steps of the solver, which
the paper's interpolated reverse approximates.
"""

AS_PRINTED, PAPER_FORM = "as printed, our run", "our best in paper form"
OTHERS = ("best baseline, our runs", "counting")  # columns beside ours

AGAIN = """## Making it again

```text
tango reproduce --list
tango reproduce main
tango reproduce --run --again --only paper-tucker/ICEWS14s --seeds 1
tango reproduce --run --budget 8m --device cuda --out one.json
tango reproduce --merge one.json
tango reproduce --page
```

The third line makes one run although its result is there, and compares the two: six to fourteen minutes on two CPU
cores. The fourth takes the next missing runs by priority for eight minutes, several side by side on a GPU; what is not
finished then goes on at the next call, as after a kill. A run that was trained and could not be measured is measured by
the next call, without training again; three failures of one kind and no success end a call. `configs/` has the settings
of each run.
"""


def write_page(results: Results, page: Path) -> list[Path]:
    """Write the page and, in ``figures/`` beside it, its figures; returns all files."""
    page.parent.mkdir(parents=True, exist_ok=True)
    drawn = write_plots(page.parent / "figures", results)
    page.write_text(render(results), encoding="utf-8")
    return [page, *drawn]


def render(results: Results) -> str:
    """The text of the page."""
    parts = ["# Results\n", fill(dynamics(results)) + "\n", fill(START) + "\n", _overview(results), _claims(results)]
    parts += [_section(name, results) for name in tables()]
    parts += [_runs(results), AGAIN]
    return "\n".join(parts)


def _overview(results: Results) -> str:
    headings = ("data set", "paper form departs in", "best of the paper", AS_PRINTED, PAPER_FORM, "with IRDM", *OTHERS)
    text = markdown(headings, beside_paper(results), left=2)
    about = """Test MRR, time-aware. *As printed* is our run of the paper's equations with its time scale, states of any
    length and its gradient, one seed, with the decoder of its best result. *Paper form* departs from that in the
    second column: it solves the equations for a far longer time and, on four of the five sets, gives all states one
    length. Of our two decoders in paper form, and of the nine baselines, the one with the better validation MRR stands
    here. *With IRDM* is the same preset as *paper form*, one seed, trained with the paper's interpolated reverse
    gradient in place of one through the steps of the solver. *Counting* is the recurrency baseline, which learns two
    numbers for each relation: what a model is worth on a set whose facts repeat is what it adds to that."""
    data = """ICEWS14s is not in the paper; later work measured 36.8 for TANGO on it. ICEWS05-15 was read from a rebuilt
    training file: it has the facts of the published one, in another order and with other ids for 4,207 entities. New
    results store the sha256 of each data file under `files`."""
    worth = what_departures_are_worth(results)
    return f"## Beside the paper's best\n\n{fill(about)}\n\n{text}\n\n{fill(worth)}\n\n{fill(data)}\n"


def _claims(results: Results) -> str:
    rows = [claim.told(results) for claim in CLAIMS]
    about = f"""Each is tested on our runs in the paper form, most with one seed. A gain or a loss counts beyond the
    noise: {NOISE} points, and where seeds differ by more, twice the standard deviation of a difference of two of them
    (on all snapshots, and taken for parts of them as well). *Not shown* is a claim of which no case does."""
    return f"## The paper's claims\n\n{fill(about)}\n\n{markdown(('claim', 'on our runs', 'figures'), rows, left=3)}\n"


def _section(name: str, results: Results) -> str:
    shown = view(name, results)
    table = shown.table
    label = f" (`{table.paper.label}`)" if table.paper else " (not in the paper)"
    have, of = filled(table, results)
    count = f"{have} of our {of} cells are filled.\n" if of else "\n"
    parts = [f"## {table.title}\n", f"`tango reproduce {name}`{label}. {count}".replace(". \n", ".\n")]
    if name in PLOTS:
        parts.append(f"![{table.title}](figures/results-{name}.svg)\n")
    for block in shown.blocks:
        if block.title and len(shown.blocks) > 1:
            parts.append(f"**{block.title}**\n")
        parts.append(markdown(block.headings, block.rows, left=2) + "\n")
    parts += [fill(note) + "\n" for note in shown.notes]
    return "\n".join(part.rstrip(" ") for part in parts)


def _runs(results: Results) -> str:
    """Every run behind the page, with where and when it was made."""
    every = [(name, result) for name in results.found for result in results.of(name)]
    if not every:
        return "## Runs\n\nThere are none yet.\n"
    headings = ("config", "seed", "epochs", "best", "validation MRR", "test MRR", "seconds", "device", "commit", "date")
    return f"## Runs\n\n{markdown(headings, [_run(name, result) for name, result in every])}\n"


def _run(name: str, result: Result) -> tuple[str, ...]:
    valid = f"{result['valid']['time-aware']['mrr']:.2f}" if "valid" in result else ""
    return (
        name,
        str(result["seed"]),
        str(result["epochs"]),
        str(result.get("best_epoch", "")),
        valid,
        f"{result['test']['time-aware']['mrr']:.2f}",
        f"{result['train_seconds']:,.0f}",
        str(result["device"]),
        str(result.get("commit") or ""),
        str(result.get("date", ""))[:10],
    )


def fill(text: str) -> str:
    """A paragraph in lines of the usual length."""
    joined = " ".join(text.split())
    return textwrap.fill(joined, 118, break_long_words=False, break_on_hyphens=False)
