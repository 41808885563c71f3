// SPDX-License-Identifier: Apache-2.0
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

void source_init(struct source *s)
{
	pthread_condattr_t attr;

	*s = (struct source){.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void source_destroy(struct source *s)
{
	for (; s->waiting; s->waiting--) {
		struct item *item = &s->queue[s->head];

		if (item->table)
			item->array.release(&item->array);
		free(item->checkpoint);
		s->head = (s->head + 1) % SOURCE_QUEUE;
	}
	decoder_free(s->decoder);
	free(s->gaps);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
}

/* A batch or a checkpoint into the queue, when there is room. */
static int put(struct source *s, struct batch *batch, struct checkpoint *checkpoint,
	       struct error *err)
{
	struct item *item;
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	while (s->waiting == SOURCE_QUEUE && !s->cancelled)
		pthread_cond_wait(&s->changed, &s->lock);
	if (s->cancelled) {
		pthread_mutex_unlock(&s->lock);
		return fail(err, ECANCELED, "the reader has gone");
	}
	item = &s->queue[(s->head + s->waiting) % SOURCE_QUEUE];
	*item = (struct item){.table = batch ? batch->table : NULL, .checkpoint = checkpoint};
	if (batch)
		ret = batch_export(batch, &item->array, err);
	if (!ret) {
		s->waiting++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

int source_checkpoint(struct source *s, struct checkpoint *checkpoint, struct error *err)
{
	int ret = put(s, NULL, checkpoint, err);

	if (ret)
		free(checkpoint);
	return ret;
}

static int hand_over(struct source *s, bool all, struct error *err)
{
	struct batch *batch;
	int ret;

	while ((batch = decoder_flush(s->decoder, all, &ret))) {
		ret = put(s, batch, NULL, err);
		if (ret)
			return ret;
	}
	return ret ? fail(err, -ret, "no memory for a batch of events") : 0;
}

int source_add(struct source *s, int cpu, uint64_t ts, const void *record, int size,
	       struct error *err)
{
	while (!decoder_add(s->decoder, cpu, ts, record, size)) {
		int ret = hand_over(s, false, err);

		if (ret)
			return ret;
	}
	return 0;
}

int source_flush(struct source *s, struct error *err)
{
	return hand_over(s, true, err);
}

int source_cut(struct source *s, struct error *err)
{
	int ret = source_flush(s, err);

	if (ret)
		return ret;
	pthread_mutex_lock(&s->lock);
	s->cut = true;
	pthread_cond_broadcast(&s->changed);
	while (s->cut && !s->cancelled)
		pthread_cond_wait(&s->changed, &s->lock);
	ret = s->cut ? fail(err, ECANCELED, "the reader has gone") : 0;
	s->cut = false;
	pthread_mutex_unlock(&s->lock);
	if (!ret) {
		s->nr_gaps = 0;
		decoder_restart(s->decoder);
	}
	return ret;
}

bool source_next(struct source *s)
{
	bool more;

	pthread_mutex_lock(&s->lock);
	more = s->cut && !s->waiting;
	if (more)
		s->cut = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return more;
}

int source_lose(struct source *s, struct gap gap, struct error *err)
{
	struct gap *gaps = s->gaps;

	if (!(s->nr_gaps & (s->nr_gaps - 1))) { /* a power of two, or none: full */
		gaps = reallocarray(gaps, s->nr_gaps ? 2 * s->nr_gaps : 1, sizeof(*gaps));
		if (!gaps)
			return fail(err, ENOMEM, "no memory for %zu gaps", s->nr_gaps);
		s->gaps = gaps;
	}
	gaps[s->nr_gaps++] = gap;
	decoder_gap(s->decoder, gap.cpu);
	return 0;
}

void source_end(struct source *s, int ret, const struct error *err)
{
	pthread_mutex_lock(&s->lock);
	s->ended = true;
	s->ret = ret;
	if (ret < 0)
		s->err = *err;
	else
		s->progress = 1 << 20;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static struct timespec from_now(int ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += ms % 1000 * 1000000L;
	if (at.tv_nsec >= 1000000000L) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000L;
	}
	return at;
}

int source_read(struct source *s, int timeout_ms, struct item *out, struct error *err)
{
	const struct timespec until = from_now(timeout_ms);
	int ret = 1, waited = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->waiting && !s->cut && !s->ended && waited != ETIMEDOUT)
		waited = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	if (s->waiting) {
		*out = s->queue[s->head];
		s->head = (s->head + 1) % SOURCE_QUEUE;
		s->waiting--;
		pthread_cond_broadcast(&s->changed);
	} else if (s->cut) {
		ret = 0;
	} else if (!s->ended) {
		ret = -EAGAIN;
	} else {
		ret = s->ret < 0 ? fail(err, -s->ret, "%s", s->err.msg) : 0;
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

void source_cancel(struct source *s)
{
	pthread_mutex_lock(&s->lock);
	s->cancelled = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

uint64_t source_bad_records(const struct source *s)
{
	return s->bad + (s->decoder ? decoder_bad_records(s->decoder) : 0);
}
