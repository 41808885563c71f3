-- Kernel stacks as one line each, as flame graphs fold them: outermost function first.
--
-- The frames in which the tracing itself stands are left out. Functions of a module
-- are followed by its name, and what has no name is its address.
--
-- Columns:
--   tape    VARCHAR   Name of the tape.
--   stack   UINTEGER  Number of the stack, as in `stack`.
--   folded  VARCHAR   Its functions, joined by semicolons.
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
