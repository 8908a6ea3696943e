"""Single measurements that docs/decisions.md and docs/tuning.md quote, and what they gave."""
