// SPDX-License-Identifier: Apache-2.0
#include "formats.h"
#include "input/regular.h"
#include "tables.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes. The formats of a recording are some 100 KB. */
enum { MAX_FORMAT = 1 << 20, MAX_FILE = 16 << 20 };

static int write_event(FILE *file, struct instance *instance, const char *name)
{
	char system[64], event[64], *format;
	size_t size;

	if (sscanf(name, "%63[^:]:%63s", system, event) != 2)
		return -EINVAL;
	format = instance_event_read(instance, system, event, "format", &size);
	if (!format)
		return -ENOENT;
	fprintf(file, "event %s %zu\n", system, size);
	fwrite(format, 1, size, file);
	free(format);
	return 0;
}

static int write_all(FILE *file, struct instance *instance, char *const *events, size_t nr,
		     const struct kernel_addresses *addresses, struct error *err)
{
	fprintf(file, "pagetape formats 1\nvmstat_update %llx\n",
		(unsigned long long)addresses->vmstat_update);
	for (int i = 0; i < addresses->nr_zone_locks; i++)
		fprintf(file, "zone_lock %llx %u %u\n",
			(unsigned long long)addresses->zone_locks[i].address,
			addresses->zone_locks[i].node, addresses->zone_locks[i].zone);
	for (size_t i = 0; i < nr; i++) {
		int ret = write_event(file, instance, events[i]);

		if (ret)
			return fail(err, -ret, "cannot read the format of %s: %s", events[i],
				    strerror(-ret));
	}
	return 0;
}

int formats_write(const char *path, struct instance *instance, char *const *events, size_t nr,
		  const struct kernel_addresses *addresses, struct error *err)
{
	char part[PATH_MAX];
	FILE *file;
	int ret;

	snprintf(part, sizeof(part), "%s.part", path);
	file = fopen(part, "wxe");
	if (!file)
		return fail(err, errno, "cannot make %s: %s", part, strerror(errno));
	fchmod(fileno(file), 0600);
	ret = write_all(file, instance, events, nr, addresses, err);
	if (fclose(file) && !ret)
		ret = fail(err, errno, "cannot write %s: %s", part, strerror(errno));
	if (!ret && rename(part, path))
		ret = fail(err, errno, "cannot write %s: %s", path, strerror(errno));
	return ret;
}

static int read_events(FILE *file, const char *path, struct tep_handle *tep, struct error *err)
{
	char system[64], *format;
	size_t size;
	int fields;

	while ((fields = fscanf(file, "event %63s %zu", system, &size)) == 2) {
		if (fgetc(file) != '\n' || size > MAX_FORMAT)
			break;
		format = malloc(size + 1);
		if (!format)
			return fail(err, ENOMEM, "no memory for a format of %zu bytes", size);
		format[size] = '\0';
		if (fread(format, 1, size, file) != size) {
			free(format);
			break;
		}
		tep_parse_event(tep, format, size, system);
		free(format);
	}
	return fields == EOF ? 0 : fail(err, EBADMSG, "%s: damaged", path);
}

/* The lines of zone locks, which come before the events. */
static int read_zone_locks(FILE *file, const char *path, struct kernel_addresses *addresses,
			   struct error *err)
{
	unsigned long long address;
	unsigned int node, zone;
	int fields;

	while ((fields = fscanf(file, "zone_lock %llx %u %u ", &address, &node, &zone)) == 3) {
		if (addresses->nr_zone_locks == MAX_ZONE_LOCKS || node > UINT16_MAX ||
		    zone >= NR_ZONE)
			return fail(err, EBADMSG, "%s: damaged", path);
		addresses->zone_locks[addresses->nr_zone_locks++] =
			(struct zone_lock_address){address, (uint16_t)node, (uint8_t)zone};
	}
	return fields <= 0 ? 0 : fail(err, EBADMSG, "%s: damaged", path);
}

int formats_read(const char *path, struct tep_handle *tep, struct kernel_addresses *addresses,
		 struct error *err)
{
	unsigned long long address = 0;
	int version, ret;
	FILE *file = regular_stream(path, MAX_FILE, &ret, err);

	*addresses = (struct kernel_addresses){0};
	if (!file)
		return ret;
	if (fscanf(file, "pagetape formats %d vmstat_update %llx ", &version, &address) != 2)
		ret = fail(err, EBADMSG, "%s: not a file of formats", path);
	else if (version != 1)
		ret = fail(err, EBADMSG, "%s: of version %d, not 1", path, version);
	else
		ret = read_zone_locks(file, path, addresses, err);
	ret = ret ?: read_events(file, path, tep, err);
	fclose(file);
	addresses->vmstat_update = address;
	return ret;
}
