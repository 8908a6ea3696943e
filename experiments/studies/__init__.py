"""Single measurements that docs/decisions.md and docs/tuning.md quote, with their results."""
