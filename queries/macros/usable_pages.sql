-- Free pages of a zone that a request may use; the kernel compares them with the zone's watermark.
--
-- Free pages less HIGHATOMIC and CMA that the request may not use (unusable_pages), and less lowmem_reserve, which the zone
-- keeps from requests that could take a higher zone. Negative if the zone lacks pages for its reserves, null if the
-- request may not take the zone. Arguments are a row of the view zone_state, a request (alloc_request) and a row of machine.
CREATE TEMP MACRO usable_pages(z, rq, m) AS
CASE
    WHEN z['place'] <= rq['zone'] THEN z['free'] - unusable_pages(z, rq, m) - coalesce(z['lowmem_reserve'][rq['zone'] + 1], 0)
END::BIGINT
