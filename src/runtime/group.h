/* group.h - runs of element-wise tasks of one stream that a backend executes as one pass. Inside runtime/ only; the role holder calls. */
#pragma once
#include "runtime/executor.h"

/* The tasks from `first` (the stream's next, which need not wait) on that can run together: their number, 1 when `first` must run alone. Tickets are at most `until`.
 * Changes nothing. */
int kl_group_form(struct kl_stream *s, struct kl_task *first, uint64_t until,
                  struct kl_group_step steps[KL_GROUP_STEPS]);
/* Memory for the steps, as kl_bind_task gives it, and the notes of use. false: there is not enough, and nothing is bound: the tasks run one by one. */
bool kl_group_bind(struct kl_stream *s, struct kl_group_step *steps, int n);
/* After the launch: inputs whose blocks became outputs' let go of them. */
void kl_group_after_launch(struct kl_group_step *steps, int n);
/* KEEL_FUSION=off at start, or this, keeps tasks apart: for tests and measurements. */
void kl_group_allow(bool on);
uint64_t kl_group_count(void); /* groups that have run */
