-- Whether a tape of an archive can have events of a tracepoint; true if nobody knows.
--
-- Parameters of the macro: `recorded` of fleet_tape, and the tracepoint, as kmem:mm_page_alloc.
CREATE TEMP MACRO was_recorded(recorded, point) AS coalesce(list_contains(string_split(recorded, ' '), point), true)
