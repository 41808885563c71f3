// SPDX-License-Identifier: Apache-2.0
/* The parser of policies and their parameters: one SPEC per line. */
#include "model/policy_stack.h"
#include "policies/policies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text, *spec;
	struct policy_stack *stack;

	if (!text || policy_stack_new(&stack, policies, NULL))
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	while ((spec = strsep(&rest, "\n"))) {
		struct error err = {""};
		int ret = policy_stack_add(stack, spec, &err);

		assert(!ret || (ret < 0 && err.msg[0]));
	}
	policy_stack_free(stack);
	free(text);
	return 0;
}
