-- The name of a counter of /proc/vmstat without that of a zone: kernels up to 4.7 count pgscan_kswapd and others by zone.
--
-- Parameter of the macro: the name as the kernel prints it.
CREATE TEMP MACRO counter_of_zones(name) AS regexp_replace(name, '_(dma|dma32|normal|high|movable|device)$', '')
