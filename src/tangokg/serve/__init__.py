"""A trained run over HTTP: questions, new facts with a journal, a track record, and the page. Needs extra ``serve``."""
