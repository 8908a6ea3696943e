"""What the page on speed says around its tables: each question, and how it is measured."""

from __future__ import annotations

START = """
The scores of all queries against all entities are a matrix product that nobody can avoid; everything else in a
training step should nearly vanish beside it. This page shows how far that is so. It is made from the files in
`benchmarks/results/` by `tango bench --page benchmarks/results`; each table comes from `tango bench NAME`, which can
be run anywhere, and each file says what was asked, on which device and with which versions. What is compared takes
turns in one process; times are medians.
"""

COMPARED = """
Measured are medians over epochs, after three that warm up. A size that keeps coming is captured as CUDA graphs when it
comes the third time, also later than that, so single epochs can be longer. The windows a step are those that training
takes by itself on that device, or one more or less; `tf32` is a setting. [Decisions](decisions.md) has their effect
on validation MRR: the batches, or their neighbours, lose nothing against one window a step. On WIKI two windows would
lose 0.3, so that training takes one there, which misses the target; a profile of that step says why. tf32 was compared
on ICEWS14s and ICEWS18 alone, and changed nothing.

For scale: the code that the authors of TANGO published takes about 510 s an epoch on ICEWS18 and 120 s on YAGO on one
NVIDIA H200, and 5,090 s and 2,273 s on two CPU cores, its own reading of the data included.
"""

STEP = """
`tango bench step` runs training steps part by part, and beside each step its *floor* on the same queries: decoder,
scores and cross-entropy alone, forward and backward, in the same precision, against embeddings that nothing has moved.
The parts are measured with the device waited for after each, so on a GPU they add up to more than a step takes in
training. An epoch is measured as the training loop runs it, waited for once, at its end; the floors of the same epoch
likewise. `batch windows` are the target snapshots of one step. The ratio is the median over the steps of each step's
own ratio. It is nearest to 1 where scores are many: on small sets, and on a GPU, whose products are fast, what is left
counts for more; another process on the same cores spoils it altogether (`OMP_NUM_THREADS=1` helps then).
"""

TWIN = """
`tango bench twin` compares the encoder with a twin of a few lines that follows the formulas row by row: all N entities
integrated, every window by itself. Both give the same states and the same gradients; the largest differences, as
shares of the largest entry, stand in the table.
"""

GROWTH = """
`tango bench growth` draws events of the kind of ICEWS18 and changes one thing at a time. The encoder integrates the
rows that the events touch, so the same events among more entities should cost it nothing more. The whole step grows
with N, because scores and optimiser look at every entity.
"""

GRADIENTS = """
`tango bench gradients` takes the gradient of one window through RK4 with more and more steps in an interval. The error
is relative to `direct` in float64 with as many steps: that of float32, as one trains, and that of the method alone, in
float64.
"""

EVALUATE = """
`tango bench evaluate` ranks the true answers of a part under all three filters (raw, time-aware, time-unaware) with a
model that has its first weights. *Everything* starts from the snapshots; *prepared* has found beforehand what depends
on the data alone, as validation after each epoch does.
"""

LOAD = """
`tango bench load` draws a set of the size and kind of tkgl-icews, writes it as text and as Parquet, and reads it back
into snapshots, each time in a process of its own.
"""

OBSERVE = """
`tango bench observe` gives a forecaster ten new facts, then asks it for one object, then for another, again and again.
A forecast looks at the part of the history that bears on its subject, so none of this grows with the number of facts.
The model has its first weights; each question is about another subject of the last known facts. Sorting the history
once, when a run is asked for the first time, is not part of it.
"""

AGAIN = """## Measuring it again

```text
tango bench step --data ICEWS18 --out benchmarks/results/step-icews18-cpu.json
tango bench twin --data ICEWS18 --out benchmarks/results/twin-cpu.json
tango bench growth --out benchmarks/results/growth-cpu.json
tango bench gradients --out benchmarks/results/gradients-cpu.json
tango bench evaluate --data ICEWS18 --out benchmarks/results/evaluate-icews18-cpu.json
tango bench load --out benchmarks/results/load-cpu.json
tango bench observe --data ICEWS18 --out benchmarks/results/observe-icews18-cpu.json
tango bench observe --data retrosheet --out benchmarks/results/observe-retrosheet-cpu.json
tango bench step --data ICEWS18 --device cuda --set epochs=5 --set precision=tf32 \\
    --out benchmarks/results/step-icews18-gpu.json
tango bench evaluate --data ICEWS18 --device cuda --set repeats=5 --out benchmarks/results/evaluate-icews18-gpu.json
tango bench --page benchmarks/results
```

The other sets likewise, by their names.

Each is also a script in `benchmarks/`. `tango bench --list` shows what can be asked.
"""
