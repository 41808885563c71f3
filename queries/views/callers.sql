-- Kernel stacks as the functions that asked the page allocator: the innermost five.
--
-- The view leaves out the frames of the tracing code, of the page allocator, and of the slab
-- allocator. `folded` has all frames.
--
-- Columns:
--   tape     VARCHAR   Name of the tape.
--   stack    UINTEGER  Number of the stack, as in `stack`.
--   callers  VARCHAR   Function names, innermost first, joined by ' < '.
SELECT tape, stack, string_agg(name, ' < ' ORDER BY depth) AS callers
FROM (
    SELECT tape, stack, depth, coalesce(function, printf('0x%x', address), '[unknown]') AS name
    FROM frame
    WHERE function IS NULL
        OR NOT regexp_matches(
            function,
            '^(trace_event_raw_event_|trace_event_buffer_|event_triggers_|__traceiter_|stacktrace_'
            || '|_*(rmqueue|get_page_from_freelist|alloc_pages|alloc_frozen_pages|get_free_pages|get_zeroed_page'
            || '|folio_alloc|vma_alloc_folio|alloc_slab_page|allocate_slab|new_slab|slab_alloc|kmalloc|kmem_cache_alloc))'
        )
    QUALIFY row_number() OVER (PARTITION BY tape, stack ORDER BY depth) <= 5
)
GROUP BY tape, stack
