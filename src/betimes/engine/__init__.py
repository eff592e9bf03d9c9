"""The loop: load under lock, decide, commit; alarms, effects, replay. The only part that loads and commits."""
