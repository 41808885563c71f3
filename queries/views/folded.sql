-- Kernel stacks as one line each, in flame graph format: outermost function first.
--
-- The view leaves out the frames of the tracing code. A module's name follows its functions.
-- A frame without a name shows its address.
--
-- Columns:
--   tape    VARCHAR   Name of the tape.
--   stack   UINTEGER  Number of the stack, as in `stack`.
--   folded  VARCHAR   Function names, joined by semicolons.
SELECT
    tape,
    stack,
    string_agg(
        coalesce(
            function || coalesce(' [' || module || ']', ''),
            printf('0x%x', address),
            '[unknown]'
        ),
        ';' ORDER BY depth DESC
    ) AS folded
FROM frame
WHERE function IS NULL
    OR NOT regexp_matches(
        function,
        '^(trace_event_raw_event_|trace_event_buffer_|event_triggers_|__traceiter_|stacktrace_)'
    )
GROUP BY tape, stack
