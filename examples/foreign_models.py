"""Models of PyKEEN and PyG, trained by these libraries, ranked beside ours by the same evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pykeen.models import DistMult
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory
from torch.nn.functional import nll_loss
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn.models import RENet

import tangokg as tk
from tangokg.exchange import foreign
from tangokg.quads import Dataset
from tangokg.quads.world import make_world

STEPS = 4  # of history that RE-Net reads
HISTORIES = ["h_sub", "h_obj"]


def pykeen_model(data: Dataset) -> tk.Forecaster:
    """DistMult on the training facts without their times; it asks for subjects in a way of its own."""
    vocab = data.vocab
    triples = torch.from_numpy(np.unique(np.stack([data.train.s, data.train.r, data.train.o], axis=1), axis=0))
    factory = TriplesFactory(triples, dict(zip(vocab.entities, range(vocab.num_entities), strict=True)),
                             dict(zip(vocab.relations, range(vocab.num_relations), strict=True)))  # fmt: skip
    result = pipeline(
        training=factory, testing=factory, model=DistMult, model_kwargs={"embedding_dim": 32}, random_seed=0,
        training_kwargs={"num_epochs": 30, "use_tqdm": False}, evaluation_kwargs={"use_tqdm": False}, device="cpu",
    )  # fmt: skip

    def score(s: Any, r: Any, t: Any) -> torch.Tensor:
        return result.model.predict_t(torch.from_numpy(np.stack([s, r], axis=1)))

    def score_subjects(o: Any, r: Any, t: Any) -> torch.Tensor:
        return result.model.predict_h(torch.from_numpy(np.stack([r, o], axis=1)))

    return foreign(data, score, score_subjects, name="pykeen-distmult")


def pyg_model(data: Dataset) -> tk.Forecaster:
    """RE-Net, which reads the last steps of the subject and of the object of each fact."""
    facts, sizes = data.facts, (data.vocab.num_entities, data.vocab.num_relations)
    history = RENet.pre_transform(STEPS)  # facts in time order; it gives each what came before its time
    rows = [
        history(Data(sub=s, rel=r, obj=o, t=t))
        for s, r, o, t in zip(*(getattr(facts, c).tolist() for c in "srot"), strict=True)
    ]
    torch.manual_seed(0)
    model = RENet(*sizes, hidden_channels=32, seq_len=STEPS)
    train(model, rows[: len(data.train)])
    subjects = {(row.sub, row.rel, row.t): row for row in rows}
    objects = {(row.obj, row.rel, row.t): row for row in rows}

    def scores(known: dict[tuple[int, int, int], Data], place: int, *asked: Any) -> torch.Tensor:
        some = [known[key] for key in zip(*(column.astype(int).tolist() for column in asked), strict=True)]
        with torch.no_grad():
            return model(Batch.from_data_list(some, follow_batch=HISTORIES))[place]

    return foreign(
        data,
        lambda s, r, t: scores(subjects, 0, s, r, t),
        lambda o, r, t: scores(objects, 1, o, r, t),
        name="pyg-renet",
    )


def train(model: RENet, rows: list[Data]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(10):
        for batch in DataLoader(rows, batch_size=256, shuffle=True, follow_batch=HISTORIES):
            optimizer.zero_grad()
            of_objects, of_subjects = model(batch)
            loss = nll_loss(of_objects, batch.obj) + nll_loss(of_subjects, batch.sub)
            loss.backward()
            optimizer.step()
    model.eval()


def main() -> None:
    data = make_world(num_actors=60, num_newcomers=6, num_days=150).dataset
    models = ["frequency", "recurrence", pykeen_model(data), pyg_model(data)]
    for row in tk.compare(data, models, verbose=False).rows:
        figures = row.figures
        print(f"{row.name:16s} MRR {figures.mrr:5.2f}  ({row.low:.2f} to {row.high:.2f}), {figures.queries} queries")


if __name__ == "__main__":
    main()
