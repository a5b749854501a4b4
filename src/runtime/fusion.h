/* fusion.h - runs of element-wise tasks of one stream that a backend executes as one kernel. The
 * role holder calls. */
#pragma once
#include "runtime/executor.h"

/* How many tasks of the stream, beginning with `first` (the next one, which need not wait), can run
 * together. 1 when `first` must run alone. Takes no task with a ticket above `until`. Fills in
 * steps and changes nothing else. */
int kl_fusion_form(struct kl_stream *s, struct kl_task *first, uint64_t until,
                   struct kl_fusion_step steps[KL_FUSION_STEPS]);
/* Binds memory for the steps and notes the uses, as kl_bind_task does for one task. false: there is
 * not enough memory, and nothing is bound; the tasks then run one by one. */
bool kl_fusion_bind(struct kl_stream *s, struct kl_fusion_step *steps, int n);
/* Undoes it, where the launch wrote nothing. */
void kl_fusion_unbind(struct kl_fusion_step *steps, int n);
/* After the launch: takes donated blocks away from the inputs that they came from. */
void kl_fusion_after_launch(struct kl_fusion_step *steps, int n);
/* Allows fusions, or makes every task run alone, as KEEL_FUSION=off does at start. For tests and
 * measurements. */
void kl_fusion_allow(bool on);
uint64_t kl_fusion_count(void); /* number of fusions that have run */
