// SPDX-License-Identifier: Apache-2.0
#include "policies/policies.h"
#include "toy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char type_letters[] = "UMRHCIV";

static int type_of(char letter)
{
	return (int)(strchr(type_letters, letter) - type_letters);
}

void must(int ret, const struct error *err)
{
	if (ret < 0) {
		printf("Bail out! %s\n", err->msg);
		exit(1);
	}
}

struct batch *toy_rows(const struct table *table, size_t nr)
{
	struct error err;
	struct batch *batch;

	must(batch_new(&batch, table, nr, &err), &err);
	batch_clear(batch);
	batch->nr = nr;
	return batch;
}

struct machine toy_machine(int pageblock_order, int max_order)
{
	static const uint16_t cpu_nodes[] = {0};
	static const uint8_t distances[] = {10};

	return (struct machine){
		.pageblock_order = pageblock_order,
		.max_order = max_order,
		.nr_cpus = 1,
		.nr_nodes = 1,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};
}

void toy_new_machine_under(struct toy *t, const char *kernel, const char *policy,
			   const struct machine *machine, const struct zone_spec *zones,
			   int nr_zones)
{
	const struct kernel *row;
	struct error err = {""};

	*t = (struct toy){0};
	must(kernel_find(&row, kernel, &err), &err);
	t->row = *row;
	must(policy_stack_new(&t->policies, policies, &err), &err);
	must(policy ? policy_stack_add(t->policies, policy, &err) : 0, &err);
	policy_stack_edit(t->policies, &t->row);
	must(model_new(&t->m, &t->row, machine, zones, nr_zones, &err), &err);
	policy_stack_join(t->policies, t->m);
	must(output_new(&t->events.output, &event_table, 4096, &err), &err);
	t->m->events = &t->events;
	t->zone = &t->m->zones[0];
	t->pcp = &t->m->pcps[0];
}

void toy_new_machine(struct toy *t, const char *kernel, const struct machine *machine,
		     const struct zone_spec *zones, int nr_zones)
{
	toy_new_machine_under(t, kernel, NULL, machine, zones, nr_zones);
}

void toy_new_under(struct toy *t, const char *kernel, const char *policy,
		   struct toy_geometry geometry)
{
	const struct machine machine = toy_machine(geometry.pageblock_order, geometry.max_order);
	uint64_t pages = strlen(geometry.blocks) << geometry.pageblock_order;
	struct zone_spec zone = {
		.type = (uint8_t)geometry.zone,
		.spanned = pages,
		.present = pages,
		.managed = pages,
	};

	toy_new_machine_under(t, kernel, policy, &machine, &zone, 1);
	for (size_t i = 0; geometry.blocks[i]; i++) {
		t->m->blocks[i].migratetype = (uint8_t)type_of(geometry.blocks[i]);
		t->m->blocks[i].old_movable = 0;
	}
}

void toy_new(struct toy *t, const char *kernel, struct toy_geometry geometry)
{
	toy_new_under(t, kernel, NULL, geometry);
}

void toy_free(struct toy *t)
{
	model_free(t->m);
	policy_stack_free(t->policies);
	output_free(t->events.output);
}

void toy_pcp(struct toy *t, int batch, int high)
{
	t->pcp->batch = batch;
	t->pcp->high = t->pcp->high_min = t->pcp->high_max = high;
}

void toy_add_free(struct toy *t, uint32_t pfn, int order, char type)
{
	zone_forget_old(t->m, pfn, order);
	free_list_add(t->m, frame_zone(t->m, pfn), pfn, order, type_of(type), true);
}

void toy_movable(struct toy *t, uint32_t pfn, int pages)
{
	frame_block(t->m, pfn)->old_movable = (uint16_t)pages;
}

uint64_t toy_alloc(struct toy *t, int order, char type)
{
	struct request rq = {
		.gfp_flags = t->gfp_flags,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)type_of(type),
		.class_zone = (uint8_t)gfp_class_zone(t->gfp_flags),
		.reclaimed = t->reclaimed,
	};
	uint32_t head = zone_alloc(t->m, &rq);

	events_alloc(t->m->events, &t->m->now, head == NO_FRAME ? NO_PFN : (int64_t)head, order, 0,
		     rq.migratetype);
	return head == NO_FRAME ? UINT64_MAX : head;
}

void toy_free_page(struct toy *t, uint32_t pfn, int order)
{
	events_free(t->m->events, &t->m->now, pfn, order);
	zone_free(t->m, pfn, order);
}

void toy_free_one(struct toy *t, uint32_t pfn, int order, char type)
{
	zone_forget_old(t->m, pfn, order);
	buddy_free(t->m, t->zone, pfn, order, type_of(type), t->capture);
}

void toy_drain(struct toy *t)
{
	pcp_drain_all(t->m);
}

__attribute__((format(printf, 2, 3))) static void append(struct toy *t, const char *fmt, ...)
{
	size_t length = strlen(t->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(t->text + length, sizeof(t->text) - length, length ? fmt : fmt + 1, args);
	va_end(args);
}

static void append_event(struct toy *t, const struct event_columns *c, size_t i)
{
	long long pfn = is_valid(c->pfn_valid, i) ? (long long)c->pfn[i] : -1;
	char type = type_letters[c->migratetype[i]];

	switch (c->kind[i]) {
	case EVENT_KIND_ALLOC:
		append(t, " a(%lld)", pfn);
		break;
	case EVENT_KIND_FREE:
		append(t, " f(%lld)", pfn);
		break;
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
		append(t, " zl(%lld,%d,%c)", pfn, c->page_order[i], type);
		break;
	case EVENT_KIND_PCPU_DRAIN:
		append(t, " d(%lld,%c)", pfn, type);
		break;
	default:
		append(t, " x(%lld,%d,%d,%c,%c,%d)", pfn, c->page_order[i], c->fallback_order[i],
		       type, type_letters[c->fallback_migratetype[i]], c->change_ownership[i]);
	}
}

const char *toy_events(struct toy *t)
{
	struct batch *batch;

	t->text[0] = '\0';
	while ((batch = output_pop(t->events.output, true)))
		for (size_t i = 0; i < batch->nr; i++)
			append_event(t, (struct event_columns *)batch->slots, i);
	return t->text;
}

static const char *list_text(struct toy *t, uint32_t list)
{
	t->text[0] = '\0';
	for (uint32_t f = t->m->frames[list].next; f != list; f = t->m->frames[f].next)
		append(t, " %u", f);
	return t->text;
}

const char *toy_list(struct toy *t, int order, char type)
{
	return list_text(t, free_list(t->zone, order, type_of(type)));
}

const char *toy_pcp_list(struct toy *t, int order, char type)
{
	for (int list = 0; list < t->m->nr_pcp_lists; list++) {
		int list_order, list_type;

		pcp_list_of(t->m, list, &list_order, &list_type);
		if (list_order == order && list_type == type_of(type))
			return list_text(t, t->pcp->heads + (uint32_t)list);
	}
	return "no such list";
}

const char *toy_blocks(struct toy *t)
{
	size_t i;

	for (i = 0; i < t->m->nr_frames >> t->m->pageblock_order; i++)
		t->text[i] = type_letters[t->m->blocks[i].migratetype];
	t->text[i] = '\0';
	return t->text;
}

bool same_text(const char *got, const char *wanted)
{
	if (strcmp(got, wanted))
		printf("# got    %s\n# wanted %s\n", got, wanted);
	return !strcmp(got, wanted);
}
