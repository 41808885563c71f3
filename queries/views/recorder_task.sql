-- Threads of the process that recorded the tape.
--
-- The tape names that process. Tapes from before 2026-11-29 do not. The view then takes the process whose main thread is
-- called pagetape, if there is one.
--
-- Columns:
--   tape  VARCHAR  Name of the tape.
--   pid   INTEGER  Thread.
SELECT t.tape, t.pid
FROM task AS t
JOIN machine AS m USING (tape)
WHERE t.tgid = m.recorder_pid
   OR (
        m.recorder_pid IS NULL
        AND (t.tape, t.tgid) IN (SELECT (tape, tgid) FROM task WHERE pid = tgid AND comm = 'pagetape')
   )
